"""A program runs line by line on PyTorch and on the engine; after each line everything that a user could see is compared."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy
import torch
from compare import TOLERANCE
from fuzz import again
from fuzz.again import DECOMPOSES, GRADIENT, refusal
from fuzz.prelude import names
from fuzz.reasons import reason, written_otherwise
from samples import KNOWN, number

import engine

WRITES = re.compile(r"\w_\(|[-+*/%@&|^]= |\] = |\.step\(\)")
NAMED = re.compile(r"\bv\d+\b")
SILENT = ("value", "gradient", "dtype", "shape")  # a program goes on with a wrong answer
CLASSES = (*SILENT, "kind", "flags", "alias", "stride", "version", "refused", "accepted", "error type", "after refusal")
ABSENT = (torch.complex32,)  # dtypes that the engine does not have
REFUSALS = {
    "_LinAlgError": engine.linalg.LinAlgError,
    "OutOfMemoryError": MemoryError,
    "CheckpointError": engine.utils.checkpoint.CheckpointError,
}  # PyTorch's own errors, and the engine's


class Difference(NamedTuple):
    """What a user would see that PyTorch's users do not, after a line."""

    kind: str  # one of CLASSES
    line: str
    told: str
    before: tuple[str, ...] = ()  # the program's lines up to it
    excuse: str | None = None  # why it stays, where PyTorch gives the engine's answer to the same written otherwise

    @property
    def reason(self) -> str | None:
        """Why it stays; None where it should not be."""
        return self.excuse or reason(self.kind, self.line, self.told, "\n".join((*self.before, self.line)))

    def __str__(self) -> str:
        return f"{self.kind}: {self.line}\n    {self.told}"


