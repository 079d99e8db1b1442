"""`compiled.export`: the program of a compiled function as a file that runs without this project; see `program.py` for its format.

A compiled function takes its state as it lies in memory, and draws random numbers before it runs. In the exported program every tensor of
the state has a name, learning rates are part of the state, and random numbers come from a key in the state.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy
from jax.extend.core import Literal, jaxpr_as_fun

from ..autograd import no_grad
from ..backends.xla import Traced
from ..base import tree
from ..core.tensor import Tensor
from ..nn import Module
from ..serialize import safetensors
from ..serialize.source import whole
from .memory import _memory_order
from .plan import Plan
from .program import FORMAT, MANIFEST, PROGRAM, STATE, TEXT, VERSION

KEY = "random.key"
_FOLDERS = "jax_hlo_source_file_canonicalization_regex"
_DRAWS: dict[str, Callable] = {  # by function of `kernels_random`: the same distribution, other numbers
    "unit": lambda key, n: jax.random.uniform(key, (n,), numpy.float64),
    "uniform": lambda key, n, d, low=0.0, high=1.0: jax.random.uniform(key, (n,), d, low, high),
    "normal": lambda key, n, d, mean=0.0, std=1.0, dense=True: jax.random.normal(key, (n,), d) * std + mean,
    "bernoulli": lambda key, n, p: jax.random.bernoulli(key, p, (n,)),
    "integers": lambda key, n, low, high, d: jax.random.randint(key, (n,), low, high, d),
    "exponential": lambda key, n, d, rate=1.0: jax.random.exponential(key, (n,), d) / rate,
}


def export(
    compiled: Any,
    path: str | os.PathLike,
    args: tuple | None,
    kwargs: dict | None,
    platforms: Sequence[str],
    dynamic_batch: bool,
) -> None:
    """Write the program of `compiled` to a file: see `Compiled.export`."""
    try:
        import flatbuffers  # noqa: F401  jax.export needs it, and says so only after the work
    except ImportError as error:
        raise ModuleNotFoundError(
            f"export needs the package flatbuffers ({error}): pip install gradient-workbench[xla]", name="flatbuffers"
        ) from error
    platforms = (platforms,) if isinstance(platforms, str) else tuple(platforms)
    if not platforms or not set(platforms) <= {"cpu", "cuda", "rocm", "tpu"}:
        raise ValueError(f"export: platforms are 'cpu', 'cuda', 'rocm' and 'tpu', got {platforms}")
    if args is not None and not isinstance(args, tuple):
        raise TypeError(f"export: args is a tuple of arguments, such as (x,), got a {type(args).__name__}")
    if dynamic_batch:
        if args is None:
            raise ValueError("export: dynamic_batch=True needs example arguments: export(path, (x,), dynamic_batch=True)")
        program, call, inputs = _mapped(compiled, args, kwargs or {})
    else:
        program = _Named(_plan(compiled, args, kwargs or {}), compiled.fn)
        call, inputs = program, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.given]
    state = program.values()
    with jax.enable_x64(True):
        specs = {name: jax.ShapeDtypeStruct(a.shape, a.dtype) for name, a in state.items()}
        folders = getattr(jax.config, _FOLDERS)
        jax.config.update(_FOLDERS, "^.*/")  # lines of code are noted with the file's name, not with its folder
        try:
            exported = jax.export.export(jax.jit(call), platforms=platforms)(specs, *inputs)
            data = exported.serialize()
        except (ValueError, NotImplementedError) as error:  # such as a custom call that is not stable between versions
            raise ValueError(f"export: JAX cannot export this program: {error}") from error
        finally:
            jax.config.update(_FOLDERS, folders)
    manifest = _manifest(exported, program, inputs)
    with whole(os.fspath(path)) as written, zipfile.ZipFile(written, "w") as file:
        file.writestr(MANIFEST, json.dumps(manifest, indent=1))
        file.writestr(PROGRAM, bytes(data))
        file.writestr(TEXT, exported.mlir_module(), zipfile.ZIP_DEFLATED)
        with file.open(STATE, "w", force_zip64=True) as member:
            safetensors.save_file({name: Tensor._wrap(a) for name, a in state.items()}, member)  # type: ignore[arg-type]


def _plan(compiled: Any, args: tuple | None, kwargs: dict) -> Plan:
    """The plan for a call with these arguments, compiled now if need be; without arguments, that of all calls so far."""
    if args is None:
        if len(compiled.plans) != 1:
            known = f"compiled for {len(compiled.plans)} kinds of arguments" if compiled.plans else "not compiled yet"
            why = "".join(f" ({why})" for why in compiled.eager.values())
            raise RuntimeError(f"export: the function is {known}{why}; give example arguments: export(path, (x,))")
        (plans,) = compiled.plans.values()
        for guards, plan in plans:
            if guards.hold():
                return plan
        raise RuntimeError(f"export: {plans[-1][0].broken()} changed since the last call; give example arguments: export(path, (x,))")
    structure = (args, kwargs)
    given = tree.leaves(structure)
    key = compiled._key(structure, given)
    for _ in range(3):  # the first call runs eagerly, the second is compiled, and after it the guards hold
        for guards, plan in compiled.plans.get(key, ()):
            if guards.hold():
                return plan
        if key in compiled.eager:
            raise RuntimeError(f"export: a call with these arguments is not compiled: {compiled.eager[key]}")
        compiled(*args, **kwargs)
    raise RuntimeError("export: a call with these arguments is not compiled, since what it depends on changes in every call")


class _Named:
    """A plan's program as `(state, *inputs) -> (results, changes)`, with names."""

    def __init__(self, plan: Plan, fn: Callable) -> None:
        if plan.altered:
            raise ValueError("export: the function writes into an argument; return the new value instead")
        self.plan, self.jaxpr = plan, plan.traced.jaxpr
        taken = iter(self.jaxpr.jaxpr.invars)
        parts = (plan.changing, plan.donated, plan.still, plan.kept, plan.inputs, plan.rates, plan.draws)
        _, donated, _, kept, given, _, drawn = ([next(taken) for _ in part] for part in parts)
        self.given, self.drawn = [v.aval for v in given], [v.aval for v in drawn]

        names = _names(plan, fn)
        self.also = {found[0]: found[1:] for found in names.values() if len(found) > 1}
        self.blocks = [_block_name(block, names) for block in plan.blocks]
        self.rates = [f"{group}.lr" for g in plan.rates for group, known in _groups(plan) if known is g]
        self.inputs = _input_names(plan, fn)

        # Old gradients are state if the program reads them, new ones if it reads old ones, or if no optimizer has used them.
        read = {v for e in self.jaxpr.jaxpr.eqns for v in e.invars if not isinstance(v, Literal)}
        read |= {v for v in self.jaxpr.jaxpr.outvars if not isinstance(v, Literal)}
        owned = dict(zip((*plan.donated, *plan.kept), (*donated, *kept), strict=True))
        self.grads = {i: f"{names[id(t)][0]}.grad" for i, t in enumerate(plan.owned) if owned[i] in read}
        kept_on = {id(plan.owned[i]) for i in self.grads} if plan.optimizers else set(map(id, plan.leaves))
        fresh = [(k, plan.leaves[i]) for k, i in enumerate(plan.fresh) if i < len(plan.leaves)]
        self.fresh = {k: f"{names[id(t)][0]}.grad" for k, t in fresh if id(t) in kept_on}

    def values(self) -> dict[str, numpy.ndarray]:
        """The state's values by name."""
        plan = self.plan
        state = {name: self._contents(block, whole) for (name, whole), block in zip(self.blocks, plan.blocks, strict=True)}
        state |= {name: plan.owned[i]._grad._host() for i, name in self.grads.items()}  # type: ignore[union-attr]
        state |= {name: numpy.array(g["lr"]) for name, g in zip(self.rates, plan.rates, strict=True)}
        if plan.draws:
            state[KEY] = numpy.array([0, plan.draws[0][1].initial_seed() & 0xFFFFFFFF], numpy.uint32)
        return state

    def _contents(self, block: Any, whole: bool) -> numpy.ndarray:
        tensor = block.tensors[0]
        return tensor._host() if whole else numpy.asarray(block.buffer())

    def __call__(self, state: dict, *inputs: Any) -> tuple:
        plan = self.plan
        roots = [self._root(state[name], block, whole) for (name, whole), block in zip(self.blocks, plan.blocks, strict=True)]
        old = [
            state[self.grads[i]] if i in self.grads else jnp.zeros(t._grad.array.shape, t._grad.array.dtype)  # type: ignore[union-attr]
            for i, t in enumerate(plan.owned)
        ]
        changes: dict[str, Any] = {}
        drawn: list = []
        if plan.draws:
            new, *keys = jax.random.split(jax.random.wrap_key_data(state[KEY]), 1 + len(plan.draws))
            changes[KEY] = jax.random.key_data(new)
            drawn = [_draw(key, call, spec) for key, call, spec in zip(keys, plan.draws, self.drawn, strict=True)]
        rates = [state[name] for name in self.rates]
        outs = iter(
            jaxpr_as_fun(self.jaxpr)(
                *(roots[i] for i in plan.changing),
                *(old[i] for i in plan.donated),
                *(roots[i] for i in plan.still),
                *(old[i] for i in plan.kept),
                *inputs,
                *rates,
                *drawn,
            )
        )
        for i in plan.changed:
            roots[i] = next(outs)
        grads = [next(outs) for _ in plan.fresh]
        rewritten = {i: next(outs) for i in plan.written}
        leaves: dict[int, Any] = {}
        for root, block in zip(roots, plan.blocks, strict=True):
            leaves |= zip(map(id, block.tensors), block.views(Traced(root)), strict=True)
        for i in plan.changed:
            name, whole = self.blocks[i]
            changes[name] = leaves[id(plan.blocks[i].tensors[0])].value if whole else roots[i]
        changes |= {name: grads[k] for k, name in self.fresh.items()}
        changes |= {self.grads[i]: value for i, value in rewritten.items()}
        results = iter(self._results(outs, [*(leaves[id(t)].value for t in plan.leaves), *inputs]))
        return _plain(plan.shape, results), changes

    def _root(self, value: Any, block: Any, whole: bool) -> Any:
        return value.transpose(_memory_order(block.tensors[0].array)).reshape(block.shape) if whole else value

    def _results(self, outs: Iterator, leaves: list) -> Iterator:
        for kind, what in self.plan.results:
            if kind == "value":
                yield next(outs)
            elif kind == "known":
                yield leaves[what]
            elif kind == "constant":
                yield what.array  # type: ignore[union-attr]
            elif what is None or isinstance(what, (bool, int, float, complex)):
                yield what
            else:
                raise ValueError(f"export: results are tensors and numbers, got a {type(what).__name__}")


