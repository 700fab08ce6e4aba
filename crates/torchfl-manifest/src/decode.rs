//! From a TOML tree with spans to typed values, going on after a mistake so that all are reported.
//!
//! serde would stop at the first one.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::problem::{Problem, nearest, place};
use crate::spanned::Spanned;

/// A value as the TOML parser gives it.
pub(crate) type Node<'i> = toml::Spanned<DeValue<'i>>;

/// What a checked string has against a text.
pub(crate) struct Complaint {
    pub(crate) message: String,
    pub(crate) nearest: Option<String>,
}

impl Complaint {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), nearest: None }
    }
}

/// A type that can stand for a key's value.
pub(crate) trait Field: Sized {
    /// What is taken where the key is left out; `None` where it must not be.
    fn absent() -> Option<Self> {
        None
    }

    /// Fills the place of a value that could not be read, so that reading can go on. A manifest that holds one
    /// is never handed out.
    fn stand_in() -> Self;

    /// Reads `node`; what is wrong with it goes to `context`.
    fn decode(node: &Node<'_>, context: &mut Context) -> Self;
}

/// Where the reader is, and what it has found.
#[derive(Default)]
pub(crate) struct Context {
    path: Vec<String>,
    problems: Vec<Problem>,
    /// How many of them were found by reading, before rules between keys were looked at.
    read: usize,
}

impl Context {
    pub(crate) fn report(&mut self, code: &'static str, span: Range<usize>, complaint: Complaint) {
        let key = self.path.join(".").replace(".[", "[");
        self.report_at(key, code, span, complaint);
    }

    /// A problem found after reading, about `key`.
    pub(crate) fn report_at(
        &mut self,
        key: String,
        code: &'static str,
        span: Range<usize>,
        complaint: Complaint,
    ) {
        let Complaint { message, nearest } = complaint;
        self.problems.push(Problem { code, key, span, line: 0, column: 0, message, nearest });
    }

    /// Ends reading: [`Context::sound`] heeds no later problem.
    pub(crate) fn read(&mut self) {
        self.read = self.problems.len();
    }

    /// True where `key`, each part of it and the tables that it is in could be read.
    pub(crate) fn sound(&self, key: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        !self.problems[..self.read]
            .iter()
            .any(|problem| within(&problem.key, key) || within(key, &problem.key))
    }

    /// All problems in the order of the text, with their places in it.
    pub(crate) fn finish(mut self, text: &str) -> Vec<Problem> {
        for problem in &mut self.problems {
            (problem.line, problem.column) = place(text, problem.span.start);
        }
        self.problems.sort_by(|a, b| (a.span.start, a.code, &a.key).cmp(&(b.span.start, b.code, &b.key)));
        self.problems
    }

    pub(crate) fn inside<T>(&mut self, segment: String, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(segment);
        let value = read(self);
        self.path.pop();
        value
    }

    /// Says that `node` is not of the type `wanted`.
    pub(crate) fn wrong_type(&mut self, node: &Node<'_>, wanted: &str) {
        let found = match node.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.report("E-MAN-011", node.span(), Complaint::new(format!("expected {wanted}, found {found}")));
    }

    pub(crate) fn table<'a, 'i>(&mut self, node: &'a Node<'i>) -> Option<&'a DeTable<'i>> {
        let DeValue::Table(table) = node.get_ref() else {
            self.wrong_type(node, "a table");
            return None;
        };
        Some(table)
    }

    /// Complains about each key of `table` that is not in `known`.
    pub(crate) fn known_keys(&mut self, table: &DeTable<'_>, known: &[String]) {
        for (key, _) in table {
            let name: &str = key.get_ref();
            if known.iter().any(|known| known == name) {
                continue;
            }
            let near = nearest(name, known.iter().map(String::as_str));
            let message = match &near {
                Some(_) => format!("unknown key `{name}`"),
                None => format!("unknown key `{name}`; the keys here are {}", known.join(", ")),
            };
            self.inside(name.to_owned(), |context| {
                context.report("E-MAN-010", key.span(), Complaint { message, nearest: near });
            });
        }
    }

    /// Reads the key `name` of `table`, whose header or braces are at `span`.
    pub(crate) fn key<T: Field>(&mut self, table: &DeTable<'_>, span: Range<usize>, name: &str) -> T {
        self.inside(name.to_owned(), |context| match (table.get(name), T::absent()) {
            (Some(node), _) => T::decode(node, context),
            (None, Some(absent)) => absent,
            (None, None) => {
                context.report("E-MAN-012", span, Complaint::new(format!("missing key `{name}`")));
                T::stand_in()
            }
        })
    }
}

/// A spanned value is never left out: where there is no text there is no span.
impl<T: Field> Field for Spanned<T> {
    fn stand_in() -> Self {
        Self { value: T::stand_in(), span: 0..0 }
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        Self { value: T::decode(node, context), span: node.span() }
    }
}

impl<T: Field> Field for Option<T> {
    fn absent() -> Option<Self> {
        Some(None)
    }

