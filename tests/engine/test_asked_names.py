"""Names that libraries ask for where the engine has nothing of the kind: they can be asked, and refuse to be made or used."""

from __future__ import annotations

import importlib
import pickle

import pytest

import engine
from engine.utils import _pytree


def test_rare_dtypes_can_be_named_and_asked():
    assert repr(engine.float8_e4m3fn) == "torch.float8_e4m3fn" and engine.float8_e4m3fn.itemsize == 1
    assert engine.complex32.is_complex and engine.chalf is engine.complex32 and engine.float32 != engine.float8_e5m2
    assert pickle.loads(pickle.dumps(engine.complex32)) is engine.complex32
    assert engine.finfo(engine.float8_e4m3fn).max == 448 and engine.finfo(engine.float8_e5m2).resolution == 1
    assert engine.finfo(engine.bfloat16).resolution == 0.01 and engine.finfo().resolution == 1e-6
    for use in (lambda: engine.zeros(2, dtype=engine.complex32), lambda: engine.ones(2).to(engine.float8_e5m2)):
        with pytest.raises(TypeError, match="has no such dtype"):
            use()


@pytest.mark.parametrize("make", [
    lambda: engine.SymInt(1),
    lambda: engine._subclasses.FakeTensor(),
    lambda: engine.fx.GraphModule(engine.nn.Linear(1, 1), None),
    lambda: engine.distributed.fsdp.FullyShardedDataParallel(engine.nn.Linear(1, 1)),
    lambda: engine.distributed.fsdp.fully_shard(engine.nn.Linear(1, 1)),
    lambda: engine.distributed.tensor.DTensor.from_local(engine.ones(1)),
    lambda: engine.distributed.tensor.distribute_tensor(engine.ones(1)),
    lambda: engine.distributed.init_device_mesh("cpu", (1,)),
    lambda: engine._C.Value(),
    lambda: engine._C.Graph(),
    lambda: engine._C.ScriptMethod(),
    lambda: engine.fx.Node(None, "x", "call_function", len, (), {}),
    lambda: engine.fx.Transformer(None),
    lambda: engine.fx.symbolic_trace(engine.nn.Linear(1, 1)),
    lambda: engine.ao.quantization.ObserverBase("qint8"),
    lambda: engine.ao.quantization.FakeQuantizeBase(),
    lambda: engine.jit._get_trace_graph(engine.nn.Linear(1, 1), engine.ones(1)),
])  # fmt: skip
def test_what_is_not_here_is_refused(make):
    with pytest.raises(NotImplementedError, match="engine"):
        make()


def test_questions_are_answered():
    from engine.distributed.tensor import Partial, Replicate, Shard

    x = engine.ones(1)
    assert not isinstance(x, (engine.SymInt, engine._subclasses.FakeTensor, engine.distributed.tensor.DTensor))
    with engine._subclasses.fake_tensor.unset_fake_temporarily():
        assert not isinstance(x, (engine.fx.node.Node, engine.fx.Graph, engine._C.ScriptMethod, engine.ao.quantization.FakeQuantizeBase))
    assert not engine._subclasses.is_fake(x) and not engine.distributed.rpc.is_available()
    assert Shard(1) == Shard(1) != Shard(0) and Shard(1).is_shard(1) and not Shard(1).is_shard(0) and Replicate().is_replicate()
    assert [str(p) for p in (Shard(1), Replicate(), Partial())] == ["S(1)", "R", "P(sum)"] and Partial().is_partial("sum")


def test_paths_in_trees():
    tree = {"a": [1, (2,)], "b": 3}
    found, spec = _pytree.tree_flatten_with_path(tree)
    assert [(_pytree.keystr(path), leaf) for path, leaf in found] == [("['a'][0]", 1), ("['a'][1][0]", 2), ("['b']", 3)]
    assert all(_pytree.key_get(tree, path) == leaf for path, leaf in found) and _pytree.tree_unflatten([1, 2, 3], spec) == tree
    assert _pytree.tree_map_with_path(lambda path, x, y: (len(path), x + y), [1, 2], [10, 20]) == [(1, 11), (1, 22)]


