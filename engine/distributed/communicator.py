"""`Communicator`: the twelve primitives on which collectives are built. MPI carries arrays of the CPU, NCCL those of GPUs."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from .reductions import ReduceOp


class Request(Protocol):
    """A call that is in progress."""

    def test(self) -> bool:
        """Return whether it has finished, without waiting. Raises DistBackendError if it has failed."""
        ...


class Finished:
    """A request that has nothing to wait for."""

    def test(self) -> bool:
        return True


class Communicator(ABC):
    """A set of processes, numbered from 0 to `size` - 1, that call the same primitives in the same order.

    No primitive waits: each returns a `Request`. Arrays are flat and contiguous, and remain untouched by the caller until it has finished.
    """

    rank: int
    size: int
    part = sys.maxsize  # bytes that one `all_reduce` should have at most

    @abstractmethod
    def all_reduce(self, array: Any, op: ReduceOp) -> Request:
        """Reduce in place. AVG is a sum, which the caller divides."""

    @abstractmethod
    def broadcast(self, array: Any, root: int) -> Request:
        """Copy the array of process `root` to all, in place."""

    @abstractmethod
    def all_gather(self, array: Any, out: Any, counts: Sequence[int] | None = None) -> Request:
        """Concatenate the arrays of all processes, or their bytes, in `out`; `counts` are their numbers of bytes if they differ."""

    @abstractmethod
    def reduce_scatter(self, array: Any, out: Any, op: ReduceOp) -> Request:
        """Reduce the arrays, and write part `rank` of `size` equal parts to `out`."""

    @abstractmethod
    def all_to_all(self, array: Any, out: Any, counts: Sequence[int], out_counts: Sequence[int]) -> Request:
        """Send `counts[i]` values to process i, and write `out_counts[i]` values from it to `out`, ordered by rank."""

    @abstractmethod
    def send(self, array: Any, to: int, tag: int) -> Request:
        """Send an array with its dtype and size. Finishes when the receiver takes it, even if it is small."""

    @abstractmethod
    def recv(self, sources: Sequence[int], tag: int) -> Receive:
        """Receive the next message with the tag from any of the processes."""

    @abstractmethod
    def barrier(self) -> Request:
        """Finish once all processes have called it."""

    @abstractmethod
    def split(self, ranks: Sequence[int]) -> Communicator:
        """Return a communicator of some processes, which must all call this at the same time."""

    @abstractmethod
    def agree(self, flag: bool) -> bool:
        """Return whether `flag` is true in all processes that are alive. Works after failures, too."""

    @abstractmethod
    def shrink(self) -> Communicator:
        """Return a communicator of the processes that are alive. Calls in progress on this one fail."""

    @abstractmethod
    def abort(self) -> None:
        """End all calls in progress in all processes with an error."""


class Receive(Request, Protocol):
    """A receive in progress; `source` and `array` are known once it has finished."""

    source: int
    array: Any


class Alone(Communicator):
    """The communicator of a job of one process, which needs no MPI."""

    rank, size = 0, 1

    def all_reduce(self, array: Any, op: ReduceOp) -> Request:
        return Finished()

    def broadcast(self, array: Any, root: int) -> Request:
        return Finished()

    def all_gather(self, array: Any, out: Any, counts: Sequence[int] | None = None) -> Request:
        out[...] = array
        return Finished()

    def reduce_scatter(self, array: Any, out: Any, op: ReduceOp) -> Request:
        out[...] = array
        return Finished()

    def all_to_all(self, array: Any, out: Any, counts: Sequence[int], out_counts: Sequence[int]) -> Request:
        out[...] = array
        return Finished()

    def send(self, array: Any, to: int, tag: int) -> Request:
        raise ValueError("send: a process can't send to itself")

    def recv(self, sources: Sequence[int], tag: int) -> Receive:
        raise ValueError("recv: there is no other process to receive from")

    def barrier(self) -> Request:
        return Finished()

    def split(self, ranks: Sequence[int]) -> Communicator:
        return self

    def agree(self, flag: bool) -> bool:
        return flag

    def shrink(self) -> Communicator:
        return self

    def abort(self) -> None:
        return None
