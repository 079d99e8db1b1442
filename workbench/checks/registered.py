"""Checks for modules and tensors that are not registered, such as layers in a plain list, and for modules used several times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..protocol.checks import Finding
from .case import Case, several


class Unknown(NamedTuple):
    """An attribute of a module with modules or a tensor that are not registered."""

    owner: Any
    attribute: str
    held: Any  # the list, tuple or dict of modules, or the tensor


def check(case: Case, thorough: bool) -> list[Finding]:
    """Check the modules that ran, if an optimizer has taken a step."""
    if not case.witness.updates:
        return []
    return [*_layers(case), *_tensors(case, thorough), *(_one_for_several(case) if thorough else [])]


def _modules(case: Case) -> list[Any]:
    """The modules that ran, and their submodules."""
    outer = [module for held in case.r.modules if (module := held()) is not None]
    return list({id(inner): inner for module in outer for inner in module.modules()}.values())


def _is_module(value: Any) -> bool:
    return hasattr(value, "named_parameters") and hasattr(value, "modules") and not isinstance(value, type)


def layers(case: Case) -> Iterator[Unknown]:
    """Yield plain attributes that are lists, tuples or dicts of modules."""
    for module in _modules(case):
        for name, value in vars(module).items():
            if not name.startswith("_") and isinstance(value, (list, tuple, dict)) and value:
                if all(map(_is_module, value.values() if isinstance(value, dict) else value)):
                    yield Unknown(module, name, value)


def tensors(case: Case) -> Iterator[Unknown]:
    """Yield plain attributes that are floating-point tensors used by a recorded op."""
    for module in _modules(case):
        for name, value in vars(module).items():
            if not name.startswith("_") and hasattr(value, "requires_grad") and hasattr(value, "is_leaf"):
                row = case.r.find(value)
                if row >= 0 and case.r.kind[row] in ("leaf", "input") and value.is_floating_point():
                    yield Unknown(module, name, value)


def parameters_of(one: Unknown) -> list[Any]:
    """The parameters of the modules in an unregistered list, tuple or dict."""
    modules = one.held.values() if isinstance(one.held, dict) else one.held
    return list({id(p): p for module in modules for p in module.parameters()}.values())


def _layers(case: Case) -> Iterator[Finding]:
    known = {id(p) for module in _modules(case) if any(True for _ in module.children()) for p in module.parameters()}
    for one in layers(case):
        lost = [p for p in parameters_of(one) if id(p) not in known and not case.updates(p)]
        if not lost:
            continue
        kind = type(one.held).__name__
        owner = type(one.owner).__name__
        sentence = (
            f"{one.attribute} of {owner} is a plain {kind}, so {owner} does not know the modules in it: parameters() leaves out "
            f"{_counted(lost)}, and no optimizer updates them."
        )
        why = "They keep their first values for ever, are not saved by state_dict(), and stay where they are when the model moves to a GPU."
        fix = f"self.{one.attribute} = nn.{'ModuleDict' if kind == 'dict' else 'ModuleList'}(...), before the optimizer is made"
        rows = [row for p in lost if (row := case.witness.row(case.r, p)) >= 0]
        yield case.finding(
            "unregistered-module", "error", sentence, rows[0] if rows else -1, why, fix,
            site=case.site_of_attribute(one.owner, one.attribute), operands=[case.operand(row) for row in rows[:4]],
        )  # fmt: skip


def _counted(parameters: list) -> str:
    return f"the {len(parameters)} parameters of these modules" if len(parameters) > 1 else "the parameter of this module"


def _tensors(case: Case, thorough: bool) -> Iterator[Finding]:
    for one in tensors(case):
        row, owner, site = case.r.find(one.held), type(one.owner).__name__, case.site_of_attribute(one.owner, one.attribute)
        if case.updates(one.held):
            continue
        if one.held.requires_grad:
            sentence = (
                f"{one.attribute} of {owner} is a tensor that requires grad, but no nn.Parameter: parameters() leaves it out, "
                "and no optimizer updates it."
            )
            why = "It receives a gradient in each pass, and keeps its first value for ever; state_dict() does not save it."
            fix = f"self.{one.attribute} = nn.Parameter(...)"
            yield case.finding("unregistered-parameter", "error", sentence, row, why, fix, site=site, operands=[case.operand(row)])
        elif thorough:
            sentence = f"{one.attribute} of {owner} is a plain tensor: it does not learn, and state_dict() and to() pass it by."
            why = "A module registers an nn.Parameter, which learns, or a buffer, which does not; both are saved and moved with it."
            fix = f'self.{one.attribute} = nn.Parameter(...) where it is to learn; else self.register_buffer("{one.attribute}", ...)'
            yield case.finding("unregistered-tensor", "note", sentence, row, why, fix, site=site, operands=[case.operand(row)])


def _one_for_several(case: Case) -> Iterator[Finding]:
    """A container with the same layer at several indices."""
    for module in _modules(case):
        places: dict[int, list[str]] = {}
        for name, child in getattr(module, "_modules", {}).items():
            if name.isdigit() and child is not None and any(True for _ in child.parameters()):
                places.setdefault(id(child), []).append(name)
        for names in places.values():
            if len(names) > 1:
                kind = type(module).__name__
                sentence = f"{several(names)} of a {kind} are one and the same module: all {len(names)} share its weights."
                why = "[layer] * n repeats the layer, it does not make n of them; their gradients are added up in one set of weights."
                fix = f"nn.{kind}(*[make_layer() for _ in range({len(names)})]) where each is to have its own"
                if kind == "ModuleList":
                    fix = fix.replace("(*[", "([")
                child = module._modules[names[0]]
                row = next((row for p in child.parameters() if (row := case.witness.row(case.r, p)) >= 0), -1)
                yield case.finding("shared-module", "note", sentence, row, why, fix)
