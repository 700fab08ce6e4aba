"""Which kernel an operator gets: files, variables, their mistakes, the log, and what `explain` says."""

import json

import pytest
from conftest import ON_CPU

EXPLAIN = """
import json, torch_fl
print(json.dumps(torch_fl.explain("add.Tensor")["aten::add.Tensor"]))
"""


def refused(done, *texts):
    """The import failed with a named error that has these words."""
    assert done.code != 0, done.text
    assert "E-BOOT-019" in done.err, done.text
    for text in texts:
        assert str(text) in done.err, done.text


def test_a_file_and_its_include(program, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.conf").write_text("# by way of the host\nadd = cpu\nmul.Tensor = cpu\n")
    main = tmp_path / "route.conf"
    main.write_text("include more/other.conf\n\nadd.Tensor = vendor  # a later line wins\n")
    text = """
    import json, torch_fl
    for name in ("add.Tensor", "add.Scalar", "mul.Tensor", "sub.Tensor"):
        row = torch_fl.explain(name)["aten::" + name]
        print(name, row["backend"], row["kernel"], row["source"])
    """
    lines = program(text, FLAGOS_BACKEND_CONFIG=main).ok().splitlines()
    assert lines[0].startswith("add.Tensor vendor") and f"{main}:3" in lines[0]
    assert lines[1].startswith("add.Scalar cpu") and "other.conf:2" in lines[1]
    assert lines[2].startswith("mul.Tensor cpu cpu") and "other.conf:3" in lines[2]
    assert lines[3].startswith("sub.Tensor vendor") and "conf" not in lines[3]


def test_a_variable_wins(program, tmp_path):
    file = tmp_path / "route.conf"
    file.write_text("add.Tensor = cpu\n")
    row = json.loads(program(EXPLAIN, FLAGOS_BACKEND_CONFIG=file, FLAGOS_OP_add_Tensor="vendor").ok())
    assert row["backend"] == "vendor" and row["source"] == "FLAGOS_OP_add_Tensor"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("add.Tensr = cpu", ("route.conf:2", "add.Tensr", "add.Tensor")),
        ("add.Tensor = cpo", ("route.conf:2", "cpo", "cpu")),
        ("add.Tensor cpu", ("route.conf:2",)),
        ("include nowhere.conf", ("route.conf:2", "nowhere.conf")),
        ("include route.conf", ("route.conf:2", "itself")),
        ("mm = flaggems", ("route.conf:2", "flaggems")),
    ],
)
def test_mistakes_of_a_file(program, tmp_path, text, words):
    file = tmp_path / "route.conf"
    file.write_text(f"# first line\n{text}\n")
    refused(program(EXPLAIN, FLAGOS_BACKEND_CONFIG=file), *words)


def test_mistakes_elsewhere(program, tmp_path):
    refused(program(EXPLAIN, FLAGOS_BACKEND_CONFIG=tmp_path / "absent.conf"), "absent.conf")
    refused(program(EXPLAIN, FLAGOS_OP_addd_Tensor="cpu"), "FLAGOS_OP_addd_Tensor")
    refused(program(EXPLAIN, FLAGOS_OP_add_Tensor="nobody"), "FLAGOS_OP_add_Tensor", "nobody")


def test_a_cycle_of_two(program, tmp_path):
    (tmp_path / "one.conf").write_text("include two.conf\n")
    (tmp_path / "two.conf").write_text("add = cpu\ninclude one.conf\n")
    refused(program(EXPLAIN, FLAGOS_BACKEND_CONFIG=tmp_path / "one.conf"), "two.conf:2", "one.conf")


def test_explain_refuses_what_there_is_not(program):
    done = program("""
    import torch_fl
    try:
        torch_fl.explain("add.Tensr")
    except (KeyError, ValueError, RuntimeError) as error:
        print(error)
    """)
    assert "add.Tensr" in done.ok()


