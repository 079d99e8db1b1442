"""The pictures to keep: what is drawn are the numbers that NumPy and PyTorch have, on the given Axes, without a display."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import matplotlib
import numpy
import pytest
from matplotlib import pyplot
from matplotlib.collections import QuadMesh

import engine
import workbench as wb
from engine import nn, optim
from engine.nn import functional as F
from workbench import plot
from workbench.plot import curves, distributions, style
from workbench.training.curve import Curve
from workbench.training.table import COLUMNS, Histograms


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    """Pictures are made without a window, nobody shows them, and each can be drawn."""
    monkeypatch.setattr(pyplot, "show", lambda *a, **k: pytest.fail("plt.show was called"))
    before = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    pyplot.close("all")
    pyplot.switch_backend(before)


@pytest.fixture(scope="module")
def trained():
    """A small model, its history, and a function for its loss."""
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    x, y = engine.randn(40, 3), engine.randint(0, 2, (40,))
    with wb.history(model, optimizer) as h:
        for i in range(12):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            h.log(loss=loss, accuracy=i / 12)
    return model, h, lambda: F.cross_entropy(model(x), y)


def labels(ax) -> list[str]:
    return [label.get_text() for label in ax.get_xticklabels()]


def line(ax, label: str):
    return next(one for one in ax.lines if one.get_label() == label)


@pytest.mark.slow
def test_importing_the_workbench_or_its_pictures_imports_no_matplotlib():
    code = "import sys, workbench; light = set(sys.modules); workbench.plot.tensor; print(*sorted({'matplotlib', 'tqdm', 'numpy', 'engine'} & light), '|', 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "| False"


@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_takes_ax_and_returns_it(name, trained):
    model, h, loss = trained
    calls = {
        "gradient_flow": (h,), "histograms": (h, "0.weight"), "tensor": (numpy.eye(3),), "images": (numpy.zeros((2, 4, 4)),),
        "loss_surface": (plot.landscape(model, loss, points=3),), "learning_curves": (h,), "update_ratio": (h,),
    }  # fmt: skip
    if name in ("Landscape", "landscape", "random_directions"):
        return  # they compute what loss_surface draws
    draw = getattr(plot, name)
    figure, ax = pyplot.subplots()
    assert draw(*calls[name], ax=ax) is ax and figure.axes[0] is ax
    made = draw(*calls[name])
    assert isinstance(made, matplotlib.axes.Axes) and made.figure is not figure
    with pytest.raises(TypeError, match="ax is the matplotlib Axes to draw on, got Figure"):
        draw(*calls[name], ax=figure)


def test_letters_of_a_new_figure_can_be_read_on_a_slide_and_a_given_ax_keeps_its_own(trained):
    new = plot.learning_curves(trained[1])
    assert new.title.get_fontsize() >= 14 and new.xaxis.label.get_fontsize() >= 12 and style.tick_size(new) >= 12
    _, ax = pyplot.subplots()
    size = ax.xaxis.label.get_fontsize()
    assert plot.learning_curves(trained[1], ax=ax).xaxis.label.get_fontsize() == size


# -- gradient flow -----------------------------------------------------------------------------------------------------------------


def test_gradient_flow_shows_mean_and_max_of_each_gradient_in_depth_order(trained):
    model, h, loss = trained
    model.zero_grad()
    loss().backward()
    ax = plot.gradient_flow(model)
    assert labels(ax) == ["0.weight", "0.bias", "2.weight", "2.bias"] and ax.get_yscale() == "log"
    grads = [numpy.abs(p.grad.array) for p in model.parameters()]
    numpy.testing.assert_allclose(line(ax, "mean |grad|").get_ydata(), [g.mean(dtype="f8") for g in grads], rtol=1e-6)
    numpy.testing.assert_allclose(line(ax, "max |grad|").get_ydata(), [g.max() for g in grads], rtol=1e-6)
    assert labels(plot.gradient_flow(model, biases=False)) == ["0.weight", "2.weight"]
    from_history = plot.gradient_flow(h, step=3)
    numpy.testing.assert_allclose(line(from_history, "max |grad|").get_ydata(), [p.grad.absmax[3] for p in h.parameters.values()])
    assert "step 3" in from_history.get_title()


@pytest.mark.torch
def test_the_gradients_drawn_are_pytorchs(trained):
    import torch

    model, _, _ = trained
    other = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    other.load_state_dict({n: torch.tensor(p.array.copy()) for n, p in model.state_dict().items()})
    x, y = numpy.random.default_rng(1).normal(size=(9, 3)).astype("f4"), numpy.arange(9) % 2
    model.zero_grad()
    F.cross_entropy(model(engine.tensor(x)), engine.tensor(y)).backward()
    torch.nn.functional.cross_entropy(other(torch.tensor(x)), torch.tensor(y)).backward()
    drawn = line(plot.gradient_flow(model), "mean |grad|").get_ydata()
    numpy.testing.assert_allclose(drawn, [p.grad.abs().mean().item() for p in other.parameters()], rtol=1e-4)


def test_gradient_flow_marks_what_is_wrong():
    grads = {
        "fine": numpy.ones((2, 2)), "tiny": numpy.full(2, 1e-9), "huge": numpy.full(2, 1e6), "none": None, "zero": numpy.zeros(2),
        "nan": engine.tensor([1.0, float("nan")]), "inf": numpy.array([1.0, -numpy.inf]),
    }  # fmt: skip
    ax = plot.gradient_flow(grads)
    texts = {t.get_text().strip() for t in ax.texts}
    assert {"vanishing, < 1e-07", "exploding, > 10000", "✕ no gradient", "✕ all zero", "✕ NaN", "✕ Inf"} <= texts
    assert numpy.isnan(line(ax, "max |grad|").get_ydata()).tolist() == [False, False, False, True, True, False, False]
    fine = plot.gradient_flow({"fine": numpy.ones(3)})
    assert not any("vanishing" in t.get_text() or "exploding" in t.get_text() for t in fine.texts)


def test_gradient_flow_of_what_has_no_gradient_is_refused(trained):
    with pytest.raises(ValueError, match="no parameter has a gradient. Call backward\\(\\) first"):
        plot.gradient_flow(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="there is no parameter to draw"):
        plot.gradient_flow(nn.Tanh())
    with pytest.raises(TypeError, match="takes a module, a history or a dict of gradients, got int"):
        plot.gradient_flow(3)
    with pytest.raises(ValueError, match="only a history has steps"):
        plot.gradient_flow(trained[0], step=1)


# -- distributions -----------------------------------------------------------------------------------------------------------------


def test_histograms_are_spread_over_common_bins_in_proportion():
    rng = numpy.random.default_rng(0)
    samples = [rng.uniform(-1, 1, 200_000), rng.uniform(-4, 4, 200_000)]
    low, high = (numpy.array([end(x) for x in samples]) for end in (numpy.min, numpy.max))
    counts = numpy.array([numpy.histogram(x, 64)[0] for x in samples], numpy.uint32)
    empty = numpy.zeros((1, 64), numpy.uint32)
    h = Histograms(numpy.append(low, numpy.nan), numpy.append(high, numpy.nan), numpy.concatenate([counts, empty]))
    edges, shares = distributions.spread(h, 50)
    assert edges[0] == low.min() and edges[-1] == high.max() and shares[2].sum() == 0
    for x, share in zip(samples, shares, strict=False):
        wanted, _ = numpy.histogram(x, edges)
        numpy.testing.assert_allclose(share, wanted / x.size, atol=6e-3)
        assert share.sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_heat_of_histograms_has_a_column_per_step(trained):
    _, h, _ = trained
    for name, of in (("0.weight", "weight"), ("0.weight", "grad"), ("2.bias", "update"), ("1", "activation")):
        ax = plot.histograms(h, name, of=of, bins=20)
        (mesh,) = [c for c in ax.collections if isinstance(c, QuadMesh)]
        drawn = numpy.asarray(mesh.get_array()).reshape(20, 12)
        entry = getattr(h[name], of)
        _, shares = distributions.spread(entry.histogram, 20)
        numpy.testing.assert_allclose(drawn**2, shares.T, atol=1e-12)
        low, high = ax.get_ylim()
        assert (low, high) == (entry.min.min(), entry.max.max())
    ridge = plot.histograms(h, "1", kind="ridge")
    assert len(ridge.lines) == 12 and "activations" in ridge.get_title()
    assert "Sequential" in plot.histograms(h, "").get_title()


def test_histograms_that_do_not_exist_are_refused(trained):
    _, h, _ = trained
    with pytest.raises(ValueError, match="of '1' there is activation; got of='grad'"):
        plot.histograms(h, "1", of="grad")
    with pytest.raises(ValueError, match='kind is "heat" or "ridge", got \'3d\''):
        plot.histograms(h, "1", kind="3d")
    with pytest.raises(ValueError, match="bins is an integer"):
        plot.histograms(h, "1", bins=0)
    with pytest.raises(TypeError, match="wb.plot.histograms takes a history"):
        plot.histograms(nn.Tanh(), "1")
    model = nn.Linear(2, 2)
    with wb.history(model) as empty, pytest.raises(ValueError, match="no kept step has a weight of 'weight'"):
        plot.histograms(empty, "weight")


# -- tensors and images ------------------------------------------------------------------------------------------------------------


def test_a_tensor_is_drawn_around_zero_with_marks():
    x = numpy.array([[1.0, -3.0, numpy.nan], [numpy.inf, -numpy.inf, 0.5]], numpy.float32)
    ax = plot.tensor(engine.tensor(x))
    (image,) = ax.images
    assert image.get_clim() == (-3, 3) and image.get_cmap().name == style.DIVERGING
    assert numpy.ma.getmaskarray(image.get_array()).tolist() == [[False, False, True], [True, True, False]]
    assert ax.get_title().splitlines() == ["float32 2×3", "✕ NaN in 1 cell, ▲ +Inf in 1 cell, ▼ −Inf in 1 cell"]
    assert sorted(t.get_text() for t in ax.texts) == ["0.5", "1", "−3"]
    marks = [tuple(c.get_offsets()[0]) for c in ax.collections[1::2]]
    assert marks == [(2, 0), (0, 1), (1, 1)]


@pytest.mark.torch
def test_a_tensor_of_pytorch_is_drawn_too():
    import torch

    x = torch.tensor([[1.0, -2.0]], requires_grad=True)
    assert numpy.asarray(plot.tensor(x).images[0].get_array()).tolist() == [[1, -2]]
    assert line(plot.gradient_flow({"w": torch.tensor([3.0, -1.0])}), "mean |grad|").get_ydata().tolist() == [2]


def test_a_large_tensor_is_pooled_and_loses_no_nan():
    x = numpy.random.default_rng(0).normal(size=(640, 320)).astype("f4") + 1
    x[600, 300] = numpy.nan
    ax = plot.tensor(x)
    drawn = ax.images[0].get_array()
    assert max(drawn.shape) <= 128 and "NaN in 1 cell" in ax.get_title() and "mean of a block" in ax.get_xlabel()
    rows, cols = -(-640 // drawn.shape[0]), -(-320 // drawn.shape[1])
    assert drawn[1, 2] == pytest.approx(x[rows : 2 * rows, 2 * cols : 3 * cols].mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("x", "index", "shape"),
    [(numpy.float32(3), (), (1, 1)), ([1, 2, 3], (), (1, 3)), (numpy.zeros((2, 3, 4, 5)), (1, -1), (4, 5)), (numpy.zeros((2, 3, 4)), 1, (3, 4)), ([[True], [False]], (), (2, 1)),
     (numpy.array([[3 + 4j]]), (), (1, 1)), (engine.zeros(3).to(engine.bfloat16), (), (1, 3))],
)  # fmt: skip
def test_tensors_of_any_number_of_dimensions(x, index, shape):
    assert plot.tensor(x, index).images[0].get_array().shape == shape


def test_a_tensor_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3, 4\) needs an index of 1 numbers for the axes before the last two, got \(\)"):
        plot.tensor(numpy.zeros((2, 3, 4)))
    with pytest.raises(IndexError, match="index 2 is out of range for axis 0 of size 2"):
        plot.tensor(numpy.zeros((2, 3, 4)), (2,))
    with pytest.raises(ValueError, match=r"a tensor of shape \(0, 3\) has no elements"):
        plot.tensor(numpy.zeros((0, 3)))
    with pytest.raises(TypeError, match="wb.plot.tensor takes a tensor, an array or nested lists of numbers, got str"):
        plot.tensor("text")


def said(ax) -> str:
    return ax.get_xlabel().replace("\n", " ")


def shown(ax) -> list[numpy.ndarray]:
    return [numpy.asarray(image.get_array()) for image in ax.images]


def test_value_ranges_of_images():
    bytes_ = numpy.array([[[0, 255], [51, 102]]], numpy.uint8)
    ax = plot.images(bytes_)
    numpy.testing.assert_allclose(shown(ax)[0][..., 0], [[0, 1], [0.2, 0.4]])
    assert "values 0 to 255" in said(ax) and "1 image, NHW, uint8" in said(ax)
    half = plot.images(numpy.full((1, 2, 2), 0.25))  # already within 0 to 1: not stretched
    assert (shown(half)[0] == 0.25).all() and "values 0 to 1" in said(half)
    wide = numpy.array([[[-1.0, 0.0]], [[1.0, 3.0]]])
    ax = plot.images(wide)
    numpy.testing.assert_allclose([one[0, :, 1] for one in shown(ax)], [[0, 0.25], [0.5, 1]])
    assert "stretched from -1 to 3" in said(ax)
    numpy.testing.assert_allclose([one[0, :, 2] for one in shown(plot.images(wide, value_range="each"))], [[0, 1], [0, 1]])
    numpy.testing.assert_allclose([one[0, :, 0] for one in shown(plot.images(wide, value_range=(0, 2)))], [[0, 0], [0.5, 1]])


@pytest.mark.slow
def test_orders_of_channels():
    rng = numpy.random.default_rng(0)
    batch = rng.random((5, 3, 4, 6))
    for ax, order in ((plot.images(engine.tensor(batch)), "NCHW"), (plot.images(batch.transpose(0, 2, 3, 1), channels="last"), "NHWC")):
        assert order in said(ax) and len(ax.images) == 5
        numpy.testing.assert_allclose(shown(ax)[3], batch[3].transpose(1, 2, 0))
    assert "CHW" in said(plot.images(batch[0])) and "HWC" in said(plot.images(batch[0].transpose(1, 2, 0), channels="last"))
    assert "HW" in said(plot.images(batch[0, 0]))
    transparent = numpy.dstack([numpy.ones((2, 2, 3)), numpy.full((2, 2), 0.5)])
    assert shown(plot.images(transparent, channels="last"))[0][0, 0, 3] == 0.5


def test_a_grid_has_titles_at_most_64_images_and_marks_what_is_not_finite():
    batch = numpy.random.default_rng(0).random((70, 4, 4))
    batch[2, 1, 1] = numpy.nan
    ax = plot.images(batch, columns=10, titles=engine.arange(70))
    assert len(ax.images) == 64 and "64 of 70" in said(ax) and "1 value is not finite (magenta)" in said(ax)
    assert [t.get_text() for t in ax.texts][:3] == ["0", "1", "2"]
    assert shown(ax)[2][1, 1].tolist() == [0.8, 0.0, 0.8]
    boxes = [image.get_extent() for image in ax.images]
    assert boxes[0][0] == boxes[10][0] and boxes[10][3] > boxes[0][3]  # the eleventh stands below the first


def test_images_that_cannot_be_drawn_are_refused():
    with pytest.raises(ValueError, match=r'shape \(8, 5, 5, 3\) has 5 channels; 1, 3 or 4 are drawn. It looks like channels="last"'):
        plot.images(numpy.zeros((8, 5, 5, 3)))
    with pytest.raises(ValueError, match="has 16 channels.*Of feature maps draw one"):
        plot.images(numpy.zeros((8, 16, 5, 5)))
    with pytest.raises(ValueError, match=r"takes 2 to 4 dimensions, got shape \(3,\)"):
        plot.images([1, 2, 3])
    with pytest.raises(ValueError, match="2 images, but 1 titles"):
        plot.images(numpy.zeros((2, 4, 4)), titles=["a"])
    with pytest.raises(ValueError, match="with low < high"):
        plot.images(numpy.zeros((2, 4, 4)), value_range=(1, 0))
    with pytest.raises(ValueError, match="value_range is a pair"):
        plot.images(numpy.zeros((2, 4, 4)), value_range="all")
    with pytest.raises(ValueError, match="has no pixels to draw"):
        plot.images(numpy.zeros((0, 4, 4)))
    with pytest.raises(ValueError, match="columns is an integer, 1 or more; got -1"):
        plot.images(numpy.zeros((2, 4, 4)), columns=-1)
    with pytest.raises(TypeError, match="complex values cannot be drawn"):
        plot.images(numpy.zeros((4, 4), complex))


# -- the loss surface --------------------------------------------------------------------------------------------------------------


class Noisy(nn.Module):
    """With everything that a forward changes: batch statistics, random numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop, self.last = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x)).tanh()))


