"""`vmap`: turn a function of single samples into a function of batches."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import ref

from ..backends.batch import Batched, Level
from ..backends.meta import Meta
from ..base import tree
from ..core import inplace, random, tape, versions
from ..core.batching import batch, open_level, running, unbatch
from ..core.op import functions, registry
from ..core.tensor import Tensor


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Callable:
    """Vectorize `func`, written for one sample, over a batch dimension: each op runs once for all samples.

    `in_dims` gives the batch dimension of each input (None: shared by all samples), as one int or nested like the inputs; `out_dims` the
    batch dimension of each output. Keyword arguments are shared. `randomness`: "error" (random functions raise), or "same" or "different"
    random values per sample. `chunk_size` limits the samples per call. Raises ValueError if inputs and `in_dims` do not match.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        name = getattr(func, "__name__", repr(func))
        dims, given, size = _given(args, in_dims, name)
        nest = (args, kwargs)
        given, dims = [*given, *tree.leaves(kwargs)], [*dims, *[None] * len(tree.leaves(kwargs))]
        if chunk_size is None or size <= chunk_size:
            return _mapped(func, name, nest, given, dims, size, out_dims, randomness)[0]
        return _in_chunks(func, name, nest, given, dims, size, out_dims, randomness, chunk_size)

    return call


def _given(args: tuple, in_dims: Any, name: str) -> tuple[list, list, int]:
    """Return the batch dimension of each input leaf (non-negative, or None), the leaves, and the batch size."""
    told = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{told}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{told}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no inputs. The latter "
            "is unsupported."
        )
    dims = tree.spread(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{told}: in_dims is not compatible with the structure of `inputs`: a tuple of {len(args)} "
            f"with {len(tree.leaves(args))} values in all"
        )
    given, sizes = tree.leaves(args), []
    for i, (x, d) in enumerate(zip(given, dims, strict=True)):
        if isinstance(d, bool) or not isinstance(d, int) and d is not None:
            raise ValueError(f"{told}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None.")
        if isinstance(d, int) and not isinstance(x, Tensor):
            raise ValueError(
                f"{told}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, please "
                "use None as the respective in_dim"
            )
        if d is not None:
            if not -x.ndim <= d < x.ndim:
                raise ValueError(
                    f"{told}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.ndim} so expected in_dim to "
                    f"satisfy -{x.ndim} <= in_dim < {x.ndim}."
                )
            dims[i] = d % x.ndim
            sizes.append(x.shape[dims[i]])
    if not sizes:
        raise ValueError(f"{told}: at least one input must be mapped over, but in_dims is None for all Tensors")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return dims, given, sizes[0]


def _mapped(func: Callable, name: str, nest: Any, given: list, dims: list, size: int, out_dims: Any, randomness: str) -> tuple[Any, list]:
    """Run the function once over the whole batch; return its outputs and the batch dimension of each."""
    mapped: list[tuple] = []
    with contextlib.ExitStack() as after:
        after.callback(_reach, mapped, name)  # runs once the level is closed, even if the function raised
        level = after.enter_context(open_level(size, randomness))
        # a tensor passed twice is a single one inside too, so that a write under one name is visible under the other
        whole = {(id(x), d): x.movedim(d, 0) if d else x for x, d in zip(given, dims, strict=True) if d is not None}
        inside = {key: batch(x, level) for key, x in whole.items()}
        mapped += [(whole[key], x, x.node, x.array, level) for key, x in inside.items()]
        for x, samples, *_ in mapped:
            if samples.node is not None:
                samples.node.attrs["outside"] = ref(x)
        args, kwargs = tree.filled(nest, iter([inside.get((id(x), d), x) for x, d in zip(given, dims, strict=True)]))
        result = func(*args, **kwargs)
        places = _places(result, out_dims, name)
        found = [_left(x, d, level, name) for x, d in zip(tree.leaves(result), places, strict=True)]
    for x in found:
        _tied(x, given)
    return tree.filled(result, iter(found)), places


def _reach(mapped: list[tuple], name: str) -> None:
    """Make each mapped tensor the result of in-place writes to its samples."""
    for whole, samples, node, array, level in mapped:
        if samples.node is None or samples.node.op is None or samples.node is node:  # at most detached, or made a leaf
            continue
        if samples.array is array:
            _written(whole, samples.node, level)
        elif not _seen_as(samples.node, node):
            raise RuntimeError(
                f"vmap({name}): `{name}` reshapes an input in place and writes to it, and the gradient of that write is not known outside. "
                "Reshape it out of place, as x.unsqueeze(0) does for x.unsqueeze_(0)."
            )


