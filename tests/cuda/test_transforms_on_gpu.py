"""Functions of functions on the stand-in for CuPy: derivatives, Jacobians and maps are on the GPU, and equal to the CPU's."""

from __future__ import annotations

import pytest

import engine
from engine import func
from engine.autograd import functional, gradcheck, gradgradcheck


def model(device):
    engine.manual_seed(0)
    layers = engine.nn.Sequential(engine.nn.Linear(4, 5), engine.nn.Tanh(), engine.nn.LayerNorm(5), engine.nn.Linear(5, 3)).to(device)
    return layers, engine.linspace(-1, 1, 8).reshape(2, 4).to(device)


def loss(layers):
    return lambda x: layers(x).square().sum()


CALLS = {
    "grad": lambda m, x: func.grad(loss(m))(x),
    "vmap": lambda m, x: func.vmap(m)(x),
    "vmap of grad": lambda m, x: func.vmap(func.grad(loss(m)))(x),
    "jacrev": lambda m, x: func.jacrev(m)(x[0]),
    "jacfwd": lambda m, x: func.jacfwd(m)(x[0]),
    "hessian": lambda m, x: func.hessian(loss(m))(x[0]),
    "vmap of jacfwd of grad": lambda m, x: func.vmap(func.jacfwd(func.grad(loss(m))))(x),
    "jvp": lambda m, x: func.jvp(m, (x,), (x.cos(),)),
    "vjp": lambda m, x: func.vjp(m, x)[1](m(x)),
    "linearize": lambda m, x: func.linearize(m, x)[1](x.cos()),
    "of each parameter": lambda m, x: [*func.grad(lambda p: func.functional_call(m, p, x).sum())(dict(m.named_parameters())).values()],
    "of each sample": lambda m, x: [
        *func.vmap(func.grad(lambda p, x: func.functional_call(m, p, x).sum()), (None, 0))(dict(m.named_parameters()), x).values()
    ],
    "functional.jacobian": lambda m, x: functional.jacobian(m, x, vectorize=True),
    "functional.hessian": lambda m, x: functional.hessian(loss(m), x),
    "functional.hvp": lambda m, x: functional.hvp(loss(m), x, x.cos()),
    "functional.vhp": lambda m, x: functional.vhp(loss(m), x, x.cos()),
    "forward mode": lambda m, x: functional.jvp(m, x, x.cos()),
}


def flat(found):
    return [found] if isinstance(found, engine.Tensor) else [t for one in found for t in flat(one)]


@pytest.mark.parametrize("name", CALLS)
def test_on_the_gpu_it_is_what_it_is_on_the_cpu(stand_in, name):
    found, expected = (flat(CALLS[name](*model(device))) for device in ("cuda", "cpu"))
    assert len(found) == len(expected) > 0 and all(t.is_cuda for t in found)
    engine.testing.assert_close([t.cpu() for t in found], expected)


def test_gradcheck(stand_in):
    x = engine.linspace(-1, 1, 6, dtype=engine.float64, device="cuda", requires_grad=True)
    fn = lambda x: (x.sin() * x.exp()).cumsum(0)  # noqa: E731
    assert gradcheck(fn, x, check_forward_ad=True) and gradgradcheck(fn, x)