def test_random_directions_have_the_norms_of_the_filters():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(3, 4), nn.BatchNorm1d(4))
    first, second = plot.random_directions(model, seed=5)
    for name, p in model.named_parameters():
        if p.ndim < 2:
            assert not first[name].any() and not second[name].any()
        else:
            for i in range(p.shape[0]):
                wanted = numpy.linalg.norm(p.array[i].astype("f8"))
                assert numpy.linalg.norm(first[name][i]) == pytest.approx(wanted, rel=1e-6)
                assert numpy.linalg.norm(second[name][i]) == pytest.approx(wanted, rel=1e-6)
            assert not numpy.allclose(first[name], second[name])
    again, _ = plot.random_directions(model, seed=5)
    assert all((again[name] == first[name]).all() for name in first)


def test_the_surface_of_a_quadratic_is_the_quadratic():
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = engine.tensor([[1.0, -2.0]])
    scale = numpy.array([3.0, 0.5])
    directions = ({"weight": numpy.array([[1.0, 0.0]])}, {"weight": engine.tensor([[0.0, 2.0]])})
    land = plot.landscape(model, lambda: (model.weight**2 * engine.tensor(scale)).sum(), directions, span=2.0, points=5)
    a, b = numpy.meshgrid(numpy.linspace(-2, 2, 5), numpy.linspace(-2, 2, 5))
    numpy.testing.assert_allclose(land.loss, 3 * (1 + a) ** 2 + 0.5 * (-2 + 2 * b) ** 2, rtol=1e-6, atol=1e-6)
    assert land.here == pytest.approx(5.0) and land.words == "given directions"
    ax = plot.loss_surface(land)
    assert ax.get_title() == "Loss surface" and ax.get_xlim() == (-2, 2)
    solid = plot.loss_surface(land, kind="3d")
    assert solid.name == "3d"
    with pytest.raises(ValueError, match="log=True needs a loss above 0, and the least is 0"):
        plot.loss_surface(land, log=True)


