//! METADATA and WHEEL, ours and other people's.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use torchfl_wheel::{Error, Metadata, MetadataVersion, Version, WheelFile, WheelName, parse_requirement};

/// Cut from a real file of setuptools.
const TORCH: &str = "\
Metadata-Version: 2.4
Name: torch
Version: 2.13.0+cpu
Summary: Tensors and Dynamic neural networks in Python with strong GPU acceleration
License-Expression: Apache-2.0 AND BSD-3-Clause
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3.10
Requires-Python: >=3.10
Description-Content-Type: text/markdown
License-File: LICENSE
License-File: third_party/FP16/LICENSE
Requires-Dist: filelock
Requires-Dist: typing-extensions>=4.10.0
Requires-Dist: nvidia-cublas==13.1; platform_system == \"Linux\"
Provides-Extra: optree
Requires-Dist: optree>=0.13.0; extra == \"optree\"
Dynamic: requires-dist

![PyTorch Logo](https://github.com/pytorch)

    Name: not a header

--------
";

fn parse(text: &str) -> Metadata {
    Metadata::parse(text.as_bytes(), "METADATA").unwrap()
}

fn new() -> Metadata {
    Metadata::new(MetadataVersion::V2_4, "torch-fl", &"2.13.0+cuda13.0".parse::<Version>().unwrap())
}

#[test]
fn a_real_file_is_read_and_written_back_unchanged() {
    let metadata = parse(TORCH);
    assert_eq!(metadata.name(), "torch");
    assert_eq!(metadata.version().unwrap().to_string(), "2.13.0+cpu");
    assert_eq!(metadata.get_all("license-file").count(), 2);
    assert_eq!(metadata.get_all("Provides-Extra").collect::<Vec<_>>(), ["optree"]);
    let requires = metadata.requires_dist().unwrap();
    assert_eq!(requires[2].to_string(), "nvidia-cublas==13.1 ; platform_system == 'Linux'");
    assert!(metadata.description().unwrap().starts_with("![PyTorch Logo]"));
    assert!(metadata.description().unwrap().ends_with("not a header\n\n--------\n"));
    assert_eq!(metadata.render().unwrap(), TORCH);
}

#[test]
fn golden_text_with_a_markdown_description() {
    let mut metadata = new();
    metadata.push("License-Expression", "Apache-2.0");
    metadata.push("License-File", "LICENSE");
    metadata.push("Requires-Dist", "torch==2.13.0");
    metadata.set_markdown("# torch-fl\n\n* one\n\n    code\n");
    assert_eq!(
        metadata.render().unwrap(),
        "Metadata-Version: 2.4\nName: torch-fl\nVersion: 2.13.0+cuda13.0\nLicense-Expression: Apache-2.0\n\
         License-File: LICENSE\nRequires-Dist: torch==2.13.0\n\
         Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM\n\n# torch-fl\n\n* one\n\n    code\n"
    );
}

#[test]
fn version_2_3_has_no_license_expression_and_no_license_files() {
    let mut metadata = new();
    metadata.push("License-Expression", "Apache-2.0");
    metadata.push("License-File", "LICENSE");
    let text = metadata.to_version(MetadataVersion::V2_3).render().unwrap();
    assert_eq!(
        text,
        "Metadata-Version: 2.3\nName: torch-fl\nVersion: 2.13.0+cuda13.0\nLicense: Apache-2.0\n"
    );
    assert_eq!(metadata.to_version(MetadataVersion::V2_4), metadata);
}

#[test]
fn folded_headers_of_both_styles() {
    let text = "Metadata-Version: 2.1\r\nName: x\r\nVersion: 1\r\nLicense: MIT\r\n        \r\n          indented\r\n\r\nbody\r\n";
    let metadata = parse(text);
    assert_eq!(metadata.get("License"), Some("MIT\n\n  indented"));
    assert_eq!(metadata.description(), Some("body\r\n"));
    assert_eq!(parse(&metadata.render().unwrap()), metadata);
    let old = parse("Metadata-Version: 1.2\nName: x\nVersion: 1\nDescription: one\n       |two\n\tthree\n");
    assert_eq!(old.description(), Some("one\ntwo\nthree"));
}

#[test]
fn blank_lines_and_missing_descriptions() {
    assert_eq!(parse("Name: x\n").description, None);
    assert_eq!(parse("Name: x\n\n").description, None);
    assert_eq!(parse("Name: x\n\n\n").description.as_deref(), Some("\n"));
    assert_eq!(parse("\nName: x\n").headers, []);
    assert_eq!(parse("\u{feff}Name: x").name(), "x");
}

#[test]
fn damaged_files_name_the_line() {
    for (text, expected) in [
        (&b"Name: x\nnonsense\n"[..], 2),
        (b" folded\n", 1),
        (b"Name: x\nBad Name: x\n", 2),
        (b"Name: x\n: x\n", 2),
        (b"Name: x\nSummary: \xff\n", 2),
    ] {
        match Metadata::parse(text, "METADATA") {
            Err(Error::Headers { line, .. }) => assert_eq!(line, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn values_that_would_not_be_read_back_are_refused() {
    for value in ["a\rb", "a\0b", " leading"] {
        let mut metadata = new();
        metadata.push("Summary", value);
        assert_eq!(metadata.render().unwrap_err().code(), "E-WHL-003", "{value:?}");
    }
}

#[test]
fn fields_are_checked() {
    let refuse = |header: &str, value: &str| {
        let mut metadata = new();
        metadata.remove(header);
        if !value.is_empty() {
            metadata.push(header, value);
        }
        metadata.check("METADATA").unwrap_err().to_string()
    };
    assert_eq!(refuse("Name", ""), "METADATA: Name: ``: is missing");
    assert!(refuse("Name", "a b").contains("not a distribution's name"));
    assert!(refuse("Version", "one").contains("Version: `one`"));
    assert!(refuse("Version", &"1".repeat(300)).contains("longer than 256"));
    assert!(refuse("Requires-Dist", "torch=2").contains("Requires-Dist: `torch=2`"));
    assert!(refuse("Metadata-Version", "3.0").contains("neither 1.x nor 2.x"));
    let mut twice = new();
    twice.push("name", "other");
    assert!(twice.render().unwrap_err().to_string().contains("more than once"));
}

/// The parser panicked on these.
#[test]
fn names_that_end_in_a_separator_and_unicode_are_refused() {
    for text in [
        "y; (extra == 'z'\u{feff} or os_name == 'x')",
        "a-]",
        "a-;",
        "a.b_ ==1",
        "a[b-]",
        "a[b,c.,d]==1",
        "-a",
        "",
    ] {
        assert_eq!(parse_requirement(text).unwrap_err().code(), "E-WHL-004", "{text}");
    }
    assert!(parse_requirement(" a.b-c [d, e_f] (>=1) ; python_version >= '3.10'").is_ok());
}

/// The parser's own address type would put the variable's value here.
#[test]
fn environment_variables_in_addresses_stay_as_they_are() {
    let requirement = parse_requirement("x @ https://example.org/${HOME}/x-1.whl").unwrap();
    assert_eq!(requirement.to_string(), "x @ https://example.org/${HOME}/x-1.whl");
}

#[test]
fn wheel_golden_text_and_back() {
    let name: WheelName = "x-1-7b-py2.py3-none-any.whl".parse().unwrap();
    let wheel = WheelFile::new(&name, "torchfl 0.1.0", false);
    let text = wheel.render().unwrap();
    assert_eq!(
        text,
        "Wheel-Version: 1.0\nGenerator: torchfl 0.1.0\nRoot-Is-Purelib: false\nTag: py2-none-any\nTag: py3-none-any\nBuild: 7b\n"
    );
    assert_eq!(WheelFile::parse(text.as_bytes(), "WHEEL").unwrap(), wheel);
    for bad in
        ["", "Wheel-Version: 2.0\nRoot-Is-Purelib: true\n", "Wheel-Version: 1.0\nRoot-Is-Purelib: yes\n"]
    {
        assert_eq!(WheelFile::parse(bad.as_bytes(), "WHEEL").unwrap_err().code(), "E-WHL-004");
    }
    let bad = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none\n";
    assert_eq!(WheelFile::parse(bad.as_bytes(), "WHEEL").unwrap_err().code(), "E-WHL-004");
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(metadata) = Metadata::parse(&bytes, "METADATA") {
            let _ = metadata.check("METADATA");
        }
        let _ = WheelFile::parse(&bytes, "WHEEL");
    }

    #[test]
    fn requirements_never_panic(text in "[a-z0-9.,;()\\[\\]<>=!~@ '\"_-]{0,60}|.{0,30}") {
        let _ = parse_requirement(&text);
    }

    #[test]
    fn headers_are_read_back(
        headers in prop::collection::vec(("X-[A-Za-z-]{1,10}", "([^\\s\0][^\r\0]{0,30})?"), 0..6),
        description in prop::option::of("[^\0]{1,40}"),
    ) {
        let mut metadata = new();
        metadata.headers.extend(headers);
        metadata.description = description;
        prop_assert_eq!(parse(&metadata.render().unwrap()), metadata);
    }
}
