use crate::rig::{refuser, rigs, told};

const GAP: &str = "_ZN4acme8autocast10is_enabledEv";
const OPEN: &str = "_ZN4acme8autocast5dtypeEPKc";

/// A device library that needs two functions of a core that is not there, and a program that opens both.
const DEVICE: &str = "
    int enabled(void) __asm__(\"_ZN4acme8autocast10is_enabledEv\");
    long dtype(const char *) __asm__(\"_ZN4acme8autocast5dtypeEPKc\");
    int ask(int which) { return which ? (int)dtype(\"x\") : enabled() + 10; }";
const PROGRAM: &str = "
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char **argv) {
        void *gap = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), *device = dlopen(argv[2], RTLD_NOW);
        if (!device) return puts(dlerror()), 1;
        return printf(\"%d\\n\", ((int (*)(int))dlsym(device, \"ask\"))(atoi(argv[3]))), gap == 0;
    }";

#[test]
fn a_gap_loads_and_answers_what_was_said_and_refuses_the_rest() {
    for rig in rigs() {
        rig.shim(&refuser(rig.arch, &[GAP, OPEN], &[(GAP, 1)]), "shim");
        rig.write("device.c", DEVICE);
        rig.write("main.c", PROGRAM);
        rig.cc("-shared -fPIC device.c -o device.so");
        rig.cc("main.c -o main -ldl");
        let run =
            |which: &str| told(&rig.run(&format!("main shim/libacme_gap.so ./device.so {which}"), &["."]));
        assert_eq!(run("0"), "exit 0\n11", "{}", rig.arch);
        assert_eq!(
            run("1"),
            format!("signal 6\ntorch_fl: {OPEN} is not in the stock core; nobody said what it returns"),
            "{}",
            rig.arch
        );
        // Without it the device does not even load.
        let without = told(&rig.run("main ./none.so ./device.so 0", &["."]));
        assert!(without.contains("undefined symbol: _ZN4acme8autocast"), "{without}");
    }
}

#[test]
fn every_integer_is_answered_as_it_is() {
    for rig in rigs() {
        let values = [("least", i64::MIN), ("most", i64::MAX), ("minus", -1), ("none", 0)];
        rig.shim(&refuser(rig.arch, &[], &values), "shim");
        rig.write(
            "main.c",
            "#include <stdio.h>\nlong least(void), most(void), minus(void), none(void);\n\
             int main(void) { return printf(\"%ld %ld %ld %ld\\n\", least(), most(), minus(), none()) < 0; }",
        );
        rig.cc("main.c -o main shim/libacme_gap.so");
        let expected = format!("exit 0\n{} {} -1 0", i64::MIN, i64::MAX);
        assert_eq!(told(&rig.run("main", &["shim"])), expected, "{}", rig.arch);
    }
}

/// A name longer than the line that is written.
#[test]
fn a_name_that_does_not_fit_is_cut() {
    for rig in rigs() {
        let name = format!("_ZN4acme{}Ev", "9templates".repeat(1000));
        rig.shim(&refuser(rig.arch, &[&name], &[]), "shim");
        rig.write("main.c", &format!("void f(void) __asm__(\"{name}\"); int main(void) {{ f(); }}"));
        rig.cc("main.c -o main shim/libacme_gap.so");
        let said = told(&rig.run("main", &["shim"]));
        let line = said.strip_prefix("signal 6\ntorch_fl: _ZN4acme9templates").unwrap();
        assert!(line.len() < 2048 && !line.contains("Ev"), "{said}");
    }
}
