//! The constraints beside a wheel, for pip (`-c`) and uv (`--constraints`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use torchfl_wheel::normalize_name;

use crate::build_json::Triton;
use crate::plan::Plan;

/// The file's name and text: this very wheel, the stock torch that it meets, and who may own `triton/`.
pub fn constraints(plan: &Plan) -> (String, String) {
    let name = format!("{}.constraints.txt", plan.wheel.trim_end_matches(".whl"));
    let build = &plan.build_json;
    let local = if build.torch.front == "cpu" { "+cpu" } else { "" };
    let usual = format!("{}{local}", build.torch.release);
    // A skeleton's own version: pip would refuse it under the usual pin.
    let torch = plan.parts.front_skeleton.as_ref().unwrap_or(&usual);
    let mut text = format!("torch=={torch}\ntorch_fl=={}\n", build.version);
    if let Some(triton) = &build.audit.triton {
        text.push_str(&compilers(triton, &build.vendor, torchfl_manifest::triton_owners()));
    }
    (name, text)
}

/// The first version that is known of each owner, and an end to every other distribution that installs `triton/`.
fn compilers<'a>(triton: &Triton, vendor: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut owners: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for owner in &triton.owners {
        let version = owners.entry(normalize_name(&owner.name)).or_default();
        *version = version.or(owner.version.as_deref());
    }
    for (name, version) in &owners {
        if let Some(version) = version {
            let _ = writeln!(text, "{name}=={version}");
        }
    }
    // Neither pip nor uv can leave a name out by a constraint. A version that nobody publishes makes whoever asks for
    // the name fail, and both show it: its label is the reason. `===` would do for pip alone.
    for name in known.filter(|name| !owners.contains_key(*name)) {
        let _ = writeln!(text, "{name}==0+not.for.{vendor}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build_json::Owner;

    fn owner(name: &str, local: Option<&str>, version: Option<&str>) -> Owner {
        let text = |text: &str| text.to_owned();
        Owner { name: text(name), local: local.map(text), version: version.map(text) }
    }

    fn lines(supplier: &str, owners: Vec<Owner>) -> String {
        let known = ["flagtree", "triton", "triton-acme"];
        compilers(&Triton { supplier: supplier.to_owned(), owners }, "acme", known.into_iter())
    }

    #[test]
    fn owners_are_pinned_and_others_fail_under_their_name() {
        let vendors = vec![
            owner("triton", Some("acme"), Some("3.5.0+acme1")),
            owner("triton", Some("v2.acme"), Some("3.6.0+v2.acme")),
            owner("Triton_Acme", None, None),
        ];
        insta::assert_snapshot!(lines("vendor", vendors), @r"
        triton==3.5.0+acme1
        flagtree==0+not.for.acme
        ");
        let index = vec![owner("triton", None, None), owner("flagtree", None, None)];
        insta::assert_snapshot!(lines("pypi", index), @"triton-acme==0+not.for.acme");
        insta::assert_snapshot!(lines("none", Vec::new()), @r"
        flagtree==0+not.for.acme
        triton==0+not.for.acme
        triton-acme==0+not.for.acme
        ");
    }
}
