"""What public libraries ask of PyTorch beyond its documented functions: private names, operators that stand back, numbers as tensors."""

from __future__ import annotations

import importlib
import inspect
import io
import math
import pickle
import typing
from types import SimpleNamespace

import numpy
import pytest

import engine
from engine import nn
from engine.data import DataLoader, IterableDataset
from engine.optim import optimizer as optimizers
from engine.optim.optimizer import (
    _default_to_fused_or_foreach,
    _get_value,
    _group_tensors_by_device_and_dtype,
    _use_grad_for_differentiable,
)
from engine.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from grouping import grouped

t = engine.tensor


class Other:
    def __rmul__(self, other):
        return "rmul"

    def __rsub__(self, other):
        return "rsub"

    def __rpow__(self, other):
        return "rpow"

    def __rmatmul__(self, other):
        return "rmatmul"

    def __gt__(self, other):
        return "gt"


@grouped(
    "found, expected",
    [
        (lambda: t(2) * Other(), "rmul"),
        (lambda: t(2) - Other(), "rsub"),
        (lambda: t(2) ** Other(), "rpow"),
        (lambda: t([2]) @ Other(), "rmatmul"),
        (lambda: t(2) < Other(), "gt"),
        (lambda: (1, 2) * t(2), (1, 2, 1, 2)),
        (lambda: [0] * t([3]), [0, 0, 0]),
        (lambda: t(2) * "ab", "abab"),
        (lambda: engine.Tensor.__add__(t(2), "a"), NotImplemented),
    ],
)
def test_operators_leave_to_the_other_operand_what_they_do_not_know(found, expected):
    assert found() == expected


X = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)


@grouped(
    "found, expected",
    [
        (lambda x, n: engine.linspace(0, 1, n(3)), [0, 0.5, 1]),
        (lambda x, n: x.narrow(n(1), n(0), n(2)), X[:, :2]),
        (lambda x, n: x.select(n(1), n(0)), X[:, 0]),
        (lambda x, n: x.split(n(1))[1], X[1:]),
        (lambda x, n: x.chunk(n(2))[1], X[1:]),
        (lambda x, n: x.roll(n(1)), [[5, 0, 1], [2, 3, 4]]),
        (lambda x, n: x[:1].squeeze(n(0)), X[0]),
        (lambda x, n: x.unbind(n(0))[1], X[1]),
        (lambda x, n: x.index_select(n(1), t([0])), X[:, :1]),
        (lambda x, n: engine.randperm(n(1)), [0]),
        (lambda x, n: engine.histc(x, n(3), n(0), n(5)), [2, 2, 2]),
        (lambda x, n: nn.functional.conv1d(x[None], engine.ones(1, 2, 1), stride=n(1)), [[[3, 5, 7]]]),
        (lambda x, n: nn.functional.avg_pool1d(x[None], n(2)), [[[0.5], [3.5]]]),
        (lambda x, n: nn.functional.interpolate(x[None], size=n(4)), [[[0, 0, 1, 2], [3, 3, 4, 5]]]),
    ],
)
def test_a_tensor_of_one_number_stands_for_a_number(found, expected):
    numpy.testing.assert_array_equal(found(t(X), t).numpy(), expected)


@grouped(
    "name, args, expected",
    [
        ("add", ([t([1.0]), t([2.0])], 2), [3, 4]),
        ("add", ([t([1.0]), t([2.0])], [t([3.0]), t([4.0])]), [4, 6]),
        ("sub", ([t([1.0]), t([2.0])], [3, 4]), [-2, -2]),
        ("mul", ([t([1.0]), t([2.0])], t(5.0)), [5, 10]),
        ("maximum", ([t([1.0]), t([2.0])], 1.5), [1.5, 2]),
        ("pow", ([t([3.0]), t([2.0])], 2), [9, 4]),
        ("addcmul", ([t([1.0]), t([2.0])], [t([2.0])] * 2, [t([3.0])] * 2, [1, 10]), [7, 62]),
        ("addcdiv", ([t([1.0]), t([2.0])], [t([2.0])] * 2, [t([4.0])] * 2, t([2.0, 4.0])), [2, 4]),
        ("lerp", ([t([1.0]), t([2.0])], [t([3.0])] * 2, 0.5), [2, 2.5]),
        ("sqrt", ([t([4.0]), t([9.0])],), [2, 3]),
    ],
)
def test_an_op_on_each_tensor_of_a_list(name, args, expected):
    args = (args[0] and [x.clone() for x in args[0]], *args[1:])
    out = getattr(engine, f"_foreach_{name}")(*args)
    assert type(out) is tuple and [x.item() for x in out] == expected
    assert getattr(engine, f"_foreach_{name}_")(*args) is args[0] and [x.item() for x in args[0]] == expected


