"""`export`: record a model's run on example inputs and write it as ONNX."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from .. import nn
from ..base import dtypes
from ..core.tensor import Tensor
from ..serialize.source import whole
from . import layers, shapes  # noqa: F401  they fill the table
from .errors import OnnxExporterError, UnsupportedOperatorError
from .graph import Graph
from .record import Event, Recording, Value, flat
from .sizes import Dim, Sizes, merge
from .table import LOGICAL, TABLE

OPSET, LOWEST, HIGHEST = 20, 13, 22
_IR = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}  # opset -> version of the file format
_EMBEDDED = 1 << 31  # bytes, the limit of a protobuf message; larger weights go to a separate file


_state = threading.local()


def running() -> bool:
    """Return whether this thread is inside the model call of an export."""
    return getattr(_state, "running", False)


class ONNXProgram:
    """The result of `export`, with the ONNX model as `model_proto`."""

    def __init__(self, model: Any):
        self.model_proto = model

    def save(self, destination: str | os.PathLike | Any) -> None:
        """Write to a path (atomically) or an open file. Weights of 2 GB and more go to a separate file next to the path."""
        data = self.model_proto.ByteSize() < _EMBEDDED
        if not isinstance(destination, (str, os.PathLike)):
            destination.write(self.model_proto.SerializeToString())
            return
        path = os.fspath(destination)
        if data:
            with whole(path) as file:
                file.write(self.model_proto.SerializeToString())
            return
        import onnx

        onnx.save_model(self.model_proto, path, save_as_external_data=True, location=f"{os.path.basename(path)}.data")

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return (
            f"ONNXProgram({', '.join(i.name for i in graph.input)} -> {', '.join(o.name for o in graph.output)}, {len(graph.node)} nodes)"
        )


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike | Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: Any = None,
    do_constant_folding: bool = True,
    **others: Any,
) -> ONNXProgram:
    """Run `model(*args, **kwargs)` in evaluation mode and export the ops that ran, writing the model to `f` if given.

    `dynamic_axes={"input": {0: "batch"}}`, or `dynamic_shapes` by argument, names variable sizes; the model is then run with several
    sizes to find out which of its own sizes depend on them. It is always run a second time with other values: anything that depends on
    values without being an op, such as a Python number, raises an error instead of being frozen (but a branch that both runs take is
    not detected). `verify` compares with onnxruntime. `dynamo`, `external_data`, `report`, `optimize` and `verbose`, which select among
    PyTorch's implementations, are ignored. An `opset_version` below 13 is converted to if `onnx` can; otherwise the model stays at 13,
    with a warning.

    Raises OnnxExporterError, naming the op, the user's line and the module, for anything that ONNX cannot express.
    """
    try:
        import onnx
    except ImportError as error:
        raise ModuleNotFoundError(
            f"onnx.export needs the package onnx ({error}): pip install gradient-workbench[onnx]", name="onnx"
        ) from error
    _refuse(others, training)
    wanted = OPSET if opset_version is None else int(opset_version)
    if wanted > HIGHEST:
        raise ValueError(f"onnx.export: opset_version {wanted} is not known; the highest is {HIGHEST}")
    args = args if isinstance(args, tuple) else (args,)
    kwargs = dict(kwargs or {})
    if args and isinstance(args[-1], dict) and not kwargs:
        args, kwargs = args[:-1], args[-1]
    inputs = _named_inputs(model, args, kwargs, input_names)
    dynamic = _dynamic(inputs, dynamic_axes, dynamic_shapes, model, args, kwargs)
    was = model.training if isinstance(model, nn.Module) else False
    _state.running = True
    modes = [(m, m.training) for m in model.modules()] if isinstance(model, nn.Module) else []
    if was:
        model.eval()
    try:
        runs, outputs, sizes = _runs(model, args, kwargs, inputs, dynamic)
    finally:
        _state.running = False
        for module, mode in modes:
            module.training = mode
    graph = Graph(max(wanted, LOWEST), do_constant_folding, export_params, sizes)
    proto = _assemble(onnx, graph, runs, outputs, sizes, dynamic, inputs, output_names, keep_initializers_as_inputs, type(model).__name__)
    if wanted < LOWEST:
        proto = _converted(onnx, proto, wanted)
    onnx.checker.check_model(proto, full_check=proto.ByteSize() < _EMBEDDED)
    program = ONNXProgram(proto)
    if verify:
        _verify(proto, inputs, outputs[0])
    if f is not None:
        program.save(f)
    return program


def _refuse(others: dict, training: Any) -> None:
    known = {
        "custom_translation_table", "custom_opsets", "export_modules_as_functions", "operator_export_type", "profile", "fallback",
        "dump_exported_program", "artifacts_dir", "autograd_inlining",
    }  # fmt: skip
    if unknown := sorted(set(others) - known):
        raise TypeError(f"export() got an unexpected keyword argument {unknown[0]!r}")
    for name in ("custom_translation_table", "custom_opsets", "export_modules_as_functions", "operator_export_type"):
        if others.get(name):
            raise ValueError(f"onnx.export: {name} is not supported, got {others[name]!r}")
    if training is not None and getattr(training, "name", training) not in ("EVAL", 0, False):
        raise ValueError(f"onnx.export: only training=TrainingMode.EVAL is supported, got {training!r}")


# -- inputs ---------------------------------------------------------------------------------------------------------------------------


def _with(x: Any, tensors: dict[int, Tensor]) -> Any:
    """Replace the tensors in nested containers."""
    if isinstance(x, Tensor):
        return tensors[id(x)]
    if isinstance(x, Mapping):
        return {k: _with(v, tensors) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[_with(v, tensors) for v in x])
    return type(x)(_with(v, tensors) for v in x) if isinstance(x, (list, tuple)) else x


def _arguments(model: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments by the names of `forward`'s parameters."""
    try:
        bound = inspect.signature(model.forward if isinstance(model, nn.Module) else model).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {f"input_{i}": x for i, x in enumerate((*args, *kwargs.values()))}
    return dict(bound.arguments)


