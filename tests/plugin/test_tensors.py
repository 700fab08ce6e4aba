"""One tensor and its storage: making, showing, copying, viewing, changing in place, resizing."""

import copy
import io
import pickle

import pytest
import torch
from conftest import ON_CPU

D = "flagos"
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]


def test_printing():
    assert "device='flagos:0'" in repr(torch.ones(3, device=D))
    assert repr(torch.arange(3, device=D)) == "tensor([0, 1, 2], device='flagos:0')"
    for value in (torch.zeros(2, dtype=torch.bfloat16), torch.zeros(0), torch.zeros(2, dtype=torch.complex64)):
        assert "flagos" in str(value.to(D))
    assert "grad_fn" in repr(torch.ones(2, device=D, requires_grad=True) * 2)
    assert f"{torch.tensor(1.5, device=D):.2f}" == "1.50"


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.complex64, torch.complex128], ids=str)
def test_dtypes_travel(dtype):
    value = torch.tensor([0, 1, 2, 3]).to(dtype).view(2, 2)
    there = value.to(D)
    assert there.device == torch.device(D, 0) and there.dtype == dtype
    assert torch.equal(there.cpu(), value)
    assert torch.equal(there.t().contiguous().cpu(), value.t())
    assert torch.equal(torch.cat([there, there]).cpu(), torch.cat([value, value]))
    assert torch.equal((there == there.clone()).cpu(), torch.ones(2, 2, dtype=torch.bool))
    assert torch.equal(there.to(torch.float64 if not dtype.is_complex else dtype).cpu(), value.to(
        torch.float64 if not dtype.is_complex else dtype))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_eight_bit_floats(dtype):
    value = torch.tensor([[0.5, -1.0], [2.0, 448.0]])
    there = value.to(D).to(dtype)
    assert there.device.type == D
    assert torch.equal(there.float().cpu(), value.to(dtype).float())
    assert torch.equal(there.cpu().float(), value.to(dtype).float())
    assert torch.equal(there.view(torch.uint8).cpu(), value.to(dtype).view(torch.uint8))


def test_factories():
    assert torch.tensor([1, 2], device=D).tolist() == [1, 2]
    assert torch.full((2,), 7.0, device=D).tolist() == [7.0, 7.0]
    assert torch.eye(2, device=D).sum().item() == 2
    assert torch.linspace(0, 1, 3, device=D).tolist() == [0, 0.5, 1]
    assert torch.empty_like(torch.ones(2), device=D).device.type == D
    assert torch.ones(2, device=D).new_zeros(3).device.type == D
    with torch.device(D):
        assert torch.zeros(1).device.type == D
        assert torch.nn.Linear(2, 2).weight.device.type == D
    torch.set_default_device(D)
    try:
        assert torch.arange(3).device.type == D
    finally:
        torch.set_default_device(None)


def test_methods():
    value = torch.arange(4.0)
    there = value.flagos()
    assert there.is_flagos and not value.is_flagos and there.get_device() == 0
    assert value.to(D, non_blocking=True).device.type == D
    assert there.flagos() is there and there.to(D) is there and there.to("flagos:0") is there
    assert torch.nn.Linear(2, 2).flagos().weight.is_flagos
    assert there.untyped_storage().device.type == D


def test_copies():
    value = torch.arange(12.0).view(3, 4)
    there = torch.empty(3, 4, device=D).copy_(value)
    back = torch.empty(3, 4).copy_(there)
    assert torch.equal(back, value)
    wide = torch.empty(3, 4, dtype=torch.float64, device=D).copy_(there)
    assert wide.sum().item() == 66
    narrow = torch.empty(4, 3, dtype=torch.int32).copy_(there.t())
    assert torch.equal(narrow, value.t().int())
    columns = torch.zeros(3, 8, device=D)
    columns[:, ::2] = value
    assert torch.equal(columns[:, ::2].cpu(), value) and columns[:, 1::2].sum().item() == 0
    assert torch.equal(there.expand(2, 3, 4).cpu(), value.expand(2, 3, 4))
    assert there.numpy(force=True).sum() == 66


def test_set():
    base = torch.arange(6.0, device=D)
    other = torch.empty(0, device=D).set_(base.untyped_storage(), 1, (2, 2), (2, 1))
    assert other.tolist() == [[1, 2], [3, 4]]
    other[0, 0] = 50
    assert base[1].item() == 50
    third = torch.empty(0, device=D).set_(base)
    assert third.data_ptr() == base.data_ptr()
    assert third.untyped_storage()._cdata == base.untyped_storage()._cdata


def test_resize():
    base = torch.ones(4, device=D)
    view = base[1:3]
    base.resize_(100)
    assert base.untyped_storage().nbytes() == 400 and base[:4].sum().item() == 4 and view.sum().item() == 2
    storage = base.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(400)
    base.fill_(2)
    assert view.tolist() == [2, 2]
    assert torch.empty(0, device=D).resize_as_(base).shape == base.shape


