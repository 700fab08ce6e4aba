use std::path::{Path, PathBuf};

use super::*;

fn table() -> Table {
    Table::new(
        [
            ("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", 1 | 512),
            ("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", 32),
            ("aten::mm(Tensor self, Tensor mat2) -> Tensor", 1 | 2 | 512),
            ("aten::dropout(Tensor input, float p, bool train) -> Tensor", 128),
            ("aten::t(Tensor(a) self) -> Tensor(a)", 1),
            ("aten::_cudnn_thing(Tensor self) -> Tensor", 1),
            ("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", 32),
            ("aten::_copy_from(Tensor self, Tensor dst, bool non_blocking=False) -> Tensor", 0),
            ("aten::set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)", 1),
            ("acme::fuse(Tensor x) -> Tensor", 32),
            ("aten::ambi.a_b(Tensor x) -> Tensor", 1),
            ("aten::ambi_a.b(Tensor x) -> Tensor", 1),
            ("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", 1),
        ]
        .map(|(s, f)| (s.to_owned(), f)),
    )
}
fn signature(name: &str) -> Option<i16> {
    ["aten::add.Tensor", "aten::t"].iter().position(|n| *n == name).map(|i| i16::try_from(i).unwrap())
}
fn decide(rules: &Rules) -> Result<Vec<Decision>, Vec<Error>> {
    table().decide(rules, true, signature)
}
fn way(rules: &Rules, name: &str) -> Way {
    let table = table();
    let found = table.find(name)[0].index as usize;
    decide(rules).unwrap()[found].way
}
fn variables(all: &[(&str, &str)]) -> Result<Rules, Error> {
    let mut rules = Rules::default();
    rules.read_variables(all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())))?;
    Ok(rules)
}
struct Files(tempfile::TempDir);
impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs_err::write(dir.path().join(name), text).unwrap();
        }
        Files(dir)
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn read(&self, name: &str) -> Result<Rules, Error> {
        let mut rules = Rules::default();
        rules.read_file(&self.path(name))?;
        Ok(rules)
    }
}

#[test]
fn built_in_ways() {
    let none = Rules::default();
    for (name, expected) in [
        ("add.Tensor", Way::Typed),
        ("add.Scalar", Way::Boxed), // a composite that the target runs as a whole
        ("mm", Way::Boxed),
        ("dropout", Way::Composite),
        ("t", Way::View),
        ("_copy_from", Way::Own),
        ("set_", Way::Boxed),
        ("acme::fuse", Way::Composite), // other people's composites are left to run as they are
    ] {
        assert_eq!(way(&none, name), expected, "{name}");
    }
    let decisions = decide(&none).unwrap();
    assert_eq!(decisions[2].functionalities, 1 | 2, "mm is registered for dense and for sparse tensors");
}

#[test]
fn copies_mix_devices_and_indices_may_lie_on_the_host() {
    let mixed = |host| {
        let decisions = table().decide(&Rules::default(), host, signature).unwrap();
        decisions
            .iter()
            .filter(|d| d.mixed)
            .map(|d| table().entries[d.entry].schema.full())
            .collect::<Vec<_>>()
    };
    assert_eq!(mixed(false), ["copy_", "_copy_from"]);
    assert_eq!(mixed(true), ["copy_", "_copy_from", "set_.source_Storage", "index.Tensor"]);
}

#[test]
fn sizes_of_packed_sequences_stay_on_the_host() {
    let schema =
        "aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)";
    let table = Table::new([(schema.to_owned(), 32)]);
    let decision = &table.decide(&Rules::default(), true, |_| Some(0)).unwrap()[0];
    // Results are told apart by the boxed relay alone.
    assert_eq!((decision.way, decision.signature, decision.host_returns), (Way::Boxed, None, 0b10));
}

#[test]
fn a_file_with_an_include() {
    let files = Files::new(&[
        ("main.conf", "# mine\nadd = cpu   # all overloads\ninclude more.conf\n"),
        ("more.conf", "aten::mm = cpu\nadd.Tensor = vendor\n"),
    ]);
    let rules = files.read("main.conf").unwrap();
    assert_eq!(way(&rules, "add.Tensor"), Way::Typed);
    assert_eq!(way(&rules, "add.Scalar"), Way::Cpu);
    let decision = &decide(&rules).unwrap()[2];
    assert_eq!(decision.way, Way::Cpu);
    let place = &decision.rule.as_ref().unwrap().place;
    assert_eq!(*place, Place::File(files.path("more.conf"), 1));
}

