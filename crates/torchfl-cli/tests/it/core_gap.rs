use crate::context::{Context, skeleton, wheel_in};

#[test]
fn a_fork_whose_device_needs_its_own_core() {
    insta::assert_snapshot!(Context::new().run("core-gap --vendor {torch} --stock {stock}"), @r#"
    exit: 1
    --- stdout
    core: libc10.so, libgomp.so.1, libshm.so, libtorch.so, libtorch_cpu.so, libtorch_global_deps.so, libtorch_python.so
    the vendor's own: libc10_sim.so, libtorch_sim.so
    5 symbols imported from the core

    not in the stock core:
      at_fork_autocast of libtorch_cpu.so, needed by libtorch_sim.so

    swap = "core" is needed, or a core-gap shim of 1 symbol
    --- stderr
    "#);
}

#[test]
fn a_device_that_runs_on_the_stock_core() {
    let made = skeleton("cuda-slim");
    let (vendor, stock) = (wheel_in(&made.join("vendor")), wheel_in(&made.join("stock")));
    let words = format!("core-gap --vendor {} --stock {}", vendor.display(), stock.display());
    insta::assert_snapshot!(Context::new().run(&words), @r#"
    exit: 0
    --- stdout
    core: libc10.so, libgomp.so.1, libshm.so, libtorch.so, libtorch_cpu.so, libtorch_global_deps.so, libtorch_python.so
    the vendor's own: libc10_cuda.so, libcaffe2_nvrtc.so, libtorch_cuda.so, libtorch_cuda_linalg.so, libtorch_nvshmem.so
    4 symbols imported from the core

    swap = "extra" is enough: the stock core has all that the vendor's own libraries need
    --- stderr
    "#);
}

/// A plugin counts as one of the vendor's libraries; installed torches do as well as wheels.
#[test]
fn a_plugin_that_needs_the_forks_core() {
    let context = Context::new();
    context.unpack("stock", "stock");
    context.unpack("stock", "vendor");
    context.write("core.c", "int at_fork_autocast(void) { return 1; } int c10_table[40]; int c10_names[9];");
    cc(&context, &["core.c", "-o", "vendor/torch/lib/libtorch_cpu.so", "-Wl,-soname,libtorch_cpu.so"]);
    context.write("core.c", "int c10_table[30]; int c10_names[9];");
    cc(&context, &["core.c", "-o", "stock/torch/lib/libtorch_cpu.so", "-Wl,-soname,libtorch_cpu.so"]);
    let plugin = "int at_fork_autocast(void); int plugin(void) { return at_fork_autocast(); }";
    context.write("plugin.c", plugin);
    cc(&context, &["plugin.c", "-o", "plugin.so"]);
    let words = "core-gap --vendor vendor --stock stock";
    insta::assert_snapshot!(context.run(words), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-013

      x vendor: no library of torch/lib that stock lacks
      help: is --vendor the vendor's torch, and --stock the stock one?
    ");
    insta::assert_snapshot!(context.run(&format!("{words} --plugin plugin.so")), @r#"
    exit: 1
    --- stdout
    core: libc10.so, libgomp.so.1, libshm.so, libtorch.so, libtorch_cpu.so, libtorch_global_deps.so, libtorch_python.so
    the vendor's own: none
    1 symbol imported from the core

    not in the stock core:
      at_fork_autocast of libtorch_cpu.so, needed by plugin.so

    swap = "core" is needed, or a core-gap shim of 1 symbol
    --- stderr
    "#);
    let data = format!(
        "extern int c10_table[], c10_names[]; int *plugin_data(void) {{ return c10_table + *c10_names; }}\n{plugin}"
    );
    context.write("plugin.c", &data);
    cc(&context, &["plugin.c", "-o", "plugin.so"]);
    insta::assert_snapshot!(context.run(&format!("{words} --plugin plugin.so")), @r#"
    exit: 1
    --- stdout
    core: libc10.so, libgomp.so.1, libshm.so, libtorch.so, libtorch_cpu.so, libtorch_global_deps.so, libtorch_python.so
    the vendor's own: none
    3 symbols imported from the core

    not in the stock core:
      at_fork_autocast of libtorch_cpu.so, needed by plugin.so

    of another size in the stock core:
      c10_table of libtorch_cpu.so, needed by plugin.so

    swap = "core" is needed: 1 symbol has another size, which no shim can give
    --- stderr
    "#);
    context.write("core.c", "int c10_names[9];");
    cc(&context, &["core.c", "-o", "stock/torch/lib/libtorch_cpu.so", "-Wl,-soname,libtorch_cpu.so"]);
    let text = context.run(&format!("{words} --plugin plugin.so"));
    let conclusion = "swap = \"core\" is needed: 1 symbol is no function, which no shim can give";
    assert!(text.contains(conclusion), "{text}");
}

fn cc(context: &Context, words: &[&str]) {
    let mut cc = std::process::Command::new("cc");
    let made = cc.args(["-shared", "-fPIC"]).args(words).current_dir(context.path("")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn json_is_the_gap() {
    let context = Context::new();
    let output = context.output("core-gap --vendor {torch} --stock {stock} --json");
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(context.filter(&String::from_utf8(output.stdout).unwrap()), @r#"
    {
      "core": [
        "libc10.so",
        "libgomp.so.1",
        "libshm.so",
        "libtorch.so",
        "libtorch_cpu.so",
        "libtorch_global_deps.so",
        "libtorch_python.so"
      ],
      "extra": [
        "libc10_sim.so",
        "libtorch_sim.so"
      ],
      "imported": 5,
      "missing": [
        {
          "symbol": "at_fork_autocast",
          "core": "libtorch_cpu.so",
          "needed_by": [
            "libtorch_sim.so"
          ],
          "data": false
        }
      ],
      "resized": []
    }
    "#);
}

#[test]
fn what_is_no_torch() {
    let context = Context::new();
    context.write("empty/readme.txt", "");
    insta::assert_snapshot!(context.run("core-gap --vendor empty --stock {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-003

      x empty: no torch: there is no torch/version.py
      help: name the torch wheel, or the site-packages folder that torch is installed in
    ");
    context.write("text.so", "no library");
    insta::assert_snapshot!(context.run("core-gap --vendor {torch} --stock {stock} --plugin text.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-007

      x text.so: not a library
      `-> file too short
      help: name a shared library that is linked against torch
    ");
}
