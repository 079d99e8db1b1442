"""Many small checks as a few tests: as a test each, tens of thousands of them would cost more than their work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest
from _pytest.mark import ParameterSet

SHOWN = 10  # failures of a group that are shown with their tracebacks; of the others a line
ungrouped = False  # whether each check is a test; known before test modules are imported


class Check(NamedTuple):
    """One set of arguments: its name, and why it is expected to fail, if it is."""

    name: str
    values: tuple
    known: str | None


class Group(NamedTuple):
    """The checks that one test makes, and the arguments that they are about."""

    names: list[str]
    checks: list[Check]


def grouped(
    names: str | tuple[str, ...], params: Iterable[Any], by: Callable[..., str] | None = None, ids: Callable[[Any], str] | None = None
) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` for checks that need no fixture for each: one test makes all checks of a group and reports every failure.

    `by` takes a check's arguments and names its group; without it all checks are one test. A check may be marked with a strict `xfail` for an
    AssertionError. With `--ungrouped`, with `-k`, or with an id in brackets on the command line, each check is a test of its own.
    """
    if ungrouped:
        return pytest.mark.parametrize(names, params, ids=ids)
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    groups: dict[str, Group] = {}
    for param in params:
        one = ParameterSet.extract_from(param, force_tuple=len(arguments) == 1)
        group = groups.setdefault(by(*one.values) if by else "all", Group(arguments, []))
        group.checks.append(Check(str(one.id or "-".join(map(ids or str, one.values))), tuple(one.values), known_failure(one)))
    blank = [None] * (len(arguments) - 1)
    return pytest.mark.parametrize(names, [pytest.param(group, *blank, id=name) for name, group in groups.items()])


def known_failure(param: ParameterSet) -> str | None:
    reasons = [mark.kwargs["reason"] for mark in param.marks if mark.name == "xfail" and mark.kwargs["raises"] is AssertionError]
    assert len(reasons) == len(list(param.marks)), f"{param.id}: a check of a group takes one mark, xfail(reason=, raises=AssertionError)"
    return reasons[0] if reasons else None


def failures(item: pytest.Function, group: Group) -> Iterator[tuple[Check, BaseException, str]]:
    """Makes each check; yields those that fail, with what pytest would show of them."""
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    for check in group.checks:
        arguments.update(zip(group.names, check.values, strict=True))
        try:
            item.obj(**arguments)
            if check.known:
                pytest.fail(f"passes, and was expected to fail: {check.known}")
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # to skip is to fail: each check is to be made
            if not (check.known and isinstance(error, AssertionError)):
                yield check, error, str(item.repr_failure(pytest.ExceptionInfo.from_exception(error)))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    group = next((value for value in pyfuncitem.funcargs.values() if isinstance(value, Group)), None)
    if group is None:
        return None
    pyfuncitem.user_properties.append(("checks", len(group.checks)))
    failed = list(failures(pyfuncitem, group))
    if failed:
        told = [f"{check.name}\n{shown}\n" for check, _, shown in failed[:SHOWN]]
        told += [f"{check.name}: {type(error).__name__}: {error}"[:300] for check, error, _ in failed[SHOWN:]]
        pytest.fail("\n".join([f"{len(failed)} of {len(group.checks)} checks failed:\n", *told]), pytrace=False)
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ungrouped", action="store_true", help="a test for each check of a group, with an id of its own")


def pytest_configure(config: pytest.Config) -> None:
    global ungrouped
    ungrouped = config.option.ungrouped or bool(config.option.keyword) or any("[" in str(argument) for argument in config.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    called = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, []) if one.when == "call"]
    checks = sum(dict(one.user_properties).get("checks", 1) for one in called)
    if checks > len(called):
        terminalreporter.write_line(f"{checks:,} checks in {len(called):,} tests")
