"""The kernels that Numba compiles give what NumPy gives, for every layout, and take only the arrays that they are compiled for."""

from __future__ import annotations

import ctypes
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import engine
from engine.backends import fused, loops, mkldnn, threads, workers
from engine.backends import slopes as forms
from engine.nn import functional as F
from engine.ops.recurrent import gru_steps, rnn_steps
from grouping import grouped

pytest.importorskip("numba")

from engine.backends import team
from engine.backends.team import Team

ROWS, WIDTH = 67, 65  # more than fused.LEAST elements, and no multiple of a vector's
CLASSES = engine.tensor([i * 7 % WIDTH for i in range(ROWS)])
PLACES = engine.tensor([[(i + 3 * j) % WIDTH for j in range(WIDTH)] for i in range(ROWS)])

OPS: dict[str, tuple[Callable[..., Any], tuple]] = {  # name -> the op, and the shapes of what it takes after a matrix
    "exp": (lambda x: x.exp(), ()),
    "sigmoid": (lambda x: x.sigmoid(), ()),
    "relu": (lambda x: x.relu(), ()),
    "tanh": (lambda x: x.tanh(), ()),
    "max_pool2d": (lambda x: F.max_pool2d(x[:66, :64].reshape(2, 3, 22, 32), 2), ()),
    "silu": (F.silu, ()),
    "gelu": (F.gelu, ()),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), ()),
    "softplus": (lambda x: F.softplus(x, 2.0, 3.0), ()),
    "logsigmoid": (F.logsigmoid, ()),
    "elu": (lambda x: F.elu(x, 1.5), ()),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), ()),
    "softmax": (lambda x: x.softmax(-1), ()),
    "log_softmax": (lambda x: x.log_softmax(-1), ()),
    "cumsum": (lambda x: x.cumsum(-1), ()),
    "gather": (lambda x: x.gather(1, PLACES), ()),
    "erf": (lambda x: x.erf(), ()),
    "masked_fill": (lambda x: x.masked_fill(PLACES > 40, -math.inf).exp(), ()),
    "masked_fill of rows": (lambda x: x.masked_fill(PLACES[0] > 40, 2.0), ()),
    "logsumexp": (lambda x: x.logsumexp(-1), ()),
    "var": (lambda x: (x + 100).var(), ()),
    "mse_loss": (lambda x, y: F.mse_loss(x, y), ((ROWS, WIDTH),)),
    "mse_loss, summed": (lambda x, y: F.mse_loss(x, y, reduction="sum"), ((ROWS, WIDTH),)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (WIDTH,), w), ((WIDTH,),)),
    "rms_norm of all": (lambda x: F.rms_norm(x, (ROWS, WIDTH), eps=0.1), ()),
    "embedding": (lambda x: F.embedding(CLASSES, x), ()),
    "cross_entropy": (lambda x: F.cross_entropy(x, CLASSES), ()),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b), ((WIDTH,), (WIDTH,))),
    "batch_norm": (lambda x, w, b: F.batch_norm(x.reshape(1, ROWS, WIDTH), None, None, w, b, True), ((ROWS,), (ROWS,))),
    "group_norm": (lambda x, w, b: F.group_norm(x.reshape(ROWS, 5, 13), 1, w, b), ((5,), (5,))),
    "group_norm, two": (lambda x, w, b: F.group_norm(x[:64, :64].reshape(16, 8, 4, 8), 2, w, b), ((8,), (8,))),
    "group_norm without weights": (lambda x: F.group_norm(x[:64, :64].reshape(16, 8, 32), 4), ()),
    "rnn": (lambda x, w: _rnn(x, 0.1 * w), ((WIDTH, WIDTH),)),
    "rnn, reversed": (lambda x, w: _rnn(x, 0.1 * w, reverse=True), ((WIDTH, WIDTH),)),
    "rnn with relu": (lambda x, w: _rnn(x, 0.1 * w, relu=True), ((WIDTH, WIDTH),)),
    "gru": (lambda x, w, b: _gru(x, w, b), ((39, 13), (39,))),
    "gru, reversed": (lambda x, w, b: _gru(x, w, b, True), ((39, 13), (39,))),
    "gru without bias": (lambda x, w: _gru(x, w), ((39, 13),)),
    "lstm": (lambda x, w: engine.lstm(x.reshape(1, ROWS, WIDTH), _states(), [w, w], False, 1, 0.0, False, False, False)[0], ((260, 65),)),
}


