"""Other processes: children whose first act is a flagos tensor, rivals, plugins of another torch."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch_fl

HOME = Path(torch_fl.__file__).parent

# The child imports nothing of ours by itself: unpickling its argument has to bring the device.
CHILD = """
import multiprocessing, sys

def first(tensor, parameter):
    import torch
    assert tensor.device == torch.device("flagos", 0), tensor.device
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad
    return (tensor @ tensor).cpu().tolist(), (tensor + 1).to("flagos")

if __name__ == "__main__":
    import torch_fl, torch
    context = multiprocessing.get_context(sys.argv[1] if len(sys.argv) > 1 else METHOD)
    with context.Pool(1) as pool:
        value = torch.eye(2, device="flagos")
        answer = pool.apply_async(first, (value, torch.nn.Parameter(value.clone())))
        product, more = answer.get(timeout=200)
    assert product == [[1, 0], [0, 1]] and more.device.type == "flagos" and more.sum().item() == 6
    print("well")
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_unpickles_first(program, method):
    assert program(CHILD.replace("METHOD", repr(method))).ok() == "well\n"


def test_queues(program):
    text = """
    import torch_fl, torch.multiprocessing as mp

    def work(queue, back):
        back.put(queue.get() * 2)

    if __name__ == "__main__":
        import torch
        context = mp.get_context("spawn")
        queue, back = context.Queue(), context.Queue()
        process = context.Process(target=work, args=(queue, back))
        process.start()
        queue.put(torch.ones(1000, device="flagos"))
        value = back.get(timeout=200)
        process.join()
        assert value.is_flagos and value.sum().item() == 2000
        print("well")
    """
    assert program(text).ok() == "well\n"


def test_workers_of_a_loader(program):
    """Workers are forks: the device must not have been touched by importing, seeding or loading."""
    text = """
    import torch_fl, torch

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return torch.tensor(float(index)) + torch.rand(1) * 0

    if __name__ == "__main__":
        torch.manual_seed(3)
        for method in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=method)
            assert sum(batch.to("flagos").sum().item() for batch in loader) == 28
        print("well")
    """
    assert program(text).ok() == "well\n"


def test_seeds_before_the_first_use(program):
    text = """
    import torch_fl, torch
    torch.manual_seed(5)
    assert torch.flagos._is_in_bad_fork() is False
    x = torch.rand(3, device="flagos")
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3, device="flagos"), x)
    print("well")
    """
    assert program(text).ok() == "well\n"


def test_torch_first_then_torch_fl(program):
    text = """
    import torch, torch_fl
    assert torch.ones(2, device="flagos").sum().item() == 2
    print("well")
    """
    assert program(text).ok() == "well\n"


RIVALS = {
    "name": 'torch.utils.rename_privateuse1_backend("npu")',
    "kernel": """
library = torch.library.Library("aten", "IMPL")
library.impl("neg", lambda x: x, "PrivateUse1")
""",
}


@pytest.mark.parametrize("kind", RIVALS)
def test_a_rival_is_a_named_error(program, kind):
    text = f"import torch\n{RIVALS[kind]}\ntry:\n    import torch_fl\nexcept ImportError as error:\n    print(error)\n"
    said = program(text).ok()
    assert "E-BOOT-020" in said and "PrivateUse1" in said
    assert kind != "name" or "npu" in said


def copied(tmp_path, change):
    """A copy of this torch_fl with another build.json, for PYTHONPATH."""
    home = tmp_path / "other" / "torch_fl"
    shutil.copytree(HOME, home)
    build = json.loads((home / "build.json").read_text())
    change(build)
    (home / "build.json").write_text(json.dumps(build))
    return home


def refusal(program, home, **changes):
    text = """
    try:
        import torch_fl
    except ImportError as error:
        print(error.code, error)
    """
    return program(text, PYTHONPATH=home.parent, **changes).ok()


def test_a_plugin_for_another_torch(program, tmp_path):
    home = copied(tmp_path, lambda build: build["plugin"].update(torch="2.9"))
    said = refusal(program, home)
    assert said.startswith("E-BOOT-018") and "2.9" in said


def test_a_plugin_that_is_not_what_build_json_says(program, tmp_path):
    """The plugin itself looks at the running torch, whatever is written about it."""
    import torch

    home = copied(tmp_path, lambda build: None)
    real = Path(torch.__file__).parent
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    for entry in real.iterdir():
        (fake / entry.name).symlink_to(entry)
    (fake / "version.py").unlink()
    text = (real / "version.py").read_text()
    minor = ".".join(torch.__version__.split(".")[:2])
    (fake / "version.py").write_text(text.replace(f"'{minor}.", "'2.12."))
    build = json.loads((home / "build.json").read_text())
    build["torch"]["release"] = torch.__version__.partition("+")[0].replace(f"{minor}.", "2.12.")
    build["plugin"]["torch"] = "2.12"
    (home / "build.json").write_text(json.dumps(build))
    path = os.pathsep.join([str(home.parent), str(fake.parent)])
    done = program(
        "try:\n    import torch_fl\nexcept ImportError as error:\n    print(error.code, error)\n", PYTHONPATH=path
    )
    assert "E-BOOT-018" in done.ok() and minor in done.out and "2.12" in done.out


def test_a_plugin_for_another_python(program, tmp_path):
    said = refusal(program, copied(tmp_path, lambda build: build["plugin"].update(python="cp39")))
    assert said.startswith("E-BOOT-018") and "cp39" in said


def test_an_unknown_target(program, tmp_path):
    said = refusal(program, copied(tmp_path, lambda build: None), FLAGOS_TARGET="abacus")
    assert said.startswith("E-BOOT-022") and "abacus" in said


def test_a_damaged_plugin(program, tmp_path):
    home = copied(tmp_path, lambda build: None)
    (home / "lib" / "libtorch_fl.so").write_bytes(b"no library")
    assert refusal(program, home).startswith("E-BOOT-008")


def test_without_a_plugin(program, tmp_path):
    home = copied(tmp_path, lambda build: build.update(plugin=None))
    text = """
    import torch_fl, torch
    assert torch_fl.boot_info()["plugin"] is None and not hasattr(torch, "flagos")
    try:
        torch_fl.explain("add.Tensor")
    except torch_fl.BootError as error:
        print(error.code)
    """
    assert program(text, PYTHONPATH=home.parent).ok() == "E-BOOT-021\n"


def test_redirect_off_leaves_torch_alone(program):
    text = """
    import torch_fl, torch
    assert not hasattr(torch, "flagos")
    print("well")
    """
    assert program(text, TORCH_FL_REDIRECT="off").ok() == "well\n"


def test_the_runner(program, tmp_path):
    """`python -m torch_fl`: the program itself knows nothing of torch_fl."""
    (tmp_path / "plain.py").write_text("import torch\nprint(torch.ones(2, device='flagos').sum().item())\n")
    text = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'torch_fl', 'plain.py'], check=True)\n"
    assert program(text).ok() == "2.0\n"
