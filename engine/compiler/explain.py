"""What `engine.compile` has made of a step: its programs, their parts with origin, cost and time, and what runs eagerly and why."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from ..base import tree
from ..core.tensor import Tensor
from .hlo import Instruction, Module, Shape
from .origins import Origin, numbers

if TYPE_CHECKING:
    from .compiled import Compiled
    from .plan import Plan

RUNS = 5  # timed runs of a program; of each part the fastest counts
SHOWN = 12  # parts listed in the text of a program


@dataclass(frozen=True)
class Part:
    """A part of a program that runs as one: a fusion, or a single instruction."""

    instruction: Instruction
    origins: tuple[Origin, ...]  # the ops that it computes, in order
    flops: int
    bytes: int  # read and written
    seconds: float | None = None  # measured; None if not
    helps: bool = False  # XLA has added it, and `origins` are those of the first part that uses its result

    @property
    def name(self) -> str:
        """XLA's name of it."""
        return self.instruction.name

    @property
    def ops(self) -> str:
        """The ops in words, each once."""
        ops = ", ".join(dict.fromkeys(map(str, self.origins)))
        return f"{self.instruction.opcode} for {ops}" if self.helps else ops or self.instruction.opcode

    @property
    def lines(self) -> list[str]:
        """The user's lines, each once."""
        return list(dict.fromkeys(filter(None, (origin.where for origin in self.origins))))


@dataclass(frozen=True)
class Memory:
    """Bytes that a program uses."""

    arguments: int
    outputs: int
    aliased: int  # outputs that are written over arguments
    temporaries: int

    @property
    def peak(self) -> int:
        """Bytes while it runs."""
        return self.arguments + self.outputs - self.aliased + self.temporaries


@dataclass(frozen=True)
class State:
    """The tensors outside of the step that a program uses."""

    tensors: int  # parameters, buffers, the optimizer's state, ...
    changed: int  # storages among them that the program writes, in place
    gradients: int  # gradients from before that it writes over