def _rnn(x: Any, w: Any, relu: bool = False, reverse: bool = False) -> Any:
    """Two sequences of the matrix's rows, which begin in different states."""
    return rnn_steps((engine.stack([x, x.flip(0)], 1), engine.tensor([[0.5], [-1.0]]).expand(2, WIDTH), w), relu, reverse)


def _gru(x: Any, w: Any, b: Any = None, reverse: bool = False) -> Any:
    given = engine.stack([x[:, :39], x[:, 26:]], 1)
    return gru_steps((given, engine.tensor([[0.5], [-1.0]]).expand(2, 13), w, *([] if b is None else [b])), reverse)


def _states() -> list:
    return [engine.ones(1, ROWS, 65) * 0.5, engine.ones(1, ROWS, 65)]


def _computed(op: Callable, *arrays: numpy.ndarray) -> list[numpy.ndarray]:
    """The result of an op and the gradients of its inputs."""
    given = [engine.from_numpy(a).requires_grad_() for a in arrays]
    out = op(*given)
    slopes = engine.autograd.grad(out, given, engine.from_numpy(_random(7, out.shape)) if out.ndim else None)
    return [out.detach().numpy(), *[slope.numpy() for slope in slopes]]


def _random(seed: int, shape: Any) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(size=tuple(shape)).astype("float32")


@pytest.fixture(autouse=True, scope="module")
def compiled_kernels() -> Iterator[None]:
    """Compile the kernels, unless they are in the cache, and use them in this file; other tests run without them."""
    fused.build()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GRADIENT_WORKBENCH_KERNELS", raising=False)
        patch.setattr(fused, "_kernels", None)
        yield


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Call a function without compiled kernels and without other forms of rules: by NumPy and the text of ops."""

    def call(fn: Callable, *args: Any) -> Any:
        with monkeypatch.context() as now:
            now.setattr(fused, "_kernels", False)
            now.setattr(forms, "LEAST", 1 << 40)
            return fn(*args)

    return call


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were asked for and found."""
    names: list[str] = []
    find = fused.kernel

    def kernel(name: str, *arrays: Any, **options: Any) -> Any:
        found = find(name, *arrays, **options)
        names.extend([name] if found is not None else [])
        return found

    monkeypatch.setattr(fused, "kernel", kernel)
    return names


@grouped("name", list(OPS))
def test_the_kernels_agree_with_numpy(name: str, plainly: Callable, used: list[str]) -> None:
    op, shapes = OPS[name]
    arrays = [2 * _random(0, (ROWS, WIDTH)), *[_random(i + 1, shape) for i, shape in enumerate(shapes)]]
    used.clear()  # of the check before
    found = _computed(op, *arrays)
    assert used
    for a, b in zip(found, plainly(_computed, op, *arrays), strict=True):
        assert numpy.allclose(a, b, rtol=2e-5, atol=2e-6 * max(1, abs(b).max())), abs(a - b).max()


@grouped(
    "name", ["exp", "sigmoid", "silu", "gelu", "softplus", "logsigmoid", "elu", "leaky_relu", "softmax", "log_softmax", "erf", "logsumexp"]
)
def test_special_values(name: str, plainly: Callable) -> None:
    x = _random(0, (ROWS, WIDTH))
    x[::7, ::3] = numpy.resize([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 88.8, -88.8, -104, 1e-30], x[::7, ::3].shape)
    op = OPS[name][0]
    found, wanted = _computed(op, x)[0], plainly(_computed, op, x)[0]
    assert numpy.allclose(found, wanted, rtol=2e-5, atol=1e-6, equal_nan=True)


