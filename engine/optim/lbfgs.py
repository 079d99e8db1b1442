"""L-BFGS: a quasi-Newton method with an optional line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..autograd import enable_grad
from ..core import inplace
from ..core.tensor import Tensor
from .optimizer import Optimizer, as_real, library, number, options


class LBFGS(Optimizer):
    """L-BFGS: up to `max_iter` quasi-Newton iterations per `step(closure)`, from the last `history_size` changes of p and g.

    Supports one parameter group. `closure` clears the gradients, computes the loss, calls `backward()` and returns the loss.
    `line_search_fn` is None (a step of size `lr`) or "strong_wolfe". Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4,
    3.5 and 3.6.
    """

    def __init__(
        self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval, tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change, history_size=history_size, line_search_fn=line_search_fn,
        ))  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    # -- parameters and gradients as one vector -----------------------------------------------------------------------------------

    def _gradient(self) -> Any:
        xp = library(self._params[0].array)
        dense = [None if p._grad is None else p._grad.to_dense() if p._grad.is_sparse else p._grad for p in self._params]
        found = [xp.zeros_like(p.array) if g is None else g.array for p, g in zip(self._params, dense, strict=True)]
        return xp.concatenate([as_real(g).reshape(-1) for g in found])

    def _place(self) -> list:
        return [p.array.copy() for p in self._params]

    def _go(self, start: list | None, step: float, direction: Any) -> None:
        """Set the parameters to `start` (None: their current values) + step * direction."""
        at = 0
        for i, p in enumerate(self._params):
            array = p.array
            if start is not None:
                array[...] = start[i]
            pairs = as_real(array)
            pairs += step * direction[at : at + pairs.size].reshape(pairs.shape)
            at += pairs.size
            inplace.note_write_to(p, "LBFGS.step")

    def _step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        group = self.param_groups[0]
        lr, most_calls = number(group["lr"]), group["max_eval"]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")

        def evaluate() -> Any:
            with enable_grad():
                return closure()

        first = evaluate()
        loss, calls = float(first), 1
        g = self._gradient()
        state = self.state[self._params[0]]
        state["func_evals"] = state.get("func_evals", 0) + 1
        state.setdefault("n_iter", 0)
        if abs(g).max() <= group["tolerance_grad"]:
            return first
        memory = _Memory(state, group["history_size"])
        iterations, t = 0, number(state.get("t", lr))
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = -g if state["n_iter"] == 1 else memory.direction(g)
            state["d"] = Tensor._wrap(direction)
            state["prev_flat_grad"], state["prev_loss"] = Tensor._wrap(g.copy()), loss
            before = loss
            t = min(1.0, 1.0 / float(abs(g).sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(g @ direction)
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if group["line_search_fn"] == "strong_wolfe":
                start = self._place()

                def along(step: float, start: list = start, direction: Any = direction) -> tuple[float, Any]:
                    self._go(start, step, direction)
                    value = float(evaluate())
                    return value, self._gradient()

                loss, g, t, used = strong_wolfe(along, t, direction, loss, g, slope, most_calls - calls)
                self._go(start, t, direction)
            else:
                self._go(None, t, direction)
                if iterations != group["max_iter"]:
                    loss = float(evaluate())
                    g = self._gradient()
                    used = 1
            calls += used
            state["func_evals"] += used
            state["t"] = t
            if iterations == group["max_iter"] or calls >= most_calls or abs(g).max() <= group["tolerance_grad"]:
                break
            if abs(direction * t).max() <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]:
                break
        return first


class _Memory:
    """The recent changes of gradient and parameters, stored in the optimizer's state so that they are saved with it."""

    def __init__(self, state: dict, size: int) -> None:
        self.state, self.size = state, size
        for name in ("old_dirs", "old_stps", "ro"):
            state.setdefault(name, [])

    def direction(self, g: Any) -> Any:
        """Add the last step to the history and return -H g by the two-loop recursion."""
        state = self.state
        ys, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y = g - state["prev_flat_grad"].array
        s = state["d"].array * number(state["t"])
        curvature = float(y @ s)
        if curvature > 1e-10:
            if len(ys) == self.size:
                del ys[0], steps[0], ro[0]
            ys.append(Tensor._wrap(y))
            steps.append(Tensor._wrap(s))
            ro.append(Tensor._wrap(library(y).asarray(1.0 / curvature, y.dtype)))
            state["H_diag"] = Tensor._wrap(library(y).asarray(curvature / float(y @ y), y.dtype))
        q = -g
        alphas = [0.0] * len(ys)
        for i in reversed(range(len(ys))):
            alphas[i] = float(steps[i].array @ q) * number(ro[i])
            q = q - alphas[i] * ys[i].array
        q = q * float(number(state.get("H_diag", 1)))
        for i in range(len(ys)):
            q = q + steps[i].array * (alphas[i] - float(ys[i].array @ q) * number(ro[i]))
        return q


