"""The NCCL group between real processes, each with a stand-in for CuPy and a strict one for NCCL, which moves the bytes by MPI."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from pathlib import Path

import numpy
import pytest
from processes import together

import engine
import engine.distributed as dist
from engine import nn
from engine.distributed import nccl, world
from engine.distributed.mpi import LOCK, mpi
from engine.nn.parallel import DistributedDataParallel

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the stand-in for CuPy")]
sys.path.append(str(Path(__file__).resolve().parents[1] / "cuda"))

R = dist.ReduceOp
# ncclDataType_t of nccl.h; bfloat16 is summed in float32, as NCCL does it
TYPES = {0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8", 9: "bfloat16"}
calls: list[str] = []


class Communicator:
    """Takes what CuPy's class takes, refuses everything else, and needs the memory to be the GPU's."""

    def __init__(self, ndev, commId, rank):
        assert type(ndev) is int and type(rank) is int and type(commId) is tuple and len(commId) == 128
        with LOCK:
            self.comm = mpi().COMM_WORLD.Split(0, rank)
        assert all(other == commId for other in self._gathered(commId)) and self.comm.size == ndev
        self.rank = rank

    def _gathered(self, x):
        with LOCK:  # MPI is started for one thread at a time
            return self.comm.allgather(x)

    def _at(self, pointer, count, datatype, stream):
        import cupy

        assert all(type(v) is int for v in (pointer, count, datatype, stream)) and datatype in TYPES
        kind = engine.bfloat16.numpy if TYPES[datatype] == "bfloat16" else numpy.dtype(TYPES[datatype])
        cupy.cuda.Device().synchronize()  # what is on the stream before this call
        return numpy.frombuffer((ctypes.c_byte * (count * kind.itemsize)).from_address(pointer), kind)

    def _reduced(self, x, op):
        rows = numpy.stack(self._gathered(x.astype(numpy.float32) if x.dtype.name == "bfloat16" else x.copy()))
        return [numpy.sum, numpy.prod, numpy.max, numpy.min][op](rows, axis=0, **({"dtype": rows.dtype} if op < 2 else {})).astype(x.dtype)

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        calls.append("allReduce")
        self._at(recvbuf, count, datatype, stream)[...] = self._reduced(self._at(sendbuf, count, datatype, stream), op)

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        calls.append("broadcast")
        self._at(recvbuff, count, datatype, stream)[...] = self._gathered(self._at(sendbuff, count, datatype, stream).copy())[root]

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        calls.append("allGather")
        rows = self._gathered(self._at(sendbuf, count, datatype, stream).copy())
        self._at(recvbuf, count * len(rows), datatype, stream)[...] = numpy.concatenate(rows)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        calls.append("reduceScatter")
        whole = self._reduced(self._at(sendbuf, recvcount * self.comm.size, datatype, stream), op)
        self._at(recvbuf, recvcount, datatype, stream)[...] = whole[self.rank * recvcount :][:recvcount]

    def abort(self):
        calls.append("abort")


def on_gpus(rank, size):

    import on_stand_in

    with on_stand_in.installed():
        import cupy

        cupy.cuda.nccl = types.ModuleType("cupy.cuda.nccl")
        cupy.cuda.nccl.get_unique_id = lambda: tuple(range(-64, 64))
        cupy.cuda.nccl.NcclCommunicator = Communicator
        sys.modules["cupy.cuda.nccl"] = cupy.cuda.nccl
        everyone = world._state.world
        group = nccl.NcclGroup(everyone.comm, everyone.frames, everyone.control, 0, everyone.ranks, 20.0, "nccl")
        world._state.world, world._state.groups = group, [group]
        collectives(rank, size)
        replicas(rank, size)
        made_anew(group)


def collectives(rank, size):
    for dtype in (engine.float32, engine.float64, engine.bfloat16, engine.int64, engine.uint8):
        x = engine.arange(5, device="cuda").to(dtype) + rank
        dist.all_reduce(x, R.MAX)
        assert x.is_cuda and x.dtype is dtype and x.tolist() == [1, 2, 3, 4, 5]
    x = engine.ones(2, 3, device="cuda") * rank
    dist.all_reduce(x[:, 1], R.AVG)  # not contiguous
    assert x.tolist() == [[rank, 0.5, rank]] * 2
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and x.tolist() == [[1, 1, 1]] * 2 and work.result()[0] is x
    x.fill_(rank)
    dist.broadcast(x, 1)
    assert x.tolist() == [[1, 1, 1]] * 2
    outs = [engine.zeros(2, device="cuda") for _ in range(size)]
    dist.all_gather(outs, engine.full((2,), float(rank), device="cuda"))
    assert [o.tolist() for o in outs] == [[0, 0], [1, 1]]
    whole = engine.zeros(4, device="cuda")
    dist.all_gather_into_tensor(whole, engine.full((2,), float(rank), device="cuda"))
    assert whole.tolist() == [0, 0, 1, 1]
    part = engine.zeros(2, device="cuda")
    dist.reduce_scatter_tensor(part, engine.arange(4.0, device="cuda"))
    assert part.tolist() == [4.0 * rank, 4.0 * rank + 2]
    assert set(calls) == {"allReduce", "broadcast", "allGather", "reduceScatter"}
    calls.clear()
    flags = engine.tensor([rank == 0, False], device="cuda")  # NCCL has no bools
    dist.all_reduce(flags)
    host = engine.ones(3)
    dist.all_reduce(host)
    found = [engine.zeros(1, device="cuda") for _ in range(size)] if rank == 0 else None
    dist.gather(engine.ones(1, device="cuda") * rank, found)
    assert flags.tolist() == [True, False] and host.tolist() == [2, 2, 2] and (rank or [f.item() for f in found] == [0, 1])
    assert calls == []
    with pytest.raises(dist.DistBackendError, match="different collectives"):  # before the GPU is asked
        dist.all_reduce(engine.ones(2 + rank, device="cuda"))
    assert calls == []


def replicas(rank, size):
    engine.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to("cuda")
    alone = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    alone.load_state_dict({name: value.cpu() for name, value in net.state_dict().items()})
    x = engine.arange(12.0).reshape(4, 3) / 7
    calls.clear()
    model = DistributedDataParallel(net, device_ids=[0])
    model(x[rank::size].to("cuda")).pow(2).mean().backward()
    alone(x).pow(2).mean().backward()
    for a, b in zip(net.parameters(), alone.parameters(), strict=True):
        assert a.grad.is_cuda and numpy.allclose(a.grad.cpu().numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert calls.count("allReduce") == 1


def made_anew(group):
    """After a failure, the group has a new communicator."""
    comms = [group.comm, group.frames, group.control.comm]
    with contextlib.suppress(dist.DistBackendError):  # the other may abort it
        dist.barrier()
    calls.clear()
    group.abort()
    group.control.close()
    world.rebuild(*(comm.shrink() for comm in comms))
    x = engine.ones(3, device="cuda")
    dist.all_reduce(x)
    assert x.tolist() == [2, 2, 2] and calls == ["abort", "allReduce"]


def test_nccl_carries_the_arrays_of_gpus(tmp_path):
    import emulate

    emulate.scheduler()  # without a compiler it skips here, not in a process of its own
    together(on_gpus, 2, tmp_path)
