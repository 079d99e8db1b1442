"""PyTorch's names of the tape's nodes, which `print(t.grad_fn)` shows.

PyTorch names a node after the kernel that ran and numbers its overloads: `x ** 2` is a PowBackward0, `x ** y` a PowBackward1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

OTHERWISE = {  # ops whose kernels have other names in PyTorch
    "batch_norm": "NativeBatchNorm", "batch_normalize": "NativeBatchNorm", "broadcast_to": "Expand", "cholesky": "LinalgCholeskyEx",
    "constant_pad": "ConstantPadNd", "contract": "View", "copied": "CopyBackwards", "copy": "CopyBackwards",
    "ctc": "CtcLoss", "det": "LinalgDet", "dropout": "Mul", "eig": "LinalgEig", "eigh": "LinalgEigh",
    "eigvals": "LinalgEig", "eigvalsh": "LinalgEigh",
    "embedding": "Embedding", "entr": "SpecialEntr", "erfcx": "SpecialErfcx", "fill": "Fill1", "fourier": "FftC2C",
    "group_norm": "NativeGroupNorm", "i0e": "SpecialI0E", "i1": "SpecialI10", "i1e": "SpecialI1E", "imag": "Select",
    "inv": "LinalgInvEx", "inv_unchecked": "LinalgInvEx",
    "layer_norm": "NativeLayerNorm", "log_ndtr": "SpecialLogNdtr", "logsigmoid": "LogSigmoid",
    "lu_factor": "LinalgLuFactorEx", "masked_scale": "Mul", "matrix_exp": "LinalgMatrixExp", "max_pool1d": "Squeeze1",
    "max_pool2d": "MaxPool2DWithIndices", "max_pool3d": "MaxPool3DWithIndices", "movedim": "Permute",
    "ndtr": "Mul1", "ndtri": "SpecialNdtri", "pinv": "LinalgPinv", "qr": "LinalgQr", "real": "Select", "relu6": "Hardtanh",
    "reshape": "View", "rms_norm": "Mul",
    "selu": "Elu", "slogdet": "LinalgSlogdet", "softsign": "Div", "solve": "LinalgSolveEx",
    "square": "Pow", "svd": "LinalgSvd", "svdvals": "LinalgSvd", "tanhshrink": "Sub", "tile": "Repeat", "to_device": "ToCopy",
    "to_dtype": "ToCopy", "vector_norm": "LinalgVectorNorm", "write_view": "CopySlices", "xlog1py": "SpecialXlog1Py",
    "zeta": "SpecialZeta",
    "fourier_back": "FftC2C", "put_diagonal": "DiagEmbed", "solve_matrix": "LinalgSolveEx", "strided_view": "AsStrided",
    "solve_triangle": "LinalgSolveTriangular",
}  # fmt: skip


def _given(args: tuple, kwargs: dict, place: int, name: str, default: Any = None) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _padded(args: tuple, kwargs: dict) -> str:
    n = len(_given(args, kwargs, 1, "pad")) // 2
    kinds = {"reflect": f"ReflectionPad{n}D0", "replicate": f"ReplicationPad{n}D0", "circular": "CopySlices0"}
    return kinds.get(_given(args, kwargs, 2, "mode"), "ConstantPadNd0")


def _split(args: tuple, kwargs: dict) -> str:
    return "Split0" if isinstance(_given(args, kwargs, 1, "split_size_or_sections"), int) else "SplitWithSizes0"


def _transformed(args: tuple, kwargs: dict) -> str:
    return "FftC2C0" if _given(args, kwargs, 0, "input").is_complex() else "FftR2C0"


def _sampled(args: tuple, kwargs: dict) -> str:
    return f"GridSampler{_given(args, kwargs, 0, 'input').ndim - 2}D0"


def _averaged(n: int) -> Callable:
    def told(args: tuple, kwargs: dict) -> str:
        size = _given(args, kwargs, 1, "output_size")
        return "Mean1" if size == 1 or isinstance(size, (tuple, list)) and all(k == 1 for k in size) else f"AdaptiveAvgPool{n}D0"

    return told


_KERNELS = (  # functions whose nodes have their own names
    "adaptive_max_pool2d", "adaptive_max_pool3d", "addbmm", "addmm", "addmv", "addr", "aminmax", "baddbmm", "block_diag", "bmm",
    "cdist", "channel_shuffle", "cholesky_solve", "diagonal_scatter", "dist", "embedding_bag", "glu",
    "index_fill", "ldexp", "masked_scatter", "masked_select", "max_unpool2d", "max_unpool3d", "multi_margin_loss",
    "multilabel_margin_loss", "nansum", "pdist", "pixel_shuffle", "pixel_unshuffle", "polar", "put", "renorm", "rot90",
    "scatter_reduce", "select_scatter", "slice_scatter", "soft_margin_loss", "std_mean", "t", "take", "trace",
    "triangular_solve", "unbind", "var_mean",
)  # fmt: skip
BY_FUNCTION: dict[str, str | Callable] = {  # one kernel in PyTorch and several ops here: the names of their results' nodes
    **dict.fromkeys(_KERNELS, ""),
    "adaptive_avg_pool1d": "Squeeze1", "adaptive_avg_pool2d": _averaged(2), "adaptive_avg_pool3d": _averaged(3),
    "adaptive_max_pool1d": "Squeeze1", "affine_grid": "AffineGridGenerator0", "avg_pool1d": "Squeeze1", "batch_norm": "NativeBatchNorm0",
    "chunk": "Split0", "cosine_similarity": "Sum1", "cross": "LinalgCross0", "diag_embed": "DiagEmbed0", "fft": _transformed,
    "combinations": "Stack0", "grid_sample": _sampled, "householder_product": "LinalgHouseholderProduct0", "kron": "UnsafeView0",
    "lstsq": "LinalgLstsq0",
    "lu_solve": "LinalgLuSolve0", "pad": _padded, "pairwise_distance": "Norm1", "quantile": "Squeeze4", "split": _split,
    **dict.fromkeys(("rfft", "rfft2", "rfftn"), "FftR2C0"),
    **dict.fromkeys(("irfft", "irfft2", "irfftn", "hfft"), "FftC2R0"),
}  # fmt: skip
REFLECTED = {"sub": "Rsub1", "div": "Mul0"}  # `1 - x`, and `1 / x`, which PyTorch computes as `x.reciprocal() * 1`


def named(out: Any, told: str) -> Any:
    """Name the node of a result, or those of several, and return the result."""
    for x in out if isinstance(out, (tuple, list)) else (out,):
        node = getattr(x, "node", None)
        if node is not None and node.op is not None:
            node.attrs = {**node.attrs, "__name__": told}
    return out


def by_function(name: str, fn: Callable) -> Callable:
    """Wrap a composite function so that its results' nodes get the name of PyTorch's kernel, if there is one."""
    told = BY_FUNCTION.get(name)
    if told is None:
        return fn
    if isinstance(told, str):
        told = told or f"{_camel(name)}0"
        return lambda *args, **kwargs: named(fn(*args, **kwargs), told)
    return lambda *args, **kwargs: named(fn(*args, **kwargs), told(args, kwargs))


def _squeeze(node: Any) -> str:
    dim = node.attrs.get("dim")
    return f"Squeeze{0 if dim is None else 1 if isinstance(dim, int) else 2}"


def _reduced(name: str) -> Callable:
    return lambda node: f"{name}{0 if node.attrs.get('dim') is None else 1}"


def _by_other(name: str, number: int, tensor: int) -> Callable:
    """The name of an op with one overload for a number as the second operand and one for a tensor."""

    def named(node: Any) -> str:
        other = node.inputs[1] if len(node.inputs) > 1 else None
        kept = node.saved[1] if isinstance(node.saved, tuple) and len(node.saved) > 1 else None
        return f"{name}{tensor if other is not None or hasattr(kept, 'dtype') else number}"

    return named


def _pow(node: Any) -> str:
    base, exponent = (*node.saved[:2], None, None)[:2] if isinstance(node.saved, tuple) else (None, None)
    if node.inputs[0] is None and base is not None and not hasattr(base, "dtype"):
        return "Pow2"
    return "Pow1" if node.inputs[1] is not None or hasattr(exponent, "dtype") else "Pow0"


def _div(node: Any) -> str:
    above = node.saved[0] if isinstance(node.saved, tuple) and node.saved else None
    return "Mul0" if above is not None and not hasattr(above, "dtype") else "Div0"


def _lerp(node: Any) -> str:
    weight = node.saved[2] if isinstance(node.saved, tuple) and len(node.saved) > 2 else None
    return "Lerp1" if node.inputs[-1] is not None or hasattr(weight, "dtype") else "Lerp0"


def _ranks(node: Any) -> list:
    """The number of dimensions of each input, or None where it is unknown: for an input without a node that was not saved."""
    kept = node.saved if isinstance(node.saved, tuple) else ()
    known = []
    for i, source in enumerate(node.inputs):
        array = kept[i] if i < len(kept) else None
        known.append(len(source.shape) if source is not None and source.shape is not None else array.ndim if array is not None else None)
    return known


def _matmul(node: Any) -> str:
    n = len(node.shape)
    if n == 1:
        return "Squeeze4" if _ranks(node)[0] == 1 else "Mv0"
    return "Dot0" if n == 0 else "Mm0" if n == 2 and 3 not in _ranks(node) else "UnsafeView0"


def _linear(node: Any) -> str:
    if node.inputs[-1] is not None and len(node.inputs) == 3:
        return "Addmm0" if len(node.shape) == 2 else "View0"
    return {1: "Squeeze4", 2: "Mm0"}.get(len(node.shape), "UnsafeView0")


def edges(node: Any) -> Sequence[int]:
    """The indices of the inputs in PyTorch's `next_functions`, in its order: those that its kernel can differentiate."""
    every = range(len(node.inputs))
    if "__context__" in node.attrs:  # a custom Function: its tensor inputs
        return [i for i, told in enumerate(node.attrs["__inputs__"]) if told is not None]
    if len(node.op.rules) != len(node.inputs):  # any number of tensors
        return every
    arranged = _ARRANGED.get(node.op.name)
    order = every if arranged is None else arranged(node)
    return [i for i in order if node.inputs[i] is not None or node.op.rules[i] is not None]