@pytest.mark.parametrize("fails", [None, ValueError, KeyboardInterrupt])
def test_everything_is_put_back_exactly(fails):
    engine.manual_seed(3)
    model = Noisy()
    x = engine.randn(8, 3)
    open_graph = model(x).sum()
    before = {n: (t, t.array, t.array.tobytes()) for n, t in (*model.named_parameters(), *model.named_buffers())}
    state = engine.get_rng_state().array.tobytes()
    calls = []

    def loss():
        calls.append(1)
        if fails is not None and len(calls) == 7:
            raise fails
        return (model(x) ** 2).mean()

    if fails is None:
        land = plot.landscape(model, loss, points=3)
        assert len(calls) == 10 and land.loss[1, 1] == land.here  # the middle is the model itself, with the same dropout
    else:
        with pytest.raises(fails):
            plot.landscape(model, loss, points=3)
    for name, now in (*model.named_parameters(), *model.named_buffers()):
        tensor, array, content = before[name]
        assert now is tensor and now.array is array and array.tobytes() == content, name
    assert engine.get_rng_state().array.tobytes() == state
    assert all(p.grad is None for p in model.parameters())
    open_graph.backward()  # what was computed before is still valid


def test_a_surface_of_complex_and_half_precision_parameters():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.wave = nn.Parameter(engine.tensor(numpy.array([[3 + 4j, 1j], [1.0, 2 - 1j]])))
            self.coarse = nn.Parameter(engine.tensor([[1.0, -2.0]]).to(engine.bfloat16))

    model = Odd()
    before = [p.array.tobytes() for p in model.parameters()]
    wave, coarse = numpy.array([[1j, 0], [0, 0]]), numpy.array([[0.5, 0]])

    def loss():
        return (model.wave.abs() ** 2).sum() + (model.coarse.float() ** 2).sum()

    land = plot.landscape(model, loss, ({"wave": wave}, {"coarse": coarse}), points=3)
    wanted = [[9 + (4 + a) ** 2 + 1 + 1 + 5 + (1 + 0.5 * b) ** 2 + 4 for a in (-1, 0, 1)] for b in (-1, 0, 1)]
    numpy.testing.assert_allclose(land.loss, wanted, rtol=1e-6)
    assert [p.array.tobytes() for p in model.parameters()] == before
    first, _ = plot.random_directions(model)
    assert numpy.linalg.norm(first["wave"][0]) == pytest.approx(numpy.sqrt(26)) and numpy.abs(first["wave"].imag).min() > 0
    with pytest.raises(TypeError, match="coarse is real, but its direction is complex"):
        plot.landscape(model, loss, ({"coarse": coarse + 1j}, {}))


