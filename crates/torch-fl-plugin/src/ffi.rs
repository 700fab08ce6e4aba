//! The boundary to `shim/`: `shim/ffi.h` says the same in C. Nothing outside this module is unsafe.
//!
//! No exception crosses: functions of the shim that can fail set the Python error. What the shim calls here does not
//! panic.
#![expect(unsafe_code, reason = "the boundary to C++")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use pyo3::prelude::*;

use crate::route::Way;
use crate::schema::{Kind, Schema};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// What this build is, as JSON; also the section `.torch_fl` of the file, for those who do not load it.
pub(crate) const BUILT: &str = include_str!(concat!(env!("OUT_DIR"), "/built.json"));

const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut all = [0; N];
    let mut i = 0;
    while i < N {
        all[i] = text.as_bytes()[i];
        i += 1;
    }
    all
}
// SAFETY: the section is nobody else's, and its content is never run.
#[used]
#[unsafe(link_section = ".torch_fl")]
static NOTE: [u8; BUILT.len()] = bytes(BUILT);

/// `FlPlan` of `shim/ffi.h`.
#[repr(C)]
pub(crate) struct Plan {
    kinds: *const u8,
    arguments: u16,
    returns: u16,
    signature: i16,
    way: u8,
    pass: bool,
    writes: bool,
    mixed: bool,
    grad: bool,
    host_returns: u8,
}

/// What [`Plan`] says besides the schema.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    pub(crate) way: u8,
    pub(crate) pass: bool,
    pub(crate) signature: Option<i16>,
    pub(crate) mixed: bool,
    pub(crate) grad: bool,
    pub(crate) host_returns: u8,
}

impl Plan {
    /// A plan for good: kernels keep the address.
    pub(crate) fn leak(schema: &Schema, traits: Traits) -> &'static Plan {
        const WRITE: u8 = 0x80;
        let kinds: Vec<u8> =
            schema.arguments.iter().map(|a| a.kind as u8 | if a.written { WRITE } else { 0 }).collect();
        let arguments = u16::try_from(kinds.len()).unwrap_or(u16::MAX);
        let kinds = Box::leak(kinds.into_boxed_slice()).as_ptr();
        Box::leak(Box::new(Plan {
            kinds,
            arguments,
            returns: schema.returns,
            signature: traits.signature.unwrap_or(-1),
            way: traits.way,
            pass: traits.pass,
            writes: schema.writes(),
            mixed: traits.mixed,
            grad: traits.grad,
            host_returns: traits.host_returns,
        }))
    }
}

type Visit = unsafe extern "C" fn(*mut c_void, *const c_char, u32);

