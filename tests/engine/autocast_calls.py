"""Calls whose dtypes under autocast are PyTorch's: `python tests/engine/autocast_calls.py` stores what PyTorch says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).parent / "expected" / "autocast.json"

# Tensors: v (4), w (4) and p (4, positive, below 1); m, n (4, 4) and s (4, 4, symmetric, positive definite); b (2, 4, 4); i (2, 4, 6, 6)
# an image, k (3, 4, 3, 3) its weight; t (4) classes. What is not named is drawn alike.
CALLS = """
torch.matmul(m, n) | m @ n | m @ v | v @ m | v @ w | torch.mm(m, n) | torch.bmm(b, b) | torch.mv(m, v) | torch.dot(v, w) | torch.vdot(v, w)
torch.addmm(m, n, m) | torch.addmv(v, m, v) | torch.addr(m, v, w) | torch.baddbmm(b, b, b) | torch.addbmm(m, b, b) | torch.ger(v, w)
torch.linalg.vecdot(m, n) | torch.linalg.multi_dot([m, n, m]) | torch.chain_matmul(m, n) | torch.inner(m, n) | torch.inner(v, w) | torch.outer(v, w)
torch.einsum("ij,jk->ik", m, n) | torch.einsum("ij,ij->ij", m, n) | torch.tensordot(m, n, 1) | torch.tensordot(m, n, 2) | torch.kron(m, n)
torch.matrix_power(m, 3) | torch.linalg.matrix_power(m, 2) | torch.cdist(m, n) | torch.cov(m) | m.matmul(n) | m.mm(n) | b.bmm(b)
F.linear(m, n) | F.linear(m, n, v) | F.bilinear(m, n, torch.ones(2, 4, 4)) | F.prelu(m, v) | torch.prelu(m, v)
F.conv1d(b, b[:, :, :3]) | F.conv2d(i, k) | F.conv2d(i, k, padding=1) | F.conv2d(i, k, stride=2)
F.conv_transpose1d(b, b.transpose(0, 1)) | F.conv_transpose2d(i, k.transpose(0, 1)) | F.unfold(i, 2) | m.t()
F.scaled_dot_product_attention(b, b, b) | F.scaled_dot_product_attention(b, b, b, is_causal=True)
F.avg_pool2d(i, 2) | F.max_pool2d(i, 2) | F.avg_pool3d(i, 2) | F.max_pool3d(i, 2) | F.adaptive_avg_pool2d(i, 2) | F.adaptive_avg_pool3d(i, 2)
F.adaptive_max_pool3d(i, 2) | F.grid_sample(i, torch.zeros(2, 3, 3, 2, dtype=i.dtype), align_corners=False) | F.interpolate(i, scale_factor=2)
F.interpolate(i, scale_factor=2, mode="bilinear") | F.pad(i, (1, 1)) | F.pad(i, (1, 1, 1, 1), mode="reflect") | F.pad(i, (1, 1, 1, 1), mode="replicate")
F.pad(b, (1, 1), mode="reflect") | F.pad(b, (1, 1), mode="circular") | F.pixel_shuffle(i, 2) | F.local_response_norm(i, 2) | F.local_response_norm(b, 2)
F.layer_norm(m, (4,)) | F.layer_norm(m, (4,), v.float()) | F.group_norm(i, 2) | F.batch_norm(i, None, None, training=True) | F.instance_norm(i)
F.batch_norm(i, torch.zeros(4), torch.ones(4), v.float(), w.float(), True) | F.batch_norm(i, torch.zeros(4), torch.ones(4), v.float(), w.float())
F.group_norm(i, 2, v.float(), w.float()) | F.rms_norm(m, (4,), v.float()) | F.normalize(m) | F.softmax(m, 0) | F.log_softmax(m, 0) | F.gelu(m)
F.mse_loss(m, n) | F.l1_loss(m, n) | F.smooth_l1_loss(m, n) | F.huber_loss(m, n) | F.cross_entropy(m, t) | F.nll_loss(m, t) | F.kl_div(m, n)
F.binary_cross_entropy(p, p) | F.binary_cross_entropy_with_logits(p, p) | F.poisson_nll_loss(m, n) | F.hinge_embedding_loss(m, n.sign())
F.cosine_embedding_loss(m, n, v.sign()) | F.margin_ranking_loss(v, w, v.sign()) | F.triplet_margin_loss(m, n, m) | F.multi_margin_loss(m, t)
F.soft_margin_loss(m, n.detach().sign()) | F.multilabel_margin_loss(m, t[None].repeat(4, 1)) | F.gaussian_nll_loss(m, n, m.abs() + 1) | F.cosine_similarity(m, n)
F.multilabel_soft_margin_loss(m, n.sign()) | F.pairwise_distance(m, n) | F.ctc_loss(m[:, None], t[None, :2], torch.tensor([4]), torch.tensor([2]))
m.exp() | m.abs().log() | m + n | m * n | m.sum() | m.sum(0) | m.mean() | m.std() | m.var(0) | m.prod() | m.prod(0) | m.cumsum(0) | m.cumprod(0) | m.pow(2)
m.norm() | torch.linalg.norm(m) | torch.linalg.vector_norm(m) | m.softmax(-1) | m.log_softmax(-1) | m.logsumexp(0) | m.rsqrt() | m.tanh() | m.sigmoid()
torch.stack([m, n.float()]) | torch.cat([m, n.float()]) | m.index_copy(0, t, n) | torch.atan2(m, n) | torch.addcmul(m, m, n) | torch.addcdiv(m, m, n)
torch.quantile(m, 0.5) | torch.trace(m) | torch.polar(v.abs(), w).real | torch.fft.fft(m).real | torch.fft.rfft(v).abs() | m.median()
torch.linalg.inv(s) | torch.inverse(s) | torch.linalg.solve(s, v) | torch.linalg.cholesky(s) | torch.linalg.qr(s).R | torch.linalg.svdvals(s)
torch.linalg.eigvalsh(s) | torch.linalg.lstsq(s, m).solution | torch.linalg.matrix_rank(s) | torch.linalg.cond(s) | torch.cholesky_solve(m, s)
torch.linalg.lu_solve(*torch.linalg.lu_factor(s.float()), m.float()) | F.max_unpool1d(*F.max_pool1d(b, 2, return_indices=True), 2)
nn.Linear(4, 3)(m) | nn.Conv2d(4, 3, 2)(i) | nn.BatchNorm2d(4)(i) | nn.LayerNorm(4)(m) | nn.GroupNorm(2, 4)(i) | nn.Embedding(4, 3)(t) | nn.Bilinear(4, 4, 2)(m, n)
nn.LSTM(4, 3, proj_size=2)(b)[0] | nn.GRU(4, 3)(b)[0] | nn.GRU(4, 3)(b)[1] | nn.RNN(4, 3)(b)[0] | nn.LSTMCell(4, 3)(m)[0] | nn.GRUCell(4, 3)(m) | nn.RNNCell(4, 3)(m)
nn.MultiheadAttention(4, 2)(b, b, b)[0] | nn.MultiheadAttention(4, 2)(b, b, b)[1] | nn.TransformerEncoderLayer(4, 2, 8)(b) | nn.Transformer(4, 2, 1, 1, 8)(b, b)
"""
LOWER = ("float16", "bfloat16")
WAYS = [(given, lower) for given in ("float32", "bfloat16", "float64") for lower in LOWER]  # the tensors' dtype and the autocast's


def calls() -> list[str]:
    """Every call, in order."""
    return [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


def tensors(lib: Any, dtype: str) -> dict[str, Any]:
    """The tensors that the calls name, and the library."""
    lib.manual_seed(0)
    shapes = {"v": (4,), "w": (4,), "m": (4, 4), "n": (4, 4), "b": (2, 4, 4), "i": (2, 4, 6, 6), "k": (3, 4, 3, 3)}
    made = {name: lib.randn(*shape) for name, shape in shapes.items()}
    made |= {"p": lib.rand(4) * 0.8 + 0.1, "s": made["m"] @ made["m"].t() + 4 * lib.eye(4)}
    made = {name: x.to(getattr(lib, dtype)).requires_grad_() for name, x in made.items()}
    return {**made, "t": lib.tensor([0, 3, 1, 2]), "torch": lib, "nn": lib.nn, "F": lib.nn.functional}


def answer(lib: Any, call: str, given: str, lower: str) -> str:
    """The dtype of a call's result under autocast, and those of the gradients of the tensors it names; or the error."""
    words = tensors(lib, given)
    try:
        with lib.autocast("cpu", dtype=getattr(lib, lower)):
            out = eval(call, words)
        if out.requires_grad:
            out.sum().backward()
    except Exception as error:
        return type(error).__name__
    grads = [x.grad for x in words.values() if isinstance(x, lib.Tensor) and x.grad is not None]
    return " ".join(str(x.dtype).partition(".")[2] for x in (out, *grads))


def main() -> None:
    import warnings

    import torch

    warnings.simplefilter("ignore")
    found = {call: [answer(torch, call, *way) for way in WAYS] for call in calls()}
    EXPECTED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
