"""`torch.cuda` on the stand-in for CuPy: devices, memory, streams, events, graphs, pinned memory, random state."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import types

import host_streams
import numpy
import pytest
import syncs
from on_stand_in import installed

import engine
from engine.base import errors
from engine.core import devices

cuda = engine.cuda


@pytest.fixture
def two_gpus():
    with installed(gpus=2) as backend:
        yield backend


def on_gpu(*values, **more):
    return engine.tensor(values, device="cuda", **more)


# -- without a GPU -------------------------------------------------------------------------------------------------------------


def test_importing_and_asking_loads_no_cupy():
    program = (
        "import sys, engine, engine.cuda.nvtx, engine.cuda.comm, engine.cuda.nccl, engine.cuda.profiler\n"
        "cuda = engine.cuda\n"
        "cuda.is_initialized(), cuda.is_current_stream_capturing(), cuda.FloatTensor, engine.ones(2).is_pinned(), cuda.Event()\n"
        "sys.exit('cupy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.skipif(devices.cuda_available(), reason="says what comes without a GPU")
def test_without_a_gpu_it_answers_as_a_build_for_the_cpu():
    assert cuda.default_generators == () and not cuda.is_current_stream_capturing() and cuda.get_gencode_flags() == ""
    assert cuda.memory_stats_as_nested_dict() == {} and not cuda.is_tf32_supported() and not cuda.nccl.is_available([])
    assert not engine.ones(2).is_pinned() and engine.zeros(2, pin_memory=True).tolist() == [0, 0]
    with cuda.nvtx.range("a"), cuda.profiler.profile():
        assert cuda.nvtx.range_start("b") == 0
    refused = [cuda.CUDAGraph, cuda.graph_pool_handle, cuda.MemPool, cuda.get_rng_state, cuda.initial_seed, cuda.cudart]
    refused += [cuda.get_per_process_memory_fraction, lambda: cuda.ExternalStream(3), cuda.device_memory_used, cuda.utilization]
    for call in refused:
        with pytest.raises(RuntimeError, match="No CUDA device can be used"):
            call()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        engine.ones(2).pin_memory()


# -- devices -------------------------------------------------------------------------------------------------------------------


def test_properties_have_the_names_and_the_text_of_pytorch(stand_in):
    found = cuda.get_device_properties("cuda:0")
    assert (found.name, found.major, found.total_memory, found.multi_processor_count) == ("Stand-in", 9, 1 << 34, 132)
    assert found.shared_memory_per_multiprocessor == 233472 and found.regs_per_multiprocessor == 65536 and found.pci_bus_id == 3
    assert not hasattr(found, "clock_rate")  # of which this CUDA tells nothing
    assert repr(found).startswith(
        "_CudaDeviceProperties(name='Stand-in', major=9, minor=0, total_memory=16384MB, multi_processor_count=132, uuid=00010203-"
    ) and repr(found).endswith("L2_cache_size=64MB)")
    assert cuda.get_arch_list() == ["sm_90"] and cuda.get_gencode_flags() == "-gencode compute=compute_90,code=sm_90"
    assert cuda.get_device_capability() == (9, 0) and cuda.mem_get_info()[1] == 1 << 34 and engine.version.cuda == "12.8"
    assert cuda.cudart().cudaMemGetInfo(0) == cuda.mem_get_info() and cuda.device_memory_used() == (1 << 34) - cuda.mem_get_info()[0]


def test_the_current_device_is_set_and_restored(two_gpus):
    assert cuda.device_count() == 2 and cuda.current_device() == 0
    with cuda.device("cuda:1"):
        assert cuda.current_device() == 1 and str(engine.ones(2, device="cuda").device) == "cuda:1"
        with cuda.device_of(engine.ones(1, device="cuda:0")), cuda.device(None), cuda.device(-1):
            assert cuda.current_device() == 0
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0
    with engine.accelerator.device_index(1):
        assert engine.accelerator.current_device_index() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal 7; there are 2"):
        cuda.set_device(7)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.device("cpu")


def test_tensors_go_between_gpus(two_gpus):
    x = engine.arange(6.0, device="cuda:1", requires_grad=True)
    y = x.to("cuda:0")
    assert str(y.device) == "cuda:0" and y.tolist() == [0, 1, 2, 3, 4, 5]
    (y * y).sum().backward()
    assert str(x.grad.device) == "cuda:1" and x.grad.tolist() == [0, 2, 4, 6, 8, 10]
    copy = pickle.loads(pickle.dumps(x))
    assert str(copy.device) == "cuda:1" and copy.tolist() == x.tolist() and copy.requires_grad


def test_ops_run_where_their_tensors_are(two_gpus):
    x = engine.arange(6.0, device="cuda:1").reshape(2, 3).requires_grad_()
    w = engine.ones(3, 2, device="cuda:1", requires_grad=True)
    y = (x @ w).tanh().exp() + x.sum() + engine.cat([x, x])[:2, :2] + x.detach().clone().mul_(2)[:, :2]
    y.mean().backward()
    a, b = engine.arange(6.0).reshape(2, 3).requires_grad_(), engine.ones(3, 2, requires_grad=True)
    expected = (a @ b).tanh().exp() + a.sum() + engine.cat([a, a])[:2, :2] + a.detach().clone().mul_(2)[:, :2]
    expected.mean().backward()
    assert {str(t.device) for t in (y, x.grad, w.grad)} == {"cuda:1"} and cuda.current_device() == 0
    for ours, theirs in ((y, expected), (x.grad, a.grad), (w.grad, b.grad)):
        numpy.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-5)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cuda:1"):
        x + engine.ones(3, device="cuda:0")


def test_copies_and_sums_over_gpus(two_gpus):
    x = engine.arange(4.0, device="cuda:0")
    parts = cuda.comm.scatter(x, [0, 1])
    assert [str(p.device) for p in parts] == ["cuda:0", "cuda:1"] and [p.tolist() for p in parts] == [[0, 1], [2, 3]]
    assert cuda.comm.gather(parts, destination=1).tolist() == [0, 1, 2, 3] and cuda.comm.gather(parts, destination="cpu").is_cpu
    both = cuda.comm.broadcast(x, [0, 1])
    assert both[0] is x and str(both[1].device) == "cuda:1" and both[1].tolist() == x.tolist()
    total = cuda.comm.reduce_add(both, 1)
    assert total.tolist() == [0, 2, 4, 6] and str(total.device) == "cuda:1"
    assert [t.tolist() for t in cuda.comm.reduce_add_coalesced([[x, x], [both[1], both[1]]], 0)] == [[0, 2, 4, 6]] * 2
    assert cuda.nccl.is_available(both) and not cuda.nccl.is_available([x, x])
    cuda.nccl.all_reduce([x, both[1]])
    assert x.tolist() == both[1].tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="inputs of one shape"):
        cuda.comm.reduce_add([x, x[:2]])


# -- memory --------------------------------------------------------------------------------------------------------------------


def test_allocations_are_counted_from_the_reset_on(stand_in):
    gc.collect()  # what other tests left would be freed in between
    cuda.empty_cache()
    kept = engine.ones(1000, device="cuda")
    cuda.reset_peak_memory_stats()
    start = cuda.memory_allocated()
    more = engine.empty(2000, device="cuda")
    assert cuda.memory_allocated() == start + 8192 == cuda.max_memory_allocated()
    del more
    stats = cuda.memory_stats()
    assert (stats["allocated_bytes.all.current"], stats["allocated_bytes.all.peak"]) == (start, start + 8192)
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == 8192 and stats["allocation.all.allocated"] == 1
    assert stats["requested_bytes.all.allocated"] == stats["requested_bytes.all.freed"] == 8000
    assert stats["segment.all.allocated"] == 1 and stats["num_ooms"] == 0 and stats["active_bytes.all.peak"] == start + 8192
    assert cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["peak"] == start + 8192
    cuda.reset_accumulated_memory_stats()
    assert cuda.memory_stats()["allocated_bytes.all.allocated"] == 0 and cuda.max_memory_allocated() == start + 8192
    held = cuda.memory_reserved()
    cuda.empty_cache()
    assert cuda.memory_reserved() == held - 8192 and cuda.max_memory_reserved() == held and kept[0].item() == 1


def test_statistics_have_keys_of_pytorch(stand_in):
    cuda.reset_peak_memory_stats()
    kinds = {"allocated_bytes", "requested_bytes", "reserved_bytes", "active_bytes", "allocation", "segment"}
    moments = {"current", "peak", "allocated", "freed"}
    assert set(cuda.memory_stats()) == {f"{kind}.all.{moment}" for kind in kinds for moment in moments} | {"num_ooms"}


def test_the_summary_is_a_table_of_pytorchs_width(stand_in):
    before = cuda.memory_summary()
    cuda.reset_peak_memory_stats()
    for table in (before, cuda.memory_summary(), cuda.memory_summary(abbreviated=True)):
        lines = table.splitlines()
        assert {len(line) for line in lines} == {77} and lines[0] == f"|{'=' * 75}|" and "device ID 0" in lines[1]
        assert "| Allocated memory      |" in table and "| GPU reserved memory   |" in table


def test_an_exhausted_memory_says_how_much_and_what_is_large(stand_in, monkeypatch):
    largest = engine.ones(3000, 4, device="cuda")
    monkeypatch.setattr(errors, "origin", lambda array: "h, made in train.py, line 12" if array.shape == (3000, 4) else "")
    cuda.set_per_process_memory_fraction(2.0**-14)
    assert cuda.get_per_process_memory_fraction() == 2.0**-14
    with pytest.raises(cuda.OutOfMemoryError) as raised:
        engine.empty(10**7, device="cuda") * 2
    told = str(raised.value)
    assert told.startswith("CUDA out of memory. Tried to allocate 38.15 MiB. GPU 0 has a total capacity of 16.00 GiB of which ")
    assert "is allocated by tensors, and" in told and "The pool is limited to 1.00 MiB" in told
    assert told.splitlines()[1] == "46.88 KiB: float32 (3000, 4), h, made in train.py, line 12" and len(told.splitlines()) <= 6
    assert isinstance(raised.value, MemoryError) and cuda.memory_stats()["num_ooms"] == 1
    cuda.set_per_process_memory_fraction(1.0)
    assert cuda.get_per_process_memory_fraction() == 1.0 and engine.empty(10**7, device="cuda").is_cuda and largest.is_cuda
    for wrong, error in ((1, TypeError), (1.5, ValueError)):
        with pytest.raises(error):
            cuda.set_per_process_memory_fraction(wrong)


def test_raw_memory_and_pools(stand_in):
    before = cuda.memory_allocated()
    pointer = cuda.caching_allocator_alloc(1000)
    assert cuda.memory_allocated() == before + 1024
    cuda.caching_allocator_delete(pointer)
    assert cuda.memory_allocated() == before
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        cuda.caching_allocator_delete(pointer)
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        x = engine.ones(1000, device="cuda")
    assert pool._pool.memory.used_bytes() == 4096 and cuda.memory_allocated() == before + 4096
    del x
    assert pool._pool.memory.used_bytes() == 0 and cuda.memory_reserved() >= 4096


def test_memory_that_another_stream_uses_is_not_reused_before_it_is_done(stand_in):
    side = cuda.Stream()

    def freed(recorded):
        x = engine.ones(1000, device="cuda")
        place = x.data_ptr()
        with cuda.stream(side):
            for _ in range(50):
                x * 2
        if recorded:
            x.record_stream(side)
        del x
        return place

    assert engine.empty(1000, device="cuda").data_ptr()
    place = freed(False)
    assert engine.ones(1000, device="cuda").data_ptr() == place  # while the other stream still reads it
    place = freed(True)
    assert not side.query()
    assert engine.ones(1000, device="cuda").data_ptr() != place
    side.synchronize()
    engine.ones(1, device="cuda")  # an allocation looks for what is done
    assert place in {engine.ones(1000, device="cuda").data_ptr() for _ in range(1)}
    with pytest.raises(RuntimeError, match="record_stream is for tensors on a GPU"):
        engine.ones(1).record_stream(side)


# -- streams and events --------------------------------------------------------------------------------------------------------


def test_streams_run_beside_each_other_and_wait_for_events(stand_in):
    x, first, second = on_gpu(1.0, 2.0), cuda.Stream(), cuda.Stream(priority=-1)
    assert first != second and hash(first) != hash(second) and second.priority == -1 and first.query()
    times = {}
    for name, waits in (("beside", False), ("after", True)):
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        with cuda.stream(first):
            begin.record()
            for _ in range(20):
                x + 1
            done = first.record_event()
        assert not done.query()
        with cuda.stream(second):
            if waits:
                done.wait()
            x * 2
            end.record()
        with pytest.raises(RuntimeError, match="must be completed"):
            begin.elapsed_time(end)
        end.synchronize()
        times[name] = begin.elapsed_time(end)
    assert times["after"] >= times["beside"] + 19 * host_streams.WORKED - 20 * host_streams.SUBMITTED


def test_contexts_of_streams_nest_over_devices(two_gpus):
    here, there = cuda.Stream(), cuda.Stream("cuda:1")
    assert str(there.device) == "cuda:1" and there.device_index == 1
    with cuda.stream(here):
        with there:
            assert cuda.current_device() == 1 and cuda.current_stream() == there and cuda.current_stream(0) == here
            with there, cuda.stream(None):
                assert cuda.current_stream() == there
        assert cuda.current_device() == 0 and cuda.current_stream() == here and cuda.current_stream(1) == cuda.default_stream(1)
    assert cuda.current_stream() == cuda.default_stream() and cuda.current_stream().cuda_stream == 0
    event = here.record_event()
    with pytest.raises(RuntimeError, match="Event device cuda:0 does not match recording stream's device cuda:1"):
        event.record(there)
    event.wait(there)
    there.wait_stream(here)
    cuda.set_stream(there)
    assert cuda.current_device() == 1 and cuda.current_stream() == there


def test_events_have_the_refusals_and_texts_of_pytorch(stand_in):
    event, timed = cuda.Event(), cuda.Event(enable_timing=True)
    assert event.query() and event.cuda_event == 0 and repr(event) == "<torch.cuda.Event uninitialized>"
    event.synchronize(), event.wait()
    with pytest.raises(ValueError, match="enable_timing=True"):
        event.elapsed_time(timed)
    with pytest.raises(ValueError, match="must be recorded"):
        timed.elapsed_time(timed)
    event.record()
    assert repr(event) == f"<torch.cuda.Event {event.cuda_event:#x}>" and str(event.device) == "cuda:0"
    stream = cuda.Stream()
    assert repr(stream) == f"<torch.cuda.Stream device=cuda:0 cuda_stream={stream.cuda_stream:#x}>"
    assert stream.__cuda_stream__() == (0, stream.cuda_stream) and stream._as_parameter_.value == stream.cuda_stream
    assert isinstance(stream, engine.Stream) and isinstance(event, engine.Event)
    with pytest.raises(TypeError, match="unexpected arguments"):
        cuda.Stream(colour="red")


def test_a_stream_of_another_library(stand_in):
    theirs = stand_in.cupy.cuda.Stream(non_blocking=True)
    ours = cuda.ExternalStream(theirs.ptr)
    with cuda.stream(ours):
        assert stand_in.cupy.cuda.get_current_stream() == theirs
    assert ours == cuda.get_stream_from_external(theirs.ptr) and isinstance(ours, cuda.Stream)


# -- graphs --------------------------------------------------------------------------------------------------------------------


def test_a_replay_computes_what_was_captured_from_new_inputs(stand_in):
    x, w = on_gpu(1.0, -2.0, 3.0), on_gpu([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        assert cuda.is_current_stream_capturing()
        y = (x.relu() * 2 + 1).exp().log() @ w
        y += 1
        z = y.sum()
    assert not cuda.is_current_stream_capturing() and numpy.isnan(z.item())  # nothing has been computed
    weights = numpy.array([[1, 2], [3, 4], [5, 6]], float)
    for values in ([1.0, -2.0, 3.0], [0.5, 0.25, -1.0], [2.0, 2.0, 2.0]):
        x.copy_(engine.tensor(values))
        graph.replay()
        expected = (numpy.maximum(values, 0) * 2 + 1) @ weights + 1
        numpy.testing.assert_allclose(y.tolist(), expected, rtol=1e-6)
        numpy.testing.assert_allclose(z.item(), expected.sum(), rtol=1e-6)


def test_a_capture_computes_nothing_and_a_replay_does_not_wait(stand_in):
    x = on_gpu(1.0, 2.0)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        x.mul_(3)
    assert x.tolist() == [1, 2]
    syncs.found.clear()
    graph.replay()
    graph.replay()
    assert syncs.found == [] and x.tolist() == [9, 18]


def test_a_training_step_is_a_graph(stand_in):
    layers = [engine.nn.Linear(3, 4), engine.nn.Linear(4, 1)]
    eager = engine.nn.Sequential(layers[0], engine.nn.Tanh(), layers[1])
    model = engine.nn.Sequential(engine.nn.Linear(3, 4), engine.nn.Tanh(), engine.nn.Linear(4, 1))
    model.load_state_dict(eager.state_dict())
    model.to("cuda")
    x, y = engine.zeros(5, 3, device="cuda"), engine.zeros(5, 1, device="cuda")
    optimizer, reference = (engine.optim.SGD(m.parameters(), lr=0.1) for m in (model, eager))

    def step(model, optimizer, x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        loss = step(model, optimizer, x, y)
    assert all(engine.equal(a.cpu(), b) for a, b in zip(model.parameters(), eager.parameters(), strict=True))
    for seed in range(3):
        engine.manual_seed(seed)
        batch, target = engine.randn(5, 3), engine.randn(5, 1)
        x.copy_(batch), y.copy_(target)
        graph.replay()
        expected = step(eager, reference, batch, target)
        numpy.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-5)
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            numpy.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_a_graph_has_memory_of_its_own_as_long_as_it_lives(stand_in):
    x = on_gpu(*range(1000), dtype=engine.float32)
    x * 1  # compiles the kernel
    before = cuda.memory_reserved()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = ((x * 2) * 2) * 2
    assert cuda.memory_reserved() > before - 4096
    other = [engine.ones(1000, device="cuda") for _ in range(20)]  # writes to whatever memory is free
    cuda.empty_cache()
    graph.replay()
    assert y.tolist() == [8 * i for i in range(1000)] and all(o[0].item() == 1 for o in other)
    held = cuda.memory_reserved()
    graph.reset()
    del graph
    gc.collect()
    assert cuda.memory_reserved() == held - 2 * 4096 - 512  # two intermediates and the random state; the output is still in use
    assert y[1].item() == 8


def test_graphs_share_a_pool(stand_in):
    x, pool = on_gpu(1.0, 2.0), cuda.graph_pool_handle()
    first, second, third = cuda.CUDAGraph(), cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(first, pool=pool):
        y = x + 1
    with cuda.graph(second, pool=first.pool()):
        z = y * 2
    with cuda.graph(third, cuda.MemPool().id):
        x * 1
    assert first.pool() == second.pool() == pool != third.pool()
    first.replay(), second.replay()
    assert z.tolist() == [4, 6]


def test_a_graph_launches_on_the_current_stream_and_on_one_of_the_programs(stand_in):
    x, stream = on_gpu(1.0), cuda.Stream()
    graph = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(graph, stream=stream):
        assert cuda.current_stream() == stream
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            y = x + 1
        cuda.current_stream().wait_stream(side)
        z = y * 2
    with cuda.stream(side):
        graph.replay()
    cuda.synchronize()
    assert z.item() == 4 and graph.raw_cuda_graph() and graph.raw_cuda_graph_exec()


def test_random_numbers_differ_in_each_replay_and_follow_the_seed(stand_in):
    cuda.manual_seed(3)
    eager = [engine.rand(5, device="cuda").tolist() for _ in range(4)]
    graph = cuda.CUDAGraph()
    cuda.manual_seed(3)
    with cuda.graph(graph):
        x, y = engine.rand(5, device="cuda"), engine.rand(5, device="cuda")
    found = []
    for _ in range(2):
        graph.replay()
        found += [x.tolist(), y.tolist()]
    assert found == eager
    cuda.manual_seed(3)
    graph.replay()
    assert [x.tolist(), y.tolist()] == eager[:2]
    assert engine.rand(5, device="cuda").tolist() == eager[2]  # what is drawn after a replay continues the stream


def test_a_registered_generator_draws_in_a_graph(stand_in):
    generator = engine.Generator("cuda").manual_seed(9)
    eager = [engine.randn(4, device="cuda", generator=generator).tolist() for _ in range(2)]
    generator.manual_seed(9)
    graph = cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with cuda.graph(graph):
        x = engine.randn(4, device="cuda", generator=generator)
    for expected in eager:
        graph.replay()
        assert x.tolist() == expected
    with pytest.raises(RuntimeError, match="expected a generator of a GPU"):
        graph.register_generator_state(engine.Generator())


def test_tensors_of_a_constant_are_made_in_a_graph(stand_in):
    x, graph = on_gpu(1.0, 2.0), cuda.CUDAGraph()
    with cuda.graph(graph):
        y = x + engine.ones(2, device="cuda") + engine.full((2,), 3.0, device=x.device) + x.new_zeros(2) + engine.zeros_like(x)
        z = engine.empty(2, device="cuda").fill_(4)
        i = engine.arange(2, device="cuda").add_(1) + engine.linspace(0, 1, 2, device="cuda") + engine.eye(2, device="cuda")
    for _ in range(2):  # what is written to is made again
        graph.replay()
        assert y.tolist() == [5, 6] and z.tolist() == [4, 4] and i.tolist() == [[2, 3], [1, 4]]


@pytest.mark.parametrize(
    ("kind", "text"), [("Adam", "Attempting CUDA graph capture of step.. for an instance of Adam but"), ("Adagrad", "host")]
)
def test_an_optimizer_that_counts_its_steps_on_the_host_refuses_to_be_captured(kind, text, stand_in):
    p = engine.nn.Parameter(on_gpu(1.0, 2.0))
    optimizer = getattr(engine.optim, kind)([p], lr=0.1)
    p.grad = on_gpu(1.0, 1.0)
    optimizer.step()
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=text), cuda.graph(graph):
        optimizer.step()
    assert usable(on_gpu(1.0, 2.0), graph)


UNCAPTURABLE = {
    "Tensor.item": lambda x, lib: x[0].item(),
    "Tensor.__bool__": lambda x, lib: bool(x[0] > 0),
    "nonzero": lambda x, lib: x.nonzero(),
    "Tensor.tolist": lambda x, lib: x.tolist(),
    "to_device": lambda x, lib: x.cpu(),
    "synchronize": lambda x, lib: cuda.synchronize(),
    "tensor": lambda x, lib: engine.tensor([1.0, 2.0], device="cuda"),
    "this work": lambda x, lib: lib.get_default_memory_pool().malloc(100),
}


@pytest.mark.parametrize("name", UNCAPTURABLE)
def test_what_cannot_be_captured_is_named_and_leaves_everything_usable(stand_in, name):
    x = on_gpu(1.0, 2.0)
    graph = cuda.CUDAGraph()
    reason = {"tensor": "copies values of the host", "this work": "outside of the graph's pool"}.get(name, "the host would wait")
    with pytest.raises(RuntimeError, match=f"^{name} cannot be captured in a CUDA graph: .*{reason}"), cuda.graph(graph):
        y = x + 1
        UNCAPTURABLE[name](x, stand_in.cupy)
    assert usable(x, graph)
    del y


def usable(x, graph):
    """Whether the stream, the pools and the graph can be used as if there had been no capture."""
    assert not cuda.is_current_stream_capturing() and cuda.current_stream() == cuda.default_stream()
    assert (x + 1).tolist() == [2, 3] and engine.rand(2, device="cuda").tolist() != engine.rand(2, device="cuda").tolist()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with cuda.graph(graph):
        y = x * 5
    graph.replay()
    return y.tolist() == [5, 10]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError("of the program")])
def test_an_interrupt_or_an_error_of_the_program_ends_the_capture(stand_in, error):
    x, graph = on_gpu(1.0, 2.0), cuda.CUDAGraph()
    with pytest.raises(error if isinstance(error, type) else type(error)), cuda.graph(graph):
        x + 1
        raise error
    assert usable(x, graph)


def test_an_error_that_the_program_hides_makes_the_capture_fail(stand_in):
    x, graph = on_gpu(1.0, 2.0), cuda.CUDAGraph()
    failed = pytest.raises(RuntimeError, match="the capture of the CUDA graph has failed: the host would wait")
    with failed, cuda.graph(graph), pytest.raises(stand_in.cupy.cuda.runtime.CUDARuntimeError):
        x[0].item()
    assert usable(x, graph)


def test_captures_do_not_nest_and_a_graph_is_captured_once(stand_in):
    x, graph = on_gpu(1.0, 2.0), cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="a graph is being captured in this thread already"), cuda.graph(cuda.CUDAGraph()):
        graph.capture_begin()
    assert usable(x, graph)
    with pytest.raises(RuntimeError, match="already owns a captured graph"), cuda.graph(graph):
        x + 1
    with pytest.raises(RuntimeError, match="Unknown capture error mode"), cuda.graph(cuda.CUDAGraph(), capture_error_mode="loud"):
        x + 1
    with pytest.raises(RuntimeError, match="default \\(legacy\\) stream"):
        cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="no capture is underway"):
        cuda.CUDAGraph().capture_end()
    with pytest.raises(RuntimeError, match="keep_graph=True"):
        graph.raw_cuda_graph()
    assert usable(x, cuda.CUDAGraph())


def test_a_graph_is_written_in_the_dot_language(stand_in, tmp_path):
    x, graph = on_gpu(1.0, 2.0), cuda.CUDAGraph()
    graph.enable_debug_mode()
    with cuda.graph(graph):
        x + 1
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert (tmp_path / "graph.dot").read_text() == "digraph dot { 1 nodes }"


def test_functions_become_graphs_with_gradients(stand_in):
    def scaled(x, y):
        return {"product": x * y, "sum": (x + 2 * y).sum()}

    sample = on_gpu(1.0, 2.0, requires_grad=True), on_gpu(0.0, 0.0)
    graphed = cuda.make_graphed_callables(scaled, sample)
    for values in ([3.0, 4.0], [5.0, -6.0]):
        x, y = on_gpu(*values, requires_grad=True), on_gpu(7.0, 8.0)
        out = graphed(x, y)
        assert out["product"].tolist() == [values[0] * 7, values[1] * 8] and out["sum"].item() == sum(values) + 30
        (out["product"].sum() + 10 * out["sum"]).backward()
        assert x.grad.tolist() == [17, 18] and y.grad is None


def test_modules_become_graphs_and_train(stand_in):
    eager = engine.nn.Sequential(engine.nn.Linear(3, 4), engine.nn.ReLU(), engine.nn.Linear(4, 2))
    first, second = engine.nn.Linear(3, 4), engine.nn.Linear(4, 2)
    first.load_state_dict(eager[0].state_dict()), second.load_state_dict(eager[2].state_dict())
    first.to("cuda"), second.to("cuda")
    made = cuda.make_graphed_callables(
        (first, second), ((engine.zeros(5, 3, device="cuda"),), (engine.zeros(5, 4, device="cuda", requires_grad=True),))
    )
    assert made == (first, second)
    optimizer = engine.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    reference = engine.optim.SGD(eager.parameters(), lr=0.1)
    for seed in range(3):
        engine.manual_seed(seed)
        batch = engine.randn(5, 3)
        for opt in (optimizer, reference):
            opt.zero_grad()
        loss, expected = (second(first(batch.cuda()).relu()) ** 2).mean(), (eager(batch) ** 2).mean()
        loss.backward(), expected.backward()
        numpy.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-5)
        optimizer.step(), reference.step()
    for a, b in zip([*first.parameters(), *second.parameters()], eager.parameters(), strict=True):
        numpy.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)
    first.eval()
    assert first(engine.ones(2, 3, device="cuda")).shape == (2, 4)  # eager in the other mode, for any shape


def test_what_cannot_be_a_graphed_callable(stand_in):
    x, layer = on_gpu(1.0, 2.0), engine.nn.Linear(2, 2).to("cuda")
    with pytest.raises(RuntimeError, match="only Tensors"):
        cuda.make_graphed_callables(lambda x, n: x * n, (x, 3))
    layer.register_forward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="must not have hooks"):
        cuda.make_graphed_callables(layer, (x,))
    with engine.autocast("cuda"), pytest.raises(RuntimeError, match="autocast caching"):
        cuda.make_graphed_callables(lambda x: x, (x,))


# -- pinned memory -------------------------------------------------------------------------------------------------------------


def test_memory_is_pinned(stand_in):
    x = engine.arange(6.0).reshape(2, 3)
    y = x.pin_memory()
    assert y.is_pinned() and not x.is_pinned() and y.pin_memory() is y and y.tolist() == x.tolist() and y[1].is_pinned()
    assert engine.zeros(3, pin_memory=True).is_pinned() and not engine.zeros(3).is_pinned() and engine.zeros(0).pin_memory().shape == (0,)
    images = engine.ones(2, 3, 4, 5).to(memory_format=engine.channels_last).pin_memory()
    assert images.is_contiguous(memory_format=engine.channels_last) and not x.cuda().is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()


def test_copies_from_pinned_memory_do_not_wait(stand_in):
    syncs.found.clear()
    x = engine.arange(6.0).reshape(2, 3).pin_memory()
    y = x.to("cuda", non_blocking=True)
    assert not cuda.current_stream().query() and syncs.found == [] and y.tolist() == [[0, 1, 2], [3, 4, 5]]
    images = engine.rand(2, 3, 4, 5).to(memory_format=engine.channels_last).pin_memory()
    there = images.cuda(non_blocking=True)
    assert there.is_contiguous(memory_format=engine.channels_last) and engine.equal(there.cpu(), images)
    part = x[:, 1].to("cuda", non_blocking=True)  # with gaps: an ordinary copy
    assert part.tolist() == [1, 4] and engine.ones(2).to("cuda", engine.float64, True).dtype is engine.float64
    z = engine.zeros(2, 3, device="cuda")
    z.copy_(x, non_blocking=True)
    back = z.to("cpu", non_blocking=True)
    cuda.synchronize()
    assert back.is_pinned() and back.tolist() == x.tolist()


def test_pinned_memory_is_kept_while_it_is_read(stand_in):
    x = engine.ones(1000).pin_memory()
    place = x.data_ptr()
    side = cuda.Stream()
    with cuda.stream(side):
        y = x.to("cuda", non_blocking=True)
    del x
    assert engine.zeros(1000).pin_memory().data_ptr() != place  # the copy may not have been made
    side.synchronize()
    engine.ones(1, device="cuda")
    assert engine.zeros(1000).pin_memory().data_ptr() == place and y.sum().item() == 1000


def test_a_graph_reads_pinned_memory_in_each_replay(stand_in):
    x = engine.zeros(3).pin_memory()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = x.to("cuda", non_blocking=True) * 2
    for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        x.copy_(engine.tensor(values))
        graph.replay()
        assert y.tolist() == [2 * v for v in values]


def test_a_graph_writes_to_pinned_memory(stand_in):
    x, graph = on_gpu(1.0, 2.0), cuda.CUDAGraph()
    with cuda.graph(graph):
        y = (x + 1).to("cpu", non_blocking=True)
    x.fill_(5)
    graph.replay()
    cuda.synchronize()
    assert y.tolist() == [6, 6] and y.is_pinned()


def test_a_table_of_constants_is_copied_while_a_graph_is_captured(stand_in):
    x, graph, table = on_gpu(1.0, 2.0), cuda.CUDAGraph(), numpy.array([3.0, 4.0], "f")
    with cuda.graph(graph):
        y = x * engine.Tensor._wrap(stand_in.memory.upload(table))
    table[:] = 0
    other = [engine.zeros(2, device="cuda") for _ in range(10)]
    graph.replay()
    assert y.tolist() == [3, 8] and len(other) == 10


def test_a_loader_pins_its_batches(stand_in):
    data = [{"x": engine.full((2,), float(i)), "name": f"n{i}", "pair": (engine.tensor(i), i)} for i in range(4)]
    batches = list(engine.utils.data.DataLoader(data, batch_size=2, pin_memory=True))
    assert all(b["x"].is_pinned() and b["pair"][0].is_pinned() for b in batches) and batches[1]["name"] == ["n2", "n3"]
    assert batches[1]["x"].to("cuda", non_blocking=True).tolist() == [[2, 2], [3, 3]]


# -- random state, other libraries, marks ----------------------------------------------------------------------------------------


def test_each_gpu_has_a_generator(two_gpus):
    cuda.manual_seed_all(5)
    assert [g.initial_seed() for g in cuda.default_generators] == [5, 5] and [str(g.device) for g in cuda.default_generators] == [
        "cuda:0",
        "cuda:1",
    ]
    states = cuda.get_rng_state_all()
    x = engine.rand(3, device="cuda:0")
    assert not engine.equal(cuda.get_rng_state(0), states[0]) and engine.equal(cuda.get_rng_state(1), states[1])
    cuda.set_rng_state_all(states)
    assert engine.rand(3, device="cuda:0").tolist() == x.tolist() == engine.rand(3, device="cuda:1").tolist()
    cuda.set_rng_state(states[0], 0)
    assert engine.rand(3, device="cuda").tolist() == x.tolist()


def test_arrays_of_other_libraries_share_memory(stand_in):
    lib, x = stand_in.cupy, on_gpu(1.0, 2.0, 3.0)
    y = lib.asarray(x)
    y[0] = 7
    assert x.tolist() == [7, 2, 3] and y.data.ptr == x.data_ptr()
    theirs = types.SimpleNamespace(__cuda_array_interface__=x.__cuda_array_interface__, owner=x)  # as numba's arrays
    z = engine.as_tensor(theirs, device="cuda")
    z[1] = 8
    assert x.tolist() == [7, 8, 3] and z.data_ptr() == x.data_ptr() and engine.as_tensor(y).data_ptr() == x.data_ptr()
    copy = engine.tensor(theirs)
    copy[2] = 9
    assert copy.is_cuda and x.tolist() == [7, 8, 3] and engine.as_tensor(theirs, device="cpu").tolist() == [7, 8, 3]
    with pytest.raises(RuntimeError, match="requires grad"):
        getattr(on_gpu(1.0, requires_grad=True), "__cuda_array_interface__", None)
    with pytest.raises(AttributeError, match="non-CUDA tensor"):
        type(on_gpu(1.0)).__cuda_array_interface__.fget(engine.ones(1))


def test_ranges_and_marks_reach_cupy(stand_in):
    told = stand_in.cupy.cuda.nvtx.told
    told.clear()
    with cuda.nvtx.range("step {}", 3):
        assert cuda.nvtx.range_push("inner") == 1 and cuda.nvtx.range_pop() == 1
        cuda.nvtx.mark("here")
    cuda.nvtx.range_end(cuda.nvtx.range_start("long"))
    assert [one[:2] for one in told] == [("push", "step 3"), ("push", "inner"), ("pop",), ("mark", "here"), ("pop",), ("start", "long"), ("end", 6)]  # fmt: skip


def test_amp_and_switches(stand_in):
    with pytest.warns(FutureWarning, match="torch.cuda.amp.autocast"), cuda.amp.autocast():
        assert (on_gpu([1.0], [2.0]) @ on_gpu([1.0, 2.0])).dtype is engine.float16
    switches = engine.backends.cuda
    assert switches.preferred_blas_library() == "cublas" and not switches.fp16_bf16_reduction_math_sdp_allowed()
    assert not switches.is_flash_attention_available()
    with pytest.raises(RuntimeError, match="Unknown input value"):
        switches.preferred_blas_library("mine")
    with pytest.raises(cuda.CudaError):
        cuda.check_error(2)
    cuda.check_error(0)
