"""The ONNX graph under construction: nodes, initializers and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ..base import dtypes
from .errors import OnnxExporterError
from .record import Event, Value
from .sizes import Dim, Sizes


class Graph:
    """Builds the graph: `g("Relu", x)` adds a node and returns the name of its output."""

    def __init__(self, opset: int, fold: bool, parameters: bool, sizes: Sizes):
        import onnx

        self.onnx, self.opset, self.fold, self.parameters = onnx, opset, fold, parameters
        self.sizes = sizes
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.left_out: dict[str, Any] = {}  # parameters as graph inputs, with export_params=False
        self.names: dict[int, str] = {}  # by identity of the value
        self.dims: dict[tuple[str, int], str] = {}
        self.taken: set[str] = set()
        self.event: Event

    # -- names and nodes ----------------------------------------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        name, n = hint, 1
        while name in self.taken:
            name, n = f"{hint}_{n}", n + 1
        self.taken.add(name)
        return name

    def __call__(self, op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
        names = [self.fresh(f"{op.lower()}_{len(self.nodes)}") for _ in range(outputs)]
        given = ["" if x is None else x for x in inputs]
        while given and given[-1] == "":
            given.pop()
        kept = {k: v for k, v in attrs.items() if v is not None}
        self.nodes.append(self.onnx.helper.make_node(op, given, names, name=names[0], doc_string=self.event.where, **kept))
        return names[0] if outputs == 1 else names

    def constant(self, x: Any, d: Any = None, hint: str = "constant") -> str:
        """Add an initializer and return its name."""
        array = numpy.asarray(x, d)
        name = self.fresh(hint)
        self.initializers[name] = self.onnx.numpy_helper.from_array(numpy.ascontiguousarray(array).reshape(array.shape), name)
        return name

    def ints(self, xs: Sequence[int]) -> str:
        """Return a vector of sizes, some of which may be dynamic."""
        if not any(isinstance(x, Dim) for x in xs):
            return self.constant(xs, numpy.int64)
        return self("Concat", *[self.size(x) for x in xs], axis=0)

    def size(self, x: int) -> str:
        """Return a size as a vector of length 1."""
        if not isinstance(x, Dim):
            return self.constant([x], numpy.int64)
        if not x.input:
            raise OnnxExporterError(f"the size {int(x)} {x.where} changes with the inputs in a way that is not linear: {x.seen}")
        known = self.dims.get((x.input, x.axis))
        if known is None:
            shape = self("Shape", x.input)
            known = self.dims[x.input, x.axis] = self("Gather", shape, self.constant([x.axis], numpy.int64), axis=0)
        if x.factor != 1:
            known = self("Mul", known, self.constant([x.factor], numpy.int64))
        if x.divisor != 1:
            known = self("Div", known, self.constant([x.divisor], numpy.int64))
        return known if x.offset == 0 else self("Add", known, self.constant([x.offset], numpy.int64))

    def fixed(self, xs: Any, what: str) -> list[int]:
        """Return sizes that ONNX requires to be constant. Raises OnnxExporterError if they are dynamic."""
        xs = list(xs)
        if any(isinstance(x, Dim) for x in xs):
            raise OnnxExporterError(f"{self.event.op} {self.event.where}: ONNX needs a fixed {what}, here it follows the inputs' sizes")
        return [int(x) for x in xs]

    # -- values -------------------------------------------------------------------------------------------------------------

    def of(self, value: Value) -> str:
        """Return the name of a value; a constant becomes an initializer on first use."""
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = self._made(value)
        return name

    def _made(self, value: Value) -> str:
        if value.kind == "parameter":
            name = self.fresh(value.name)
            tensor = self.onnx.numpy_helper.from_array(numpy.ascontiguousarray(value.data).reshape(value.array.shape), name)
            (self.initializers if self.parameters else self.left_out)[name] = tensor
            return name
        if value.data is None:
            raise OnnxExporterError(f"a tensor {value.where} was not made by an op that could be seen")
        return self._pattern(value, [value.data, *value.others]) if value.others else self.constant(value.data)

    def shape_of(self, i: int) -> list[int]:
        """Return the shape of the event's i-th input, with `Dim`s for dynamic sizes."""
        value = self.event.inputs[i]
        shapes = value.shapes or [value.array.shape]
        return [self.sizes.solve(tuple(int(s[axis]) for s in shapes), value.where) for axis in range(len(shapes[0]))]

    def _pattern(self, value: Value, seen: list[Any]) -> str:
        """Build a constant of varying size from a detected pattern: a range, a constant fill, or a triangle of ones."""
        data: Any = value.data
        d = data.dtype
        shape = [self.sizes.solve(tuple(x.shape[i] for x in seen), value.where) for i in range(data.ndim)]
        if all(x.size and (x == x.flat[0]).all() for x in seen) and len({x.flat[0] for x in seen}) == 1:
            return self("Expand", self.constant(data.flat[0], d), self.ints(shape))
        if data.ndim == 1 and data.size > 1 and d.kind in "if":
            begin, step = seen[0][0], seen[0][1] - seen[0][0]
            if all(numpy.array_equal(x, (begin + step * numpy.arange(x.size)).astype(d)) for x in seen):
                steps = self(
                    "Range",
                    *[self.constant(n, numpy.int64) for n in (0,)],
                    self("Squeeze", self.ints(shape)),
                    self.constant(1, numpy.int64),
                )
                steps = self.cast(steps, d)
                return self("Add", self("Mul", steps, self.constant(step, d)), self.constant(begin, d))
        for upper, make in ((0, numpy.tril), (1, numpy.triu)):
            for k in (0, 1, -1) if data.ndim == 2 else ():
                fill = seen[0][make(numpy.ones(data.shape, bool), k)].flat[0]
                if all(numpy.array_equal(x, make(numpy.full(x.shape, fill), k)) for x in seen):
                    ones = self("Expand", self.constant(1.0, numpy.float32), self.ints(shape))
                    kept = self.cast(self("Trilu", ones, self.constant(k, numpy.int64), upper=upper), numpy.dtype(bool))
                    if d.kind == "b":
                        return kept
                    return self("Where", kept, self.constant(fill, d), self.constant(0, d))
        raise OnnxExporterError(
            f"a tensor of shape {data.shape} {value.where} is computed outside of the ops that can be seen and changes with the inputs"
        )

    def cast(self, name: str, d: Any) -> str:
        return self("Cast", name, to=self.type_of(d))

    def type_of(self, d: Any) -> int:
        """Return ONNX's code of an element type."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(dtypes.as_numpy(d))