def test_places_without_a_finite_loss_stay_empty():
    model = nn.Linear(1, 1, bias=False)
    model.weight.data = engine.tensor([[0.5]])
    land = plot.landscape(model, lambda: model.weight.log().sum() + 20, ({"weight": [[1.0]]}, {}), points=5)
    assert numpy.isnan(land.loss).any() and numpy.isfinite(land.loss).any()
    bad = int((~numpy.isfinite(land.loss)).sum())
    assert plot.loss_surface(land).get_title() == f"Loss surface ({bad} of 25 places not finite)"
    model.weight.data = engine.tensor([[-50.0]])
    with pytest.raises(ValueError, match="the loss is not finite at any place"):
        plot.loss_surface(model, lambda: model.weight.log().sum(), span=0.5, points=3)


def test_a_surface_that_cannot_be_computed_is_refused(trained):
    model, _, loss = trained
    shape = {"0.weight": numpy.zeros((2, 2))}
    for error, words, given in (
        (ValueError, "0.weight has shape \\(6, 3\\), but its direction has shape \\(2, 2\\)", {"directions": (shape, {})}),
        (ValueError, "no parameter named 'wieght'; it has 0.weight", {"directions": ({"wieght": 1}, {})}),
        (TypeError, "directions are two dicts", {"directions": ({},)}),
        (ValueError, "points is an integer, 3 or more", {"points": 2}),
        (ValueError, "span is larger than 0", {"span": 0}),
    ):
        with pytest.raises(error, match=words):
            plot.landscape(model, loss, **given)
    with pytest.raises(TypeError, match="loss is a function without arguments that computes the loss, got Tensor"):
        plot.landscape(model, loss())
    with pytest.raises(ValueError, match=r"one number per name, but the loss has shape \(2,\)"):
        plot.landscape(model, lambda: engine.ones(2))
    with pytest.raises(TypeError, match="takes an engine.nn.Module, got int"):
        plot.landscape(3, loss)
    with pytest.raises(TypeError, match="with a module it takes loss"):
        plot.loss_surface(model)
    _, flat = pyplot.subplots()
    with pytest.raises(ValueError, match='kind="3d" needs Axes made with projection="3d"'):
        plot.loss_surface(model, loss, kind="3d", ax=flat)
    with pytest.raises(ValueError, match='kind is "contour" or "3d"'):
        plot.loss_surface(model, loss, kind="2d")


