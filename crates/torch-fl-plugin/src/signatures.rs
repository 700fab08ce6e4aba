//! The C++ signatures of operators, read from the headers of the torch that is compiled against.
//!
//! `ATen/ops/*_ops.h` (written by PyTorch's torchgen) say for every operator what function type its kernels have:
//!
//! ```text
//! struct TORCH_API add_Tensor {
//!   using schema = at::Tensor (const at::Tensor &, const at::Tensor &, const at::Scalar &);
//!   static constexpr const char* name = "aten::add";
//!   static constexpr const char* overload_name = "Tensor";
//! ```
//!
//! One unboxed relay is compiled for each signature, not for each operator; the commonest few hundred serve nearly all.
//! The type has to be exactly PyTorch's: the dispatcher keeps one C++ signature an operator, and calls by it unchecked.
//! The build script compiles this file too.

use std::collections::{BTreeMap, BTreeSet};

/// An operator of `ATen` and the type of its kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// `aten::add.Tensor`, `aten::relu`.
    pub name: String,
    /// `at::Tensor (const at::Tensor &)`.
    pub signature: String,
}

/// All operators of one `*_ops.h`.
pub fn read_header(text: &str) -> Vec<Operator> {
    let mut found = Vec::new();
    let (mut signature, mut name) = (None, None);
    for line in text.lines() {
        let line = line.trim();
        if let Some(s) = line.strip_prefix("using schema = ") {
            signature = s.strip_suffix(';').map(str::to_owned);
        } else if let Some(n) = literal(line, "static constexpr const char* name = ") {
            name = Some(n);
        } else if let Some(overload) = literal(line, "static constexpr const char* overload_name = ")
            && let (Some(signature), Some(name)) = (signature.take(), name.take())
        {
            let name = if overload.is_empty() { name } else { format!("{name}.{overload}") };
            found.push(Operator { name, signature });
        }
    }
    found
}

fn literal(line: &str, prefix: &str) -> Option<String> {
    line.strip_prefix(prefix)?.strip_prefix('"')?.strip_suffix("\";").map(str::to_owned)
}

/// The operators that have a kernel of some device, by `ATen/RegistrationDeclarations.h`: a comment of JSON a line. The
/// others are composites, which reach the relay as the operators that they are made of. Overloads with `out` are left to
/// the boxed relay: most are made by a machine, and hardly anybody calls them.
pub fn read_dispatched(text: &str) -> BTreeSet<String> {
    let schema = |line: &str| {
        let comment = line.split_once("// {\"schema\": \"")?.1;
        let (schema, rest) = comment.split_once("\", ")?;
        let name = schema.split('(').next().unwrap_or(schema);
        (rest.contains("\"dispatch\": \"True\"") && !name.ends_with("out")).then(|| name.to_owned())
    };
    text.lines().filter_map(schema).collect()
}

/// The signatures to compile, commonest first, and for each operator that has one of them its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// C++ function types.
    pub signatures: Vec<String>,
    /// Sorted by name.
    pub operators: Vec<(String, usize)>,
}

/// The `limit` signatures that the most dispatched operators have. The same input gives the same choice.
pub fn choose(operators: &[Operator], dispatched: &BTreeSet<String>, limit: usize) -> Choice {
    let mut count = BTreeMap::<&str, usize>::new();
    for op in operators.iter().filter(|op| dispatched.contains(&op.name) && can_be_unboxed(&op.signature)) {
        // What people call by name counts more than what PyTorch has for itself.
        let internal = op.name.contains("::_");
        *count.entry(&op.signature).or_default() += if internal { 2 } else { 3 };
    }
    let mut ranked: Vec<_> = count.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    ranked.truncate(limit);
    let index: BTreeMap<&str, usize> = ranked.iter().enumerate().map(|(i, (s, _))| (*s, i)).collect();
    let mut chosen: Vec<(String, usize)> = operators
        .iter()
        .filter_map(|op| Some((op.name.clone(), *index.get(op.signature.as_str())?)))
        .collect();
    chosen.sort();
    chosen.dedup_by(|a, b| a.0 == b.0);
    Choice { signatures: ranked.into_iter().map(|(s, _)| s.to_owned()).collect(), operators: chosen }
}

/// Storages and streams are seldom, and the boxed relay does them.
fn can_be_unboxed(signature: &str) -> bool {
    !signature.contains("at::Storage") && !signature.contains("at::Stream")
}

