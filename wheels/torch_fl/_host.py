"""Kernels for the host under flagos: PyTorch takes the fused cells of recurrent networks for every backend of this
kind, and the CPU has none. As ATen's CUDA kernels compute them (native/cuda/RNN.cu), with a workspace of their own.
"""

import torch


def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    i, f, g, o = added(input_gates + hidden_gates, input_bias, hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    grad_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    grad_c = grad_hy * o * (1 - tanh * tanh)
    grad_c = grad_c if grad_cy is None else grad_c + grad_cy
    inner = grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g * g), grad_hy * tanh * o * (1 - o)
    gates = torch.cat(inner, 1)
    return gates, grad_c * f, gates.sum(0) if has_bias else torch.empty_like(gates[0, :0])


def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    i_r, i_z, i_n = added(input_gates, input_bias).chunk(3, 1)
    h_r, h_z, h_n = added(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (h_r + i_r).sigmoid(), (h_z + i_z).sigmoid()
    n = (i_n + r * h_n).tanh()
    return (hx - n) * z + n, torch.cat((r, z, n, hx, h_n), 1)


def gru_cell_backward(grad_hy, workspace, has_bias):
    r, z, n, hx, h_n = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    both = grad_n * h_n * r * (1 - r), grad_hy * (hx - n) * z * (1 - z)
    inputs, hidden = torch.cat((*both, grad_n), 1), torch.cat((*both, grad_n * r), 1)
    none = torch.empty_like(inputs[0, :0])
    return inputs, hidden, grad_hy * z, inputs.sum(0) if has_bias else none, hidden.sum(0) if has_bias else none


def added(gates, *biases):
    for bias in biases:
        gates = gates if bias is None else gates + bias
    return gates


KERNELS = {
    "_thnn_fused_lstm_cell": lstm_cell, "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell, "_thnn_fused_gru_cell_backward": gru_cell_backward,
}  # fmt: skip


def install(core):
    """Register them, before the plugin looks what there is. The library must live as long as the process."""

    def pack(data, lengths, batch_first):
        packed, sizes = torch.ops.aten._pack_padded_sequence(core.to_target(data), lengths, batch_first)
        return core.from_target(packed), sizes  # which belong to the host, whatever device the data are on

    library = torch.library.Library("aten", "IMPL")
    for name, kernel in {**KERNELS, "_pack_padded_sequence": pack}.items():
        library.impl(name, kernel, "PrivateUse1")
    return library
