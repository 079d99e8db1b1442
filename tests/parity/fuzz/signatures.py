"""What PyTorch can be asked, from its own tables: the signatures of its operators, and its tests' samples of each."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any, NamedTuple

import torch
from deviations import ABSENT, RANDOM
from torch.testing._internal.common_methods_invocations import op_db

import engine

# Not asked at all, each with its reason.
UNSET = "new elements hold whatever the memory held"
CHOICE = "right in more than one way: signs of vectors, an arbitrary rank or order"
STATE = "changes the library, a device, a file or a process, or tells how PyTorch keeps a tensor"
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "empty_permuted", "empty_quantized", "new_empty", "new_empty_strided", "resize", "resize_", "resize_as", "resize_as_", "set_", "sparse_resize_", "sparse_resize_and_clear_"), UNSET),
    **dict.fromkeys(("svd", "eig", "eigh", "linalg_svd", "linalg_eig", "linalg_eigh", "lobpcg", "geqrf", "ormqr", "orgqr", "lu_unpack", "linalg_lstsq", "lstsq", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve"), CHOICE),
    **dict.fromkeys(("save", "load", "from_file", "save_to", "backward", "data", "record_stream", "warn", "device", "get_device", "manual_seed", "seed", "initial_seed", "set_data", "requires_grad_", "is_pinned", "pin_memory", "cuda", "to_mkldnn", "share_memory_", "sym_size", "retain_grad", "tensor", "as_tensor", "Generator", "cpu", "Size", "set_grad_enabled", "get_autocast_dtype", "is_autocast_cpu_enabled", "is_autocast_enabled", "is_grad_enabled", "is_distributed", "output_nr", "is_set_to", "norm_except_dim", "mT", "mH", "retains_grad", "is_leaf", "is_inference"), STATE),
}  # fmt: skip
PREFIXES = ("cudnn", "miopen", "mkldnn", "quantize", "fake_quantize", "fbgemm", "sparse", "to_sparse", "dequantize", "q_", "int_repr", "fused_moving", "choose_qparams", "is_vulkan", "rnn_", "lstm", "gru", "quantized", "from_blob", "nested", "sspaddmm", "to_padded", "sym_", "copy_sparse", "hspmm", "smm", "saddmm", "ccol", "crow", "col_indices", "row_indices", "indices", "values", "coalesce", "is_coalesced", "dense_dim", "kl_div_backward", "embedding_renorm", "native_", "batch_norm_", "convolution_", "slice_inverse", "alias", "segment_reduce", "align", "rename", "refine_names", "wait", "fork")  # fmt: skip
RANDOM_NAMES = {name.removeprefix("nn.functional.") for name in RANDOM} | {
    "rand",
    "randperm",
    "poisson",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "binomial",
    "random",
}


class Argument(NamedTuple):
    name: str
    kind: str  # "Tensor", "int", "List[int]", "number", ...
    optional: bool  # takes None
    required: bool
    keyword: bool


class Signature(NamedTuple):
    """One overload of an operator, and how a program calls it."""

    name: str
    function: str | None  # "T.linalg.norm"
    method: str | None  # "norm"
    arguments: tuple[Argument, ...]
    out: tuple[str, ...]

    @property
    def writes(self) -> bool:
        return self.name.endswith("_") and not self.name.endswith("__")


def _named(name: str) -> tuple[str | None, str | None]:
    for place in ("linalg", "special", "fft"):
        short = name.removeprefix(place + "_")
        if short != name and hasattr(getattr(torch, place), short):
            return f"T.{place}.{short}", None
    function = f"T.{name}" if hasattr(torch, name) and callable(getattr(torch, name)) else None
    return function, name if hasattr(torch.Tensor, name) else None


def _argument(given: Any) -> Argument:
    kind = str(given.type)
    optional = kind.startswith("Optional[")
    return Argument(given.name, kind[9:-1] if optional else kind, optional, not given.has_default_value(), given.kwarg_only)


@functools.cache
def signatures(ops: str = "") -> dict[str, list[Signature]]:
    """The overloads of every operator that PyTorch's programs call and the engine has, by name; of those whose name contains `ops`."""
    if ops:
        return {name: overloads for name, overloads in signatures().items() if re.search(ops, name)}
    found: dict[str, list[Signature]] = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if (
            name == schema.name
            or name.startswith("_")
            or name in LEFT_OUT
            or name.startswith(PREFIXES)
            or name.removesuffix("_") in RANDOM_NAMES
        ):
            continue
        if name.endswith(("_backward", "_jvp", "_jagged", "_double_backward", "_for_eval")) or (name in RANDOM_NAMES):
            continue
        function, method = _named(name)
        if function is None and method is None or not _there(function, method):
            continue
        arguments = [_argument(a) for a in schema.arguments]
        if any(
            a.kind in ("Dimname", "Generator", "Storage", "Stream", "Device", "t")
            or "Dimname" in a.kind
            or a.kind.startswith(("Dict", "List[str", "__torch__", "Future"))
            for a in arguments
            if a.required
        ):
            continue
        if any(a.name == "out_dtype" for a in arguments):
            continue  # for GPUs alone
        out = tuple(a.name for a in schema.arguments if a.is_out)
        kept = tuple(
            a for a in arguments if a.name not in out and a.name not in ("generator", "device", "layout", "pin_memory", "names", "copy")
        )
        if function is None and (not kept or kept[0].name != "self"):
            continue
        found.setdefault(name, []).append(Signature(name, function, method if kept and kept[0].name == "self" else None, kept, out))
    return found


def _there(function: str | None, method: str | None) -> bool:
    place: Any = engine
    for part in (function or "").split(".")[1:]:
        place = getattr(place, part, None)
    return (function is None or place is not None) and (method is None or hasattr(engine.Tensor, method))


@functools.cache
def sampled(ops: str = "") -> list[Any]:
    """PyTorch's entries of operators with samples of their own."""
    if ops:
        return [op for op in sampled() if re.search(ops, op.name)]
    drop = {
        *ABSENT,
        *RANDOM,
        *LEFT_OUT,
        "linalg.svd",
        "linalg.eig",
        "linalg.eigh",
        "linalg.lstsq",
        "svd_lowrank",
        "pca_lowrank",
        "linalg.ldl_factor",
        "linalg.ldl_factor_ex",
        "linalg.ldl_solve",
    }
    return [
        op
        for op in op_db
        if op.name not in drop
        and not op.name.startswith(("torch.ops", "sparse.", "_refs", "nested", "to_sparse"))
        and _path(op) is not None
    ]


def _path(op: Any) -> str | None:
    """How a program names the operator, where it can."""
    place, ours = torch, engine
    for part in op.name.split("."):
        place, ours = getattr(place, part, None), getattr(ours, part, None)
    if callable(place) and callable(ours):
        return f"T.{op.name}"
    return f"T.Tensor.{op.name}" if hasattr(torch.Tensor, op.name) and hasattr(engine.Tensor, op.name) else None


path = _path


def samples(op: Any, dtype: torch.dtype) -> list[Any]:
    """Samples of one entry that are small enough to be drawn again and again."""
    return _samples(next(i for i, known in enumerate(sampled()) if known is op), dtype)


@functools.cache
def _samples(index: int, dtype: torch.dtype) -> list[Any]:
    op = sampled()[index]
    if not op.supports_dtype(dtype, "cpu"):
        return []
    with torch.random.fork_rng():
        torch.manual_seed(index)
        return [*itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 60)]
