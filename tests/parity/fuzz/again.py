"""A program run again on PyTorch alone: in double precision, with its results rounded otherwise, or with some of it written otherwise."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import CodeType
from typing import Any

import torch
from fuzz.prelude import names
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WIDER = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}


# decompositions, and what is made of them: of a singular matrix they have no one answer
DECOMPOSES = re.compile(
    r"(qr|svd\w*|p?inv\w*|eig\w*|lu|lu_\w+|lstsq|cond|\w*rank|solve\w*|\w*solve|\w*det|\w*norm|cholesky\w*|lobpcg|pca)\("
)
GRADIENT = re.compile(r"autograd\.grad|backward|func\.")


def refusal(code: CodeType, space: dict[str, Any]) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code, space)
        except Exception as error:
            return error.with_traceback(None)
    return None


def _run(lines: Iterable[str], around: Any = None, **more: Any) -> dict[str, Any]:
    space = names(torch) | more
    with torch.random.fork_rng(), around or nullcontext():
        for line in lines:
            refusal(compile(line, "<again>", "exec"), space)
    return space


def wide(lines: Iterable[str]) -> dict[str, Any]:
    """What the lines make in double precision."""
    wider = (re.sub(rf"T\.({'|'.join(WIDER)})\b", lambda m: f"T.{WIDER[m[1]]}", line) for line in lines)
    wider = (re.sub(r"\.(half|bfloat16|float)\(\)", r".\1().double()", line) for line in wider)
    return _run((re.sub(r"T\.autocast\('cpu'[^)]*\)", "T.autocast('cpu', enabled=False)", line) for line in wider), _doubles())


@contextmanager
def _doubles() -> Iterator[None]:
    """What PyTorch makes of integers is of double precision too."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def shaken(lines: Iterable[str], seed: int) -> dict[str, Any]:
    """What the lines make when the last bit of whatever PyTorch computes on the way is another one."""
    return _run(lines, _Shaking(seed))


def moved(lines: list[str], seed: int) -> dict[str, Any]:
    """What the lines make when what they ask of, for a gradient all that the program is given, moves by a rounding."""
    generator = torch.Generator().manual_seed(seed)

    def move(x: Any, **kwargs: Any) -> Any:
        x = x if isinstance(x, torch.Tensor) else torch.tensor(x, **kwargs)
        if not (x.is_floating_point() or x.is_complex()):
            return x
        parts = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
        way, info = torch.rand(parts.shape, generator=generator, dtype=torch.float64) * 4 - 2, torch.finfo(x.dtype)
        zero = way.sign() * info.tiny  # a decomposition asks for the sign of a zero
        parts = torch.where(parts == 0, zero, parts * (1 + way * info.eps)).to(parts.dtype)
        return torch.view_as_complex(parts) if x.is_complex() else parts

    *before, last = lines
    given = re.sub(r"\bT\.tensor\(", "move(", last)
    if GRADIENT.search(last):
        before = [re.sub(r"\bT\.tensor\(", "move(", line) for line in before]
    else:
        before += [f"if isinstance({used}, T.Tensor): {used} = move({used})" for used in sorted({*re.findall(r"\bv\d+\b", last)})]
    return _run([*before, given], move=move)


def otherwise(lines: Iterable[str], instead: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """What the lines make after these replacements of regular expressions."""
    text = "\n".join(lines)
    for pattern, replacement in instead:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return _run(text.split("\n"))


class _Shaking(TorchDispatchMode):
    """Moves each computed element of a result by a unit in the last place or not; what was only moved, or has few digits, is exact."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if given and not any(result.alias_info for result in func._schema.returns):
            for x in tree_leaves(found):
                if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) and x.layout is torch.strided and x.numel():
                    self._shake(x, given)
        return found

    def _shake(self, x: torch.Tensor, given: list[torch.Tensor]) -> None:
        parts = torch.view_as_real(x) if x.is_complex() else x
        eps, wider = torch.finfo(x.dtype).eps, parts.double()
        digits = torch.frexp(wider)[0] * 2.0 ** (-math.log2(eps) // 2)
        known = [(torch.view_as_real(y.resolve_conj()) if y.is_complex() else y).double().reshape(-1) for y in given if y.dtype is x.dtype]
        exact = (digits == digits.round()) | (torch.isin(wider, torch.cat(known)) if known else False)
        way = torch.randint(-1, 2, parts.shape, generator=self._random).double()
        parts.copy_(torch.where(exact, wider, wider * (1 + eps * way)))
