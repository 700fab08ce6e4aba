"""Modules, autograd, optimizers: what training is made of, each against the same on the CPU."""

import copy
import io
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

D = "flagos"


class Net(nn.Module):
    """An embedding, a convolution with batch norm, attention, layer norm, dropout of nothing."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.up = nn.Linear(8, 16)
        self.ln = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 4)
        self.drop = nn.Dropout(0.0)

    def forward(self, words, image):
        x = self.emb(words)
        pooled = F.gelu(self.bn(self.conv(image))).mean((2, 3))
        x = self.ln(x + self.up(pooled)[:, None])
        q, k, v = self.qkv(x).view(*x.shape[:2], 4, 12).transpose(1, 2).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        return self.out(self.drop(x))


def losses(device, optimizer, steps=8, autocast=None, scaler=False, clip=1e9):
    torch.manual_seed(0)
    net = Net()
    words, image, wanted = torch.randint(0, 20, (4, 6)), torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4, 6))
    net, words, image, wanted = net.to(device), words.to(device), image.to(device), wanted.to(device)
    optimizer = optimizer(net.parameters())
    scaler = torch.amp.GradScaler(device, enabled=scaler)
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = F.cross_entropy(net(words, image).float().flatten(0, 1), wanted.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        seen.append(loss.item())
    return seen


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=False),
    "adamw-foreach": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
    "adamw-fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 1e-1, momentum=0.9, nesterov=True),
    "sgd-foreach": lambda p: torch.optim.SGD(p, 1e-1, momentum=0.9, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "adadelta": lambda p: torch.optim.Adadelta(p, 1.0),
    "adamax-foreach": lambda p: torch.optim.Adamax(p, 1e-2, foreach=True),
    "nadam-foreach": lambda p: torch.optim.NAdam(p, 1e-2, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_losses_are_the_cpus(name):
    here, there = losses("cpu", OPTIMIZERS[name]), losses(D, OPTIMIZERS[name])
    assert there == pytest.approx(here, abs=1e-3)
    assert there[-1] < there[0]


def test_clipping():
    adamw = OPTIMIZERS["adamw-foreach"]
    assert losses(D, adamw, clip=0.1) == pytest.approx(losses("cpu", adamw, clip=0.1), abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_losses_under_autocast(dtype):
    adamw, scaled = OPTIMIZERS["adamw"], dtype is torch.float16
    here, there = losses("cpu", adamw), losses(D, adamw, autocast=dtype, scaler=scaled)
    assert there == pytest.approx(here, abs=5e-2)
    assert there[-1] < there[0]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent(kind, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # a GPU's own, and too coarse for these
    net = kind(5, 6, 2, batch_first=True, bidirectional=True)
    x = torch.randn(3, 4, 5)
    here, _ = net(x)
    here.sum().backward()
    grads = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net.to(D)
    there, _ = net(x.to(D))
    torch.testing.assert_close(there.cpu(), here, atol=1e-4, rtol=1e-4)
    there.sum().backward()
    for grad, parameter in zip(grads, net.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), grad, atol=1e-3, rtol=1e-3)
    packed = nn.utils.rnn.pack_padded_sequence(x.to(D), torch.tensor([4, 3, 2]), batch_first=True)
    assert packed.is_flagos
    out, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)
    assert out.shape[:2] == (3, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "given", "grouped"])
def test_attention(dtype, mask):
    heads = 2 if mask == "grouped" else 4
    q = torch.randn(2, 4, 16, 32, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(2, heads, 16, 32, dtype=dtype, requires_grad=True) for _ in range(2))
    given = torch.ones(16, 16, dtype=torch.bool).tril() if mask == "given" else None
    options = {"is_causal": mask == "causal", "enable_gqa": mask == "grouped"}

    def run(device):
        inputs = [t.detach().to(device).requires_grad_() for t in (q, k, v)]
        out = F.scaled_dot_product_attention(*inputs, attn_mask=given if given is None else given.to(device), **options)
        out.float().square().sum().backward()
        return [out.detach().cpu(), *(t.grad.cpu() for t in inputs)]

    for here, there in zip(run("cpu"), run(D), strict=True):
        torch.testing.assert_close(there, here, atol=5e-2 if dtype is torch.bfloat16 else 1e-4, rtol=5e-2)


def test_multihead_attention_and_transformer():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    x = torch.randn(2, 5, 16)
    for mode in (True, False):
        layer.cpu().train(mode)
        here = layer(x)
        there = layer.to(D)(x.to(D))
        torch.testing.assert_close(there.cpu(), here, atol=1e-4, rtol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x.to(D)).cpu(), here, atol=1e-4, rtol=1e-4)


def test_autograd_sees_changes_in_place():
    a = torch.ones(3, device=D, requires_grad=True)
    b = a * 2
    b[1:].mul_(3)
    b.sum().backward()
    assert a.grad.tolist() == [2, 6, 6]
    y = torch.ones(3, device=D, requires_grad=True).exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf"):
        torch.ones(2, device=D, requires_grad=True).add_(1)


def test_double_backward():
    x = torch.ones(3, device=D, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 6, 6]
    layer = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1)).to(D)
    image = torch.randn(1, 1, 4, 4, device=D, requires_grad=True)
    (grad,) = torch.autograd.grad(layer(image).sum(), image, create_graph=True)
    grad.square().sum().backward()
    assert all(p.grad is not None for p in layer[0].parameters() if p.dim() > 1)


def test_gradcheck():
    x = torch.randn(3, 4, dtype=torch.float64, device=D, requires_grad=True)
    w = torch.randn(2, 4, dtype=torch.float64, device=D, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: F.softmax(F.linear(x, w), -1), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.tanh(x @ w.t()), (x, w))


def test_custom_function_and_hooks():
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(context, grad):
            (x,) = context.saved_tensors
            seen.append((x.device.type, grad.device.type))
            return grad * 2

    x = torch.ones(2, device=D, requires_grad=True)
    x.register_hook(lambda grad: seen.append(grad.device.type))
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2] and seen == [(D, D), D]
    with torch.autograd.graph.save_on_cpu():
        y = x.exp().sum()
    y.backward()
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        torch.sqrt(torch.full((1,), -1.0, device=D, requires_grad=True)).sum().backward()


def test_function_transforms():
    x = torch.arange(3.0, device=D)
    square = lambda x: (x**2).sum()  # noqa: E731
    assert torch.func.grad(square)(x).tolist() == [0, 2, 4]
    assert torch.func.vmap(lambda y: y * 2)(x).tolist() == [0, 2, 4]
    assert torch.func.jacrev(lambda y: y**2)(x).diagonal().tolist() == [0, 2, 4]
    assert torch.func.jacfwd(lambda y: y**2)(x).diagonal().tolist() == [0, 2, 4]
    assert torch.func.jvp(square, (x,), (torch.ones_like(x),))[1].item() == 6
    assert torch.func.hessian(square)(x).diagonal().tolist() == [2, 2, 2]
    layer = nn.Linear(3, 1).to(D)
    state = dict(layer.named_parameters())
    each = torch.func.vmap(torch.func.grad(lambda s, y: torch.func.functional_call(layer, s, (y,)).sum()), (None, 0))
    assert each(state, torch.ones(4, 3, device=D))["weight"].shape == (4, 1, 3)
    noise = torch.func.vmap(lambda y: y + torch.rand_like(y), randomness="different")(torch.zeros(4, 2, device=D))
    assert len(set(noise[:, 0].tolist())) == 4
    functional = torch.func.functionalize(lambda y: y.clone().add_(1).view(-1))
    assert functional(x).tolist() == [1, 2, 3]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    from torch.utils.checkpoint import checkpoint

    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()).to(D)
    x = torch.randn(2, 4, device=D, requires_grad=True)
    torch.manual_seed(5)
    layer(x).sum().backward()
    wanted, x.grad = x.grad, None
    torch.manual_seed(5)
    checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(x.grad, wanted)  # the same numbers were thrown when it ran again


def test_inference_mode():
    layer = nn.Linear(3, 3).to(D)
    with torch.inference_mode():
        value = torch.ones(3, device=D) * 2
        assert value.is_inference() and value.add_(1).is_inference() and value.view(3, 1).is_inference()
        assert not layer(value).requires_grad
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        layer(value).sum().backward()
    with torch.no_grad():
        assert not layer(torch.ones(3, device=D)).requires_grad


def test_state_dict():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(D)
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    assert {v.device.type for v in state.values()} == {D}
    net.load_state_dict(state)
    file.seek(0)
    here = torch.load(file, map_location="cpu")
    assert torch.equal(here["0.weight"], net[0].weight.cpu())
    other = copy.deepcopy(net)
    assert other[0].weight.data_ptr() != net[0].weight.data_ptr()
    other.load_state_dict(here)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(3, 4, device=D)).sum().backward()
    optimizer.step()
    again = torch.optim.AdamW(other.parameters())
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert {v.device.type for s in again.state.values() for k, v in s.items() if k != "step"} == {D}


def test_moving_keeps_parameters_and_ties():
    emb, head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
    head.weight = emb.weight
    both = nn.ModuleList([emb, head])
    parameter = emb.weight
    optimizer = torch.optim.SGD(both.parameters(), 0.1)
    both.to(D)
    assert both[0].weight is both[1].weight is parameter and parameter.device.type == D
    both[1](both[0](torch.tensor([1], device=D))).sum().backward()
    before = parameter.detach().clone()
    optimizer.step()
    assert not torch.equal(parameter, before)
    both.to(torch.float64).cpu()
    assert both[0].weight is both[1].weight is parameter and parameter.device.type == "cpu"
    both.to_empty(device=D)


def test_four_threads_on_one_tensor():
    weight = torch.ones(64, 64, device=D)
    faults = []

    def work():
        for _ in range(300):
            if (weight @ weight).sum().item() != 64**3 or weight.device.type != D or weight.t().data_ptr() == 0:
                faults.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_threads_of_backward():
    layer = nn.Linear(8, 8).to(D)

    def work():
        for _ in range(50):
            layer(torch.ones(2, 8, device=D)).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert layer.bias.grad.tolist() == [400.0] * 8  # 4 threads, 50 times, 2 rows


def test_jit():
    traced = torch.jit.trace(lambda x: torch.relu(x) + 1, torch.ones(2, device=D))
    assert traced(torch.tensor([-1.0, 2.0], device=D)).tolist() == [1, 3]

    @torch.jit.script
    def scripted(x):
        return x.relu() * 2

    assert scripted(torch.tensor([-1.0, 2.0], device=D)).tolist() == [0, 4]


def test_compile_without_code():
    f = torch.compile(lambda x: torch.relu(x + 1) * 2, backend="aot_eager")
    x = torch.randn(4, device=D, requires_grad=True)
    y = f(x)
    y.sum().backward()
    assert torch.equal(y, torch.relu(x + 1) * 2) and x.grad is not None
