"""Calls of `testing.assert_close`, and what PyTorch says to each: `python tests/closeness.py` asks it again and stores it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy

STORED = Path(__file__).parent / "engine" / "expected" / "assert_close.json"
CALLS = r"""
close(t([1.,2.]), t([1.,2.]))
close(t([1.,2.]), t([1.,2.1]))
close(t([1.,2.,3.]), t([1.,2.5,3.5]))
close(t([[1.,2.],[3.,4.]]), t([[1.,2.],[3.,5.]]))
close(t(1.), t(2.))
close(t([1,2]), t([1,3]))
close(t([1.,2.]), t([1.,2.1]), rtol=0.1, atol=0.0)
close(t([1.,2.]), t([1.,2.1]), rtol=0.01, atol=0.0)
close(t([1.,2.]), t([1.,2.1]), rtol=0.1)
close(t([1.,2.]), t([1.,2.]).double())
close(t([1.,2.]), t([1.,2.]).double(), check_dtype=False)
close(t([1.,2.]), t([[1.,2.]]))
close(1.0, 1.0)
close(1.0, 1.1)
close(1, 1.0)
close(1, 2)
close(True, False)
close(True, True)
close(t([True,False]), t([True,True]))
close([1.0, t(2.)], [1.0, t(2.5)])
close([1.0], [1.0, 2.0])
close({"a": t(1.)}, {"a": t(2.)})
close({"a": t(1.)}, {"b": t(1.)})
close({"a": {"b":[t(1.), t([1.,2.])]}}, {"a": {"b":[t(1.), t([1.,3.])]}})
close(t([float("nan")]), t([float("nan")]))
close(t([float("nan")]), t([float("nan")]), equal_nan=True)
close(float("nan"), float("nan"))
close(t([float("inf"),1.]), t([float("inf"),1.]))
close(t([float("inf"),1.]), t([1.,1.]))
close(t([1.,2.]), t([1.,3.]), msg="mine")
close(t([1.,2.]), t([1.,3.]), msg=lambda m: "Header\\n\\n"+m)
close(t([1.]), 1.0)
close(t(1.), 1.0)
close(t([1.]), [1.0])
close(t([1.]), numpy.array([1.],dtype=numpy.float32))
close(numpy.array([1.]), numpy.array([2.]))
close("a","a")
close(None, None)
close(None, t(1.))
close(t([1.+1e-6]), t([1.]))
close(t([1.+2e-6]), t([1.]))
close(t([1.+1e-3]).half(), t([1.]).half())
close(t([1.+2e-2]).bfloat16(), t([1.]).bfloat16())
close(t([1.,2.]), t([2.,3.]))
close(t([]), t([]))
close(t([1.,2.]), t([1.,3.]), atol=1e-3)
close(t([[1.,2.],[3.,4.]]).t(), t([[1.,3.],[2.,4.]]), check_stride=True)
close(t([0., 1.]), t([1., 0.]))
close(t([1,2,3]), t([1,2,4]), rtol=0.5, atol=0)
close((t(1.),), [t(1.)])
close(1.0, complex(1.0))
close(t([255],dtype=u8), t([0],dtype=u8))
old(t([1.,2.]), t([1.,2.]))
old(t([1.,2.]), t([1.,2.5]))
old(t([1.,2.]).double(), [1.,2.0000001])
old(1, 2)
""".strip().splitlines()


def answers(torch) -> dict[str, str]:
    """What comes of each call: "None", or the error's type and message."""
    names = {
        "t": torch.tensor,
        "close": torch.testing.assert_close,
        "old": torch.testing.assert_allclose,
        "numpy": numpy,
        "u8": torch.uint8,
    }
    found = {}
    for call in CALLS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            try:
                found[call] = repr(eval(call, names))
            except Exception as error:
                found[call] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    import torch

    STORED.write_text(json.dumps(answers(torch), indent=1) + "\n", encoding="utf-8")
