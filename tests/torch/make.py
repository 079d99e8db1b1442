"""Ask an installed PyTorch every case of the table, and store its answers.

python tests/torch/make.py                     every family
python tests/torch/make.py creation indexing   these only
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from table import FAMILIES, checks
from table.answer import answer
from table.store import store


def mistaken(check, found: dict) -> str | None:
    """What is wrong with a case that PyTorch does not answer as it says."""
    if check.case.mode == "fails":
        return None if "error" in found else "PyTorch raises no error"
    if "error" in found and not found["missing"] and not any(x.may_refuse for x in check.inputs.values()):
        return f"{found['error'][0]}: {found['message']}"
    return None


def shortened(found: dict) -> dict:
    """Without what is not compared: of an error its class and the first words."""
    if "error" not in found:
        return found
    return found | {"error": found["error"][:1], "message": found["message"].splitlines()[0][:80] if found["message"] else ""}


def main(families: list[str]) -> int:
    assert torch.__version__.startswith("2.13"), f"the stored answers are PyTorch 2.13's, this is {torch.__version__}"
    torch.set_num_threads(1)
    asked, wrong = defaultdict(dict), 0
    for check in checks():
        if check.case.family in families:
            found = answer(torch, check)
            if told := mistaken(check, found):
                print(f"{check.case.family}: {check}\n    {told}")
                wrong += 1
            asked[check.case.family][str(check)] = {k: shortened(x) if isinstance(x, dict) else x for k, x in shortened(found).items()}
    for family in families:
        print(f"{family}: {len(asked[family])} answers, {store(family, asked[family])} bytes")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:] or FAMILIES)))