def test_records_of_a_checkpoint(tmp_path):
    path = str(tmp_path / "x.pt")
    engine.save({"a": engine.arange(3.0)}, path)
    reader = engine.PyTorchFileReader(path)
    assert {"data.pkl", "data/0"} <= set(reader.get_all_records()) and reader.has_record("data/0")
    assert reader.get_storage_from_record("data/0", 3, engine.float32).tolist() == [0, 1, 2]
    data = reader.get_record("data/0")
    assert data == engine.arange(3.0).numpy().tobytes() and reader.get_record_size("data/0") == 12
    with open(path, "rb") as file:
        file.seek(reader.get_record_offset("data/0"))
        assert file.read(12) == data
    for wrong in (lambda: reader.get_record("zz"), lambda: engine.PyTorchFileReader(path + "x")):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(RuntimeError, match="expected 4 elements"):
        reader.get_storage_from_record("data/0", 4, engine.float32)


def test_a_tensor_is_written_by_its_parts():
    text = engine._tensor_str._tensor_str(engine.ones(2), 0)
    assert text == "[1., 1.]" and engine._tensor_str._add_suffixes("x([1]", ["a=1"], 2, False) == "x([1], a=1)"
    assert engine._tensor_str._str(engine.ones(2)) == "tensor([1., 1.])"


def test_functions_of_tensors_stand_at_pytorchs_second_address_too():
    from engine.compat.functional import einsum, norm

    assert einsum is engine.einsum and norm is engine.norm and engine.functional.split is engine.split
    assert all(getattr(engine.functional, name) is getattr(engine, name) for name in engine.functional.__all__)


def test_many_tensors_as_one_vector_and_back():
    from engine.compat._utils import _flatten_dense_tensors, _unflatten_dense_tensors

    a, b = engine.arange(6.0).reshape(2, 3).t().requires_grad_(), engine.zeros(0, 2)
    flat = _flatten_dense_tensors([a, b, engine.tensor(9.0)])
    assert flat.tolist() == [0, 3, 1, 4, 2, 5, 9]
    (flat * flat).sum().backward()
    assert a.grad.tolist() == [[0, 6], [2, 8], [4, 10]]
    flat = flat.detach()
    parts = _unflatten_dense_tensors(flat, (a, b, engine.tensor(1.0)))
    assert [tuple(p.shape) for p in parts] == [(3, 2), (0, 2), ()] and parts[0].tolist() == [[0, 3], [1, 4], [2, 5]]
    parts[0][0, 1] = 7
    assert flat.tolist() == [0, 7, 1, 4, 2, 5, 9]


def test_switches_of_a_compiler_can_be_set_and_read():
    config = engine._dynamo.config
    assert config.cache_size_limit == 8 and config.suppress_errors is False and config.dynamic_shapes is True  # PyTorch's defaults
    with config.patch(suppress_errors=True, cache_size_limit=64), config.patch("verbose", True):
        assert config.suppress_errors and config.verbose and config.cache_size_limit == 64
    assert not config.suppress_errors and not config.verbose and config.cache_size_limit == 8
    for use in (lambda: config.suppres_errors, lambda: setattr(config, "suppres_errors", True), config.patch(suppres_errors=1).__enter__):
        with pytest.raises(AttributeError, match="torch._dynamo.config.suppres_errors does not exist"):
            use()


def test_private_names_that_public_code_reads():
    from engine.compat._C import Value

    assert engine.cuda._initialized is engine.cuda.is_initialized()  # reversible networks, before they save the GPU's random state
    assert not isinstance(engine.ones(1), Value)
    with engine.distributed.tensor.implicit_replication():
        assert engine.ones(1).item() == 1


def test_named_tuples_are_taken_apart_by_pytorchs_functions():
    from collections import namedtuple

    State = namedtuple("State", "v i")  # as norse registers the states of its neurons
    children, kind = _pytree._namedtuple_flatten(State(1, [2]))
    assert children == [1, [2]] and kind is State and _pytree._namedtuple_unflatten(children, kind) == State(1, [2])