def test_the_rest_of_the_ops_on_lists():
    pair = [t([3.0, -4.0]), t([1.0])]
    assert [x.item() for x in engine._foreach_norm(pair)] == [5, 1] and [x.item() for x in engine._foreach_norm(pair, math.inf)] == [4, 1]
    assert [x.item() for x in engine._foreach_max(pair)] == [3, 1] and [x.item() for x in engine._foreach_powsum(pair, 2)] == [25, 1]
    assert [x.tolist() for x in engine._foreach_pow(2.0, pair)] == [[8, 0.0625], [2]]
    with pytest.raises(RuntimeError, match="at least one tensor"):
        engine._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number"):
        engine._foreach_add_(pair, [1.0])
    engine._foreach_copy_(pair, [engine.ones(2), engine.ones(1)])
    assert [x.tolist() for x in pair] == [[1, 1], [1]]
    assert [x.tolist() for x in engine._foreach_zero_(pair)] == [[0, 0], [0]]


def test_what_optimizers_of_libraries_take_from_pytorchs():
    p = nn.Parameter(engine.ones(2))
    assert _get_value(t(3.0)) == 3 and _get_value(4) == 4
    assert _default_to_fused_or_foreach([p.detach()], False) == (False, False)
    assert _default_to_fused_or_foreach([p.detach()], False, use_fused=True) == (True, False)
    f32, i64 = (engine.device("cpu"), engine.float32), (engine.device("cpu"), engine.int64)
    a, b, c = engine.ones(1), t([1]), engine.zeros(1)
    assert _group_tensors_by_device_and_dtype([[a, b, c], [None, b, c]], True) == {
        f32: ([[a, c], [None, c]], [0, 2]),
        i64: ([[b], [b]], [1]),
    }

    class Own(engine.optim.Optimizer):
        def __init__(self, params: optimizers.ParamsT, differentiable: bool) -> None:
            super().__init__(params, {"differentiable": differentiable})

        @_use_grad_for_differentiable
        def step(self, closure=None):
            return engine.is_grad_enabled()

    assert [Own([p], differentiable).step() for differentiable in (False, True)] == [False, True]
    own, told = Own([p], False), []
    own.register_step_pre_hook(lambda *args: told.append("own"))
    handle = optimizers.register_optimizer_step_pre_hook(lambda *args: told.append("all"))
    assert len(own._optimizer_step_pre_hooks) == 1 and handle.id in optimizers._global_optimizer_pre_hooks
    own.step()
    handle.remove()
    assert told == ["all", "own"] and not optimizers._global_optimizer_pre_hooks


def test_a_librarys_loader_is_passed_over():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([[1], [2]])

    loader = SimpleNamespace(  # what fastai's has of PyTorch's
        dataset=Stream(), _dataset_kind=_DatasetKind.Iterable, _auto_collation=False, collate_fn=lambda x: x, drop_last=False,
        _index_sampler=range(9), generator=None, num_workers=0, pin_memory=False, _IterableDataset_len_called=None,
    )  # fmt: skip
    assert list(_SingleProcessDataLoaderIter(loader)) == [[1], [2]]
    theirs = DataLoader(range(4), batch_size=2)
    assert isinstance(iter(theirs), _SingleProcessDataLoaderIter) and theirs._dataset_kind == _DatasetKind.Map and theirs._auto_collation
    assert not issubclass(_MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter)


def test_a_parameter_as_numpy_where_nothing_is_recorded():
    p = nn.Parameter(engine.ones(2))
    with engine.no_grad():
        assert p.numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="requires grad"):
        p.numpy()


def test_modules_load_by_pytorchs_names_of_the_arguments():
    class Own(nn.BatchNorm1d):
        def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
            super()._load_from_state_dict(
                state_dict=state_dict, prefix=prefix, local_metadata=local_metadata, strict=strict, missing_keys=missing_keys,
                unexpected_keys=unexpected_keys, error_msgs=error_msgs,
            )  # fmt: skip

    assert str(Own(2).load_state_dict(nn.BatchNorm1d(2).state_dict())) == "<All keys matched successfully>"


def test_classes_that_take_types_in_annotations():
    data, parallel, independent = engine.utils.data, engine.nn.DataParallel, engine.distributions.Independent
    for generic in (
        data.DataLoader,
        data.Dataset,
        data.Sampler,
        data.Subset,
        data.DistributedSampler,
        parallel,
        independent,
        engine.futures.Future,
    ):
        assert generic[engine.nn.Linear].__origin__ is generic
    assert list(data.DataLoader[int]([1, 2], batch_size=2))[0].tolist() == [1, 2]