unsafe extern "C" {
    fn fl_claimed() -> *mut pyo3::ffi::PyObject;
    fn fl_init(host: bool) -> i32;
    fn fl_ensure_init() -> i32;
    fn fl_operators(visit: Visit, context: *mut c_void) -> i32;
    fn fl_install(index: u32, functionality: u32, plan: *const Plan) -> i32;
    fn fl_install_autocast(name: *const c_char, overload: *const c_char, policy: u8) -> i32;
    fn fl_install_rest() -> i32;
    fn fl_set_logging(on: bool);
    fn fl_device_count() -> i32;
    fn fl_current_device(index: *mut i32) -> i32;
    fn fl_set_device(index: i32) -> i32;
    fn fl_synchronize(index: i32) -> i32;
    fn fl_default_generator(index: i32) -> *mut pyo3::ffi::PyObject;
    fn fl_to_target(tensor: *mut pyo3::ffi::PyObject) -> *mut pyo3::ffi::PyObject;
    fn fl_from_target(tensor: *mut pyo3::ffi::PyObject) -> *mut pyo3::ffi::PyObject;
    fn fl_from_pointer(
        p: *mut c_void,
        bytes: u64,
        device: i32,
        release: unsafe extern "C" fn(*mut c_void),
        context: *mut c_void,
    ) -> *mut pyo3::ffi::PyObject;
    fn fl_graph_new(constructor: *mut c_void, keep: bool) -> *mut c_void;
    fn fl_graph_drop(destructor: *mut c_void, graph: *mut c_void) -> i32;
    fn fl_graph_begin(member: *mut c_void, graph: *mut c_void, first: u64, second: u64, mode: i32) -> i32;
    fn fl_graph_call(member: *mut c_void, graph: *mut c_void) -> i32;
    fn fl_graph_pool(member: *mut c_void, graph: *mut c_void, id: *mut u64) -> i32;
    fn fl_pool_handle(function: *mut c_void, id: *mut u64) -> i32;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// -1 stands for the Python error that is set.
fn check(py: Python<'_>, status: i32) -> PyResult<()> {
    if status == 0 { Ok(()) } else { Err(PyErr::fetch(py)) }
}

/// Null stands for the Python error that is set.
fn owned(py: Python<'_>, object: *mut pyo3::ffi::PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the shim gives a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }
}

fn c_text(text: &str) -> PyResult<CString> {
    Ok(CString::new(text)?)
}

/// What of `PrivateUse1` is taken already; empty: nothing.
pub(crate) fn claimed(py: Python<'_>) -> PyResult<String> {
    // SAFETY: the GIL is held.
    owned(py, unsafe { fl_claimed() })?.extract()
}

/// Registers device, memory and generators. `host`: the target is the CPU.
pub(crate) fn init(py: Python<'_>, host: bool) -> PyResult<()> {
    // SAFETY: the GIL is held.
    check(py, unsafe { fl_init(host) })
}

pub(crate) fn ensure_init(py: Python<'_>) -> PyResult<()> {
    // SAFETY: the GIL is held.
    check(py, unsafe { fl_ensure_init() })
}

/// Schema and facts of every operator.
pub(crate) fn operators(py: Python<'_>) -> PyResult<Vec<(String, u32)>> {
    unsafe extern "C" fn visit(context: *mut c_void, schema: *const c_char, facts: u32) {
        // SAFETY: the context is the vector below, which outlives the call; the text ends with a zero.
        let (all, text) = unsafe { (&mut *context.cast::<Vec<(String, u32)>>(), CStr::from_ptr(schema)) };
        all.push((text.to_string_lossy().into_owned(), facts));
    }
    let mut all: Vec<(String, u32)> = Vec::new();
    // SAFETY: `visit` gets the vector that it expects, on this thread alone.
    check(py, unsafe { fl_operators(visit, (&raw mut all).cast()) })?;
    Ok(all)
}

/// Registers a kernel for one functionality of an operator of [`operators`].
pub(crate) fn install(py: Python<'_>, index: u32, functionality: u32, plan: &'static Plan) -> PyResult<()> {
    // SAFETY: the plan lives for good; the index is checked there.
    check(py, unsafe { fl_install(index, functionality, plan) })
}

/// Registers the policy of an operator of `ATen`. One that this torch has not is left out.
pub(crate) fn install_autocast(py: Python<'_>, name: &str, policy: u8) -> PyResult<()> {
    let (name, overload) = name.split_once('.').unwrap_or((name, ""));
    let (name, overload) = (c_text(&format!("aten::{name}"))?, c_text(overload)?);
    // SAFETY: both texts end with a zero and outlive the call.
    check(py, unsafe { fl_install_autocast(name.as_ptr(), overload.as_ptr(), policy) })
}

/// Fallbacks, and the kernels that are written by hand.
pub(crate) fn install_rest(py: Python<'_>) -> PyResult<()> {
    // SAFETY: the GIL is held.
    check(py, unsafe { fl_install_rest() })
}

pub(crate) fn set_logging(on: bool) {
    // SAFETY: sets an atomic.
    unsafe { fl_set_logging(on) }
}

pub(crate) fn device_count() -> i32 {
    // SAFETY: the shim's function does not throw.
    unsafe { fl_device_count() }
}

pub(crate) fn current_device(py: Python<'_>) -> PyResult<i32> {
    let mut index = 0;
    // SAFETY: writes to a live integer.
    check(py, unsafe { fl_current_device(&raw mut index) })?;
    Ok(index)
}

pub(crate) fn set_device(py: Python<'_>, index: i32) -> PyResult<()> {
    // SAFETY: the GIL is held.
    check(py, unsafe { fl_set_device(index) })
}

pub(crate) fn synchronize(py: Python<'_>, index: i32) -> PyResult<()> {
    // SAFETY: the GIL is held; the shim lets go of it while it waits.
    check(py, unsafe { fl_synchronize(index) })
}

pub(crate) fn default_generator(py: Python<'_>, index: i32) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the GIL is held.
    owned(py, unsafe { fl_default_generator(index) })
}

/// A flagos tensor's memory as a tensor of the target.
pub(crate) fn to_target<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a live object, whose type is checked there.
    owned(tensor.py(), unsafe { fl_to_target(tensor.as_ptr()) })
}

/// The other way.
pub(crate) fn from_target<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a live object, whose type is checked there.
    owned(tensor.py(), unsafe { fl_from_target(tensor.as_ptr()) })
}