def test_operators_inside_pytorch():
    """Values are PyTorch 2.13's."""
    from engine.ops import aten

    inf = float("inf")
    x = engine.arange(6.0).reshape(3, 2)
    assert aten.slice.Tensor(x, 0, 1, None, 1).tolist() == [[2, 3], [4, 5]]
    assert engine._chunk_cat([x, engine.arange(8.0).reshape(4, 2)], 0, 2).tolist() == [[0, 1, 2, 3, 0, 1, 2, 3], [4, 5, 0, 0, 4, 5, 6, 7]]
    assert engine._safe_softmax(engine.tensor([[0.0, 0.0], [-inf, -inf]]), 1).tolist() == [[0.5, 0.5], [0, 0]]
    mask, at = engine.tensor([True, False]), [engine.tensor([1, 9])]
    assert engine._unsafe_masked_index(x, mask[:, None], at, -1.0).tolist() == [[2, 3], [-1, -1]]
    assert engine._unsafe_masked_index_put_accumulate(x, mask[:, None], at, engine.ones(2, 2)).tolist() == [[0, 1], [3, 4], [4, 5]]
    out, mean, scale, rest = aten._batch_norm_with_update(x, None, None, engine.zeros(2), engine.ones(2), 0.1, 1e-5)
    assert engine.equal(out, engine._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5)[0]) and mean.tolist() == [2, 3]
    assert rest.dtype is engine.uint8 and scale.shape == (2,)
    y = engine.softmax(x, 1)
    assert engine.allclose(engine._softmax_backward_data(x, y, 1, engine.float32), y * (x - (x * y).sum(1, keepdim=True)))
    assert aten.native_dropout_backward(x, x > 2, 2.0).tolist() == [[0, 0], [0, 6], [8, 10]]
    assert engine.tensor(2.0).__rdiv__(3) == 1.5
    assert engine.as_strided_scatter(engine.zeros(4), engine.tensor([1, 2]), (2,), (2,)).tolist() == [1, 0, 2, 0]  # cast as in a copy


@pytest.mark.parametrize("name", ["tensor.parallel", "fsdp.sharded_grad_scaler", "checkpoint.state_dict"])
def test_modules_below_what_is_refused_are_named(name):
    with engine.install_as_torch(), pytest.raises(ModuleNotFoundError, match=f"{name}' in this engine, though PyTorch has it"):
        importlib.import_module(f"torch.distributed.{name}")


def test_conditions_are_stated():
    from engine import _assert, _check, _check_index, _check_tensor_all, _check_value

    yes, no = engine.tensor([True, True]), engine.tensor([True, False])
    assert _assert(engine.tensor(1), "") is _check(True) is _check_index(True) is _check_tensor_all(yes) is None
    with pytest.raises(AssertionError, match="^told$"):
        _assert(engine.tensor(0), "told")
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        _assert(yes, "")
    for check, kind in ((_check, RuntimeError), (_check_index, IndexError), (_check_value, ValueError)):
        with pytest.raises(kind, match="^told$"):
            check(False, lambda: "told")
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        _check_tensor_all(no)
    for wrong in (lambda: _check(yes), lambda: _check(1), lambda: _check_tensor_all(True), lambda: _check_tensor_all(engine.ones(2))):
        with pytest.raises(TypeError, match="^cond "):
            wrong()


def test_types_of_torchscript_are_named():
    number, text, tensor = engine.IntType.get(), engine.StringType.get(), engine.TensorType.get()
    assert tensor is engine.TensorType.get() == tensor != number and engine._C.TensorType is engine.TensorType
    made = engine.ListType(number), engine.OptionalType(tensor), engine.DictType(text, number), engine.TupleType([number, tensor])
    assert [str(t) for t in (number, text, tensor, *made)] == [
        "int", "str", "Tensor", "List[int]", "Optional[Tensor]", "Dict[str, int]", "Tuple[int, Tensor]",
    ]  # fmt: skip
    assert made[0] == engine.ListType(engine.IntType.get()) != engine.OptionalType(number) and made[0].kind() == "ListType"
    assert made[0].getElementType() == made[2].getValueType() == number and made[3].elements() == [number, tensor]
    assert isinstance(tensor, engine.Type) and made[1].annotation_str == "Optional[Tensor]"
    for make in (engine.TensorType, engine.Type):
        with pytest.raises(TypeError, match="No constructor defined!"):
            make()


