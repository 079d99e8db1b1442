"""Plan the graphs of `engine.backends.gpu.dnn` with the real cuDNN, for a GPU that is described but not there. Prints JSON.

The description is that of the last GPU on which `benchmarks/gpu.py` ran, or else of an H200, put together by hand. Run by `test_dnn.py` with the stub of the driver. cuDNN's heuristics choose from its engines, and check and build the plans; an execution
would need the device.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import cudnn
import ml_dtypes
import numpy
from dnn_cases import FORMATS, GEOMETRIES

from engine.backends import cudnn as switches
from engine.backends.gpu import dnn
from engine.backends.windows import place
from engine.base.layout import blank

H200 = {
    "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13050, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024,
    "l2CacheSize": 62914560, "memoryBusWidth": 6144, "memClockRateKHz": 3201000, "smClockRateKHz": 1980000, "isTccDriver": 0,
    "pciDeviceId": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150000000000, "schemaVersion": 1, "cudnnVersion": cudnn.backend_version(),
}  # fmt: skip
CAPTURED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "cudnn_device.json"
DTYPES = [numpy.dtype("f"), numpy.dtype("e"), numpy.dtype(ml_dtypes.bfloat16)]


def array(shape: tuple, dtype: Any, format: Any) -> numpy.ndarray:
    """An array with these strides, of which nothing is read."""
    return blank(numpy.empty, shape, dtype, format)


def planned(op: str, arrays: list, size: Any, rest: tuple) -> Any:
    """Plan as for an array on the GPU; an unsupported graph raises its warning."""
    plan = dnn._new(op, arrays, size, rest, 0)
    assert plan is not None
    return plan


def every_kind() -> tuple[dict[str, int], list[str]]:
    """Plan each geometry in each dtype, layout and precision; return the workspaces, and what was refused."""
    workspaces, refused = {}, []
    for (name, (x, weight, rest)), dtype, last in itertools.product(GEOMETRIES.items(), DTYPES, (False, True)):
        formats = FORMATS[len(x), last]
        at = place(x[2:], weight[2:], *rest[:3])
        g = (x[0], weight[0], *at.out)
        on_x, on_weight, on_g = (array(s, dtype, formats) for s in (x, weight, g))
        calls = {
            "fprop": ([on_x, on_weight], None), "biased": ([on_x, on_weight, numpy.empty(weight[:1], dtype)], None),
            "dgrad": ([on_g, on_weight], x), "wgrad": ([on_g, on_x], weight),
        }  # fmt: skip
        for op, tf32, deterministic in itertools.product(calls, (True, False), (True, False)):
            switches.allow_tf32, switches.deterministic = tf32, deterministic
            key = f"{name}, {dtype}, last {last}, {op}, tf32 {tf32}, deterministic {deterministic}"
            try:
                plan = planned(op.replace("biased", "fprop"), *calls[op], (*rest[:3], rest[3]))
                workspaces[key] = plan._workspace
            except RuntimeWarning as error:
                refused.append(f"{key}: {error}")
    return workspaces, refused


def wrong_graphs() -> dict[str, bool]:
    """Whether cuDNN refuses graphs whose shapes do not fit together."""
    at = place((9, 9), (3, 3), 1, 1, 1)
    right = dnn.Signature("fprop", DTYPES[0], ((2, 8, 9, 9), (4, 8, 3, 3)), (2, 4, 9, 9), (0, 1, 2, 3), at, False, ())
    dnn.built(right, None)
    wrong = {
        "channels": right._replace(shapes=((2, 8, 9, 9), (4, 7, 3, 3))),
        "groups": right._replace(shapes=((2, 8, 9, 9), (5, 4, 3, 3)), result=(2, 5, 9, 9)),
        "size of the result": right._replace(result=(2, 4, 9, 8)),
    }
    return {name: _refuses(signature) for name, signature in wrong.items()}


def _refuses(signature: Any) -> bool:
    try:
        dnn.built(signature, None)
    except (RuntimeError, ValueError, cudnn.cudnnGraphNotSupportedError):
        return True
    return False


def main() -> None:
    warnings.simplefilter("error")
    cudnn.create_handle = lambda: None
    parameters = {name: [*inspect.signature(getattr(cudnn.pygraph, name)).parameters] for name in ("tensor", "execute")}
    found: dict[str, Any] = {"version": cudnn.__version__, "parameters": parameters}
    found["members"] = {name: [*getattr(cudnn, name).__members__] for name in ("data_type", "heur_mode", "numerical_note")}
    described = CAPTURED.read_text(encoding="utf-8") if CAPTURED.exists() else json.dumps(H200)
    cudnn.pygraph = functools.partial(cudnn.pygraph, device_property=cudnn.create_device_properties(described))
    found["planned"], found["refused"] = every_kind()
    found["wrong"] = wrong_graphs()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
