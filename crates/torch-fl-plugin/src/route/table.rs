//! What there is in the dispatcher.

use std::collections::BTreeMap;

use super::{Error, Place, Rule};
use crate::schema::Schema;

/// Which kernels an operator has. The bits are those of `shim/ffi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(pub u32);

impl Facts {
    /// The target's kernels, one bit for each functionality (dense, sparse, sparse CSR, quantized, nested).
    pub const FUNCTIONALITIES: [(u32, &str); 5] =
        [(1, "dense"), (2, "sparse"), (4, "sparse-csr"), (8, "quantized"), (16, "nested")];
    /// A kernel made of other operators, for all backends.
    pub const COMPOSITE_EXPLICIT: u32 = 32;
    /// The same, but not for tensors without storage.
    pub const COMPOSITE_NON_FUNCTIONAL: u32 = 64;
    /// A kernel made of other operators that autograd sees through.
    pub const COMPOSITE_IMPLICIT: u32 = 128;
    /// Somebody has put a kernel on `PrivateUse1` already.
    pub const CLAIMED: u32 = 256;
    /// A kernel of the host.
    pub const ON_CPU: u32 = 512;

    /// Any of these bits.
    pub fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
}

/// An operator of the dispatcher.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its schema.
    pub schema: Schema,
    /// Its kernels.
    pub facts: Facts,
    /// Its place in the list that the dispatcher gave.
    pub index: u32,
}

impl Entry {
    /// `aten::add.Tensor`.
    pub fn qualified(&self) -> String {
        format!("{}::{}", self.schema.namespace, self.schema.full())
    }
}

/// All operators.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In the dispatcher's order.
    pub entries: Vec<Entry>,
    names: BTreeMap<String, Vec<usize>>,
    variables: BTreeMap<String, Vec<String>>,
}

impl Table {
    /// From schemas and facts, in the dispatcher's order. One whose schema cannot be read is left out: nothing is
    /// registered for it.
    pub fn new(operators: impl IntoIterator<Item = (String, u32)>) -> Table {
        let mut table = Table::default();
        for (index, (text, facts)) in operators.into_iter().enumerate() {
            let (Some(schema), Ok(index)) = (Schema::parse(&text), u32::try_from(index)) else { continue };
            table.add(Entry { schema, facts: Facts(facts), index });
        }
        table
    }

    fn add(&mut self, entry: Entry) {
        let i = self.entries.len();
        let s = &entry.schema;
        let mut spellings = vec![entry.qualified(), format!("{}::{}", s.namespace, s.name)];
        if s.namespace == "aten" {
            spellings.extend([s.full(), s.name.clone()]);
        }
        spellings.dedup();
        for spelling in spellings {
            let at = self.names.entry(spelling).or_default();
            if !at.contains(&i) {
                at.push(i);
            }
        }
        if s.namespace == "aten" {
            for (variable, spelling) in
                [(s.full().replace('.', "_"), s.full()), (s.name.clone(), s.name.clone())]
            {
                let at = self.variables.entry(variable).or_default();
                if !at.contains(&spelling) {
                    at.push(spelling);
                }
            }
        }
        self.entries.push(entry);
    }

    /// The entries that a rule means.
    pub(super) fn meant(&self, rule: &Rule) -> Result<&[usize], Error> {
        let spelling = match &rule.place {
            Place::File(..) => &rule.operator,
            Place::Variable(_) => self.spelling_of_variable(rule)?,
        };
        self.names.get(spelling).map(Vec::as_slice).ok_or_else(|| self.unknown(rule))
    }

    /// A shell's variable has no dots: `add_Tensor` is `add.Tensor`, unless an operator has that very name.
    fn spelling_of_variable<'a>(&'a self, rule: &'a Rule) -> Result<&'a String, Error> {
        if self.names.contains_key(&rule.operator) {
            return Ok(&rule.operator);
        }
        match self.variables.get(&rule.operator).map(Vec::as_slice) {
            Some([one]) => Ok(one),
            Some([first, second, ..]) => Err(Error::Ambiguous {
                place: rule.place.clone(),
                first: first.clone(),
                second: second.clone(),
            }),
            _ => Err(self.unknown(rule)),
        }
    }

    fn unknown(&self, rule: &Rule) -> Error {
        Error::Operator {
            place: rule.place.clone(),
            operator: rule.operator.clone(),
            near: nearest(&rule.operator, self.names.keys().map(String::as_str)).map(str::to_owned),
        }
    }

    /// The entries of a name as a person would write it.
    pub fn find(&self, name: &str) -> Vec<&Entry> {
        self.names.get(name).into_iter().flatten().map(|&i| &self.entries[i]).collect()
    }

    /// The known name nearest to one that is not known.
    pub fn near(&self, name: &str) -> Option<&str> {
        nearest(name, self.names.keys().map(String::as_str))
    }
}

/// The likeliest spelling, if any is near.
pub(super) fn nearest<'a>(text: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    all.map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