def test_streams_and_events_of_a_cpu():
    stream, event = engine.Stream(device="cpu"), engine.Event("cpu", enable_timing=True)
    assert repr(stream) == "torch.Stream device_type=cpu, device_index=-1, stream_id=0" and stream == engine.Stream("cpu", priority=-1)
    assert repr(event) == "torch.Event device_type=cpu, device_index=-1, event_flag=1, event_id=0"
    assert stream.query() and event.query() and stream.device == engine.device("cpu")
    assert stream.synchronize() is event.synchronize() is event.wait() is stream.wait_event(event) is None
    with stream as inside:
        assert inside is stream
    for use in (stream.record_event, lambda: event.record(stream), lambda: stream.wait_stream(stream)):
        with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
            use()
    with pytest.raises(ValueError, match="enable_timing=True"):
        event.elapsed_time(engine.Event("cpu"))
    assert engine.get_device_module("cpu") is engine.get_device_module(engine.device("cpu")) is engine.cpu
    assert engine.get_device_module("cuda:0") is engine.cuda
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        engine.get_device_module(3)
    assert isinstance(engine.cuda.Event(), engine.Event) and not isinstance(stream, engine.cuda.Stream)


def test_policies_of_fsdp_answer():
    from engine.distributed import wrapping

    layer, heads, several = engine.nn.Linear(2, 2), engine.nn.MultiheadAttention(2, 1), engine.nn.ModuleList()
    linear = wrapping.ModuleWrapPolicy([engine.nn.Linear])
    assert linear(heads, True) and linear(layer, False) and not linear(heads, False)
    assert wrapping.lambda_auto_wrap_policy(layer, False, 0, lambda m: m is layer) and wrapping.wrap(layer) is layer
    sized = wrapping.size_based_auto_wrap_policy
    assert [sized(layer, r, n, 10) for r, n in ((True, 10), (True, 9), (False, 10))] == [True, False, True]
    assert not sized(heads, True, 10, 10) and sized(heads, False, 10, 10) and not sized(several, False, 10, 10)
    with engine.install_as_torch():
        assert importlib.import_module("torch.distributed.fsdp.wrap") is wrapping


def test_activations_of_transformers_are_found_by_name():
    from engine.nn.modules.transformer import _get_activation_fn, _get_clones

    assert _get_activation_fn("relu") is engine.nn.functional.relu and _get_activation_fn("gelu") is engine.nn.functional.gelu
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        _get_activation_fn("tanh")
    clones = _get_clones(engine.nn.Linear(2, 2), 3)
    assert len(clones) == 3 and engine.equal(clones[0].weight, clones[2].weight) and clones[0].weight is not clones[2].weight


def test_vmap_maps_over_an_index():
    """The masks of attention that transformers makes by `vmap` look up, for each query, in which segment it is."""
    segment = engine.tensor([0, 0, 1, 1])
    same = engine.vmap(engine.vmap(lambda q, k: segment[q] == segment[k], (None, 0)), (0, None))
    with engine._dynamo.TransformGetItemToIndex() as inside:
        assert isinstance(inside, engine._dynamo.TransformGetItemToIndex)
        found = same(engine.arange(4), engine.arange(4))
    assert found.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]


def test_quotients_of_numbers_are_tensors():
    quotients = [engine.div(-7, 2, rounding_mode=mode) for mode in (None, "trunc", "floor")]
    assert [q.item() for q in quotients] == [-3.5, -3, -4] and [q.dtype for q in quotients] == [engine.float32, engine.int64, engine.int64]
    assert engine.legacy_contiguous_format is engine.contiguous_format


