use crate::rig::{Rig, SONAME, TARGET, forwarder, rigs, told};

const CASES: &[&str] =
    &["ints", "reals", "ten", "large", "pair", "vector", "varargs", "call-back", "threads", "forked"];

fn prepared() -> Vec<Rig> {
    let rigs = rigs();
    for rig in &rigs {
        rig.program();
        rig.shim(&forwarder(rig.arch), "shim");
    }
    rigs
}

#[test]
fn calls_arrive_with_all_their_arguments_and_come_back_with_the_result() {
    for rig in prepared() {
        rig.target("sdk", "");
        for case in CASES {
            let output = rig.run(&format!("program {case}"), &["shim", "sdk"]);
            assert_eq!(told(&output), "exit 0\nright", "{case} on {}", rig.arch);
        }
    }
}

/// When the shim was loaded its target could not be found; somebody opened it since. The first call of each case looks
/// for it, with all arguments in their registers; of `threads`, in all threads at once.
#[test]
fn a_call_finds_a_target_that_was_opened_after_the_shim() {
    for rig in prepared() {
        rig.target("elsewhere", "");
        for case in CASES {
            let output = rig.run(&format!("program {case} -l elsewhere/{TARGET}"), &["shim"]);
            assert_eq!(told(&output), "exit 0\nright", "{case} on {}", rig.arch);
        }
    }
}

#[test]
fn a_stub_answers_itself_whatever_the_target_says() {
    for rig in prepared() {
        rig.target("sdk", "");
        assert_eq!(told(&rig.run("program answered", &["shim", "sdk"])), "exit 0\nright", "{}", rig.arch);
        // It needs no target.
        assert_eq!(told(&rig.run("program answered", &["shim"])), "exit 0\nright", "{}", rig.arch);
    }
}

#[test]
fn a_function_that_the_target_lacks_ends_the_process_when_it_is_called_and_not_before() {
    for rig in prepared() {
        rig.target("sdk", "");
        assert_eq!(told(&rig.run("program ints", &["shim", "sdk"])), "exit 0\nright", "{}", rig.arch);
        assert_eq!(
            told(&rig.run("program absent", &["shim", "sdk"])),
            "signal 6\ntorch_fl: acme_absent of libacmert.so.12 was called, and libacmesym.so has no such function",
            "{}",
            rig.arch
        );
    }
}

#[test]
fn a_target_that_cannot_be_opened_ends_the_process_at_the_first_call() {
    for rig in prepared() {
        // Nothing is called: the program has no such case.
        assert_eq!(told(&rig.run("program nothing", &["shim"])), "exit 3\nno such case", "{}", rig.arch);
        assert_eq!(
            told(&rig.run("program ints", &["shim"])),
            "signal 6\ntorch_fl: acme_ints of libacmert.so.12 is in libacmesym.so, which cannot be opened: \
             libacmesym.so: cannot open shared object file: No such file or directory",
            "{}",
            rig.arch
        );
        rig.write(
            &format!("sdk/{TARGET}"),
            "not a library, but long enough for the header of one: ...............",
        );
        let output = told(&rig.run("program ints", &["shim", "sdk"]));
        assert!(output.ends_with("invalid ELF header"), "{output}");
    }
}

/// The target's own constructor calls the shim, which is not done opening it: the program's scope, where the shim is,
/// comes before the target's own.
#[test]
fn a_target_that_needs_the_shim_may_call_it_while_it_is_opened() {
    for rig in prepared() {
        rig.target("sdk", "-DCYCLE");
        assert_eq!(told(&rig.run("program self", &["shim", "sdk"])), "exit 0\n650\nright", "{}", rig.arch);
    }
}

/// `dlsym` looks through what the target needs as well, and finds the shim's own function there: no way forward.
#[test]
fn a_target_that_needs_the_shim_and_lacks_a_function_is_no_endless_loop() {
    for rig in prepared() {
        rig.target("sdk", &format!("-Wl,--no-as-needed link/{SONAME}"));
        assert_eq!(
            told(&rig.run("program absent", &["shim", "sdk"])),
            "signal 6\ntorch_fl: acme_absent of libacmert.so.12 was called, and libacmesym.so has no such function",
            "{}",
            rig.arch
        );
    }
}

/// The search path of the file itself, and not only the environment's.
#[test]
fn the_target_is_found_on_the_shims_own_search_path() {
    for rig in rigs() {
        rig.program();
        rig.target("sdk/lib", "");
        for search in [torchfl_shim::Search::Rpath, torchfl_shim::Search::Runpath] {
            let search = Some(search("$ORIGIN:$ORIGIN/../sdk/lib".to_owned()));
            rig.shim(&torchfl_shim::Spec { search, ..forwarder(rig.arch) }, "shim");
            assert_eq!(told(&rig.run("program large", &["shim"])), "exit 0\nright", "{}", rig.arch);
        }
    }
}