def _cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Return the minimizer of the cubic through two values and slopes, clamped to bounds; their midpoint if there is no minimum."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0 or not numpy.isfinite(square):
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def strong_wolfe(
    along: Callable[[float], tuple[float, Any]], t: float, direction: Any, f: float, g: Any, slope: float, most: int,
    c1: float = 1e-4, c2: float = 0.9, tolerance: float = 1e-9,
) -> tuple[float, Any, float, int]:  # fmt: skip
    """Search a step with f(t) <= f + c1 t slope and |f'(t)| <= c2 |slope|; return `(f, g, t, evaluations)`.

    After `most` tries, which take `most` + 1 evaluations, return the best step so far.
    """
    reach = float(abs(direction).max())
    new_f, new_g = along(t)
    new_slope = float(new_g @ direction)
    calls, tries = 1, 0
    # a bracket end is (t, f, g, slope)
    last = (0.0, f, g.copy(), slope)
    done = False
    bracket: list = []
    while tries < most:
        here = (t, new_f, new_g.copy(), new_slope)
        if new_f > f + c1 * t * slope or (tries > 1 and new_f >= last[1]):
            bracket = [last, here]
            break
        if abs(new_slope) <= -c2 * slope:
            bracket, done = [here], True
            break
        if new_slope >= 0:
            bracket = [last, here]
            break
        t_next = _cubic_interpolate(last[0], last[1], last[3], t, new_f, new_slope, (t + 0.01 * (t - last[0]), t * 10))
        last, t = here, t_next
        new_f, new_g = along(t)
        new_slope = float(new_g @ direction)
        calls += 1
        tries += 1
    if tries == most:
        bracket = [(0.0, f, g, slope), (t, new_f, new_g.copy(), new_slope)]
    stuck = False
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and tries < most:
        if abs(bracket[1][0] - bracket[0][0]) * reach < tolerance:
            break
        (t1, f1, _, s1), (t2, f2, _, s2) = bracket
        t = _cubic_interpolate(t1, f1, s1, t2, f2, s2)
        far, near = max(t1, t2), min(t1, t2)
        margin = 0.1 * (far - near)
        if min(far - t, t - near) < margin:
            if stuck or t >= far or t <= near:
                t = far - margin if abs(t - far) < abs(t - near) else near + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new_f, new_g = along(t)
        new_slope = float(new_g @ direction)
        calls += 1
        tries += 1
        here = (t, new_f, new_g.copy(), new_slope)
        if new_f > f + c1 * t * slope or new_f >= bracket[low][1]:
            bracket[high] = here
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(new_slope) <= -c2 * slope:
                done = True
            elif new_slope * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = here
    best = bracket[low] if len(bracket) > 1 else bracket[0]
    return best[1], best[2], best[0], calls


def _strong_wolfe(
    obj_func: Callable[[Any, float, Tensor], tuple[Any, Tensor]], x: Any, t: Any, d: Tensor, f: Any, g: Tensor, gtd: Any,
    c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:  # fmt: skip
    """Search a step along `d` for `obj_func(x, t, d)`, which returns a value and a gradient: `strong_wolfe` as libraries call it."""

    def along(step: float) -> tuple[float, Any]:
        value, gradient = obj_func(x, step, d)
        return float(value), gradient.detach().array

    value, gradient, t, calls = strong_wolfe(along, float(t), d.array, float(f), g.array, float(gtd), max_ls, c1, c2, tolerance_change)
    return value, Tensor._wrap(gradient), t, calls