def _named_inputs(model: Any, args: tuple, kwargs: dict, names: Sequence[str] | None) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, x in _arguments(model, args, kwargs).items():
        tensors = flat(list(x.values()) if isinstance(x, Mapping) else x)
        for i, t in enumerate(tensors):
            found[name if isinstance(x, Tensor) else f"{name}_{i}"] = t
    if not found:
        raise ValueError("onnx.export: expected example inputs with at least one tensor in args")
    if names:
        if len(names) > len(found):
            raise ValueError(f"onnx.export: {len(names)} input_names were given, the model was called with {len(found)} tensors")
        found = dict(zip([*names, *list(found)[len(names) :]], found.values(), strict=True))
    return found


def _dynamic(
    inputs: dict[str, Tensor], axes: Any, dims: Any, model: Any, args: tuple, kwargs: dict
) -> dict[tuple[str, int], str]:  # fmt: skip
    """Return (input, axis) -> name of the dynamic size."""
    found: dict[tuple[str, int], str] = {}
    for name, sizes in (axes or {}).items():
        if name in inputs:
            for axis in sizes:
                called = str(sizes[axis]) if isinstance(sizes, Mapping) else f"{name}_dynamic_axes_{axis}"
                found[name, _axis(name, inputs[name], int(axis))] = called
    if dims is not None:
        given = dims.values() if isinstance(dims, Mapping) else dims
        named = list(inputs)
        for name, sizes in zip(named, given, strict=False):
            pairs = enumerate(sizes) if isinstance(sizes, (tuple, list)) else (sizes or {}).items()
            for axis, size in pairs:
                if size is not None and not isinstance(size, int):
                    called = size if isinstance(size, str) else getattr(size, "__name__", None) or f"{name}_dim_{axis}"
                    found[name, _axis(name, inputs[name], int(axis))] = str(called)
    return found


def _axis(name: str, tensor: Tensor, axis: int) -> int:
    if not -tensor.dim() <= axis < tensor.dim():
        raise ValueError(f"onnx.export: the input {name} has {tensor.dim()} dimensions, got the dynamic axis {axis}")
    return axis % tensor.dim()


# -- runs -----------------------------------------------------------------------------------------------------------------------------