def _number_first(node: Any) -> bool:
    kept = node.saved[0] if isinstance(node.saved, tuple) and node.saved else None
    return node.inputs[0] is None and kept is not None and not hasattr(kept, "dtype")


def _power_edges(node: Any) -> Sequence[int]:
    return {"Pow0": (0,), "Pow2": (1,)}.get(_pow(node), (0, 1))


_ARRANGED: dict[str, Callable[[Any], Sequence[int]]] = {  # ops that PyTorch computes with operands in another order, or with a number
    "mul": lambda node: (1, 0) if _number_first(node) else (0, 1),
    "div": lambda node: (1, 0) if node.attrs.get("__name__") == REFLECTED["div"] else (0, 1),
    "sub": lambda node: (1,) if node.attrs.get("__name__") == REFLECTED["sub"] else (0, 1),
    "pow": _power_edges,
    "linear": lambda node: (0, 1) if node.inputs[2] is None else (2, 0, 1) if _linear(node) == "Addmm0" else (0, 1, 2),
}


def _convolution(node: Any) -> str:
    n = int(node.op.name[-2])
    return "Convolution0" if len(node.shape) > n + 1 else "Squeeze1"


def _cross_entropy(node: Any) -> str:
    if node.attrs.get("label_smoothing"):
        return "Add0"
    return "NllLoss2D0" if len(node.inputs[0].shape) > 2 else "NllLoss0"


