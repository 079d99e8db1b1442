"""The checks that the engine is known to fail, with what is wrong. A test expects each of them to fail, and tells when one is mended.

python tests/torch/failures.py              ask the engine again; mended ones leave the list
python tests/torch/failures.py --add TEXT   new ones whose words contain TEXT come into it
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from table import checks  # noqa: E402
from table.answer import answer  # noqa: E402
from table.compare import differ  # noqa: E402
from table.store import stored  # noqa: E402

import engine  # noqa: E402

LIST = Path(__file__).parent / "known_failures.json"
KNOWN: dict[str, str] = json.loads(LIST.read_text(encoding="utf-8")) if LIST.is_file() else {}


def failing() -> dict[str, str]:
    """What is wrong with each check that the engine fails, by the check's words."""
    told = {str(check): differ(stored(check.case.family)[str(check)], answer(engine, check)) for check in checks()}
    return {words: text[:160] for words, text in told.items() if text}


def main(add: str | None = None) -> None:
    found = failing()
    new = {words: text for words, text in found.items() if words not in KNOWN}
    kept = {words: text for words, text in found.items() if words in KNOWN or add is not None and add in words}
    print(f"{len(found)} fail: {len(KNOWN.keys() - found.keys())} of the list are mended, {len(new)} are not in it")
    for words, text in new.items():
        print(f"{words} -> {text}")
    LIST.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[2] if sys.argv[1:2] == ["--add"] else None)