@grouped("name", ["exp", "softmax", "log_softmax", "layer_norm"])
def test_other_arrays_are_left_to_numpy(name: str, plainly: Callable, used: list[str]) -> None:
    """Float64, strided, misaligned and empty arrays."""
    op, shapes = OPS[name]
    used.clear()
    square = 2 * _random(0, (ROWS, ROWS))[:WIDTH, :WIDTH]
    misaligned = numpy.frombuffer(bytearray(4 * WIDTH * WIDTH + 1), "uint8")[1:].view("float32").reshape(WIDTH, WIDTH)
    misaligned[...] = square
    for x in (square.astype("float64"), square.T, misaligned, numpy.empty((0, WIDTH), "float32")):
        beside = [_random(i + 1, shape).astype(x.dtype) for i, shape in enumerate(shapes)]
        with engine.no_grad():
            out = op(*map(engine.from_numpy, (x, *beside))).numpy()
        assert not used
        wanted = plainly(lambda x=x, beside=beside: op(*map(engine.from_numpy, (numpy.array(x, order="C"), *beside))).numpy())
        assert numpy.allclose(out, wanted, rtol=1e-5, atol=1e-6)


def test_normal_samples_are_the_same_bits(plainly: Callable, used: list[str]) -> None:
    def drawn(n: int) -> numpy.ndarray:
        engine.manual_seed(n)
        return engine.randn(n).numpy()

    for n in (1 << 13, 5003, 100):
        assert numpy.array_equal(drawn(n), plainly(drawn, n))
    assert used == ["box_muller"] * 3


def _pooled(x: numpy.ndarray) -> Any:
    return F.max_pool2d(engine.from_numpy(x), 2, return_indices=True)


def test_maximum_pooling_of_equal_and_broken_elements(plainly: Callable, used: list[str]) -> None:
    x = numpy.random.default_rng(0).choice(numpy.array([0, 1, -0.0, numpy.nan, numpy.inf, -numpy.inf], "f4"), (4, 64, 64))
    used.clear()
    pooled = _pooled(x)
    assert used == ["squares_maximum"]
    for a, b in zip(pooled, plainly(_pooled, x), strict=True):
        assert numpy.array_equal(a.numpy(), b.numpy(), equal_nan=True)
    assert numpy.isnan(pooled[0].numpy()).any()


def test_exp_where_it_ends() -> None:
    ends = [
        -numpy.inf,
        -1e30,
        -200,
        -104,
        -103.5,
        -103,
        -95,
        -88,
        -87,
        -1e-30,
        0,
        1e-30,
        1,
        88,
        88.72,
        88.73,
        89,
        200,
        numpy.inf,
        numpy.nan,
    ]
    x = numpy.resize(numpy.array(ends, "f4"), 4100)
    with numpy.errstate(over="ignore", under="ignore"):
        expected = numpy.exp(x.astype(float)).astype("f4")
        numpy.testing.assert_allclose(engine.from_numpy(x).exp().numpy(), expected, rtol=3e-7, atol=3e-45)


def test_softmax_of_masked_and_broken_rows(plainly: Callable) -> None:
    x = _random(0, (ROWS, WIDTH))
    x[:60][numpy.triu(numpy.ones((60, WIDTH), bool), 1)] = -numpy.inf
    x[61], x[62, 3], x[63, 3], x[64, :] = -numpy.inf, numpy.nan, numpy.inf, -1e30
    x[65, ::2], x[66] = -numpy.nan, numpy.linspace(-150, 150, WIDTH)
    t = engine.from_numpy(x)
    for op in (engine.softmax, engine.log_softmax, engine.logsumexp):
        numpy.testing.assert_allclose(op(t, -1).numpy(), plainly(op, t, -1).numpy(), rtol=1e-5, atol=1e-6)