def test_parameters_and_buffers_do_not_dispatch():
    """A subclass calls it where it wants the plain result: with another class's types the default one would not implement the call."""

    class Recorded(engine.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return engine.nn.Parameter.__torch_function__(func, types, args, kwargs)

    x = engine.ones(2).as_subclass(Recorded)
    assert (
        type(engine.relu(x)) is engine.Tensor
        and type(engine.nn.Buffer.__torch_function__(engine.add, (Recorded,), (x, 1))) is engine.Tensor
    )


def test_names_of_activations_are_told_apart():
    """A table of the classes in the module, by name and whatever underscores and capitals, has one class for each name of a public one."""
    module = importlib.import_module("engine.nn.modules.activation")
    names = [
        name.strip("_").lower() for name, found in vars(module).items() if isinstance(found, type) and issubclass(found, engine.nn.Module)
    ]
    assert len(set(names)) == len(names)


def test_annotations_of_layers_are_read_with_other_names_around():
    with engine.install_as_torch():
        hints = typing.get_type_hints(nn.MSELoss(), globalns={}, localns={})  # as fastai does
        assert hints["training"] is bool


def test_classes_say_where_pytorch_has_them():
    before = nn.Linear.__module__
    with engine.install_as_torch():
        from torch.optim.lr_scheduler import MultiStepLR

        found = [
            c.__module__ for c in (MultiStepLR, nn.Linear, engine.optim.RMSprop, DataLoader, engine.distributions.Normal, nn.init.ones_)
        ]
        assert found == [
            "torch.optim.lr_scheduler", "torch.nn.modules.linear", "torch.optim.rmsprop", "torch.utils.data.dataloader",
            "torch.distributions.normal", "torch.nn.init",
        ]  # fmt: skip
        for kind in (nn.GRU, engine.optim.Adam, engine.distributions.Normal, nn.functional.relu):
            assert pickle.loads(pickle.dumps(kind)) is kind
        assert inspect.getsource(nn.Linear).startswith("class Linear")
        file = io.BytesIO()
        engine.save([nn.GRU(1, 1), engine.distributions.Normal(0.0, 1.0)], file)
        layer, normal = engine.load(io.BytesIO(file.getvalue()), weights_only=False)
        assert type(layer) is nn.GRU and type(normal) is engine.distributions.Normal
    assert nn.Linear.__module__ == before
    layer, normal = engine.load(io.BytesIO(file.getvalue()), weights_only=False)  # by PyTorch's addresses
    assert type(layer) is nn.GRU and type(normal) is engine.distributions.Normal


@grouped(
    "found, names",
    [
        (nn.functional.relu, "input inplace"),
        (nn.functional.hardtanh, "input min_val max_val inplace"),
        (nn.functional.layer_norm, "input normalized_shape weight bias eps"),
        (nn.functional.rms_norm, "input normalized_shape weight eps"),
        (nn.RMSNorm.forward, "self x"),
        (nn.AdaptiveLogSoftmaxWithLoss.forward, "self input_ target_"),
    ],
)
def test_signatures_that_libraries_read(found, names):
    assert list(inspect.signature(found).parameters) == names.split()


def test_parts_of_transformer_layers_can_be_written_anew():
    class Own(nn.TransformerDecoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            return x * 0

        def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
            return mem * 0

        def _ff_block(self, x):
            return x * 2

    x, layer = engine.arange(8.0).reshape(1, 2, 4), Own(4, 2, 8, norm_first=True).eval()
    engine.testing.assert_close(layer(x, x), x + 2 * layer.norm3(x))


def test_a_schedule_of_a_programs_own_in_closed_form():
    class Own(engine.optim.lr_scheduler.LRScheduler):
        def get_lr(self):
            return self.base_lrs

        def _get_closed_form_lr(self):
            return [self.last_epoch * 1.0 for _ in self.base_lrs]

    optimizer = engine.optim.SGD([nn.Parameter(engine.ones(1))], lr=0.1)
    schedule = Own(optimizer)
    optimizer.step()
    with pytest.warns(UserWarning, match="closed form"):
        schedule.step(7)
    assert schedule.get_last_lr() == [7.0]


def test_a_distribution_of_a_programs_own_expands():
    class Own(engine.distributions.Distribution):
        arg_constraints = {}

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Own, _instance)
            super(Own, new).__init__(batch_shape, validate_args=False)
            return new

    class Other(Own):
        def __init__(self):
            super().__init__()

    assert tuple(Own(validate_args=False).expand((2,)).batch_shape) == (2,)
    with pytest.raises(NotImplementedError, match="custom .expand"):
        Other().expand((2,))


def test_tables_of_hooks_of_all_modules():
    module = importlib.import_module("engine.nn.module")
    handles = [module.register_module_forward_hook(print), module.register_module_parameter_registration_hook(lambda *args: None)]
    assert handles[0].id in module._global_forward_hooks and handles[1].id in module._global_parameter_registration_hooks
    for handle in handles:
        handle.remove()
    assert not module._global_forward_hooks and not module._global_parameter_registration_hooks


def test_helpers_of_layers_are_attributes_too():
    assert nn.modules.utils._pair(3) == (3, 3)
    internal = importlib.import_module("engine._utils")
    assert internal._get_device_index("cuda:1") == 1 and internal._get_device_index("cpu", allow_cpu=True) == -1
    assert internal._element_size(engine.float64) == 8
    with pytest.raises(ValueError, match="non cpu"):
        internal._get_device_index("cpu")


def test_names_of_recurrent_weights():
    gru = nn.GRU(2, 3, bidirectional=True)
    assert gru._flat_weights_names == [name for name, _ in gru.named_parameters()]


@grouped(
    "found, expected",
    [
        (lambda: engine.hash_tensor(t([1.0, 2.0, 3.0])), 0x3FF8 << 48),  # of 1, 2, 3 in float64: 3FF0, 4000, 4008
        (lambda: engine.hash_tensor(t([[1, 2], [3, 4]]), 1), [3, 7]),
        (lambda: engine.hash_tensor(t([1, -2], dtype=engine.int8)), 2**64 - 1),
        (lambda: engine.histogram(engine.arange(3.0))[0].sum(), 3),
        (lambda: engine.histogram(engine.arange(3.0))[1].shape[0], 101),
        (lambda: engine.histogram(engine.arange(10.0), t([0.0, 3.0, 2.0, 9.0]))[0], [2, 0, 8]),
        (lambda: engine.histogramdd(t([[0.6, 0.9], [0.2, 0.1]]), [t([0.0, 0.5, 1.0]), t([1.0, 0.5, 0.0])])[0], [[0, 0], [0, 0]]),
        (lambda: engine._convert_indices_from_coo_to_csr(t([0, 0, 1, 3]), 5), [0, 2, 3, 3, 4, 4]),
        (lambda: engine._convert_indices_from_csr_to_coo(t([0, 2, 3]), t([1, 2, 0])), [[0, 0, 1], [1, 2, 0]]),
        (lambda: engine._convert_indices_from_csr_to_coo(t([0, 2, 3]), t([1, 2, 0]), transpose=True), [[1, 2, 0], [0, 0, 1]]),
        (lambda: engine._shape_as_tensor(engine.ones(2, 3)), [2, 3]),
        (lambda: engine.matrix_power(t([[2.0]], requires_grad=True), 0).requires_grad, True),
        (lambda: engine.linalg.householder_product(t([[2.0]], requires_grad=True), engine.ones(0)).requires_grad, True),
    ],
)
def test_corners_that_public_programs_came_to(found, expected):
    found = found()
    assert (found.tolist() if isinstance(found, engine.Tensor) else found) == expected


def test_the_gradient_of_rotary_embeddings_as_complex_numbers():
    q = engine.arange(16.0).reshape(2, 8).requires_grad_()
    turned = engine.view_as_real(engine.view_as_complex(q.reshape(2, 4, 2)) * engine.polar(engine.ones(4), engine.arange(4.0)))
    turned.permute(2, 0, 1).reshape(2, -1)[0].sum().backward()  # its gradient does not lie as pairs
    angles = numpy.arange(4)
    numpy.testing.assert_allclose(
        q.grad.numpy(), numpy.tile(numpy.stack([numpy.cos(angles), -numpy.sin(angles)], -1).reshape(-1), (2, 1)), atol=1e-6
    )


def test_nothing_is_compiled():
    extension = importlib.import_module("engine.utils.cpp_extension")
    assert not extension.is_ninja_available()
    for name in ("load", "load_inline", "CppExtension", "BuildExtension"):
        with pytest.raises(NotImplementedError, match="compiles no C"):
            getattr(extension, name)("x", ["x.cpp"])


def test_marks_for_scripts():
    internal = importlib.import_module("engine._jit_internal")
    pick = internal.boolean_dispatch("both", 1, False, lambda x, both=False: (x, x), lambda x, both=False: x, "m", "f")
    assert pick(1) == 1 and pick(1, True) == pick(1, both=True) == (1, 1) and pick.__name__ == "f"
    assert internal.is_optional(int | None) and not internal.is_optional(int) and internal.is_tuple(tuple[int, int])


def test_torch_names_itself_while_installed():
    with engine.install_as_torch():
        import torch

        assert torch.__name__ == "torch" and torch._assert_async(t(True)) is None
    assert engine.__name__ == "engine"
