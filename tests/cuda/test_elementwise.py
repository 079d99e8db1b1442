"""The call path of elementwise ops on a GPU: on the stand-in for CuPy, with the printed kernels emulated."""

from __future__ import annotations

import struct

import numpy
import pytest

import engine
from engine import nn
from engine.backends.gpu import layouts


@pytest.fixture
def launches(stand_in):
    """The names of the kernels launched so far."""
    from engine.backends.gpu import launch

    return launch.driver.launches


def both(run, *shapes, dtype=engine.float32):
    """The result and the gradients of a function on the CPU and on the GPU, from the same numbers."""
    engine.manual_seed(0)
    host = [engine.rand(shape).add(0.5).to(dtype).requires_grad_() for shape in shapes]
    found = []
    for place in ("cpu", "cuda"):
        xs = [x.detach().to(place).requires_grad_() for x in host]
        out = run(*xs)
        grads = engine.autograd.grad(out.sum(), xs, allow_unused=True)
        assert out.device.type == place and all(g is None or (g.device.type, g.dtype) == (place, dtype) for g in grads)
        found.append([out.detach().cpu(), *[g if g is None else g.cpu() for g in grads]])
    return found


def agree(run, *shapes, dtype=engine.float32):
    close = {engine.float32: 2e-6, engine.float64: 1e-12, engine.float16: 2e-3, engine.bfloat16: 2e-2}[dtype]
    for expected, got in zip(*both(run, *shapes, dtype=dtype), strict=True):
        assert (expected is None) == (got is None)
        if expected is not None:
            assert got.shape == expected.shape and got.stride() == expected.stride()
            assert numpy.allclose(got.double().numpy(), expected.double().numpy(), rtol=close, atol=close)


@pytest.mark.parametrize("dtype", [engine.float32, engine.float64, engine.float16, engine.bfloat16], ids=str)
def test_a_program_of_elementwise_ops(dtype, launches):
    agree(lambda x, y: (x * y + 2.0).tanh() * x - 3 / y, (5, 7), (7,), dtype=dtype)
    assert "mul_back_strided" in launches and "tanh_vector" in launches


def test_one_kernel_computes_the_gradients_of_both_operands(launches):
    x, y = (engine.rand(300, device="cuda").requires_grad_() for _ in "xy")
    out = x * y
    g = engine.ones(300, device="cuda")
    launches.clear()
    a, b = engine.autograd.grad(out, [x, y], g)
    assert launches == ["mul_back_vector"]
    assert a.tolist() == y.tolist() and b.tolist() == x.tolist()


def test_the_gradient_of_a_sum_needs_no_kernel(launches):
    x, y = (engine.rand(300, device="cuda").requires_grad_() for _ in "xy")
    out, g = x + y, engine.ones(300, device="cuda")
    launches.clear()
    a, b = engine.autograd.grad(out, [x, y], g)
    assert launches == [] and a.tolist() == b.tolist() == [1] * 300


def test_the_gradients_of_two_uses_are_added_by_a_kernel(launches):
    x, g = engine.rand(300, device="cuda").requires_grad_(), engine.ones(300, device="cuda")
    a, b = x.exp(), x.sin()
    launches.clear()
    (found,) = engine.autograd.grad([a, b], x, [g, g])
    assert launches.count("add_vector") == 1
    assert numpy.allclose(found.cpu().numpy(), numpy.exp(x.detach().cpu().numpy()) + numpy.cos(x.detach().cpu().numpy()), rtol=1e-6)


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "every second": lambda x: x[:, ::2],
    "backwards": lambda x: x.flip(0)[1:],
    "a row": lambda x: x[1],
    "from the second element": lambda x: x.reshape(-1)[1:],
    "expanded": lambda x: x[:1].expand(9, -1),
    "of one element": lambda x: x[0, 0],
    "of none": lambda x: x[:0],
    "of many dimensions": lambda x: x.reshape(2, 2, 1, 3, 4).permute(4, 0, 2, 3, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout, launches):
    agree(lambda x: LAYOUTS[layout](x).exp() * LAYOUTS[layout](x), (4, 12))


def test_orders_in_memory_follow_pytorch(launches):
    agree(lambda x, y: x.contiguous(memory_format=engine.channels_last) * y, (2, 3, 4, 5), (3, 1, 1))
    x, y = engine.rand(4, 6, device="cuda"), engine.rand(6, 4, device="cuda")
    assert (x.t() * y).stride() == (1, 6) and (y * x.t()).stride() == (4, 1)  # PyTorch's