def _mapped(compiled: Any, args: tuple, kwargs: dict) -> tuple[_Named, Callable, list]:
    """The program for one sample, mapped over a batch of any size."""
    given = [x for x in tree.leaves((args, kwargs)) if isinstance(x, Tensor)]
    sizes = {x.shape[0] if x.ndim else None for x in given}
    if len(sizes) != 1 or (n := sizes.pop()) is None or n < 2:
        raise ValueError("export: dynamic_batch=True needs example tensors whose first dimension is the batch, of one size of at least 2")
    one = tree.mapped(lambda x: x[:1] if isinstance(x, Tensor) else x, (args, kwargs))
    program = _Named(_plan(compiled, *one), compiled.fn)
    if program.plan.changed or program.plan.fresh or program.plan.draws:
        raise ValueError("export: dynamic_batch=True is for inference: the function changes its state or draws random numbers")

    def call(state: dict, *inputs: Any) -> tuple:
        return jax.vmap(lambda *xs: jax.tree.map(_only, program(state, *(x[None] for x in xs))))(*inputs)

    with no_grad():
        result = compiled.fn(*args, **kwargs)
    expected = jax.tree.leaves(_plain(result, iter(tree.leaves(result))))
    with jax.enable_x64(True):
        found, _ = jax.jit(call)(program.values(), *(x._host() for x in given))
        for e, f in zip(expected, jax.tree.leaves(found), strict=True):
            if e.shape != f.shape or not numpy.allclose(e._host(), f, rtol=1e-3, atol=1e-4, equal_nan=True):
                raise ValueError("export: dynamic_batch=True: the samples of a batch depend on each other; export for one batch size")
        (batch,) = jax.export.symbolic_shape("batch")
        inputs = [jax.ShapeDtypeStruct((batch, *a.shape[1:]), a.dtype) for a in program.given]
    return program, call, inputs


