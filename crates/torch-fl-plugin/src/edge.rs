//! The extension `libtorch_fl`, as Python sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::exceptions::{PyImportError, PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::ffi;
use crate::route::{self, Decision, Facts, Rules, Table, Way};
use crate::runtime::{Runtime, Symbol};
use crate::vendor;

pyo3::create_exception!(libtorch_fl, RouteError, PyValueError, "A routing rule that cannot be followed.");
pyo3::create_exception!(libtorch_fl, ClaimedError, PyRuntimeError, "Another backend has PrivateUse1.");
pyo3::create_exception!(
    libtorch_fl,
    VersionError,
    PyImportError,
    "This torch is not the one that this was built for."
);

pub(crate) struct Started {
    pub(crate) host: bool,
    pub(crate) runtime: Runtime,
}
static STARTED: OnceLock<Started> = OnceLock::new();

struct Registered {
    table: Table,
    decisions: Vec<Decision>,
}
static REGISTERED: Mutex<Option<Registered>> = Mutex::new(None);

pub(crate) fn started() -> PyResult<&'static Started> {
    STARTED.get().ok_or_else(|| PyRuntimeError::new_err("init has not been called"))
}

fn field(name: &str) -> &'static str {
    let key = format!("\"{name}\": \"");
    let value = ffi::BUILT.split_once(&key).and_then(|(_, rest)| rest.split_once('"'));
    value.map(|(value, _)| value).unwrap_or_default()
}

fn minor(version: &str) -> &str {
    match version.match_indices('.').nth(1) {
        Some((end, _)) => &version[..end],
        None => version,
    }
}

/// Another minor has other dispatch keys under the same symbols: it would load, and register on wrong ones.
fn check_version(py: Python<'_>) -> PyResult<()> {
    let running: String = py.import("torch")?.getattr("__version__")?.str()?.to_str()?.to_owned();
    let built = field("torch");
    if minor(&running) == minor(built) {
        return Ok(());
    }
    Err(VersionError::new_err(format!(
        "libtorch_fl was built for torch {}, and this is torch {running}: take the wheel for it",
        minor(built)
    )))
}

/// Claims `PrivateUse1` as `flagos`, on the device `target` ("cuda" or "cpu"). `runtime`: logical name -> library, symbol
/// and, where the function takes a number, argument.
#[pyfunction]
fn init(
    py: Python<'_>,
    target: &str,
    runtime: BTreeMap<String, BTreeMap<String, Py<PyAny>>>,
) -> PyResult<()> {
    let host = match target {
        "cuda" => false,
        "cpu" => true,
        other => {
            return Err(PyValueError::new_err(format!("target {other:?} is neither \"cuda\" nor \"cpu\"")));
        }
    };
    if let Some(started) = STARTED.get() {
        let same = started.host == host;
        return if same {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err("flagos runs on another target already"))
        };
    }
    check_version(py)?;
    let by = ffi::claimed(py)?;
    if !by.is_empty() {
        return Err(ClaimedError::new_err(format!(
            "another backend has PrivateUse1 already: {by} is registered; a process has room for one"
        )));
    }
    let symbols =
        runtime.into_iter().map(|(name, entry)| Ok((name, symbol(py, &entry)?))).collect::<PyResult<_>>()?;
    let runtime = Runtime::new(symbols).map_err(|e| PyValueError::new_err(format!("{}: {e}", e.code())))?;
    ffi::init(py, host)?;
    let _ = STARTED.set(Started { host, runtime });
    Ok(())
}

fn symbol(py: Python<'_>, entry: &BTreeMap<String, Py<PyAny>>) -> PyResult<Symbol> {
    let text = |key: &str| -> PyResult<String> {
        entry
            .get(key)
            .ok_or_else(|| PyValueError::new_err(format!("a runtime name without {key}")))?
            .extract(py)
    };
    let argument = entry.get("argument").map(|a| a.extract(py)).transpose()?;
    Ok(Symbol { library: text("library")?, symbol: text("symbol")?, argument })
}