@grouped("name", ["Adam", "AdamW"])
def test_adam(name: str, plainly: Callable, used: list[str]) -> None:
    def trained() -> numpy.ndarray:
        p = engine.from_numpy(_random(0, (ROWS, WIDTH))).requires_grad_()
        optimizer = getattr(engine.optim, name)([p], lr=0.1, weight_decay=0.1)
        for i in range(3):
            p.grad = engine.from_numpy(_random(i, p.shape))
            optimizer.step()
        return p.detach().numpy()

    used.clear()
    assert numpy.allclose(trained(), plainly(trained), rtol=1e-5, atol=1e-6)
    assert used == ["adam"] * 3


@grouped("options", [{}, {"nesterov": True}, {"dampening": 0.5}])
def test_sgd_with_momentum(options: dict, plainly: Callable, used: list[str]) -> None:
    def trained() -> numpy.ndarray:
        p = engine.from_numpy(_random(0, (ROWS, WIDTH))).requires_grad_()
        optimizer = engine.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1, **options)
        for i in range(3):
            p.grad = engine.from_numpy(_random(i, p.shape))
            optimizer.step()
        return numpy.stack([p.detach().numpy(), optimizer.state[p]["momentum_buffer"].numpy()])

    used.clear()
    assert numpy.allclose(trained(), plainly(trained), rtol=1e-5, atol=1e-6)
    assert used == ["sgd"] * 2  # the first step makes the buffer


@pytest.mark.parametrize("team", [True, False])
def test_threads_share_large_arrays(team: bool, monkeypatch: pytest.MonkeyPatch, plainly: Callable) -> None:
    """OpenMP's threads, and Python's where there are none of OpenMP; more of them than lines, and with parts of different sizes."""
    if team and not mkldnn.is_available():
        pytest.skip("needs oneDNN")
    answers = []
    call = Team.__call__

    def told(self: Team, *given: Any) -> bool:
        answers.append(call(self, *given))
        return answers[-1]

    monkeypatch.setattr(Team, "__call__", told)
    monkeypatch.setattr(mkldnn, "enabled", team)
    monkeypatch.setattr(workers, "SHARE", 1 << 10)
    monkeypatch.setattr(workers, "SHARE_OF_TEAM", 1 << 10)
    monkeypatch.setattr(threads, "count", lambda: 3)
    for name, (op, shapes) in OPS.items():
        if name == "softplus":  # numbers beside arrays; one line only
            op = lambda x: F.softplus(x.reshape(1, -1), 2.0, 3.0)  # noqa: E731
        arrays = [_random(0, (ROWS, WIDTH)), *[_random(1, shape) for shape in shapes]]
        for a, b in zip(_computed(op, *arrays), plainly(_computed, op, *arrays), strict=True):
            assert numpy.allclose(a, b, rtol=2e-5, atol=2e-5), name
    assert set(answers) == {team}


def test_a_team_takes_the_arrays_only_that_its_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, wide = numpy.zeros(1 << 17, "f4"), numpy.zeros(1 << 18, "f4")
    kernel = fused.kernel("exp", x)
    assert kernel is not None
    monkeypatch.setattr(threads, "count", lambda: 2)
    for other in (x.astype("f8"), wide[::2], x.reshape(2, -1), list(x)):
        assert not kernel.team((x,), (), (other,), 2) and not kernel.team((other,), (), (x,), 2)
    assert not x.any() and not wide.any()


