def _rebuild_tensor(data, device):
    from torch._tensor import Tensor

    return Tensor(data, device)
