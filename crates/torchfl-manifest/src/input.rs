//! `[[input]]`: the files that a build starts from, and how each is come by.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Note;
use crate::decode::{Complaint, Context, Field, Node, record};
use crate::model::Manifest;
use crate::names::{Dist, FileName, Front, Role, Sha256, SumKey, Swap, Text, Version};
use crate::problem::nearest;
use crate::spanned::Spanned;

pub(crate) mod resolved;

record! {
    /// `[[input]]`: a file that a build starts from. It is had in one of two ways: `package` and `version`,
    /// from a package index; or `file`, by its name. `torchfl fetch` gets it. No address stands here: which
    /// index, which mirror or which folder is the user's affair.
    pub struct Input {
        /// What a build does with it.
        pub role: Spanned<Role>,
        /// The distribution on a package index; pip gets its wheel, from wherever pip is set up to look.
        pub package: Option<Spanned<Dist>>,
        /// Its exact version, local part included: `2.10.0+cpu`.
        pub version: Option<Spanned<Version>>,
        /// The platform tag of its wheel, `manylinux_2_28_{arch}`, for those who must know the file's name before
        /// they have it: Nix finds a file by its name and its sum. An index needs none.
        pub platform: Option<Spanned<FileName>>,
        /// The file's name. `{python}` stands for the python tag and `{arch}` for the processor; `*` for a
        /// part of the name that is not known.
        pub file: Option<Spanned<FileName>>,
        /// Of a `file`: where it is had, where one has to sign in there. It is for people: whoever has an
        /// account brings the file.
        pub login: Option<Spanned<Text>>,
        /// Of a `file`: how it is made, where nobody publishes it. It has no sum: each maker's is another.
        pub made: Option<Spanned<Text>>,
        /// Its SHA-256 sum; or one for each python tag, `{ cp311 = "…", cp312 = "…" }`, where there is a file
        /// for each. Where the manifest has several processors the tag goes with one: `cp311-x86_64`.
        pub sha256: Option<Spanned<Sums>>,
    }
}

/// Sums of an input: `"…"`, or `{ cp311 = "…" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sums {
    /// Of the one file.
    One(Sha256),
    /// Of a file for each python tag, or for each python tag and processor.
    Each(BTreeMap<SumKey, Spanned<Sha256>>),
}

impl Field for Sums {
    fn stand_in() -> Self {
        Self::Each(BTreeMap::new())
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        if node.get_ref().is_table() {
            Self::Each(Field::decode(node, context))
        } else if node.get_ref().is_str() {
            Self::One(Field::decode(node, context))
        } else {
            context.wrong_type(node, "a string or a table");
            Self::stand_in()
        }
    }
}

impl schemars::JsonSchema for Sums {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sums".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = generator.subschema_for::<Sha256>();
        let each = generator.subschema_for::<BTreeMap<String, Sha256>>();
        schemars::json_schema!({ "title": "sha256, or names with: sha256", "oneOf": [one, each] })
    }
}

impl Input {
    /// The sum of the file for `python` and `arch`; both are the manifest's, which has `arches` processors.
    fn sum(&self, python: &str, arch: &str, arches: usize) -> Option<&str> {
        match &self.sha256.as_ref()?.value {
            Sums::One(sum) => Some(sum.as_str()),
            Sums::Each(sums) => {
                let key = if arches == 1 { python.to_owned() } else { format!("{python}-{arch}") };
                sums.iter().find(|(known, _)| known.as_str() == key).map(|(_, sum)| sum.as_str())
            }
        }
    }
}

/// What an input says for itself, but not together.
pub(crate) fn check(manifest: &Manifest, context: &mut Context) {
    for (index, input) in manifest.input.iter().enumerate() {
        let key = format!("input[{index}]");
        if context.sound(&key) {
            way(input, &key, context);
            sums(input, &key, manifest, context);
        }
    }
}

