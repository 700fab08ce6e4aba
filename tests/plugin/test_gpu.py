"""What needs a GPU under flagos: graphs, real streams, the vendor's kernels."""

import torch
import torch.nn.functional as F

D = "flagos"
flagos = torch.flagos


def test_graph_capture_and_replay():
    x, w = torch.randn(64, 64, device=D), torch.randn(64, 64, device=D)
    stream = torch.Stream(device=D)
    stream.wait_stream(flagos.current_stream())
    with flagos.stream(stream):
        for _ in range(3):
            y = torch.relu(x @ w) + 1
    flagos.current_stream().wait_stream(stream)
    graph = flagos.Graph()
    with flagos.graph(graph):
        assert flagos.is_current_stream_capturing()
        y = torch.relu(x @ w) + 1
    assert not flagos.is_current_stream_capturing() and y.device.type == D
    for _ in range(3):
        x.copy_(torch.randn(64, 64))
        graph.replay()
        flagos.synchronize()
        torch.testing.assert_close(y, torch.relu(x @ w) + 1)


def test_graphs_share_a_pool():
    x, pool, results = torch.ones(1024, device=D), flagos.graph_pool_handle(), []
    graphs = [flagos.Graph() for _ in range(2)]
    for graph in graphs:
        with flagos.graph(graph, pool=pool):
            results.append(x * 2)
        assert graph.pool() == pool
    for graph in graphs:
        graph.replay()
    flagos.synchronize()
    assert all((result == 2).all() for result in results)
    graphs[0].reset()


def test_training_step_in_a_graph():
    net = torch.nn.Linear(16, 4).to(D)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2, capturable=True, fused=True)
    x = torch.randn(8, 16, device=D)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    stream = torch.Stream(device=D)
    stream.wait_stream(flagos.current_stream())
    with flagos.stream(stream):
        for _ in range(3):
            step()
    flagos.current_stream().wait_stream(stream)
    graph = flagos.Graph()
    with flagos.graph(graph):
        loss = step()
    seen = []
    for _ in range(20):
        graph.replay()
        flagos.synchronize()
        seen.append(loss.item())
    assert seen[-1] < seen[0]


def test_events_measure_time():
    x = torch.randn(2048, 2048, device=D)
    first, last = (torch.Event(device=D, enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(10):
        x = x @ x / 2048
    last.record()
    last.synchronize()
    assert first.elapsed_time(last) > 0.01


def test_attention_is_fused():
    half, single = ("Flash", "Cudnn", "Overrideable", "Efficient"), ("Efficient",)
    for dtype, names in ((torch.float16, half), (torch.float32, single)):
        q, k, v = (torch.randn(2, 4, 128, 64, device=D, dtype=dtype, requires_grad=True) for _ in range(3))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert any(name in out.grad_fn.name() for name in names), out.grad_fn.name()
        out.sum().backward()


def test_vendor_paths_of_composites():
    """Batch norm and recurrent nets ask whether a tensor is on the vendor's device: the fast path must be taken."""
    from torch.profiler import ProfilerActivity, profile

    norm, lstm = torch.nn.BatchNorm2d(8).to(D), torch.nn.LSTM(8, 8).to(D)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        norm(torch.randn(4, 8, 8, 8, device=D))
        lstm(torch.randn(4, 2, 8, device=D))
        F.dropout(torch.ones(64, device=D), 0.5, True)
    keys = {event.key for event in seen.key_averages()}
    assert "aten::_cudnn_rnn" in keys and "aten::native_dropout" in keys
    assert keys & {"aten::cudnn_batch_norm", "aten::_batch_norm_with_update", "aten::batch_norm"}


def test_out_of_memory_is_an_error_and_passes():
    free, _ = flagos.mem_get_info()
    try:
        torch.empty(free * 2, dtype=torch.uint8, device=D)
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("twice the free memory was given")
    assert torch.ones(2, device=D).sum().item() == 2


def test_stats_follow_allocations():
    flagos.empty_cache()
    flagos.reset_peak_memory_stats()
    before = flagos.memory_allocated()
    values = [torch.empty(1 << 20, device=D, dtype=torch.uint8) for _ in range(4)]
    assert flagos.memory_allocated() - before == 4 << 20
    values.clear()
    assert flagos.memory_allocated() == before and flagos.max_memory_allocated() >= before + (4 << 20)


def test_work_on_two_streams():
    one, two = torch.Stream(device=D), torch.Stream(device=D)
    x = torch.ones(512, 512, device=D)
    flagos.synchronize()
    with one:
        y = x @ x
        ready = one.record_event()
    with two:
        two.wait_event(ready)
        z = y + 1
        y.record_stream(two)
    two.synchronize()
    assert (z == 513).all()
