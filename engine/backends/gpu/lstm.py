"""LSTM over all time steps, and its gradient: a matrix product and a kernel of `lstm.cu` for each step. See `kernels_lstm` for shapes."""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy

from ..kernels_lstm import before, order
from . import launch
from .matmul import matmul

__all__ = ["lstm", "lstm_back"]

_BLOCK = 128


@functools.cache
def _kernel(name: str, dtype: numpy.dtype) -> launch.Kernel:
    return launch.Kernel(launch.source("lstm.cu", T=launch.TYPES[dtype.name]), name)


def _launched(name: str, state: Any, *arrays: Any) -> None:
    """Launch a kernel for the units of a state, with rows of row-major arrays."""
    pointers = [a.data.ptr if a is not None else 0 for a in arrays]
    if state.size:
        _kernel(name, state.dtype)(-(-state.size // _BLOCK), _BLOCK, *pointers, state.shape[-1], state.size)


def lstm(given: Any, h: Any, c: Any, weight: Any, reverse: bool) -> tuple:
    """Return the hidden states (T, N, H), the last cell state (N, H), all cell states (T, N, H), and the gates (T, N, 4H)."""
    given, h, c = map(cupy.ascontiguousarray, (given, h, c))
    outs, cells = (cupy.ndarray((len(given), *h.shape), given.dtype) for _ in range(2))
    gates, turned = cupy.ndarray(given.shape, given.dtype), weight.T
    for t in order(len(given), reverse):
        _launched("lstm_step", c, matmul(h, turned), given[t], c, gates[t], cells[t], outs[t])
        c, h = cells[t], outs[t]
    return outs, c.copy(), cells, gates


def lstm_back(g: Any, dc: Any, h0: Any, c0: Any, weight: Any, out: Any, cells: Any, gates: Any, reverse: bool) -> list:
    """Return the gradients of `given`, h, c and `weight`, from those of the hidden states (`g`) and the last cell state (`dc`)."""
    g, c0, dc, dh, n = cupy.ascontiguousarray(g), cupy.ascontiguousarray(c0), cupy.array(dc, order="C"), None, h0.shape[-1]
    dz, first, back = cupy.ndarray(gates.shape, out.dtype), order(len(out), reverse)[:1], 1 if reverse else -1
    for t in order(len(out), not reverse):
        old = c0 if t in first else cells[t + back]
        _launched("lstm_step_back", dc, g[t], dh, dc, gates[t], cells[t], old, dz[t])
        dh = matmul(dz[t], weight)
    dh = cupy.zeros_like(dc) if dh is None else dh
    return [dz, dh, dc, matmul(dz.reshape(-1, 4 * n).T, before(cupy, out, h0, reverse).reshape(-1, n))]
