"""The outer namespaces beside PyTorch's: what assert_close finds, versions, types of tensors, switches, the stored list of names."""

from __future__ import annotations

import inspect
import itertools
import operator
import random
import warnings

import make_torch_homes
import make_torch_names
import numpy
import pytest

import closeness
import engine
import engine.testing
from engine.compat import jit, missing
from engine.compat.torch_version import TorchVersion

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_the_stored_answers_are_pytorchs():
    assert closeness.answers(torch) == closeness.answers(engine)


def random_pair(rng, library):
    dtype = rng.choice(["float32", "float64", "float16", "int64", "uint8", "bool", "complex128"])
    shape = rng.choice([(), (3,), (2, 3), (4, 1, 2), (0, 2)])
    draw = numpy.random.default_rng(rng.getrandbits(32))
    actual = draw.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
    kind = rng.choice([0.0, 1e-9, 1e-6, 1e-3, 1.0])
    moved = actual + (kind * draw.choice([0, 1, 2, 3], shape)).astype(dtype) if dtype != "bool" else draw.integers(0, 2, shape).astype(bool)
    options = rng.choice([{}, {}, {"rtol": 1e-3, "atol": 1e-2}, {"rtol": 0, "atol": 0}])
    if rng.random() < 0.1:
        moved = moved.astype("float64")
    if rng.random() < 0.1:
        options = {**options, "check_dtype": False}
    return library.from_numpy(numpy.array(moved)), library.from_numpy(actual), options


@pytest.mark.parametrize("seed", range(150))
def test_two_tensors_are_judged_alike(seed, request):
    def verdict(library):
        actual, expected, options = random_pair(random.Random(seed), library)
        try:
            library.testing.assert_close(actual, expected, **options)
        except (AssertionError, RuntimeError) as error:
            return type(error), str(error)
        return None

    assert verdict(engine) == verdict(torch)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq], ids=lambda f: f.__name__)
def test_versions_are_ordered_alike(compare):
    from torch.torch_version import TorchVersion as Theirs

    versions = ["2.13.0+cpu", "2.13.0", "1.8.1", "2.0", "1.10"]
    for a, b in itertools.product(versions, [*versions, (1, 8), (2,), (2, 13, 0), (3,), "abc"]):
        assert compare(TorchVersion(a), b) == compare(Theirs(a), b), (a, b)


