"""The `out=` argument: write a function's result into given tensors, with PyTorch's checks."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ..base import dtypes, errors
from ..base.dtypes import FROM_NUMPY
from ..base.layout import axes_of
from . import casting, inplace, tape
from .tensor import Tensor

# PyTorch casts the result to the dtype of `out` in elementwise functions, except in those that keep their input's dtype (`_EXACT`), and in
# the functions of `_CAST`. Everywhere else the dtype of `out` must be the result's.
_EXACT = {
    "abs", "bitwise_not", "ceil", "conj_physical", "frac", "floor", "heaviside", "softshrink",
    "hardshrink", "gelu", "neg", "round", "sign", "signbit", "sgn", "trunc", "nan_to_num", "isposinf", "isneginf", "softplus",
    "logsigmoid", "frexp", "isin", "complex",
}  # fmt: skip
_CAST = {
    "addr", "angle", "cat", "cholesky_inverse", "cholesky_solve", "column_stack", "cond", "cumprod", "cumsum", "dstack", "eig",
    "eigvals", "geqrf", "hstack", "householder_product", "kron", "ldexp", "logsumexp", "lstsq", "matrix_power",
    "matrix_rank", "mean", "nanmean", "nansum", "normalize", "outer", "pinv", "prod", "stack", "std", "sum", "tensorinv",
    "tensorsolve", "var", "vstack", "vander", "polygamma", "clamp_min", "clamp_max", "mvlgamma", "div", "clamp", "clip", "xlogy", "diff",
    "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "rfft", "rfft2", "rfftn", "ifft2", "ifftn", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "max_of_all", "min_of_all",
}  # fmt: skip
# Functions without `out` in PyTorch: most of those written in Python or made of others, views, and some others.
_WITHOUT = frozenset((
    "empty_like", "full_like", "ones_like", "scalar_tensor", "tril_indices", "triu_indices", "zeros_like",
    "native_group_norm", "native_layer_norm", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "adjoint", "affine_grid", "alpha_dropout", "argwhere", "as_strided", "as_strided_scatter",
    "atleast_1d", "atleast_2d", "atleast_3d", "avg_pool1d", "batch_norm", "bilinear", "bincount", "binomial", "block_diag",
    "broadcast_shapes", "broadcast_tensors", "broadcast_to", "cartesian_prod", "cdist", "celu", "channel_shuffle", "chunk", "clone",
    "combinations", "constant_pad", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "corrcoef",
    "cosine_embedding_loss", "cosine_similarity", "count_nonzero", "cov", "cross_entropy", "ctc_loss", "cumulative_trapezoid", "diag_embed",
    "diagflat", "diagonal", "diagonal_scatter", "dist", "dropout", "dropout1d", "dropout2d", "dropout3d", "dsplit", "einsum", "embedding",
    "embedding_bag", "feature_alpha_dropout", "fftshift", "fill", "flatten", "flip", "fliplr", "flipud", "fold", "fractional_max_pool2d",
    "fractional_max_pool3d", "gaussian_nll_loss", "glu", "gradient", "grid_sample", "gumbel_softmax", "hinge_embedding_loss", "histogramdd",
    "hsplit", "ifftshift", "imag", "index_fill", "index_put", "instance_norm", "interpolate", "is_conj", "isclose", "isfinite", "isinf",
    "isnan", "isreal", "istft", "kl_div", "layer_norm", "linear_cross_entropy", "lobpcg", "local_response_norm", "logdet", "lp_pool1d",
    "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "masked_fill", "masked_scatter", "matrix_exp", "max_pool1d", "max_pool2d",
    "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "meshgrid", "movedim", "multi_head_attention_forward",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "narrow", "norm_except_dim", "one_hot", "pad",
    "pairwise_distance", "pca_lowrank", "pdist", "permute", "pinverse", "pixel_shuffle", "pixel_unshuffle", "poisson", "poisson_nll_loss",
    "prelu", "put", "rand_like", "randint_like", "randn_like", "ravel", "real", "relu", "repeat_interleave", "reshape", "resolve_conj",
    "rms_norm", "roll", "rot90", "rrelu", "scaled_dot_product_attention", "segment_reduce", "select", "select_scatter", "selu",
    "soft_margin_loss", "softsign", "split", "squeeze", "std_mean", "stft", "svd_lowrank", "t", "tanhshrink", "tensor_split", "tile",
    "trace", "transpose", "trapezoid", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unbind", "unflatten", "unfold",
    "unravel_index", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "upsample", "upsample_bilinear",
    "upsample_nearest", "vander", "var_mean", "view_as_complex", "view_as_real", "vsplit",
))  # fmt: skip
_SEVERAL = frozenset(("split_copy", "split_with_sizes_copy", "unbind_copy"))  # their results are a list, and so is `out`
_TENSOR_FIRST = frozenset((  # take a number as the first operand, but not together with `out`
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "remainder", "bucketize",
))  # fmt: skip
_BOUNDED = frozenset(("clamp", "clip", "clamp_min", "clamp_max"))  # with numbers as bounds, `out` must have the result's dtype
_DIM_TOO = frozenset(("median", "nanmedian", "prod", "sum"))  # no `out` without `dim`
_JOINED = frozenset(("cat", "stack", "hstack", "vstack", "dstack", "column_stack"))  # raise TypeError for a narrower `out`
_IN_DTYPE = frozenset(("sum", "nansum", "prod", "cumsum", "cumprod", "mean", "nanmean"))  # compute in the dtype of `out`
_COUNTED = frozenset(("arange", "range", "linspace", "logspace", "fftfreq", "rfftfreq"))  # keep the shape of an `out` of the same size
_OTHER = frozenset(("argmax", "argmin", "argsort", "searchsorted", "bucketize"))  # results of another dtype than the inputs
_CHECKED = frozenset(("sign", "signbit", "clamp", "lt", "le", "gt", "ge"))  # raise for complex inputs before they check `out`
_FOLLOWED = frozenset((  # PyTorch assigns their result with `copy_`, so inputs may require gradients
    "cond", "conj_physical", "diag", "eigvals", "floor_divide", "ihfft", "inner", "ldl_solve", "log_softmax", "lu", "matrix_norm",
    "nanquantile", "ndtr", "quantile", "slice_scatter", "softmax", "tensordot", "tensorinv", "tensorsolve",
))  # fmt: skip
_UNRECORDED = "{}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
_STRUCTURED = frozenset(("softmax", "log_softmax", "hardshrink", "bitwise_not"))  # check `out` before the input's dtype
_C_NAMES = {
    "float64": "double", "float32": "float", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int", "int16": "short int",
    "int32": "int", "int8": "signed char", "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def _exact(op: Any) -> bool:
    """Whether `out` must have the result's dtype."""
    return op.name in _EXACT or not (getattr(op, "casts", False) or op.name in _CAST or "_polynomial_" in op.name)