/// The address of a symbol of a library that is open already.
pub(crate) fn symbol(library: &str, symbol: &str) -> Option<usize> {
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    let (library, symbol) = (CString::new(library).ok()?, CString::new(symbol).ok()?);
    // SAFETY: both texts end with a zero. NOLOAD opens nothing; the handle is kept, so that the address stays good.
    let handle = unsafe { dlopen(library.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: a live handle.
    let address = unsafe { dlsym(handle, symbol.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}

/// Memory of another process that is mapped here.
struct Mapping {
    close: usize,
    base: usize,
}

/// A flagos tensor of bytes over a mapping of [`vendor::ipc_open`], which ends with the last tensor over it.
pub(crate) fn from_mapping(
    py: Python<'_>,
    close: usize,
    base: usize,
    offset: usize,
    bytes: u64,
    device: i32,
) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: the box below, given back once.
        let mapping = unsafe { Box::from_raw(context.cast::<Mapping>()) };
        // A failure has nobody to be told to: the other process may be gone.
        let _ = vendor::ipc_close(mapping.close, mapping.base);
    }
    let context = Box::into_raw(Box::new(Mapping { close, base }));
    let p = (base + offset) as *mut c_void;
    // SAFETY: the mapping is live, and as long as the exporter said; where the call fails after it has taken the
    // context, it has released it.
    owned(py, unsafe { fl_from_pointer(p, bytes, device, release, context.cast()) })
}

/// A live graph of the vendor's.
pub(crate) struct GraphPointer(*mut c_void);

pub(crate) fn graph_new(py: Python<'_>, constructor: usize, keep: bool) -> PyResult<GraphPointer> {
    // SAFETY: the address is that of the constructor which the vendor's data name; the GIL is held.
    let graph = unsafe { fl_graph_new(constructor as *mut c_void, keep) };
    if graph.is_null() { Err(PyErr::fetch(py)) } else { Ok(GraphPointer(graph)) }
}

/// The last use of a graph.
pub(crate) fn graph_drop(py: Python<'_>, destructor: usize, graph: &GraphPointer) -> PyResult<()> {
    // SAFETY: as above; called once, from its owner's `drop`.
    check(py, unsafe { fl_graph_drop(destructor as *mut c_void, graph.0) })
}

pub(crate) fn graph_begin(
    py: Python<'_>,
    member: usize,
    graph: &GraphPointer,
    pool: (u64, u64),
    mode: i32,
) -> PyResult<()> {
    // SAFETY: as above, on a live graph.
    check(py, unsafe { fl_graph_begin(member as *mut c_void, graph.0, pool.0, pool.1, mode) })
}

pub(crate) fn graph_call(py: Python<'_>, member: usize, graph: &GraphPointer) -> PyResult<()> {
    // SAFETY: as above, on a live graph.
    check(py, unsafe { fl_graph_call(member as *mut c_void, graph.0) })
}

pub(crate) fn graph_pool(py: Python<'_>, member: usize, graph: &GraphPointer) -> PyResult<(u64, u64)> {
    let mut id = [0; 2];
    // SAFETY: as above; two integers are written.
    check(py, unsafe { fl_graph_pool(member as *mut c_void, graph.0, id.as_mut_ptr()) })?;
    Ok((id[0], id[1]))
}

pub(crate) fn pool_handle(py: Python<'_>, function: usize) -> PyResult<(u64, u64)> {
    let mut id = [0; 2];
    // SAFETY: as above; two integers are written.
    check(py, unsafe { fl_pool_handle(function as *mut c_void, id.as_mut_ptr()) })?;
    Ok((id[0], id[1]))
}

/// Functions in C of the vendor's runtime and driver, by address. Each gives its status, 0 for success, and its value.
pub(crate) mod vendor {
    use super::{c_char, c_int};

    /// `cuDeviceGet`: the driver's number of a device.
    pub(crate) fn get_device(address: usize, index: i32) -> (i32, i32) {
        let mut device: c_int = 0;
        // SAFETY: the vendor's data name a function of this type; an integer is written.
        let function: extern "C" fn(*mut c_int, c_int) -> c_int = unsafe { std::mem::transmute(address) };
        (function(&raw mut device, index), device)
    }

    /// `cuDeviceGetName`.
    pub(crate) fn device_name(address: usize, device: i32) -> (i32, String) {
        let mut name = [0u8; 256];
        // SAFETY: as above; at most 256 bytes are written.
        let function: extern "C" fn(*mut c_char, c_int, c_int) -> c_int =
            unsafe { std::mem::transmute(address) };
        let status = function(name.as_mut_ptr().cast(), 256, device);
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        (status, String::from_utf8_lossy(&name[..end]).into_owned())
    }

    /// `cuDeviceTotalMem_v2`: bytes.
    pub(crate) fn device_memory(address: usize, device: i32) -> (i32, usize) {
        let mut bytes = 0;
        // SAFETY: as above; a size is written.
        let function: extern "C" fn(*mut usize, c_int) -> c_int = unsafe { std::mem::transmute(address) };
        (function(&raw mut bytes, device), bytes)
    }

    /// `cuDeviceGetUuid_v2`.
    pub(crate) fn device_uuid(address: usize, device: i32) -> (i32, [u8; 16]) {
        let mut uuid = [0; 16];
        // SAFETY: as above; 16 bytes are written.
        let function: extern "C" fn(*mut u8, c_int) -> c_int = unsafe { std::mem::transmute(address) };
        (function(uuid.as_mut_ptr(), device), uuid)
    }

    /// `cudaIpcMemHandle_t`, which goes by value.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(crate) struct IpcHandle(pub(crate) [u8; 64]);

    /// `cudaIpcGetMemHandle`: names the allocation that an address lies in.
    pub(crate) fn ipc_export(address: usize, pointer: usize) -> (i32, IpcHandle) {
        let mut handle = IpcHandle([0; 64]);
        // SAFETY: as above; 64 bytes are written.
        let function: extern "C" fn(*mut IpcHandle, usize) -> c_int = unsafe { std::mem::transmute(address) };
        (function(&raw mut handle, pointer), handle)
    }

    /// `cuMemGetAddressRange_v2`: where the allocation of an address begins.
    pub(crate) fn ipc_base(address: usize, pointer: usize) -> (i32, usize) {
        let (mut base, mut size) = (0, 0);
        // SAFETY: as above; two sizes are written.
        let function: extern "C" fn(*mut usize, *mut usize, usize) -> c_int =
            unsafe { std::mem::transmute(address) };
        (function(&raw mut base, &raw mut size, pointer), base)
    }

    /// `cudaIpcOpenMemHandle`.
    pub(crate) fn ipc_open(address: usize, handle: IpcHandle) -> (i32, usize) {
        const LAZY_PEER_ACCESS: u32 = 1;
        let mut base = 0;
        // SAFETY: as above; an address is written.
        let function: extern "C" fn(*mut usize, IpcHandle, u32) -> c_int =
            unsafe { std::mem::transmute(address) };
        (function(&raw mut base, handle, LAZY_PEER_ACCESS), base)
    }

    /// `cudaIpcCloseMemHandle`.
    pub(crate) fn ipc_close(address: usize, base: usize) -> i32 {
        // SAFETY: as above; the mapping is live, and nobody's after this.
        let function: extern "C" fn(usize) -> c_int = unsafe { std::mem::transmute(address) };
        function(base)
    }

    /// `cudaDeviceGetAttribute`.
    pub(crate) fn attribute(address: usize, number: i32, index: i32) -> (i32, i32) {
        let mut value: c_int = 0;
        // SAFETY: as above; an integer is written.
        let function: extern "C" fn(*mut c_int, c_int, c_int) -> c_int =
            unsafe { std::mem::transmute(address) };
        (function(&raw mut value, number, index), value)
    }
}

/// What the shim asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn fl_log(name: *const c_char, overload: *const c_char, way: u8) {
    // SAFETY: names of an operator, each ending with a zero.
    let (name, overload) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(overload)) };
    let way = match way {
        w if w == Way::Cpu as u8 => "cpu",
        w if w == Way::Typed as u8 => "typed",
        _ => "boxed",
    };
    crate::log::line(&name.to_string_lossy(), &overload.to_string_lossy(), way);
}

/// A plan for an operator that was defined after registration; null: its schema cannot be read.
#[unsafe(no_mangle)]
unsafe extern "C" fn fl_late_plan(schema: *const c_char) -> *const Plan {
    // SAFETY: the text ends with a zero.
    let text = unsafe { CStr::from_ptr(schema) };
    match Schema::parse(&text.to_string_lossy()) {
        Some(schema) => {
            Plan::leak(&schema, Traits { mixed: schema.name.contains("copy"), ..Traits::default() })
        }
        None => std::ptr::null(),
    }
}

/// Is this a kernel on `PrivateUse1` that `PyTorch` does not bring itself? Its collectives are there for every backend.
#[unsafe(no_mangle)]
unsafe extern "C" fn fl_is_foreign_kernel(name: *const c_char) -> bool {
    // SAFETY: the text ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    !name.to_bytes().starts_with(b"c10d::")
}

const _: () = assert!(Kind::Stream as u8 == 7 && Way::Cpu as u8 == 2, "shim/ffi.h has the same numbers");