def test_out():
    ones = torch.ones(100, device=D)
    out = torch.empty(0, device=D)
    assert torch.add(ones, ones, out=out) is out
    assert out.shape == (100,) and out.sum().item() == 200
    values, places = torch.empty(0, device=D), torch.empty(0, dtype=torch.long, device=D)
    returned = torch.max(torch.eye(3, 4, device=D), 1, out=(values, places))
    assert returned[0] is values and returned[1] is places and values.tolist() == [1, 1, 1]
    target = torch.zeros(4, 4, device=D)
    torch.mm(torch.ones(4, 4, device=D), torch.ones(4, 4, device=D), out=target.t())
    assert target.sum().item() == 64
    with pytest.raises(RuntimeError):
        torch.add(ones, ones, out=torch.empty(100, device=D, dtype=torch.int32))
    with pytest.raises(RuntimeError):
        torch.add(ones, ones, out=torch.empty(100))


def test_views_share_storage_and_version():
    base = torch.zeros(4, 4, device=D)
    turned, row, flat = base.t(), base[1], base.view(16)
    assert turned.untyped_storage()._cdata == base.untyped_storage()._cdata
    row.add_(1)
    assert flat.sum().item() == 4 and turned.sum().item() == 4
    assert base._version == turned._version == row._version == 1
    assert turned._is_view() and turned._base is base
    assert base.unsqueeze(0).expand(3, 4, 4).data_ptr() == base.data_ptr()
    first, _ = base.split(2)
    first.mul_(0)
    assert base._version == 2
    base.detach().add_(1)
    assert base._version == 3
    assert base.unfold(0, 2, 1).shape == (3, 4, 2)
    assert base.view(torch.int32).untyped_storage()._cdata == base.untyped_storage()._cdata
    complexes = torch.zeros(3, dtype=torch.complex64, device=D)
    torch.view_as_real(complexes)[:, 0] = 2
    assert complexes.tolist() == [2, 2, 2]
    assert complexes.conj().is_conj() and complexes.conj().tolist() == [2, 2, 2]


def test_metadata_changes_in_place():
    value = torch.zeros(2, 3, device=D)
    assert value.transpose_(0, 1) is value and value.shape == (3, 2)
    assert value.unsqueeze_(0).shape == (1, 3, 2)
    assert value.squeeze_().shape == (3, 2)
    assert value.t_().shape == (2, 3)
    value.data = torch.ones(5, device=D)
    assert value.shape == (5,) and value.sum().item() == 5


def test_in_place_returns_the_same_object():
    value = torch.ones(3, device=D)
    for change in (lambda x: x.add_(1), lambda x: x.mul_(2), lambda x: x.clamp_(0, 3), lambda x: x.zero_(),
                   lambda x: x.copy_(torch.ones(3)), lambda x: x.masked_fill_(x > 0, 4), lambda x: x.uniform_(),
                   lambda x: x.index_add_(0, torch.tensor([0], device=D), torch.ones(1, device=D)),
                   lambda x: x.relu_(), lambda x: torch.nn.functional.dropout(x, 0.5, inplace=True)):  # fmt: skip
        before = value._version
        assert change(value) is value and value._version > before
    torch._foreach_add_([value, value], 1.0)
    value[1] = 9
    assert value[1].item() == 9
    value[value > 8] = 7
    assert value[1].item() == 7


def test_index_and_shape_from_data():
    value = torch.tensor([1, 1, 3, 0], device=D)
    assert torch.bincount(value).tolist() == [1, 2, 0, 1]
    assert value.nonzero().flatten().tolist() == [0, 1, 2] and torch.where(value > 0)[0].tolist() == [0, 1, 2]
    assert value.unique().tolist() == [0, 1, 3] and torch.masked_select(value, value > 0).tolist() == [1, 1, 3]
    assert torch.nn.functional.one_hot(torch.arange(3, device=D)).cpu().equal(torch.eye(3, dtype=torch.long))
    assert value.repeat_interleave(2).numel() == 8
    assert value[torch.tensor([0, 2])].tolist() == [1, 3]  # an index on the CPU


def test_mixed_devices_are_refused():
    here, there = torch.ones(2), torch.ones(2, device=D)
    for call in (lambda: there + here, lambda: here + there, lambda: torch.cat([there, here]),
                 lambda: torch.mm(there.view(1, 2), here.view(2, 1)),
                 lambda: there.add_(here), lambda: here.add_(there),
                 lambda: torch.addmm(there, here.view(2, 1), here.view(1, 2)),
                 lambda: torch.where(there > 0, here, there),
                 lambda: torch.nn.functional.linear(there, torch.ones(2, 2))):  # fmt: skip
        with pytest.raises(RuntimeError, match="device"):
            call()
    assert (there + torch.tensor(1.0)).tolist() == [2, 2]  # a number
    assert (torch.tensor(1.0) + there).device.type == D


