"""What programs ask about machines and set for the whole process: cuda, accelerator, backends, switches, types of tensors, Variable."""

from __future__ import annotations

import math
import warnings
from array import array
from collections import UserList, deque

import numpy
import pytest

import engine
from engine.core import devices

NO_GPU = pytest.mark.skipif(devices.cuda_available(), reason="says what comes without a GPU")

# -- GPUs --------------------------------------------------------------------------------------------------------------------


@NO_GPU
def test_without_a_gpu_questions_are_answered():
    cuda = engine.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    assert not cuda.is_bf16_supported() and cuda.get_arch_list() == []
    for told in (cuda.memory_allocated, cuda.max_memory_allocated, cuda.memory_reserved, cuda.max_memory_reserved):
        assert told() == 0 and told("cuda:0") == 0
    assert cuda.memory_stats() == {} and "Allocated memory" in cuda.memory_summary() and cuda.get_rng_state_all() == []
    assert engine.version.cuda is None and engine.version.hip is None
    assert not engine.accelerator.is_available() and engine.accelerator.current_accelerator() is None
    assert engine.accelerator.device_count() == 0
    assert not engine.backends.cudnn.is_available() and engine.backends.cudnn.version() is None


@NO_GPU
def test_without_a_gpu_requests_do_nothing_or_are_refused():
    cuda, before = engine.cuda, engine.get_rng_state()
    for call in (cuda.empty_cache, cuda.reset_peak_memory_stats, cuda.ipc_collect, cuda.seed, cuda.seed_all):
        assert call() is None
    cuda.manual_seed(3), cuda.manual_seed_all(3), cuda.set_device(-1)
    assert engine.equal(engine.get_rng_state(), before)  # the CPU's numbers are not a GPU's
    with cuda.device(None), cuda.device_of(engine.zeros(1)), cuda.stream(None):
        pass
    refused = [cuda.current_device, cuda.get_device_name, cuda.get_device_properties, cuda.get_device_capability, cuda.synchronize]
    refused += [cuda.init, cuda.Stream, cuda.current_stream, cuda.mem_get_info, cuda.Event().record, lambda: cuda.set_device(0)]
    refused += [engine.accelerator.current_device_index, lambda: engine.zeros(1, device="cuda")]
    for call in refused:
        with pytest.raises(RuntimeError, match="No CUDA device can be used"):
            call()
    with pytest.raises(TypeError, match="type torch.cuda.FloatTensor not available"):
        cuda.FloatTensor(2)
    with pytest.raises(ValueError, match="enable_timing=True"):
        cuda.Event().elapsed_time(cuda.Event(enable_timing=True))


def test_other_kinds_of_gpus_are_not_there():
    assert not engine.backends.mps.is_available() and not engine.backends.mps.is_built() and engine.mps.device_count() == 0
    assert not engine.xpu.is_available() and engine.xpu.device_count() == 0
    assert not engine.mtia.is_available() and engine.mtia.device_count() == 0
    engine.mps.manual_seed(0), engine.xpu.manual_seed_all(0), engine.mps.empty_cache()
    with pytest.raises(RuntimeError, match=r"mps\.synchronize: there is no MPS device"):
        engine.mps.synchronize()
    with pytest.raises(RuntimeError, match=r"xpu\.current_device: there is no XPU device"):
        engine.xpu.current_device()
    assert engine.cpu.is_available() and engine.cpu.device_count() == 1 and engine.cpu.current_device() == "cpu"
    with engine.cpu.stream(engine.cpu.current_stream()):
        engine.cpu.synchronize()


def test_the_cpu_may_be_named_with_a_number():
    x = engine.ones(2, requires_grad=True)
    made = [engine.zeros(2, device="cpu:0"), engine.tensor([1], device="cpu:1"), engine.zeros_like(x, device=engine.device("cpu", 2))]
    made += [engine.nn.Linear(1, 1).to("cpu:0").weight, engine.randn(2, device="cpu:0"), x.to("cpu:0")]
    assert {str(y.device) for y in made} == {"cpu"}
    moved = x.to("cpu:0")  # another device by its name: PyTorch makes a copy
    assert moved.data_ptr() != x.data_ptr() and type(moved.grad_fn).__name__ == "ToCopyBackward0"
    moved.sum().backward()
    assert x.grad.tolist() == [1, 1] and x.to("cpu") is x


