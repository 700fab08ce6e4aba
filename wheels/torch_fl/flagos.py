"""`torch.flagos`: the device's module in PyTorch's conventions for accelerators (as `torch.cuda`, `torch.xpu`).

Everything is asked of the plugin or of torch's generic accelerator interface, nothing of a vendor's Python module: the
torch in front may have none. A device argument is None (the current one), an index, a name or a `torch.device`.
"""

import os
import pickle
import platform
import sys
import threading
from collections import OrderedDict
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

_C = sys.modules["torch_fl.libtorch_fl"]
target: str  # "cpu", or the device that lies underneath: set by whoever loads this file

Event = torch.Event
Stream = torch.Stream

_queued = []  # seeds that were given before the device was touched
_initialized = False
_in_bad_fork = False
_lock = threading.RLock()


# ---- the device's life


def is_available() -> bool:
    """Whether there is a device to run on."""
    return _C.device_count() > 0


def is_initialized() -> bool:
    """Whether the device has been touched in this process."""
    return _initialized and not _in_bad_fork


def _is_in_bad_fork() -> bool:
    return _in_bad_fork


def _after_fork() -> None:
    global _in_bad_fork
    if _initialized and target != "cpu":
        _in_bad_fork = True


os.register_at_fork(after_in_child=_after_fork)


def init() -> None:
    """Touch the device now. Whatever needs it does so by itself."""
    _lazy_init()


def _lazy_init() -> None:
    """torch calls this before it makes a tensor of this device."""
    global _initialized
    if _in_bad_fork:
        raise RuntimeError(
            "Cannot re-initialize flagos in forked subprocess. To use flagos with multiprocessing, you must use the "
            "'spawn' start method"
        )
    if _initialized:
        return
    with _lock:
        if not _initialized:
            _C.initialize()
            _initialized = True
            while _queued:
                _queued.pop(0)()


def _lazy_call(call) -> None:
    if _initialized:
        call()
    else:
        _queued.append(call)


def _index(device: Any = None) -> int:
    """The index that a device argument means."""
    if isinstance(device, int):
        return device
    if device is not None:
        device = torch.device(device)
        if device.type != "flagos":
            raise ValueError(f"Expected a flagos device, but got: {device}")
        if device.index is not None:
            return device.index
    return _C.current_device()


def device_count() -> int:
    """The number of devices."""
    return _C.device_count()


def current_device() -> int:
    """The index of the current device."""
    return _C.current_device()


def set_device(device: Any) -> None:
    """Make a device the current one."""
    index = _index(device)
    if index >= 0:
        _lazy_init()
        _C.set_device(index)


class device:
    """Context manager: the current device, put back afterwards. A negative index changes nothing."""

    def __init__(self, device: Any):
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _C.current_device()
        set_device(self.idx)

    def __exit__(self, *_):
        set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: the device of a tensor or storage; of another device's, it changes nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "flagos" else -1)


def _exchange_device(index: int) -> int:
    previous = _C.current_device()
    set_device(index)
    return previous if index >= 0 else -1


_maybe_exchange_device = _exchange_device


def synchronize(device: Any = None) -> None:
    """Wait for all work on a device."""
    _lazy_init()
    _C.synchronize(_index(device))


# ---- properties


class DeviceProperties:
    """What the driver says of a device; which attributes there are depends on the platform."""

    def __init__(self, facts):
        self.__dict__.update(facts)

    def __repr__(self):
        return f"DeviceProperties({', '.join(f'{key}={value!r}' for key, value in self.__dict__.items())})"


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of a device."""
    _lazy_init()
    index = _index(device)
    if target == "cpu":
        return DeviceProperties({"name": f"{platform.machine()} CPU", "total_memory": mem_get_info()[1]})
    return DeviceProperties(_C.device_properties(index))


def get_device_name(device: Any = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of a device's instruction set, where the platform has such a thing."""
    facts = get_device_properties(device)
    if not hasattr(facts, "major"):
        raise NotImplementedError(f"{facts.name} has no compute capability")
    return facts.major, facts.minor


# ---- streams


def current_stream(device: Any = None) -> torch.Stream:
    """The current stream of a device."""
    _lazy_init()
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: Any = None) -> torch.Stream:
    """The stream of a device that is current before another one is chosen."""
    _lazy_init()
    kind = torch._C._autograd.DeviceType.PrivateUse1
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=int(kind))


def set_stream(stream) -> None:
    """Make a stream, and its device, the current one."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: the current stream and device, both put back afterwards. None changes nothing."""

    def __init__(self, stream):
        self.stream = stream
        self._before = []

    def __enter__(self):
        if self.stream is not None:
            here = current_stream()
            there = current_stream(self.stream.device_index)
            self._before.append((here, there))
            set_stream(self.stream)

    def __exit__(self, *_):
        if self.stream is not None:
            here, there = self._before.pop()
            if there.device_index != here.device_index:
                set_stream(there)
            set_stream(here)


def stream(stream) -> StreamContext:
    """Context manager for a stream."""
    return StreamContext(stream)


# ---- random numbers


