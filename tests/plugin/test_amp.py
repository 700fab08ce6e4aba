"""Autocast: PyTorch's own lists of what runs lower, in float32, in the widest type; and the gradient scaler."""

import pytest
import torch
import torch.nn.functional as F

D = "flagos"
LOW = [torch.bfloat16, torch.float16]


def wide():
    return torch.randn(4, 4, device=D)


def images():
    return torch.randn(1, 2, 5, 5, device=D)


def heads():
    return torch.randn(1, 2, 4, 8, device=D)


# What is computed, and the type of the outcome: "low" is autocast's, the rest is what it says.
CASES = {
    "mm": (lambda: wide() @ wide(), "low"),
    "addmm": (lambda: torch.addmm(wide(), wide(), wide()), "low"),
    "bmm": (lambda: torch.bmm(wide()[None], wide()[None]), "low"),
    "baddbmm": (lambda: torch.baddbmm(wide()[None], wide()[None], wide()[None]), "low"),
    "linear": (lambda: F.linear(wide(), wide()), "low"),
    "einsum": (lambda: torch.einsum("ij,jk->ik", wide(), wide()), "low"),
    "conv2d": (lambda: F.conv2d(images(), torch.randn(2, 2, 3, 3, device=D)), "low"),
    "conv_transpose2d": (lambda: F.conv_transpose2d(images(), torch.randn(2, 2, 3, 3, device=D)), "low"),
    "prelu": (lambda: F.prelu(images(), torch.rand(2, device=D)), "low"),
    "attention": (lambda: F.scaled_dot_product_attention(heads(), heads(), heads()), "low"),
    "lstm cell": (lambda: torch.nn.LSTMCell(4, 4).to(D)(wide())[0], "low"),
    "softmax": (lambda: torch.softmax(wide() @ wide(), -1), torch.float32),
    "layer_norm": (lambda: F.layer_norm(wide() @ wide(), (4,)), torch.float32),
    "log": (lambda: (wide() @ wide()).abs().log(), torch.float32),
    "pow": (lambda: (wide() @ wide()).pow(2), torch.float32),
    "sum": (lambda: (wide() @ wide()).sum(), torch.float32),
    "norm": (lambda: (wide() @ wide()).norm(), torch.float32),
    "cross_entropy": (lambda: F.cross_entropy(wide() @ wide(), torch.arange(4, device=D)), torch.float32),
    "mse_loss": (lambda: F.mse_loss(wide() @ wide(), wide()), torch.float32),
    "cat": (lambda: torch.cat([wide() @ wide(), wide()]), torch.float32),
    "cat of low": (lambda: torch.cat([wide() @ wide(), wide() @ wide()]), "low"),
    "addcmul": (lambda: torch.addcmul(wide() @ wide(), wide(), wide()), torch.float32),
    "dtype beats the list": (lambda: (wide() @ wide()).sum(dtype=torch.float64), torch.float64),
    "float64 stays": (lambda: wide().double() @ wide().double(), torch.float64),
    "relu": (lambda: torch.relu(wide() @ wide()), "low"),
}


@pytest.mark.parametrize("low", LOW, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_type(name, low):
    compute, wanted = CASES[name]
    with torch.autocast(D, dtype=low):
        result = compute()
    assert result.device.type == D and result.dtype == (low if wanted == "low" else wanted)
    assert torch.isfinite(result).all()


def test_state():
    assert not torch.is_autocast_enabled(D)
    with torch.autocast(D):
        assert torch.is_autocast_enabled(D) and torch.get_autocast_dtype(D) is torch.float16
        with torch.autocast(D, enabled=False):
            assert (wide() @ wide()).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (wide() @ wide()).dtype is torch.float16
    assert (wide() @ wide()).dtype is torch.float32
    with pytest.warns(UserWarning, match="not supported"):
        torch.autocast(D, dtype=torch.float64)


def test_weights_are_cast_once_and_gradients_come_back_wide():
    layer = torch.nn.Linear(4, 4).to(D)
    x = wide().requires_grad_()
    with torch.autocast(D, dtype=torch.bfloat16):
        y = layer(layer(x))
    y.float().sum().backward()
    assert layer.weight.grad.dtype is torch.float32 and x.grad.dtype is torch.float32


def test_binary_cross_entropy_is_refused():
    with torch.autocast(D, dtype=torch.float16), pytest.raises(RuntimeError, match="binary_cross_entropy"):
        F.binary_cross_entropy(torch.rand(3, device=D), torch.rand(3, device=D))


def test_decorators():
    @torch.amp.custom_fwd(device_type=D, cast_inputs=torch.float32)
    def forward(x):
        return x.dtype, torch.is_autocast_enabled(D)

    with torch.autocast(D, dtype=torch.bfloat16):
        assert forward(wide().bfloat16()) == (torch.float32, False)


def test_scaler():
    scaler = torch.amp.GradScaler(D, init_scale=8.0, growth_interval=1)
    weight = torch.ones(2, device=D, requires_grad=True)
    for optimizer in (torch.optim.SGD([weight], 1.0), torch.optim.AdamW([weight], 1.0, fused=True)):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        before, scale = weight.detach().clone(), scaler.get_scale()
        assert weight.grad[0].item() == scale
        scaler.step(optimizer)
        scaler.update()
        assert not torch.equal(weight, before) and scaler.get_scale() == 2 * scale
    optimizer = torch.optim.SGD([weight], 1.0)
    weight.grad = torch.tensor([float("inf"), 1.0], device=D)
    before, scale = weight.detach().clone(), scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(weight, before) and scaler.get_scale() == scale / 2
    state = scaler.state_dict()
    again = torch.amp.GradScaler(D)
    again.load_state_dict(state)
    assert again.get_scale() == scaler.get_scale()