def test_the_choice_of_a_device_that_every_program_makes():
    device = engine.device("cuda" if engine.cuda.is_available() else "mps" if engine.backends.mps.is_available() else "cpu")
    assert engine.nn.Linear(2, 2).to(device)(engine.zeros(1, 2, device=device)).device.type == device.type
    found = engine.accelerator.current_accelerator()
    assert (found.type if found is not None else "cpu") == device.type


# -- switches ----------------------------------------------------------------------------------------------------------------


def test_switches_of_backends_are_kept():
    cudnn, matmul = engine.backends.cudnn, engine.backends.cuda.matmul
    before = (cudnn.enabled, cudnn.benchmark, cudnn.deterministic)
    with cudnn.flags(enabled=True, benchmark=True, deterministic=True):
        assert cudnn.benchmark and cudnn.deterministic and cudnn.benchmark_limit == 10
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.benchmark_limit) == (*before, None)
    with pytest.raises(AttributeError):
        matmul.allow_tf33 = True
    try:
        engine.set_float32_matmul_precision("high")
        assert engine.get_float32_matmul_precision() == "high" and matmul.allow_tf32 is True
        with pytest.warns(UserWarning, match="hi is not one of 'highest', 'high', or 'medium'"):
            engine.set_float32_matmul_precision("hi")
    finally:
        engine.set_float32_matmul_precision("highest")
    assert matmul.allow_tf32 is False
    with pytest.warns(FutureWarning, match="sdp_kernel.* is deprecated"):
        kernels = engine.backends.cuda.sdp_kernel(enable_flash=False)
    with kernels:
        assert not engine.backends.cuda.flash_sdp_enabled() and engine.backends.cuda.math_sdp_enabled()
    assert engine.backends.cuda.flash_sdp_enabled()
    with engine.backends.mkldnn.flags(enabled=False):
        assert not engine.backends.mkldnn.enabled
    assert engine.backends.mkldnn.enabled and not engine.backends.openmp.is_available()
    assert engine.backends.mkl.is_available() in (True, False) and engine.backends.mha.get_fastpath_enabled()


def test_determinism_is_asked_for():
    try:
        engine.use_deterministic_algorithms(True, warn_only=True)
        assert engine.are_deterministic_algorithms_enabled() and engine.is_deterministic_algorithms_warn_only_enabled()
        assert engine.get_deterministic_debug_mode() == 1
        engine.set_deterministic_debug_mode("error")
        assert engine.get_deterministic_debug_mode() == 2 and not engine.is_deterministic_algorithms_warn_only_enabled()
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            engine.set_deterministic_debug_mode("loud")
        with pytest.raises(TypeError, match="must be bool"):
            engine.use_deterministic_algorithms(1)
    finally:
        engine.use_deterministic_algorithms(False)
    assert engine.get_deterministic_debug_mode() == 0


def test_threads_are_counted():
    before = engine.get_num_threads()
    assert before >= 1 and engine.get_num_interop_threads() >= 1
    try:
        engine.set_num_threads(1)
        assert engine.get_num_threads() == 1
    finally:
        engine.set_num_threads(before)
    for wrong in (0, 2.0, True):
        with pytest.raises(RuntimeError, match="set_num_threads expects"):
            engine.set_num_threads(wrong)


def test_constants():
    assert (engine.pi, engine.e, engine.inf) == (math.pi, math.e, math.inf) and math.isnan(engine.nan) and engine.newaxis is None
    assert engine.zeros(3)[:, engine.newaxis].shape == (3, 1)


def test_the_default_device_is_where_tensors_are_made():
    assert engine.get_default_device() == engine.device("cpu")
    with engine.device("cpu") as inside:
        assert engine.get_default_device() == inside and engine.zeros(1).device.type == "cpu"
    try:
        engine.set_default_device("cuda:0")
        assert engine.get_default_device() == engine.device("cuda", 0)
        if not engine.cuda.is_available():
            for make in (lambda: engine.zeros(1), lambda: engine.tensor([1]), lambda: engine.randn(1), lambda: engine.nn.Linear(1, 1)):
                with pytest.raises(RuntimeError, match="No CUDA device"):
                    make()
            with engine.device("cpu"):
                x = engine.randn(2)
            assert engine.zeros_like(x).device.type == "cpu" and x.new_zeros(2).device.type == "cpu"
    finally:
        engine.set_default_device(None)
    assert engine.zeros(1).device.type == "cpu"


