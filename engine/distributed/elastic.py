"""`ElasticJob`: training that goes on with the remaining processes when some end, fail or hang."""

from __future__ import annotations

import copy
import io
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from ..core import random
from ..core.tensor import Tensor
from ..data import DistributedSampler
from ..serialize import safetensors
from . import collectives, shards, world
from .communicator import Communicator
from .data_parallel import DistributedDataParallel
from .errors import DistBackendError, DistError
from .objects import all_gather_object
from .optim import ZeroRedundancyOptimizer
from .reductions import ReduceOp
from .seats import _machine

_LAST_CALL = 0.8  # seconds after a time-out in which a process must answer; `Control.ask` has taken 0.5 by then
_VOTE = 0.5  # seconds in which the others must agree that a process hangs


class ElasticJob:
    """Train so that the survivors go on when other processes of the default group end, raise or hang.

        job = dist.ElasticJob(model, optimizer, sampler, min_ranks=2)
        for batch in job.batches(loader, epochs=3):
            with job.step():
                ...

    When a collective in the `with` block fails or times out, the survivors leave out the processes that have ended, kill those that do not
    respond, and return to the last step that all of them have finished. Their ranks are numbered anew, and they share the rest of the
    epoch. Every process keeps a copy of the parameters, buffers and optimizer state in memory for this. Each survivor keeps its own random
    state, that of the step to which it returns.

    If one process raises in the block, its traceback comes first and the others raise DistError "because rank 2 failed"; with
    `on_error="continue"` they go on without it. With fewer than `min_ranks` processes, the job stops with DistError, after writing the
    state to the folder `checkpoint`, if that is given. Groups of `new_group` do not outlive a failure.
    """

    def __init__(
        self, model: Any, optimizer: Any, sampler: DistributedSampler, min_ranks: int = 1, on_error: str = "raise",
        checkpoint: str | os.PathLike | None = None,
    ) -> None:  # fmt: skip
        if on_error not in ("raise", "continue"):
            raise ValueError(f'on_error must be "raise" or "continue", got {on_error!r}')
        if not isinstance(sampler, DistributedSampler):
            raise TypeError(f"sampler must be a DistributedSampler, got {type(sampler).__name__}")
        if isinstance(optimizer, ZeroRedundancyOptimizer):
            raise NotImplementedError("ElasticJob: the state of a ZeroRedundancyOptimizer is lost with its process; use a plain optimizer")
        self.group = world.resolve()
        if not 1 <= min_ranks <= self.group.size():
            raise ValueError(f"min_ranks must be between 1 and the world size {self.group.size()}, got {min_ranks}")
        self.model, self.optimizer, self.sampler = model, optimizer, sampler
        self.min_ranks, self.on_error, self.checkpoint = min_ranks, on_error, checkpoint
        self.steps, self.epoch, self.seen, self.restarts = 0, 0, 0, 0
        self._module = model.module if isinstance(model, DistributedDataParallel) else model
        self._random: dict[int, Tensor] = {}
        self._batch = 0  # samples of all processes in the current step
        self._open = False
        self._places: list = [None] * self.group.size()
        all_gather_object(self._places, (_machine(), os.getpid()))
        self._keep()

    # -- training ----------------------------------------------------------------------------------------------------------------

    def batches(self, loader: Any, epochs: int = 1) -> Iterator[Any]:
        """Yield this process's batches from where the job stands until `epochs` have passed. Use each one in `with job.step()`."""
        if loader.batch_size is None:
            raise ValueError("ElasticJob.batches: expected a DataLoader with a batch_size, got None")
        while True:
            restarts = self.restarts
            while self.epoch < epochs and self.restarts == restarts:
                self._share()
                yield from self._epoch(loader)
            if self.restarts == restarts:
                with self._recovering():  # nobody leaves before all have finished
                    collectives.barrier()
            if self.restarts == restarts:
                return

    def _share(self) -> None:
        self.sampler.set_epoch(self.epoch)
        self.sampler.share(self.group.size(), self.group.rank(), self.seen)

    def _epoch(self, loader: Any) -> Iterator[Any]:
        restarts, steps = self.restarts, self.steps
        self._batch = loader.batch_size * self.group.size()
        for batch in loader:
            yield batch
            if self.restarts != restarts:
                return
            if self.steps == steps:
                raise RuntimeError("ElasticJob.batches: the batch was not used in `with job.step():`")
            steps = self.steps
        self.epoch, self.seen = self.epoch + 1, 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """One step of training. An error of a collective is dealt with at its end, and the loop goes on from the last common step."""
        with self._recovering():
            yield
            self.steps += 1
            self.seen += self._batch
            self._keep()

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        try:
            yield
        except DistError as error:
            self._recover(error)
        except Exception as error:
            world.tell_failure(error)
            raise

    def _keep(self) -> None:
        """Copy the state in memory."""
        self._kept = {
            "steps": self.steps, "epoch": self.epoch, "seen": self.seen,
            "model": copy.deepcopy(self._module.state_dict()), "optimizer": copy.deepcopy(self.optimizer.state_dict()),
        }  # fmt: skip
        self._random[self.steps] = random.get_rng_state()
        self._random.pop(self.steps - 2, None)  # no process is more than one step ahead of another

    def _restore(self, state: dict) -> None:
        self.steps, self.epoch, self.seen = state["steps"], state["epoch"], state["seen"]
        self._module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.steps in self._random:
            random.set_rng_state(self._random[self.steps])
        self._random.clear()
        self._keep()

    # -- after a failure ---------------------------------------------------------------------------------------------------------

    def _recover(self, error: DistError) -> None:
        while True:
            if self.group.control is None:
                raise error
            if self.on_error == "raise":
                self._raise_for_others(error)
            try:
                self._survivors("timed out" in str(error))
                self._rebuild()
                self._agree()
                break
            except DistBackendError as again:  # another process has ended meanwhile
                error = again
        self.restarts += 1
        if self.group.size() < self.min_ranks:
            written = ""
            if self.checkpoint is not None:
                written = f"; the state after step {self.steps} is in {self.save(self.checkpoint)}"
            raise DistError(f"{self.group.size()} of at least {self.min_ranks} processes are left{written}") from error

    def _raise_for_others(self, error: DistError) -> None:
        assert self.group.control is not None
        for rank, gone in list(self.group.control.gone.items()):
            if gone.how.startswith("failed with"):
                raise DistError(f"stopped because rank {rank} {gone.how}") from error

    def _survivors(self, timed_out: bool) -> None:
        """Wait until each process is either here or has ended; those that don't respond are killed."""
        group, control = self.group, self.group.control
        assert control is not None
        me = group.rank()
        control.recovering[me] = []
        control.tell(recovering=[])
        group.comm.abort()
        group.frames.abort()
        end, condemned = time.monotonic() + (_LAST_CALL if timed_out else group.timeout), None
        while missing := sorted(set(range(group.size())) - set(control.recovering) - set(group.comm.failed())):
            control.look()
            time.sleep(0.001)
            if self.on_error == "raise":
                self._raise_for_others(DistError("another process failed"))
            if condemned is None and (time.monotonic() > end or any(control.recovering.values())):
                control.recovering[me] = missing
                control.tell(recovering=missing)
                condemned, end = [], time.monotonic() + _VOTE
            elif condemned == [] and (time.monotonic() > end or all(control.recovering.values())):
                votes = [set(vote) for vote in control.recovering.values() if vote]
                condemned = sorted(set.intersection(*votes) & set(missing))
                self._kill(condemned)
                end = time.monotonic() + group.timeout
            elif condemned and time.monotonic() > end:
                where = ", ".join(f"rank {r} is process {self._places[r][1]} on {self._places[r][0]}" for r in missing)
                raise DistError(f"processes that hang could not be ended from here: {where}")

    def _kill(self, ranks: list[int]) -> None:
        """Kill processes of this machine. MPI knows that they have not ended, so their ids are still theirs."""
        here = self._places[self.group.rank()][0]
        for rank in ranks:
            machine, pid = self._places[rank]
            if machine == here:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # another survivor was faster
                    continue

    def _rebuild(self) -> None:
        """Make the default group that of the survivors. All shrink the same, unless one ends in between: then they shrink again."""
        group, control = self.group, self.group.control
        assert control is not None
        control.close()
        comms: list[Communicator] = [group.comm, group.frames, control.comm]
        before = comms[0]
        while True:
            comms = [comm.shrink() for comm in comms]
            if len({comm.size for comm in comms}) == 1:
                break
        self._places = [self._places[r] for r in comms[0].among(before)]
        world.rebuild(*comms)
        if isinstance(self.model, DistributedDataParallel):
            self.model.reset()

    def _agree(self) -> None:
        """Take the state of the survivor that is least advanced."""
        steps = [Tensor._wrap(numpy.zeros(1, numpy.int64)) for _ in range(self.group.size())]
        collectives.all_gather(steps, Tensor._wrap(numpy.array([self._kept["steps"]])))
        source = int(numpy.argmin([int(step.item()) for step in steps]))
        memory = io.BytesIO()
        if source == self.group.rank():
            safetensors.save(self._kept, memory)
        data = numpy.frombuffer(memory.getvalue(), numpy.uint8).copy()
        size = Tensor._wrap(numpy.array([data.size]))
        collectives.all_reduce(size, ReduceOp.MAX)
        data = data if data.size else numpy.empty(int(size.item()), numpy.uint8)
        collectives.broadcast(Tensor._wrap(data), source)
        self._restore(shards.structure(data.tobytes()))

    # -- on disk -----------------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike) -> str:
        """Write a checkpoint of the last finished step into a folder that all processes share. All processes must call it."""
        info = {"step": self.steps, "epoch": self.epoch, "seen": self.seen, "seed": self.sampler.seed, "shuffle": self.sampler.shuffle}
        return shards.write(folder, self._kept, self._random[self.steps], info)

    def load(self, folder: str | os.PathLike, step: int | None = None) -> None:
        """Go on from a checkpoint, the latest or that of a step, on any number of processes. Raises CheckpointError for a damaged one.

        A process whose rank was not among those that wrote it keeps its present random state.
        """
        state, states, info = shards.read(folder, step)
        if (info["seed"], info["shuffle"]) != (self.sampler.seed, self.sampler.shuffle):
            raise ValueError(f"the checkpoint's sampler has seed {info['seed']}, shuffle={info['shuffle']}, unlike this one")
        rank = self.group.rank()
        self._random = {state["steps"]: states[rank]} if rank < len(states) else {}
        self._restore(state)
