"""Where mathematics leaves a choice, or PyTorch has a habit: ties, padding rows, empty batches. Literals are PyTorch's."""

from __future__ import annotations

import pytest

import engine
from engine import Tensor
from engine.core.op import functions
from grouping import grouped

F = {name.removeprefix("nn.functional."): f for name, f in functions.items() if name.startswith("nn.functional.")}


def leaf(values):
    return engine.tensor(values, dtype=engine.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x.amax(), [0.5, 0.5, 0.0]), (lambda x: x.max(), [0.5, 0.5, 0.0]), (lambda x: x.max(0).values, [1.0, 0.0, 0.0]),
        (lambda x: engine.maximum(x, x.detach()).sum(), [0.5, 0.5, 0.5]), (lambda x: x.clamp(1.0, 3.0).sum(), [1.0, 1.0, 1.0]),
        (lambda x: x.median(), [0.5, 0.5, 0.0]), (lambda x: x.sort(stable=True).values[1], [1.0, 0.0, 0.0]),
        (lambda x: x.cummax(0).values.sum(), [1.0, 2.0, 0.0]), (lambda x: (x - 3).relu().sum(), [0.0, 0.0, 0.0]),
        (lambda x: (x - 3).abs().sum(), [0.0, 0.0, -1.0]),
    ],
)  # fmt: skip
def test_ties(f, expected):
    x = leaf([3.0, 3.0, 1.0])
    f(x).backward()
    assert x.grad.tolist() == expected


def test_extremes_that_are_scattered_share_their_gradient():
    x, src = leaf([1.0, 2.0, 2.0]), leaf([1.0, 2.0, 1.0, 1.0, 2.0])
    x.scatter_reduce(0, engine.tensor([0, 1, 2, 1, 2]), src, "amax").sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.5] and src.grad.tolist() == [0.5, 0.5, 0.0, 0.0, 0.5]


def test_embedding_leaves_out_the_padding_row():
    w = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    F["embedding"](engine.tensor([0, 2, 2, 1]), w, padding_idx=1).sum().backward()
    assert w.grad.tolist() == [[1, 1], [0, 0], [2, 2]]
    w.grad = None
    F["embedding"](engine.tensor([0, 2, 2, 1]), w, scale_grad_by_freq=True).sum().backward()
    assert w.grad.tolist() == [[1, 1], [1, 1], [1, 1]]


CONVOLUTIONS = {
    "conv1d": ((0, 3, 8), (4, 3, 3), (0, 4, 6)), "conv2d": ((0, 3, 5, 6), (4, 3, 3, 2), (0, 4, 3, 5)),
    "conv3d": ((0, 2, 4, 5, 3), (3, 2, 2, 3, 2), (0, 3, 3, 3, 2)),
    "conv_transpose1d": ((0, 3, 5), (3, 4, 3), (0, 4, 7)), "conv_transpose2d": ((0, 3, 4, 3), (3, 4, 3, 2), (0, 4, 6, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_an_empty_batch(name):
    size, kernel, expected = CONVOLUTIONS[name]
    x, w = engine.zeros(*size, requires_grad=True), engine.ones(*kernel, requires_grad=True)
    out = F[name](x, w)
    assert tuple(out.shape) == expected
    out.sum().backward()
    assert x.grad.shape == x.shape and w.grad.shape == w.shape and w.grad.sum().item() == 0


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d"])
def test_a_kernel_larger_than_its_input_is_refused(name):
    size, kernel, _ = CONVOLUTIONS[name]
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F[name](engine.zeros(1, size[1], *[1] * (len(size) - 2)), engine.ones(*kernel))


def test_reductions_of_nothing():
    x = engine.zeros(0, 3)
    assert x.sum().item() == 0 and x.prod().item() == 1 and x.sum(0).tolist() == [0, 0, 0]
    assert x.mean().isnan().item() and x.any().item() is False and x.all().item() is True
    with pytest.raises((RuntimeError, IndexError)):
        x.max()
    with pytest.raises((RuntimeError, IndexError)):
        x.argmax()


def test_results_of_0_d_tensors_are_tensors():
    x = leaf(2.0)
    for f in (
        lambda: x * x,
        lambda: x.sum(),
        lambda: x.max(),
        lambda: x[None][0],
        lambda: x.reshape(()),
        lambda: x.softmax(0),
        lambda: x.exp(),
    ):
        out = f()
        assert isinstance(out, Tensor) and out.array.shape == () and type(out.array).__name__ == "ndarray"


@grouped(
    "call",
    [
        "nansum(x, {}=0, {}=True)", "nanmean(x, {}=1)", "aminmax(x, {}=0, {}=True)", "median(x, {}=0, {}=True)", "nanmedian(x, {}=1)",
        "quantile(x, 0.5, {}=0, {}=True)", "nanquantile(x, 0.5, {}=0)", "diff(x, {}=0)", "trapezoid(x, {}=0)", "gradient(x, {}=0)[0]",
        "argsort(x, {}=0)", "chunk(x, 2, {}=1)", "tensor_split(x, 2, {}=1)", "unbind(x, {}=1)", "select(x, {}=1, index=0)",
        "narrow(x, {}=1, start=0, length=1)", "repeat_interleave(x, 2, {}=1)", "take_along_dim(x, i, {}=0)", "index_fill(x, {}=1, index=i[0], value=1.0)",
        "renorm(x, 2, {}=0, maxnorm=1)", "cosine_similarity(x, x, {}=0)", "linalg.norm(x, {}=0, {}=True)", "linalg.vecdot(x, x, {}=0)",
        "linalg.cross(x, x, {}=1)", "linalg.matrix_norm(x, {}=(1, 0), {}=True)", "fft.fft(x, {}=0)", "fft.irfft(x, {}=0)",
        "fft.fft2(x, {}=(1, 0))", "fft.fftshift(x, {}=0)", "scatter(x, {}=0, index=i, value=1.0)", "unflatten(x, {}=1, sizes=(1, 3))",
    ],
)  # fmt: skip
def test_functions_made_of_ops_take_numpys_names_of_arguments_too(call):
    names = {"x": engine.tensor([[1.0, 5.0, 2.0], [4.0, -3.0, 6.5]]), "i": engine.tensor([[0, 1, 0]])}
    own, numpys = (
        eval(f"engine.{call.format(*words)}", {"engine": engine, **names}) for words in (("dim", "keepdim"), ("axis", "keepdims"))
    )
    for one, other in zip(own if isinstance(own, tuple) else (own,), numpys if isinstance(numpys, tuple) else (numpys,), strict=True):
        assert engine.equal(one, other)
    with pytest.raises(TypeError, match="two names|multiple values"):
        eval(f"engine.{call.format('dim', 'keepdim').replace('dim=', 'axis=0, dim=', 1)}", {"engine": engine, **names})


@pytest.mark.parametrize("call", ["norm(x, axis=0)", "split(x, 2, axis=0)", "nn.functional.normalize(x, axis=0)", "unique(x, axis=0)"])
def test_those_that_pytorch_writes_in_python_do_not(call):
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        eval(f"engine.{call}", {"engine": engine, "x": engine.ones(2, 2)})
