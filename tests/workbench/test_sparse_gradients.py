"""Sparse tensors and sparse gradients where the workbench looks: recordings, memory, summaries, the stepper."""

from __future__ import annotations

import numpy

import engine
import workbench as wb
from engine.base import observe
from workbench.backward.stepper import Stepper
from workbench.graph.graph import Graph
from workbench.inspector import summary
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace


def program():
    engine.manual_seed(0)
    table, layer = engine.nn.Embedding(6, 3, sparse=True), engine.nn.Linear(3, 1)
    adjacency = engine.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [1.0, 2, 3], (2, 3))
    return table, lambda: (layer(engine.sparse.mm(adjacency, table(engine.tensor([1, 2, 1])))) ** 2).sum()


def test_a_recording_has_the_product_and_the_pass():
    table, run = program()
    recorder = Recorder()
    with observe.observing(recorder):
        run().backward()
    recorder.stop()
    r = recorder.recording
    assert {"embedding", "coo_matmul", "linear"} <= {r.op_name(i) for i in range(r.count)}
    assert table.weight.grad.is_sparse


def test_the_steps_of_an_optimizer_are_recorded():
    table, run = program()
    optimizer = engine.optim.SGD(table.parameters(), lr=0.1)
    with wb.watch() as watch:
        for _ in range(2):
            optimizer.zero_grad()
            run().backward()
            optimizer.step()
    assert len(watch.session.recording.witness.updates) == 2


def test_the_text_of_a_recording_tells_of_the_gradient():
    table, run = program()
    with wb.record() as recording:
        run().backward()
    norm = float(numpy.linalg.norm(table.weight.grad.to_dense().array))
    assert f"gradient norm {norm:.4g}" in repr(recording)


def test_a_summary_counts_the_zeros_that_are_not_there():
    table, run = program()
    run().backward()
    found = summary(table.weight.grad.array)
    assert found.shape == [6, 3] and found.zero == int((table.weight.grad.to_dense().array == 0).sum())


def test_steps_forth_and_back_leave_the_gradient_of_backward():
    table, run = program()
    run().backward()
    wanted = table.weight.grad.to_dense().array
    table.weight.grad, loss = None, run()
    recording = retrace([loss.node], [loss])
    graph = Graph(recording)
    graph.finish({})
    stepper = Stepper.of(recording, graph, loss)
    while not stepper.done:
        stepper.next()
    assert numpy.array_equal(table.weight.grad.to_dense().array, wanted)
    stepper.previous()
    while not stepper.done:
        stepper.next()
    assert numpy.array_equal(table.weight.grad.to_dense().array, wanted)
