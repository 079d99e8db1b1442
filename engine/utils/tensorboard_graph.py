"""Convert one recorded run of a model to a TensorBoard graph."""

from __future__ import annotations

import importlib
from typing import Any

from ..base import dtypes
from ..nn.module import Module
from ..onnx.record import Recording, Value, flat, values_in

_TYPES = {  # TensorFlow's DataType numbers
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10, "bfloat16": 14,
    "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip


def graph_of(model: Module, args: tuple) -> Any:
    """Return a GraphDef with a node per input, parameter, constant, op and output; modules become name scopes."""

    inputs = {f"input_{i}": t for i, t in enumerate(flat(args))}
    recording = Recording(model, inputs)
    recording.run(args, {})
    scopes = _Scopes(model)
    names: dict[int, str] = {}
    nodes: list[Any] = []

    def add(name: str, op: str, sources: list[str], value: Value) -> str:
        nodes.append(_node(scopes.fresh(name), op, sources, value))
        return nodes[-1].name

    def of(value: Value) -> str:
        if id(value) not in names:
            path, _, last = value.name.rpartition(".")
            if value.kind == "input":
                names[id(value)] = add(f"input/{value.name}", "IO Node", [], value)
            elif value.kind == "parameter":
                names[id(value)] = add(f"{scopes.of(path)}/{last}", "Parameter", [], value)
            else:
                names[id(value)] = add(f"{scopes.of('')}/constant", "Constant", [], value)
        return names[id(value)]

    for event in recording.events:
        sources = [of(v) for v in values_in([event.inputs, list(event.attrs.values())])]
        main = add(f"{scopes.of(event.path)}/{event.op}", event.op, sources, event.outputs[0])
        names.update({id(v): main for v in event.outputs})
    for i, value in enumerate(recording.results):
        add(f"output/output.{i + 1}", "IO Node", [of(value)], value)
    return proto("graph").GraphDef(node=nodes, versions=proto("versions").VersionDef(producer=22))


class _Scopes:
    """Unique node names, such as `Net/Sequential[features]/Conv2d[0]/conv2d`."""

    def __init__(self, model: Module):
        self.modules = dict(model.named_modules())
        self.taken: dict[str, int] = {}

    def of(self, path: str) -> str:
        parts, at = [type(self.modules[""]).__name__], ""
        for step in path.split(".") if path else ():
            at = f"{at}.{step}" if at else step
            parts.append(f"{type(self.modules[at]).__name__}[{step}]")
        return "/".join(parts)

    def fresh(self, name: str) -> str:
        n = self.taken[name] = self.taken.get(name, 0) + 1
        return name if n == 1 else f"{name}_{n - 1}"


def proto(name: str) -> Any:
    """Import one of tensorboardX's protobuf modules, which create their classes at run time."""
    return importlib.import_module(f"tensorboardX.proto.{name}_pb2")


def _node(name: str, op: str, sources: list[str], value: Value) -> Any:
    shapes, attr = proto("tensor_shape").TensorShapeProto, proto("attr_value").AttrValue

    shape = shapes(dim=[shapes.Dim(size=n) for n in value.array.shape])
    kind = _TYPES[dtypes.FROM_NUMPY[value.array.dtype].name]
    attrs = {"_output_shapes": attr(list=attr.ListValue(shape=[shape])), "dtype": attr(type=kind)}
    return proto("node_def").NodeDef(name=name, op=op, input=sources, attr=attrs)
