"""`ElasticJob`: training that goes on with the remaining processes when some end, fail or hang."""

from __future__ import annotations

import copy
import io
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy

from ...core import random
from ...core.tensor import Tensor
from ...data import DistributedSampler
from ...serialize import safetensors
from .. import collectives, shards, world
from ..control import Gone
from ..data_parallel import DistributedDataParallel
from ..errors import DistBackendError, DistError, TimedOut
from ..objects import all_gather_object
from ..optim import ZeroRedundancyOptimizer
from ..seats import machine

_LAST_CALL = 0.8  # seconds after a time-out in which a process must respond; `Control.ask` may take 0.5 of them
_VOTE = 0.5  # seconds in which the others must agree that a process hangs
_DEATH = 5.0  # seconds in which MPI must notice that a process has been killed


class ElasticJob:
    """Train so that the survivors go on when other processes of the default group end, raise or hang.

        job = dist.ElasticJob(model, optimizer, sampler, min_ranks=2)
        for batch in job.batches(loader, epochs=3):
            with job.step():
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()

    A step is a whole update of the parameters, with all its collectives. If one of them fails or times out, the survivors kill the
    processes that do not respond, number their ranks anew, return to the last step that all of them have finished, and share the rest of
    the epoch. For this, each process copies the parameters, buffers and state of the optimizer in memory after each step, or each
    `keep_every`-th, and that of `others` with `state_dict` and `load_state_dict`, such as a scheduler. Each survivor keeps its own random
    state. Groups of `new_group` are lost.

    If a process raises in a step, all stop. With `on_error="continue"` it prints its traceback and is killed, and the others go on. If
    fewer than `min_ranks` are left, they raise DistError, after writing a checkpoint to the folder `checkpoint` if it is given. If a step
    fails twice although no process is lost, its error is raised.
    """

    def __init__(
        self, model: Any, optimizer: Any, sampler: DistributedSampler, others: Sequence[Any] = (), *, min_ranks: int = 1,
        on_error: str = "raise", checkpoint: str | os.PathLike | None = None, keep_every: int = 1,
    ) -> None:  # fmt: skip
        if on_error not in ("raise", "continue"):
            raise ValueError(f'on_error must be "raise" or "continue", got {on_error!r}')
        if not isinstance(sampler, DistributedSampler):
            raise TypeError(f"sampler must be a DistributedSampler, got {type(sampler).__name__}")
        if isinstance(optimizer, ZeroRedundancyOptimizer):
            raise TypeError("optimizer is a ZeroRedundancyOptimizer, of which a part is lost with each process; expected another one")
        self.group = world.resolve()
        if not 1 <= min_ranks <= self.group.size():
            raise ValueError(f"min_ranks must be between 1 and the world size {self.group.size()}, got {min_ranks}")
        if keep_every < 1:
            raise ValueError(f"keep_every must be at least 1, got {keep_every}")
        self.model, self.optimizer, self.sampler, self.others = model, optimizer, sampler, list(others)
        self.min_ranks, self.on_error, self.checkpoint, self.keep_every = min_ranks, on_error, checkpoint, keep_every
        self.steps, self.epoch, self.seen = 0, 0, 0  # finished steps; the epoch, and the samples of all processes in it
        self.recoveries = 0
        self._parts = {"model": model.module if isinstance(model, DistributedDataParallel) else model, "optimizer": optimizer}
        self._kept: dict[str, Any] = {}
        self._random: dict[int, Tensor] = {}  # by step
        self._batch = 0  # samples of all processes in the current step
        self._unused = self._in_step = False  # whether the batch has not been used yet, and whether it is being used
        self._known = 0  # the recoveries before the current batch
        self._retried = -1  # the step that has been repeated although no process was lost
        self._votes: dict[int, list[int]] = {}  # rank, once it has noticed a failure -> the ranks that it votes out
        self._end, self._ended = math.inf, 0  # the epochs after which this process waits for all, and those after which all have been there
        if self.group.control is not None:
            self.group.control.heeds |= {"votes": self._votes.__setitem__, "ended": lambda _, epochs: self._note_end(epochs)}
        self._places: list[tuple[str, int]] = [("", 0)] * self.group.size()  # machine and process by rank
        all_gather_object(self._places, (machine(), os.getpid()))
        self._keep()

    # -- training ----------------------------------------------------------------------------------------------------------------

    def batches(self, loader: Any, epochs: int) -> Iterator[Any]:
        """Yield this process's batches from where the job stands until `epochs` have passed. Use each in `with job.step():`.

        The loader must use the job's sampler. Raises ValueError otherwise.
        """
        if loader.batch_size is None or loader.sampler is not self.sampler:
            raise ValueError("ElasticJob.batches: expected a DataLoader with a batch_size and the sampler of the job")
        while self._ended < epochs:
            while self.epoch < epochs:
                yield from self._rest_of_epoch(loader)
            self._end = epochs
            with self._recovering():  # no process leaves while another may have to repeat a step
                collectives.barrier()
                self._note_end(epochs)
            self._end = math.inf
        self._known = self.recoveries

    def _rest_of_epoch(self, loader: Any) -> Iterator[Any]:
        self.sampler.set_epoch(self.epoch)
        self.sampler.share(self.group.size(), self.group.rank(), self.seen)
        self._batch = loader.batch_size * self.group.size()
        self._known = self.recoveries
        for batch in loader:
            self._unused = True
            yield batch
            if self.recoveries != self._known:
                return
            if self._unused:
                raise RuntimeError("ElasticJob.batches: the batch was not used in `with job.step():`")
        self.epoch, self.seen = self.epoch + 1, 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Do one step of the training with a batch of `batches`.

        The block also ends normally if others have failed: then `batches` goes on from the last common step. So call collectives only in
        it. Raises RuntimeError for a second step with the same batch.
        """
        if not self._unused:
            raise RuntimeError("ElasticJob.step: expected one step for each batch of `batches`")
        self._unused = False
        with self._recovering():
            self._in_step = True
            try:
                yield
            finally:
                self._in_step = False
            self.steps += 1
            self.seen += self._batch
            if self.steps % self.keep_every == 0:
                self._keep()

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        if self.group.control is not None:
            self.group.control.slept = 0.0
        try:
            yield
        except DistBackendError as error:
            self._recover(error)
        except Exception as error:
            if self.on_error == "continue":
                trace = error.__traceback__
                while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
                    trace = trace.tb_next
                sys.excepthook(type(error), error.with_traceback(trace), trace)
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGKILL)  # so that the launcher, too, lets the others go on
            if multiprocessing.parent_process() is not None:  # where nothing else tells the others
                world.tell_failure(error)
            raise

    def _keep(self) -> None:
        """Copy the state in memory."""
        state = {"steps": self.steps, "epoch": self.epoch, "seen": self.seen, "counted": world.monitor().step}
        state |= {name: part.state_dict() for name, part in self._parts.items()} | {"others": [x.state_dict() for x in self.others]}
        self._kept = _copied(state, self._kept)
        self._random[self.steps] = random.get_rng_state()
        if len(self._random) > 2:  # no process is more than one step ahead of another
            del self._random[min(self._random)]

    def _restore(self, state: dict) -> None:
        self.steps, self.epoch, self.seen = state["steps"], state["epoch"], state["seen"]
        world.monitor().step = state["counted"]
        for part, kept in (*((part, state[name]) for name, part in self._parts.items()), *zip(self.others, state["others"], strict=True)):
            part.load_state_dict(kept)
        self.optimizer.zero_grad()
        if self.steps in self._random:
            random.set_rng_state(self._random[self.steps])
        self._random.clear()
        self._keep()

    # -- after a failure ---------------------------------------------------------------------------------------------------------

    def _recover(self, error: DistBackendError) -> None:
        before, control = self.group.size(), self.group.control
        if control is None:
            raise error
        while True:
            try:
                self._gather(error)
                if self._ended >= self._end:  # others have found that all are there
                    return
                self._rebuild()
                self._agree()
                written = self._stop() if self.group.size() < self.min_ranks else None
                break
            except DistBackendError as again:  # another process has ended meanwhile
                error = again
        if written is not None:
            raise DistError(f"{self.group.size()} of at least {self.min_ranks} processes are left{written}") from error
        if self.group.size() == before and self._retried == self.steps:
            with suppress(DistBackendError):  # of one that has passed the barrier, and may have ended
                collectives.barrier()  # all have the state: none takes another that ends now for lost in the recovery
            raise error
        self._retried = self.steps if self.group.size() == before else -1
        self.recoveries += 1
        if self.group.rank() == 0:
            why = "; ".join(f"rank {rank} {gone.how}" for rank, gone in control.gone.items()) or str(error)
            print(f"{self.group.size()} of {before} processes go on from step {self.steps}: {why}", file=sys.stderr, flush=True)

    def _stop(self) -> str:
        return "" if self.checkpoint is None else f"; the state after step {self.steps} is in {self._write(self.checkpoint)}"

    def _gather(self, error: Exception) -> None:
        """Wait until each other process is here, too, or has ended. Those that don't respond in time are voted out and killed."""
        control = self.group.control
        assert control is not None
        control.note_time()
        self._vote([])
        self.group.abort()
        missing = self._missing(error, _LAST_CALL if isinstance(error, TimedOut) else self.group.timeout, any)
        if missing:
            self._vote(missing)
            missing = self._missing(error, _VOTE, all)
            for rank in set(missing).intersection(*filter(None, self._votes.values())):
                control.gone.setdefault(rank, Gone("did not respond and was killed"))
                self._kill(rank)
            missing = self._missing(error, _DEATH)
        if missing:
            where = ", ".join(f"rank {r} is process {self._places[r][1]} on {self._places[r][0]}" for r in missing)
            raise DistError(f"processes hang that can't be ended from here: {where}") from error

    def _vote(self, ranks: list[int]) -> None:
        control = self.group.control
        assert control is not None
        self._votes[control.rank] = ranks
        control.tell(votes=ranks)

    def _missing(self, error: Exception, seconds: float, enough: Callable = lambda _: False) -> list[int]:
        """Wait until no process is missing, or `enough` votes are there; return those that are."""
        control = self.group.control
        assert control is not None
        end = control.clock() + seconds
        while True:
            lost = control.comm.failed()
            control.look()  # also at their last messages
            if self.on_error == "raise" and (failed := [r for r, gone in control.gone.items() if gone.how.startswith("failed")]):
                raise DistError(f"stopped because rank {failed[0]} {control.gone[failed[0]].how}") from error
            if any(control.rank in vote for vote in list(self._votes.values())) or (lost and control.slept > self.group.timeout):
                raise DistError("this process has not responded in time, and the others go on without it") from error
            missing = sorted({*range(control.size)} - {*self._votes} - {*lost})
            if not missing or self._ended >= self._end:
                return []
            if enough(list(self._votes.values())) or control.clock() > end:
                return missing
            time.sleep(0.001)

    def _kill(self, rank: int) -> None:
        """Kill a process, if it is on this machine. MPI has not seen it end, so its id is still its own."""
        place, pid = self._places[rank]
        if place == machine():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # another survivor was faster
                return

    def _rebuild(self) -> None:
        """Make the default group that of the survivors. All shrink the same, unless one ends in between: then they shrink again."""
        group, control = self.group, self.group.control
        assert control is not None
        control.close()
        self._votes.clear()
        before = comms = [group.comm, group.frames, control.comm]  # that of the votes last, when all have read them
        done, alive = threading.Event(), {*range(control.size)} - {control.rank, *control.comm.failed()}
        threading.Thread(target=self._watch, args=(done, alive), daemon=True, name="watch").start()
        while comms is before or len({comm.size for comm in comms}) > 1:
            comms = [comm.shrink() for comm in comms]
        done.set()
        self._places = [self._places[r] for r in comms[0].among(before[0])]
        world.rebuild(*comms)
        if isinstance(self.model, DistributedDataParallel):
            self.model.reset()

    def _watch(self, done: threading.Event, alive: Iterable[int]) -> None:
        """Kill processes that are stopped while all shrink, which waits for them and can't be interrupted; else end this one."""
        if done.wait(self.group.timeout):
            return
        for rank in alive:
            if self._is_stopped(rank):
                self._kill(rank)
        if not done.wait(_DEATH):
            told = "the processes could not be numbered anew in time, probably because one hangs"
            print(f"ElasticJob: {told}", file=sys.stderr, flush=True)
            os._exit(1)

    def _is_stopped(self, rank: int) -> bool:
        """Return whether a signal has stopped a process, if it is on this machine. One in a debugger is in another state."""
        place, pid = self._places[rank]
        try:
            return place == machine() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:  # it has ended, or this system has no /proc
            return False

    def _agree(self) -> None:
        """Take the state of the survivor that is least advanced."""
        steps: list[int] = [0] * self.group.size()
        all_gather_object(steps, self._kept["steps"])
        source = steps.index(min(steps))
        memory = io.BytesIO()
        if source == self.group.rank():
            safetensors.save(self._kept, memory)
        sizes: list[int] = [0] * self.group.size()
        all_gather_object(sizes, memory.getbuffer().nbytes)
        data = numpy.frombuffer(memory.getvalue().ljust(sizes[source]), numpy.uint8).copy()
        collectives.broadcast(Tensor._wrap(data), source)
        self._restore(shards.structure(data.tobytes()))

    def _note_end(self, epochs: int) -> None:
        """Note that all processes have finished these epochs, and tell those that have missed it because of a failure."""
        if epochs > self._ended:
            self._ended = epochs
            if self.group.control is not None:
                self.group.control.tell(ended=epochs)

    # -- on disk -----------------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike) -> str | None:
        """Write a checkpoint of the last finished step, and return its path. All processes must call it, outside of `step()`.

        The folder must be one that all processes share. Each writes a part of the state in safetensors, and rank 0 a manifest. The
        checkpoint before the last is removed when the new one is complete. Returns None, without a checkpoint, if there was a failure
        since the last batch: then `batches` goes on from the last common step. Raises OSError in all processes if one can't write.
        """
        if self._in_step:
            raise RuntimeError("ElasticJob.save: expected a call outside of `with job.step():`")
        if self.recoveries != self._known:  # others, which noticed the failure in this call, do not repeat it
            return None
        with self._recovering():
            self._keep()
            return self._write(folder)
        return None

    def _write(self, folder: str | os.PathLike) -> str:
        return shards.write(folder, self._kept, self._random[self.steps], {"sampler": self._order()})

    def _order(self) -> dict[str, Any]:
        """Return what the order of samples depends on, besides the epoch."""
        return {"samples": len(self.sampler.dataset), "seed": self.sampler.seed, "shuffle": self.sampler.shuffle}

    def load(self, folder: str | os.PathLike, step: int | None = None) -> None:
        """Go on from a checkpoint, the latest or that of a step, on any number of processes.

        A process whose rank was not among those that wrote it keeps its present random state. Raises CheckpointError if the checkpoint is
        missing, incomplete or damaged, and ValueError if its sampler had another dataset, seed or shuffle.
        """
        state, states, manifest = shards.read(folder, step)
        if manifest.get("sampler") != self._order():
            raise ValueError(f"the checkpoint was made with another sampler: expected {self._order()}, got {manifest.get('sampler')}")
        rank = self.group.rank()
        self._random = {state["steps"]: states[rank]} if rank < len(states) else {}
        self._restore(state)


def _copied(value: Any, kept: Any) -> Any:
    """Return a copy, in the memory of an earlier copy where it fits."""
    if isinstance(value, Tensor):
        if not isinstance(kept, Tensor) or (kept.shape, kept.dtype, kept.device) != (value.shape, value.dtype, value.device):
            return copy.deepcopy(value.detach())
        kept.array[...] = value.array
        return kept
    if isinstance(value, dict):
        made = copy.copy(value)
        before = kept if isinstance(kept, dict) else {}
        made.update((key, _copied(item, before.get(key))) for key, item in value.items())
        return made
    if isinstance(value, list):
        before = kept if isinstance(kept, list) and len(kept) == len(value) else [None] * len(value)
        return [_copied(item, old) for item, old in zip(value, before, strict=True)]
    return copy.deepcopy(value)