def test_numbers_are_parameters_of_one_kernel(launches):
    x = engine.rand(40, device="cuda")
    kernels = {id(k) for k in (_kernel("mul", x, v) for v in (2.0, 3.5, -1.0))}
    assert len(kernels) == 1
    assert numpy.allclose((x * 3.5).cpu().numpy(), x.cpu().numpy() * 3.5)


def _kernel(name, x, number):
    from engine.backends.gpu import elementwise
    from engine.core.op import registry

    x * number
    return elementwise._launchers[registry[name], None, x.array.dtype, float]


@pytest.mark.parametrize("dtype", [engine.float32, engine.float16], ids=str)
def test_what_is_computed_of_numbers_alone_does_not_widen_the_result(dtype, launches):
    agree(lambda x, y: x.lerp(y, 0.3) + x.lerp(y, 0.7) + (0.5 * x).logit(0.1), (3, 5), (5,), dtype=dtype)


def test_a_number_on_which_the_code_depends_is_in_its_text(launches):
    agree(lambda x: x**2 + x**0.5 + x**1.7 + x**2, (3, 5))
    agree(lambda x: nn.functional.celu(x, 0.7) + nn.functional.celu(x - 1, 0.9), (3, 5))


def test_integers_and_bools(launches):
    x, y = engine.tensor([7, -7, 5], device="cuda"), engine.tensor([2, 2, -3], device="cuda")
    assert (x // y).tolist() == [3, -4, -2] and (x % y).tolist() == [1, 1, -1] and (x << 2).tolist() == [28, -28, 20]
    assert (x + 0.5).tolist() == [7.5, -6.5, 5.5] and ((x > y) & (y > 0)).tolist() == [True, False, False]
    assert engine.where(x > y, x, 0.5).tolist() == [7, 0.5, 5]


def test_shapes_that_do_not_broadcast_are_refused_as_on_the_cpu(launches):
    with pytest.raises(RuntimeError) as expected:
        engine.ones(3) + engine.ones(4)
    with pytest.raises(RuntimeError) as got:
        engine.ones(3, device="cuda") + engine.ones(4, device="cuda")
    assert str(got.value).replace(" on cuda:0", "").split(";")[0] == str(expected.value).split(";")[0]


def test_in_place_and_out(launches):
    x, y = engine.rand(5, 6, device="cuda"), engine.rand(6, device="cuda")
    expected = x.cpu().numpy() * y.cpu().numpy() + 1
    out = engine.empty(5, 6, device="cuda")
    engine.add(x * y, 1, out=out)
    assert numpy.allclose(out.cpu().numpy(), expected)
    x.mul_(y).add_(1)
    assert numpy.allclose(x.cpu().numpy(), expected)


def test_second_derivatives(launches):
    agree(lambda x: engine.autograd.grad((x.tanh() * x).sum(), x, create_graph=True)[0], (4, 3))


def test_a_kernel_that_does_not_compile_leaves_its_op_to_cupy(stand_in, monkeypatch):
    from engine.backends.gpu import launch

    def load(text, name, device):
        raise launch.CompileError("no such type")

    monkeypatch.setattr(launch.driver, "load", load)
    x = engine.tensor([1.0, 4.0], device="cuda")
    with pytest.warns(UserWarning, match="the op runs on CuPy, as its CUDA kernel sqrt does not compile: no such type"):
        assert x.sqrt().tolist() == [1, 2]
    assert x.sqrt().tolist() == [1, 2]  # without a second warning


def test_a_thread_without_a_context_is_given_one(stand_in, monkeypatch):
    from engine.backends.gpu import launch

    bound, run = [], launch.driver.launch
    monkeypatch.setattr(launch.driver, "bind", bound.append, raising=False)
    monkeypatch.setattr(launch.driver, "launch", lambda *arguments: run(*arguments) if bound else 201)
    assert engine.tensor([1.0, 4.0], device="cuda").sqrt().tolist() == [1, 2] and bound == [0]


def test_layouts_of_large_arrays_take_64_bits():
    """By arithmetic alone: no array is made."""
    f = numpy.dtype("float32")
    n = 1 << 16
    small, large = ((n // 4, n // 4), (2 * n, 4), f), ((n, n), (4, 4 * n), f)
    assert layouts.plan((small, small), 1).form == "strided"
    assert layouts.plan((large, large), 1).form == "vector"  # transposed, so dense in one order
    rows = ((n, n), (4 * n, 4), f)
    found = layouts.plan((large, rows), 1)
    assert found.form == "far"
    size, dims, *numbers = struct.unpack("=qi4x32q", found.layout)
    assert (size, dims, numbers[:2]) == (n * n, 2, [n, n])
    assert numbers[8:14] == [1, n, 1, n, 1, n]
