"""The generated workflows: valid, complete, and their steps do what they say, as far as no runner is needed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rig import ARCH, REPOSITORY, SERVICES, TAG, Tree, load, program, tool, torchfl

ACME = REPOSITORY / "tests" / "vendors" / "acme.toml"
SCHEMAS = {
    "github": ["--builtin-schema", "vendor.github-workflows"],
    "gitlab": ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"],
}


@pytest.fixture(params=SERVICES)
def service(request):
    return request.param


def written(service, folder, *words):
    torchfl("ci", "workflow", "--format", service, "-o", folder, *words)
    return folder / "wheels.yml"


def check(*words, name):
    """Runs a checker of workflows; what is not installed is said, not claimed."""
    path = tool(name)
    if path is None:
        print(f"not run: {name} is not installed", file=sys.stderr)
        return
    done = subprocess.run([path, *map(str, words)], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def valid(service, path, folder, *words):
    check(*SCHEMAS[service], path, name="check-jsonschema")
    if service == "github":
        rows = json.loads(torchfl("ci", "matrix", "--format", "json", *words))["rows"]
        labels = sorted({label for row in rows for label in row["runner"]})
        config = folder / "actionlint.yaml"
        config.write_text(json.dumps({"self-hosted-runner": {"labels": labels}}))
        check("-config-file", config, "-no-color", path, name="actionlint")


def test_the_committed_workflow_is_valid_and_up_to_date(service, tmp_path):
    valid(service, REPOSITORY / "ci" / service / "wheels.yml", tmp_path)
    torchfl("ci", "workflow", "--format", service, "--check")


def test_a_vendor_that_is_added_appears(service, tmp_path):
    path = written(service, tmp_path, "--manifest", ACME)
    valid(service, path, tmp_path, "--manifest", ACME)
    text = path.read_text()
    jobs = load(path)["jobs"] if service == "github" else load(path)
    assert {"acme-x86_64", "acme-aarch64"} <= jobs.keys()
    assert str(ACME) in text, "a job has to find the manifest"
    known = {row["vendor"] for row in json.loads(torchfl("ci", "matrix", "--format", "json"))["rows"]}
    assert all(f'"{vendor}"' in text for vendor in known), "and no other is lost"


def test_a_checker_finds_what_is_wrong(service, tmp_path):
    """So that a pass says something."""
    path = written(service, tmp_path)
    path.write_text(path.read_text().replace("runs-on: ubuntu-24.04", "runs: here").replace("script:", "skript:"))
    with pytest.raises(AssertionError):
        valid(service, path, tmp_path)


def test_every_test_that_a_manifest_names_is_there():
    rows = json.loads(torchfl("ci", "matrix", "--format", "json", "--manifest", ACME))["rows"]
    for name in {name for row in rows for name in row["tests"]}:
        assert (REPOSITORY / "ci" / "tests" / f"{name}.py").is_file(), name


def sim(**instead):
    """The sample vendor for the Python and the machine at hand alone: less to build."""
    text = torchfl("vendor", "show", "sim", "--source")
    text = re.sub(r"(?m)^tags = .*$", f'tags = ["{TAG}"]', text)
    text = re.sub(r"(?m)^arch = .*$", f'arch = ["{ARCH}"]', text)
    for old, new in instead.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def test_the_steps_of_the_job_without_a_chip(service, tmp_path):
    tree = Tree(tmp_path / "checkout")
    tree.programs()
    (tree.folder / "lab.toml").write_text(sim())
    workflow = load(written(service, tmp_path / "workflow"))
    matrix = {"vendor": "sim", "manifest": "lab.toml"}
    if service == "gitlab":
        matrix = {name.upper(): value for name, value in matrix.items()}
    for command, env in SERVICES[service](workflow, "skeleton", matrix, {}):
        # The job is for the service's own machines; here it is for the one at hand.
        done = tree.run(command, {**env, "ARCH": ARCH})
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    row = json.loads(done.stdout.splitlines()[-1])
    steps = {name: row[name] for name in ("build", "audit", "install", "import", "uninstall")}
    assert set(steps.values()) == {"ok"}, row


class Chip:
    """The sample vendor with a runner, on a machine that says it has the chip."""

    def __init__(self, folder, service, tests='["devices", "import"]', more=""):
        self.service, self.tree, self.folder = service, Tree(folder / "checkout"), folder
        self.tree.programs()
        # The generator's files have names of their own, so that nobody takes them for a vendor's.
        self.parts = folder / "parts"
        text = sim(**{
            "+sim1.0-": "+sim1.0.skeleton-",
            "+cpu-": "+cpu.skeleton-",
            '"/opt/sim"': f'"{self.parts}/opt/sim"',
            '"/dev/sim*"': f'"{folder}/dev/sim*"',
        })
        text += f'\n[ci]\nrunner = ["sim-lab"]\ntests = {tests}\n{more}'
        (self.tree.folder / "lab.toml").write_text(text)
        self.node = folder / "dev" / "sim0"
        self.node.parent.mkdir()
        self.node.touch()
        # `--manifest` is written as it is given: a job finds it from the checkout.
        words = ["--manifest", "lab.toml", "--arch", ARCH, "-o", str(folder / "workflow")]
        subprocess.run(
            [program("torchfl"), "ci", "workflow", "--format", service, *words], cwd=self.tree.folder, check=True
        )
        subprocess.run([program("torchfl-skeleton"), "sim", "-o", self.parts], check=True)
        self.house = folder / "house"

    def steps(self, **variables):
        workflow = load(self.folder / "workflow" / "wheels.yml")
        matrix = {"github": {"python": TAG}, "gitlab": {"PYTHON_TAG": TAG}}[self.service]
        known = {
            "TORCH_FL_MIRROR": f"{self.parts / 'vendor'} {self.parts / 'stock'}",
            "TORCH_FL_WHEELHOUSE": str(self.house),
        }
        return SERVICES[self.service](workflow, f"sim-{ARCH}", matrix, {**known, **variables})

    def run(self, **variables):
        """The steps up to one that fails."""
        for command, env in self.steps(**variables):
            done = self.tree.run(command, env)
            if done.returncode != 0:
                break
        return command, done

    def again(self, *commands):
        """Some of the steps, after a run."""
        for command, env in self.steps():
            if command in commands:
                done = self.tree.run(command, env)
                if done.returncode != 0:
                    break
        return done


def test_the_steps_of_the_job_on_the_chip(service, tmp_path):
    chip = Chip(tmp_path, service)
    command, done = chip.run()
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    report = chip.tree.report
    assert report["tests"] == {"devices": "ok", "import": "ok"}
    wheel = chip.house / "sim" / report["wheel"]["name"]
    assert wheel.stat().st_size == report["wheel"]["bytes"]
    assert report["published"] == str(chip.house / "sim") and report["artifact"] == "local"
    # What leaves the machine is the report: kilobytes.
    assert len(json.dumps(report)) < 10_000
    # A second build makes the same bytes and finds them there.
    done = chip.again("ci/job.py wheel", "ci/job.py publish")
    assert done.returncode == 0, done.stdout + done.stderr
    # Other bytes under the same name are somebody's.
    wheel.write_bytes(b"other")
    done = chip.again("ci/job.py publish")
    assert done.returncode == 1 and "other bytes" in done.stderr
    assert wheel.read_bytes() == b"other"


def test_a_job_without_its_inputs_says_what_to_bring(tmp_path):
    chip = Chip(tmp_path, "github")
    shutil.rmtree(chip.parts / "vendor")
    command, done = chip.run(TORCH_FL_MIRROR=str(chip.parts / "stock"))
    assert (command, done.returncode) == ("ci/job.py inputs", 1)
    assert f"bring:    torch-2.13.0+sim1.0.skeleton-{TAG}-{TAG}-linux_{ARCH}.whl" in done.stderr


def test_a_job_that_was_given_no_device_fails(tmp_path):
    chip = Chip(tmp_path, "github")
    chip.node.unlink()
    command, done = chip.run()
    assert (command, done.returncode) == ("ci/job.py test", 1)
    assert "sim*: no node" in done.stdout and chip.tree.report["tests"] == {"devices": "fail", "import": "ok"}
    assert not chip.house.exists()


def test_a_wheel_that_is_uploaded_is_not_published_in_place(tmp_path):
    chip = Chip(tmp_path, "gitlab", more='artifact = "upload"\n')
    command, done = chip.run()
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert chip.tree.report["published"] is None and not chip.house.exists()
    paths = load(Path(chip.folder / "workflow" / "wheels.yml"))[f"sim-{ARCH}"]["artifacts"]["paths"]
    assert paths == ["target/ci/job/dist/"]
    assert len(list((chip.tree.folder / paths[0]).glob("*.whl"))) == 1


def test_a_step_out_of_turn_says_which_comes_first(tmp_path):
    chip = Chip(tmp_path, "github")
    (first, env), (second, _) = chip.steps()[:2]
    done = chip.tree.run(second, env)
    assert done.returncode == 1 and "`job.py inputs` comes first" in done.stderr
    done = chip.tree.run("ci/job.py", env)
    assert done.returncode == 2 and "usage" in done.stderr