def _only(x: Any) -> Any:
    if not jnp.ndim(x) or x.shape[0] != 1:
        raise ValueError(f"export: dynamic_batch=True: a result of shape {jnp.shape(x)} for one sample has no batch dimension")
    return x[0]


def _draw(key: Any, call: tuple, spec: Any) -> Any:
    fn, _, args, kwargs = call
    if fn.__name__ not in _DRAWS:
        raise ValueError(f"export: random numbers of {fn.__name__} have no form in an exported program")
    return _DRAWS[fn.__name__](key, *args, **kwargs).astype(spec.dtype)


def _plain(shape: Any, values: Iterator) -> Any:
    """The structure of the results in tuples, lists and dicts, which is what any JAX can read."""
    if isinstance(shape, dict):
        return {str(key): _plain(branch, values) for key, branch in shape.items()}
    if isinstance(shape, (tuple, list)):
        return (tuple if isinstance(shape, tuple) else list)([_plain(branch, values) for branch in shape])
    return next(values)


# -- names -----------------------------------------------------------------------------------------------------------------------


def _names(plan: Plan, fn: Callable) -> dict[int, list[str]]:
    """The names of each tensor of the state, by its id: those of `state_dict()`, then those of the optimizers' state."""
    names: dict[int, list[str]] = {}
    modules = {id(m): m for m in plan.modules}
    if isinstance(own := getattr(fn, "__self__", fn), Module):
        modules = {id(own): own, **modules}
    inner = {id(child) for m in modules.values() for child in m.modules() if child is not m}
    outer = [m for i, m in modules.items() if i not in inner]
    for k, m in enumerate(outer):
        prefix = "" if len(outer) == 1 else f"{k}."
        for name, tensor in (*m.named_parameters(remove_duplicate=False), *m.named_buffers(remove_duplicate=False)):
            names.setdefault(id(tensor), []).append(prefix + name)
    for k, tensor in enumerate(t for o in plan.optimizers for g in o.param_groups for t in g["params"]):
        names.setdefault(id(tensor), [f"parameter.{k}"])
    for prefix, o in _optimizers(plan):
        for p, state in o.state.items():
            for key, value in state.items():
                for n, tensor in enumerate(leaves := tree.leaves(value)):
                    if isinstance(tensor, Tensor):
                        names.setdefault(id(tensor), [f"{prefix}.state.{names[id(p)][0]}.{key}" + f".{n}" * (len(leaves) > 1)])
    for prefix, group in _groups(plan):
        for key, value in group.items():
            if isinstance(value, Tensor):
                names.setdefault(id(value), [f"{prefix}.{key}"])
    for k, tensor in enumerate(t for t in plan.leaves if id(t) not in names):
        names[id(tensor)] = [f"tensor.{k}"]
    return names


