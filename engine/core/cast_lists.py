"""The dtype in which autocast runs each function, from PyTorch's "Autocast Op Reference". Functions in no list are not cast."""

from __future__ import annotations

LOWER, FLOAT32, WIDEST = "lower", "float32", "widest"
ALONE = "alone"  # one kernel in PyTorch and several ops here, which are then not cast one by one
UNSAFE = "unsafe"  # raises: its result would overflow

_F = "nn.functional."
_CONVOLUTIONS = [f"{_F}conv{way}{n}d" for n in (1, 2, 3) for way in ("", "_transpose")]
_LOSSES = [
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
]
_LOSSES += ["mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss"]
_LOSSES = [_F + name for name in [*_LOSSES, "binary_cross_entropy_with_logits"]]
_LOWER = ["matmul", f"{_F}linear", *_CONVOLUTIONS, "addmm", "addbmm", "baddbmm", "bmm", "mm", "linalg.vecdot", "prelu"]
_LOWER += [f"{_F}scaled_dot_product_attention", "contract", "lstm_steps", "rnn_steps"]

_CPU = {
    LOWER: _LOWER,
    FLOAT32: [
        *_LOSSES,
        *[f"{_F}{name}" for name in ("avg_pool3d", "binary_cross_entropy", "grid_sample", "cross_entropy", "ctc_loss")],
        *[
            f"{_F}{name}"
            for name in ("adaptive_avg_pool3d", "adaptive_max_pool3d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d")
        ],
        *[f"{_F}{name}" for name in ("fractional_max_pool2d", "fractional_max_pool3d")],
        *["reflect pad1d", "reflect pad2d", "replicate pad1d", "replicate pad2d", "replicate pad3d"],
        *["polar", "prod", "quantile", "nanquantile", "stft", "cdist", "trace", "view_as_complex", "cholesky_inverse"],
        *["cholesky_solve", "lu_solve", "ormqr", "pinverse", "geqrf", "qr", "svd", "triangular_solve"],
        *[f"fft.{way}{n}" for way in ("fft", "ifft", "rfft", "irfft") for n in ("", "2", "n")],
        *["fft.hfft", "fft.ihfft", "fft.hfft2", "fft.ihfft2", "fft.hfftn", "fft.ihfftn"],
        *[
            f"linalg.{name}"
            for name in ("cond", "matrix_rank", "solve", "cholesky", "cholesky_ex", "svdvals", "eigvals", "eigvalsh", "inv")
        ],
        *[f"linalg.{name}" for name in ("householder_product", "tensorinv", "tensorsolve", "qr", "svd", "eig", "eigh", "lstsq", "inv_ex")],
    ],
    WIDEST: ["index_copy"],
    ALONE: ["mv", "dot", "vdot", "addmv", "linalg.lu_solve", f"{_F}bilinear"],
}
_CUDA = {
    LOWER: [*_LOWER, "addmv", "addr", "einsum", "mv", "chain_matmul", "linalg.multi_dot"],
    FLOAT32: [
        *_LOSSES,
        *["acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sinh", "tan", "pow"],
        *["norm", "nuclear_norm", "frobenius_norm", "linalg.vector_norm", "linalg.matrix_norm", "dist", "cdist"],
        *["pdist", "renorm", "logsumexp", "prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum"],
        *[f"{_F}{name}" for name in ("layer_norm", "group_norm", "rms_norm", "softplus", "cosine_similarity", "interpolate")],
        f"{_F}cross_entropy",
    ],
    WIDEST: [
        *["addcdiv", "addcmul", "atan2", "cross", "dot", "vdot", "index_put", "tensordot", "scatter_add"],
        *[f"{_F}bilinear", f"{_F}grid_sample"],
    ],
    UNSAFE: [f"{_F}binary_cross_entropy"],
    ALONE: [
        *["nansum", "polygamma", "mvlgamma", "ldexp", "index_reduce", "scatter_reduce", "linalg.cross", "linalg.solve_triangular", "svd"],
        *["linalg.lu_solve", "linalg.ldl_solve", f"{_F}batch_norm", f"{_F}glu", "qr", "trace"],
    ],
}  # fmt: skip
POLICIES: dict[str, dict[str, str]] = {}  # function name -> device type -> the list that it is in
for _type, _lists in (("cpu", _CPU), ("cuda", _CUDA)):
    for _kind, _names in _lists.items():
        for _name in _names:
            POLICIES.setdefault(_name, {})[_type] = _kind


def policy(name: str, home: str) -> dict[str, str] | None:
    """The list that a function is in, by device type; None if it is in none."""
    return POLICIES.get(f"{home}.{name}" if home not in ("engine", "") else name)