    fn stand_in() -> Self {
        None
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        Some(T::decode(node, context))
    }
}

impl<T: Field> Field for Vec<T> {
    fn absent() -> Option<Self> {
        Some(Vec::new())
    }

    fn stand_in() -> Self {
        Vec::new()
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        let DeValue::Array(items) = node.get_ref() else {
            context.wrong_type(node, "an array");
            return Vec::new();
        };
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let before = context.problems.len();
            let value = context.inside(format!("[{index}]"), |context| T::decode(item, context));
            // An entry that could not be read would only raise further complaints.
            if context.problems.len() == before {
                values.push(value);
            }
        }
        values
    }
}

impl<K: Name, T: Field> Field for BTreeMap<K, T> {
    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn stand_in() -> Self {
        Self::new()
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        let Some(table) = context.table(node) else { return Self::new() };
        let mut values = Self::new();
        for (key, item) in table {
            context.inside(key.get_ref().to_string(), |context| match K::name(key.get_ref()) {
                Ok(name) => {
                    values.insert(name, T::decode(item, context));
                }
                Err(complaint) => context.report(K::CODE, key.span(), complaint),
            });
        }
        values
    }
}

impl Field for i64 {
    fn stand_in() -> Self {
        0
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        let DeValue::Integer(integer) = node.get_ref() else {
            context.wrong_type(node, "an integer");
            return 0;
        };
        Self::from_str_radix(integer.as_str(), integer.radix()).unwrap_or_else(|_| {
            context.report("E-MAN-011", node.span(), Complaint::new("the integer is too large"));
            0
        })
    }
}

/// A string with rules: a library's name, a release.
pub(crate) trait Name: Sized + Ord {
    /// The code of a breach of its rules.
    const CODE: &'static str;

    fn name(text: &str) -> Result<Self, Complaint>;
}

/// Declares a table of the manifest: the struct, its keys (`_` is written `-`) and how it is read.
///
/// A field's type says whether its key may be left out ([`Field::absent`]); `#[schemars(default)]` says the same
/// to the schema, and a test holds the two together.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$attribute:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
        #[schemars(rename_all = "kebab-case", deny_unknown_fields)]
        pub struct $name { $($(#[$attribute])* pub $field: $type,)* }

        impl $name {
            /// Its fields in the order of the reference; a key writes `-` for `_`.
            pub(crate) const FIELDS: &[&str] = &[$(stringify!($field),)*];
        }

        impl $crate::decode::Field for $name {
            fn stand_in() -> Self {
                Self { $($field: $crate::decode::Field::stand_in(),)* }
            }

            fn decode(node: &$crate::decode::Node<'_>, context: &mut $crate::decode::Context) -> Self {
                let Some(table) = context.table(node) else { return Self::stand_in() };
                context.known_keys(table, &Self::FIELDS.iter().map(|field| field.replace('_', "-")).collect::<Vec<_>>());
                Self { $($field: context.key(table, node.span(), &stringify!($field).replace('_', "-")),)* }
            }
        }
    };
}

/// Declares a choice between fixed words.
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$attribute:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$attribute])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As the manifest writes it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::decode::Field for $name {
            fn stand_in() -> Self {
                Self::ALL[0]
            }

            fn decode(node: &$crate::decode::Node<'_>, context: &mut $crate::decode::Context) -> Self {
                let words = [$($word),*];
                let Some(text) = node.get_ref().as_str() else {
                    context.wrong_type(node, "a string");
                    return Self::stand_in();
                };
                Self::ALL.iter().copied().find(|choice| choice.as_str() == text).unwrap_or_else(|| {
                    let message = format!("{text:?} is none of {}", words.join(", "));
                    let nearest = $crate::problem::nearest(text, words);
                    let complaint = $crate::decode::Complaint { message, nearest };
                    context.report("E-MAN-013", node.span(), complaint);
                    Self::stand_in()
                })
            }
        }
    };
}

/// Declares a string with rules; `$check` is a `fn(&str) -> Result<(), Complaint>`.
macro_rules! name {
    ($(#[$meta:meta])* pub struct $name:ident($title:literal, $code:literal, $check:expr)) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// As the manifest writes it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl $crate::decode::Name for $name {
            const CODE: &'static str = $code;

            fn name(text: &str) -> Result<Self, $crate::decode::Complaint> {
                let check: fn(&str) -> Result<(), $crate::decode::Complaint> = $check;
                check(text).map(|()| Self(text.to_owned()))
            }
        }

        impl $crate::decode::Field for $name {
            fn stand_in() -> Self {
                Self(String::new())
            }

            fn decode(node: &$crate::decode::Node<'_>, context: &mut $crate::decode::Context) -> Self {
                let Some(text) = node.get_ref().as_str() else {
                    context.wrong_type(node, concat!("a string (", $title, ")"));
                    return Self::stand_in();
                };
                <Self as $crate::decode::Name>::name(text).unwrap_or_else(|complaint| {
                    context.report($code, node.span(), complaint);
                    Self::stand_in()
                })
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "title": $title })
            }
        }
    };
}

pub(crate) use {choice, name, record};
