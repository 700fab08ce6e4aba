"""DLPack for flagos tensors: they are exported as tensors of the device underneath, which other libraries know.

`torch.from_dlpack` of a flagos tensor, or with `device="flagos"`, gives a flagos tensor over the same memory.
"""

import torch

_device_of, _capsule_of, _read = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__, torch.utils.dlpack.from_dlpack


def install(core):
    """Teach torch; `core` is the plugin's extension module."""

    def device(self):
        if self.device.type != "flagos":
            return _device_of(self)
        return _device_of(core.to_target(self.detach()))

    def capsule(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
        if self.device.type != "flagos":
            return _capsule_of(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if self.requires_grad or self.is_conj() or self.is_neg() or self.layout is not torch.strided:
            raise BufferError(
                "Can't export tensors that require gradient, or that have the conjugate bit set, or another layout "
                "than torch.strided: use tensor.detach(), resolve_conj(), to_dense()"
            )
        if stream not in (None, -1):  # whoever takes it works on another stream of the vendor's
            torch.accelerator.current_stream(self.get_device()).synchronize()
        versioned = max_version is not None and max_version[0] >= 1
        make = torch._C._to_dlpack_versioned if versioned else torch._C._to_dlpack
        return make(core.to_target(self), dl_device=dl_device, copy=copy)

    def read(ext_tensor, *, device=None, copy=None):
        wanted = None if device is None else torch.device(device)
        ours = isinstance(ext_tensor, torch.Tensor) and ext_tensor.device.type == "flagos"
        if ours and wanted in (None, ext_tensor.device, torch.device("flagos")):
            if ext_tensor.requires_grad:
                raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
            again = core.from_target(core.to_target(ext_tensor))
            return again.clone() if copy else again
        if wanted is None or wanted.type != "flagos":
            return _read(ext_tensor, device=device, copy=copy)
        there = _read(ext_tensor, copy=copy)
        try:
            return core.from_target(there)
        except TypeError:  # on another device than the one underneath
            if copy is False:
                raise
            return there.to(wanted)

    for name, function, like in (
        ("__dlpack_device__", device, _device_of), ("__dlpack__", capsule, _capsule_of),
    ):  # fmt: skip
        function.__doc__, function.__name__, function.__qualname__ = like.__doc__, name, f"Tensor.{name}"
        setattr(torch.Tensor, name, function)
    read.__doc__, read.__name__, read.__qualname__ = _read.__doc__, "from_dlpack", "from_dlpack"
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = read
