"""A flat index of wheels that are METADATA alone, with the Requires-Dist lines of the published ones.

The lines of torch, triton, flag_gems and xgrammar are PyPI's. What they require in turn is made up: a wheel without
requirements, of a version that fits.
"""

import re
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

# torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl, and the same of 2.10.0 and 2.9.0
COMMON = ["filelock", "typing-extensions>=4.10.0", "sympy>=1.13.3", "networkx>=2.5.1", "jinja2", "fsspec>=0.8.5"]
X86 = '; platform_system == "Linux" and platform_machine == "x86_64"'
CUDA12 = [
    "nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cuda-cupti-cu12==12.8.90",
    "nvidia-cudnn-cu12==9.10.2.21", "nvidia-cublas-cu12==12.8.4.1", "nvidia-cufft-cu12==11.3.3.83",
    "nvidia-curand-cu12==10.3.9.90", "nvidia-cusolver-cu12==11.7.3.90", "nvidia-cusparse-cu12==12.5.8.93",
    "nvidia-cusparselt-cu12==0.7.1", "nvidia-nccl-cu12==2.27.5", "nvidia-nvtx-cu12==12.8.90",
    "nvidia-nvjitlink-cu12==12.8.93", "nvidia-cufile-cu12==1.13.1.3",
]  # fmt: skip
CUDA = {
    "2.13.0": [
        "setuptools>=77.0.3",
        "cuda-toolkit[cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx]==13.0.3; "
        'platform_system == "Linux"',
        'cuda-bindings<14,>=13.0.3; platform_system == "Linux" and python_version < "3.15"',
        'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
        'nvidia-cusparselt-cu13==0.8.1; platform_system == "Linux"',
        'nvidia-nccl-cu13==2.29.7; platform_system == "Linux"',
        'nvidia-nvshmem-cu13==3.4.5; platform_system == "Linux"',
        'triton==3.7.1; platform_system == "Linux" and python_version < "3.15"',
    ],
    "2.10.0": [
        'setuptools; python_version >= "3.12"',
        *(line + X86 for line in [*CUDA12, "cuda-bindings==12.9.4", "nvidia-nvshmem-cu12==3.4.5", "triton==3.6.0"]),
    ],
    "2.9.0": [
        'setuptools; python_version >= "3.12"',
        *(line + X86 for line in [*CUDA12, "nvidia-nvshmem-cu12==3.3.20", "triton==3.5.0"]),
    ],
}
TRITON = ["3.5.0", "3.5.1", "3.6.0", "3.7.1", "3.9.0"]
FLAG_GEMS = {
    "5.0.2": ["packaging==26.0", "PyYAML==6.0.3", "sqlalchemy==2.0.48", "numpy==1.26.4"],
    # Made up: no release that we know of requires it, and nothing keeps the next one from it.
    "99.0": ["packaging==26.0", "triton>=3.5.1"],
}
# xgrammar-0.2.9: a package of users that pulls triton
XGRAMMAR = [
    "apache-tvm-ffi>=0.1.11", "pydantic", "torch>=1.10.0", "transformers>=4.38.0",
    'triton; platform_system == "Linux" and platform_machine == "x86_64"', "numpy", "typing-extensions>=4.9.0",
]  # fmt: skip


def torch(release):
    """The requirements of PyPI's torch."""
    return COMMON + CUDA[release]


def wheel(folder, name, version, requires=(), files=()):
    """A wheel of METADATA, and of files without content."""
    stem = f"{re.sub(r'[-_.]+', '_', name).lower()}-{version}"
    extras = sorted({extra for line in requires for extra in re.findall(r"extra == '([^']+)'", line)})
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {extra}" for extra in extras] + [f"Requires-Dist: {line}" for line in requires]
    with zipfile.ZipFile(Path(folder) / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        for file in files:
            archive.writestr(file, "")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def owner(folder, name, version):
    wheel(folder, name, version, files=["triton/__init__.py"])


def fitting(requirement):
    """Some version that the requirement allows."""
    for spec in requirement.specifier:
        if spec.operator in ("==", ">="):
            return spec.version
    return "1.0"


def index(folder, stock):
    """All of the above in `folder`, and the stock CPU torch in these local versions: what is not bound to Linux."""
    folder.mkdir(parents=True)
    published = {("flag_gems", version): lines for version, lines in FLAG_GEMS.items()}
    published["xgrammar", "0.2.9"] = XGRAMMAR
    published["puller", "1.0"] = ["triton"]  # made up
    for release, lines in CUDA.items():
        published["torch", release] = torch(release)
        for local in stock:
            cpu = [line for line in lines if "platform_system" not in line]
            published["torch", f"{release}+{local}"] = COMMON + cpu
    names = {name for name, _ in published} | {"triton"}
    for (name, version), lines in published.items():
        wheel(folder, name, version, lines)
        for line in map(Requirement, lines):
            if line.name not in names:
                extras = [f"filelock; extra == '{extra}'" for extra in sorted(line.extras)]
                wheel(folder, line.name, fitting(line), extras)
    for version in TRITON:
        owner(folder, "triton", version)
