"""What is said of a step is true of its arrays: for every call that an op declares, what is said to be summed, spread or gained is computed."""

from __future__ import annotations

import numpy

import cases
import engine
from engine.core.op import Elementwise
from workbench.backward.stepper import Stepper
from workbench.graph.graph import Graph
from workbench.recording.recompute import Cannot
from workbench.recording.retrace import retrace
from workbench.whatif.one import one_op
from workbench.whatif.substeps import sub_steps


def close(a, b) -> bool:
    return numpy.shape(a) == numpy.shape(b) and numpy.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)


def repeated(case, inputs: list, slot: int, out) -> bool:
    """Whether the input acts as if it were repeated to the shape of the result: the result is the same when it is."""
    x = inputs[slot]
    try:
        wide = numpy.broadcast_to(x, out.shape)
        again = cases.call(case, cases.leaves([*inputs[:slot], wide.copy(), *inputs[slot + 1 :]]))[0]
    except (ValueError, RuntimeError, TypeError, IndexError):
        return False
    return close(again.detach().numpy(), out.detach().numpy())


@cases.each("sentences")
def test_sums_spreads_and_gains_are_what_they_are_said_to_be(case):
    inputs = cases.draw(case)
    leaves = cases.leaves(inputs)
    results = cases.call(case, leaves)
    smooth = [r for r in cases.smooth(case, results) if r.requires_grad]
    if not smooth:
        return
    rng = cases.rng_of(case)
    seeds = [engine.tensor(cases.normal_like(r.detach().numpy(), rng)) for r in smooth]
    loss = sum(((r * seed).real if r.is_complex() else r * seed).sum() for r, seed in zip(smooth, seeds, strict=True))
    recording = retrace([loss.node], [loss])
    graph = Graph(recording)
    graph.finish({})
    stepper = Stepper.of(recording, graph, loss)
    stepper.finish()
    own = {r.node if r.node.op is case.op else r.node.inputs[0] for r in smooth}
    places = [at for at, taken in enumerate(stepper.taken, 1) if taken is not None and taken.node in own]
    for at in places:
        step, taken = stepper.step(at), stepper.taken[at - 1]
        upstream, gained = stepper.sizes(at)
        for contribution, (_, gradient, total) in zip(step.contributions, gained, strict=True):
            assert contribution.gradient.size == gradient.size
            assert numpy.isclose(contribution.gradient.norm, numpy.linalg.norm(numpy.asarray(gradient).ravel()), rtol=1e-5, equal_nan=True)
            assert numpy.isclose(contribution.total.norm, numpy.linalg.norm(numpy.asarray(total).ravel()), rtol=1e-5, equal_nan=True)
        live = [i for i, held in enumerate(taken.totals) if held is not None]
        for slot, contribution in zip(live, step.contributions, strict=True):
            if slot < len(inputs) and isinstance(inputs[slot], numpy.ndarray) and len(results) == 1 and not case.op.variadic:
                out = results[0]
                wide = inputs[slot].shape != tuple(out.shape) and repeated(case, inputs, slot, out)
                axes = [a for a in range(out.ndim) if a < out.ndim - inputs[slot].ndim or inputs[slot].shape[a - out.ndim] != out.shape[a]]
                assert contribution.unbroadcast in ([], axes if wide else []), f"{contribution.input}: {contribution.unbroadcast}, {wide}"
                assert contribution.unbroadcast or not wide or not issubclass(case.op, Elementwise)
            elif case.op.variadic:
                assert contribution.unbroadcast == []
        if isinstance(taken.upstream, list):  # of an op with several results: nothing is said of sums and spreads
            continue
        try:
            one = one_op(recording, step.node, {step.node: taken.node})
        except Cannot:
            continue
        for slot in live:
            gradient = numpy.asarray(taken.gradients[slot])
            for part in sub_steps(one, slot, upstream, taken.gradients[slot], "x"):
                before, after = numpy.asarray(part.before), numpy.asarray(part.after)
                if part.kind == "sum":
                    assert close(before.sum(tuple(part.axes)).reshape(after.shape), after), part.sentence
                elif part.kind == "spread":
                    kept = [1 if a in part.axes else n for a, n in enumerate(after.shape)]
                    whole = numpy.broadcast_to(before.reshape(kept), after.shape)
                    count = numpy.prod([after.shape[a] for a in part.axes])
                    if "took" in part.sentence:
                        taken_there = after != 0
                        assert close(numpy.where(taken_there, whole, 0), after) and (taken_there.sum(tuple(part.axes)) <= 1).all()
                    elif "its own factor" in part.sentence:
                        assert not close(whole, after) and not close(whole / count, after), part.sentence
                    else:
                        assert close(whole / count if f"1/{count}" in part.sentence else whole, after), part.sentence
                assert close(after, gradient) or part.kind == "sum", part.sentence
