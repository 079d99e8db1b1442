"""Source text of values and of arguments, drawn at random to suit an operator's signature and the tensors that a program has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

import torch
from fuzz.signatures import Argument, Signature

DTYPES = {
    "float32": 30, "float64": 22, "float16": 5, "bfloat16": 5, "complex64": 5, "complex128": 5, "int64": 12, "int32": 4, "int16": 3,
    "int8": 3, "uint8": 4, "bool": 7, "uint16": 1, "uint32": 1, "uint64": 1,
}  # fmt: skip
# how often a program is of a kind, and the dtypes that it prefers then
THEMES: dict[str, tuple[float, Mapping[str, float]]] = {
    "": (70, DTYPES), "complex": (6, {"complex64": 4, "complex128": 5, "float64": 1}), "low": (5, {"float16": 4, "bfloat16": 5, "float32": 2}),
    "integers": (6, {"int64": 4, "int32": 2, "int16": 2, "int8": 2, "uint8": 3, "bool": 3, "uint16": 1, "uint32": 1, "uint64": 1, "float32": 3}), "special": (8, DTYPES), "float": (5, {"float32": 3, "float64": 3}),
}  # fmt: skip
INDICES = ("index", "indices", "mask", "condition", "target", "targets", "pivots", "offsets", "batch_sizes", "boundaries")
DIMS = ("dim", "dim0", "dim1", "dim2", "axis", "axis0", "axis1", "start_dim", "end_dim", "dimension", "destination", "source", "dims")
WORDS = {
    "reduce": ("sum", "prod", "mean", "amax", "amin"), "rounding_mode": ("trunc", "floor"), "norm": ("forward", "backward", "ortho"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"), "ord": ("fro", "nuc"), "UPLO": ("L", "U"), "side": ("left", "right"),
    "mode": ("reduced", "complete", "r"), "p": ("fro", "nuc"), "padding": ("valid", "same"), "driver": ("gelsd",), "indexing": ("ij", "xy"),
}  # fmt: skip
SORTED = ("boundaries", "sorted_sequence")  # what is found among others leaves PyTorch open
RARELY = 0.06  # how often something is drawn that probably does not fit


class Writer:
    """Draws for one program. `tensors` are PyTorch's, by the names of the program's variables."""

    def __init__(self, random: Random, tensors: dict[str, torch.Tensor], theme: str = "") -> None:
        self.random, self.tensors, self.dtypes, self.special = random, tensors, THEMES[theme][1], 0.25 if theme == "special" else 0.03

    # -- values ------------------------------------------------------------------------------------------------------------------

    def dtype(self) -> str:
        return self.random.choices([*self.dtypes], [*self.dtypes.values()])[0]

    def shape(self) -> list[int]:
        ndim = self.random.choices(range(5), (12, 25, 38, 20, 5))[0]
        return [self.random.choices((0, 1, 2, 3, 4), (3, 15, 35, 40, 7))[0] for _ in range(ndim)]

    def number(self, dtype: str) -> Any:
        r = self.random
        if dtype == "bool":
            return r.random() < 0.5
        if "int" in dtype:
            low = 0 if dtype[0] == "u" else -4
            if r.random() < 0.04:
                return r.choice((torch.iinfo(getattr(torch, dtype)).max, torch.iinfo(getattr(torch, dtype)).min))
            return r.randint(low, 5)
        if "complex" in dtype:
            return complex(self.number("float32"), self.number("float32"))
        if r.random() < self.special:
            return r.choice(
                (0.0, -0.0, math.nan, math.inf, -math.inf, 1e4, 1e-4, *((1e-40, -3e38, 65504.0, 1e-8, 1e30) if r.random() < 0.2 else ()))
            )
        return r.choice((1, -1)) * r.randint(1, 12) / 4 if r.random() < 0.5 else round(r.uniform(-2, 2), 3)

    def literal(self, shape: list[int], dtype: str, most: int | None = None, grad: bool | None = None) -> str:
        """A new tensor; of floats, as often as not one that needs a gradient."""
        count = math.prod(shape)
        draw = (lambda: self.random.randrange(most)) if most else lambda: self.number(dtype)
        text = f"T.tensor({nested([draw() for _ in range(count)], shape)}, dtype=T.{dtype})"
        if 0 in shape and (len(shape) > 1):
            text = f"T.zeros({tuple(shape)}, dtype=T.{dtype})"
        floating = dtype.startswith(("float", "bfloat", "complex"))
        if grad is None:
            grad = floating and self.random.random() < 0.55
        return text + (".requires_grad_()" if grad else "")

    # -- tensors that a program has ----------------------------------------------------------------------------------------------

    def variable(self, wanted: Any = None) -> str | None:
        names = [name for name, x in self.tensors.items() if wanted is None or wanted(x)]
        if not names:
            return None
        return names[-1 - min(int(self.random.expovariate(0.25)), len(names) - 1)]

    def suiting(self, like: torch.Tensor | None, argument: str) -> str:
        """A tensor for an argument beside `like`: one that broadcasts with it, more often than not of its dtype."""
        r = self.random
        if argument.startswith(INDICES) and r.random() < 0.9:
            shape = list(like.shape) if like is not None and r.random() < 0.7 else self.shape()
            if argument.startswith(("mask", "condition")):
                return self.variable(lambda x: x.dtype is torch.bool and list(x.shape) == shape) or self.literal(shape, "bool", None, False)
            if like is not None and argument == "index" and r.random() < 0.5:
                shape = shape[:1] or [1]
            small = min((n for n in like.shape if n), default=1) if like is not None else 3
            return self.literal(shape, r.choices(("int64", "int32"), (9, 1))[0], max(1, small) if r.random() < 0.95 else 9, False)
        if like is None or r.random() < RARELY:
            return self.variable() or self.literal(self.shape(), self.dtype())
        fits = [n for n, x in self.tensors.items() if _broadcast(x.shape, like.shape) and (x.dtype is like.dtype or r.random() < 0.4)]
        if fits and r.random() < 0.75:
            return r.choice(fits)
        shape = [1 if r.random() < 0.2 else n for n in like.shape][r.choice((0, 0, 0, 1)) :]
        return self.literal(shape, str(like.dtype)[6:] if r.random() < 0.6 else self.dtype())

    # -- arguments ---------------------------------------------------------------------------------------------------------------

    def scalar(self, like: torch.Tensor | None) -> str:
        r = self.random
        kind = r.choices(("int", "float", "bool", "complex", "special"), (40, 40, 5, 4, 6))[0]
        if kind == "special":
            return r.choice(("0", "0.0", "-1", "nan", "inf", "300", "-0.5", "1e-40", "9223372036854775808", "-9223372036854775809"))
        return str({"int": lambda: r.randint(-3, 4), "float": lambda: r.randint(-8, 8) / 4, "bool": lambda: r.random() < 0.5}.get(
            kind, lambda: complex(r.randint(-4, 4) / 2, r.randint(-4, 4) / 2))())  # fmt: skip

    def dim(self, like: torch.Tensor | None) -> int:
        n = like.ndim if like is not None else 2
        if self.random.random() < RARELY:
            return self.random.choice((n, -n - 1, n + 3))
        return self.random.randint(-n, n - 1) if n else self.random.choice((0, -1))

    def integer(self, name: str, like: torch.Tensor | None) -> str:
        r = self.random
        if name in DIMS or name.endswith("_dim"):
            return str(self.dim(like))
        if name in ("dtype", "out_dtype"):
            return f"T.{self.dtype()}"
        if name == "memory_format":
            return r.choice(("T.preserve_format", "T.contiguous_format", "T.channels_last"))
        if name in ("steps", "bins", "N", "n", "chunks", "sections", "groups", "minlength", "num_classes", "window_length"):
            return str(r.choice((0, 1, 2, 3, 3, 4, 5, -1) if r.random() < 0.2 else (1, 2, 3, 4)))
        return str(r.choice((0, 1, 1, 2, 2, 3, -1, -2)))

    def integers(self, name: str, like: torch.Tensor | None) -> str:
        r = self.random
        n = like.ndim if like is not None else 2
        if name in DIMS:
            dims = r.sample(range(n), r.randint(0, n)) if n else []
            if name == "dims" and r.random() < 0.8:
                dims = r.sample(range(n), n)
            dims = [d - n if r.random() < 0.4 else d for d in dims]
            if r.random() < RARELY:
                dims.append(self.dim(like))
            return str(r.choice((tuple, list))(dims))
        if name in ("size", "shape") and like is not None:
            return str(tuple(self.reshaped(like)))
        if name == "repeats":
            return str([r.randint(0, 3) for _ in range(n + r.choice((0, 0, 1)))])
        if name == "split_sizes" and like is not None and n:
            size = like.shape[r.randrange(n)]
            first = r.randint(0, size)
            return str([first, size - first])
        return str([r.choice((0, 1, 1, 2, 3, -1)) for _ in range(r.choice((1, 2, 2, n)))])

    def reshaped(self, like: torch.Tensor) -> list[int]:
        """Another shape of as many elements, or one that the tensor can be expanded to."""
        r, count = self.random, like.numel()
        if r.random() < 0.25:
            return [r.randint(1, 2)] * r.randint(0, 1) + [r.choice((-1, n)) if n != 1 else r.randint(1, 3) for n in like.shape]
        shape = [n for n in like.shape if n != 1]
        r.shuffle(shape)
        if len(shape) > 1 and r.random() < 0.4:
            shape = [shape[0] * shape[1], *shape[2:]]
        if r.random() < 0.3:
            shape.insert(r.randint(0, len(shape)), 1)
        if shape and r.random() < 0.3:
            shape[r.randrange(len(shape))] = -1
        if r.random() < RARELY:
            shape.append(count + 2)
        return shape

    def value(self, argument: Argument, like: torch.Tensor | None) -> str:
        r, kind, name = self.random, argument.kind, argument.name
        if argument.optional and r.random() < 0.2:
            return "None"
        if kind == "Tensor":
            return self.suiting(like, name) + (".sort(-1)[0]" if name in SORTED else "")
        if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            return "[" + ", ".join(self.suiting(like, name) for _ in range(r.choice((1, 2, 2, 3)))) + "]"
        if kind == "int" or kind == "SymInt":
            return self.integer(name, like)
        if kind in ("List[int]", "List[SymInt]"):
            return (
                self.integers(name, like) if r.random() < 0.85 or name in ("size", "split_sizes", "repeats") else self.integer(name, like)
            )
        if kind in ("number", "complex"):
            return self.scalar(like)
        if kind == "float":
            return r.choice(("0.5", "1e-05", "0.0", "1.0", "2.0", "-1.0", "3", "0.1"))
        if kind == "bool":
            return str(r.random() < 0.5)
        if kind == "str":
            return repr(r.choice(WORDS.get(name, ("sum",)) if r.random() > RARELY else ("sum", "no")))
        if kind == "List[float]":
            return str([r.randint(-4, 4) / 2 for _ in range(r.choice((1, 2, 3)))])
        return "None"

    def call(self, signature: Signature, itself: str | None = None) -> str | None:
        """The source of one call; None where nothing is known that would fit."""
        r = self.random
        first = signature.arguments[0] if signature.arguments else None
        like = None
        texts: list[str] = []
        rest = signature.arguments
        if first is not None and first.kind == "Tensor":
            itself = itself or self.variable() or self.literal(self.shape(), self.dtype(), grad=False)
            like = self.tensors.get(itself)
            itself += ".sort(-1)[0]" if first.name in SORTED else ""
            rest = signature.arguments[1:]
        positional = True
        for argument in rest:
            if not argument.required and r.random() < 0.6:
                positional = False
                continue
            value = self.value(argument, like)
            positional = positional and not argument.keyword and (argument.required or r.random() < 0.5)
            texts.append(value if positional else f"{argument.name}={value}")
        if first is not None and first.kind == "Tensor" and signature.method and (signature.function is None or r.random() < 0.5):
            return f"{itself}.{signature.method}({', '.join(texts)})"
        if signature.function is None:
            return None
        if first is not None and first.kind == "Tensor":
            texts.insert(0, itself or "")
        return f"{signature.function}({', '.join(texts)})"


def _broadcast(a: Any, b: Any) -> bool:
    return all(n == m or n == 1 or m == 1 for n, m in zip(reversed(a), reversed(b), strict=False))


def nested(values: list, shape: list[int]) -> str:
    """Values in rows of rows, as Python writes them."""
    if not shape:
        return written(values[0])
    size = len(values) // shape[0] if shape[0] else 0
    return "[" + ", ".join(nested(values[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])) + "]"


def written(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({written(value.real)}, {written(value.imag)})"
    return repr(value)


def source(value: Any) -> str | None:
    """A sample's argument as source; None where it cannot be written in a line."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.numel() > 48 or value.dtype is torch.complex32 or value.is_meta:
            return None
        value = value.detach().resolve_conj().resolve_neg()
        name, shape = str(value.dtype)[6:], list(value.shape)
        if 0 in shape:
            return f"T.zeros({tuple(shape)}, dtype=T.{name})"
        flat = [round(v, 4) if isinstance(v, float) else v for v in value.reshape(-1).tolist()]
        text = f"T.tensor({nested(flat, shape)}, dtype=T.{name})"
        if value.ndim > 1 and not value.is_contiguous() and value.mT.is_contiguous():
            turned = [round(v, 4) if isinstance(v, float) else v for v in value.mT.reshape(-1).tolist()]
            text = f"T.tensor({nested(turned, list(value.mT.shape))}, dtype=T.{name}).mT"
        return text
    if isinstance(value, torch.dtype):
        return f"T.{str(value)[6:]}" if value is not torch.complex32 else None
    if isinstance(value, (torch.memory_format, torch.layout)):
        return "T." + str(value).removeprefix("torch.") if value not in (torch.sparse_coo, torch.sparse_csr) else None
    if isinstance(value, torch.device):
        return "'cpu'"
    if isinstance(value, torch.Size):
        return str(tuple(value))
    if isinstance(value, (list, tuple)):
        if type(value) not in (list, tuple):
            return None
        inner = [source(v) for v in value]
        if any(text is None for text in inner):
            return None
        joined = ", ".join(text for text in inner if text is not None)
        return f"[{joined}]" if isinstance(value, list) else f"({joined}{',' if len(inner) == 1 else ''})"
    if isinstance(value, slice):
        return repr(value)
    if isinstance(value, (bool, int, str, type(None), type(Ellipsis))):
        return "..." if value is ... else repr(value)
    if isinstance(value, (float, complex)):
        return written(value)
    return None