/// Registers every operator by the routing file (`None`: the built-in rules) and `FLAGOS_OP_<name>`. Returns how many
/// went which way.
#[pyfunction]
#[pyo3(signature = (config=None))]
fn register(py: Python<'_>, config: Option<PathBuf>) -> PyResult<BTreeMap<&'static str, usize>> {
    let started = started()?;
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if registered.is_some() {
        return Err(PyRuntimeError::new_err("the operators are registered already"));
    }
    let mut rules = Rules::default();
    if let Some(path) = config {
        rules.read_file(&path).map_err(|e| route_error(&[e]))?;
    }
    rules.read_variables(std::env::vars()).map_err(|e| route_error(&[e]))?;
    let table = Table::new(ffi::operators(py)?);
    let decisions = table.decide(&rules, started.host, signature_of).map_err(|e| route_error(&e))?;
    let mut counts = BTreeMap::new();
    for decision in &decisions {
        install(py, &table, decision)?;
        *counts.entry(decision.way.name()).or_default() += 1;
        for (bit, name) in Facts::FUNCTIONALITIES.into_iter().skip(1) {
            *counts.entry(name).or_default() += usize::from(decision.functionalities & bit != 0);
        }
    }
    for (name, policy) in ffi::AUTOCAST {
        ffi::install_autocast(py, name, policy)?;
        *counts.entry("autocast").or_default() += 1;
    }
    ffi::install_rest(py)?;
    *registered = Some(Registered { table, decisions });
    Ok(counts)
}

fn signature_of(name: &str) -> Option<i16> {
    let i = ffi::OPERATORS.binary_search_by_key(&name, |(n, _)| n).ok()?;
    Some(ffi::OPERATORS[i].1)
}

fn install(py: Python<'_>, table: &Table, decision: &Decision) -> PyResult<()> {
    let entry = &table.entries[decision.entry];
    let pass = decision.way == Way::View;
    for (bit, _) in Facts::FUNCTIONALITIES.into_iter().filter(|(bit, _)| decision.functionalities & bit != 0)
    {
        let way = match decision.way {
            Way::Cpu => Way::Cpu,
            _ if decision.signature.is_some() => Way::Typed,
            _ => Way::Boxed,
        };
        let traits = ffi::Traits {
            way: way as u8,
            pass,
            signature: decision.signature,
            mixed: decision.mixed,
            grad: decision.grad,
            host_returns: decision.host_returns,
        };
        let plan = ffi::Plan::leak(&entry.schema, traits);
        ffi::install(py, entry.index, bit, plan)?;
    }
    Ok(())
}

fn route_error(errors: &[route::Error]) -> PyErr {
    let one = |e: &route::Error| {
        let cause = std::error::Error::source(e).map(|c| format!(": {c}")).unwrap_or_default();
        format!("{}: {e}{cause}\n  next step: {}", e.code(), e.hint())
    };
    RouteError::new_err(errors.iter().map(one).collect::<Vec<_>>().join("\n"))
}

/// What runs for an operator (`add`, `add.Tensor`, `aten::add.Tensor`) and why; without a name for all of them, and
/// what of the vendor's runtime is missing.
#[pyfunction]
#[pyo3(signature = (name=None))]
fn explain<'py>(py: Python<'py>, name: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Registered { table, decisions }) = registered.as_ref() else {
        return Err(PyRuntimeError::new_err("register has not been called"));
    };
    let operators = PyDict::new(py);
    let wanted: Option<Vec<String>> = name.map(|n| table.find(n).iter().map(|e| e.qualified()).collect());
    if let (Some(name), Some([])) = (name, wanted.as_deref()) {
        let near = table.near(name).map(|n| format!("; did you mean {n}?")).unwrap_or_default();
        return Err(PyKeyError::new_err(format!("there is no operator {name:?}{near}")));
    }
    for decision in decisions {
        let entry = &table.entries[decision.entry];
        let qualified = entry.qualified();
        if wanted.as_ref().is_none_or(|w| w.contains(&qualified)) {
            operators.set_item(qualified, explained(py, decision)?)?;
        }
    }
    if name.is_some() {
        return Ok(operators);
    }
    let all = PyDict::new(py);
    all.set_item("operators", operators)?;
    all.set_item("missing", started()?.runtime.missing(ffi::symbol))?;
    Ok(all)
}

fn explained<'py>(py: Python<'py>, decision: &Decision) -> PyResult<Bound<'py, PyDict>> {
    let what = PyDict::new(py);
    let backend = match decision.way {
        Way::Cpu => "cpu",
        Way::Composite => "composite",
        Way::Nothing => "none",
        _ => "vendor",
    };
    what.set_item("backend", backend)?;
    what.set_item("kernel", decision.way.name())?;
    what.set_item("unboxed", decision.signature.is_some())?;
    let layouts = Facts::FUNCTIONALITIES.iter().filter(|(bit, _)| decision.functionalities & bit != 0);
    what.set_item("layouts", layouts.map(|(_, name)| *name).collect::<Vec<_>>())?;
    let place = decision.rule.as_ref().map(|r| r.place.to_string());
    what.set_item("source", place.unwrap_or_else(|| "built-in".to_owned()))?;
    Ok(what)
}

