//! What each operator gets.

use super::{Backend, Entry, Error, Facts, Rule, Rules, Table};
use crate::schema::Kind;

/// The kernel that is registered. The numbers are those of `shim/ffi.h`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The vendor's kernel, arguments on the interpreter's stack.
    Boxed = 0,
    /// The vendor's kernel, called by its C++ signature.
    Typed = 1,
    /// The host's kernel.
    Cpu = 2,
    /// The vendor's kernel on the flagos tensor itself: a view, which names no device.
    View = 100,
    /// Nothing is registered: PyTorch's composite runs, and what it calls is relayed.
    Composite = 101,
    /// The shim has one of its own.
    Own = 102,
    /// No backend has one: calling it is PyTorch's error, or its fallback to the host.
    Nothing = 103,
}

impl Way {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Way::Boxed => "boxed",
            Way::Typed => "typed",
            Way::Cpu => "cpu",
            Way::View => "view",
            Way::Composite => "composite",
            Way::Own => "own",
            Way::Nothing => "none",
        }
    }
}

/// What one operator gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its place in the table.
    pub entry: usize,
    /// The kernel for dense tensors.
    pub way: Way,
    /// The functionalities for which a kernel is registered, as bits of [`Facts`].
    pub functionalities: u32,
    /// The signature of the typed relay.
    pub signature: Option<i16>,
    /// Whether tensors of other devices may come along.
    pub mixed: bool,
    /// Whether aliases are told that autograd wants their gradient.
    pub grad: bool,
    /// The results that stay on the host, as bits.
    pub host_returns: u8,
    /// The rule that asked for it; `None`: the built-in ones.
    pub rule: Option<Rule>,
}

/// Operators that the shim registers by hand.
const OWN: [&str; 7] = [
    "_batch_norm_impl_index",
    "_copy_from",
    "_copy_from_and_resize",
    "_has_compatible_shallow_copy_type",
    "cudnn_is_acceptable",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_fused_attention_overrideable_backward",
];

/// Their kernels ask the arguments whether autograd wants a gradient, which an alias does not know by itself.
const ASK_AUTOGRAD: [&str; 1] = ["_sparse_mm_reduce_impl"];

/// Their results are tensors of the host, whatever device the argument is on, and they look at nothing else of it.
const HOST_RESULT: [&str; 3] =
    ["_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets"];

/// Of their results these, as bits, lie on the host, whatever device the arguments are on. Only where the host is the
/// target itself they look like the others.
const HOST_RETURNS: [(&str, u8); 1] = [("_pack_padded_sequence", 0b10)];

/// Operators that take tensors of the host beside those of a device (`device_check: NoCheck` in PyTorch's
/// `native_functions.yaml`, and no `TensorIterator` that checks). A target that is not the host knows its own exceptions;
/// on the host nothing but this list can tell.
const HOST_ARGUMENTS: [&str; 9] = [
    "index",
    "index_put",
    "_index_put_impl",
    "_unsafe_index",
    "set_",
    "tensor_split",
    "ctc_loss",
    "nested",
    "pack_padded",
];

impl Table {
    /// Brings wishes and kernels together. `host`: the target is the host itself. Every mistake is reported.
    pub fn decide(
        &self,
        rules: &Rules,
        host: bool,
        signature: impl Fn(&str) -> Option<i16>,
    ) -> Result<Vec<Decision>, Vec<Error>> {
        let wishes = self.wishes(rules)?;
        let mut errors = Vec::new();
        let mut decisions = Vec::new();
        for (i, (entry, wish)) in self.entries.iter().zip(wishes).enumerate() {
            match entry.decide(wish, &signature) {
                Ok((way, functionalities, signature)) => decisions.push(Decision {
                    entry: i,
                    way,
                    functionalities,
                    signature,
                    mixed: entry.may_mix(host),
                    grad: entry.asks_autograd(),
                    host_returns: entry.host_returns(),
                    rule: wish.cloned(),
                }),
                Err(e) => errors.push(e),
            }
        }
        if errors.is_empty() { Ok(decisions) } else { Err(errors) }
    }

    /// The rule that applies to each entry.
    fn wishes<'a>(&self, rules: &'a Rules) -> Result<Vec<Option<&'a Rule>>, Vec<Error>> {
        let mut wishes: Vec<Option<(&Rule, bool)>> = vec![None; self.entries.len()];
        let mut errors = Vec::new();
        for rule in &rules.all {
            let meant = match self.meant(rule) {
                Ok(meant) => meant,
                Err(e) => {
                    errors.push(e);
                    continue;
                }
            };
            let exact = meant.len() == 1;
            let variable = |r: &Rule| matches!(r.place, super::Place::Variable(_));
            for &i in meant {
                // A bare name does not undo what the same kind of place says of one overload.
                let stands =
                    matches!(wishes[i], Some((other, true)) if !exact && variable(other) == variable(rule));
                if !stands {
                    wishes[i] = Some((rule, exact));
                }
            }
        }
        if errors.is_empty() {
            Ok(wishes.into_iter().map(|w| w.map(|(r, _)| r)).collect())
        } else {
            Err(errors)
        }
    }
}