fn way(input: &Input, key: &str, context: &mut Context) {
    let mut wrong = |inner: &str, span: &std::ops::Range<usize>, message: &str| {
        let key = if inner.is_empty() { key.to_owned() } else { format!("{key}.{inner}") };
        context.report_at(key, "E-MAN-056", span.clone(), Complaint::new(message));
    };
    match (&input.package, &input.file) {
        (Some(package), None) => {
            if input.version.is_none() {
                wrong("version", &package.span, "a package is named with its exact `version`");
            }
            for (name, text) in [("login", &input.login), ("made", &input.made)] {
                if let Some(text) = text {
                    wrong(name, &text.span, "this is said of a `file`, and here is a `package`");
                }
            }
        }
        (None, Some(_)) => {
            if let Some(version) = &input.version {
                wrong("version", &version.span, "a `file` has its version in its name");
            }
            if let Some(platform) = &input.platform {
                wrong("platform", &platform.span, "a `file` has its platform in its name");
            }
            if let (Some(_), Some(made)) = (&input.login, &input.made) {
                wrong("made", &made.span, "it is either fetched with a `login`, or `made`");
            }
            if let (Some(made), Some(_)) = (&input.made, &input.sha256) {
                wrong("made", &made.span, "what is `made` anew by each has no `sha256`");
            }
        }
        (Some(_), Some(file)) => {
            wrong("file", &file.span, "an input is had in one way: `package` and `version`, or `file`");
        }
        (None, None) => {
            let message = "an input needs `package` and `version`, or `file`";
            wrong("", &input.role.span, message);
        }
    }
}

/// Each sum is of a file that there is, and each of them has its own.
fn sums(input: &Input, key: &str, manifest: &Manifest, context: &mut Context) {
    let Some(sums) = &input.sha256 else { return };
    if !context.sound("python.tags") || !context.sound("target.arch") {
        return;
    }
    let files = offered(manifest);
    match &sums.value {
        Sums::Each(each) => {
            // In place of tags that are wrong already, as an empty list is, no other can be told.
            let known: BTreeSet<String> = files.into_iter().map(|file| file.key).collect();
            if known.is_empty() {
                return;
            }
            let list = || known.iter().map(String::as_str);
            for (name, sum) in each {
                if !known.contains(name.as_str()) {
                    let message = format!("`{name}` is none of {}", list().collect::<Vec<_>>().join(", "));
                    let nearest = nearest(name, list());
                    let complaint = Complaint { message, nearest };
                    context.report_at(
                        format!("{key}.sha256.{name}"),
                        "E-MAN-055",
                        sum.span.clone(),
                        complaint,
                    );
                }
            }
        }
        Sums::One(_) => {
            if files.len() > 1 && input.file.as_ref().is_some_and(|file| file.contains('{')) {
                let complaint =
                    Complaint::new("one sum, and `file` names one for each python tag or processor");
                context.report_at(format!("{key}.sha256"), "E-MAN-055", sums.span.clone(), complaint);
            }
        }
    }
}

/// A python tag and a processor of a manifest, and what they are called together in [`Sums::Each`].
struct Offered<'a> {
    python: &'a str,
    arch: &'static str,
    key: String,
}

fn offered(manifest: &Manifest) -> Vec<Offered<'_>> {
    let (tags, arches) = (&manifest.python.tags.value, &manifest.target.arch.value);
    let one = |python: &'_ str, arch: &'static str| {
        if arches.len() == 1 { python.to_owned() } else { format!("{python}-{arch}") }
    };
    let pairs = tags.iter().flat_map(|tag| arches.iter().map(move |arch| (tag.as_str(), arch.as_str())));
    pairs.map(|(python, arch)| Offered { python, arch, key: one(python, arch) }).collect()
}

/// What is not known of the inputs.
pub(crate) fn note(manifest: &Manifest, note: &mut Note<'_>) {
    let has = |role: Role| manifest.input.iter().any(|input| *input.role == role);
    let (swap, front) = (&manifest.torch.swap, &manifest.torch.front);
    if (**swap != Swap::None || **front == Front::Vendor) && !has(Role::Torch) {
        note("input", &swap.span, "no input of role torch: nobody is told how to come by the vendor's torch");
    }
    if **front != Front::Vendor && !has(Role::Front) {
        note("input", &front.span, "no input of role front: nobody is told how to come by the stock torch");
    }
    for (index, input) in manifest.input.iter().enumerate() {
        let span = &input.role.span;
        if input.made.is_none() && input.file.as_ref().is_some_and(|file| file.contains('*')) {
            let message = "the file's whole name is not known: it cannot be asked of a mirror";
            note(&format!("input[{index}].file"), span, message);
        }
        let arches = manifest.target.arch.len();
        let offered = offered(manifest);
        let open: Vec<&str> = offered
            .iter()
            .filter(|file| input.made.is_none() && input.sum(file.python, file.arch, arches).is_none())
            .map(|file| file.key.as_str())
            .collect();
        let message = if open.len() == offered.len() {
            "no sum: `torchfl fetch` takes the file only with --sha256 or --allow-unhashed".to_owned()
        } else {
            format!("no sum for {}", open.join(", "))
        };
        if !open.is_empty() {
            note(&format!("input[{index}].sha256"), span, &message);
        }
    }
}
