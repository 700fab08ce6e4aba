//! What is said about mistakes: one case a mistake, each made in a manifest that is otherwise right.

use torchfl_manifest::{Error, Manifest};

const RIGHT: &str = include_str!("metax.toml");

/// The problems after replacing `old` by `new` in the right manifest, a line each.
fn problems(edits: &[(&str, &str)]) -> String {
    let mut text = RIGHT.to_owned();
    for (old, new) in edits {
        assert_eq!(text.matches(old).count(), 1, "{old} must stand once in the text");
        text = text.replace(old, new);
    }
    match Manifest::parse(&text, "m.toml") {
        Ok(_) => "no mistake".to_owned(),
        Err(Error::Invalid { problems, text: kept, .. }) => {
            assert_eq!(kept, text);
            let lines: Vec<String> =
                problems.iter().map(|p| format!("{p} [{}]", &text[p.span.clone()])).collect();
            lines.join("\n")
        }
        Err(other) => other.to_string(),
    }
}

#[test]
fn every_key_of_the_design_is_read() {
    let manifest = Manifest::parse(RIGHT, "m.toml").unwrap();
    assert_eq!(manifest.name(), "metax");
    assert_eq!(&RIGHT[manifest.title.span.clone()], "\"MetaX MACA\"");
    assert_eq!(manifest.triton.unwrap().target.unwrap().warp_size.unwrap().value, 64);
    assert_eq!(manifest.shim[0].stub[0].returns.value, 801);
    assert_eq!(manifest.bundle.unwrap().kernels.unwrap().as_str(), "CUDA");
    let severity = manifest.audit.unwrap().severity;
    let words: Vec<&str> = severity.values().map(|severity| &RIGHT[severity.span.clone()]).collect();
    assert_eq!(words, ["\"warning\""]);
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_places() {
    let error = Manifest::parse(
        &RIGHT
            .replace("status = \"stable\"", "status = \"stabel\"\nvendro = 1")
            .replace("front = \"cpu\"", "front = 1")
            .replace("release = \"2.10.0\"\n", "")
            .replace(
                "\"libc10.so\", \"libtorch_cpu.so\", \"libc10_cuda.so\"",
                "\"libc10.so\", \"libtorch_cup.so\"",
            ),
        "m.toml",
    )
    .unwrap_err();
    assert_eq!(error.code(), "E-MAN-013");
    insta::assert_snapshot!(error, @r##"
        the manifest m.toml holds 6 mistakes
          m.toml:4:10: E-MAN-013: "stabel" is none of stable, beta, experimental, runtime-only (did you mean `stable`?)
          m.toml:5:1: E-MAN-010: unknown key `vendro` (did you mean `vendor`?)
          m.toml:7:1: E-MAN-012: missing key `release`
          m.toml:8:9: E-MAN-011: expected a string, found an integer
          m.toml:32:44: E-MAN-032: `libtorch_cup.so` comes from nowhere: it is no shim, and not in required, optional, front or never-duplicate (did you mean `libtorch_cpu.so`?)
          m.toml:33:23: E-MAN-033: `libc10_cuda.so` is not in preload, so nothing opens it globally (did you mean `libtorch_cuda.so`?)
        "##);
}

#[test]
fn text_that_is_no_toml() {
    let error = Manifest::parse("schema = \nvendor = 'a'\nvendor = 'b'\n[torch\n", "m.toml").unwrap_err();
    assert_eq!(error.code(), "E-MAN-001");
    insta::assert_snapshot!(error, @r##"
        the manifest m.toml holds 3 mistakes
          m.toml:1:10: E-MAN-001: string values must be quoted, expected literal string
          m.toml:3:1: E-MAN-001: duplicate key
          m.toml:4:7: E-MAN-001: unclosed table, expected `]`
        "##);
}

#[test]
fn an_empty_file() {
    insta::assert_snapshot!(Manifest::parse("", "m.toml").unwrap_err(), @r##"
        the manifest m.toml holds 7 mistakes
          m.toml:1:1: E-MAN-012: missing key `python`
          m.toml:1:1: E-MAN-012: missing key `schema`
          m.toml:1:1: E-MAN-012: missing key `status`
          m.toml:1:1: E-MAN-012: missing key `target`
          m.toml:1:1: E-MAN-012: missing key `title`
          m.toml:1:1: E-MAN-012: missing key `torch`
          m.toml:1:1: E-MAN-012: missing key `vendor`
        "##);
}

#[test]
fn another_schema_version() {
    insta::assert_snapshot!(problems(&[("schema = 1", "schema = 2")]), @r##"1:10: E-MAN-002: this tool reads schema 1, not 2 [2]"##);
}

#[test]
fn an_unknown_key_far_from_all_others() {
    insta::assert_snapshot!(problems(&[("[python]", "[python]\nabi = 3")]), @r##"15:1: E-MAN-010: unknown key `abi`; the keys here are tags [abi]"##);
}

#[test]
fn values_of_the_wrong_type() {
    insta::assert_snapshot!(problems(&[
        ("tags = [\"cp310\", \"cp312\"]", "tags = \"cp310\""),
        ("warp-size = 64", "warp-size = 64.0"),
        ("schema = 1", "schema = 99999999999999999999"),
        ("MACA_PATH = \"/opt/maca\"", "MACA_PATH = true"),
        ("vendor = \"metax\"\ntitle", "vendor = { name = 'metax' }\ntitle"),
    ]), @r##"
    1:10: E-MAN-011: the integer is too large [99999999999999999999]
    2:10: E-MAN-011: expected a string (short name), found a table [{ name = 'metax' }]
    15:8: E-MAN-011: expected an array, found a string ["cp310"]
    56:13: E-MAN-011: expected a string (text), found a boolean [true]
    64:57: E-MAN-011: expected an integer, found a float [64.0]
    "##);
}

#[test]
fn names_with_rules() {
    insta::assert_snapshot!(problems(&[
        ("release = \"2.10.0\"", "release = \"2.10\""),
        ("[\"cp310\", \"cp312\"]", "[\"3.10\", \"cp312t\"]"),
        ("arch = [\"x86_64\"]", "arch = [\"x86-64\", \"mips\"]"),
        ("glibc = \"2.35\"", "glibc = \"2.35.1\""),
        ("dir = \"lib_maca\"", "dir = \"gate\""),
        ("probe = \"libtorch_cuda.so\"", "probe = \"lib/libtorch_cuda.so\""),
        ("\"libmcblas.so*\"", "\"libmcblas[.so\""),
        ("include = []", "include = [\"../*\", \"/usr/lib/*\"]"),
        ("dist = \"nvidia-cublas\"", "dist = \"nvidia cublas\""),
        ("title = \"MetaX MACA\"", "title = \" \""),
        ("attributes = {}", "attributes = { \"a.b\" = \"1\" }"),
    ]), @r##"
    3:9: E-MAN-027: the text is empty [" "]
    7:11: E-MAN-021: "2.10" is no three-part release N.N.N, such as 2.13.0 (did you mean `2.10.0`?) ["2.10"]
    12:16: E-MAN-028: "a.b" is no identifier: letters, digits and `_`, no digit first ["a.b"]
    15:9: E-MAN-022: "3.10" is no python tag cpXY, such as cp312 (did you mean `cp310`?) ["3.10"]
    15:17: E-MAN-022: "cp312t" is no python tag cpXY, such as cp312 (did you mean `cp312`?) ["cp312t"]
    18:9: E-MAN-013: "x86-64" is none of x86_64, aarch64, loongarch64, ppc64le, riscv64, s390x (did you mean `x86_64`?) ["x86-64"]
    18:19: E-MAN-013: "mips" is none of x86_64, aarch64, loongarch64, ppc64le, riscv64, s390x ["mips"]
    19:9: E-MAN-024: "2.35.1" is no glibc version N.M, such as 2.28 ["2.35.1"]
    26:7: E-MAN-027: "gate" is taken: torch_fl keeps something else there; take lib_<vendor> ["gate"]
    27:9: E-MAN-025: "lib/libtorch_cuda.so" is a path: a library is named by its file name (did you mean `libtorch_cuda.so`?) ["lib/libtorch_cuda.so"]
    30:12: E-MAN-026: "../*" holds an empty, `.` or `..` part: this glob stays in site-packages ["../*"]
    30:20: E-MAN-026: "/usr/lib/*" is absolute: this glob starts in the site-packages folder ["/usr/lib/*"]
    39:14: E-MAN-026: "libmcblas[.so" is no glob: unclosed character class; missing ']' ["libmcblas[.so"]
    44:8: E-MAN-028: "nvidia cublas" is no distribution's name: letters, digits, `.`, `-` and `_` ["nvidia cublas"]
    "##);
}

#[test]
fn versions_that_pep_440_forbids() {
    insta::assert_snapshot!(problems(&[("vendor = \"metax\"\ntitle", "vendor = \"MetaX-3\"\ntitle")]), @r##"2:10: E-MAN-020: "MetaX-3" is no short name: lower-case letters and digits, a letter first (did you mean `metax3`?) ["MetaX-3"]"##);
    insta::assert_snapshot!(problems(&[("version = \"3.8.1\"", "version = \"3.8+1\"")]), @r##"22:11: E-MAN-020: "3.8+1" holds a `+`: a version has one, and the tool writes it ["3.8+1"]"##);
    insta::assert_snapshot!(problems(&[("version = \"3.8.1\"", "version = \"3..8\"")]), @r##"22:11: E-MAN-020: "3..8" has an empty part: PEP 440 wants a letter or digit on each side of a `.` ["3..8"]"##);
    insta::assert_snapshot!(problems(&[("version = \"3.8.1\"", "version = \"3/8\"")]), @r##"22:11: E-MAN-020: "3/8" holds '/': PEP 440 allows letters, digits and `.`, `-`, `_` here ["3/8"]"##);
}

#[test]
fn what_the_audit_is_told() {
    let severity = |table: &str| problems(&[("{ \"AUD-007\" = \"warning\" }", table)]);
    insta::assert_snapshot!(
        severity("{ AUD-007 = 'warn', AUD-008 = 2, aud-9 = 'note', 'AUD-0010' = 'note', LDR-001 = 'error', '' = 'note' }"), @r##"
        70:24: E-MAN-013: "warn" is none of error, warning, note, ignore ['warn']
        70:42: E-MAN-011: expected a string, found an integer [2]
        70:45: E-MAN-029: "aud-9" is no rule's code: AUD- and three digits, such as AUD-007 (did you mean `AUD-009`?) [aud-9]
        70:61: E-MAN-029: "AUD-0010" is no rule's code: AUD- and three digits, such as AUD-007 ['AUD-0010']
        70:82: E-MAN-029: "LDR-001" is no rule's code: AUD- and three digits, such as AUD-007 [LDR-001]
        70:101: E-MAN-029: "" is no rule's code: AUD- and three digits, such as AUD-007 ['']
        "##);
    assert_eq!(severity("{ AUD-007 = 'error', AUD-008 = 'note', AUD-999 = 'ignore' }"), "no mistake");
    assert_eq!(severity("{}"), "no mistake");
    insta::assert_snapshot!(severity("'error'"), @"70:12: E-MAN-011: expected a table, found a string ['error']");
    insta::assert_snapshot!(problems(&[("kernels = \"CUDA\"", "kernels = \"at::cuda\"")]), @r##"36:11: E-MAN-028: "at::cuda" is no identifier: letters, digits and `_`, no digit first ["at::cuda"]"##);
}

#[test]
fn names_given_twice() {
    insta::assert_snapshot!(problems(&[
        ("tags = [\"cp310\", \"cp312\"]", "tags = [\"cp310\", \"cp310\"]"),
        ("optional = [\"libc10_cuda.so\",", "optional = [\"libc10.so\", \"libc10_cuda.so\", \"libc10_cuda.so\","),
        (
            "libraries = [\"libcublas.so.13\"]",
            "libraries = [\"libcublas.so.13\"]\n[[provided]]\ndist = \"nvidia-cublas\"\nlibraries = [\"libcublas.so.13\"]",
        ),
    ]), @r#"
    15:18: E-MAN-030: `cp310` is listed twice in python.tags ["cp310"]
    29:13: E-MAN-031: `libc10.so` is in bundle.required as well ["libc10.so"]
    29:44: E-MAN-030: `libc10_cuda.so` is listed twice in bundle.optional ["libc10_cuda.so"]
    47:8: E-MAN-030: `nvidia-cublas` is provided twice with the same dir: join the two ["nvidia-cublas"]
    48:14: E-MAN-030: `libcublas.so.13` is provided twice; the other one is of `nvidia-cublas` ["libcublas.so.13"]
    84:20: E-MAN-055: `cp312` is none of cp310 (did you mean `cp310`?) ["1111111111111111111111111111111111111111111111111111111111111111"]
    "#);
}

#[test]
fn empty_lists_that_must_say_something() {
    insta::assert_snapshot!(problems(&[
        ("tags = [\"cp310\", \"cp312\"]", "tags = []"),
        ("arch = [\"x86_64\"]", "arch = []"),
        ("libraries = [\"libcublas.so.13\"]", "libraries = []"),
    ]), @r##"
    15:8: E-MAN-012: no python tag is given [[]]
    18:8: E-MAN-012: no processor is given [[]]
    45:13: E-MAN-051: `nvidia-cublas` provides no libraries [[]]
    "##);
}

#[test]
fn libraries_from_nowhere() {
    insta::assert_snapshot!(problems(&[
        ("preload = [\"libcudart.so.12\"", "preload = [\"libgopm.so.1\", \"libcudart.so.12\""),
        ("global = [{ library = \"libc10_cuda.so\"", "global = [{ library = \"libtorch_cuda_linalg.so\""),
        ("probe = \"libtorch_cuda.so\"", "probe = \"libtorch_hip.so\""),
        ("include = []", "include = []\nfront = [\"libcaffe2.so\"]"),
    ]), @r##"
    27:9: E-MAN-034: probe `libtorch_hip.so` is not bundled: it is in neither required nor optional (did you mean `libtorch_cpu.so`?) ["libtorch_hip.so"]
    31:10: E-MAN-035: `libcaffe2.so` is in front, and preload does not open it ["libcaffe2.so"]
    33:12: E-MAN-032: `libgopm.so.1` comes from nowhere: it is no shim, and not in required, optional, front or never-duplicate (did you mean `libgomp.so.1`?) ["libgopm.so.1"]
    34:23: E-MAN-033: `libtorch_cuda_linalg.so` is not in preload, so nothing opens it globally (did you mean `libtorch_cuda.so`?) ["libtorch_cuda_linalg.so"]
    "##);
}

#[test]
fn bundled_libraries_that_others_bring_too() {
    insta::assert_snapshot!(problems(&[
        ("libraries = [\"libcublas.so.13\"]", "libraries = [\"libshm.so\"]"),
        ("\"libmcblas.so*\"", "\"libtorch*\""),
    ]), @r##"
    39:14: E-MAN-036: `libtorch*` matches `libtorch.so`, which is bundled: it cannot stay on the host too ["libtorch*"]
    45:14: E-MAN-036: `libshm.so` is bundled and provided by another wheel: one of them is wrong ["libshm.so"]
    "##);
}

#[test]
fn a_swap_that_the_rest_contradicts() {
    insta::assert_snapshot!(problems(&[("swap = \"core\"", "swap = \"none\"")]), @r##"
    26:7: E-MAN-037: swap is `none`, and yet there is a bundle ["lib_maca"]
    48:8: E-MAN-037: swap is `none`: nothing is bundled, and a shim is part of a bundle ["versioned-forwarder"]
    "##);
    insta::assert_snapshot!(problems(&[("swap = \"core\"", "swap = \"extra\"")]), @r##"11:8: E-MAN-037: swap is `extra`, and bundle.front is empty: the stock core is opened first, so it must be named ["extra"]"##);
    insta::assert_snapshot!(problems(&[("front = \"cpu\"", "front = \"vendor\"")]), @r##"11:8: E-MAN-037: front is the vendor's own torch, and swap is `core`: nothing is to be replaced ["core"]"##);
    let at = RIGHT.find("[bundle]").unwrap();
    let end = RIGHT.find("[host]").unwrap();
    insta::assert_snapshot!(problems(&[(&RIGHT[at..end], "")]), @r##"11:8: E-MAN-037: swap is `core`, and there is no [bundle] to take the libraries from ["core"]"##);
}

#[test]
fn search_paths() {
    let old = "search-path = [\"$ORIGIN\", \"{sdk}/lib\", \"{sdk}/lib64\"]";
    let entries = |entries: &str| problems(&[(old, &format!("search-path = [{entries}]"))]);
    for misspelt in ["$ORIGN", "ORIGIN", "${ORIGN}", "$origin", "$ORIGINAL", "${ORIGIN", "ORIGIN/../x"] {
        let found = entries(&format!("'{misspelt}'"));
        assert!(found.contains("(did you mean `$ORIGIN`?)") || found.contains("does not close"), "{found}");
    }
    insta::assert_snapshot!(entries("'$ORIGN', '$SDK/lib', '../lib', '{skd}/lib', '{sdk', '/a:/b', '', '{sdk}lib', '/x/$ORIGIN'"), @r##"
        34:16: E-MAN-040: "$ORIGN": the loader knows no `$ORIGN` (did you mean `$ORIGIN`?) ['$ORIGN']
        34:26: E-MAN-040: "$SDK/lib": the loader knows no `$SDK` ['$SDK/lib']
        34:38: E-MAN-041: "../lib" is relative: the loader would start in the working directory (did you mean `$ORIGIN/../lib`?) ['../lib']
        34:48: E-MAN-043: "{skd}/lib": there is no placeholder `{skd}`, only `{sdk}` (did you mean `{sdk}`?) ['{skd}/lib']
        34:61: E-MAN-043: "{sdk" opens a brace that it does not close ['{sdk']
        34:69: E-MAN-044: "/a:/b" is not one folder: `:` parts entries, so each is a string of its own ['/a:/b']
        34:78: E-MAN-044: "" is not one folder: `:` parts entries, so each is a string of its own ['']
        34:82: E-MAN-044: "{sdk}lib": `{sdk}` is a whole folder: it comes first, and a `/` comes after it ['{sdk}lib']
        34:94: E-MAN-044: "/x/$ORIGIN": `$ORIGIN` is a whole folder: it comes first, and a `/` comes after it ['/x/$ORIGIN']
        "##);
    assert_eq!(entries("'${ORIGIN}/../x', '$ORIGIN/$LIB', '/usr/lib', '{sdk}/lib'"), "no mistake");
    insta::assert_snapshot!(
        problems(&[("{ env = \"MACA_PATH\" }, { env = \"MACA_HOME\" }, { path = \"/opt/maca\" }", "")]), @r##"
        34:27: E-MAN-042: `{sdk}/lib` needs the SDK's place, and [sdk] has no roots ["{sdk}/lib"]
        34:40: E-MAN-042: `{sdk}/lib64` needs the SDK's place, and [sdk] has no roots ["{sdk}/lib64"]
        "##);
}

#[test]
fn sdk_roots() {
    insta::assert_snapshot!(problems(&[(
        "{ env = \"MACA_HOME\" }, { path = \"/opt/maca\" }",
        "{ env = \"A\", path = \"/b\" }, {}, { pth = \"/c\" }, { path = \"opt\" }, { env = \"A-B\" }, { path = \"/a:b\" }"
    )]), @r##"
    23:33: E-MAN-045: a root has either `env` or `path`, this one has both [{ env = "A", path = "/b" }]
    23:61: E-MAN-045: a root has either `env` or `path`, this one has neither [{}]
    23:65: E-MAN-045: a root has either `env` or `path`, this one has neither [{ pth = "/c" }]
    23:67: E-MAN-010: unknown key `pth` (did you mean `path`?) [pth]
    23:90: E-MAN-046: "opt" is not absolute ["opt"]
    23:107: E-MAN-028: "A-B" is no identifier: letters, digits and `_`, no digit first ["A-B"]
    23:125: E-MAN-046: "/a:b" holds ':', which a library's search path cannot ["/a:b"]
    "##);
}

#[test]
fn a_provided_folder_that_is_not_in_site_packages() {
    let dir = |dir: &str| {
        problems(&[("dist = \"nvidia-cublas\"", &format!("dist = \"nvidia-cublas\"\ndir = '{dir}'"))])
    };
    insta::assert_snapshot!(dir("/usr/lib"), @r##"45:7: E-MAN-050: "/usr/lib" is absolute: this folder starts in the site-packages folder ['/usr/lib']"##);
    insta::assert_snapshot!(dir("../lib"), @r##"45:7: E-MAN-050: "../lib" holds an empty, `.` or `..` part: this folder stays in site-packages ['../lib']"##);
    assert_eq!(dir("nvidia/cu13/lib"), "no mistake");
}

#[test]
fn shims_whose_keys_do_not_fit() {
    let kind = |new: &str| problems(&[("kind = \"versioned-forwarder\"", new)]);
    insta::assert_snapshot!(kind("kind = 'core-gap'"), @r##"
    48:8: E-MAN-037: swap is `core`: the core is the vendor's, and has no gap ['core-gap']
    50:14: E-MAN-038: a core-gap forwards nothing, and has no `forward-to` ["libsymbol_cu.so"]
    51:11: E-MAN-038: a core-gap forwards nothing, and has no `version` ["libcudart.so.12"]
    "##);
    insta::assert_snapshot!(problems(&[
        ("forward-to = \"libsymbol_cu.so\"\n", ""),
        ("version = \"libcudart.so.12\"\n", ""),
        ("preload = [\"libcudart.so.12\", ", "preload = ["),
        ("\"libshm.so\"]\ninclude", "\"libshm.so\", \"libcudart.so.12\"]\ninclude"),
        ("\"libmcblas.so*\"", "\"libcudart.so*\""),
    ]), @r##"
    39:14: E-MAN-036: `libcudart.so*` matches `libcudart.so.12`, which is bundled: it cannot stay on the host too ["libcudart.so*"]
    48:8: E-MAN-038: a versioned-forwarder needs `forward-to` ["versioned-forwarder"]
    48:8: E-MAN-038: a versioned-forwarder needs `version` ["versioned-forwarder"]
    49:10: E-MAN-035: `libcudart.so.12` is a shim, and preload does not open it ["libcudart.so.12"]
    49:10: E-MAN-036: `libcudart.so.12` is bundled and generated: one of them is wrong ["libcudart.so.12"]
    "##);
    insta::assert_snapshot!(problems(&[
        ("version = \"libcudart.so.12\"", "version = \"libcudart 12\""),
        ("returns = 801 }]", "returns = 'x' }, {}]"),
    ]), @r##"
    51:11: E-MAN-023: "libcudart 12" is no symbol: letters, digits, `_`, `.` and `$`, no digit first; C++ names are mangled ["libcudart 12"]
    53:47: E-MAN-011: expected an integer, found a string ['x']
    53:54: E-MAN-012: missing key `name` [{}]
    53:54: E-MAN-012: missing key `returns` [{}]
    "##);
}

#[test]
fn a_second_shim_of_one_name_that_forwards_to_itself() {
    let another = r#"
[[shim]]
kind = "versioned-forwarder"
soname = "libcudart.so.12"
forward-to = "libcudart.so.12"
version = "V"
symbols = ["a", "b", "a"]
stub = [{ name = "b", returns = -1 }, { name = "b", returns = 0 }]

[env]"#;
    insta::assert_snapshot!(problems(&[("\n[env]", another)]), @r##"
    57:10: E-MAN-030: `libcudart.so.12` is listed twice in shim ["libcudart.so.12"]
    57:10: E-MAN-038: `libcudart.so.12` would forward to itself ["libcudart.so.12"]
    60:22: E-MAN-030: `a` is listed twice in shim[1].symbols ["a"]
    61:48: E-MAN-030: `b` is listed twice in shim[1].stub ["b"]
    "##);
}

#[test]
fn symbols_of_shims() {
    let symbols = |new: &str| problems(&[("[\"cudaMalloc\", \"cudaFree\", \"cudaGraphCreate\"]", new)]);
    insta::assert_snapshot!(symbols("[]"), @r##"
    52:11: E-MAN-012: no symbol is given [[]]
    53:18: E-MAN-039: `cudaGraphCreate` is not among the shim's symbols ["cudaGraphCreate"]
    "##);
    insta::assert_snapshot!(symbols("['at::cuda::f()', '2x']"), @r##"
    52:12: E-MAN-023: "at::cuda::f()" is no symbol: letters, digits, `_`, `.` and `$`, no digit first; C++ names are mangled ['at::cuda::f()']
    52:29: E-MAN-023: "2x" is no symbol: letters, digits, `_`, `.` and `$`, no digit first; C++ names are mangled ['2x']
    "##);
    insta::assert_snapshot!(symbols("['cudaGraphCreat']"), @r##"53:18: E-MAN-039: `cudaGraphCreate` is not among the shim's symbols (did you mean `cudaGraphCreat`?) ["cudaGraphCreate"]"##);
    insta::assert_snapshot!(symbols("'compute'"), @r##"52:11: E-MAN-013: "compute" is neither `computed` nor an array of symbols (did you mean `computed`?) ['compute']"##);
    insta::assert_snapshot!(symbols("3"), @r##"52:11: E-MAN-011: expected `computed` or an array, found an integer [3]"##);
    assert_eq!(symbols("'computed'"), "no mistake");
}

#[test]
fn a_glob_too_large_for_a_matcher_is_a_mistake() {
    let many = "?".repeat(100_000);
    assert!(problems(&[("libmcblas.so*", &many)]).contains("E-MAN-026"));
    let nested = format!("{}x{}", "{a,".repeat(80), "}".repeat(80));
    problems(&[("libmcblas.so*", &nested)]);
}

#[test]
fn triton_and_flag_gems() {
    let pypi = problems(&[("supplier = \"vendor\"", "supplier = \"pypi\"\nversion = \"==3.6.0\"")]);
    assert_eq!(pypi, "no mistake");
    let flagtree = "{ name = \"flagtree\", local = \"metax\" }";
    insta::assert_snapshot!(problems(&[
        ("supplier = \"vendor\"", "supplier = \"vendor\"\nversion = \"==3.6.0\""),
        (flagtree, "{ name = \"flagtree\", local = \"metax\", version = \"0.6.1+hcu3.6\" }"),
        ("[flag-gems]\nvendor = \"metax\"", "[flag-gems]\nvendor = \"metaxx\""),
        ("[env]\n", "[env]\nGEMS_VENDOR = \"ascend\"\n"),
    ]), @r#"
    56:15: E-MAN-061: GEMS_VENDOR is `ascend` here and `metaxx` in [flag-gems] ["ascend"]
    64:11: E-MAN-060: the supplier is `vendor`, and the wheel requires no triton ["==3.6.0"]
    65:97: E-MAN-060: the local version of `0.6.1+hcu3.6` does not start with `metax` ["0.6.1+hcu3.6"]
    69:10: E-MAN-013: "metaxx" is none of FlagGems' backends: aipu, amd, arm, ascend, cambricon, enflame, hygon, iluvatar, kunlunxin, metax, mthreads, nvidia, spacemit, sunrise, thead, tsingmicro (did you mean `metax`?) ["metaxx"]
    "#);
}

#[test]
fn a_version_that_indexes_write_otherwise() {
    let flagtree = "{ name = \"flagtree\", local = \"metax\" }";
    insta::assert_snapshot!(problems(&[
        (flagtree, "{ name = \"flagtree\", version = \"v3.6\" }, { name = \"triton\", version = \"newest\" }"),
    ]), @r#"
    63:80: E-MAN-052: "v3.6" is not how package indexes write this version (PEP 440) (did you mean `3.6`?) ["v3.6"]
    63:119: E-MAN-052: "newest" is no version: expected version to start with a number, but no leading ASCII digits were found ["newest"]
    "#);
}

#[test]
fn runtime_and_ci() {
    insta::assert_snapshot!(problems(&[("[host]", "[runtime]\napi = \"cuba\"\n[host]")]), @r#"
    39:7: E-MAN-013: `cuba` is none of cuda ["cuba"]
    "#);
    insta::assert_snapshot!(
        problems(&[("[ci]", "[ci]\npython = [\"cp399\"]\ntests = [\"Import\", \"a\", \"a\"]\nartifact = \"keep\"")]),
        @r#"
        73:11: E-MAN-062: `cp399` is none of `python.tags` ["cp399"]
        74:10: E-MAN-020: "Import" is no short name: lower-case letters and digits, a letter first (did you mean `import`?) ["Import"]
        74:25: E-MAN-030: `a` is listed twice in ci.tests ["a"]
        75:12: E-MAN-013: "keep" is none of local, upload ["keep"]
        "#
    );
}