@pytest.mark.parametrize(
    "call",
    [
        "FloatTensor()", "FloatTensor(2, 0)", "FloatTensor([1, 2])", "LongTensor([1.5, 2])", "BoolTensor([1, 0])", "HalfTensor([[1.5], [2]])",
        "FloatTensor((2, 3))", "DoubleTensor(range(3))", "CharTensor([1]).type()", "ShortTensor([3])", "IntTensor([[1, 2], [3, 4]])",
        "LongTensor(numpy.arange(3))", "FloatTensor(2.5)", "FloatTensor([1], device='cuda')", "ByteTensor([256])",
        "LongTensor(torch.ones(2))", "isinstance(torch.ones(1), torch.FloatTensor)", "isinstance(torch.ones(1), torch.LongTensor)",
        "isinstance(3, torch.FloatTensor)", "FloatTensor.dtype", "FloatTensor.is_cuda", "FloatTensor", "FloatTensor.__name__",
        "ones(2).type(torch.LongTensor)", "ones(2).type('torch.HalfTensor')", "FloatTensor(torch.ones(3))", "FloatTensor(torch.Size([2, 0]))",
        "cuda.is_available()", "cuda.device_count()", "cuda.memory_allocated()", "cuda.is_initialized()", "cuda.get_arch_list()",
        "cuda.is_bf16_supported()", "cuda.max_memory_allocated()", "cuda.memory_stats()", "cuda.get_rng_state_all()", "version.cuda",
        "version.hip", "backends.mps.is_available()", "backends.cudnn.enabled", "backends.cudnn.benchmark", "backends.cudnn.deterministic",
        "backends.cudnn.is_available()", "backends.cuda.matmul.allow_tf32", "backends.mps.is_built()", "accelerator.is_available()",
        "accelerator.current_accelerator()", "accelerator.device_count()", "get_float32_matmul_precision()", "get_default_device()",
        "are_deterministic_algorithms_enabled()", "get_deterministic_debug_mode()", "is_warn_always_enabled()", "pi", "e", "inf", "newaxis",
        "xpu.is_available()", "xpu.device_count()", "cpu.device_count()", "cpu.current_device()", "hub.get_dir()", "jit.is_scripting()",
        "jit.is_tracing()", "jit.annotate(int, 'a')", "compiler.is_compiling()", "autograd.Variable(torch.ones(2), requires_grad=True)",
        "autograd.Variable(3)", "autograd.Variable()", "set_num_threads(0)", "set_num_threads(2.0)", "use_deterministic_algorithms(1)",
        "set_deterministic_debug_mode('loud')", "set_default_tensor_type('torch.IntTensor')", "cuda.manual_seed(1)", "cuda.empty_cache()",
        "compile(torch.nn.Linear(1, 1)).state_dict().keys()", "compile(torch.nn.Linear(2, 1))", "compile(len, mode='default', options={})",
        "compile(len, mode='fast')", "jit.script(torch.nn.Linear(2, 1))", "jit.script(torch.nn.Linear(2, 1)).state_dict().keys()",
        "jit.freeze(torch.nn.Linear(2, 1))", "jit.trace(torch.nn.Linear(2, 1), torch.ones(1, 2)).training", "fx.wrap(3)",
        "jit.trace(lambda x: 3, torch.zeros(1))", "testing.make_tensor(3, dtype=torch.float32, device='cpu', low=4, high=3)",
        "testing.make_tensor(3, dtype=torch.int64, device='cpu', requires_grad=True)",
    ],
)  # fmt: skip
def test_the_same_comes_of_it(call):
    def outcome(library):
        importlib_names = {"torch": library, "numpy": numpy, "library": library}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return repr(eval(f"library.{call}", importlib_names))
            except Exception as error:
                return type(error).__name__

    import torch.fx

    assert outcome(engine) == outcome(torch)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (engine.compile, "compile"),
        (engine.testing.assert_close, "testing.assert_close"),
        (engine.testing.make_tensor, "testing.make_tensor"),
        (engine.hub.load, "hub.load"),
        (engine.hub.load_state_dict_from_url, "hub.load_state_dict_from_url"),
        (jit.script, "jit.script"),
        (jit.trace, "jit.trace"),
        (engine.cuda.Event, "cuda.Event"),
        (engine.use_deterministic_algorithms, "use_deterministic_algorithms"),
    ],
)
def test_arguments_have_the_same_names_and_order(ours, theirs):
    found = torch
    for name in theirs.split("."):
        found = getattr(found, name)
    if isinstance(found, type):
        found = found.__new__
    wanted = [n for n in inspect.signature(found).parameters if n not in ("cls", "self", "args", "kwargs", "extras")]
    assert [n for n in inspect.signature(ours).parameters if n not in ("args", "kwargs")] == wanted


def test_where_classes_and_functions_are_is_told_of_this_pytorch():
    lines = make_torch_homes.FILE.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# PyTorch {torch.__version__.split('+')[0]}"
    told = {(theirs, ours): set(names) for theirs, ours, *names in map(str.split, lines[1:])}
    assert told == make_torch_homes.homes()


def test_the_list_of_names_is_of_this_pytorch():
    assert make_torch_names.FILE.read_text(encoding="utf-8").startswith(f"# PyTorch {torch.__version__.split('+')[0]}\n")
    known = missing.known()
    for name in ("zeros", "quantize_per_tensor", "vmap"):
        assert (name in known["engine"]) == hasattr(torch, name)
    assert known["engine.nn.functional"].keys() >= {n for n in dir(torch.nn.functional) if n.startswith("conv")}
    assert known["engine.Tensor"].keys() == {n for n in dir(torch.Tensor) if not n.startswith("_")}