def test_in_a_forked_process_no_team_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = _random(0, (1 << 17,)), numpy.empty(1 << 17, "f4")
    kernel = fused.kernel("exp", x)
    assert kernel is not None
    monkeypatch.setattr(threads, "count", lambda: 2)
    workers.share(kernel, (x,), last=(out,))
    child = os.fork()
    if child == 0:  # OpenMP's threads have stayed in the parent
        workers.share(kernel, (x,), last=(out,))
        os._exit(0 if not kernel.team((x,), (), (out,), 2) and numpy.allclose(out, numpy.exp(x)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_status_says_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fused.status() == "Numba"
    monkeypatch.setattr(fused, "installed", lambda: False)
    assert fused.status() == "NumPy (Numba is not installed)"


@grouped(
    "error",
    [
        RuntimeError("cannot cache function: no locator available"),
        ImportError("Numba needs NumPy 2.4 or less. Got NumPy 2.5."),
        PermissionError("[Errno 13] Permission denied"),
    ],
)
def test_a_numba_that_cannot_be_used_gives_one_warning(error: Exception) -> None:
    def refused() -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GRADIENT_WORKBENCH_KERNELS", raising=False)
        patch.setattr(fused, "_kernels", None)
        patch.setattr(fused, "build", refused)
        x = engine.ones(fused.LEAST)
        with pytest.warns(
            UserWarning, match="Numba cannot be used. NumPy computes everything, which may be slower: " + re.escape(str(error))
        ):
            assert abs(x.exp().sum().item() / fused.LEAST - math.e) < 1e-5
        x.exp()  # without a second warning, which would be an error
        assert fused.status() == "NumPy (Numba cannot be used: see the warning)"


@pytest.mark.long
def test_the_first_large_op_compiles_the_kernels_once(tmp_path: Path) -> None:
    def told(program: str, kernels: str = "") -> tuple[str, str]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "GRADIENT_WORKBENCH_KERNELS": kernels}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        return run.stdout, run.stderr

    program = "import engine; engine.ones(4096).exp(); from engine.backends import fused; print(fused.status(), bool(fused._kernels))"
    assert told(program, "numpy") == ("NumPy (GRADIENT_WORKBENCH_KERNELS=numpy) False\n", "")
    assert told(program.replace("4096", "4095"))[0].startswith("Numba (kernels are compiled at first use")
    out, err = told(program)
    assert out == "Numba True\n" and err.startswith("engine: compiling the CPU kernels with Numba, once") and err.count("\n") == 1
    assert told(program) == ("Numba True\n", "")


# -- NumPy's loops, shared -----------------------------------------------------------------------------------------------------

LARGE = (600, 512)  # more than loops.LARGE elements, and not whole pieces

SHARED: dict[str, tuple[Callable[..., Any], tuple]] = {  # name -> the op, and the shapes of what it takes after a large matrix
    "add": (lambda x, y: x + y, (LARGE,)),
    "a row": (lambda x, y: x + y, ((512,),)),
    "a column": (lambda x, y: x * y, ((600, 1),)),
    "one element": (lambda x, y: x - y, ((1, 1),)),
    "cubes": (lambda x, y: x.reshape(120, 5, 512) * y, ((5, 512),)),
    "a number": (lambda x: 2.5 * x + 1, ()),
    "from a number": (lambda x: 1 - x, ()),
    "sub": (lambda x, y: x - y, (LARGE,)),
    "mul": (lambda x, y: x * y, (LARGE,)),
    "div": (lambda x, y: x / y, (LARGE,)),
    "by a row": (lambda x, y: x / y, ((512,),)),
    "a number by": (lambda x: 3 / x, ()),
    "neg": (lambda x: -x, ()),
    "abs": (lambda x: x.abs(), ()),
    "x ** 2": (lambda x: x**2, ()),
    "square": (lambda x: x.square(), ()),
    "sqrt": (lambda x: x.sqrt(), ()),
    "log": (lambda x: x.log(), ()),
    "tanh": (lambda x: x * x.detach().tanh(), ()),  # its gradient has a kernel
    "maximum": (engine.maximum, (LARGE,)),
    "minimum": (engine.minimum, (LARGE,)),
    "relu": (lambda x: x.relu(), ()),
    "clone": (lambda x: x.clone(), ()),
    "twice": (lambda x: x + x * x, ()),
    "a spread gradient": (lambda x, y: (x * y).sum(), (LARGE,)),
    "sums of rows": (lambda x, y: (x * y).mean(1), (LARGE,)),
    "with gaps": (lambda x, y: x[:, 64:] * y[:, :448] + x[:, :448], (LARGE,)),
}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list:
    """What three threads were called for."""
    if not mkldnn.is_available():
        pytest.skip("needs oneDNN")
    calls, run = [], team._in_parallel
    monkeypatch.setattr(team, "_in_parallel", lambda *given: calls.append(given) or run(*given))
    monkeypatch.setattr(threads, "count", lambda: 3)
    return calls


@grouped("name", list(SHARED))
def test_large_arrays_are_shared_and_agree_with_numpy_to_the_bit(name: str, plainly: Callable, shared: list) -> None:
    op, shapes = SHARED[name]
    arrays = [_random(0, LARGE), *[_random(i + 1, shape) for i, shape in enumerate(shapes)]]
    arrays[0][::50, ::30] = numpy.resize([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0], arrays[0][::50, ::30].shape)
    shared.clear()  # of the op before
    found = _computed(op, *arrays)
    assert shared
    for a, b in zip(found, plainly(_computed, op, *arrays), strict=True):
        if name in ("sums of rows", "a column"):  # are in another order
            numpy.testing.assert_allclose(a, b, 2e-5, 2e-5)
        else:
            numpy.testing.assert_array_equal(a, b)


def test_large_arrays_are_written_in_place(plainly: Callable, shared: list) -> None:
    def written() -> list[numpy.ndarray]:
        x, y, row = (engine.from_numpy(_random(i, shape)) for i, shape in enumerate((LARGE, LARGE, (512,))))
        results = [x, x.add_(y).mul_(row).sub_(1).div_(y), engine.empty(LARGE).copy_(x), engine.zeros(LARGE, dtype=engine.float64).add_(x)]
        p = y.clone().requires_grad_()
        for _ in range(2):
            (p * x).sum().backward()
        return [r.numpy() for r in (*results, p.grad)]

    found = written()
    assert len(shared) >= 8
    for a, b in zip(found, plainly(written), strict=True):
        numpy.testing.assert_array_equal(a, b)


def test_a_large_copy_has_its_own_memory(shared: list) -> None:
    x = engine.from_numpy(_random(0, LARGE)).requires_grad_()
    copy = x.clone()
    (copy * 2).sum().backward()
    assert shared and copy.array.base is None and x.grad.array.base is None and numpy.array_equal(copy.detach().numpy(), x.detach().numpy())


def test_numpy_adds_the_large_arrays_that_threads_cannot_share(shared: list) -> None:
    x = _random(0, LARGE)
    misaligned = numpy.frombuffer(bytearray(x.nbytes + 1), "uint8")[1:].view("float32").reshape(LARGE)
    for y in (x[:, ::-1], x.astype("float64"), misaligned, x[:, :1, None], x[:3], [1.0], numpy.float32(2)):
        assert loops.over(numpy.add, x, y) is None
    assert loops.over(numpy.add, x.T, x.T) is None and loops.over(numpy.add, x, x, out=x.T) is None
    flat = x.reshape(-1).copy()
    assert loops.over(numpy.add, flat[:-1], 1.0, out=flat[1:]) is None
    assert loops.over(numpy.isnan, x.astype("complex64")) is None and loops.over(numpy.matmul, x, x) is None
    read_only = x.view()
    read_only.flags.writeable = False
    assert loops.over(numpy.add, x, x, out=read_only) is None
    assert not shared
    assert numpy.array_equal(loops.over(numpy.greater, x, read_only), numpy.zeros(LARGE, bool)) and shared


def test_loops_are_numpys_alone_in_a_numpy_that_lays_out_ufuncs_otherwise(shared: list, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(ctypes.Structure):
        _fields_ = (("more", ctypes.c_long), *loops._Ufunc._fields_)

    monkeypatch.setattr(loops, "_Ufunc", Other)
    monkeypatch.setattr(loops, "_loop", loops._loop.__wrapped__)
    assert loops.over(numpy.add, _random(0, LARGE), 1.0) is None and not shared