@dataclass(frozen=True)
class Program:
    """One compiled form of a function, or of the backward pass of its calls."""

    name: str  # of the function
    arguments: list[str]
    backward: bool  # the backward pass, if it runs outside of the function
    because: str  # what changed, so that an earlier program for these arguments could not be used; "" for the first
    ops: int  # ops, backward steps and updates that were traced
    traced: float  # seconds of tracing and lowering
    compiled: float  # seconds that XLA took
    memory: Memory
    flops: float
    bytes: float
    state: State
    parts: list[Part]  # in the order in which they run
    inputs: list[str]  # names of what goes in, by parameter number
    outputs: list[str]  # names of what comes out
    seconds: float | None = None  # of a whole run; None if it was not measured
    module: Module = field(repr=False, kw_only=True)
    table: list[Origin | None] = field(repr=False, kw_only=True)
    tensors: list[Tensor | None] = field(repr=False, kw_only=True)  # by parameter number; None for what no tensor holds

    @property
    def fusions(self) -> int:
        """How many parts are fusions of several instructions."""
        return sum(part.instruction.opcode == "fusion" for part in self.parts)

    @property
    def instructions(self) -> int:
        """The instructions that compute something, inside of fusions too."""
        return sum(not one.plumbing and not self.module.inner(one) for each in self._run() for one in each.values())

    def _run(self) -> Iterator[dict[str, Instruction]]:
        """The entry computation, and what its fusions, calls and loops run."""
        todo = [self.module.main]
        while todo:
            yield (each := todo.pop())
            todo += filter(None, map(self.module.inner, each.values()))

    def share(self, part: Part) -> float:
        """The part's share of the time; without times an estimate, from the bytes that it moves and the operations that it does."""
        return _cost(part) / (sum(map(_cost, self.parts)) or 1.0)

    @property
    def ordered(self) -> list[Part]:
        """The parts, the most expensive first."""
        return sorted(self.parts, key=self.share, reverse=True)

    @property
    def facts(self) -> list[str]:
        """What was compiled, in lines."""
        state = self.state
        found = [
            f"{'backward pass of the program' if self.backward else 'program'} for {', '.join(self.arguments) or 'no arguments'}",
            f"  {self.ops} ops traced in {self.traced:.2f} s; {self.instructions} instructions in {len(self.parts)} parts, of which "
            f"{self.fusions} are fusions, compiled in {self.compiled:.2f} s",
            f"  state: {state.tensors} tensors, {state.changed} changed in place, {state.gradients} gradients written over",
            f"  memory: {memory_text(self.memory)}",
            f"  work: {count_text(self.flops)} floating-point operations, {size_text(self.bytes)} read and written",
        ]
        if self.because:
            found.insert(1, f"  made since {self.because} changed")
        if self.seconds is not None:
            inside = sum(part.seconds or 0.0 for part in self.parts)
            found.append(f"  time: {time_text(self.seconds)}, {time_text(inside)} of it in the parts")
        return found

    def __str__(self) -> str:
        timed = self.seconds is not None
        lines = [*self.facts, f"  {'share' if timed else 'estimate':>8} {'time' if timed else '':>8}  {'ops':44} part, line"]
        for part in self.ordered[:SHOWN]:
            time = "" if part.seconds is None else time_text(part.seconds)
            lines.append(f"  {self.share(part):8.1%} {time:>8}  {_clipped(part.ops, 44):44} {', '.join([part.name, *part.lines[:2]])}")
        if rest := self.ordered[SHOWN:]:
            lines.append(f"  {sum(map(self.share, rest)):8.1%} {'':8}  {len(rest)} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """What was compiled of a step, and what was not. It prints itself."""

    name: str
    programs: list[Program]
    eager: list[tuple[list[str], str]]  # arguments for which the step runs eagerly, and why

    def __str__(self) -> str:
        parts = [str(program) for program in self.programs]
        parts += [f"eager for {', '.join(arguments) or 'no arguments'}\n  {why}" for arguments, why in self.eager]
        waiting = "Nothing has been compiled yet: the first call with arguments of new shapes runs eagerly, the second one is traced."
        return "\n\n".join([f"{self.name}: {_many(len(self.programs), 'program')}", *parts] if parts else [f"{self.name}: {waiting}"])

    __repr__ = __str__


def explained(compiled: Compiled, args: tuple = (), kwargs: dict | None = None) -> Explanation:
    """Explain what `compile` returned. With arguments, the parts of the program for them are timed."""
    timed = None
    if args or kwargs:
        given = tree.leaves((args, kwargs or {}))
        known = compiled.plans.get(compiled._key((args, kwargs or {}), given), ())
        timed = next((plan for guards, plan in known if guards.hold() and plan.fits(given)), None)
        if timed is None:
            raise RuntimeError("explain: there is no program for these arguments as things are; call the step with them twice before")
        timed.times = _measured(timed, given)
    name = compiled.__name__
    programs = [program for key, plans in compiled.plans.items() for _, plan in plans for program in _programs(name, key, plan)]
    return Explanation(name, programs, [(_arguments(key), why) for key, why in compiled.eager.items()])


def _arguments(key: Any) -> list[str]:
    """The arguments that a key of `Compiled` stands for."""
    shown = []
    for one in key[1]:
        if not isinstance(one, tuple):
            shown.append("an object")
        elif isinstance(one[0], tuple):
            shown.append(shape_text(Shape(one[0], str(one[1]))))
        else:
            shown.append(repr(one[1]))
    return shown


def _programs(name: str, key: Any, plan: Plan) -> Iterator[Program]:
    """The program of a plan, and that of the backward pass, if there has been one."""
    given = [f"{name}: {one}" for name, one in zip(_given(plan), _arguments(key), strict=True)]
    state = State(len(plan.leaves), len(plan.changing), len(plan.donated))
    inputs, tensors = _inputs(plan)
    outputs, backward = _outputs(plan, inputs), plan.backward
    yield _program(
        plan.program, plan.origins, plan.times, name=name, arguments=given, because=plan.because, state=state, inputs=inputs,
        outputs=outputs, tensors=tensors, traced=plan.trace_seconds, compiled=plan.seconds - plan.trace_seconds, backward=False,
    )  # fmt: skip
    if backward is not None and backward.program is not None:
        leaves = [*(_named(plan).get(id(t), "state") for t in plan.leaves), *(_given(plan)[i] for i in plan.inputs)]
        inputs = [f"saved {i}" for i in range(len(backward.saved))] + [f"gradient of result {i}" for i in range(len(backward.outputs))]
        outputs = [f"{leaves[i]}.grad" for i, some in zip(plan.sources, backward.reached, strict=True) if some]
        yield _program(
            backward.program, backward.origins, None, name=name, arguments=given, because="", state=State(0, 0, 0), inputs=inputs,
            outputs=outputs, tensors=[None] * len(inputs), traced=backward.traced, compiled=backward.compiled, backward=True,
        )  # fmt: skip


def _program(program: Any, table: list[Origin | None], times: tuple[float, dict[str, float]] | None, **known: Any) -> Program:
    module = Module(program.as_text())
    memory, cost = program.memory_analysis(), program.cost_analysis() or {}
    parts = _parts(module, table)
    if times is not None:
        parts = [replace(part, seconds=times[1].get(part.name, 0.0)) for part in parts]
    return Program(
        **known, ops=sum(origin is not None for origin in table), parts=parts, seconds=None if times is None else times[0],
        memory=Memory(memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.alias_size_in_bytes, memory.temp_size_in_bytes),
        flops=cost.get("flops", 0.0), bytes=cost.get("bytes accessed", 0.0), module=module, table=table,
    )  # fmt: skip


def _parts(module: Module, table: list[Origin | None]) -> list[Part]:
    parts: list[Part] = []
    used: dict[str, tuple[Origin, ...]] = {}  # the origins of the first part that uses a value
    for one in reversed(module.main.values()):
        own = () if one.plumbing else origins(module, one, table)
        found = own or used.get(one.name, ())
        if not one.plumbing:
            helps = bool(found) and not own
            parts.append(Part(one, found, module.flops(one, module.main), module.bytes(one, module.main), helps=helps))
        used |= dict.fromkeys(one.operands, found) if found else {}
    return parts[::-1]


def origins(module: Module, one: Instruction, table: list[Origin | None]) -> tuple[Origin, ...]:
    """The ops that an instruction computes, and those inside of it, each once."""
    found: dict[Origin, None] = {}
    todo = [one]
    while todo:
        one = todo.pop(0)
        if number := [n for n in numbers(one.op_name) if n < len(table)]:
            origin = table[number[-1]]
            if origin is not None and (not module.inner(one)):
                found[origin] = None
        todo += module.inner(one).values()
    return tuple(found)


def _inputs(plan: Plan) -> tuple[list[str], list[Tensor | None]]:
    """The names of what goes into the program in the order of its parameters, and their tensors."""
    names = _named(plan)
    state = [block.tensors[0] for block in plan.blocks]
    groups = [
        [state[i] for i in plan.changing], [plan.owned[i] for i in plan.donated],
        [state[i] for i in plan.still], [plan.owned[i] for i in plan.kept],
    ]  # fmt: skip
    tensors: list[Tensor | None] = []
    found = []
    for number, group in enumerate(groups):
        for t in group:
            name = names.get(id(t), "state")
            found.append(f"{name}.grad" if number % 2 else name)
            tensors.append(None if number % 2 else t)
    given = _given(plan)
    found += [given[i] for i in plan.inputs] + ["lr"] * len(plan.rates) + [f"random numbers {i}" for i in range(len(plan.draws))]
    return found, [*tensors, *[None] * (len(found) - len(tensors))]


def _outputs(plan: Plan, inputs: list[str]) -> list[str]:
    names = _named(plan)
    leaves = [names.get(id(t), "state") for t in plan.leaves] + [_given(plan)[i] for i in plan.inputs]
    owned = [names.get(id(t), "state") for t in plan.owned]
    results = sum(kind == "value" for kind, _ in plan.results)
    return [
        *inputs[: len(plan.changing)], *(leaves[len(plan.leaves) + i] for i in plan.altered),
        *(f"{leaves[i]}.grad" for i in plan.fresh), *(f"{owned[i]}.grad" for i in plan.written),
        *(["result"] if results == 1 else [f"result {i}" for i in range(results)]),
        *(f"saved {i}" for i in range(0 if plan.backward is None else len(plan.backward.values))),
    ]  # fmt: skip


def _given(plan: Plan) -> list[str]:
    """The names of the arguments, as in the step's signature; `batch[1]` for a tensor inside of one."""
    args, kwargs = plan.structure
    try:
        given = inspect.signature(getattr(plan.fn, "forward", plan.fn)).bind_partial(*args).arguments
    except (TypeError, ValueError):  # a function of C has no signature
        given = {f"argument {i}": value for i, value in enumerate(args)}
    found = []
    for name, value in (*given.items(), *kwargs.items()):
        found += [f"{name}[{i}]" for i in range(len(tree.leaves(value)))] if isinstance(value, (tuple, list, dict)) else [name]
    return found


def _named(plan: Plan) -> dict[int, str]:
    """The names of the state: as in the `state_dict` of the outermost module, and of an optimizer's state."""
    inner = {id(m) for outer in plan.modules for m in outer.modules() if m is not outer}
    outer = [m for m in plan.modules if id(m) not in inner]
    names: dict[int, str] = {}
    for m in outer:
        lead = f"{type(m).__name__}." if len(outer) > 1 else ""
        names |= {id(t): lead + name for name, t in (*m.named_buffers(), *m.named_parameters())}
    for o in plan.optimizers:
        for p, state in o.state.items():
            names |= {id(t): f"{names.get(id(p), 'parameter')}.{key}" for key, t in state.items() if isinstance(t, Tensor)}
    return names


# -- times -------------------------------------------------------------------------------------------------------------------


def _measured(plan: Plan, args: list) -> tuple[float, dict[str, float]]:
    """Run the program on copies under JAX's profiler: the seconds of a run, and of each instruction in it."""
    found: dict[str, float] = {}
    whole = float("inf")
    with jax.enable_x64(True):
        changing, donated, *rest = plan.operands(args, plan._drawn_again())
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        for _ in range(RUNS):
            given = jax.block_until_ready([[jax.numpy.array(x, copy=True) for x in group] for group in (changing, donated)])
            with tempfile.TemporaryDirectory() as folder:
                with jax.profiler.trace(folder, profiler_options=options):
                    jax.block_until_ready(plan.program(*given, *rest))
                (file,) = Path(folder).rglob("*.xplane.pb")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # one about a class of JAX would end the process, as an error
                    times, seconds = _read(file)
            found = {name: min(time, found.get(name, time)) for name, time in times.items()}
            whole = min(whole, seconds)
    return whole, found


def _read(file: Path) -> tuple[dict[str, float], float]:
    """The seconds of each instruction in a profile, and from the first's begin to the last's end."""
    begun: list[tuple[str, Any, float, float]] = []  # name, key of its end, when it began and returned
    ended: dict[Any, float] = {}  # a part that runs on several threads ends after the call that started it has returned
    for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
        lines = list(plane.lines)
        for line in [one for one in lines if one.name == "XLA Ops"] or lines:  # a GPU has its kernels on further lines
            for event in line.events:
                stats = dict(event.stats)
                if "hlo_op" in stats:
                    begun.append((stats["hlo_op"], stats.get("_p"), event.start_ns, event.start_ns + event.duration_ns))
                elif event.name.startswith("end: ") and "_c" in stats:
                    ended[stats["_c"]] = event.start_ns
    spans = [(name, start, max(end, ended.get(key, end))) for name, key, start, end in begun]
    times: dict[str, float] = {}
    for name, start, end in spans:
        times[name] = times.get(name, 0.0) + (end - start) / 1e9
    whole = max((end for *_, end in spans), default=0.0) - min((start for _, start, _ in spans), default=0.0)
    return times, whole / 1e9


def _cost(part: Part) -> float:
    """The measured seconds, or an estimate in bytes: four floating-point operations take as long as moving one byte."""
    return max(part.bytes, part.flops / 4) if part.seconds is None else part.seconds


# -- words -------------------------------------------------------------------------------------------------------------------


def size_text(n: float) -> str:
    """A number of bytes as `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:.3g} {unit}"
        n /= 1000
    raise AssertionError


def memory_text(memory: Memory) -> str:
    """The memory of a program in words."""
    return (
        f"{size_text(memory.peak)}: {size_text(memory.arguments)} of arguments, {size_text(memory.outputs)} of results, of which "
        f"{size_text(memory.aliased)} in place, and {size_text(memory.temporaries)} of temporary arrays"
    )


def count_text(n: float) -> str:
    """A number as `1.2 million`."""
    for unit, one in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if n >= one:
            return f"{n / one:.3g} {unit}"
    return f"{n:,.0f}"


def time_text(seconds: float) -> str:
    """Seconds as `12 µs`."""
    for unit, one in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= one:
            return f"{seconds / one:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def shape_text(shape: Shape) -> str:
    """A shape as `float32 2×3`."""
    return f"{shape.dtype} {'×'.join(map(str, shape.dims)) or 'scalar'}"


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