def _constant(op: Any) -> bool:
    """Whether the op has no derivative, so that its write to `out` is not recorded."""
    return not getattr(op, "ruled", True)


def _followed(op: Any) -> bool:
    """Whether autograd records the write to `out`, as it records an assignment."""
    return op.name in _FOLLOWED or op.name.endswith("_copy") and op.name not in _SEVERAL | {"narrow_copy"}


def _refuse_first(op: Any, args: tuple, kwargs: dict, targets: Any, error: Exception) -> None:
    """After a call that failed with `error`, raise the error of any check on `out` that PyTorch makes earlier."""
    if _followed(op) or _constant(op) and "f" not in getattr(op, "refuses", ""):
        followed: Any = ()
    else:
        followed = targets if _constant(op) else (args, kwargs, targets)
    if tape.mode.grad and any(x.node is not None for x in casting.tensors(followed)):
        raise RuntimeError(_UNRECORDED.format(op.name)) from error
    if op.name in _JOINED and op.name != "stack":
        kind = functools.reduce(dtypes.promote, [x.dtype for x in casting.tensors((args, kwargs))])
        if any(kind.rank > target.dtype.rank for target in targets):
            raise TypeError(f"{op.name}(): input types can't be cast to the desired output type {targets[0].dtype.name}") from error
    if isinstance(error, NotImplementedError) and op.name in _STRUCTURED and args[0].dtype is not targets[0].dtype:
        raise RuntimeError(f"{op.name}(): Found dtype {targets[0].dtype.name} but expected {args[0].dtype.name}") from error
    given = casting.tensors((args, kwargs))
    if (
        isinstance(error, NotImplementedError)
        and _exact(op)
        and op.name not in _OTHER | _CHECKED
        and given
        and given[0].dtype is not targets[0].dtype
    ):
        raise RuntimeError(
            f"{op.name}(): Expected out tensor to have dtype {given[0].dtype.name}, but got {targets[0].dtype.name} instead"
        ) from error
    if isinstance(error, NotImplementedError) and getattr(op, "casts", False) and op.name not in _CHECKED:
        for target in targets:
            inplace.refuse_result(target.array, op, op.bind(args, kwargs)[0], f"{op.name}(out=)")


