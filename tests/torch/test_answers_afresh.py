"""With torch: what is stored is what it says today, and it agrees with the engine on inputs that nobody has seen before."""

from __future__ import annotations

import random
import secrets

import pytest
import torch
from failures import KNOWN
from make import mistaken
from table import checks
from table.answer import answer
from table.compare import differ
from table.store import stored

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
SEED = secrets.randbits(31)
HEALTHY = [check for check in checks() if str(check) not in KNOWN]
PARTS = 8


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def flags_of_a_fresh_process():
    """PyTorch's own test helpers, which parity tests import, forbid writes to flags such as `backends.cudnn.benchmark`."""
    with torch.backends.__allow_nonbracketed_mutation():
        yield


def sample(kind: str, part: int) -> list:
    return random.Random(f"{kind}{SEED}").sample(HEALTHY, len(HEALTHY))[part :: PARTS * 4]


@pytest.mark.parametrize("part", range(PARTS))
def test_stored_answers_are_todays(part):
    for check in sample("stored", part):
        assert differ(stored(check.case.family)[str(check)], answer(torch, check)) is None, str(check)


@pytest.mark.parametrize("part", range(PARTS))
def test_new_inputs_have_the_same_answers(part):
    told = []
    for check in sample("afresh", part):
        theirs = answer(torch, check, SEED)
        assert mistaken(check, theirs) is None, f"{check} with seed {SEED}"
        if wrong := differ(theirs, answer(engine, check, SEED)):
            told.append(f"{check} with seed {SEED}: {wrong}")
    assert not told, "\n".join(told)