/// Writes a line for every call of an operator to this file; `None` ends it.
#[pyfunction]
#[pyo3(signature = (path=None))]
#[expect(clippy::needless_pass_by_value, reason = "an argument from Python")]
fn dispatch_log(path: Option<PathBuf>) -> PyResult<()> {
    ffi::set_logging(false);
    crate::log::set(path.as_deref())?;
    ffi::set_logging(path.is_some());
    Ok(())
}

#[pyfunction]
fn device_count() -> i32 {
    ffi::device_count()
}

#[pyfunction]
fn current_device(py: Python<'_>) -> PyResult<i32> {
    ffi::current_device(py)
}

#[pyfunction]
fn set_device(py: Python<'_>, i: i32) -> PyResult<()> {
    ffi::set_device(py, i)
}

/// Waits for all work of a device; without an index for that of the current one.
#[pyfunction]
#[pyo3(signature = (i=None))]
fn synchronize(py: Python<'_>, i: Option<i32>) -> PyResult<()> {
    ffi::synchronize(py, i.unwrap_or(-1))
}

/// The target's lazy initialisation, now.
#[pyfunction]
fn initialize(py: Python<'_>) -> PyResult<()> {
    ffi::ensure_init(py)
}

/// Free and total bytes of a device.
#[pyfunction]
fn memory_info(py: Python<'_>, i: i32) -> PyResult<(u64, u64)> {
    accelerator(py, "get_memory_info", Some(i))?.extract()
}

/// The caching allocator's figures, by PyTorch's names.
#[pyfunction]
fn memory_stats(py: Python<'_>, i: i32) -> PyResult<Py<PyAny>> {
    Ok(accelerator(py, "memory_stats", Some(i))?.unbind())
}

#[pyfunction]
fn reset_peak(py: Python<'_>, i: i32) -> PyResult<()> {
    accelerator(py, "reset_peak_memory_stats", Some(i)).map(drop)
}

#[pyfunction]
fn empty_cache(py: Python<'_>) -> PyResult<()> {
    accelerator(py, "empty_cache", None).map(drop)
}

/// PyTorch asks our allocator, which asks the target's.
fn accelerator<'py>(py: Python<'py>, function: &str, index: Option<i32>) -> PyResult<Bound<'py, PyAny>> {
    let function = py.import("torch.accelerator")?.getattr(PyString::new(py, function))?;
    match index {
        Some(i) => function.call1((i,)),
        None => function.call0(),
    }
}

#[pyfunction]
fn default_generator(py: Python<'_>, i: i32) -> PyResult<Bound<'_, PyAny>> {
    ffi::default_generator(py, i)
}

/// The same memory as a tensor of the target device. No copy; autograd does not see it.
#[pyfunction]
fn to_target<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    ffi::to_target(tensor)
}

/// A tensor of the target device as a flagos tensor. No copy; autograd does not see it.
#[pyfunction]
fn from_target<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    ffi::from_target(tensor)
}

#[pymodule]
fn libtorch_fl(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    check_version(py)?;
    m.add("BUILT", py.import("json")?.call_method1("loads", (ffi::BUILT,))?)?;
    m.add("RouteError", py.get_type::<RouteError>())?;
    m.add("ClaimedError", py.get_type::<ClaimedError>())?;
    m.add("VersionError", py.get_type::<VersionError>())?;
    m.add_function(wrap_pyfunction!(init, m)?)?;
    m.add_function(wrap_pyfunction!(register, m)?)?;
    m.add_function(wrap_pyfunction!(explain, m)?)?;
    m.add_function(wrap_pyfunction!(dispatch_log, m)?)?;
    m.add_function(wrap_pyfunction!(device_count, m)?)?;
    m.add_function(wrap_pyfunction!(current_device, m)?)?;
    m.add_function(wrap_pyfunction!(set_device, m)?)?;
    m.add_function(wrap_pyfunction!(synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(initialize, m)?)?;
    m.add_function(wrap_pyfunction!(vendor::device_properties, m)?)?;
    m.add_function(wrap_pyfunction!(vendor::graph_pool_handle, m)?)?;
    m.add_function(wrap_pyfunction!(vendor::ipc_export, m)?)?;
    m.add_function(wrap_pyfunction!(vendor::ipc_open, m)?)?;
    m.add_class::<vendor::Graph>()?;
    m.add_function(wrap_pyfunction!(memory_info, m)?)?;
    m.add_function(wrap_pyfunction!(memory_stats, m)?)?;
    m.add_function(wrap_pyfunction!(reset_peak, m)?)?;
    m.add_function(wrap_pyfunction!(empty_cache, m)?)?;
    m.add_function(wrap_pyfunction!(default_generator, m)?)?;
    m.add_function(wrap_pyfunction!(to_target, m)?)?;
    m.add_function(wrap_pyfunction!(from_target, m)?)
}
