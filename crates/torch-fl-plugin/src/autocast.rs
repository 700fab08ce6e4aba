//! PyTorch's own policies of automatic mixed precision, read from the torch that is compiled against.
//!
//! `ATen/autocast_mode.h` has one macro a policy, with an operator a line: `_(matmul)`, `_(norm, Scalar)`, and where
//! PyTorch's kernel calls another overload, `_(ADD_NS(norm), "norm.Scalar", …)`. The build script compiles this file too.

/// What happens to the arguments of an operator. The numbers are those of `shim/ffi.h`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// To half precision.
    Lower = 3,
    /// To float32.
    Single = 4,
    /// `dtype` becomes float32 where it is not given.
    Dtype = 5,
    /// To the widest type among them.
    Promote = 6,
    /// Refused: unsafe in half precision.
    Banned = 7,
}

const MACROS: [(&str, Policy); 5] = [
    ("AT_FORALL_LOWER_PRECISION_FP", Policy::Lower),
    ("AT_FORALL_FP32", Policy::Single),
    ("AT_FORALL_FP32_SET_OPT_DTYPE", Policy::Dtype),
    ("AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE", Policy::Single),
    ("AT_FORALL_PROMOTE", Policy::Promote),
];

/// Operators (`norm.Scalar`) and their policies, sorted. Two are in no macro: PyTorch registers the refusal of one by hand
/// (`aten/src/ATen/autocast_mode.cpp`), and casts the weights of the other in a kernel of its own
/// (`aten/src/ATen/native/cudnn/RNN.cpp`).
pub fn read(text: &str) -> Vec<(String, Policy)> {
    let by_hand = [("binary_cross_entropy", Policy::Banned), ("_cudnn_rnn", Policy::Lower)];
    let mut found: Vec<_> = by_hand.iter().map(|(name, policy)| ((*name).to_owned(), *policy)).collect();
    for (name, policy) in MACROS {
        let Some(start) = text.find(&format!("#define {name}(_)")) else { continue };
        let lines = text[start..].lines();
        let mut body = String::new();
        for line in lines {
            let continued = line.trim_end().ends_with('\\');
            body.push_str(line.trim_end().trim_end_matches('\\'));
            body.push(' ');
            if !continued {
                break;
            }
        }
        let entries = body.split("_(").skip(1);
        found.extend(entries.filter_map(|e| Some((operator(e)?, policy))));
    }
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

fn operator(entry: &str) -> Option<String> {
    if let Some(quoted) = entry.trim_start().strip_prefix("ADD_NS(") {
        return quoted.split('"').nth(1).map(str::to_owned);
    }
    let inside = entry.split(')').next()?;
    let parts: Vec<_> = inside.split(',').map(str::trim).collect();
    match parts[..] {
        [name] => Some(name.to_owned()),
        [name, overload] => Some(format!("{name}.{overload}")),
        _ => None,
    }
}

/// The Rust table.
pub fn table(found: &[(String, Policy)]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("pub(crate) static AUTOCAST: [(&str, u8); {}] = [\n", found.len());
    for (name, policy) in found {
        let _ = writeln!(text, "    ({name:?}, {}),", *policy as u8);
    }
    text.push_str("];\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros() {
        let text = "#define AT_FORALL_LOWER_PRECISION_FP(_)  \\\n  _(_convolution, deprecated)  \\\n  _(matmul)\n\n\
            #define AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(_) \\\n  _(ADD_NS(norm), \\\n    \"norm.Scalar\", \\\n    Tensor(const Tensor&), fp32_append_dtype)\n";
        let found = read(text);
        let named: Vec<_> = found.iter().map(|(n, p)| (n.as_str(), *p)).collect();
        assert_eq!(
            named,
            [
                ("_convolution.deprecated", Policy::Lower),
                ("_cudnn_rnn", Policy::Lower),
                ("binary_cross_entropy", Policy::Banned),
                ("matmul", Policy::Lower),
                ("norm.Scalar", Policy::Single),
            ]
        );
    }
}
