//! What is reached by name in the vendor's libraries, as Python sees it: device properties and captured graphs.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::edge::started;
use crate::ffi;

/// The address of a logical name, and its number; `NotImplementedError` names what is missing.
fn address(name: &str) -> PyResult<(usize, i32)> {
    let started = started()?;
    if started.host {
        return Err(PyNotImplementedError::new_err(format!(
            "{name}: flagos runs on the CPU, which has no such thing"
        )));
    }
    let found = started.runtime.find(name, ffi::symbol);
    let (address, argument) =
        found.map_err(|e| PyNotImplementedError::new_err(format!("{}: {e}", e.code())))?;
    Ok((address, argument.unwrap_or_default()))
}

fn succeeded(name: &str, status: i32) -> PyResult<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(PyRuntimeError::new_err(format!("{name} failed with status {status}")))
    }
}

/// Name, total bytes, uuid, and every `property.` of the vendor's runtime names.
#[pyfunction]
pub(crate) fn device_properties(py: Python<'_>, i: i32) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    let get = address("device.get")?.0;
    ffi::ensure_init(py)?;
    let (status, device) = ffi::vendor::get_device(get, i);
    succeeded("device.get", status)?;
    let (status, name) = ffi::vendor::device_name(address("device.name")?.0, device);
    succeeded("device.name", status)?;
    let (status, bytes) = ffi::vendor::device_memory(address("device.memory")?.0, device);
    succeeded("device.memory", status)?;
    let (status, uuid) = ffi::vendor::device_uuid(address("device.uuid")?.0, device);
    succeeded("device.uuid", status)?;
    all.set_item("name", name)?;
    all.set_item("total_memory", bytes)?;
    all.set_item("uuid", uuid.as_slice())?;
    for name in started()?.runtime.symbols.keys() {
        let Some(property) = name.strip_prefix("property.") else { continue };
        let (function, number) = address(name)?;
        let (status, value) = ffi::vendor::attribute(function, number, i);
        succeeded(name, status)?;
        all.set_item(property, value)?;
    }
    Ok(all)
}

/// What another process needs to see this tensor's storage: a handle, where in its allocation the storage begins, and
/// its bytes. The exporter keeps the tensor until the other side has done, as nothing here counts users.
#[pyfunction]
pub(crate) fn ipc_export<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, usize, u64)> {
    let (export, range) = (address("ipc.export")?.0, address("ipc.range")?.0);
    let storage = tensor.call_method0("untyped_storage")?;
    let pointer: usize = storage.call_method0("data_ptr")?.extract()?;
    let bytes: u64 = storage.call_method0("nbytes")?.extract()?;
    let (status, base) = ffi::vendor::ipc_base(range, pointer);
    succeeded("ipc.range", status)?;
    let (status, handle) = ffi::vendor::ipc_export(export, pointer);
    succeeded("ipc.export", status)?;
    Ok((PyBytes::new(tensor.py(), &handle.0), pointer - base, bytes))
}

/// The other side: a tensor of bytes over another process's storage, on the current device.
#[pyfunction]
pub(crate) fn ipc_open(
    py: Python<'_>,
    handle: [u8; 64],
    offset: usize,
    bytes: u64,
) -> PyResult<Bound<'_, PyAny>> {
    let (open, close) = (address("ipc.open")?.0, address("ipc.close")?.0);
    ffi::ensure_init(py)?;
    let device = ffi::current_device(py)?;
    let (status, base) = ffi::vendor::ipc_open(open, ffi::vendor::IpcHandle(handle));
    succeeded("ipc.open", status)?;
    ffi::from_mapping(py, close, base, offset, bytes, device)
}

/// A pool that several captures can share, as `torch.cuda.graph_pool_handle` gives one.
#[pyfunction]
pub(crate) fn graph_pool_handle(py: Python<'_>) -> PyResult<(u64, u64)> {
    let function = address("graph.pool-handle")?.0;
    ffi::ensure_init(py)?;
    ffi::pool_handle(py, function)
}

/// Work that is recorded once and replayed: `torch.cuda.CUDAGraph`, whose object it is underneath.
#[pyclass(module = "torch_fl.libtorch_fl", unsendable)]
pub(crate) struct Graph {
    graph: ffi::GraphPointer,
    drop: usize,
}

#[pymethods]
impl Graph {
    #[new]
    #[pyo3(signature = (keep_graph=false))]
    fn new(py: Python<'_>, keep_graph: bool) -> PyResult<Graph> {
        let drop = address("graph.drop")?.0;
        Ok(Graph { graph: ffi::graph_new(py, address("graph.new")?.0, keep_graph)?, drop })
    }

    /// Records what the current stream gets from now on. The mode is one of CUDA's: `global`, `thread_local`, `relaxed`.
    #[pyo3(signature = (pool=None, capture_error_mode="global"))]
    fn capture_begin(
        &self,
        py: Python<'_>,
        pool: Option<(u64, u64)>,
        capture_error_mode: &str,
    ) -> PyResult<()> {
        const MODES: [&str; 3] = ["global", "thread_local", "relaxed"]; // cudaStreamCaptureMode's order
        let mode = MODES.iter().position(|m| *m == capture_error_mode).and_then(|m| i32::try_from(m).ok());
        let mode = mode.ok_or_else(|| {
            PyValueError::new_err(format!("capture_error_mode {capture_error_mode:?} is none of {MODES:?}"))
        })?;
        ffi::graph_begin(py, address("graph.begin")?.0, &self.graph, pool.unwrap_or_default(), mode)
    }

    fn capture_end(&self, py: Python<'_>) -> PyResult<()> {
        ffi::graph_call(py, address("graph.end")?.0, &self.graph)
    }

    fn instantiate(&self, py: Python<'_>) -> PyResult<()> {
        ffi::graph_call(py, address("graph.instantiate")?.0, &self.graph)
    }

    fn replay(&self, py: Python<'_>) -> PyResult<()> {
        ffi::graph_call(py, address("graph.replay")?.0, &self.graph)
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        ffi::graph_call(py, address("graph.reset")?.0, &self.graph)
    }

    fn pool(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        ffi::graph_pool(py, address("graph.pool")?.0, &self.graph)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        Python::attach(|py| {
            if let Err(e) = ffi::graph_drop(py, self.drop, &self.graph) {
                e.write_unraisable(py, None);
            }
        });
    }
}