def into(op: Any, args: tuple, kwargs: dict) -> Any:
    """Run an op or function and write its result into `out`, which is a tensor, or a tuple with one for each result.

    A tensor of another shape is resized, with a warning unless it was empty. Raises RuntimeError if its dtype cannot hold the result or a
    gradient is needed, and TypeError if PyTorch's function has no `out`.
    """
    if op.name in _WITHOUT:
        raise TypeError(f"{op.name}() got an unexpected keyword argument 'out'")
    if op.name in _DIM_TOO and len(args) < 2 and not kwargs.keys() & {"dim", "axis"}:
        raise TypeError(f'{op.name}() missing 1 required positional arguments: "dim"')
    if args and op.name in _TENSOR_FIRST and not isinstance(args[0], Tensor):
        raise TypeError(f"{op.name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}, where 'out' is given")
    kwargs = dict(kwargs)
    out = kwargs.pop("out")
    if out is None:
        return casting.alone(op.call, *args, **kwargs)
    targets = out if isinstance(out, (tuple, list)) else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    if (wanted := kwargs.get("dtype")) is not None and any(target.dtype is not wanted for target in targets):
        raise RuntimeError(f"{op.name}(): dtype {wanted} does not match dtype of out parameter ({targets[0].dtype})")
    given = casting.tensors((args, kwargs)) if op.name in _IN_DTYPE else ()
    if given and given[0].dtype is not targets[0].dtype and (given[0].dtype.rank >= dtypes.FLOAT or "mean" not in op.name):
        kwargs["dtype"] = targets[0].dtype
    if targets is not out and op.name in _SEVERAL:
        raise TypeError(f"{op.name}(): argument 'out' must be tuple of Tensors, not Tensor")
    try:
        result = casting.alone(op.call, *args, **kwargs)
    except TypeError:
        raise
    except Exception as error:
        _refuse_first(op, args, kwargs, targets, error)
        raise
    results = result if isinstance(result, tuple) else (result,)
    if len(targets) != len(results):
        raise TypeError(f"{op.name}(): argument 'out' must be {len(results)} tensors, one for each result, but got {len(targets)}")
    exact = _exact(op) or op.name in _BOUNDED and len(casting.tensors((args, kwargs))) == 1
    for target, r in zip(targets, results, strict=True):
        if tape.mode.grad and not _constant(op):
            if _followed(op):
                inplace.refuse_leaf(target, f"{op.name}(out=)")
            elif r.node is not None or target.node is not None:
                raise RuntimeError(_UNRECORDED.format(op.name))
        if exact and target.array.dtype != r.array.dtype:
            wanted, got = (_C_NAMES.get(d, d) for d in (FROM_NUMPY[x.array.dtype].name for x in (r, target)))
            raise RuntimeError(f"{op.name}(): Expected out tensor to have dtype {wanted}, but got {got} instead{errors.at_user_line()}")
        try:
            inplace.refuse_cast(target.array, r.array, f"{op.name}(out=)")
        except RuntimeError as error:
            if op.name in _JOINED:
                raise TypeError(str(error)) from None
            raise
    for target, r in zip(targets, results, strict=True):  # written only after all checks
        if op.name in _COUNTED and target.array.size == r.array.size:
            r = r.reshape(target.shape)
        if target.array.shape != r.array.shape:
            if target.array.size:
                warnings.warn(
                    f"An output with one or more elements was resized since it had shape {list(target.array.shape)}, which does not "
                    f"match the required output shape {list(r.array.shape)}. This behavior is deprecated, and in a future PyTorch release "
                    "outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing "
                    "it, inplace, to zero elements with t.resize_(0).",
                    stacklevel=3,
                )
            axes = getattr(op, "laid", None) is not None and axes_of(r.array) or tuple(range(r.ndim))
            target._lay(r.array.shape, axes)
        recorded = tape.mode.grad
        tape.mode.grad = recorded and not _constant(op)
        try:
            inplace.put(target, r, f"{op.name}(out=)")
        finally:
            tape.mode.grad = recorded
    return result.__class__(*targets) if hasattr(result, "_fields") else out