def test_the_host_copies_back_what_it_changes(program):
    """Routed to the CPU: results, arguments that are written, `out=`, lists, views, numbers of another shape."""
    names = ["add.Tensor", "add_.Tensor", "add.out", "max.dim_max", "_foreach_add_.Scalar", "mul_.Tensor",
             "masked_fill_.Scalar", "index_put_", "sort.values_stable", "mm.out"]  # fmt: skip
    changes = {"FLAGOS_OP_" + name.replace(".", "_"): "cpu" for name in names}
    text = """
    import torch_fl, torch
    D = "flagos"
    x = torch.ones(3, device=D)
    assert (x + x).tolist() == [2, 2, 2] and (x + x).device.type == D
    before = x._version
    assert x.add_(1) is x and x.tolist() == [2, 2, 2] and x._version > before
    out = torch.empty(0, device=D)
    assert torch.add(x, x, out=out) is out and out.tolist() == [4, 4, 4]
    values, places = torch.empty(0, device=D), torch.empty(0, dtype=torch.long, device=D)
    assert torch.max(torch.eye(3, device=D), 1, out=(values, places))[0] is values and values.tolist() == [1, 1, 1]
    assert places.tolist() == [0, 1, 2]
    xs = [torch.ones(2, device=D), torch.ones(3, device=D)]
    torch._foreach_add_(xs, 2.0)
    assert [t.tolist() for t in xs] == [[3, 3], [3, 3, 3]]
    base = torch.ones(4, 4, device=D)
    base[1:3, ::2].mul_(5)
    assert base.sum().item() == 12 + 4 * 5
    base.t()[0].masked_fill_(torch.tensor([True, False, False, True], device=D), 0)
    assert base[0, 0].item() == 0 and base[3, 0].item() == 0 and base[1, 0].item() == 5
    base.index_put_((torch.tensor([0], device=D),), torch.tensor(7.0, device=D), accumulate=False)
    assert base[0].tolist() == [7, 7, 7, 7]
    torch.mm(torch.ones(2, 2, device=D), torch.ones(2, 2, device=D), out=base[:2, :2])
    assert base[:2, :2].sum().item() == 8
    y = torch.ones(3, device=D, requires_grad=True)
    (y + y).sum().backward()
    assert y.grad.tolist() == [2, 2, 2]
    print("well")
    """
    assert program(text, **changes).ok() == "well\n"


@pytest.mark.parametrize("route", ["vendor", "cpu", "composite"])
def test_every_route_gives_the_same(program, route):
    text = """
    import torch_fl, torch
    x = torch.arange(12.0, device="flagos").view(3, 4).requires_grad_()
    y = torch.nn.functional.gelu(x).square().mean()
    z = torch.addcmul(x, x, x)
    y.backward()
    print(y.item(), x.grad.tolist(), z.tolist())
    """
    changes = {} if route == "composite" else {"FLAGOS_OP_gelu": route, "FLAGOS_OP_addcmul": route}
    if route == "composite":
        changes = {"FLAGOS_OP_square": "composite"}
    assert program(text, **changes).ok() == program(text).ok() or not ON_CPU


def test_the_log_names_what_ran(program, tmp_path):
    log = tmp_path / "dispatch.log"
    text = """
    import torch_fl, torch
    x = torch.ones(3, device="flagos")
    (x + x).mul(2)
    """
    program(text, FLAGOS_DISPATCH_LOG=log, FLAGOS_OP_mul_Tensor="cpu").ok()
    ways = dict(line.split("\t") for line in log.read_text().splitlines())
    assert ways["aten::add.Tensor"] in ("typed", "boxed") and ways["aten::mul.Tensor"] == "cpu", ways


def test_operators_that_come_later(program):
    """A custom operator with a kernel of the target runs; one with a kernel of the host alone goes there."""
    text = """
    import torch_fl, torch
    library = torch.library.Library("late", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.define("grow_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("grow_", lambda x: x.add_(1), "CPU")
    x = torch.ones(3, device="flagos")
    y = torch.ops.late.twice(x)
    assert y.device.type == "flagos" and y.tolist() == [2, 2, 2]
    torch.ops.late.grow_(x)
    assert x.tolist() == [2, 2, 2]
    print("well")
    """
    assert program(text).ok() == "well\n"
