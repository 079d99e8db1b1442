"""`engine.func` beside `torch.func`: the same programs on the same numbers, and the same refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest
from func_programs import PROGRAMS

import engine
import engine.func

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")]


def flat(x: Any) -> list:
    if isinstance(x, dict):
        return [v for k in x for v in flat(x[k])]
    return [v for item in x for v in flat(item)] if isinstance(x, (tuple, list)) else [x]


def kind(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: kind(v) for k, v in x.items()}
    return (type(x).__name__, [kind(v) for v in x]) if isinstance(x, (tuple, list)) else "tensor"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    import torch.func

    program, arrays = PROGRAMS[name]
    theirs = program(torch, torch.func, *[torch.tensor(a) for a in arrays])
    ours = program(engine, engine.func, *[engine.tensor(a) for a in arrays])
    assert kind(ours) == kind(theirs)
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
        numpy.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)


def ones(t: Any, *shape: int) -> Any:
    return t.ones(*shape)


REFUSED: dict[str, Any] = {
    "item": lambda t, f: f.vmap(lambda x: x.item())(ones(t, 3)),
    "a decision": lambda t, f: f.vmap(lambda x: x if x > 0 else -x)(ones(t, 3)),
    "random": lambda t, f: f.vmap(lambda x: x + t.rand(2))(ones(t, 3)),
    "random like": lambda t, f: f.vmap(t.randn_like)(ones(t, 3)),
    "dropout": lambda t, f: f.vmap(lambda x: t.nn.functional.dropout(x, 0.5))(ones(t, 3, 4)),
    "no inputs": lambda t, f: f.vmap(lambda: ones(t, 3))(),
    "sizes": lambda t, f: f.vmap(lambda x, y: x + y)(ones(t, 3), ones(t, 2)),
    "no tensor": lambda t, f: f.vmap(lambda x, y: x + y)(ones(t, 3), 2),
    "0-d": lambda t, f: f.vmap(lambda x: x)(t.ones(())),
    "too many in_dims": lambda t, f: f.vmap(lambda x: x, in_dims=(0, 0))(ones(t, 3)),
    "in_dims of a wrong type": lambda t, f: f.vmap(lambda x: x, in_dims="a")(ones(t, 3)),
    "in_dim of a wrong type": lambda t, f: f.vmap(lambda x: x, in_dims=("a",))(ones(t, 3)),
    "in_dims None": lambda t, f: f.vmap(lambda x: x, in_dims=None)(ones(t, 3)),
    "a number comes out": lambda t, f: f.vmap(lambda x: 3)(ones(t, 3)),
    "out_dims out of range": lambda t, f: f.vmap(lambda x: x, out_dims=3)(ones(t, 3)),
    "out_dims None": lambda t, f: f.vmap(lambda x: x, out_dims=None)(ones(t, 3)),
    "too many out_dims": lambda t, f: f.vmap(lambda x: (x, x), out_dims=(0, 0, 0))(ones(t, 3)),
    "out_dims of a wrong type": lambda t, f: f.vmap(lambda x: (x, x), out_dims="a")(ones(t, 3)),
    "randomness": lambda t, f: f.vmap(lambda x: x, randomness="x")(ones(t, 3)),
    "chunk_size": lambda t, f: f.vmap(lambda x: x, chunk_size=0)(ones(t, 3)),
    "a write without the batch": lambda t, f: f.vmap(lambda x: t.zeros(3).add_(x))(ones(t, 2, 3)),
    "sizes that differ": lambda t, f: f.vmap(t.nonzero)(t.tensor([[1, 0], [1, 1]])),
    "a mask": lambda t, f: f.vmap(lambda x: x[x > 0])(t.tensor([[1, 0], [1, 1]])),
    "running statistics": lambda t, f: f.vmap(lambda x: t.nn.BatchNorm1d(3)(x))(ones(t, 2, 4, 3)),
    "grad of a vector": lambda t, f: f.grad(lambda x: x)(ones(t, 3)),
    "grad of a number": lambda t, f: f.grad(lambda x: 3.0)(ones(t, 3)),
    "argnums out of range": lambda t, f: f.grad(lambda x: x.sum(), argnums=2)(ones(t, 3)),
    "no argnums": lambda t, f: f.grad(lambda x: x.sum(), argnums=())(ones(t, 3)),
    "argnums twice": lambda t, f: f.grad(lambda x: x.sum(), argnums=(0, 0))(ones(t, 3)),
    "integers": lambda t, f: f.grad(lambda x: x.sum())(t.ones(3, dtype=t.int64)),
    "no aux": lambda t, f: f.grad(lambda x: x.sum(), has_aux=True)(ones(t, 3)),
    "grad by a number": lambda t, f: f.grad(lambda x: x.sum())(3.0),
    "primals": lambda t, f: f.jvp(t.sin, ones(t, 3), ones(t, 3)),
    "tangents": lambda t, f: f.jvp(t.sin, (ones(t, 3),), (ones(t, 2),)),
    "too many tangents": lambda t, f: f.jvp(t.sin, (ones(t, 3),), (ones(t, 3), ones(t, 2))),
    "strict": lambda t, f: f.jvp(lambda x: ones(t, 3), (ones(t, 3),), (ones(t, 3),), strict=True),
    "jvp of a number": lambda t, f: f.jvp(lambda x: 3.0, (ones(t, 3),), (ones(t, 3),)),
    "vjp of a number": lambda t, f: f.vjp(lambda x: 3.0, ones(t, 3)),
    "cotangent": lambda t, f: f.vjp(t.sin, ones(t, 3))[1](ones(t, 2)),
    "too many cotangents": lambda t, f: f.vjp(t.sin, ones(t, 3))[1]((ones(t, 3), ones(t, 3))),
    "jacrev of a number": lambda t, f: f.jacrev(lambda x: 3.0)(ones(t, 3)),
    "jacfwd of a number": lambda t, f: f.jacfwd(lambda x: 3.0)(ones(t, 3)),
    "chunk_size of jacrev": lambda t, f: f.jacrev(t.sin, chunk_size=0)(ones(t, 3)),
    "functionalize": lambda t, f: f.functionalize(t.sin, remove="x")(ones(t, 3)),
    "no dict": lambda t, f: f.functional_call(t.nn.Linear(2, 2), 3, (ones(t, 2),)),
    "key twice": lambda t, f: f.functional_call(t.nn.Linear(2, 2), ({"weight": ones(t, 2, 2)}, {"weight": ones(t, 2, 2)}), (ones(t, 2),)),
    "missing key": lambda t, f: f.functional_call(t.nn.Linear(2, 2), {"weight": ones(t, 2, 2)}, (ones(t, 2),), strict=True),
    "unexpected key": lambda t, f: f.functional_call(t.nn.ReLU(), {"x": ones(t, 2)}, (ones(t, 2),), strict=True),
    "no tensor as a parameter": lambda t, f: f.functional_call(t.nn.Linear(2, 2), {"weight": 3}, ones(t, 2)),
    "no models": lambda t, f: f.stack_module_state([]),
    "models of two kinds": lambda t, f: f.stack_module_state([t.nn.Linear(2, 2), t.nn.ReLU()]),
    "models in two modes": lambda t, f: f.stack_module_state([t.nn.Linear(2, 2), t.nn.Linear(2, 2).eval()]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    import torch.func

    raised = []
    for t, f in ((torch, torch.func), (engine, engine.func)):
        with warnings.catch_warnings(), pytest.raises(Exception) as found:
            warnings.simplefilter("ignore")
            REFUSED[name](t, f)
        raised.append(found.type)
    assert issubclass(raised[1], raised[0])
