"""Several processes that run one function and know each other, and what tests of them compare."""

from __future__ import annotations

from datetime import timedelta

import numpy

import engine.distributed as dist
from engine import multiprocessing as mp


def enter(rank, fn, world, path, args, seconds):
    dist.init_process_group("gloo", f"file://{path}", timedelta(seconds=seconds), world, rank)
    fn(rank, world, *args)
    dist.destroy_process_group()


def together(fn, world, tmp_path, *args, seconds=20.0):
    """Run fn(rank, world, *args) in `world` processes that know each other."""
    path = tmp_path / f"{fn.__name__}{world}"
    mp.start_processes(enter, (fn, world, str(path), args, seconds), nprocs=world, start_method="fork")


def values(rank, n, dtype):
    """What each rank holds: drawn afresh in every process, and the same there."""
    draw = numpy.random.default_rng(rank)
    if dtype == "bool":
        return draw.integers(0, 2, n).astype(bool)
    if numpy.dtype(dtype).kind in "iu":
        return draw.integers(0, 50, n).astype(dtype)
    real = draw.standard_normal(n)
    return (real + 1j * draw.standard_normal(n) if numpy.dtype(dtype).kind == "c" else real).astype(dtype)


def equal(tensor, expected, rtol=0.0):
    numpy.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=1e-12 if rtol else 0)
