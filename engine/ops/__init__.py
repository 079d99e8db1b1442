"""The ops: each class is one op, with its forward computation and its derivative rules."""

from . import (
    activation,
    attention,
    bag,
    bessel,
    cast,
    compare,
    conv,
    counting,
    ctc,
    decompose,
    distance,
    embedding,
    factor,
    fft,
    fractional,
    grid,
    index,
    inside,
    join,
    lapack,
    linalg,
    loss,
    loss_forms,
    margin,
    math,
    native,
    norm,
    order,
    pad,
    polynomial,
    pool,
    random,
    recurrent,
    reduce,
    rounding,
    scan,
    scatter,
    select,
    shape,
    sorting,
    special,
    split,
    statistics,
    strided,
    trig,
)

from . import methods  # isort: skip  it uses what the others have registered


def __getattr__(name: str) -> object:
    if name == "aten":
        import importlib

        return importlib.import_module(f"{__name__}.aten")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