# -- curves ------------------------------------------------------------------------------------------------------------------------


def test_learning_curves_draw_what_was_logged(trained):
    _, h, _ = trained
    ax = plot.learning_curves(h, right=["accuracy"])
    loss = next(one for one in ax.lines if one.get_label() == "loss")
    numpy.testing.assert_array_equal(loss.get_ydata(), h.scalars["loss"].values)
    (other,) = [one for one in ax.figure.axes if one is not ax]
    assert [one.get_label() for one in other.lines] == ["accuracy (right)"] and other.get_ylabel() == "accuracy"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["loss", "accuracy (right)"]


@pytest.mark.parametrize(
    "source",
    [[3.0, 2.0, 1.0], {"loss": numpy.array([3, 2, 1])}, {"loss": ([0, 1, 2], [3, 2, 1])}, {"loss": engine.tensor([3.0, 2.0, 1.0])}],
)
def test_learning_curves_from_lists(source):
    (drawn,) = plot.learning_curves(source).lines
    assert list(drawn.get_ydata()) == [3, 2, 1] and list(drawn.get_xdata()) == [0, 1, 2]


def test_learning_curves_from_a_track(capsys):
    for i in (t := wb.progress(range(4))):
        t.report(loss=i)
    assert list(plot.learning_curves(t).lines[0].get_ydata()) == [0, 1, 2, 3]