def test_private_names_that_libraries_import():
    from engine._vmap_internals import _vmap
    from engine._vmap_internals import vmap as first_vmap

    from engine.autograd.functional import _as_tuple, _construct_standard_basis_for, _grad_postprocess, _tuple_postprocess
    from engine.distributions.multivariate_normal import _precision_to_scale_tril
    from engine.optim.lbfgs import _cubic_interpolate, _strong_wolfe

    x = engine.arange(6.0).reshape(3, 2)
    assert _vmap(lambda a: a.sum())(x).tolist() == [1, 5, 9]
    whole, none = _vmap(lambda a: (2 * a, None), allow_none_pass_through=True)(x)
    assert engine.equal(whole, 2 * x) and none is None
    with pytest.raises(ValueError, match="must only return Tensors"):
        _vmap(lambda a: None)(x)
    with pytest.warns(FutureWarning, match="Please use `torch.vmap` instead"):
        assert engine.equal(first_vmap(lambda a: a)(x), x)

    a, b = engine.ones(2), engine.ones(1, 2, dtype=engine.float64, requires_grad=True)
    basis = _construct_standard_basis_for((a, b), (2, 2))
    assert engine.equal(engine.cat(basis, 1), engine.eye(4, dtype=engine.float64)) and basis[0].dtype is engine.float32
    assert _as_tuple([a, b], "inputs", "f") == (True, (a, b)) and not _grad_postprocess((a, b), False)[1].requires_grad
    assert _tuple_postprocess(((a, b), (b, a)), (False, True)) == (a, b) and _tuple_postprocess(((a,), (b,)), (True, False)) == (a, b)

    factor = _precision_to_scale_tril(engine.tensor([[2.0, 0.5], [0.5, 1.0]]))
    assert factor.flatten().tolist() == pytest.approx([0.75593, 0, -0.37796, 1], abs=1e-5)
    assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0) == 1
    value, slope, t, calls = _strong_wolfe(
        lambda x, t, d: (((x + t * d) ** 2).sum(), 2 * (x + t * d)), a, 0.1, -2 * a, engine.tensor(2.0), 2 * a, engine.tensor(-8.0), c2=0.1
    )
    assert (value, slope.tolist(), t, calls) == (
        pytest.approx(0, abs=1e-6),
        pytest.approx([0, 0], abs=1e-4),
        pytest.approx(0.5, rel=1e-4),
        2,
    )

    engine.manual_seed(1)
    drawn = engine._standard_gamma(engine.tensor([0.3, 1.0, 5.0], requires_grad=True))
    assert drawn.requires_grad and drawn.tolist() == pytest.approx([0.8800, 1.4461, 6.7792], rel=1e-4)
    assert engine._standard_gamma(engine.ones(2), generator=engine.Generator().manual_seed(3)).shape == (2,)


def test_classes_of_traces_can_be_named():
    from engine.fx import Graph, GraphModule, Interpreter, Node, Proxy, Tracer, symbolic_trace

    class Own(Tracer):
        pass

    assert importlib.import_module("engine.fx.node").Node is Node
    assert not isinstance(engine.nn.Linear(1, 1), GraphModule) and not isinstance(engine.ones(1), (Node, Proxy))
    for make in (Graph, Own, Interpreter, lambda: symbolic_trace(engine.nn.Linear(1, 1))):
        with pytest.raises(NotImplementedError, match="this engine has no symbolic traces"):
            make()


@pytest.mark.parametrize("name", ["ConcatDataset", "ChainDataset", "DataLoader", "DistributedSampler", "StackDataset", "Subset"])
def test_classes_of_data_can_be_subscripted(name):
    home = importlib.import_module("engine.utils.data.distributed") if name == "DistributedSampler" else engine.utils.data
    kind = getattr(home, name)

    class Own(kind[int]):
        pass

    assert issubclass(Own, kind) and kind[int].__origin__ is kind