def __getattr__(name):
    if name == "default_generators":
        _lazy_init()
        return tuple(_C.default_generator(index) for index in range(device_count()))
    raise AttributeError(f"module 'torch.flagos' has no attribute {name!r}")


def _generator(device: Any = None) -> torch.Generator:
    _lazy_init()
    return _C.default_generator(_index(device))


def get_rng_state(device: Any = "flagos") -> torch.Tensor:
    """The state of a device's generator, bytes on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Any = "flagos") -> None:
    """Set the state of a device's generator."""
    with torch._C._DisableFuncTorch():
        new_state = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _C.default_generator(_index(device)).set_state(new_state))


def set_rng_state_all(new_states) -> None:
    """Set the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; kept until the device is touched."""
    seed = int(seed)
    _lazy_call(lambda: _C.default_generator(_C.current_device()).manual_seed(seed))


def manual_seed_all(seed: int) -> None:
    """Seed all devices' generators; kept until the device is touched."""
    seed = int(seed)

    def call():
        for index in range(device_count()):
            _C.default_generator(index).manual_seed(seed)

    _lazy_call(call)


def seed() -> None:
    """Seed the current device's generator from the system's randomness."""
    _generator().seed()


def seed_all() -> None:
    """Seed all devices' generators with one number of the system's randomness."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little") >> 1)


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator().initial_seed()


# ---- memory


def memory_stats(device: Any = None) -> "OrderedDict[str, Any]":
    """The allocator's counters, flat, by torch's names (`allocated_bytes.all.current`)."""
    return torch.accelerator.memory_stats(_index(device)) if _initialized else OrderedDict()


def memory_allocated(device: Any = None) -> int:
    """Bytes in tensors."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes in tensors since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin the peaks anew."""
    _lazy_init()
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Begin the counters of allocations and frees anew."""
    _lazy_init()
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device's memory."""
    _lazy_init()
    if target == "cpu":
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page
    return _C.memory_info(_index(device))


def empty_cache() -> None:
    """Give back what the allocator holds and no tensor uses."""
    if _initialized:
        _C.empty_cache()


# ---- automatic mixed precision


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast may lower to."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the device computes in bfloat16; by itself, if `including_emulation` is false."""
    if including_emulation or target == "cpu":
        return True
    # Compute capability 8.0 and above, as torch.cuda has it; a platform without one knows no emulation.
    return getattr(get_device_properties(), "major", 8) >= 8


# ---- graphs


def graph_pool_handle() -> tuple[int, int]:
    """A new pool of memory that graphs may share."""
    return _C.graph_pool_handle()


def is_current_stream_capturing() -> bool:
    """Whether work on the current stream is recorded into a `Graph`."""
    return bool(_capturing) and current_stream() in _capturing.values()


_capturing = {}  # the graphs that are recording, with the stream of each


class Graph:
    """Recorded work, to be replayed. With `keep_graph` it is made ready by `instantiate`, or the first `replay`."""

    def __init__(self, keep_graph: bool = False):
        _lazy_init()
        self._graph = _C.Graph(keep_graph)

    def capture_begin(self, pool=None, capture_error_mode: str = "global") -> None:
        """Record the current stream's work from now on. `pool`: a handle, or another graph's `pool()`."""
        self._graph.capture_begin(pool, capture_error_mode)
        _capturing[id(self)] = current_stream()

    def capture_end(self) -> None:
        """End the recording."""
        _capturing.pop(id(self), None)
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Make the recording ready to run."""
        self._graph.instantiate()

    def replay(self) -> None:
        """Run the recorded work on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Forget the recording."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """The handle of its pool of memory."""
        return self._graph.pool()


class graph:
    """Context manager: record the work of its body into a `Graph`, on a stream of its own."""

    default_capture_stream = None

    def __init__(self, flagos_graph: Graph, pool=None, stream=None, capture_error_mode: str = "global"):
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = Stream(device="flagos")
        self.flagos_graph = flagos_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode
        self.stream_ctx = StreamContext(stream or graph.default_capture_stream)

    def __enter__(self):
        import gc

        synchronize()
        gc.collect()  # what is freed while work is recorded cannot be used by it
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.flagos_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, *error):
        try:
            self.flagos_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*error)
        return False


# ---- other processes


def _reduce_tensor(tensor):
    # torch itself knows how to send tensors of the CPU and of CUDA alone.
    from torch.multiprocessing import reductions

    if tensor.device.type != "flagos" or tensor.layout is not torch.strided:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries. If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    # By value, so that the sender need not live until it is read.
    return pickle.loads, (pickle.dumps(tensor, pickle.HIGHEST_PROTOCOL),)


for _kind in (torch.Tensor, torch.nn.Parameter):
    ForkingPickler.register(_kind, _reduce_tensor)


def ipc_export(tensor: torch.Tensor) -> tuple[bytes, int, int]:
    """What another process needs to see a tensor's storage. The tensor must live until that one has done."""
    return _C.ipc_export(tensor)


def ipc_open(handle: bytes, offset: int, nbytes: int) -> torch.Tensor:
    """Another process's storage on the current device, as a tensor of bytes."""
    _lazy_init()
    return _C.ipc_open(handle, offset, nbytes)