def _seen_as(node: Any, source: Any) -> bool:
    """Return whether only views lie between two nodes."""
    while node is not source and node is not None and node.op is not None and node.op.view:
        node = node.inputs[0]
    return node is source


def _written(whole: Tensor, node: tape.Node, level: Level) -> None:
    """Make `whole` the result of the function's in-place writes to its samples; `node` is the last of them.

    Ops that have read the samples since then now read them through `whole`, so that a gradient with respect to `whole` includes them.
    """
    samples = copy(node)
    inplace.rebase(whole, unbatch.node(samples, level, whole.array.shape, whole.array.dtype))
    way, n = [], whole.node
    while n is not samples and n is not None:  # from the current tensor down to the samples
        way.append(n)
        n = n.inputs[-1]
    # these nodes lie between the write and the ops that read its result; for nested levels the outer ones come first
    step = 16.0 ** (min(len(running.levels), 2) - 3)
    for i, n in enumerate(reversed(way), 1):
        n.time = node.time + i * step
    node.op, node.inputs, node.attrs, node.saved, node.hooks = batch, (whole.node,), {"level": level}, (), None
    node.time += (len(way) + 1) * step


def _places(result: Any, out_dims: Any, name: str) -> list:
    for x in tree.leaves(result):
        if not isinstance(x, Tensor) and tree.spread(out_dims, result) != [None] * len(tree.leaves(result)):
            places = tree.spread(out_dims, result)
            if places is None or any(p is not None for p, v in zip(places, tree.leaves(result), strict=True) if not isinstance(v, Tensor)):
                raise ValueError(
                    f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set the "
                    "`out_dims=` argument to None for this output?"
                )
    if not isinstance(out_dims, (int, tuple, list, dict)) and out_dims is not None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int or a nest of ints as the outputs are, got {out_dims}"
        )
    if isinstance(out_dims, (tuple, list)) and isinstance(result, Tensor):
        result = (result,)
    places = tree.spread(out_dims, result)
    if places is None and isinstance(out_dims, tuple) and isinstance(result, list):
        places = tree.spread(list(out_dims), result)
    if places is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of `outputs`. out_dims has "
            f"{len(tree.leaves(out_dims))} values and outputs has {len(tree.leaves(result))}."
        )
    return places


def _left(x: Any, dim: int | None, level: Level, name: str) -> Any:
    if dim is None:
        if isinstance(x, Tensor) and x.array.__class__ is Batched and x.array.level is level:
            if x.array.alike:
                return unbatch(x, level)[0]
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return x
    if not -x.ndim - 1 <= dim <= x.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-x.ndim - 1}, {x.ndim}], but got {dim})")
    whole = unbatch(x, level) if x.array.__class__ is Batched and x.array.level is level else x.expand(level.size, *x.shape)
    place = dim % (x.ndim + 1)
    return whole if place == 0 else whole.movedim(0, place)


def _tied(x: Any, given: list) -> None:
    """Make a result that shares memory with an input a view of it, so that in-place writes to either one reach both gradients."""
    if not isinstance(x, Tensor) or x.array.__class__ in (Batched, Meta):
        return
    for source in given:
        same = isinstance(source, Tensor) and source is not x and source.dtype is x.dtype
        if same and versions.storage(source.array) is versions.storage(x.array) and (source.node is None or x.node is not None):
            (size, stride, offset), seen_as = ((tuple(t.shape), t.stride(), t.storage_offset()) for t in (x, source))
            x._view = None
            attrs = {"size": size, "stride": stride, "storage_offset": offset, "source": seen_as}
            return inplace.mark_view(x, source, registry["strided_view"], attrs)


def _in_chunks(
    func: Callable, name: str, nest: Any, given: list, dims: list, size: int, out_dims: Any, randomness: str, chunk_size: int
) -> Any:
    """Process `chunk_size` samples at a time and concatenate the results along the batch dimension."""
    state = random.states() if randomness == "same" else None
    parts: list[list] = []
    result, places = None, []
    for start in range(0, size, chunk_size):
        n = min(chunk_size, size - start)
        if state is not None:
            random.restore(state)
        some = [x if d is None else x.narrow(d, start, n) for x, d in zip(given, dims, strict=True)]
        result, places = _mapped(func, name, nest, some, dims, n, out_dims, randomness)
        parts.append(tree.leaves(result))
    joined = [
        pieces[0] if d is None else functions["cat"](list(pieces), d) for pieces, d in zip(zip(*parts, strict=True), places, strict=True)
    ]
    return tree.filled(result, iter(joined))