# -- types of tensors ----------------------------------------------------------------------------------------------------------


def test_types_of_tensors_make_plain_tensors():
    assert (
        engine.FloatTensor([1, 2]).dtype is engine.float32
        and engine.FloatTensor(2, 3).shape == (2, 3)
        and engine.FloatTensor().shape == (0,)
    )
    assert engine.LongTensor([1.5, 2]).tolist() == [1, 2] and engine.LongTensor(range(3)).tolist() == [0, 1, 2]
    assert engine.BoolTensor([1, 0]).tolist() == [True, False] and engine.DoubleTensor(numpy.ones(2, numpy.float32)).dtype is engine.float64
    assert engine.IntTensor(engine.zeros(2, 3).shape).shape == (2, 3) and engine.HalfTensor((2, 3)).tolist() == [2.0, 3.0]
    x = engine.ones(2)
    y = engine.FloatTensor(x)
    y[0] = 5
    assert x[0].item() == 5 and type(y) is engine.Tensor
    assert isinstance(x, engine.FloatTensor) and not isinstance(x, engine.LongTensor) and not isinstance(3, engine.FloatTensor)
    assert not isinstance(x, engine.cuda.FloatTensor) and engine.FloatTensor.dtype is engine.float32 and not engine.FloatTensor.is_cuda
    assert repr(engine.FloatTensor) == "<class 'torch.FloatTensor'>"


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: engine.FloatTensor(2.5), TypeError, r"data must be a sequence \(got float\)"),
        (lambda: engine.LongTensor(engine.ones(2)), TypeError, "expected a tensor of type LongTensor"),
        (lambda: engine.FloatTensor([1], device="cuda"), RuntimeError, "legacy constructor expects device type: cpu"),
        (lambda: engine.ByteTensor([256]), RuntimeError, "cannot be converted to type uint8 without overflow"),
        (lambda: engine.FloatTensor([1], [2]), TypeError, "expected sizes as integers, or one sequence"),
        (lambda: engine.set_default_tensor_type("torch.IntTensor"), TypeError, "only floating-point types"),
        (lambda: engine.set_default_tensor_type(3), TypeError, "invalid type object"),
        (lambda: engine.set_default_tensor_type("torch.Float"), ValueError, "expected a name such as 'torch.FloatTensor'"),
        (lambda: engine.zeros(1).type("torch.Float"), ValueError, "expected a name such as 'torch.FloatTensor'"),
    ],
)
def test_what_types_of_tensors_refuse(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_tensor_takes_a_type_by_name():
    x = engine.tensor([1.7])
    assert (
        x.type() == "torch.FloatTensor"
        and x.type("torch.LongTensor").tolist() == [1]
        and x.type(engine.DoubleTensor).dtype is engine.float64
    )
    try:
        engine.set_default_tensor_type("torch.DoubleTensor")
        assert engine.zeros(1).dtype is engine.float64
    finally:
        engine.set_default_tensor_type(engine.FloatTensor)
    assert engine.zeros(1).dtype is engine.float32


def test_every_sequence_is_data():
    for data in (deque([1.0, 2.5]), UserList([1.0, 2.5]), array("d", [1.0, 2.5])):
        assert engine.tensor(data).dtype is engine.float32 and engine.tensor(data).tolist() == [1.0, 2.5]
    assert engine.tensor([deque([1, 2])]).tolist() == [[1, 2]] and engine.tensor(bytearray(b"ab")).tolist() == [97, 98]


def test_variable_is_another_tensor_on_the_memory():
    x = engine.ones(2)
    v = engine.autograd.Variable(x, requires_grad=True)
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3, 3] and x.grad is None and v.data_ptr() == x.data_ptr() and isinstance(x, engine.autograd.Variable)
    assert engine.autograd.Variable(v).requires_grad is False and engine.autograd.Variable().shape == (0,)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        engine.autograd.Variable(3)
    with pytest.warns(UserWarning, match="volatile was removed"):
        engine.autograd.Variable(x, volatile=True)


def test_nothing_warns_that_need_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.set_float32_matmul_precision("highest")