def test_smoothing_is_the_average_that_its_legend_says():
    x = numpy.random.default_rng(0).normal(size=30)
    weights = 0.8 ** numpy.arange(30)[::-1]  # m_t / (1 - w^t) = sum of w^(t-i) x_i / sum of w^(t-i)
    assert curves.smoothed(x, 0.8)[-1] == pytest.approx((weights * x).sum() / weights.sum())
    with_gap = x.copy()
    with_gap[10] = numpy.nan
    smooth = curves.smoothed(with_gap, 0.8)
    assert numpy.isnan(smooth[10]) and smooth[11:] == pytest.approx(curves.smoothed(numpy.delete(x, 10), 0.8)[10:])
    ax = plot.learning_curves({"loss": with_gap}, smooth=0.8)
    raw, average = ax.lines
    assert raw.get_alpha() == 0.3 and average.get_label() == "loss, EMA 0.8"
    numpy.testing.assert_array_equal(average.get_ydata(), smooth)


def test_curves_that_cannot_be_drawn_are_refused(trained):
    with pytest.raises(ValueError, match="'lss' to draw; reported was loss, accuracy"):
        plot.learning_curves(trained[1], names=["lss"])
    with pytest.raises(ValueError, match="nothing to draw; reported was nothing yet"):
        plot.learning_curves({})
    with pytest.raises(ValueError, match="smooth is from 0 to below 1, got 1"):
        plot.learning_curves([1, 2], smooth=1)
    with pytest.raises(ValueError, match="loss has 1 steps and 2 values"):
        plot.learning_curves({"loss": ([0], [1, 2])})
    with pytest.raises(TypeError, match="loss is not a list of numbers"):
        plot.learning_curves({"loss": ["a"]})
    with pytest.raises(TypeError, match="takes a history, a track, a dict of lists or a list, got str"):
        plot.learning_curves("loss.csv")


