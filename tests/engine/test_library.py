"""`engine.library`: ops of a program's own, as PyTorch 2.13 runs them."""

from __future__ import annotations

import pytest

import engine
from engine.autograd import gradcheck
from engine.compat.library import custom_op, register_autograd, register_fake


def test_an_op_with_its_backward():
    @custom_op("house::cube", mutates_args=())
    def cube(x: engine.Tensor, scale: float = 1.0) -> engine.Tensor:
        return x**3 * scale

    register_fake("house::cube", lambda x, scale=1.0: engine.empty_like(x))
    register_autograd("house::cube", lambda ctx, g: (3 * ctx.saved_tensors[0] ** 2 * ctx.scale * g, None),
                      setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(inputs[0]), setattr(ctx, "scale", inputs[1])))  # fmt: skip
    x = engine.tensor([1.0, 2.0], dtype=engine.float64, requires_grad=True)
    assert gradcheck(lambda x: cube(x, scale=2.0), (x,)) and engine.ops.house.cube(x).tolist() == [1, 8]
    cube(x).sum().backward()
    assert x.grad.tolist() == [3, 12] and repr(cube) == "<CustomOpDef(house::cube)>"


def test_without_a_backward_and_with_changes():
    @custom_op("house::double_", mutates_args={"x"})
    def double_(x: engine.Tensor) -> None:
        x.mul_(2)

    x = engine.ones(2)
    assert double_(x) is None and x.tolist() == [2, 2]
    plain = custom_op("house::plain", lambda x: x * 2, mutates_args=())
    with pytest.raises(RuntimeError, match="no autograd formula"):
        plain(engine.ones(1, requires_grad=True)).backward()
    with pytest.raises(RuntimeError, match="non-functional"):
        double_.register_autograd(lambda ctx, g: g)
    with pytest.raises(ValueError, match="expected a name"):
        custom_op("nothing", lambda x: x, mutates_args=())
    with pytest.raises(RuntimeError, match="there is no op"):
        register_fake("house::none", lambda x: x)


def test_kernels_by_device():
    only = custom_op("house::only", lambda x: x + 1, mutates_args=(), device_types="cuda")
    with pytest.raises(NotImplementedError, match="no kernel for 'cpu'"):
        only(engine.ones(1))
    only.register_kernel("cpu")(lambda x: x + 2)
    assert only(engine.ones(1)).item() == 3
