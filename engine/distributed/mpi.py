"""`Communicator` on MPI, by mpi4py. Every call is non-blocking and made under one lock, so any thread may make or test one."""

from __future__ import annotations

import multiprocessing.util
import os
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy

from ..base import dtypes
from ..base.dtypes import FROM_NUMPY
from .communicator import Communicator, Request
from .errors import DistBackendError
from .reductions import ReduceOp

LOCK = threading.RLock()  # MPI is started with THREAD_SERIALIZED
MISSING = 'several processes need MPI, which is not installed: pip install "gradient-workbench[cluster]"'
_HEADER = 2  # numbers before a message: dtype and size
_RING = 16  # processes up to which a ring reduces fastest; with more, its many messages cost more than it saves
_runtime: ModuleType | None = None


class ProcessFailed(DistBackendError):
    """A process of the communicator has ended."""


def mpi() -> ModuleType:
    """Return `mpi4py.MPI`, started. Raises RuntimeError without mpi4py or an MPI library."""
    global _runtime
    if _runtime is None:
        _runtime = _started()
    return _runtime


def _started() -> ModuleType:
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no library
        raise RuntimeError(MISSING) from error
    if int(os.environ.get("OMPI_COMM_WORLD_SIZE", _RING + 1)) <= _RING:  # else Open MPI reduces in place over a tree, in twice the time
        os.environ.setdefault("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1")
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
    for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
        comm.Set_errhandler(MPI.ERRORS_RETURN)
    os.register_at_fork(after_in_child=_forget)
    return MPI


def _forget() -> None:
    """A forked child, such as a worker of a DataLoader, is no process of the job."""
    global _runtime, LOCK
    _runtime, LOCK = None, threading.RLock()


def is_started() -> bool:
    """Return whether this process is part of an MPI job already."""
    return _runtime is not None


def launched() -> tuple[int, int] | None:
    """Return rank and size if `mpiexec` started this process, as it says in the environment."""
    if multiprocessing.parent_process() is not None:
        return None  # the variables are those of the process that started this one
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return None


def survives() -> bool:
    """Return whether the job goes on when one of its processes ends: `mpiexec --with-ft ulfm` says so in the environment."""
    return "OMPI_MCA_mpi_ft_enable" in os.environ


def finalize() -> None:
    """Leave MPI. Waits for all processes, and can't be interrupted."""
    if _runtime is not None and not _runtime.Is_finalized():
        with LOCK:
            _runtime.Finalize()


class _Sent:
    """An MPI request, which keeps the buffers alive."""

    def __init__(self, request: Any, *buffers: Any) -> None:
        self._request, self._buffers = request, buffers

    def test(self) -> bool:
        with LOCK:
            try:
                return self._request.Test()
            except mpi().Exception as error:
                raise _translated(error) from error


def _translated(error: Any) -> DistBackendError:
    MPI = mpi()
    if error.Get_error_class() in (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING):
        return ProcessFailed(str(error))
    if error.Get_error_class() == MPI.ERR_REVOKED:
        return DistBackendError("another process has aborted all collectives after a failure")
    return DistBackendError(str(error))


class _Received:
    """A receive whose size is known once the message has arrived."""

    def __init__(self, comm: Any, sources: Sequence[int], tag: int) -> None:
        self._comm, self.sources, self._tag = comm, sources, tag
        self._taking: _Sent | None = None
        self._header = numpy.zeros(_HEADER, numpy.int64)
        self.source, self.array = -1, numpy.empty(0, numpy.uint8)

    def test(self) -> bool:
        if self._taking is None and not self._taken():
            return False
        assert self._taking is not None
        if not self._taking.test():
            return False
        self.array = self.array.view(dtypes.ALL[self._header[0]].numpy)
        return True

    def _taken(self) -> bool:
        MPI = mpi()
        lost, live = None, False
        with LOCK:
            for source in self.sources:
                status = MPI.Status()
                try:
                    message = self._comm.Improbe(source, self._tag, status)
                except MPI.Exception as error:  # this process has ended; another may still send
                    lost = error
                    continue
                if message is not None:
                    self.source = source
                    self.array = numpy.empty(status.Get_count(MPI.BYTE) - self._header.nbytes, numpy.uint8)
                    kind = _both(self._header, self.array)
                    self._taking = _Sent(message.Irecv([MPI.BOTTOM, 1, kind]), self._header, self.array)
                    kind.Free()
                    return True
                live = True
        if lost is not None and not live:
            raise _translated(lost) from lost
        return False


def _both(header: numpy.ndarray, array: numpy.ndarray) -> Any:
    """Return an MPI type for a header and an array at their addresses, to send both in one message without a copy."""
    MPI = mpi()
    found = MPI.BYTE.Create_hindexed([header.nbytes, array.nbytes], [MPI.Get_address(header), MPI.Get_address(array)])
    return found.Commit()


