"""Random indices, random texts and random layouts: the engine against PyTorch on input that nobody has seen before."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def usual_options():
    yield
    for lib in (torch, engine):
        lib.set_printoptions(profile="default")


def ours(x: torch.Tensor) -> engine.Tensor:
    """The same numbers under the same strides."""
    x = x.detach()
    kind = engine.bfloat16.numpy if x.dtype is torch.bfloat16 else None
    x = x.view(torch.int16) if kind else x
    whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).numpy().copy()
    strides = tuple(s * x.element_size() for s in x.stride())
    array = np.ndarray(tuple(x.shape), whole.dtype, whole, x.storage_offset() * x.element_size(), strides)
    return engine.Tensor._wrap(array.view(kind) if kind else array)


# -- indices -------------------------------------------------------------------------------------------------------------------


def item_of_index(n: int) -> tuple[Any, Any]:
    """An item of an index along a dimension of n, for both libraries."""
    kind = random.choice(
        ("int", "int", "tensor", "slice", "slice", "slice", "none", "dots", "flag", "many", "many", "many", "list", "empty")
    )
    low, high = -n - (random.random() < 0.02), n + (random.random() < 0.02)
    if kind in ("int", "tensor"):
        i = random.randrange(low, high) if high > low else 0
        return (i, i) if kind == "int" else (torch.tensor(i), engine.tensor(i))
    if kind == "slice":
        bound = lambda: random.choice((None, None, random.randrange(-n - 2, n + 3)))  # noqa: E731
        s = slice(bound(), bound(), random.choice((None, None, 1, 2, 3, 0 if random.random() < 0.05 else 1)))
        return s, s
    if kind in ("none", "dots"):
        return (None, None) if kind == "none" else (..., ...)
    if kind == "flag":
        b = random.random() < 0.5
        return b, b
    shape = random.choice(((2,), (3,), (1,), (2, 1), (1, 3), (0,), (2, 3))) if kind == "many" else (0,) if kind == "empty" else (2,)
    values = np.random.randint(low, high, shape) if high > low else np.zeros(shape, int)
    if kind == "many":
        return random.choice(((torch.tensor(values), engine.tensor(values)), (values, values)))
    return values.tolist(), values.tolist()


def index_of(shape: tuple) -> tuple[tuple, tuple]:
    items: list[tuple[Any, Any]] = []
    d = 0
    while d < len(shape) and random.random() < 0.8:
        if random.random() < 0.15:
            mask = np.random.rand(*shape[d : d + random.choice((1, 2))]) < 0.5
            items.append((torch.tensor(mask), engine.tensor(mask)))
            d += mask.ndim
            continue
        a, b = item_of_index(shape[d])
        items.append((a, b))
        d += not (a is None or a is ... or isinstance(a, bool))
    return tuple(a for a, _ in items), tuple(b for _, b in items)


def draw(shape: tuple) -> np.ndarray:
    """The same numbers for both libraries."""
    return np.random.RandomState(5).randn(*shape) if shape else np.array(0.7)


def outcome(call: Any) -> tuple:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "value", *call()
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return "error", type(error).__name__


def used(lib: Any, x: Any, index: Any, how: str, numbers: Any) -> tuple:
    if how == "read":
        x.requires_grad_()
        seen = x[index]
        (seen * numbers(tuple(seen.shape))).sum().backward()
        return seen.detach().numpy(), x.grad.numpy()
    if how == "number":
        x[index] = 1.5
    elif how == "add":
        x[index] += 2
    else:
        shape = tuple(x[index].shape)
        value = numbers(shape[1:] if how == "short" else shape).requires_grad_()
        whole = x.clone()
        whole[index] = value
        (whole * numbers(tuple(whole.shape))).sum().backward()
        return whole.detach().numpy(), value.grad.numpy()
    return (x.numpy(),)


@pytest.mark.parametrize("how", ["read", "number", "add", "tensor", "short"])
def test_random_indices(how):
    seed = random.randrange(10**6)
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    wrong = []
    for _ in range(400):
        shape = tuple(random.choice((0, 1, 2, 3, 4, 2, 3)) for _ in range(random.choice((1, 2, 2, 3, 4))))
        x = torch.randn(shape, dtype=torch.float64)
        x = x.transpose(0, -1) if random.random() < 0.3 else x
        index, same = index_of(tuple(x.shape))
        y = ours(x.clone(memory_format=torch.preserve_format))
        a = outcome(lambda x=x, index=index: used(torch, x.clone(), index, how, lambda s: torch.tensor(draw(s))))
        b = outcome(lambda y=y, same=same: used(engine, y, same, how, lambda s: engine.tensor(draw(s))))
        if a[0] == "value" == b[0]:
            fits = all(u.shape == v.shape and np.allclose(u, v) for u, v in zip(a[1:], b[1:], strict=True))
        else:
            fits = a == b or a[0] == b[0] == "error" and any(isinstance(i, slice) and i.step == 0 for i in index)
            # behind a second Ellipsis PyTorch slices dimensions that are not there, and says nothing
            fits = fits or b == ("error", "IndexError") and sum(i is Ellipsis for i in index) > 1
        if not fits:
            wrong.append(f"{tuple(x.shape)}[{index}]: {a} {b}"[:400])
    assert not wrong, f"seed {seed}: {len(wrong)} differ\n" + "\n".join(wrong[:5])


# -- texts ---------------------------------------------------------------------------------------------------------------------

DTYPES = [
    torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


def test_random_texts():
    seed = random.randrange(10**6)
    random.seed(seed), torch.manual_seed(seed)
    wrong = []
    for _ in range(500):
        shape = [random.choice((0, 1, 2, 3, 5, 8, 12, 30)) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4)))]
        x = torch.randn(shape, dtype=torch.float64) * 10 ** random.uniform(-6, 9)
        x = x.round() if random.random() < 0.3 else x
        if x.numel() and random.random() < 0.2:
            x.view(-1)[random.randrange(x.numel())] = random.choice((torch.nan, torch.inf, -torch.inf, 0.0, 1e-30, 1e30))
        dtype = random.choice(DTYPES)
        x = torch.complex(x, torch.randn_like(x)).to(dtype) if dtype.is_complex else x.nan_to_num(0, 0, 0).clamp(0, 100).to(dtype) if not (
            dtype.is_floating_point) else x.to(dtype)  # fmt: skip
        chosen = {
            "precision": random.choice((0, 1, 2, 4, 8)), "threshold": random.choice((0, 5, 20, 1000, float("inf"))),
            "edgeitems": random.choice((0, 1, 2, 3, 5)), "linewidth": random.choice((10, 20, 40, 80, 120)),
            "sci_mode": random.choice((None, None, True, False)), "profile": random.choice((None, "default", "short", "full")),
        }  # fmt: skip
        y = ours(x)
        if (dtype.is_floating_point or dtype.is_complex) and random.random() < 0.3:
            x, y = x.requires_grad_(), y.requires_grad_()
            if random.random() < 0.5:
                x, y = x * 1, y * 1
        for lib in (torch, engine):
            lib.set_printoptions(**chosen)
        if repr(x) != repr(y):
            wrong.append(f"{chosen}\n{x!r}\n{y!r}"[:600])
    assert not wrong, f"seed {seed}: {len(wrong)} differ\n" + "\n".join(wrong[:3])


# -- layouts -------------------------------------------------------------------------------------------------------------------

IN_ROWS = {
    "contiguous": lambda x: x.contiguous(), "softmax": lambda x: x.softmax(-1), "cumsum": lambda x: x.cumsum(0), "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(1), "max": lambda x: x.max(0).values, "std": lambda x: x.std(0), "argmax": lambda x: x.argmax(-1),
    "roll": lambda x: x.roll(1, 0), "masked_fill": lambda x: x.masked_fill(x > 0, 0.0), "index": lambda x: x[:, [0, 0]], "tril": lambda x: x.tril(),
    "index_select": lambda x: x.index_select(1, x.new_zeros(2).long()), "matmul": lambda x: x.mT @ x, "logsumexp": lambda x: x.logsumexp(0),
}  # fmt: skip
SEEN = {
    "exp": lambda x: x.exp(), "clone": lambda x: x.clone(), "double": lambda x: x.double(), "neg": lambda x: -x, "times": lambda x: x * 2,
    "unsqueeze": lambda x: x.unsqueeze(1), "expand": lambda x: x[None].expand(3, *x.shape), "step": lambda x: x[1:, ::2], "mT": lambda x: x.mT,
    "diagonal": lambda x: x.diagonal(0, 0, 1), "unfold": lambda x: x.unfold(0, 2, 1), "like": lambda x: x * 0 + 1, "sqrt": lambda x: x.abs().sqrt(),
}  # fmt: skip


@pytest.mark.parametrize("name", [*IN_ROWS, *SEEN])
def test_layouts_of_results(name):
    """Where PyTorch's result lies in rows, so does the engine's: a `view` that works there works here. Views have its strides."""
    f = (IN_ROWS | SEEN)[name]
    for _ in range(30):
        shape = [random.choice((2, 3, 4)) for _ in range(random.choice((2, 3, 4)))]
        x = torch.randn(shape).permute(random.sample(range(len(shape)), len(shape)))
        a, b = f(x), f(ours(x))
        assert tuple(a.shape) == tuple(b.shape)
        if name in IN_ROWS:
            assert b.is_contiguous() or not a.is_contiguous(), (x.shape, x.stride(), a.stride(), b.stride())
        else:
            assert a.stride() == b.stride() and a.is_contiguous() == b.is_contiguous(), (x.shape, x.stride(), a.stride(), b.stride())
