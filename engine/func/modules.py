"""Modules as functions of their parameters: `functional_call`, stacked parameters for ensembles, batch norm without running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.op import functions
from ..core.tensor import Tensor
from ..nn import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call the module with the given tensors in place of its parameters and buffers; the module itself is unchanged.

    `parameter_and_buffer_dicts` maps names to tensors: one dict, or several without common keys. With `tie_weights`, a tensor given under
    one name replaces the parameter under all its names. With `strict`, missing or unexpected keys raise RuntimeError.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (tuple, list)):
        given = {}
        for some in parameter_and_buffer_dicts:
            if not isinstance(some, dict):
                raise ValueError(f"Expected all elements of parameter_and_buffer_dicts to be dictionaries, got {type(some).__name__}")
            if twice := [key for key in some if key in given]:
                raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            given.update(some)
    else:
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(parameter_and_buffer_dicts)}"
        )
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _lent(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def _lent(module: Module, given: dict, tie_weights: bool, strict: bool) -> Iterator[None]:
    """Temporarily replace the module's tensors; tensors that the call assigns in their places are written back to `given`."""
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    if strict:
        missing, unexpected = [k for k in own if k not in given], [k for k in given if k not in own]
        if tie_weights:
            tied = {id(own[k]) for k in given if k in own}
            missing = [k for k in missing if id(own[k]) not in tied]
        if missing or unexpected:
            told = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] * bool(unexpected) + [
                f"Missing key(s): {', '.join(map(repr, missing))}."
            ] * bool(missing)
            raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(told))
    lent = dict(given)
    if tie_weights:
        by_owner: dict[int, Any] = {}
        for key in [k for k in given if k in own]:
            before = by_owner.setdefault(id(own[key]), given[key])
            if before is not given[key]:
                raise ValueError(
                    f"functional_call got multiple values for keys of one tied parameter, {key} among them. "
                    "Consider using tie_weights=False"
                )
        lent.update({k: by_owner[id(t)] for k, t in own.items() if id(t) in by_owner})
    places = []
    for key, tensor in lent.items():
        if key in own:
            path, _, name = key.rpartition(".")
            owner = module.get_submodule(path) if path else module
            table = owner._parameters if name in owner._parameters else owner._buffers
            places.append((key, table, name, table[name]))
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    try:
        for key, table, name, _ in places:
            table[name] = lent[key]
        yield
    finally:
        for key, table, name, before in places:
            if key in given:
                given[key] = table[name]
            table[name] = before


def stack_module_state(models: Any) -> tuple[dict, dict]:
    """Stack the parameters and buffers of models of one class by name, for `vmap` over an ensemble; returns two dicts of new leaves."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return {k: _stacked([p[k] for p in parameters]) for k in parameters[0]}, {k: _stacked([b[k] for b in buffers]) for k in buffers[0]}


def _stacked(tensors: list) -> Tensor:
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise RuntimeError(
            "Expected tensors from each model to have the same .requires_grad. If you wish to train some of them only, detach the others"
        )
    out = functions["stack"]([t.detach() for t in tensors])
    return out.requires_grad_() if wanted.pop() else out


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make every batch norm in `root` use batch statistics, in place: `vmap` cannot update running statistics."""
    from ..nn import normalization

    kinds = tuple(v for k, v in vars(normalization).items() if isinstance(v, type) and "BatchNorm" in k)
    for module in root.modules():
        if isinstance(module, kinds) and getattr(module, "track_running_stats", False):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
