"""`torch.flagos` and `torch.accelerator`: devices, streams, events, memory, pinned memory, profiler."""

import pickle

import pytest
import torch
import torch_fl
from conftest import ON_CPU

D = "flagos"
flagos = torch.flagos


def test_the_accelerator_is_flagos():
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator() == torch.device(D)
    assert accelerator.device_count() == flagos.device_count() >= 1
    assert accelerator.current_device_index() == flagos.current_device() == 0
    accelerator.set_device_index(0)
    accelerator.synchronize()
    assert torch.get_device_module(D) is flagos and torch.get_device_module() is flagos
    import torch.flagos as named

    assert named is flagos


def test_devices():
    assert flagos.is_available()
    torch.ones(1, device=D)
    assert flagos.is_initialized() and not flagos._is_in_bad_fork()
    for index in (0, D, "flagos:0", torch.device(D, 0), None):
        with flagos.device(index):
            assert flagos.current_device() == 0
    with flagos.device_of(torch.ones(1, device=D)), flagos.device_of(torch.ones(1)):
        assert flagos.current_device() == 0
    flagos.set_device(0)
    flagos.synchronize()
    with pytest.raises((RuntimeError, IndexError)):
        flagos.set_device(flagos.device_count())
    with pytest.raises(ValueError, match="flagos"):
        flagos.get_device_name("cpu")
    if ON_CPU:  # of the host there is one, by whatever number it is called
        return
    with pytest.raises((RuntimeError, IndexError)):
        torch.ones(1, device=f"flagos:{flagos.device_count()}")


def test_properties():
    facts = flagos.get_device_properties()
    assert facts.name and facts.name == flagos.get_device_name(0)
    assert facts.total_memory > 1 << 20
    assert facts.name in repr(facts)
    if ON_CPU:
        with pytest.raises(NotImplementedError):
            flagos.get_device_capability()
    else:
        assert flagos.get_device_capability() >= (7, 0)


def test_memory():
    free, total = flagos.mem_get_info()
    assert 0 < free <= total
    flagos.empty_cache()
    assert isinstance(flagos.memory_stats(), dict)
    before = flagos.memory_allocated()
    value = torch.empty(1 << 20, device=D)
    if not ON_CPU:
        assert flagos.memory_allocated() - before == 4 << 20 <= flagos.max_memory_allocated()
        assert flagos.memory_reserved() >= flagos.memory_allocated() > 0
        assert torch.accelerator.memory_allocated() == flagos.memory_allocated()
        flagos.reset_peak_memory_stats()
        del value
        assert flagos.memory_allocated() == before < flagos.max_memory_allocated()
    flagos.reset_peak_memory_stats()
    flagos.reset_accumulated_memory_stats()
    torch.accelerator.empty_cache()


def test_streams():
    stream, before = torch.Stream(device=D), flagos.current_stream()
    value = torch.ones(100, 100, device=D)
    with stream:
        twice = value @ value
        assert torch.accelerator.current_stream() == stream
    with flagos.stream(stream):
        assert flagos.current_stream() == stream
        with flagos.stream(None):
            assert flagos.current_stream() == stream
    assert flagos.current_stream() == before == flagos.default_stream()
    before.wait_stream(stream)
    if not ON_CPU:  # which has no such operator
        twice.record_stream(before)
    assert (twice == 100).all()
    stream.synchronize()
    assert stream.query() and stream.device == torch.device(D, 0)
    flagos.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    flagos.set_stream(before)
    assert flagos.Stream(priority=0).device.type == D


def test_events():
    first, last = flagos.Event(enable_timing=True), torch.Event(device=D, enable_timing=True)
    first.record()
    torch.ones(200, 200, device=D) @ torch.ones(200, 200, device=D)
    last.record(flagos.current_stream())
    last.synchronize()
    assert last.query() and first.elapsed_time(last) >= 0
    flagos.current_stream().wait_event(last)


def test_streams_of_threads_are_their_own():
    import threading

    mine, seen = torch.Stream(device=D), []
    with mine:
        thread = threading.Thread(target=lambda: seen.append(flagos.current_stream()))
        thread.start()
        thread.join()
    assert seen == [flagos.default_stream()] and (ON_CPU or mine != seen[0])


def test_pinned_memory():
    pinned = torch.ones(10).pin_memory()
    assert pinned.is_pinned() or ON_CPU
    there = pinned.to(D, non_blocking=True)
    assert there.sum().item() == 10
    back = torch.empty(10, pin_memory=True).copy_(there, non_blocking=True)
    flagos.synchronize()
    assert back.sum().item() == 10
    data = torch.utils.data.TensorDataset(torch.arange(8.0).view(8, 1))
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers)
        batches = [batch for (batch,) in loader]
        assert all(batch.is_pinned() or ON_CPU for batch in batches)
        assert sum(batch.to(D, non_blocking=True).sum().item() for batch in batches) == 28


def test_profiler():
    kinds = [torch.profiler.ProfilerActivity.CPU]
    value = torch.ones(64, 64, device=D)
    with torch.profiler.profile(activities=kinds, record_shapes=True) as profile:
        with torch.profiler.record_function("a label"):
            (value @ value).sum().item()
    keys = {event.key for event in profile.key_averages()}
    assert {"a label", "aten::mm", "aten::sum"} <= keys
    shapes = [event.input_shapes for event in profile.events() if event.key == "aten::mm"]
    assert [[64, 64], [64, 64]] in shapes


def test_bf16():
    assert flagos.is_bf16_supported() and torch.bfloat16 in flagos.get_amp_supported_dtype()


def test_boot_info_and_explain():
    plugin = torch_fl.boot_info()["plugin"]
    registered = plugin["registered"]
    assert registered["target"] == ("cpu" if ON_CPU else "cuda") and sum(registered["operators"].values()) > 1500
    row = torch_fl.explain("add.Tensor")["aten::add.Tensor"]
    assert row["backend"] == "vendor" and row["source"] == "built-in" and row["kernel"] == "typed"
    assert len(torch_fl.explain("add")) > 3
    table = torch_fl.explain()
    assert len(table["operators"]) > 1500 and "missing" in table


def test_graphs_have_named_errors():
    """Where the runtime has none, and where one is asked for nonsense."""
    if ON_CPU:
        with pytest.raises(NotImplementedError, match="graph"):
            flagos.Graph().capture_begin()
        assert flagos.is_current_stream_capturing() is False
    else:
        with pytest.raises(RuntimeError):
            flagos.Graph().replay()


def test_stream_objects_do_not_travel():
    with pytest.raises((TypeError, pickle.PicklingError, RuntimeError)):
        pickle.loads(pickle.dumps(torch.Stream(device=D))).synchronize()
