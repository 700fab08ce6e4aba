//! `[[input]]`: what is said about mistakes, what is filled in, what is left open.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use torchfl_manifest::{Error, Manifest, Request, check, resolve};

const SUM: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// The right manifest with these inputs alone.
fn text(inputs: &str) -> String {
    let right = include_str!("metax.toml");
    let (before, _) = right.split_once("[[input]]").unwrap();
    format!("{before}{inputs}\n")
}

fn problems(inputs: &str) -> String {
    let text = text(&inputs.replace("SUM", SUM));
    match Manifest::parse(&text, "m.toml") {
        Ok(_) => "no mistake".to_owned(),
        Err(Error::Invalid { problems, .. }) => {
            let nearest = |p: &torchfl_manifest::Problem| {
                p.nearest.as_ref().map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
            };
            let line = |p: &torchfl_manifest::Problem| {
                format!("{}: {}: {}{} [{}]", p.code, p.key, p.message, nearest(p), &text[p.span.clone()])
            };
            problems.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Err(other) => other.to_string(),
    }
}

#[test]
fn an_input_is_had_in_one_way() {
    let one = |keys: &str| problems(&format!("[[input]]\nrole = \"torch\"\n{keys}"));
    assert_eq!(one("package = 'torch'\nversion = '2.10.0'"), "no mistake");
    assert_eq!(one("package = 'torch'\nversion = '2.10.0'\nplatform = 'linux_{arch}'"), "no mistake");
    assert_eq!(one("file = 'torch-{python}.whl'\nlogin = 'the portal'"), "no mistake");
    assert_eq!(one("file = 'sdk.tar'\nsha256 = 'SUM'"), "no mistake");
    insta::assert_snapshot!(one(""), @r#"
    E-MAN-056: input[0]: an input needs `package` and `version`, or `file` ["torch"]
    "#);
    insta::assert_snapshot!(one("package = 'torch'"), @r"
    E-MAN-056: input[0].version: a package is named with its exact `version` ['torch']
    ");
    insta::assert_snapshot!(one("package = 'torch'\nversion = '1'\nfile = 'a.whl'"), @r"
    E-MAN-056: input[0].file: an input is had in one way: `package` and `version`, or `file` ['a.whl']
    ");
    insta::assert_snapshot!(one("package = 'torch'\nversion = '1'\nlogin = 'a'\nmade = 'b'"), @r"
    E-MAN-056: input[0].login: this is said of a `file`, and here is a `package` ['a']
    E-MAN-056: input[0].made: this is said of a `file`, and here is a `package` ['b']
    ");
    insta::assert_snapshot!(one("file = 'a.whl'\nversion = '1'"), @r"
    E-MAN-056: input[0].version: a `file` has its version in its name ['1']
    ");
    insta::assert_snapshot!(one("file = 'a.whl'\nplatform = 'linux_{arch}'"), @r"
    E-MAN-056: input[0].platform: a `file` has its platform in its name ['linux_{arch}']
    ");
    insta::assert_snapshot!(one("file = 'a.whl'\nlogin = 'a'\nmade = 'b'\nsha256 = 'SUM'"), @r"
    E-MAN-056: input[0].made: it is either fetched with a `login`, or `made` ['b']
    E-MAN-056: input[0].made: what is `made` anew by each has no `sha256` ['b']
    ");
}

#[test]
fn names_sums_and_roles() {
    let one = |keys: &str| problems(&format!("[[input]]\nrole = \"torch\"\n{keys}"));
    insta::assert_snapshot!(problems("[[input]]\nrole = 'troch'\nfile = 'a'\nshasum = 'b'"), @r#"
    E-MAN-013: input[0].role: "troch" is none of torch, front, with, sdk (did you mean `torch`?) ['troch']
    E-MAN-010: input[0].shasum: unknown key `shasum`; the keys here are role, package, version, platform, file, login, made, sha256 [shasum]
    "#);
    insta::assert_snapshot!(one("package = '-torch'\nversion = '2.10.x'"), @r#"
    E-MAN-028: input[0].package: "-torch" is no distribution's name: letters, digits, `.`, `-` and `_` ['-torch']
    E-MAN-052: input[0].version: "2.10.x" is no version: after parsing `2.10`, found `.x`, which is not part of a valid version ['2.10.x']
    "#);
    insta::assert_snapshot!(one("file = 'a/b'"), @r#"
    E-MAN-053: input[0].file: "a/b" holds '/', which no file's name here has ['a/b']
    "#);
    insta::assert_snapshot!(one("file = '.a.part'"), @r#"
    E-MAN-053: input[0].file: ".a.part" is no file's name: it begins with a letter or a digit ['.a.part']
    "#);
    insta::assert_snapshot!(one("file = 'a-{pyhton}.whl'"), @r#"
    E-MAN-053: input[0].file: "a-{pyhton}.whl": there is no placeholder `{pyhton}`, only `{python}` and `{arch}` (did you mean `{python}`?) ['a-{pyhton}.whl']
    "#);
    insta::assert_snapshot!(one("file = 'a-{python.whl'"), @r#"
    E-MAN-053: input[0].file: "a-{python.whl" opens or closes a brace alone ['a-{python.whl']
    "#);
    insta::assert_snapshot!(one("file = 'a'\nsha256 = 'SHA256:ABCDEF1111111111111111111111111111111111111111111111111111111111'"), @r#"
    E-MAN-054: input[0].sha256: "SHA256:ABCDEF1111111111111111111111111111111111111111111111111111111111" is no SHA-256 sum: 64 hexadecimal digits, in lower case (did you mean `abcdef1111111111111111111111111111111111111111111111111111111111`?) ['SHA256:ABCDEF1111111111111111111111111111111111111111111111111111111111']
    "#);
    insta::assert_snapshot!(one("file = 'a'\nsha256 = 3"), @r"
    E-MAN-011: input[0].sha256: expected a string or a table, found an integer [3]
    ");
}

#[test]
fn a_sum_is_of_a_file_that_there_is() {
    let one = |keys: &str| problems(&format!("[[input]]\nrole = \"torch\"\nfile = 'a-{{python}}'\n{keys}"));
    assert_eq!(one("sha256 = { cp310 = 'SUM', cp312 = 'SUM' }"), "no mistake");
    insta::assert_snapshot!(one("sha256 = { cp311 = 'SUM', 3.12 = 'SUM', cp312-x86 = 'SUM' }"), @r#"
    E-MAN-055: input[0].sha256.3: "3" is no python tag cpXY, such as cp312 [3]
    E-MAN-055: input[0].sha256.cp312-x86: "cp312-x86": `x86` is no processor [cp312-x86]
    "#);
    insta::assert_snapshot!(one("sha256 = { cp311 = 'SUM', cp312-x86_64 = 'SUM' }"), @r"
    E-MAN-055: input[0].sha256.cp311: `cp311` is none of cp310, cp312 (did you mean `cp310`?) ['1111111111111111111111111111111111111111111111111111111111111111']
    E-MAN-055: input[0].sha256.cp312-x86_64: `cp312-x86_64` is none of cp310, cp312 ['1111111111111111111111111111111111111111111111111111111111111111']
    ");
    insta::assert_snapshot!(one("sha256 = 'SUM'"), @r"
    E-MAN-055: input[0].sha256: one sum, and `file` names one for each python tag or processor ['1111111111111111111111111111111111111111111111111111111111111111']
    ");
}

#[test]
fn several_processors_have_a_sum_each() {
    let text = text("[[input]]\nrole = 'torch'\nfile = 'a-{arch}'\nsha256 = { cp312-aarch64 = 'SUM' }")
        .replace("SUM", SUM)
        .replace("arch = [\"x86_64\"]", "arch = [\"x86_64\", \"aarch64\"]");
    let manifest = Manifest::parse(&text, "m.toml").unwrap();
    let request = Request { python: Some("cp312".into()), ..Request::default() };
    let files = &resolve(&manifest, &request).unwrap().inputs[0].files;
    let sums: Vec<_> = files.iter().map(|file| (file.name.as_deref(), file.sha256.as_deref())).collect();
    assert_eq!(sums, [(Some("a-x86_64"), None), (Some("a-aarch64"), Some(SUM))]);
}

#[test]
fn a_file_without_placeholders_is_one_and_a_package_is_one_for_each_python() {
    let text = text(
        "[[input]]\nrole = 'sdk'\nfile = 'sdk.tar'\n[[input]]\nrole = 'torch'\npackage = 'torch'\nversion = '1'",
    );
    let resolved = resolve(&Manifest::parse(&text, "m.toml").unwrap(), &Request::default()).unwrap();
    let names: Vec<usize> = resolved.inputs.iter().map(|input| input.files.len()).collect();
    assert_eq!(names, [1, 2]);
}

#[test]
fn what_is_left_open() {
    let open = |inputs: &str| {
        let manifest = Manifest::parse(&text(&inputs.replace("SUM", SUM)), "m.toml").unwrap();
        let findings = check(&manifest).into_iter().filter(|finding| finding.key.starts_with("input"));
        findings.map(|finding| format!("{}: {}", finding.key, finding.message)).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(open(""), @r"
    input: no input of role torch: nobody is told how to come by the vendor's torch
    input: no input of role front: nobody is told how to come by the stock torch
    ");
    let both = "[[input]]\nrole = 'torch'\nfile = 'a*-{python}'\nlogin = 'x'\n[[input]]\nrole = 'front'\nfile = \
                'f-{python}'\nsha256 = { cp310 = 'SUM' }";
    insta::assert_snapshot!(open(both), @r"
    input[0].file: the file's whole name is not known: it cannot be asked of a mirror
    input[0].sha256: no sum: `torchfl fetch` takes the file only with --sha256 or --allow-unhashed
    input[1].sha256: no sum for cp312
    ");
    let made = "[[input]]\nrole = 'torch'\nfile = 'a'\nmade = 'x'\n[[input]]\nrole = 'front'\nfile = 'f'\nsha256 = 'SUM'";
    assert_eq!(open(made), "");
}
