//! What a program meets that imports such a wheel.

use std::process::Command;

use super::{built, dcu_slim, metax, python};

/// Answers of what a library is linked against, the SDK's under other names: each is a pointer to a text.
const CALLS: &str = "
import ctypes, torch_fl, torch
for path in {line.split()[-1] for line in open('/proc/self/maps') if 'libtorch_cuda.so' in line}:
    device = ctypes.CDLL(path)
device.cudart_launch.restype = device.cudart_build.restype = ctypes.c_char_p
print(device.cudart_launch(), device.cudart_build(), device.torch_cuda_uses())
";

#[test]
fn the_forwarder_leads_into_the_sdk_of_the_machine() {
    let (context, words) = metax(&[]);
    let wheel = built(&context, &words, "opt/maca");
    let ran = python(&context, &wheel, CALLS);
    let said = context.show(&ran);
    assert!(ran.status.success(), "{said}");
    insta::assert_snapshot!(said, @r"
    exit: 0
    --- stdout
    b'forwarded' b'metax' 16
    --- stderr
    ");
}

/// The stub's answer is its own, whatever the SDK has; a function that the SDK lacks is told by name.
#[test]
fn a_stub_answers_and_what_the_sdk_lacks_ends_the_process() {
    let stubs = "symbols = \"computed\"\nstub = [{ name = \"cudart_build\", returns = 801 }, { name = \"cudart_new\", returns = -1 }]";
    let (context, words) = metax(&[("symbols = \"computed\"", stubs)]);
    let wheel = built(&context, &words, "opt/maca");
    let code = CALLS
        .replace("device.cudart_build.restype = ", "")
        .replace("device.torch_cuda_uses()", "device.cudart_new()");
    insta::assert_snapshot!(context.show(&python(&context, &wheel, &code)), @r"
    exit: 0
    --- stdout
    b'forwarded' 801 -1
    --- stderr
    ");

    let listed = "symbols = [\"cudart_build\", \"cudart_launch\", \"cudart_gone\"]";
    let (context, words) = metax(&[("symbols = \"computed\"", listed)]);
    let wheel = built(&context, &words, "opt/maca");
    let ran = python(&context, &wheel, &CALLS.replace("device.cudart_launch()", "device.cudart_gone()"));
    insta::assert_snapshot!(context.show(&ran), @r"
    exit: signal: 6 (SIGABRT)
    --- stdout
    --- stderr
    torch_fl: cudart_gone of libcudart.so.12 was called, and libsymbol_cu.so has no such function
    ");
}

#[test]
fn a_symbol_of_the_gap_that_nobody_described_ends_the_process_when_it_is_called() {
    let (context, words) = dcu_slim(&[]);
    let wheel = built(&context, &words, "opt/dtk");
    let code = "
import ctypes, sys, torch_fl, torch
for path in {line.split()[-1] for line in open('/proc/self/maps') if 'libtorch_hip.so' in line}:
    device = ctypes.CDLL(path)
print('imported', flush=True)
if sys.argv[1:]:
    device.torch_hip_gap()
";
    insta::assert_snapshot!(context.show(&python(&context, &wheel, code)), @r"
    exit: 0
    --- stdout
    imported
    --- stderr
    ");
    let code = code.replace("sys.argv[1:]", "True");
    insta::assert_snapshot!(context.show(&python(&context, &wheel, &code)), @r"
    exit: signal: 6 (SIGABRT)
    --- stdout
    imported
    --- stderr
    torch_fl: _ZN2at8autocast16set_fork_enabledEb is not in the stock core; libtorch_core_gap.so only holds its place, and no [[shim]] stub says what it returns
    ");
}

/// The incumbents' fault: a shim by hand that lacks what the fork wants shows as `undefined symbol` at import.
#[test]
fn a_shim_that_lacks_a_symbol_is_found_by_the_audit() {
    let (context, words) = metax(&[]);
    let wheel = built(&context, &words, "opt/maca");
    python(&context, &wheel, "");
    context.write("hand.c", "const char *cudart_build(void) { return \"by hand\"; }\n");
    context.write("hand.map", "libcudart.so.12 { global: *; };\n");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "hand.c", "-o", "site/torch_fl/lib_maca/libcudart.so.12"])
        .args(["-Wl,-soname,libcudart.so.12", "-Wl,--version-script=hand.map"])
        .current_dir(context.path(""))
        .output()
        .unwrap();
    assert!(cc.status.success(), "{cc:?}");
    let text = context.run("audit site");
    assert!(text.starts_with("exit: 1\n"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains("AUD-002")).unwrap_or_else(|| panic!("{text}"));
    insta::assert_snapshot!(lines[at..at + 3].join("\n"), @r"
    AUD-002 Undefined symbol
      torch_fl/lib_maca/libtorch_cuda.so
        torch_fl/lib_maca/libtorch_cuda.so refers to cudart_launch in version libcudart.so.12 of libcudart.so.12, which no library in its scope defines
    ");
}
