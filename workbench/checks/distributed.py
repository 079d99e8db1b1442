"""Checks of training on several ranks: what is not averaged, not synchronized or not split among them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..protocol.checks import Finding
from .case import Case, place, several


def check(case: Case) -> list[Finding]:
    """Return the findings about a job of several processes."""
    found = [*_collectives(case)]
    distributed = sys.modules.get("engine.distributed")  # already imported if a process group was started
    if distributed is None or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return found
    world = distributed.get_world_size()
    return [*found, *_epochs(case), *_whole_data(case, world), *_outside(case), *_batch_norms(case, world)]


def _wrapped(case: Case) -> list[Any]:
    """The DistributedDataParallel modules that ran."""
    return [module for module in case.models if type(module).__name__ == "DistributedDataParallel"]


def _epochs(case: Case) -> Iterator[Finding]:
    passes: dict[tuple[int, int], int] = {}
    for one in case.witness.loads:
        if one.sampler == "DistributedSampler" and one.shuffle:
            passes[one.identity, one.epoch] = passes.get((one.identity, one.epoch), 0) + 1
    times = max(passes.values(), default=0)
    if times > 1:
        sentence = (
            f"{times} passes over a DataLoader with a DistributedSampler had the same order: set_epoch() was not called between them."
        )
        why = "The order is drawn from the seed and the epoch, so it only changes with the epoch."
        yield case.finding("no-set-epoch", "warning", sentence, -1, why, "sampler.set_epoch(epoch) before each epoch", site=_site(case))


def _whole_data(case: Case, world: int) -> Iterator[Finding]:
    whole = [one for one in case.witness.loads if one.sampler in ("RandomSampler", "SequentialSampler") and one.dataset != "Subset"]
    if whole and _wrapped(case):
        sentence = f"Each of the {world} ranks goes through the whole {whole[0].dataset}: its DataLoader has no DistributedSampler."
        why = "All ranks see the same data, so an epoch takes as long as on one rank, and the averaged gradient may be that of one batch."
        fix = "DataLoader(dataset, sampler=DistributedSampler(dataset), ...)"
        yield case.finding("same-data-on-ranks", "warning", sentence, -1, why, fix, site=_site(case))


def _site(case: Case) -> Any:
    """The line of the first pass over a DataLoader."""
    return case.site_of(case.r.loadings[0][1:]) if case.r.loadings else None


def _outside(case: Case) -> Iterator[Finding]:
    wrapped = _wrapped(case)
    if not wrapped:
        return
    averaged = {id(p) for module in wrapped for p in module.parameters()}
    outside = [
        (p, case.witness.row(case.r, p)) for held in case.witness.given.values() if (p := held()) is not None and id(p) not in averaged
    ]
    rows = [row for p, row in outside if p.requires_grad and row >= 0]
    if rows:
        names = several([case.called(row) for row in rows])
        sentence = f"The optimizer updates {names}, outside of DistributedDataParallel."
        why = "Each rank uses its own gradient for it, so its values drift apart between the ranks."
        fix = "one module with all parameters in it: DistributedDataParallel(model)"
        yield case.finding(
            "parameter-outside-ddp", "error", sentence, rows[0], why, fix,
            site=case.site_of_use(rows[0]), operands=[case.operand(row) for row in rows[:4]],
        )  # fmt: skip


def _batch_norms(case: Case, world: int) -> Iterator[Finding]:
    plain = [
        f"{type(module).__name__} {name}".rstrip() for one in _wrapped(case) for name, module in one.module.named_modules()
        if type(module).__name__ in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d") and module.training
    ]  # fmt: skip
    if plain and any(mode.training and mode.recorded for mode in case.witness.modes):
        many = len(plain) > 1
        sentence = f"{several(plain)} normalize{'' if many else 's'} each rank's batch by itself."
        why = f"With {world} ranks the statistics are those of a batch {world} times smaller, and running statistics differ between ranks."
        fix = "model = nn.SyncBatchNorm.convert_sync_batchnorm(model), before DistributedDataParallel(model)"
        yield case.finding("batch-norm-not-synchronized", "note", sentence, -1, why, fix)


def _collectives(case: Case) -> Iterator[Finding]:
    ended = case.witness.ended
    if ended is None or not ended.calls:
        return
    site = case.site_of(ended.where)
    sentence = f"The ranks called different collectives{f' at {place(site)}' if site else ''}: {ended.calls}."
    why = "A collective needs the same call on all ranks, in the same order, with tensors of the same size and dtype."
    yield case.finding("collectives-differ", "error", sentence, -1, why, "the same call with the same shape at the lines named", site=site)