def _runs(model: Any, args: tuple, kwargs: dict, inputs: dict[str, Tensor], dynamic: dict) -> tuple[list[Recording], list, Sizes]:
    """Run the model on the example, then with other values and sizes."""
    first = {id(t): t.detach().clone() for t in inputs.values()}
    recordings, outputs = [], []

    def run(tensors: dict[int, Tensor]) -> None:
        recording = Recording(model, {name: tensors[id(t)] for name, t in inputs.items()})
        outputs.append(flat(recording.run(_with(args, tensors), _with(kwargs, tensors))))
        recordings.append(recording)

    run(first)
    names = list(dict.fromkeys(dynamic.values()))
    batches = {called for (_, axis), called in dynamic.items() if axis == 0}
    wrong: Exception | None = None
    for step in (1, -1, 2, -2, 8, -8, 16, -16, 32, 64) if names else (0,):
        changes = [{name: _change(run, i, step, name in batches) for i, name in enumerate(names)} for run in range(2 if names else 1)]
        del recordings[1:], outputs[1:]
        try:
            for change in changes:
                run({id(t): _other(name, t, dynamic, change) for name, t in inputs.items()})
            break
        except (RuntimeError, ValueError, IndexError, AssertionError) as error:
            if isinstance(error, OnnxExporterError):
                raise
            wrong = error
    else:
        raise OnnxExporterError(f"the model did not run with any other size of {', '.join(names)}: {wrong}") from wrong
    seen = {
        (name, axis): tuple(int(r.given[name].array.shape[axis]) for r in recordings) for name, axis in dynamic
    }  # fmt: skip
    return recordings, outputs, Sizes(seen)


_MORE = ((1, 2, 3, 4, 5, 6, 7, 8), (3, 1, 5, 7, 2, 11, 4, 13))  # no two columns are proportional, so the changes identify a size


def _change(run: int, i: int, step: int, batch: bool) -> int:
    """Return the change of the i-th size in a further run. Batch sizes change by small steps; image sizes may need steps of 16."""
    return _MORE[run][i % 8] * (step if not batch or abs(step) < 4 else 1 if step > 0 else -1)


def _other(name: str, tensor: Tensor, dynamic: dict, change: dict[str, int]) -> Tensor:
    """Return the input with other sizes and values; elements repeat along a growing size."""
    array = tensor._host()
    for axis in range(array.ndim):
        size = array.shape[axis] + change.get(dynamic.get((name, axis), ""), 0)
        if size < 1:
            raise ValueError(f"{name} cannot have the size {size}")
        array = numpy.take(array, numpy.arange(size) % array.shape[axis], axis)
    if array.size > 1:
        array = numpy.roll(array.reshape(-1), 1).reshape(array.shape)
    if array.dtype.kind in "fV":
        array = (array.astype(numpy.float64) * 0.875 + 0.0625).astype(array.dtype)
    return Tensor._wrap(array).to(tensor.device)


# -- the graph ------------------------------------------------------------------------------------------------------------------------


def _assemble(
    onnx: Any, g: Graph, runs: list[Recording], outputs: list, sizes: Sizes, dynamic: dict, inputs: dict, output_names: Any,
    keep: bool, title: str,
) -> Any:  # fmt: skip
    helper = onnx.helper
    for name in inputs:
        g.names[id(runs[0].given[name])] = name
        g.taken.add(name)
    names = list(output_names or [])
    results = runs[0].results
    if len(names) > len(results):
        raise ValueError(f"onnx.export: {len(names)} output_names were given, the model has {len(results)} results")
    names += [f"output_{i}" if len(results) > 1 else "output" for i in range(len(names), len(results))]
    g.taken |= set(names)
    for event in merge(runs, sizes):
        if event.traced or not g.fold or any(v.data is None for v in event.outputs):
            translate(g, event)
    _name_results(g, names, results)
    ins = [_info(helper, g, name, t.array.dtype, _dims(t.array.shape, name, dynamic)) for name, t in inputs.items()]
    for name, tensor in g.left_out.items() if not keep else {**g.left_out, **g.initializers}.items():
        ins.append(helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
    outs = []
    for i, name in enumerate(names):
        seen = [run[i].shape for run in outputs]
        d = [sizes.solve(tuple(int(s[axis]) for s in seen), f"of the output {name}") for axis in range(len(seen[0]))]
        outs.append(_info(helper, g, name, outputs[0][i].array.dtype, [_word(n, dynamic) for n in d]))
    graph = helper.make_graph(_used(g.nodes, names), title, ins, outs, list(g.initializers.values()))
    _drop_unused(graph)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], producer_name="gradient-workbench")
    proto.ir_version = _IR[g.opset]
    return proto


def _name_results(g: Graph, names: list[str], results: list[Value]) -> None:
    """Rename the results to the output names in the nodes that compute them."""
    g.event = Event("output", [], {}, [], "")
    made = {out for node in g.nodes for out in node.output}
    new: dict[str, str] = {}
    for name, value in zip(names, results, strict=True):
        old = g.of(value)
        if old in made and old not in new:
            new[old] = name
        else:  # an input, a parameter, or a repeated result
            g.nodes.append(g.onnx.helper.make_node("Identity", [old], [name]))
    for node in g.nodes:
        for part in (node.input, node.output):
            for i, old in enumerate(part):
                part[i] = new.get(old, old)