def test_update_ratios_are_drawn_with_their_rule_of_thumb(trained):
    _, h, _ = trained
    ax = plot.update_ratio(h)
    assert [one.get_label() for one in ax.lines[:2]] == ["0.weight", "2.weight"] and ax.get_yscale() == "log"
    wanted = h["0.weight"].update.norm / h["0.weight"].weight.norm
    numpy.testing.assert_allclose(ax.lines[0].get_ydata(), wanted)
    assert list(ax.lines[2].get_ydata()) == [1e-3, 1e-3]
    with pytest.raises(ValueError, match="draws parameters; '1' is a module"):
        plot.update_ratio(h, names=["1"])
    with pytest.raises(TypeError, match="takes a history"):
        plot.update_ratio(trained[0])


def test_a_curve_is_drawn_as_it_is():
    c = Curve()
    for i in range(3):
        c.add(10 * i, i)
    assert list(plot.learning_curves({"x": c}).lines[0].get_xdata()) == [0, 10, 20]


def test_colours_can_be_told_apart_by_colour_blind_readers():
    """Machado, Oliveira, Fernandes, 2009: what a deuteranope and a protanope see, in linear RGB; CIE 1976 distance in L*a*b*."""
    seen = {
        "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    }
    to_xyz = numpy.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

    def lab(colour: str, matrix) -> numpy.ndarray:
        rgb = numpy.array(matplotlib.colors.to_rgb(colour))
        linear = numpy.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        xyz = to_xyz @ numpy.clip(numpy.array(matrix) @ linear, 0, 1) / [0.9505, 1.0, 1.089]
        f = numpy.where(xyz > 0.008856, numpy.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return numpy.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    for matrix in (*seen.values(), numpy.eye(3)):
        found = [lab(colour, matrix) for colour in style.CYCLE]
        for i, a in enumerate(found):
            assert all(numpy.linalg.norm(a - b) > 10 for b in found[:i])  # 2.3 is a just noticeable difference


def test_pictures_can_be_made_beside_a_display_thread(trained):
    """A view's thread may draw too: nothing depends on the current figure."""
    figure, ax = pyplot.subplots()
    done = []
    thread = threading.Thread(target=lambda: done.append(plot.tensor(numpy.eye(2), ax=ax)))
    thread.start()
    thread.join()
    assert done == [ax] and len(ax.images) == 1


@pytest.mark.slow
def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "pictures.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    examples = re.findall(r"```python\n(.*?)```", page, re.S)
    for example in examples:
        exec(compile(example, "pictures.md", "exec"), names)
    assert len(examples) == 6 and (tmp_path / "landscape.png").stat().st_size > 10_000 and len(pyplot.get_fignums()) == 9
    assert "60 steps, 60 kept." in capsys.readouterr().out
    columns = re.search(r"The columns of a quantity are `([^`]*)`", page)
    assert columns and tuple(columns.group(1).split()) == COLUMNS