class Session:
    """The two runs of one program so far."""

    def __init__(self, agreeing: bool = True) -> None:
        self.agreeing = agreeing  # whether each line starts from the same numbers, PyTorch's
        self.theirs, self.ours = names(torch), names(engine)
        self.lines: list[str] = []
        self.versions: dict[str, int] = {}  # by how much the engine's version of a variable was ahead when it was made
        self.values = 0  # results that were compared
        self.refusals = 0  # lines that PyTorch refuses
        self.alike = True  # whether what follows can be compared
        self.shared = False  # whether a tensor was written of whose elements some share a place in memory
        self.tell: Callable[[str], object] = lambda line: None  # is called before a line runs

    # -- one line ----------------------------------------------------------------------------------------------------------------

    def step(self, line: str) -> Difference | None:
        """Runs a line on both. A line that uses what an earlier one failed to make is left out."""
        used, assigned = set(NAMED.findall(line)), made_by(line)
        if any(name not in self.theirs for name in used - assigned):
            return None
        self.lines.append(line)
        self.tell(line)
        try:
            told = self._step(line, assigned)
        except Exception as error:  # of the comparison: what a library gave could not be read
            self._forget(assigned)
            self.alike = False
            told = Difference("kind", line, f"not to be compared: {named(error)}")
        if told and told.kind in ("value", "gradient") and self.agreeing and self._by_agreement():
            return None
        return told and told._replace(before=tuple(self.lines[:-1]))

    def _by_agreement(self) -> bool:
        """Whether the engine answers alike where its results keep their own digits, which what a rule has kept beside them fits to."""
        alone = Session(agreeing=False)
        found = [alone.step(line) for line in self.lines]
        return alone.lines == self.lines and alone.alike and found[-1] is None

    def _step(self, line: str, assigned: set[str]) -> Difference | None:
        code = compile(line, f"<{line}>", "exec")
        before = {name: self.theirs[name] for name in assigned if name in self.theirs}
        if WRITES.search(line):
            self.shared |= any(share(x) for name, x in self.tensors().items() if name in line or ".step()" in line and x.requires_grad)
        their_error, our_error = refusal(code, self.theirs), refusal(code, self.ours)
        made = [name for name in assigned if name in self.theirs and (name not in before or self.theirs[name] is not before[name])]
        if their_error is not None or our_error is not None:
            self.refusals += their_error is not None
            return self._refused(line, their_error, our_error, assigned)
        if any(getattr(self.theirs[name], "dtype", self.theirs[name]) in ABSENT for name in made):
            self._forget(assigned)  # as good as refused: what PyTorch goes on with is not here
            return None
        for name in made:
            self.values += 1
            self.versions.pop(name, None)
            if told := unlike(self.theirs[name], self.ours[name]):
                kind, words = told
                if kind == "value" and self.rounding(name):
                    self._forget(assigned)
                    return None
                if kind in SILENT and GRADIENT.search(line):
                    kind = "gradient"
                found = self._told(Difference(kind, line, words), name)
                self._forget(assigned)
                self.alike = self.alike and not self._differs()
                return found
            if self.agreeing:
                agree(self.theirs[name], self.ours[name])
        return self._state(line)

    def _refused(self, line: str, theirs: Exception | None, ours: Exception | None, assigned: set[str]) -> Difference | None:
        self._forget(assigned)
        changed = self._differs()
        self.alike = changed is None
        if ours is None:
            return Difference("accepted", line, f"PyTorch: {named(theirs)}")
        if theirs is None:
            return Difference("refused", line, f"engine: {named(ours)}")
        if not isinstance(ours, REFUSALS.get(type(theirs).__name__, type(theirs))) or isinstance(ours, NotImplementedError) != isinstance(
            theirs, NotImplementedError
        ):
            return Difference("error type", line, f"PyTorch: {named(theirs)}\n    engine: {named(ours)}")
        return Difference("after refusal", line, f"{changed[1]}{self._by_whom(*changed)}") if changed else None

    def _by_whom(self, kind: str, words: str) -> str:
        """What is to be added where a refused line has changed something in PyTorch and nothing in the engine."""
        name, before = words.split(":")[0], again.otherwise(self.lines[:-1], ())
        kept = kind in SILENT and unlike(_named(before, name), _named(self.ours, name)) is None
        return "; only PyTorch has changed it" if kept else ""

    def _forget(self, assigned: set[str]) -> None:
        for name in assigned:
            self.theirs.pop(name, None)
            self.ours.pop(name, None)
            self.versions.pop(name, None)

    # -- everything that a user could see -------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: x for name, x in self.theirs.items() if isinstance(x, torch.Tensor) and name[0] == "v"}

    def _state(self, line: str) -> Difference | None:
        if ".step()" in line:
            self.versions.clear()  # how often an optimizer writes in a step is its own affair
        told = self._differs()
        if told is None:
            for name, x in self.tensors().items() if self.agreeing else ():
                agree(x, self.ours[name])
            return None
        kind, words = told
        self.alike = False
        name = words.split(":")[0]
        if kind in ("value", "gradient") and self.rounding(name):
            return None
        return self._told(Difference(kind, line, words), name)

    def _differs(self) -> tuple[str, str] | None:
        """The first variable that differs from PyTorch's, itself or in how it hangs together with the others."""
        memory: dict[int, str] = {}
        ours: dict[int, str] = {}
        for name, x in self.tensors().items():
            y = self.ours[name]
            if told := unlike(x, y) or flags(x, y):
                return told[0], f"{name}: {told[1]}"
            if not x.is_inference() and y._version - x._version != self.versions.setdefault(name, y._version - x._version):
                return "version", f"{name}: version {y._version - self.versions[name]}, not {x._version}"
            if x.layout is torch.strided and x.numel() and not x._is_zerotensor():
                here, there = memory.setdefault(x.untyped_storage().data_ptr(), name), ours.setdefault(y.untyped_storage().data_ptr(), name)
                if here != there:
                    return "alias", f"{name} lies in the memory of {there}, not of {here}"
            if isinstance(at := place(x), dict) and (at["is_leaf"] or at["retains_grad"]) and x.requires_grad:
                if told := unlike(x.grad, y.grad):
                    return "gradient" if told[0] in SILENT or told[0] == "kind" else told[0], f"{name}.grad: {told[1]}"
        return None

    def rounding(self, name: str) -> bool:
        """Whether PyTorch, asked for a variable or its `.grad` in double precision or with other roundings, stands no closer to its own
        answer than to the engine's."""
        runs = [partial(again.wide, self.lines), *[partial(again.shaken, self.lines, seed) for seed in range(3)]]
        if DECOMPOSES.search("\n".join(self.lines) if GRADIENT.search(self.lines[-1]) else self.lines[-1]):
            runs += [partial(again.moved, self.lines, seed) for seed in range(6)]
        return any(not further(*(_named(space, name) for space in (run(), self.theirs, self.ours))) for run in runs)

    def _told(self, found: Difference, name: str) -> Difference:
        """The difference in a variable or its `.grad`, with its excuse where PyTorch has the engine's answer for the same written otherwise."""
        if found.kind not in SILENT:
            return found
        if self.shared:
            found = found._replace(told=f"{found.told}; elements that share a place were written")
        for row in written_otherwise(found.kind, found.line, found.told, "\n".join(self.lines)):
            if unlike(_named(again.otherwise(self.lines, row.instead), name), _named(self.ours, name)) is None:
                return found._replace(excuse=row.reason)
        return found