def _getitem(node: Any) -> str:
    index = node.attrs["index"]
    name = "Alias0"
    for item in index if isinstance(index, tuple) else (index,):
        if item is Ellipsis:
            continue
        if item is None:
            name = "Unsqueeze0"
        elif isinstance(item, slice):
            name = "Slice0" if item != slice(None) or name == "Alias0" and index == slice(None) else name
        elif hasattr(item, "dtype"):
            return "Index0"
        else:
            name = "Select0"
    return name


def _pooled(name: str) -> Callable:
    return lambda node: f"{name}{max(len(node.shape) - 2, 1)}D0"


def _resampled(node: Any) -> str:
    mode, n = str(node.attrs.get("mode", "nearest")), len(node.attrs["size"])
    return f"Upsample{ {'linear': ('Linear', 'Bilinear', 'Trilinear')[n - 1], 'cubic': 'Bicubic'}.get(mode, 'Nearest') }{n}D0"


BY_CALL: dict[str, Callable[[Any], str]] = {
    "squeeze": _squeeze, "sum": _reduced("Sum"), "mean": _reduced("Mean"), "prod": _reduced("Prod"), "pow": _pow, "div": _div,
    "remainder": _by_other("Remainder", 0, 1), "fmod": _by_other("Fmod", 0, 1), "matmul": _matmul, "linear": _linear, "getitem": _getitem,
    "lerp": _lerp,
    "avg_pool": _pooled("AvgPool"), "resample": _resampled, "cross_entropy": _cross_entropy,
    "l1_loss": lambda node: {"none": "Abs0", "sum": "Sum0"}.get(node.attrs.get("reduction"), "Mean0"),
    "max_pool_with_indices": lambda node: f"MaxPool{len(node.shape) - 2}DWithIndices0",
    "median": lambda node: "Median1", "nanmedian": lambda node: "Nanmedian1",
    "median_of_all": lambda node: "Nanmedian0" if node.attrs.get("skip_nan") else "Median0",
    **dict.fromkeys((f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)), _convolution),
    "nll_loss": lambda node: "NllLoss2D0" if len(node.inputs[0].shape) > 2 else "NllLoss0",
    "clamp": lambda node: "Clamp0" if node.inputs[1:] and any(node.inputs[1:]) else "Clamp1",
}  # fmt: skip


def backward_name(node: Any) -> str:
    """Return a node's name: `AddBackward0` for an addition, `MyFunctionBackward` for a user's Function."""
    op, told = node.op, node.attrs.get("__name__")
    if told is None and not isinstance(op, type):
        if op.picks:
            return backward_name(node.inputs[0])
        return f"{op.name}Backward" if hasattr(op, "function") else f"{op.name.capitalize()}Backward0"
    if told is None:
        find = BY_CALL.get(op.name)
        told = find(node) if find is not None else OTHERWISE.get(op.name) or f"{_camel(op.name)}0"
    name, number = (told[:-1], told[-1]) if told[-1].isdigit() else (told, "0")
    return f"torch::autograd::{name}" if name in ("CopySlices", "CopyBackwards") else f"{name}Backward{number}"


def type_name(node: Any) -> str:
    """Return PyTorch's name of the node's type: the node's name without the C++ namespace."""
    return backward_name(node).removeprefix("torch::autograd::")


def _camel(name: str) -> str:
    """Convert `log_softmax` to LogSoftmax; a letter after a digit is upper case too: AvgPool2D."""
    whole = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return re.sub(r"(?<=\d)[a-z]", lambda m: m[0].upper(), whole)