def test_pickle_and_deepcopy():
    value = torch.arange(3.0, device=D)
    again = pickle.loads(pickle.dumps(value))
    assert again.device == value.device and torch.equal(again, value)
    twice = copy.deepcopy([value, value])
    assert twice[0] is twice[1] and twice[0].data_ptr() != value.data_ptr()
    assert pickle.loads(pickle.dumps(torch.device(D, 0))) == torch.device(D, 0)


@pytest.mark.parametrize("zipped", [True, False])
def test_save_and_load(zipped):
    value = torch.arange(6.0, device=D)
    file = io.BytesIO()
    torch.save({"whole": value, "part": value[2:4]}, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    found = torch.load(file)
    assert found["whole"].device == torch.device(D, 0)
    assert found["part"].untyped_storage()._cdata == found["whole"].untyped_storage()._cdata
    for place in ("cpu", torch.device("cpu"), {"flagos:0": "cpu"}, lambda storage, tag: storage.cpu()):
        file.seek(0)
        assert torch.load(file, map_location=place)["part"].tolist() == [2, 3]
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location=D).device.type == D


def test_dlpack():
    value = torch.arange(4.0, device=D)
    again = torch.from_dlpack(value)
    assert again.device == value.device and again.data_ptr() == value.data_ptr()
    again[0] = 9
    assert value[0].item() == 9
    assert torch.from_dlpack(value, copy=True).data_ptr() != value.data_ptr()
    with pytest.raises(BufferError):
        torch.from_dlpack(value.requires_grad_())


def test_dlpack_with_other_libraries():
    """They are shown memory of the device underneath."""

    class Other:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

    value = torch.arange(4.0, device=D)
    shown = torch.from_dlpack(Other(value))
    assert shown.device.type == ("cpu" if ON_CPU else "cuda") and shown.data_ptr() == value.data_ptr()
    back = torch.from_dlpack(Other(shown), device=D)
    assert back.device == value.device and back.data_ptr() == value.data_ptr()
    assert torch.from_dlpack(Other(torch.ones(2)), device=D).device.type == D
    if ON_CPU:
        import numpy

        array = numpy.from_dlpack(value)
        value[1] = 7
        assert array[1] == 7


def test_sparse():
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]], device=D)
    coo = dense.to_sparse()
    assert coo.is_sparse and coo.device.type == D and coo._nnz() == 2
    assert torch.equal(coo.to_dense().cpu(), dense.cpu())
    assert torch.equal(torch.sparse.mm(coo, dense).cpu(), dense.cpu() @ dense.cpu())
    made = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]], device=D), torch.ones(2, device=D), (2, 2))
    assert made.coalesce().values().sum().item() == 2 and (made + made).to_dense().sum().item() == 4
    assert torch.equal(coo.cpu().to_dense(), dense.cpu())
    weights = torch.nn.Embedding(5, 3, sparse=True).to(D)
    weights(torch.tensor([1, 1], device=D)).sum().backward()
    assert weights.weight.grad.is_sparse and weights.weight.grad.to_dense()[1].tolist() == [2, 2, 2]


def test_sparse_rows():
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]], device=D)
    rows = dense.to_sparse_csr()
    assert rows.layout is torch.sparse_csr and rows.device.type == D and torch.equal(rows.to_dense().cpu(), dense.cpu())
    assert (rows @ dense).sum().item() == 12


def test_nested():
    parts = [torch.ones(2, 3, device=D), torch.ones(4, 3, device=D)]
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor(parts, layout=layout)
        assert nested.is_nested and nested.device.type == D
        assert [part.shape[0] for part in (nested * 2).unbind()] == [2, 4]
    assert torch.nested.to_padded_tensor(torch.nested.nested_tensor(parts), 0.0).sum().item() == 18


def test_quantized():
    value = torch.tensor([0.0, 0.5, 1.0], device=D)
    quantized = torch.quantize_per_tensor(value, 0.1, 10, torch.quint8)
    assert quantized.is_quantized and quantized.device.type == D
    assert torch.allclose(quantized.dequantize().cpu(), torch.tensor([0.0, 0.5, 1.0]), atol=0.06)
    assert quantized.int_repr().tolist() == [10, 15, 20]


def test_meta_and_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert torch.ones(2, device=D).to("meta").device.type == "meta"
    with FakeTensorMode():
        fake = torch.ones(2, 3, device=D)
        assert (fake @ fake.t()).device.type == D and (fake @ fake.t()).shape == (2, 2)


def test_dispatch_mode_sees_flagos():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen += 1
            return function(*args, **(kwargs or {}))

    with Count() as count:
        (torch.ones(2, device=D) + 1).relu()
    assert count.seen == 3


def test_numbers_out_of_a_tensor():
    value = torch.tensor([2.5], device=D)
    assert value.item() == 2.5 and bool(value) and float(value) == 2.5 and int(value) == 2
    assert torch.tensor(3, device=D).__index__() == 3
    with pytest.raises(TypeError):
        value.numpy()
    assert ON_CPU or value.data_ptr() != 0