/// The C++ of part `part` of `parts`: every `parts`-th signature, so that all take about as long to compile.
pub fn source(choice: &Choice, part: usize, parts: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("#include \"typed.h\"\n\nnamespace fl {\n");
    let _ =
        writeln!(text, "extern const Install typed_part_{part}[];\nconst Install typed_part_{part}[] = {{");
    for signature in choice.signatures.iter().skip(part).step_by(parts) {
        let _ = writeln!(text, "    &install<{signature}>,");
    }
    text.push_str("    nullptr};\n}  // namespace fl\n");
    text
}

/// The C++ that finds signature `i` in its part.
pub fn index_source(parts: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("#include \"fl.h\"\n\nnamespace fl {\n");
    for part in 0..parts {
        let _ = writeln!(text, "extern const Install typed_part_{part}[];");
    }
    let names: Vec<_> = (0..parts).map(|part| format!("typed_part_{part}")).collect();
    let _ = writeln!(
        text,
        "Install typed_install(size_t i) {{\n  static const Install* const parts[] = {{{}}};\n  \
         return parts[i % {parts}][i / {parts}];\n}}\n}}  // namespace fl",
        names.join(", ")
    );
    text
}

/// The Rust table of operators and the index of their signature.
pub fn table(choice: &Choice) -> String {
    use std::fmt::Write as _;
    let mut text = format!("pub(crate) static OPERATORS: [(&str, i16); {}] = [\n", choice.operators.len());
    for (name, index) in &choice.operators {
        let _ = writeln!(text, "    ({name:?}, {index}),");
    }
    text.push_str("];\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"
struct TORCH_API add_Tensor {
  using schema = at::Tensor (const at::Tensor &, const at::Scalar &);
  using ptr_schema = schema*;
  static constexpr const char* name = "aten::add";
  static constexpr const char* overload_name = "Tensor";
  static constexpr const char* schema_str = "add.Tensor(Tensor self, Scalar other) -> Tensor";
  static at::Tensor call(const at::Tensor & self, const at::Scalar & other);
};
struct TORCH_API relu {
  using schema = at::Tensor (const at::Tensor &);
  static constexpr const char* name = "aten::relu";
  static constexpr const char* overload_name = "";
};
"#;

    fn op(name: &str, signature: &str) -> Operator {
        Operator { name: name.to_owned(), signature: signature.to_owned() }
    }

    #[test]
    fn headers() {
        let add = op("aten::add.Tensor", "at::Tensor (const at::Tensor &, const at::Scalar &)");
        assert_eq!(read_header(HEADER), [add, op("aten::relu", "at::Tensor (const at::Tensor &)")]);
    }

    #[test]
    fn dispatched_operators() {
        let text = "// a comment\n\
            at::Tensor & relu_out(at::Tensor & out); // {\"schema\": \"aten::relu.out(Tensor self) -> Tensor\", \"dispatch\": \"True\", \"default\": \"True\"}\n\
            at::Tensor relu(const at::Tensor & self); // {\"schema\": \"aten::relu(Tensor self) -> Tensor\", \"dispatch\": \"True\", \"default\": \"False\"}\n\
            at::Tensor dropout(const at::Tensor & input); // {\"schema\": \"aten::dropout(Tensor input) -> Tensor\", \"dispatch\": \"False\", \"default\": \"True\"}\n";
        assert_eq!(read_dispatched(text), BTreeSet::from(["aten::relu".to_owned()]));
    }

    #[test]
    fn the_commonest_signatures() {
        let ops = [
            op("a", "T ()"),
            op("b", "U ()"),
            op("c", "U ()"),
            op("d", "V ()"),
            op("e", "V ()"),
            op("f", "V ()"),
        ];
        let all: BTreeSet<_> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let choice = choose(&ops, &all, 2);
        // `f` does not count, so U and V are as common; `a` has no relay of its own, `f` takes the one that is there.
        assert_eq!(choice.signatures, ["U ()", "V ()"]);
        let found: Vec<_> = choice.operators.iter().map(|(n, i)| (n.as_str(), *i)).collect();
        assert_eq!(found, [("b", 0), ("c", 0), ("d", 1), ("e", 1), ("f", 1)]);
    }

    #[test]
    fn storages_stay_boxed() {
        let ops = [op("a", "at::Tensor & (at::Tensor &, at::Storage)")];
        assert_eq!(choose(&ops, &BTreeSet::from(["a".to_owned()]), 9), Choice::default());
    }

    #[test]
    fn every_signature_is_in_one_part() {
        let choice =
            Choice { signatures: ["A ()", "B ()", "C ()"].map(str::to_owned).into(), operators: vec![] };
        assert!(source(&choice, 0, 2).contains("&install<A ()>,\n    &install<C ()>,\n    nullptr"));
        assert!(source(&choice, 1, 2).contains("&install<B ()>,\n    nullptr"));
        assert!(index_source(2).contains("parts[i % 2][i / 2]"));
    }
}