def _optimizers(plan: Plan) -> list[tuple[str, Any]]:
    one = len(plan.optimizers) == 1
    return [("optimizer" if one else f"optimizer.{k}", o) for k, o in enumerate(plan.optimizers)]


def _groups(plan: Plan) -> list[tuple[str, dict]]:
    return [(f"{prefix}.param_groups.{k}", group) for prefix, o in _optimizers(plan) for k, group in enumerate(o.param_groups)]


def _block_name(block: Any, names: dict[int, list[str]]) -> tuple[str, bool]:
    """The name of a storage, and whether its value is that of its one tensor; else it is a memory that several tensors look at."""
    tensor, *others = block.tensors
    array = tensor.array
    whole = not others and array.size == math.prod(block.shape) and array.transpose(_memory_order(array)).flags.c_contiguous
    return names[id(tensor)][0] + ("" if whole else ".storage"), whole


def _input_names(plan: Plan, fn: Callable) -> list[str]:
    """The names of the tensors among the arguments: `x`, or `x.0` inside of a tuple, list or dict."""
    args, kwargs = plan.structure
    call = inspect.signature(fn.forward if isinstance(fn, Module) else fn)
    found: list[str] = []
    for name, value in call.bind(*args, **kwargs).arguments.items():
        if call.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            for key, part in value.items():
                found += _paths(part, key)
        else:
            found += _paths(value, name)
    return [found[i] for i in plan.inputs]


def _paths(value: Any, name: str) -> list[str]:
    """A name for each leaf, in the order of `tree.leaves`."""
    if not isinstance(value, (tuple, list, dict)):
        return [name]
    return [
        path for key, part in (value.items() if isinstance(value, dict) else enumerate(value)) for path in _paths(part, f"{name}.{key}")
    ]


def _manifest(exported: Any, program: _Named, inputs: list) -> dict:
    def entry(name: str, aval: Any, **more: Any) -> dict:
        return {"name": name, "shape": [n if isinstance(n, int) else str(n) for n in aval.shape], "dtype": str(aval.dtype), **more}

    (state, *_), _ = exported.in_tree.unflatten(exported.in_avals)
    results, changes = exported.out_tree.unflatten(exported.out_avals)
    paths = jax.tree_util.tree_flatten_with_path(results)[0]
    return {
        "format": FORMAT,
        "version": VERSION,
        "engine": sys.modules[__name__.partition(".")[0]].__version__,
        "jax": jax.__version__,
        "calling_convention": exported.calling_convention_version,
        "platforms": list(exported.platforms),
        "inputs": [entry(name, spec) for name, spec in zip(program.inputs, inputs, strict=True)],
        "state": [
            entry(name, a, changes=name in changes, **({"also": program.also[name]} if name in program.also else {}))
            for name, a in state.items()
        ],
        "results": [entry(jax.tree_util.keystr(path, simple=True, separator="."), a) for path, a in paths],
    }
