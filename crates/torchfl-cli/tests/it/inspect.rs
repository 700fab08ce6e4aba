use crate::context::Context;

#[test]
fn a_library() {
    let context = Context::new();
    let options = ["-Wl,-soname,liba.so.1", "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-Wl,--build-id=0x0123"];
    context.library("a.so", &options);
    insta::assert_snapshot!(context.run("inspect a.so"), @r"
    exit: 0
    --- stdout
    Elf64 [ARCH], library
      SONAME       liba.so.1
      RUNPATH      $ORIGIN
      build-id     [ID]
    --- stderr
    ");
    let facts = context.json("inspect a.so");
    assert_eq!(facts["soname"], "liba.so.1");
    assert_eq!(facts["search_path"], serde_json::json!({ "tag": "runpath", "value": "$ORIGIN" }));
}

#[test]
fn somebody_elses_wheel() {
    let context = Context::new();
    let value = context.json("inspect {torch}");
    assert_eq!(value["version"], "2.13.0+sim1.0.skeleton");
    assert_eq!(value["build"], serde_json::Value::Null);
}

#[test]
fn our_wheel() {
    let context = Context::new();
    let wheel = context.build("--sdk-root /opt/sim", "dist");
    let words = format!("inspect dist/{}", wheel.file_name().unwrap().to_string_lossy());
    insta::assert_snapshot!(context.run(&words), @r"
    exit: 0
    --- stdout
    torch_fl 2.13.0+sim1.0.skeleton
      35 files, [SIZE] unpacked
      skeleton: for tests, not for Sim sample chip: it comes of torch 2.13.0+cpu.skeleton, torch 2.13.0+sim1.0.skeleton, generated from the manifest
      tag       cp3XX-cp3XX-manylinux_2_XX_[ARCH]
      requires  torch==2.13.0
      torch_fl/lib_sim/libc10.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libc10_sim.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libshm.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libsimblas-[HASH].so.2 [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libtorch.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libtorch_cpu.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libtorch_global_deps.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libtorch_python.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
      torch_fl/lib_sim/libtorch_sim.so [SIZE]  rpath $ORIGIN:/opt/sim/lib
    --- stderr
    ");
    let value = context.json(&words);
    assert_eq!(value["build"], crate::context::build_json(&wheel));
    let core = value["libraries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|l| l["path"] == "torch_fl/lib_sim/libc10.so")
        .unwrap();
    assert_eq!(core["elf"]["search_path"]["value"], "$ORIGIN:/opt/sim/lib");
}

#[test]
fn neither_a_library_nor_a_wheel() {
    let context = Context::new();
    context.write("a.txt", "text");
    insta::assert_snapshot!(context.run("inspect a.txt"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-004

      x a.txt is neither an ELF file nor a wheel
      help: name a shared library, a program, or a .whl file
    ");
    insta::assert_snapshot!(context.run("inspect none.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-001

      x failed to open file `none.so`: No such file or directory (os error 2)
      help: check the spelling of the path
    ");
    context.write("torch_fl-1.0-py3-none-any.whl", "text");
    insta::assert_snapshot!(context.run("inspect torch_fl-1.0-py3-none-any.whl"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-020

      x torch_fl-1.0-py3-none-any.whl: is too short for a zip archive
      help: the file is damaged or was not completely copied; fetch it again and compare its sha256
    ");
    insta::assert_snapshot!(context.run("inspect ."), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-004

      x . is neither an ELF file nor a wheel
      help: name a shared library, a program, or a .whl file
    ");
}
