"""Control flow operators: `cond`, `while_loop` and scans. They run eagerly, and gradients follow the path taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..func import vmap
from ..ops.join import cat, stack
from ..ops.shape import wrap_dim
from ..utils._pytree import tree_flatten, tree_unflatten

__path__: list[str] = []  # a package, as in PyTorch, with a module for each function


def _checked(name: str, what: str, operands: Any) -> list:
    leaves = tree_flatten(operands)[0] if isinstance(operands, (tuple, list)) else None
    if leaves is None or not all(isinstance(x, (Tensor, int)) for x in leaves):
        raise RuntimeError(
            f"{name}: Expect {what} to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands!r}."
        )
    return leaves


def _decided(name: str, what: str, value: Any) -> bool:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError(f"{name}: Expected {what} to be bool or single-element tensor, but got {value}.")
        return bool(value.item())
    if not isinstance(value, int):
        raise RuntimeError(f"{name}: Expected {what} to be bool or single-element tensor, but got {value!r}.")
    return bool(value)


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: tuple | list = ()) -> Any:
    """Return `true_fn(*operands)` if `pred`, a bool or single-element tensor, is true, else `false_fn(*operands)`.

    Raises RuntimeError if `pred` has more elements, a branch is not callable, or `operands` are not (nested containers of) tensors.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond: Expect both branches to be callable.")
    _checked("cond", "operands", operands)
    return (true_fn if _decided("cond", "pred", pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: tuple | list) -> Any:
    """Repeat `carried = body_fn(*carried)` while `cond_fn(*carried)` is true, and return the last `carried`.

    The body must return tensors with the structure, shapes and dtypes of its arguments. Raises RuntimeError if it does not, or if the
    condition is neither a bool nor a single-element tensor.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: Expect cond_fn and body_fn to be callable.")
    _checked("while_loop", "carried_inputs", carried_inputs)
    carried: Any = tuple(carried_inputs)
    result: Any = carried
    while _decided("while_loop", "the result of cond_fn", cond_fn(*carried)):
        result = body_fn(*carried)
        after = (result,) if isinstance(result, Tensor) else tuple(result) if isinstance(result, (tuple, list)) else result
        _same("while_loop", "body_fn", carried, after)
        carried = after
    return result


def _same(name: str, body: str, before: Any, after: Any) -> None:
    """Raise RuntimeError if a loop body changed the structure, a shape or a dtype of the carried values."""
    old, new = tree_flatten(before), tree_flatten(after)
    if old[1] != new[1]:
        raise RuntimeError(f"{name}: Expected {body} to return what it takes, {before!r} in structure, but got {after!r}.")
    for i, (a, b) in enumerate(zip(old[0], new[0], strict=True)):
        if isinstance(a, Tensor) and (not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype):
            got = f"{tuple(b.shape)} {b.dtype}" if isinstance(b, Tensor) else repr(b)
            raise RuntimeError(
                f"{name}: Expected {body}_output and carried_inputs to have same metadata, "
                f"but item {i} was {tuple(a.shape)} {a.dtype} and became {got}."
            )


def scan(combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """Apply `carry, y = combine_fn(carry, x)` to each slice `x` of `xs` along `dim`, starting from `init`.

    Returns the last carry and all `y`, stacked along `dim`. `reverse` starts with the last slice.
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    leaves, spec = _slices("scan", RuntimeError, xs, dim, reverse)
    carry, ys = init, []
    for each in zip(*leaves, strict=True):
        before, (carry, y) = carry, combine_fn(carry, tree_unflatten(list(each), spec))
        _same("scan", "combine_fn", before, carry)
        ys.append(tree_flatten(y))
    out = [stack(list(each), dim) for each in zip(*[y[0] for y in (reversed(ys) if reverse else ys)], strict=True)]
    return carry, tree_unflatten(out, ys[0][1])


def associative_scan(combine_fn: Callable, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise") -> Any:
    """Return all partial results of an associative `combine_fn` over the slices of `xs` along `dim`.

    Slices are combined in parallel by `vmap`, in log2(length) calls (rounded up). As in PyTorch, `combine_mode` "pointwise" requires GPU
    tensors; use "generic" on the CPU.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = _slices("associative_scan", ValueError, xs, dim, reverse)
    if combine_mode == "pointwise" and not all(leaf.device.type == "cuda" for leaf in leaves):
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    combine, reach, length = vmap(combine_fn), 1, leaves[0].shape[0]
    while reach < length:  # each element combines the `reach` elements up to it
        left, right = (tree_unflatten([leaf[part] for leaf in leaves], spec) for part in (slice(-reach), slice(reach, None)))
        leaves = [cat([leaf[:reach], both]) for leaf, both in zip(leaves, tree_flatten(combine(left, right))[0], strict=True)]
        reach *= 2
    return tree_unflatten([(leaf.flip(0) if reverse else leaf).movedim(0, dim) for leaf in leaves], spec)


def _slices(name: str, kind: type[Exception], xs: Any, dim: int, reverse: bool) -> tuple[list, Any]:
    """Return the tensors in `xs`, checked to have equal lengths along `dim`, with `dim` moved to the front, and their structure."""
    leaves, spec = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise kind(f"{name}: Expected xs to be a tensor, or tensors in tuples, lists and dicts, but got {xs!r}")
    lengths = {x.shape[wrap_dim(dim, x.ndim)] for x in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise kind(f"{name}: All xs leaves must have the same number of elements along dim {dim}, and at least one")
    turned = [x.movedim(dim, 0) for x in leaves]
    return [x.flip(0) for x in turned] if reverse else turned, spec
