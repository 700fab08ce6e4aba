//! What an operator's schema says about its arguments: kinds, which are written, whether it is a view.
//!
//! The text is PyTorch's own (`torch/csrc/jit/frontend/function_schema_parser.cpp`):
//! `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`.

/// What the relay does with an argument. The numbers are those of `shim/ffi.h`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes on as it is.
    Other = 0,
    /// `Tensor`, `Tensor?`.
    Tensor = 1,
    /// `Tensor[]`.
    List = 2,
    /// `Tensor?[]`.
    OptionalList = 3,
    /// `Device`, `Device?`.
    Device = 4,
    /// `Generator`, `Generator?`.
    Generator = 5,
    /// `Storage`.
    Storage = 6,
    /// `Stream`.
    Stream = 7,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub kind: Kind,
    /// Whether the operator writes to it: `Tensor(a!)`.
    pub written: bool,
}

/// A schema, as far as the relay cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// `aten`.
    pub namespace: String,
    /// `add_`.
    pub name: String,
    /// `Tensor`; empty for the first overload.
    pub overload: String,
    /// In order.
    pub arguments: Vec<Argument>,
    /// How many values come back.
    pub returns: u16,
    /// All that comes back shares an argument's memory, none of it written: `view`, `t`, `split`.
    pub view: bool,
}

impl Schema {
    /// Reads a schema. `None`: it is not one.
    pub fn parse(text: &str) -> Option<Schema> {
        let open = text.find('(')?;
        let (namespace, rest) = text[..open].split_once("::")?;
        let (name, overload) = rest.split_once('.').unwrap_or((rest, ""));
        let close = closing(text, open)?;
        let arguments: Vec<Argument> = split(&text[open + 1..close])
            .into_iter()
            .filter(|a| *a != "*")
            .map(argument)
            .collect::<Option<_>>()?;
        let returned = text[close + 1..].trim().strip_prefix("->")?.trim();
        let returned = match returned.strip_prefix('(') {
            Some(inner) => split(inner.strip_suffix(')')?),
            None => vec![returned],
        };
        let shares = |r: &&str| r.contains('(') && !r.contains('!');
        let view = !returned.is_empty()
            && !arguments.is_empty()
            && returned.iter().all(shares)
            && arguments.iter().all(|a| a.kind != Kind::Device);
        Some(Schema {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            overload: overload.to_owned(),
            arguments,
            returns: u16::try_from(returned.len()).ok()?,
            view,
        })
    }

    /// `add_.Tensor`, `relu`: as PyTorch writes it.
    pub fn full(&self) -> String {
        if self.overload.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.overload) }
    }

    /// Whether some argument is written.
    pub fn writes(&self) -> bool {
        self.arguments.iter().any(|a| a.written)
    }
}

/// `Tensor(a!)[] self`, `*`, `Scalar alpha=1`, `int[2] stride=[1, 1]`, `Tensor?[] indices`, `str mode="a, b"`.
fn argument(text: &str) -> Option<Argument> {
    let declared = text.split('=').next()?.trim();
    let (kind, name) = declared.rsplit_once(' ')?;
    Some(Argument { name: name.to_owned(), kind: kind_of(kind), written: kind.contains('!') })
}

fn kind_of(declared: &str) -> Kind {
    let mut bare = String::new();
    let mut depth = 0;
    for c in declared.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            // `Tensor[3]` is a list as `Tensor[]` is.
            '0'..='9' if bare.ends_with('[') => {}
            c if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    match bare.as_str() {
        "Tensor" | "Tensor?" => Kind::Tensor,
        "Tensor[]" | "Tensor[]?" => Kind::List,
        "Tensor?[]" => Kind::OptionalList,
        "Device" | "Device?" => Kind::Device,
        "Generator" | "Generator?" => Kind::Generator,
        "Storage" => Kind::Storage,
        "Stream" | "Stream?" => Kind::Stream,
        _ => Kind::Other,
    }
}

/// The bracket that closes the one at `open`.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut quoted = false;
    for (i, c) in text.char_indices().skip_while(|(i, _)| *i < open) {
        match c {
            '"' | '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// At the commas outside all brackets and quotes.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut quoted, mut start) = (0i32, false, 0);
    for (i, c) in text.char_indices() {
        match c {
            '"' | '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Schema {
        Schema::parse(text).unwrap()
    }
    fn kinds(text: &str) -> Vec<Kind> {
        read(text).arguments.iter().map(|a| a.kind).collect()
    }

    #[test]
    fn in_place() {
        let s = read("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
        assert_eq!((s.namespace.as_str(), s.full().as_str()), ("aten", "add_.Tensor"));
        assert_eq!(s.arguments.iter().map(|a| a.written).collect::<Vec<_>>(), [true, false, false]);
        assert!(s.writes() && !s.view);
        assert_eq!(s.returns, 1);
    }

    #[test]
    fn views() {
        assert!(read("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)").view);
        assert!(
            read("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]").view
        );
        assert!(!read("aten::mm(Tensor self, Tensor mat2) -> Tensor").view);
        // It names a device, so it is no mere view.
        assert!(!read("aten::to.device(Tensor(a) self, Device device) -> Tensor(a)").view);
        assert!(!read("aten::is_same_size(Tensor self, Tensor other) -> bool").view);
    }

    #[test]
    fn lists_devices_and_the_rest() {
        assert_eq!(kinds("aten::cat(Tensor[] tensors, int dim=0) -> Tensor"), [Kind::List, Kind::Other]);
        assert_eq!(
            kinds(
                "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)"
            ),
            [Kind::Tensor, Kind::OptionalList, Kind::Tensor, Kind::Other]
        );
        assert_eq!(
            kinds(
                "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor"
            ),
            [Kind::Other, Kind::Other, Kind::Device]
        );
        assert_eq!(
            kinds("aten::_cudnn_rnn(Tensor input, Tensor[3] weight) -> (Tensor, Tensor)"),
            [Kind::Tensor, Kind::List]
        );
        let s = read("aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()");
        assert_eq!((s.arguments[0].kind, s.arguments[0].written, s.returns), (Kind::List, true, 0));
        assert_eq!(
            kinds("aten::set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)"),
            [Kind::Tensor, Kind::Storage]
        );
        assert_eq!(
            kinds("aten::record_stream(Tensor(a!) self, Stream s) -> ()"),
            [Kind::Tensor, Kind::Stream]
        );
    }

    #[test]
    fn defaults_with_commas_brackets_and_quotes() {
        let s = read(
            "aten::f(Tensor x, int[2] stride=[1, 1], str mode=\"a, b)\", float e=1e-05, *, Generator? generator=None) -> (Tensor a, Tensor b)",
        );
        let names: Vec<_> = s.arguments.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["x", "stride", "mode", "e", "generator"]);
        assert_eq!(s.arguments[4].kind, Kind::Generator);
        assert_eq!(s.returns, 2);
    }

    #[test]
    fn a_text_that_is_no_schema() {
        for bad in ["", "add", "aten::add", "aten::add(", "add(Tensor x) -> Tensor", "aten::add(Tensor x)"] {
            assert_eq!(Schema::parse(bad), None, "{bad}");
        }
    }
}
