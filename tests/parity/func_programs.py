"""Programs with `torch.func`, each a function of the namespace it runs in and of arrays: run with PyTorch and with the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

rng = numpy.random.default_rng(2026)
PROGRAMS: dict[str, tuple[Callable, tuple]] = {}


def add(name: str, *arrays: Any) -> Callable:
    def note(fn: Callable) -> Callable:
        PROGRAMS[name] = fn, arrays
        return fn

    return note


def quick(name: str, fn: Callable, *arrays: Any) -> None:
    PROGRAMS[name] = fn, arrays


def normal(*shape: int) -> numpy.ndarray:
    return numpy.asarray(rng.normal(size=shape))


X, W, B, V = normal(5, 3), normal(3, 4), normal(4), normal(3)
quick("vmap", lambda t, f, x: f.vmap(lambda a: a.sin() * 2 + a.sum())(x), X)
quick("vmap of a product", lambda t, f, x, w: f.vmap(lambda a: t.tanh(a @ w).sum())(x), X, W)
quick("vmap in both dims", lambda t, f, x: f.vmap(t.dot, in_dims=1)(x, x), X)
quick("out_dims", lambda t, f, x: f.vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x), X)
quick("negative dims", lambda t, f, x: f.vmap(lambda a: a * 2, in_dims=-1, out_dims=-1)(x), X)
quick("nested in_dims", lambda t, f, x: f.vmap(lambda d: d["a"] + d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}), X)
quick("keywords are shared", lambda t, f, x: f.vmap(lambda a, b=None: a + b)(x, b=x[0]), X)
quick("chunks", lambda t, f, x: f.vmap(lambda a: a.sin(), chunk_size=2)(x), X)
quick("vmap of vmap", lambda t, f, x: f.vmap(f.vmap(lambda a, b: a * b.sin(), in_dims=(None, 0)), in_dims=(0, None))(x, x), X)
quick("three levels", lambda t, f, x: f.vmap(f.vmap(f.vmap(lambda a: a * 2 + x.sum())))(x.reshape(5, 3, 1)), X)
quick("unused batch", lambda t, f, x: f.vmap(lambda a: t.ones(2, dtype=x.dtype))(x), X)
quick("vmap of grad", lambda t, f, x, w: f.vmap(f.grad(lambda a: t.tanh(a @ w).sum()))(x), X, W)
quick("grad of vmap", lambda t, f, x, w: f.grad(lambda w: f.vmap(lambda a: t.tanh(a @ w).sum())(x).sum())(w), X, W)
quick(
    "per sample", lambda t, f, x, w, b: f.vmap(f.grad(lambda w, b, a: t.tanh(a @ w + b).sum(), (0, 1)), (None, None, 0))(w, b, x), X, W, B
)
for outer in ("jacrev", "jacfwd"):
    for inner in ("jacrev", "jacfwd"):
        quick(
            f"{outer} of {inner}",
            lambda t, f, x, w, outer=outer, inner=inner: getattr(f, outer)(getattr(f, inner)(lambda a: t.tanh(a @ w).sum(0).prod()))(x),
            X, W,
        )  # fmt: skip
    quick(outer, lambda t, f, x, w, outer=outer: getattr(f, outer)(lambda a: t.tanh(a @ w))(x), X, W)
    quick(f"{outer} by argument", lambda t, f, x, w, o=outer: getattr(f, o)(lambda a, b: ((a @ b).sin(), a.sum()), (0, 1))(x, w), X, W)
    quick(f"{outer} aux", lambda t, f, x, o=outer: getattr(f, o)(lambda a: (a.sin(), a.cos()), has_aux=True)(x), V)
quick("jacrev in chunks", lambda t, f, x: f.jacrev(lambda a: a.sin(), chunk_size=2)(x), V)
quick("hessian", lambda t, f, x, w: f.hessian(lambda a: t.tanh(a @ w).sum())(x), X, W)
quick("vmap of hessian", lambda t, f, x, w: f.vmap(f.hessian(lambda a: t.tanh(a @ w).prod()))(x), X, W)
quick("perturbations are not confused", lambda t, f, x: f.grad(lambda s: s * f.grad(lambda y: s * y)(s))(x), numpy.float64(1.3))
quick("third derivative", lambda t, f, x: f.grad(f.grad(f.grad(t.sin)))(x), numpy.float64(1.3))
quick("jvp", lambda t, f, x: f.jvp(lambda a: a.sin() * a, (x,), (x,)), X)
quick("jvp of two", lambda t, f, x, w: f.jvp(lambda a, b: (a @ b).sin(), (x, w), (x, w)), X, W)
quick("jvp aux", lambda t, f, x: f.jvp(lambda a: (a.sin(), a.cos()), (x,), (x,), has_aux=True), X)
quick("vjp", lambda t, f, x: f.vjp(t.sin, x)[1](x), X)
quick("vjp of two", lambda t, f, x, w: f.vjp(lambda a, b: (a @ b).sin(), x, w)[1](x @ w), X, W)
quick("vjp aux", lambda t, f, x: f.vjp(lambda a: (a.sin(), a.cos()), x, has_aux=True)[2], X)
quick("linearize", lambda t, f, x: f.linearize(t.sin, x)[1](x), X)
quick("vmap of jvp", lambda t, f, x: f.vmap(lambda a: f.jvp(t.sin, (a,), (a,))[1])(x), X)
quick("grad and value", lambda t, f, x: f.grad_and_value(lambda a: (a.sin().sum(), a.cos()), has_aux=True)(x), X)
quick("grad of a tree", lambda t, f, x: f.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x, "b": [x.sin()]}), X)
quick("functionalize", lambda t, f, x: f.functionalize(lambda a: a.clone().mul_(2))(x), X)
quick("complex", lambda t, f, x: f.vmap(lambda a: t.fft.fft(a).abs())(x), X)
quick("in place", lambda t, f, x: f.vmap(_written)(x), X)
quick("new_zeros in place", lambda t, f, x: f.vmap(lambda a: a.new_zeros(3).add_(a))(x), X)
quick("index by sample", lambda t, f, x, i: f.vmap(lambda a, i: a[i])(x, i), X, rng.integers(0, 3, 5))
quick("gradient of an index", lambda t, f, x, i: f.vmap(f.grad(lambda a, i: a[i].sin().sum()))(x, i), X, rng.integers(0, 3, (5, 2)))
quick("a table by sample", lambda t, f, x, i: f.vmap(lambda i: x[i])(i), X, rng.integers(0, 5, (4, 2)))
quick("where", lambda t, f, x: f.vmap(lambda a: t.where(a > 0, a, t.zeros(3, dtype=a.dtype)))(x), X)
quick("sort and topk", lambda t, f, x: f.vmap(lambda a: (t.sort(a, descending=True).values, t.topk(a, 2).values))(x), X)
quick("decompositions", lambda t, f, x: f.vmap(lambda a: t.linalg.inv(a) @ a.T + t.linalg.det(a))(x), normal(4, 3, 3))
quick("gradient of svd", lambda t, f, x: f.vmap(f.grad(lambda a: t.linalg.svd(a)[1].sum()))(x), normal(4, 3, 3))
quick("attention", lambda t, f, x: f.vmap(lambda a: t.nn.functional.scaled_dot_product_attention(a, a, a))(x), normal(4, 2, 3, 5))
quick("hessian of layer_norm", lambda t, f, x: f.hessian(lambda a: t.nn.functional.layer_norm(a, (4,)).sin().sum())(x), normal(2, 4))
quick("empty batch", lambda t, f, x: f.vmap(lambda a: a.sin().sum())(x), numpy.zeros((0, 3)))


def _written(a: Any) -> Any:
    y = a.clone()
    y[0] = y[1] * 2
    y.add_(1)
    y[1:] *= a[1:]
    return y


def _parameters(model: Any, arrays: tuple) -> dict:
    return {name: p for (name, _), p in zip(model.named_parameters(), arrays, strict=True)}


def _lenet(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 8), nn.Tanh(), nn.Linear(8, 3)
    ).double()  # fmt: skip


LENET = (normal(4, 1, 3, 3), normal(4), normal(6, 4, 3, 3), normal(6), normal(8, 96) / 9, normal(8), normal(3, 8), normal(3))


@add("gradients by sample of a convolutional network", normal(7, 1, 12, 12), rng.integers(0, 3, 7), *LENET)
def by_sample(t: Any, f: Any, data: Any, target: Any, *arrays: Any) -> Any:
    model = _lenet(t)

    def loss(params: dict, x: Any, y: Any) -> Any:
        return t.nn.functional.cross_entropy(f.functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    return f.vmap(f.grad(loss), in_dims=(None, 0, 0))(_parameters(model, arrays), data, target)


@add("an ensemble", normal(7, 1, 12, 12), *LENET)
def ensemble(t: Any, f: Any, data: Any, *arrays: Any) -> Any:
    models = [_lenet(t) for _ in range(3)]
    for i, model in enumerate(models):
        with t.no_grad():
            for p, a in zip(model.parameters(), arrays, strict=True):
                p.copy_(a * (i + 1) / 2)
    params, buffers = f.stack_module_state(models)
    found = f.vmap(lambda p, b, x: f.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, data)
    found.sin().sum().backward()
    return found, {name: p.grad for name, p in params.items()}


@add("neural tangent kernels", normal(3, 1, 12, 12), normal(2, 1, 12, 12), *LENET)
def kernels(t: Any, f: Any, x1: Any, x2: Any, *arrays: Any) -> Any:
    model = _lenet(t)
    params = _parameters(model, arrays)

    def single(params: dict, x: Any) -> Any:
        return f.functional_call(model, params, (x.unsqueeze(0),)).squeeze(0)

    one, two = ([j.flatten(2) for j in f.vmap(f.jacrev(single), (None, 0))(params, x).values()] for x in (x1, x2))
    contracted = sum(t.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(one, two, strict=True))

    def implicit(a: Any, b: Any) -> Any:
        _, pull = f.vjp(lambda p: single(p, a), params)
        return f.vmap(lambda v: f.jvp(lambda p: single(p, b), (params,), pull(v))[1])(t.eye(3, dtype=a.dtype))

    return contracted, f.vmap(f.vmap(implicit, (None, 0)), (0, None))(x1, x2)


@add("MAML", normal(4, 5, 2), normal(4, 5, 1), normal(2, 6), normal(6, 1))
def maml(t: Any, f: Any, x: Any, y: Any, w: Any, v: Any) -> Any:
    def loss(p: list, x: Any, y: Any) -> Any:
        return ((t.tanh(x @ p[0]) @ p[1] - y) ** 2).mean()

    def adapted(p: list, x: Any, y: Any) -> Any:
        return loss([a - 0.1 * d for a, d in zip(p, f.grad(loss)(p, x, y), strict=True)], x, y)

    return f.grad(lambda p: f.vmap(adapted, in_dims=(None, 0, 0))(p, x, y).mean())([w, v])


@add(
    "gradients by sample of a transformer layer",
    normal(3, 4, 8),
    *[normal(*s) / 3 for s in ((24, 8), (24,), (8, 8), (8,), (16, 8), (16,), (8, 16), (8,), (8,), (8,), (8,), (8,))],
)
def transformer(t: Any, f: Any, x: Any, *arrays: Any) -> Any:
    model = t.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double()
    loss = lambda p, x: f.functional_call(model, p, (x.unsqueeze(0),)).sin().sum()  # noqa: E731
    return f.vmap(f.grad(loss), (None, 0))(_parameters(model, arrays), x)


@add("gradients by sample of a recurrent cell", normal(6, 5, 3), normal(12, 3), normal(12, 4), normal(12), normal(12))
def recurrent(t: Any, f: Any, x: Any, *arrays: Any) -> Any:
    model = t.nn.GRUCell(3, 4).double()

    def run(p: dict, x: Any) -> Any:
        h = x.new_zeros(1, 4)
        for i in range(5):
            h = f.functional_call(model, p, (x[i].unsqueeze(0), h))
        return h.sum()

    return f.vmap(f.grad(run), (None, 0))({k: v for (k, _), v in zip(model.named_parameters(), arrays, strict=False)}, x)


@add("gradients by sample of a table", normal(5, 3), rng.integers(0, 5, (4, 2)))
def table(t: Any, f: Any, w: Any, index: Any) -> Any:
    return f.vmap(f.grad(lambda w, i: t.nn.functional.embedding(i, w).sin().sum()), (None, 0))(w, index)


@add("batch norm of the batch", normal(3, 4, 2, 5, 5))
def batch_norm(t: Any, f: Any, x: Any) -> Any:
    model = t.nn.Sequential(t.nn.Conv2d(2, 2, 1), t.nn.BatchNorm2d(2)).double()
    f.replace_all_batch_norm_modules_(model)
    with t.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    return f.vmap(model)(x)
