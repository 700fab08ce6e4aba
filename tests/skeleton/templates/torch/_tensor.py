from torch import _C, _utils


class Tensor:
    """A list of numbers on a device. Pickles as torch's own do: by a function of a torch module."""

    def __init__(self, data, device="cpu"):
        self.data = [float(x) for x in data]
        self.device = device

    def __add__(self, other):
        return Tensor([_C._add(a, b) for a, b in zip(self.data, other.data, strict=True)], self.device)

    def __eq__(self, other):
        return isinstance(other, Tensor) and (self.data, self.device) == (other.data, other.device)

    __hash__ = object.__hash__

    def __repr__(self):
        return f"tensor({self.data})"

    def __reduce__(self):
        return _utils._rebuild_tensor, (self.data, self.device)

    def tolist(self):
        return list(self.data)


def tensor(data, device="cpu"):
    return Tensor(data, device)


def zeros(size, device="cpu"):
    return Tensor([0.0] * size, device)
