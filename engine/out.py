"""`out=`: a result goes into tensors that the caller has."""

from __future__ import annotations

import warnings
from typing import Any

from . import casting, errors, inplace, tape
from .dtypes import FROM_NUMPY
from .tensor import Tensor

# Where PyTorch casts into an `out` of another dtype: in what works element by element, but for those which keep their input's dtype, and
# in these others; everywhere else the dtype of `out` must be the result's.
_EXACT = {
    "abs", "ceil", "conj_physical", "frac", "floor", "heaviside", "softshrink", "hardshrink", "gelu", "neg", "round", "sign",
    "signbit", "sgn", "trunc", "nan_to_num", "isposinf", "isneginf", "softplus", "logsigmoid", "frexp", "isin", "complex",
}  # fmt: skip
_CAST = {
    "addr", "angle", "cat", "cholesky_inverse", "cholesky_solve", "column_stack", "cond", "cumprod", "cumsum", "dstack", "eig",
    "eigvals", "float_power", "geqrf", "hstack", "householder_product", "kron", "ldexp", "logsumexp", "lstsq", "matrix_power",
    "matrix_rank", "mean", "nanmean", "nansum", "normalize", "outer", "pinv", "prod", "stack", "std", "sum", "tensorinv",
    "tensorsolve", "var", "vstack", "vander", "polygamma", "mvlgamma", "div", "clamp", "clip", "xlogy", "fft", "fft2", "fftn", "hfft",
    "hfft2", "hfftn", "rfft", "rfft2", "rfftn", "ifft2", "ifftn", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn",
}  # fmt: skip
_C_NAMES = {
    "float64": "double", "float32": "float", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int", "int16": "short int",
    "int32": "int", "int8": "signed char", "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def into(op: Any, args: tuple, kwargs: dict) -> Any:
    """Run an op and put its result into `out`: a tensor, or as many as there are results.

    One of another shape is resized, with a warning unless it was empty. RuntimeError where its dtype cannot hold the result.
    """
    kwargs = dict(kwargs)
    out = kwargs.pop("out")
    result = casting.alone(op.call, *args, **kwargs)
    if out is None:
        return result
    targets = out if isinstance(out, (tuple, list)) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    if len(targets) != len(results):
        raise TypeError(f"{op.name}(): argument 'out' must be {len(results)} tensors, one for each result, but got {len(targets)}")
    exact = op.name in _EXACT or not (getattr(op, "casts", False) or op.name in _CAST or "_polynomial_" in op.name)
    for target, r in zip(targets, results, strict=True):
        if tape.mode.grad and (r.node is not None or target.node is not None):
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic differentiation, "
                "but one of the arguments requires grad."
            )
        if exact and target.array.dtype != r.array.dtype:
            wanted, got = (_C_NAMES.get(d, d) for d in (FROM_NUMPY[x.array.dtype].name for x in (r, target)))
            raise RuntimeError(f"{op.name}(): Expected out tensor to have dtype {wanted}, but got {got} instead{errors.at_user_line()}")
        inplace.refuse_cast(target.array, r.array, f"{op.name}(out=)")
    for target, r in zip(targets, results, strict=True):  # whatever is refused has changed none of them
        if target.array.shape != r.array.shape:
            if target.array.size:
                warnings.warn(
                    f"An output with one or more elements was resized since it had shape {list(target.array.shape)}, which does not "
                    f"match the required output shape {list(r.array.shape)}. This behavior is deprecated, and in a future PyTorch release "
                    "outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing "
                    "it, inplace, to zero elements with t.resize_(0).",
                    stacklevel=3,
                )
            target.resize_(r.array.shape)
        inplace.put(target, r, f"{op.name}(out=)")
    return result.__class__(*targets) if hasattr(result, "_fields") else out
