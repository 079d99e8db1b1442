"""A restricted unpickler that builds only what a policy allows; Python's own calls anything that a file names.

It implements the opcodes of pickle protocols 2 to 5 (see the standard library's `pickletools`) that containers, numbers, strings and
global references need. The policy resolves globals and decides what may be called, instantiated or given a state.
"""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable
from typing import Any, Protocol

from .errors import CheckpointError


class Policy(Protocol):
    """Decides what a pickle may do."""

    def resolve(self, module: str, name: str) -> Any: ...
    def call(self, function: Any, args: tuple) -> Any: ...
    def new(self, cls: Any, args: tuple, kwargs: dict) -> Any: ...
    def build(self, obj: Any, state: Any) -> None: ...
    def persistent(self, pid: Any) -> Any: ...
    def is_key(self, x: Any) -> bool: ...


class _Mark:
    """Marks the start of a group of values on the stack."""


_MARK = _Mark()
_DAMAGE = (IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, struct.error, MemoryError, RuntimeError)
_U2, _U4, _U8, _I4, _F8 = (struct.Struct(code) for code in ("<H", "<I", "<Q", "<i", ">d"))


class Machine:
    """Unpickles consecutive pickles in `data`; `at` is the offset of the next."""

    def __init__(self, data: bytes, policy: Policy, encoding: str = "utf-8"):
        self.data, self.policy, self.encoding, self.at = data, policy, encoding, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.outside = False  # whether the user's map_location is running: its errors are not the file's
        # A work budget: a few bytes can encode nested tuples that take forever to hash, or lists copied until memory is full.
        self.left = 10 * len(data) + 1000

    def spend(self, n: int) -> None:
        """Charge work that is not bounded by the length of the pickle."""
        self.left -= n
        if self.left < 0:
            raise CheckpointError("load: the pickle asks for more work than an honest one of its length")

    def run(self) -> Any:
        """Return the object of the next pickle. Raises CheckpointError if it is damaged or the policy refuses it."""
        self.stack, self.memo = [], {}
        data, stop = self.data, len(self.data)
        try:
            while self.at < stop:
                code = data[self.at]
                self.at += 1
                if code == 0x2E:  # STOP
                    return self._end()
                step = _STEPS.get(code)
                if step is None:
                    raise CheckpointError(f"load: the pickle has the opcode {bytes([code])!r} at {self.at - 1}, which no checkpoint needs")
                step(self)
        except _DAMAGE as error:
            if self.outside or isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"load: the pickle is damaged at byte {self.at}: {type(error).__name__}: {error}") from error
        raise CheckpointError(f"load: the pickle is cut off: no end within {stop} bytes")

    def _end(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is _MARK:
            raise CheckpointError(f"load: the pickle is damaged: expected one object at its end, got {len(self.stack)}")
        return self.stack.pop()

    # -- reading ------------------------------------------------------------------------------------------------------------

    def take(self, n: int) -> bytes:
        found = self.data[self.at : self.at + n]
        if len(found) != n:
            raise CheckpointError(f"load: the pickle is cut off: expected {n} bytes at {self.at}, got {len(found)}")
        self.at += n
        return found

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.take(form.size))[0]

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        text, self.at = self.data[self.at : end], end + 1
        return text.decode("utf-8")

    def group(self) -> list:
        """Pop the last mark and return the values above it."""
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise CheckpointError("load: the pickle is damaged: a group of values has no beginning")
        values = stack[at + 1 :]
        del stack[at:]
        return values

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise CheckpointError("load: the pickle is damaged: expected a value, got the beginning of a group")
        return value

    def top(self, *kinds: type) -> Any:
        value = self.stack[-1]
        if not isinstance(value, kinds):
            raise CheckpointError(f"load: the pickle is damaged: expected a {kinds[0].__name__}, got a {type(value).__name__}")
        return value

    # -- building -----------------------------------------------------------------------------------------------------------

    def key(self, x: Any) -> Any:
        """Return a key, after checking that hashing it is fast and runs no user code."""
        parts, depth = [x], 0
        while parts:
            part = parts.pop()
            if isinstance(part, (tuple, frozenset)):
                depth += 1
                if depth > 100:
                    raise CheckpointError("load: a key of a dict or set is a tuple of too many tuples")
                self.spend(len(part))
                parts.extend(part)
            elif isinstance(part, int):
                self.spend(part.bit_length() >> 6)
            elif not self.policy.is_key(part):
                raise CheckpointError(f"load: a {type(part).__name__} cannot be a key of a dict or set")
        return x

    def fill(self, target: Any, pairs: list) -> None:
        if len(pairs) % 2:
            raise CheckpointError("load: the pickle is damaged: a dict has a key without a value")
        for i in range(0, len(pairs), 2):
            target[self.key(pairs[i])] = pairs[i + 1]

    def extend(self, values: list) -> None:
        self.top(list, collections.deque).extend(values)

    def tuple_of(self, n: int) -> None:
        values = [self.pop() for _ in range(n)]
        self.stack.append(tuple(reversed(values)))

    def text(self, n: int) -> None:
        self.stack.append(self.take(n).decode("utf-8", "surrogatepass"))

    def old_text(self, n: int) -> None:
        """Push a Python 2 string."""
        data = self.take(n)
        self.stack.append(data if self.encoding == "bytes" else data.decode(self.encoding))

    def memoize(self, i: int) -> None:
        value = self.stack[-1]
        if value is _MARK:
            raise CheckpointError("load: the pickle is damaged: it remembers the beginning of a group")
        self.memo[i] = value

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise CheckpointError("load: the pickle is damaged: a name that is not text")
        self.stack.append(self.policy.resolve(module, name))

    def reduce(self) -> None:
        args, function = self.pop(), self.pop()
        if not isinstance(args, tuple):
            raise CheckpointError(f"load: the pickle is damaged: expected a tuple of arguments, got a {type(args).__name__}")
        self.spend(sum(len(a) for a in args if isinstance(a, (str, bytes, list, tuple, dict, set, frozenset))))
        self.stack.append(self.policy.call(function, args))

    def make(self, named: bool) -> None:
        kwargs = self.pop() if named else {}
        args, cls = self.pop(), self.pop()
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise CheckpointError("load: the pickle is damaged: expected arguments")
        self.stack.append(self.policy.new(cls, args, kwargs))

    def refer(self) -> Any:
        pid, self.outside = self.pop(), True
        found = self.policy.persistent(pid)
        self.outside = False
        return found

    def build(self) -> None:
        state = self.pop()
        self.policy.build(self.top(object), state)

    def items(self, pairs: list) -> None:
        self.fill(self.top(dict), pairs)

    def add(self) -> None:
        values = self.group()
        self.top(set).update([self.key(v) for v in values])

    def frame(self) -> None:
        if self.number(_U8) > len(self.data) - self.at:
            raise CheckpointError("load: the pickle is cut off: a frame reaches beyond its end")

    def stack_name(self) -> None:
        name, module = self.pop(), self.pop()
        self.name(module, name)

    def pair(self) -> None:
        value, key = self.pop(), self.pop()
        self.items([key, value])

    def last(self) -> None:
        value = self.pop()
        self.extend([value])

    def protocol(self) -> None:
        if (version := self.take(1)[0]) > 5:
            raise CheckpointError(f"load: the pickle is of protocol {version}; known are those up to 5")


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _push(value: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    return lambda m: m.stack.append(value(m))


# fmt: off
_STEPS: dict[int, Callable[[Machine], Any]] = {ord(code): step for code, step in {
    "\x80": Machine.protocol,
    "\x95": Machine.frame,
    "(": _push(lambda m: _MARK),
    "0": lambda m: m.stack.pop(),
    "1": lambda m: m.group(),
    "2": _push(lambda m: m.top(object)),
    "N": _push(lambda m: None),
    "\x88": _push(lambda m: True),
    "\x89": _push(lambda m: False),
    "K": _push(lambda m: m.take(1)[0]),
    "M": _push(lambda m: m.number(_U2)),
    "J": _push(lambda m: m.number(_I4)),
    "\x8a": _push(lambda m: _signed(m.take(m.take(1)[0]))),
    "\x8b": _push(lambda m: _signed(m.take(m.number(_U4)))),
    "G": _push(lambda m: m.number(_F8)),
    "X": lambda m: m.text(m.number(_U4)),
    "\x8c": lambda m: m.text(m.take(1)[0]),
    "\x8d": lambda m: m.text(m.number(_U8)),
    "U": lambda m: m.old_text(m.take(1)[0]),
    "T": lambda m: m.old_text(m.number(_U4)),
    "C": _push(lambda m: m.take(m.take(1)[0])),
    "B": _push(lambda m: m.take(m.number(_U4))),
    "\x8e": _push(lambda m: m.take(m.number(_U8))),
    "\x96": _push(lambda m: bytearray(m.take(m.number(_U8)))),
    "]": _push(lambda m: []),
    "}": _push(lambda m: {}),
    ")": _push(lambda m: ()),
    "\x8f": _push(lambda m: set()),
    "a": Machine.last,
    "e": lambda m: m.extend(m.group()),
    "s": Machine.pair,
    "u": lambda m: m.items(m.group()),
    "\x90": Machine.add,
    "\x91": _push(lambda m: frozenset(map(m.key, m.group()))),
    "t": _push(lambda m: tuple(m.group())),
    "\x85": lambda m: m.tuple_of(1),
    "\x86": lambda m: m.tuple_of(2),
    "\x87": lambda m: m.tuple_of(3),
    "q": lambda m: m.memoize(m.take(1)[0]),
    "r": lambda m: m.memoize(m.number(_U4)),
    "\x94": lambda m: m.memoize(len(m.memo)),
    "h": _push(lambda m: m.memo[m.take(1)[0]]),
    "j": _push(lambda m: m.memo[m.number(_U4)]),
    "c": lambda m: m.name(m.line(), m.line()),
    "\x93": Machine.stack_name,
    "Q": _push(Machine.refer),
    "R": Machine.reduce,
    "\x81": lambda m: m.make(False),
    "\x92": lambda m: m.make(True),
    "b": Machine.build,
}.items()}
# fmt: on