def _named(space: dict[str, Any], name: str) -> Any:
    """A variable of a run, or its gradient: `v3`, `v3.grad`."""
    name, _, grad = name.partition(".")
    return getattr(space.get(name), grad, None) if grad else space.get(name)


def made_by(line: str) -> set[str]:
    """The variables that a line assigns."""
    nodes = [*ast.walk(ast.parse(line))]
    changed = {x.target.id for x in nodes if isinstance(x, ast.AugAssign) and isinstance(x.target, ast.Name)}
    return {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)} - changed


def named(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"


# -- comparison --------------------------------------------------------------------------------------------------------------------


def unlike(x: Any, y: Any) -> tuple[str, str] | None:
    """The class of a difference and the difference in words; None where two results are alike."""
    if isinstance(x, torch.Tensor):
        if not isinstance(y, engine.Tensor):
            return "kind", f"{type(y).__name__}, not {'a tensor' if x.is_sparse or x.any() else 'zeros'}"
        return unlike_tensors(x, y)
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        if not isinstance(y, (tuple, list)) or len(x) != len(y):
            return "kind", f"{y!r:.80}, not {x!r:.80}"
        found = ((i, unlike(a, b)) for i, (a, b) in enumerate(zip(x, y, strict=True)))
        return next(((told[0], f"{told[1]} of result {i}") for i, told in found if told), None)
    if isinstance(x, dict):
        if not isinstance(y, dict) or [*x] != [*y]:
            return "kind", f"{y!r:.80}, not {x!r:.80}"
        return unlike([*x.values()], [*y.values()])
    if isinstance(x, torch.dtype):
        return None if KNOWN.get(x) is y else ("dtype", f"{y}, not {x}")
    if isinstance(x, (bool, int, float, complex, str, type(None), torch.Size)):
        kind = tuple if isinstance(x, torch.Size) else type(x)
        if not isinstance(y, kind) or isinstance(y, bool) != isinstance(x, bool):
            return "kind", f"{y!r:.80} ({type(y).__name__}), not {x!r:.80} ({type(x).__name__})"
        if isinstance(x, (float, complex)):
            close = bool(numpy.isclose(y, x, rtol=1e-3 if abs(x) < 7e4 else 1e-2, atol=1e-6, equal_nan=True))
            return None if close else ("value", f"{y!r}, not {x!r}")
        return None if x == y else ("value", f"{y!r:.80}, not {x!r:.80}")
    return None


def unlike_tensors(x: torch.Tensor, y: engine.Tensor) -> tuple[str, str] | None:
    if tuple(x.shape) != tuple(y.shape):
        return "shape", f"{tuple(y.shape)}, not {tuple(x.shape)}"
    if x.dtype not in KNOWN:
        return None
    if KNOWN[x.dtype] is not y.dtype:
        return "dtype", f"{y.dtype}, not {x.dtype}"
    if x.layout is not torch.strided or not x.numel():
        return None
    a, b = number(x), y.detach().resolve_conj().array
    if a.tobytes() == b.tobytes():
        return None
    if a.dtype.kind in "biu":
        close = a == b
    else:
        wide = numpy.complex128 if x.is_complex() else numpy.float64
        a, b = a.astype(wide), b.astype(wide)
        tolerance = TOLERANCE.get(x.dtype, 1e-6)
        finite = numpy.abs(a[numpy.isfinite(a)])
        close = numpy.isclose(b, a, rtol=tolerance, atol=tolerance * max(1e-2, finite.max() if finite.size else 1), equal_nan=True)
    if close.all():
        return None
    at = tuple(int(i) for i in numpy.argwhere(~close)[0]) if a.ndim else ()
    return "value", f"{b[at]}, not {a[at]}, at {at} and {int((~close).sum())} of {close.size} places"


def flags(x: torch.Tensor, y: engine.Tensor) -> tuple[str, str] | None:
    theirs, ours = place(x), place(y)
    if theirs != ours:
        return "flags", f"{ours}, not {theirs} of {x.dtype}"
    if x.layout is torch.strided and x.numel() and _steps(x) != _steps(y):
        return "stride", f"strides {y.stride()}, not {x.stride()}"
    if x.layout is torch.strided and x.numel() and x.storage_offset() != y.storage_offset():
        return "stride", f"storage offset {y.storage_offset()}, not {x.storage_offset()}"
    return None


def place(x: Any) -> dict[str, bool] | str:
    """Where a tensor stands in the graph. Of a view that lost its place to a write, that it cannot be asked."""
    try:
        return {"requires_grad": x.requires_grad, "is_leaf": x.is_leaf, "retains_grad": x.retains_grad, "grad_fn": x.grad_fn is not None}
    except RuntimeError:
        return "a view that a write has cut off"


def share(x: torch.Tensor) -> bool:
    """Whether some of the elements lie in the same place, as those of an expanded tensor do."""
    reach = 1
    for step, n in sorted(zip(x.stride(), x.shape, strict=True)) if x.layout is torch.strided else ():
        if n > 1:
            if step < reach:
                return True
            reach += step * (n - 1)
    return False


def _steps(x: Any) -> list[int]:
    """The strides that matter: those of dimensions with more than one element."""
    return [step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def agree(x: Any, y: Any) -> None:
    """Writes PyTorch's rounding over the engine's: what is compared next starts from the same numbers, also where it is not continuous."""
    if isinstance(x, (tuple, list)):
        for a, b in zip(x, y, strict=True):
            agree(a, b)
    elif (
        isinstance(x, torch.Tensor)
        and (x.is_floating_point() or x.is_complex())
        and x.dtype in KNOWN
        and x.numel()
        and x.layout is torch.strided
    ):
        a, b = number(x), y.detach().array
        if a.tobytes() != b.tobytes() and b.flags.writeable and not y.is_conj():
            b[...] = a


def further(wide: Any, theirs: Any, ours: Any) -> bool:
    """Whether the engine's answer is much further from that in double precision than PyTorch's is."""
    if isinstance(theirs, (tuple, list)):
        if not isinstance(wide, (tuple, list)) or len(wide) != len(theirs):
            return True
        return any(further(w, a, b) for w, a, b in zip(wide, theirs, ours, strict=True))
    if not isinstance(theirs, torch.Tensor):
        if not isinstance(theirs, (float, complex)) or not isinstance(wide, (float, complex)):
            return unlike(theirs, ours) is not None
        return _away(wide, theirs, ours, 1e-4)
    compared = (theirs.is_floating_point() or theirs.is_complex()) and isinstance(wide, torch.Tensor) and isinstance(ours, engine.Tensor)
    if not compared or not tuple(wide.shape) == tuple(theirs.shape) == tuple(ours.shape):
        return unlike(theirs, ours) is not None and unlike(wide, ours) is not None
    return _away(number(wide), number(theirs), ours.detach().resolve_conj().array, TOLERANCE.get(theirs.dtype, 1e-6))


def _away(exact: Any, theirs: Any, ours: Any, tolerance: float) -> bool:
    exact, theirs, ours = (numpy.asarray(z).astype(numpy.complex128) for z in (exact, theirs, ours))
    if not numpy.isfinite(ours).all() and not (numpy.isfinite(ours) | ~numpy.isfinite(theirs) | ~numpy.isfinite(exact)).all():
        return True  # infinite where both of PyTorch's answers are finite
    if (numpy.isfinite(ours) & ~numpy.isfinite(theirs) & ~numpy.isfinite(exact)).any():
        return True  # a number where both are none
    known = numpy.isfinite(exact)
    if (numpy.isfinite(theirs) & known & ~numpy.isfinite(ours)).any() or not known.any():
        return bool((numpy.isfinite(theirs) & ~numpy.isfinite(ours)).any())
    ours, theirs, exact = ours[known], theirs[known], exact[known]
    with numpy.errstate(all="ignore"):
        mine, other = numpy.abs(ours - exact), numpy.abs(theirs - exact)
    bound = 8 * numpy.where(numpy.isfinite(other), other, numpy.inf).max() + tolerance * max(1e-2, numpy.abs(exact).max())
    return bool((mine > bound).any())
