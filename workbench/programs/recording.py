"""A compiled program as a recording: a row for each instruction of XLA's, and a group for each fusion, call and loop."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, NamedTuple
from weakref import ref

from engine.compiler.explain import Part, Program, count_text, memory_text, origins, time_text
from engine.compiler.hlo import Instruction

from .. import inspector, protocol
from ..base.readable import readable
from ..graph.graph import Box, Graph, numbered
from ..inspector import bytes_text, shape_text
from ..protocol import Fact
from ..recording.recorder import is_parameter
from ..recording.recording import Recording, Scope, recent
from ..recording.source import optimizers

NO_VALUE = "XLA keeps no values of its instructions. Run the step under %%watch: it then runs op by op, with every value."
LONGEST = 400  # characters of an instruction's text
PHASES = ("forward", "backward", "update")
NOTHING = protocol.Buffer(0, "float64", [0])  # where `missing` says why


class Opcode(NamedTuple):
    """Stands for an op of the engine where a recording asks for one."""

    name: str
    variadic: bool = True
    rules: tuple = ()


class ProgramRecording(Recording):
    """The rows of a program. Nothing in it can be run or changed."""

    slowed = False

    @property
    def foreign(self) -> Any:
        """The recording itself, which answers what a view asks about a row."""
        return self

    def __init__(self, program: Program) -> None:
        super().__init__(program.name, keep=0)
        recent.forget(self)  # not what the program ran last
        self.program = program
        self.parts = {part.name: part for part in program.parts}
        self.told: dict[int, tuple[Instruction, Part | None]] = {}
        self.began, self.ended = 0.0, program.seconds or 0.0
        seconds = accumulate((part.seconds or 0.0 for part in program.parts), initial=0.0)
        self._begun = dict(zip(self.parts, seconds, strict=False))  # in the order in which XLA runs the parts, without gaps
        main, phases = self._by_phase()
        self._within = self._phases(phases)  # a part -> the scope around it
        results = self._add(main, [], -1, None)
        for name, row in zip(program.outputs, results if isinstance(results, list) else [results], strict=True):
            if self.kind[row] == "op":
                self.names[row] = name
                self.note[row] = "in place" if name in program.inputs else ""

    def _input(self, one: Instruction) -> int:
        """Add a row for what goes into the program, with its name."""
        number, shape = _number(one), one.shapes[0]
        tensor = self.program.tensors[number]
        kind = "parameter" if tensor is not None and is_parameter(type(tensor)) else "input"
        row = self.append(None, kind, shape.dims, shape.dtype, shape.bytes, False, tensor=None if tensor is None else ref(tensor))
        self.names[row] = self.program.inputs[number]
        self.told[row] = one, None
        return row

    def _add(self, computation: dict[str, Instruction], given: list, scope: int, part: Part | None) -> Any:
        """Add the rows of a computation, and return its result: a row, or a list for a tuple."""
        values: dict[str, Any] = {}
        result: Any = -1
        for one in computation.values():
            operands = [values[name] for name in one.operands]
            own = self.parts.get(one.name) if scope < 0 else part
            if one.opcode == "parameter":
                result = given[_number(one)] if given else self._input(one)
            elif one.opcode == "tuple":
                result = operands
            elif one.opcode == "get-tuple-element":
                result = operands[0][int(one.attribute("index"))] if isinstance(operands[0], list) else operands[0]
            elif one.opcode == "bitcast":
                result = operands[0]
            elif one.opcode == "constant":
                result = self._constant(one, scope)
            else:
                inner = self.program.module.inner(one)
                inside = scope if scope >= 0 and not inner else self._scope(one, scope, own)
                result = self._add(inner, operands, inside, own) if inner else self._row(one, operands, inside, own)
                if scope < 0 and own is not None:
                    self._timed(result, own)
            values[one.name] = result
        return result

    def _by_phase(self) -> tuple[dict[str, Instruction], dict[str, int]]:
        """The instructions sorted by phase, as XLA mixes the phases, and the phase of each.

        An instruction is never in an earlier phase than its operands, so forward values go into backward parts, and not back. What has no
        operands is in the phase that uses it first; inputs that nothing uses are left out.
        """
        main, phases, used = self.program.module.main, {}, {}
        for name, one in main.items():
            own = [PHASES.index(origin.phase) for origin in self.parts[name].origins] if name in self.parts else []
            phases[name] = max([*own, *(phases[operand] for operand in one.operands)], default=0)
            for operand in one.operands:
                used[operand] = min(phases[name], used.get(operand, len(PHASES)))
        *others, result = main.items()
        phases |= {name: used[name] for name, one in others if not one.operands and name in used}
        shown = [(name, one) for name, one in others if one.opcode != "parameter" or name in used]
        return dict([*sorted(shown, key=lambda item: phases[item[0]]), result]), phases

    def _phases(self, phases: dict[str, int]) -> dict[str, int]:
        """Add a scope for each phase of a training step, and return that of each part."""
        found = {name: phases[name] for name, part in self.parts.items() if part.origins}
        present = sorted(set(found.values()))
        if len(present) < 2:
            return {}
        for phase in present:
            parts = [part for name, part in self.parts.items() if found.get(name) == phase]
            updates = dict.fromkeys(origin.op for part in parts for origin in part.origins if origin.phase == "update")
            name = f"{', '.join(updates)} update" if phase == 2 else PHASES[phase]
            time = f", {time_text(sum(part.seconds or 0.0 for part in parts))}" if self.program.seconds is not None else ""
            self.scopes.append(Scope(-1, "scope", name, f"{name}{time}", 0, None, 0))
        return {name: present.index(phase) for name, phase in found.items()}

    def _scope(self, one: Instruction, parent: int, part: Part | None) -> int:
        label = part.ops if part is not None and parent < 0 else one.opcode
        if part is not None and part.seconds is not None and parent < 0:
            label += f", {time_text(part.seconds)}"
        self.scopes.append(Scope(parent if parent >= 0 else self._within.get(one.name, -1), "scope", one.name, label, 0, None, 0))
        return len(self.scopes) - 1

    def _row(self, one: Instruction, operands: list, scope: int, part: Part | None) -> int:
        shape = one.shapes[0]
        origin = self._origin(one) or (part.origins[0] if part is not None and part.origins else None)
        code, lasti = (None, 0) if origin is None else (origin.code, origin.lasti)
        name = one.attribute("custom_call_target").strip('"') if one.opcode == "custom-call" else one.opcode
        size = sum(shape.bytes for shape in one.shapes)
        sources = [row for operand in operands for row in _flat(operand)]
        row = self.append(Opcode(name), "op", shape.dims, shape.dtype, size, False, scope=scope, code=code, lasti=lasti, sources=sources)
        self.told[row] = one, part
        return row

    def _origin(self, one: Instruction) -> Any:
        return next(iter(origins(self.program.module, one, self.program.table)), None)

    def _constant(self, one: Instruction, scope: int) -> int:
        shape = one.shapes[0]
        row = self.append(None, "constant", shape.dims, shape.dtype, 0, False, scope=scope)
        value = re.search(r"constant\((.*?)\)", one.text)
        self.names[row] = readable(value[1])[:24] if value and not shape.dims else "constant"
        self.told[row] = one, None
        return row

    def _timed(self, result: Any, part: Part) -> None:
        """Put the part's time at its result."""
        rows = [row for row in _flat(result) if self.told[row][1] is part]
        if part.seconds is None or not rows:
            return
        if any(origin.phase == "backward" for origin in part.origins):
            self.steps.append(rows[-1])
            self.step_ops.append(self.ops[rows[-1]])
            self.step_begun.append(self._begun[part.name])
            self.step_took.append(part.seconds)
        else:
            self.begun[rows[-1]], self.took[rows[-1]] = self._begun[part.name], part.seconds

    # -- what a view asks ------------------------------------------------------------------------------------------------------

    def left_out(self) -> str:
        p = self.program
        time = f"; a run takes {time_text(p.seconds)}" if p.seconds is not None else ""
        what = "backward pass" if p.backward else "program"
        parts = f"{inspector.count_text(len(p.parts), 'part')}, {inspector.count_text(p.fusions, 'fusion')} among them"
        return f"The {what} that XLA runs for {p.name}({', '.join(p.arguments)}): {parts}{time}."

    def facts(self, row: int) -> list[Fact]:
        """What is known of an instruction: the part it runs in, its ops and lines, work, traffic and time."""
        one, part = self.told[row]
        found = [Fact("shape", ", ".join(f"{s.dtype} {shape_text(s.dims)}" for s in one.shapes)), Fact("size", bytes_text(self.bytes[row]))]
        origin = self._origin(one)
        if origin is not None:
            found.append(Fact("op", f"{origin}, {origin.where}" if origin.where else str(origin)))
        if part is not None:
            found.append(Fact("part", f"{part.name}: {part.ops}"))
            found += [Fact("line", line) for line in part.lines if origin is None or line != origin.where]
            found.append(Fact("work", f"{count_text(part.flops)} floating-point operations, {bytes_text(part.bytes)} read and written"))
            share, seconds = f"{self.program.share(part):.1%}", part.seconds
            found.append(Fact("time", f"about {share}, estimated" if seconds is None else f"{time_text(seconds)}, {share} of the parts"))
        return [*found, Fact("instruction", re.sub(r", (metadata|backend_config)=.*", "", one.text)[:LONGEST])]

    def why_no_grad(self, row: int) -> str:
        """There are no gradients in a program: the backward pass is a part of it."""
        return "The backward pass is a part of this program; its instructions have no gradients of their own."

    def gone(self, row: int) -> str:
        """Why there is no value."""
        return NO_VALUE

    def unused(self) -> Any:
        """No parameter is missing here."""
        return iter(())

    def alive(self) -> Any:
        """No storage is tracked here."""
        return iter(())

    def answer(self, request: Any) -> protocol.ToView | None:
        """The answer to what a view asks about an instruction; None if it can be answered as for any recording."""
        if isinstance(request, protocol.AskMemory):
            line = protocol.Line(0, 0, 0, -1, NOTHING, None, NOTHING, [], [])
            missing = f"A run takes {memory_text(self.program.memory)}. XLA lays it out when it compiles, so there are no events to show."
            return protocol.Memory(request.id, self.name, 0, 0, -1, [], [], 0, line, [], 0, [], [], [], [], 0, missing)
        if isinstance(request, protocol.AskTiming) and self.program.seconds is None:
            how = f"The parts have not been timed. Call {self.title}.explain with arguments, which times them, and show the step again."
            missing = "A backward pass that runs outside of the function is not timed." if self.program.backward else how
            empty = (0, 0, 0, 0, 0, NOTHING, NOTHING, [], NOTHING, 0, 0, [], [], [])
            return protocol.Timing(request.id, self.name, *empty, "", missing)
        if not isinstance(request, protocol.Inspect) or not 0 <= request.node < self.count or self.tensor(request.node) is not None:
            return None
        row = request.node
        missing = NO_VALUE if request.what == "value" else self.why_no_grad(row)
        facts = self.facts(row) if request.what == "value" else []
        return protocol.Inspected(
            request.id, self.name, row, request.what, self.names.get(row, ""), "", facts, None, None, None, None, [], None, [], "", None,
            "", None, missing,
        )  # fmt: skip


class ProgramGraph(Graph):
    """The graph of a program: its groups are the program's own."""

    def finish(self, namespace: Any = None) -> None:
        r, self.view, self.optimizers = self.recording, "program", optimizers(namespace)
        boxes = [Box(scope.kind, scope.name, scope.label, []) for scope in r.scopes]
        tops: list[Any] = []
        for box, scope in zip(boxes, r.scopes, strict=True):
            (tops if scope.parent < 0 else boxes[scope.parent].items).append(box)
        for row in range(r.count):
            if r.kind[row] == "op":
                (tops if r.scope[row] < 0 else boxes[r.scope[row]].items).append(row)
        self._groups, self._group = numbered(r, tops)


def _number(one: Instruction) -> int:
    found = re.search(r"parameter\((\d+)\)", one.text)
    assert found is not None, one.text
    return int(found[1])


def _flat(value: Any) -> list[int]:
    return [row for one in value for row in _flat(one)] if isinstance(value, list) else [value]