impl Entry {
    /// Way, functionalities, signature.
    fn decide(
        &self,
        wish: Option<&Rule>,
        signature: impl Fn(&str) -> Option<i16>,
    ) -> Result<(Way, u32, Option<i16>), Error> {
        let facts = self.facts;
        let aten = self.schema.namespace == "aten";
        if facts.any(Facts::CLAIMED) || (aten && OWN.contains(&self.schema.name.as_str())) {
            return match wish {
                Some(rule) => Err(self.no_kernel(rule)),
                None => Ok((Way::Own, 0, None)),
            };
        }
        let composite =
            Facts::COMPOSITE_EXPLICIT | Facts::COMPOSITE_NON_FUNCTIONAL | Facts::COMPOSITE_IMPLICIT;
        match wish {
            Some(rule) if rule.backend == Backend::Cpu && facts.any(Facts::ON_CPU | composite) => {
                Ok((Way::Cpu, Facts::FUNCTIONALITIES[0].0, None))
            }
            Some(rule) if rule.backend == Backend::Composite && facts.any(composite) => {
                Ok((Way::Composite, 0, None))
            }
            Some(rule) if rule.backend != Backend::Vendor => Err(self.no_kernel(rule)),
            Some(rule) if self.relayed() == 0 => Err(self.no_kernel(rule)),
            _ => Ok(self.relay(signature)),
        }
    }

    /// The functionalities with a kernel of the target. A composite that autograd does not see through is run by the
    /// target as a whole: on flagos tensors each of its inner calls would be relayed by itself.
    fn relayed(&self) -> u32 {
        let facts = self.facts;
        let all: u32 = Facts::FUNCTIONALITIES.iter().map(|(bit, _)| bit).sum();
        let explicit = Facts::COMPOSITE_EXPLICIT | Facts::COMPOSITE_NON_FUNCTIONAL;
        let whole = self.schema.namespace == "aten"
            && facts.any(explicit)
            && !facts.any(Facts::COMPOSITE_IMPLICIT | Facts::FUNCTIONALITIES[0].0);
        (facts.0 & all) | if whole { Facts::FUNCTIONALITIES[0].0 } else { 0 }
    }

    fn relay(&self, signature: impl Fn(&str) -> Option<i16>) -> (Way, u32, Option<i16>) {
        let functionalities = self.relayed();
        if functionalities == 0 {
            let composite = self.facts.any(Facts::COMPOSITE_EXPLICIT | Facts::COMPOSITE_IMPLICIT);
            return (if composite { Way::Composite } else { Way::Nothing }, 0, None);
        }
        let signature = if self.boxed_only() { None } else { signature(&self.qualified()) };
        let way = match signature {
            _ if self.passes() => Way::View,
            Some(_) => Way::Typed,
            None => Way::Boxed,
        };
        (way, functionalities, signature)
    }

    /// The target's kernel runs on the flagos tensor itself.
    fn passes(&self) -> bool {
        let s = &self.schema;
        s.namespace == "aten" && (s.view || HOST_RESULT.contains(&s.name.as_str()))
    }

    fn boxed_only(&self) -> bool {
        self.asks_autograd()
            || self.host_returns() != 0
            || self.schema.arguments.iter().any(|a| matches!(a.kind, Kind::Storage | Kind::Stream))
    }

    fn host_returns(&self) -> u8 {
        HOST_RETURNS.iter().find(|(name, _)| *name == self.schema.name).map_or(0, |(_, bits)| *bits)
    }

    fn asks_autograd(&self) -> bool {
        ASK_AUTOGRAD.contains(&self.schema.name.as_str())
    }

    fn may_mix(&self, host: bool) -> bool {
        let name = self.schema.name.as_str();
        let bare = name.trim_end_matches('_');
        name.contains("copy")
            || (host
                && HOST_ARGUMENTS
                    .iter()
                    .any(|n| bare == n.trim_end_matches('_') || (n.len() > 5 && name.contains(n))))
    }

    fn no_kernel(&self, rule: &Rule) -> Error {
        Error::NoKernel {
            place: rule.place.clone(),
            operator: self.qualified(),
            backend: rule.backend.name(),
        }
    }
}