class MpiCommunicator(Communicator):
    """The processes of an MPI communicator."""

    part = 1 << 20  # Open MPI reduces 64 MB in parts of 1 MB in 0.4 of the time that it takes for the whole

    def __init__(self, comm: Any) -> None:
        comm.Set_errhandler(mpi().ERRORS_RETURN)
        self.comm, self.rank, self.size, self._byte = comm, comm.Get_rank(), comm.Get_size(), mpi().BYTE

    def _post(self, name: str, *arguments: Any, keep: tuple = ()) -> _Sent:
        with LOCK:
            try:
                return _Sent(getattr(self.comm, name)(*arguments), *keep)
            except mpi().Exception as error:
                raise _translated(error) from error

    def all_reduce(self, array: numpy.ndarray, op: ReduceOp) -> Request:
        return self._post("Iallreduce", mpi().IN_PLACE, array, _op(op), keep=(array,))

    def broadcast(self, array: numpy.ndarray, root: int) -> Request:
        array = array.view(numpy.uint8)
        return self._post("Ibcast", array, root, keep=(array,))

    def all_gather(self, array: Any, out: Any, counts: Sequence[int] | None = None) -> Request:
        if isinstance(array, numpy.ndarray):
            array, out = array.view(numpy.uint8), out.view(numpy.uint8)
        if counts is None:
            return self._post("Iallgather", [array, self._byte], [out, self._byte], keep=(array, out))
        return self._post("Iallgatherv", array, [out, list(counts)], keep=(array, out))

    def reduce_scatter(self, array: numpy.ndarray, out: numpy.ndarray, op: ReduceOp) -> Request:
        return self._post("Ireduce_scatter_block", array, out, _op(op), keep=(array, out))

    def all_to_all(self, array: numpy.ndarray, out: numpy.ndarray, counts: Sequence[int], out_counts: Sequence[int]) -> Request:
        size = array.itemsize
        sent, got = [array.view(numpy.uint8), [n * size for n in counts]], [out.view(numpy.uint8), [n * size for n in out_counts]]
        return self._post("Ialltoallv", sent, got, keep=(array, out))

    def send(self, array: numpy.ndarray, to: int, tag: int) -> Request:
        header = numpy.array([dtypes.ALL.index(FROM_NUMPY[array.dtype]), array.size], numpy.int64)
        with LOCK:
            kind = _both(header, array)
            try:
                return self._post("Issend", [mpi().BOTTOM, 1, kind], to, tag, keep=(header, array))
            finally:
                kind.Free()

    def recv(self, sources: Sequence[int], tag: int) -> _Received:
        return _Received(self.comm, sources, tag)

    def barrier(self) -> Request:
        return self._post("Ibarrier")

    def duplicate(self) -> tuple[MpiCommunicator, Request]:
        """Return a communicator of the same processes, to use once the request has finished."""
        with LOCK:
            comm, request = self.comm.Idup()
            return MpiCommunicator(comm), _Sent(request)

    def split(self, ranks: Sequence[int]) -> MpiCommunicator:
        with LOCK:
            return MpiCommunicator(self.comm.Create_group(self.comm.Get_group().Incl(list(ranks))))

    def failed(self) -> list[int]:
        """Return the processes that are known to have ended without leaving MPI."""
        with LOCK:
            try:
                lost = self.comm.Get_failed()
            except (NotImplementedError, mpi().Exception):  # this MPI library does not look for failures
                return []
            return mpi().Group.Translate_ranks(lost, None, self.comm.Get_group()) if lost.Get_size() else []

    def among(self, others: MpiCommunicator) -> list[int]:
        """Return the ranks that the processes have in another communicator."""
        with LOCK:
            return list(mpi().Group.Translate_ranks(self.comm.Get_group(), None, others.comm.Get_group()))

    def agree(self, flag: bool) -> bool:
        with LOCK:
            return bool(self.comm.Agree(int(flag)))

    def shrink(self) -> MpiCommunicator:
        self.abort()
        with LOCK:
            return MpiCommunicator(self.comm.Shrink())

    def abort(self) -> None:
        with LOCK:
            if not self.comm.Is_revoked():
                self.comm.Revoke()


def _op(op: ReduceOp) -> Any:
    MPI = mpi()
    return {
        ReduceOp.SUM: MPI.SUM, ReduceOp.AVG: MPI.SUM, ReduceOp.PRODUCT: MPI.PROD, ReduceOp.MIN: MPI.MIN, ReduceOp.MAX: MPI.MAX,
        ReduceOp.BAND: MPI.BAND, ReduceOp.BOR: MPI.BOR, ReduceOp.BXOR: MPI.BXOR,
    }[op]  # fmt: skip
