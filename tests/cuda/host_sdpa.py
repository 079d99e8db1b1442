"""Scaled dot-product attention for the stand-in for cuDNN: computed in float64 from what the graph declares, and from addresses.

Rows that see nothing are nan, since NVIDIA's manual does not say what they are.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy

diagonal_alignment = enum.Enum("diagonal_alignment", "TOP_LEFT BOTTOM_RIGHT")


class Attention:
    """A node of a graph: `given` are its tensors by name and its numbers, `results` its results by name."""

    def __init__(self, name: str, given: dict[str, Any], results: dict[str, Any]) -> None:
        self.name, self.given, self.results = name, given, results

    def check(self) -> None:
        """Raise RuntimeError for shapes that do not fit together."""
        q, k, v = (self.given[n].dim for n in "qkv")
        rows = [*q[:3], 1]
        right = k[:3] == v[:3] and q[0] == k[0] and q[1] % k[1] == 0 and q[3] == k[3]
        dims = {"o": [*q[:3], v[3]], "dO": [*q[:3], v[3]], "stats": rows, "dQ": q, "dK": k, "dV": v, "rng_dump": [*q[:3], k[2]]}
        for name, tensor in (self.given | self.results).items():
            right = right and (name not in dims or tensor.is_virtual or tensor.dim == dims[name])
        bias = self.given.get("bias")
        right = right and (bias is None or bias.dim[0] in (1, q[0]) and bias.dim[1] in (1, q[1]) and bias.dim[2:] == [q[2], k[2]])
        if not right:
            raise RuntimeError(f"CUDNN_STATUS_BAD_PARAM: {[(n, getattr(t, 'dim', t)) for n, t in self.given.items()]}")

    def why_not(self) -> str:
        """What is not supported; empty if all is."""
        tensors = [t for t in (*self.given.values(), *self.results.values()) if hasattr(t, "stride") and not t.is_virtual]
        if any(t.dim[3] > 1 and t.stride[3] != 1 or any(n > 1 and not s for n, s in zip(t.dim, t.stride, strict=True)) for t in tensors):
            return "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"
        if any(self.given[n].dim[3] % 8 or self.given[n].dim[3] > 256 for n in "qkv"):
            return "hidden_dim should be multiple of 8"
        if len({self.given[n].data_type for n in "qkv"}) > 1 or self.given["q"].data_type.name not in ("HALF", "BFLOAT16"):
            return "No valid engine configs"
        return ""

    def compute(self, at: Callable[[Any], numpy.ndarray]) -> None:
        """Write the results; `at` gives the memory of a tensor."""
        given = self.given
        q, k, v = (at(given[n]).astype(float) for n in "qkv")
        heads, group = q.shape[1], q.shape[1] // k.shape[1]
        k, v = k.repeat(group, 1), v.repeat(group, 1)
        scores = given["attn_scale"] * (q @ k.mT)
        if "bias" in given:
            scores = scores + at(given["bias"]).astype(float)
        if "diagonal_band_right_bound" in given:
            assert given["diagonal_alignment"] is diagonal_alignment.TOP_LEFT and given["diagonal_band_right_bound"] == 0
            scores = numpy.where(numpy.tril(numpy.ones(scores.shape, bool)), scores, -numpy.inf)
        kept: Any = 1.0
        if "dropout" in given:
            chance, seed, offset = given["dropout"]
            state = numpy.array([at(seed).item(), at(offset).item()], numpy.uint64)
            alive = numpy.random.Generator(numpy.random.Philox(key=state)).random(scores.shape) >= chance
            kept = alive / (1 - chance)
            if "rng_dump" in given:
                at(given["rng_dump"])[...] = alive
        if self.name == "forward":
            with numpy.errstate(invalid="ignore"):
                top = scores.max(-1, keepdims=True)
                sums = numpy.exp(scores - top).sum(-1, keepdims=True)
                at(self.results["o"])[...] = (numpy.exp(scores - top) / sums * kept) @ v
                at(self.results["stats"])[...] = top + numpy.log(sums)
            return
        o, g = at(given["o"]).astype(float), at(given["dO"]).astype(float)
        weights = numpy.exp(scores - at(given["stats"]).astype(float))
        slope = weights * ((g @ v.mT) * kept - (g * o).sum(-1, keepdims=True)) * given["attn_scale"]
        one = lambda d: d.reshape(len(d), heads // group, group, *d.shape[2:]).sum(2)  # noqa: E731
        at(self.results["dQ"])[...] = slope @ k
        at(self.results["dK"])[...] = one(slope.mT @ q)
        at(self.results["dV"])[...] = one((weights * kept).mT @ g)
