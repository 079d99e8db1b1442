"""`torch.utils.collect_env`: describe the environment for bug reports, also as `python -m torch.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

import numpy

from .. import cuda
from . import version

_PACKAGES = ("gradient-workbench", "numpy", "scipy", "cupy-cuda12x", "cupy-cuda13x", "pillow", "onnx", "onnxruntime", "tensorboardX")


def get_env_info() -> dict[str, str]:
    """Return the environment as strings by name. Runs no commands, and reads only the versions of installed packages."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    gpus = [cuda.get_device_name(i) for i in range(cuda.device_count())]
    return {
        "PyTorch version": f"{version.__version__} (names and semantics; the engine runs on NumPy {numpy.__version__})",
        "Is CUDA available": str(bool(gpus)),
        "GPU models and configuration": ", ".join(f"GPU {i}: {name}" for i, name in enumerate(gpus)) or "No CUDA",
        "OS": platform.platform(),
        "Python version": sys.version.replace("\n", " "),
        "Python platform": f"{platform.system()}-{platform.machine()}",
        "CPU": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}",
        "Versions of relevant libraries": "".join(f"\n[pip3] {name}=={found}" for name, found in versions.items()),
    }


def get_pretty_env_info() -> str:
    """Format the environment, one entry per line."""
    return "Collecting environment information...\n" + "\n".join(f"{name}: {told}" for name, told in get_env_info().items())


def main() -> None:
    """Print the environment."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
