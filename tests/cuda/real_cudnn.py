"""Plan the graphs of `engine.backends.gpu.dnn` and `sdpa` with the real cuDNN, for a GPU that is described but not there. Prints JSON.

The description is that of the last GPU on which `benchmarks/gpu.py` ran, or else of an H200, put together by hand. Run by `test_dnn.py` with
the stub of the driver. cuDNN's heuristics choose from its engines, and check and build the plans; an execution would need the device.
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
from engine.backends.gpu import dnn, sdpa
from engine.backends.windows import place
from engine.base.layout import blank, strides_of

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


ATTENTIONS = {  # name -> shapes of query, key and value, the order of their axes in memory, a mask's shape, causal, dropout
    "plain": ((2, 4, 128, 64), (2, 4, 128, 64), 64, (0, 1, 2, 3), None, False, 0.0),
    "causal": ((2, 4, 100, 64), (2, 4, 77, 64), 64, (0, 2, 1, 3), None, True, 0.0),
    "grouped": ((2, 8, 64, 128), (2, 2, 64, 128), 128, (0, 2, 1, 3), None, True, 0.0),
    "a mask": ((2, 4, 100, 64), (2, 4, 77, 64), 64, (0, 1, 2, 3), (1, 1, 100, 77), False, 0.0),
    "a mask per head": ((2, 4, 65, 32), (2, 4, 65, 32), 32, (0, 2, 1, 3), (2, 4, 65, 65), False, 0.0),
    "dropout": ((2, 4, 128, 64), (2, 4, 128, 64), 64, (0, 2, 1, 3), None, True, 0.1),
    "mask and dropout": ((2, 4, 100, 64), (2, 4, 77, 64), 64, (0, 1, 2, 3), (2, 1, 100, 77), False, 0.1),
    "small": ((1, 1, 7, 8), (1, 1, 5, 8), 8, (0, 1, 2, 3), None, False, 0.0),
    "one query": ((2, 4, 1, 64), (2, 4, 128, 64), 64, (0, 1, 2, 3), None, False, 0.0),
    "a value of other width": ((2, 4, 128, 192), (2, 4, 128, 192), 128, (0, 1, 2, 3), None, True, 0.0),
    "wide heads": ((2, 4, 128, 256), (2, 4, 128, 256), 256, (0, 1, 2, 3), None, True, 0.0),
}


def signatures(name: str, dtype: Any) -> list[Any]:
    """What is asked of cuDNN for an attention and its gradient, and for what its dropout keeps."""
    query, key, width, axes, mask, causal, dropout = ATTENTIONS[name]
    laid = lambda shape, axes=axes: (shape, strides_of(shape, axes))  # noqa: E731
    given = [laid(query), laid(key), laid((*key[:-1], width))]
    out, bias = laid((*query[:-1], width)), None if mask is None else laid(mask, (0, 1, 2, 3))
    found = [sdpa.Signature("forward", dtype, (*given, bias, out), 0.125, causal, dropout, False)]
    found += [
        sdpa.Signature("backward", dtype, (*given, bias, out, out, *given), 0.125, causal, dropout, strict) for strict in (False, True)
    ]
    rows = [laid((*x[:-1], 8), (0, 1, 2, 3)) for x in (query, key, key)]
    return found + [sdpa.Signature("kept", dtype, (*rows, None), 1.0, False, dropout, False)] * bool(dropout)


def attentions() -> tuple[dict[str, int], list[str]]:
    """Plan each attention in half precision; return the workspaces, and what was refused."""
    workspaces, refused = {}, []
    for name, dtype in itertools.product(ATTENTIONS, DTYPES[1:]):
        for one in signatures(name, dtype):
            key = f"{name}, {dtype}, {one.op}, deterministic {one.deterministic}"
            try:
                workspaces[key] = sdpa.built(one, None).get_workspace_size()
            except (RuntimeError, ValueError, cudnn.cudnnGraphNotSupportedError) as error:
                refused.append(f"{key}: {str(error).splitlines()[0]}")
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
    found = {name: _refuses(dnn, signature) for name, signature in wrong.items()}
    right, *_ = signatures("plain", DTYPES[1])
    query, key, value, mask, out = right.layouts
    shorter = ((2, 4, 127, 64), key[1])
    found["attention, keys"] = _refuses(sdpa, right._replace(layouts=(query, key, shorter, mask, out)))
    found["attention, heads"] = _refuses(
        sdpa, right._replace(layouts=(((2, 3, 128, 64), query[1]), ((2, 2, 128, 64), key[1]), value, mask, out))
    )
    found["attention, width"] = _refuses(sdpa, right._replace(layouts=(*[((2, 4, 128, 20), (10240, 2560, 20, 1))] * 3, None, out)))
    return found


def _refuses(module: Any, signature: Any) -> bool:
    try:
        module.built(signature, None)
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
    found["attentions"], found["refused attentions"] = attentions()
    found["wrong"] = wrong_graphs()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