def _used(nodes: list, outputs: list[str]) -> list:
    """Return the nodes that the outputs depend on."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    return kept[::-1]


def _drop_unused(graph: Any) -> None:
    used = {name for node in graph.node for name in node.input} | {i.name for i in graph.input}
    kept = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _dims(shape: tuple, name: str, dynamic: dict) -> list:
    return [dynamic.get((name, axis), int(n)) for axis, n in enumerate(shape)]


def _word(n: int, dynamic: dict) -> Any:
    """Return an output size as a number, the name of an input's size, or None if unknown."""
    if not isinstance(n, Dim):
        return int(n)
    return dynamic[n.input, n.axis] if n.input and (n.factor, n.divisor, n.offset) == (1, 1, 0) else None


def _info(helper: Any, g: Graph, name: str, d: Any, shape: list) -> Any:
    return helper.make_tensor_value_info(name, g.type_of(d), shape)


def translate(g: Graph, event: Event) -> None:
    """Add an event's nodes to the graph."""
    translation = TABLE.get(event.op)
    if translation is None:
        raise UnsupportedOperatorError(
            f"onnx.export: the op {event.op} {event.where} has no translation to ONNX (engine/onnx/table.py and its neighbors)"
        )
    g.event = event
    try:
        found = translation(g, *_operands(g, event), **event.attrs)
    except OnnxExporterError as error:
        if event.where and event.where not in str(error):
            raise type(error)(f"{error} ({event.op} {event.where})") from error
        raise
    for value, name in zip(event.outputs, found if isinstance(found, tuple) else (found,), strict=False):
        g.names[id(value)] = name


def _operands(g: Graph, event: Event) -> list[Any]:
    """Return the inputs' names, cast to the op's promoted dtype; scalars become constants of that dtype."""
    op = event.kind
    arrays = tuple(v.array if isinstance(v, Value) else v for v in event.inputs)
    want = None
    if op is not None and op.types in ("promote", "float") and op.name not in ("where", "masked_fill"):
        want = dtypes.result(arrays)
        want = dtypes.default if op.types == "float" and want.rank < dtypes.FLOAT else want
    elif event.op in ("where", "masked_fill", "fill", "copy") and event.outputs:
        want = dtypes.FROM_NUMPY[event.outputs[0].array.dtype]
    if event.op in LOGICAL:
        want = dtypes.bool_
    names: list[Any] = []
    for i, x in enumerate(event.inputs):
        truth = event.op == "where" and i == 0 or event.op == "masked_fill" and i == 1
        d = dtypes.bool_ if truth else want
        if isinstance(x, Value):
            name = g.of(x)
            names.append(name if d is None or x.array.dtype == d.numpy else g.cast(name, d))
        else:
            names.append(x if x is None or isinstance(x, str) else g.constant(x, event.outputs[0].array.dtype if d is None else d.numpy))
    return names


def _converted(onnx: Any, proto: Any, wanted: int) -> Any:
    """Convert the model to an older opset; as in PyTorch, keep it with a warning if that fails."""
    from onnx import version_converter

    try:
        older = version_converter.convert_version(proto, wanted)
        onnx.checker.check_model(older, full_check=True)
    except (RuntimeError, ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        told = str(error).strip().splitlines()[0][:200]
        warnings.warn(f"onnx.export: could not convert to opset {wanted}; the model stays at {LOWEST} ({told})", UserWarning, stacklevel=3)
        return proto
    return older


def _verify(proto: Any, inputs: dict[str, Tensor], outputs: list[Tensor]) -> None:
    try:
        import onnxruntime
    except ImportError as error:
        raise ModuleNotFoundError(f"onnx.export(verify=True) needs onnxruntime: {error}", name="onnxruntime") from error
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {i.name for i in session.get_inputs()}
    found = session.run(None, {name: t._host() for name, t in inputs.items() if name in given})
    for i, (ours, theirs) in enumerate(zip(outputs, found, strict=True)):
        if not numpy.allclose(ours._host(), theirs, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise OnnxExporterError(f"onnxruntime's output {i} differs by {numpy.abs(ours._host() - theirs).max()}")