#[test]
fn an_overload_beats_a_bare_name_in_files() {
    let files = Files::new(&[("a.conf", "add.Tensor = cpu\nadd = vendor\n")]);
    assert_eq!(way(&files.read("a.conf").unwrap(), "add.Tensor"), Way::Cpu);
}

#[test]
fn a_variable_beats_a_file() {
    let files = Files::new(&[("a.conf", "add.Tensor = cpu\n")]);
    let mut rules = files.read("a.conf").unwrap();
    rules.read_variables([("FLAGOS_OP_add".to_owned(), "vendor".to_owned())]).unwrap();
    assert_eq!(way(&rules, "add.Tensor"), Way::Typed);
    assert_eq!(way(&variables(&[("FLAGOS_OP_add_Tensor", "cpu")]).unwrap(), "add.Tensor"), Way::Cpu);
}

#[test]
fn mistakes_name_their_place() {
    let files = Files::new(&[
        ("line.conf", "\nadd cpu\n"),
        ("backend.conf", "mm = vender\n"),
        ("twice.conf", "mm = cpu\n\nmm = vendor\n"),
        ("cycle.conf", "include other.conf\n"),
        ("other.conf", "mm = cpu\ninclude cycle.conf\n"),
        ("gone.conf", "include nowhere.conf\n"),
        ("later.conf", "mm = flaggems\n"),
    ]);
    let failed = |name: &str| {
        let e = files.read(name).unwrap_err();
        let text = e.to_string().replace(&format!("{}/", files.0.path().display()), "");
        (e.code(), text, e.hint())
    };
    assert_eq!(failed("line.conf").1, "line.conf:2: neither `op = backend` nor `include file`: \"add cpu\"");
    let (code, text, hint) = failed("backend.conf");
    assert_eq!((code, text.as_str()), ("E-RTE-003", "backend.conf:1: unknown backend \"vender\""));
    assert_eq!(hint, "did you mean \"vendor\"?");
    assert_eq!(failed("twice.conf").1, "twice.conf:3: mm has a backend already, at twice.conf:1");
    assert_eq!(failed("cycle.conf").1, "other.conf:2: cycle.conf includes itself");
    assert_eq!(failed("gone.conf").1, "gone.conf:1: cannot read nowhere.conf");
    assert_eq!(failed("later.conf").0, "E-RTE-009");
    assert_eq!(Rules::default().read_file(Path::new("/nowhere/a.conf")).unwrap_err().code(), "E-RTE-001");
}

#[test]
fn operators_that_there_are_not_and_backends_without_a_kernel() {
    let files =
        Files::new(&[("a.conf", "add.Tensr = cpu\n_cudnn_thing = composite\n_cudnn_thing.x = cpu\n")]);
    let errors = decide(&files.read("a.conf").unwrap()).unwrap_err();
    let codes: Vec<_> = errors.iter().map(Error::code).collect();
    assert_eq!(codes, ["E-RTE-004", "E-RTE-004"]);
    assert_eq!(errors[0].hint(), "did you mean add.Tensor?");
    for (name, backend) in
        [("_cudnn_thing", "cpu"), ("_cudnn_thing", "composite"), ("dropout", "vendor"), ("_copy_from", "cpu")]
    {
        let variable = format!("FLAGOS_OP_{name}");
        let errors = decide(&variables(&[(&variable, backend)]).unwrap()).unwrap_err();
        assert_eq!(errors[0].code(), "E-RTE-005", "{name}");
        assert!(errors[0].to_string().starts_with(&variable), "{}", errors[0]);
    }
}

#[test]
fn a_variable_that_may_mean_two_operators() {
    let errors = decide(&variables(&[("FLAGOS_OP_ambi_a_b", "vendor")]).unwrap()).unwrap_err();
    assert_eq!(errors[0].to_string(), "FLAGOS_OP_ambi_a_b: may mean ambi.a_b or ambi_a.b");
    assert_eq!(variables(&[("FLAGOS_OP_mm", "gpu")]).unwrap_err().code(), "E-RTE-003");
}
