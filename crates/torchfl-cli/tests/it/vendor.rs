use crate::context::{Context, SIM};

#[test]
fn list() {
    insta::assert_snapshot!(Context::new().run("vendor list"), @r"
    exit: 0
    --- stdout
    ascend       torch 2.10.0   none   runtime-only  Huawei Ascend, CANN 9
    bpu          torch 2.10.0   none   runtime-only  D-Robotics BPU
    cuda         torch 2.13.0   core   experimental  NVIDIA CUDA 13
    cuda-slim    torch 2.13.0   extra  experimental  NVIDIA CUDA 13, on the stock core
    dcu          torch 2.10.0   core   experimental  Hygon DCU, DTK 26.04
    dcu-slim     torch 2.10.0   extra  experimental  Hygon DCU, DTK 26.04, on the stock core
    gcu          torch 2.10.0   none   runtime-only  Enflame GCU 1.9
    kunlunxin    torch 2.9.0    none   experimental  Kunlunxin P800
    metax        torch 2.10.0   core   experimental  MetaX MACA 3.8
    musa         torch 2.10.0   none   runtime-only  Moore Threads MUSA 5.2
    ppu          torch 2.10.0   core   experimental  T-Head PPU 2.0
    sim          torch 2.13.0   core   experimental  Sim sample chip
    tsingmicro   torch 2.10.0   none   runtime-only  TsingMicro TX8
    --- stderr
    ");
}

#[test]
fn show_resolves_and_source_does_not() {
    let context = Context::new();
    let shown: serde_json::Value = serde_json::from_str(&context.stdout("vendor show sim")).unwrap();
    assert_eq!(shown, context.json("vendor show sim"));
    assert_eq!(shown["version"], "2.13.0+sim1.0");
    assert_eq!(shown["bundle"]["search_path"], serde_json::json!(["$ORIGIN", "/opt/sim/lib"]));
    assert_eq!(context.stdout("vendor show sim --source"), SIM);
    assert_eq!(context.json("vendor show sim --source")["text"], SIM);
}

#[test]
fn an_unknown_vendor_is_told_the_nearest() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("vendor show simm"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-101

      x no manifest is named `simm`
      help: did you mean `sim`? There are ascend, bpu, cuda, cuda-slim, dcu, dcu-slim, gcu, kunlunxin, metax, musa, ppu, sim, tsingmicro
    ");
    insta::assert_snapshot!(context.run("--json vendor show simm"), @r#"
    exit: 2
    --- stdout
    {
      "error": {
        "also": [],
        "causes": [],
        "code": "E-MAN-101",
        "hint": "did you mean `sim`? There are ascend, bpu, cuda, cuda-slim, dcu, dcu-slim, gcu, kunlunxin, metax, musa, ppu, sim, tsingmicro",
        "message": "no manifest is named `simm`"
      }
    }
    --- stderr
    E-MAN-101

      x no manifest is named `simm`
      help: did you mean `sim`? There are ascend, bpu, cuda, cuda-slim, dcu, dcu-slim, gcu, kunlunxin, metax, musa, ppu, sim, tsingmicro
    "#);
    insta::assert_snapshot!(context.run("build simm --torch x"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-101

      x no manifest is named `simm`
      help: did you mean `sim`? There are ascend, bpu, cuda, cuda-slim, dcu, dcu-slim, gcu, kunlunxin, metax, musa, ppu, sim, tsingmicro
    ");
}

#[test]
fn check_of_a_complete_manifest() {
    insta::assert_snapshot!(Context::new().run("vendor check sim"), @r"
    exit: 0
    --- stdout
    sim.toml: complete
    --- stderr
    ");
}

#[test]
fn check_lists_open_facts() {
    insta::assert_snapshot!(Context::new().run("vendor check metax"), @r"
    exit: 1
    --- stdout
    metax.toml:66: shim[0].symbols: the symbols are not listed: one more in a later bundle goes unnoticed
    metax.toml:63: shim[0].stub: no stubs: a call of what nobody else defines ends the process
    metax.toml:89: input[0].file: the file's whole name is not known: it cannot be asked of a mirror
    metax.toml:89: input[0].sha256: no sum: `torchfl fetch` takes the file only with --sha256 or --allow-unhashed
    metax.toml:95: input[1].sha256: no sum: `torchfl fetch` takes the file only with --sha256 or --allow-unhashed
    --- stderr
    ");
}

/// Four mistakes in one manifest.
fn broken(context: &Context) {
    context.manifest(&[
        ("status = \"experimental\"", "status = \"experimantal\"\nvendro = 1"),
        ("front = \"cpu\"", "front = 1"),
        ("\"libtorch.so\", \"libshm.so\", \"libtorch_python.so\",\n]", "\"libtorhc.so\"\n]"),
    ]);
}

#[test]
fn every_mistake_is_shown_with_its_place_and_the_nearest_spelling() {
    let context = Context::new();
    broken(&context);
    insta::assert_snapshot!(context.run("vendor check --manifest m.toml"), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-013

      x m.toml:6:10: status: "experimantal" is none of stable, beta, experimental, runtime-only
       ,-[m.toml:6:10]
     5 | title = "Sim sample chip"
     6 | status = "experimantal"
       :          ^^^^^^^^^^^^^^
     7 | vendro = 1
       `----
      help: did you mean `experimental`?

    Error: E-MAN-010

      x m.toml:7:1: vendro: unknown key `vendro`
       ,-[m.toml:7:1]
     6 | status = "experimantal"
     7 | vendro = 1
       : ^^^^^^
     8 |
       `----
      help: did you mean `vendor`?

    Error: E-MAN-011

      x m.toml:11:9: torch.front: expected a string, found an integer
        ,-[m.toml:11:9]
     10 | release = "2.13.0"                      # the stock release that the tests use
     11 | front = 1
        :         ^
     12 | markers = ["sim = '1.0'"]               # the generated torch/version.py holds this line
        `----

    Error: E-MAN-032

      x m.toml:41:5: bundle.preload[5]: `libtorhc.so` comes from nowhere: it is no shim, and not in required, optional, front or never-duplicate
        ,-[m.toml:41:5]
     40 |     "libgomp.so.1", "libc10.so", "libtorch_cpu.so", "libc10_sim.so", "libtorch_sim.so",
     41 |     "libtorhc.so"
        :     ^^^^^^^^^^^^^
     42 | ]
        `----
      help: did you mean `libtorch.so`?
    "#);
}

/// On stdout the object, on stderr the text: the same mistakes.
#[test]
fn every_mistake_is_in_the_json_too() {
    let context = Context::new();
    broken(&context);
    let (json, text) = (
        context.output("--json vendor check --manifest m.toml"),
        context.output("vendor check --manifest m.toml"),
    );
    assert_eq!((json.status, &json.stderr), (text.status, &text.stderr));
    insta::assert_snapshot!(String::from_utf8(json.stdout).unwrap(), @r#"
    {
      "error": {
        "also": [
          {
            "also": [],
            "causes": [],
            "code": "E-MAN-010",
            "hint": "did you mean `vendor`?",
            "message": "m.toml:7:1: vendro: unknown key `vendro`"
          },
          {
            "also": [],
            "causes": [],
            "code": "E-MAN-011",
            "hint": null,
            "message": "m.toml:11:9: torch.front: expected a string, found an integer"
          },
          {
            "also": [],
            "causes": [],
            "code": "E-MAN-032",
            "hint": "did you mean `libtorch.so`?",
            "message": "m.toml:41:5: bundle.preload[5]: `libtorhc.so` comes from nowhere: it is no shim, and not in required, optional, front or never-duplicate"
          }
        ],
        "causes": [],
        "code": "E-MAN-013",
        "hint": "did you mean `experimental`?",
        "message": "m.toml:6:10: status: \"experimantal\" is none of stable, beta, experimental, runtime-only"
      }
    }
    "#);
}

#[test]
fn a_text_that_is_no_toml() {
    let context = Context::new();
    context.write("m.toml", "schema = 1\nvendor = \n");
    insta::assert_snapshot!(context.run("vendor check --manifest m.toml"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-001

      x m.toml:2:10: string values must be quoted, expected literal string
       ,-[m.toml:2:10]
     1 | schema = 1
     2 | vendor =
       :          ^
       `----
    ");
}

#[test]
fn a_manifest_that_is_not_there() {
    insta::assert_snapshot!(Context::new().run("vendor check --manifest none.toml"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-001

      x failed to open file `none.toml`: No such file or directory (os error 2)
      help: check the spelling of the path
    ");
}

#[test]
fn a_started_manifest_has_findings_and_is_never_written_over() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("vendor add metax --from cuda -o metax.toml"), @r"
    exit: 0
    --- stdout
    metax.toml: written; `torchfl vendor check --manifest metax.toml` says what is missing
    --- stderr
    ");
    let text = fs_err::read_to_string(context.path("metax.toml")).unwrap();
    assert!(text.contains("vendor = \"metax\""), "{text}");
    let findings = context.output("vendor check --manifest metax.toml");
    assert_eq!(findings.status.code(), Some(1), "{}", context.show(&findings));
    assert!(context.show(&findings).contains("metax.toml:"), "{}", context.show(&findings));
    insta::assert_snapshot!(context.run("vendor add metax"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-003

      x metax.toml exists
      help: it is never written over: name another file with -o, or move it away
    ");
    assert_eq!(fs_err::read_to_string(context.path("metax.toml")).unwrap(), text);
    assert_eq!(crate::context::names(&context.path("")), ["metax.toml", "sk"]);
}

#[test]
fn add_into_a_folder_that_is_not_there() {
    insta::assert_snapshot!(Context::new().run("vendor add metax -o none/metax.toml"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-001

      x cannot write none/metax.toml: entity not found
      help: check the spelling of the path
    ");
}

#[test]
fn schema_is_the_committed_one() {
    let committed = include_str!("../../../../docs/reference/manifest.schema.json");
    assert_eq!(Context::new().stdout("vendor schema"), committed);
}
