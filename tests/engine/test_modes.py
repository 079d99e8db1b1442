"""Whether ops are recorded: the grad modes as contexts, decorators, in generators and in threads. tests/parity runs this on torch."""

from __future__ import annotations

import threading

import pytest

import engine


def leaf():
    return engine.ones(2, requires_grad=True)


def recorded():
    return (leaf() * 2).requires_grad


def test_no_grad():
    x = leaf()
    with engine.no_grad():
        assert not engine.is_grad_enabled()
        y = x * 2
        assert not y.requires_grad and y.is_leaf and x.requires_grad
    assert engine.is_grad_enabled() and recorded()


def test_nested():
    with engine.no_grad():
        with engine.enable_grad():
            assert recorded()
            with engine.no_grad():
                assert not recorded()
            assert recorded()
        assert not recorded()
    assert recorded()


def test_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), engine.no_grad():
        raise ZeroDivisionError
    assert recorded()


@pytest.mark.parametrize("mode", ["called", "bare"])
def test_decorator(mode):
    decorate = engine.no_grad() if mode == "called" else engine.no_grad

    @decorate
    def f(a, *, b):
        """Mine."""
        return engine.is_grad_enabled(), a + b

    assert f(1, b=2) == (False, 3) and f.__name__ == "f" and f.__doc__ == "Mine." and recorded()


def test_decorator_on_a_recursive_function():
    @engine.no_grad()
    def f(n):
        return [engine.is_grad_enabled(), *(f(n - 1) if n else [])]

    assert f(3) == [False] * 4 and recorded()


def test_decorator_on_a_generator_function():
    """The mode holds while the generator runs, and not in the caller between its items."""

    @engine.no_grad()
    def steps():
        got = yield engine.is_grad_enabled()
        got = yield (engine.is_grad_enabled(), got)
        try:
            yield "wait"
        except KeyError:
            yield ("caught", engine.is_grad_enabled())
        return "end"

    def outer():
        return (yield from steps())

    generator = outer()
    assert next(generator) is False and recorded()
    assert generator.send("x") == (False, "x") and recorded()
    assert next(generator) == "wait"
    assert generator.throw(KeyError()) == ("caught", False) and recorded()
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"


def test_closing_a_decorated_generator_runs_its_cleanup():
    seen = []

    @engine.no_grad()
    def steps():
        try:
            yield 1
        finally:
            seen.append(engine.is_grad_enabled())

    generator = steps()
    next(generator)
    generator.close()
    assert seen == [False] and recorded()


def test_set_grad_enabled_as_a_function():
    engine.set_grad_enabled(False)
    try:
        assert not recorded()
    finally:
        engine.set_grad_enabled(True)
    assert recorded()


def test_set_grad_enabled_as_a_context():
    with engine.set_grad_enabled(False):
        assert not recorded()
        with engine.set_grad_enabled(True):
            assert recorded()
        assert not recorded()
    assert recorded()


def test_set_grad_enabled_as_a_decorator():
    @engine.set_grad_enabled(False)
    def f():
        return recorded()

    assert f() is False and recorded()


def test_inference_mode():
    x = leaf()
    with engine.inference_mode():
        assert engine.is_inference_mode_enabled() and not engine.is_grad_enabled()
        y = x * 2
        assert not y.requires_grad
        with engine.inference_mode(False):
            assert not engine.is_inference_mode_enabled() and engine.is_grad_enabled()
        assert engine.is_inference_mode_enabled()
    assert not engine.is_inference_mode_enabled() and recorded()


def test_inference_mode_as_a_decorator():
    @engine.inference_mode()
    def f():
        return engine.is_inference_mode_enabled()

    assert f() and not engine.is_inference_mode_enabled()


def test_each_thread_has_its_own_mode():
    inside, go = threading.Event(), threading.Event()
    seen = []

    def work():
        seen.append(engine.is_grad_enabled())
        with engine.no_grad():
            inside.set()
            go.wait(5)
            seen.append(engine.is_grad_enabled())

    with engine.no_grad():
        thread = threading.Thread(target=work)
        thread.start()
    inside.wait(5)
    assert engine.is_grad_enabled() and recorded()
    go.set()
    thread.join()
    assert seen == [True, False]


def test_backward_runs_within_no_grad():
    x = leaf()
    y = (x * x).sum()
    with engine.no_grad():
        y.backward()
    assert x.grad.tolist() == [2, 2]


def test_a_parameter_may_change_under_no_grad():
    x = leaf()
    with engine.no_grad():
        x += 1
        x.mul_(3)
    assert x.tolist() == [6, 6] and x.is_leaf and x.requires_grad
