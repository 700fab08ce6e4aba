//! The templates, embedded, and how they are filled in: `@NAME@` is replaced.

/// The C sources, by file name; all of them are written beside each other, so that they find `skeleton.h`.
pub(crate) const SOURCES: &[(&str, &str)] = &[
    ("skeleton.h", include_str!("../templates/skeleton.h")),
    ("_C.c", include_str!("../templates/_C.c")),
    ("c10.c", include_str!("../templates/c10.c")),
    ("device.c", include_str!("../templates/device.c")),
    ("gomp.c", include_str!("../templates/gomp.c")),
    ("plain.c", include_str!("../templates/plain.c")),
    ("stub.c", include_str!("../templates/stub.c")),
    ("torch_cpu.c", include_str!("../templates/torch_cpu.c")),
    ("torch_python.c", include_str!("../templates/torch_python.c")),
    ("torch_shm_manager.c", include_str!("../templates/torch_shm_manager.c")),
];

/// What stands in for the headers of a Python that is not here.
pub(crate) const PYTHON_H: &str = include_str!("../templates/Python.h");

/// The Python files of torch, the same in every build but for `version.py`; paths relative to `torch/`.
pub(crate) const PYTHON: &[(&str, &str)] = &[
    ("__init__.py", include_str!("../templates/torch/__init__.py")),
    ("_skeleton.py", include_str!("../templates/torch/_skeleton.py")),
    ("_tensor.py", include_str!("../templates/torch/_tensor.py")),
    ("_utils.py", include_str!("../templates/torch/_utils.py")),
    ("utils/__init__.py", include_str!("../templates/torch/utils/__init__.py")),
];

pub(crate) const VERSION_PY: &str = include_str!("../templates/torch/version.py");
pub(crate) const BUILD_H: &str = include_str!("../templates/include/build.h");
pub(crate) const TENSOR_H: &str = include_str!("../templates/include/Tensor.h");
pub(crate) const STREAM_H: &str = include_str!("../templates/include/Stream.h");
pub(crate) const TORCH_CONFIG: &str = include_str!("../templates/TorchConfig.cmake");
pub(crate) const LICENSE: &str = include_str!("../templates/LICENSE");

/// `text` with each `@KEY@` of `values` replaced.
pub(crate) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (key, value)| text.replace(&format!("@{key}@"), value))
}
