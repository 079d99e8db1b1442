"""The implementation of `wb.show` for compiled steps."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..graph import text
from ..session.surface import ShownSession


class ProgramSession(ShownSession):
    """A session on the program that XLA runs. It prints itself as a table."""

    def __repr__(self) -> str:
        lines = text.tree(self.graph.message()).partition("\n")[2]
        return f"{self.recording.left_out()}\n{lines}"

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": repr(self)}

    def headline(self) -> str:
        return repr(self).partition("\n")[0]


def is_compiled(what: Any) -> bool:
    """Whether it is a compiled step or a module with a program, or what its `explain()` returned, or a program of that."""
    kinds = {"engine.compiler.compiled": ("Compiled",), "engine.compiler.explain": ("Explanation", "Program")}
    known = [getattr(module, name) for path, names in kinds.items() if (module := sys.modules.get(path)) is not None for name in names]
    called: Any = getattr(what, "_called", None)  # of a compiled module, which may have run only under a watch
    return isinstance(what, tuple(known)) or (isinstance(called, tuple(known)) and bool(called.plans))


def opened(what: Any, names: Mapping[str, Any]) -> ProgramSession:
    """A session on the newest program of a compiled function or an explanation, or on one program."""
    from engine.compiler.explain import Program

    from .recording import ProgramGraph, ProgramRecording

    program = what.explain() if hasattr(what, "explain") else what
    if not isinstance(program, Program):
        own = [one for one in program.programs if not one.backward]
        if not own:
            raise RuntimeError(str(program))
        program = own[-1]
    recording = ProgramRecording(program)
    session = ProgramSession(recording, ProgramGraph(recording))
    session.graph.finish(names)
    return session
