"""Large convolutions of a compiled step are computed as in an eager one; those of an exported program by XLA."""

from __future__ import annotations

import threading
import zipfile

import numpy
import pytest

import engine
from engine import nn, optim
from engine.backends import mkldnn, onednn, threads

pytest.importorskip("jax")
from engine.backends.xla import convolutions

F = nn.functional
CALL = "xla_buffer_python_cpu_callback"
CASES = {
    "1d": (nn.Conv1d, (5, 6, 5), {"stride": 2, "dilation": 3, "padding": 4}, (4, 5, 1400)),
    "2d": (nn.Conv2d, (8, 16, 3), {"padding": "same"}, (4, 8, 24, 24)),
    "2d, groups": (nn.Conv2d, (8, 12, (3, 5)), {"groups": 2, "stride": (2, 1)}, (8, 8, 30, 30)),
    "2d, depthwise": (nn.Conv2d, (32, 32, 3), {"groups": 32, "padding": 1}, (8, 32, 28, 28)),
    "3d": (nn.Conv3d, (3, 4, 3), {"padding": 1}, (2, 3, 12, 12, 12)),
    "2d, transposed": (nn.ConvTranspose2d, (8, 6, 3), {"stride": 2, "output_padding": 1}, (4, 8, 16, 16)),
}


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(convolutions, "LEAST", 1 << 18)


def text(compiled) -> str:
    (plans,) = compiled.plans.values()
    return plans[-1][1].program.as_text()


@pytest.mark.parametrize("library", [True, False], ids=["with the library", "NumPy"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_with_a_large_convolution_gives_what_the_eager_step_gives(case, library, monkeypatch):
    monkeypatch.setattr(mkldnn, "enabled", library)
    kind, sizes, options, shape = CASES[case]
    engine.manual_seed(0)
    ours, expected = kind(*sizes, **options), kind(*sizes, **options)
    expected.load_state_dict(ours.state_dict())
    a, b = engine.randn(*shape, requires_grad=True), engine.randn(*shape)
    x = a.detach().clone().requires_grad_()

    def step(model, x):
        model.zero_grad()
        x.grad = None
        y = model(x)
        (y * y.detach().cos()).mean().backward()
        return y

    compiled = engine.compile(lambda x: step(ours, x), fullgraph=True)
    for values in (a, b, b):
        x.data.copy_(values.detach())
        a.data.copy_(values.detach())
        found, wanted = compiled(x), step(expected, a)
    for one, other in ((found, wanted), (x.grad, a.grad), *((p.grad, q.grad) for p, q in zip(ours.parameters(), expected.parameters()))):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6 * float(other.abs().max()))
    assert CALL in text(compiled)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16 * 256, 4)

    def forward(self, x):
        return self.out(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))


def test_an_exported_program_has_no_call_into_this_process(tmp_path):
    pytest.importorskip("flatbuffers")
    engine.manual_seed(0)
    model, x, y = Small(), engine.randn(16, 3, 32, 32), engine.randint(0, 4, (16,))
    opt = optim.SGD(model.parameters(), 0.1)

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    compiled = engine.compile(step, fullgraph=True)
    for _ in range(2):
        compiled(x, y)
    assert CALL in text(compiled)
    compiled.export(tmp_path / "step.xla", (x, y), platforms=("cpu", "cuda"))
    with zipfile.ZipFile(tmp_path / "step.xla") as file:
        assert not any(b"callback" in file.read(name) for name in file.namelist() if name.startswith("program"))
    loaded = engine.compiler.load(tmp_path / "step.xla")
    assert float(loaded(x.numpy(), y.numpy())) == pytest.approx(step(x, y).item(), rel=1e-5)


def test_a_batch_of_any_size_is_exported_with_a_large_convolution(tmp_path):
    pytest.importorskip("flatbuffers")
    model, x = Small().eval(), engine.randn(8, 3, 32, 32)
    with engine.no_grad():
        engine.compile(model).export(tmp_path / "model.xla", (x,), dynamic_batch=True)
        loaded = engine.compiler.load(tmp_path / "model.xla")
        for n in (8, 3):
            numpy.testing.assert_allclose(numpy.asarray(loaded(x[:n].numpy())), model(x[:n]).numpy(), rtol=1e-4, atol=1e-5)


def test_a_program_borrows_the_threads_and_the_next_eager_op_takes_them_back(monkeypatch):
    """With a pool of OpenMP's for each, all threads would sleep between ops from then on."""
    if not mkldnn.is_available():
        pytest.skip("needs oneDNN")
    released, library = [], onednn.found()
    monkeypatch.setattr(threads, "count", lambda: 2)
    monkeypatch.setattr(library, "pause", lambda kind: released.append(threading.current_thread().name))
    conv, x, main = nn.Conv2d(8, 16, 3), engine.randn(4, 8, 24, 24), threading.current_thread().name
    expected = conv(x)
    compiled = engine.compile(conv)
    for _ in range(3):
        found = compiled(x)
    assert released == [main]
    assert onednn.borrowed(onednn.thread_count) == 2 and released == [main]
    again = conv(x)
    assert released == [main, "engine_0"]
    assert conv(x).shape == again.shape and len(released) == 2
    numpy.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
