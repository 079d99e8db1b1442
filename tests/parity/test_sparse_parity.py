"""Sparse tensors beside PyTorch's: one list of expressions, evaluated in both, with text, values, layout, dtype and errors."""

from __future__ import annotations

import numpy
import pytest
import torch

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

EXPRESSIONS = """
s; u; u.coalesce(); u.is_coalesced(); s.is_coalesced(); s.layout; s.is_sparse; s._nnz(); s.sparse_dim(); s.dense_dim(); s.size(); s.shape
h; h.coalesce(); h.to_dense(); u.to_dense(); s.indices(); s.values(); u.indices(); u.values(); u._indices(); u._values(); s.dtype; s.ndim
T.sparse_coo_tensor(i, v); T.sparse_coo_tensor(i, v[:2]); T.sparse_coo_tensor((2, 3)); T.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2])
T.sparse_coo_tensor([[0, -1], [1, 0]], [1, 2]); T.sparse_coo_tensor(i, v, (2, 3), dtype=T.float64); T.sparse_coo_tensor(i, v, (2, 3, 4))
T.sparse_coo_tensor([[0, 1]], [[1.0, 2], [3, 4]], (3, 2)); T.sparse.FloatTensor(i, v, T.Size([2, 3])); T.sparse.FloatTensor(2, 3)
d + s; s + d; s + 1; s * 2; 2 * s; s * s; (s * u).to_dense(); s * d; d * s; s / 2; s / d; s + s; (s + u).to_dense(); s - s; (s - u).to_dense(); -s; u * 2; d - s; T.add(d, s, alpha=2)
s @ w; T.mm(s, w); T.matmul(s, w); T.spmm(s, w); s.mm(w); T.sparse.mm(s, w); u @ w; d.T @ s; s @ s.t(); T.sparse.mm(s, u.t()); s @ w[:, 0]
T.mv(s, w[:, 0]); T.sparse.mm(s, d); s.double() @ w; T.sparse.addmm(d[:, :2], s, w); T.sparse.addmm(d[:, :2], s, w, beta=2, alpha=3)
s.t(); s.T; s.transpose(0, 1); s.transpose(0, 1).is_coalesced(); s.t().coalesce(); s.unsqueeze(0); s.unsqueeze(2); h.transpose(0, 1)
s.sum(); u.sum(); s.sum(0); s.sum(1); T.sparse.sum(s); T.sparse.sum(s, 0); T.sparse.sum(u, dim=1); T.sparse.sum(s, dim=[0, 1]); T.sparse.sum(h, 1)
T.relu(-s); s.abs(); s.pow(2); s ** 2; s ** 0.5; s.square(); s.sqrt(); s.sin(); s.expm1(); T.exp(s); s.max(); s == s; s.norm(); s.any()
s[0]; s[0, 2]; s[1][0]; s[:, 1]; h[0]; s[5]; s.index_select(0, T.tensor([1, 0])); s.index_select(1, T.tensor([2, 2])); list(s); len(s)
T.cat([s, u]); T.cat([s, s], 1); T.stack([s, s]); T.sparse.softmax(s, 1); T.sparse.softmax(s, 0); T.sparse.log_softmax(s, 1)
d.to_sparse(); (d > 0).to_sparse(); d.to_sparse(1); T.zeros(0).to_sparse(); T.tensor(3.0).to_sparse(); d.sparse_mask(s); s.to_dense(); d.to_dense()
s.double(); s.to(T.float16); s.float().dtype; s.clone(); s.detach(); s.numel(); s.is_contiguous(); s.stride(); s.numpy(); s.tolist(); s.item()
s.clone().zero_(); s.clone().mul_(2); s.clone().add_(s); T.is_tensor(s); s.view(3, 2); s.reshape(3, 2); s[0:1]
T.eye(3).to_sparse_csr(); c; c.crow_indices(); c.col_indices(); c.values(); c.to_dense(); c @ w; c.layout; c.is_sparse; c.is_sparse_csr; c * 2; c._nnz()
T.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [1.0, 2, 3]); s.to_sparse_csr(); c.to_sparse_coo(); c.to_sparse(); c.indices(); s.crow_indices(); c + c; c @ c.to_dense().T
T.sparse.spdiags(d, T.tensor([0, -1]), (3, 3)).coalesce(); T.sparse.spdiags(d, T.tensor([1, 0]), (2, 5)).coalesce(); s.data; s.requires_grad
s.requires_grad_(); (s.requires_grad_() * 2).requires_grad; s.half().to_dense(); s.long(); s.bool(); s.to_dense(dtype=T.float64)
"""  # fmt: skip
EXPRESSIONS = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(";")]
KINDS = (RuntimeError, IndexError, TypeError, NotImplementedError, ValueError)


def names(T, numbers):
    i = T.tensor([[0, 1, 1], [2, 0, 2]])
    v, d, w = (T.tensor(x) for x in numbers)
    return {
        "T": T, "i": i, "v": v, "d": d, "w": w, "s": T.sparse_coo_tensor(i, v, (2, 3)).coalesce(),
        "u": T.sparse_coo_tensor(T.tensor([[1, 0, 1, 0], [2, 1, 2, 0]]), T.cat([v, v[:1]]), (2, 3)),
        "h": T.sparse_coo_tensor(T.tensor([[2, 0]]), d[:, :2], (3, 2)),
        "c": T.sparse_csr_tensor(T.tensor([0, 2, 3]), T.tensor([0, 2, 1]), v, (2, 3)),
    }  # fmt: skip


def told(T, text, numbers):
    try:
        found = eval(text, names(T, numbers))
    except KINDS as error:
        return next(k for k in (NotImplementedError, *KINDS) if isinstance(error, k))
    return repr(found)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text):
    numbers = [numpy.random.default_rng(len(text)).uniform(0.5, 2, n).astype("float32") for n in ((3,), (2, 3), (3, 2))]
    theirs = told(torch, text, numbers)
    mine = told(engine, text, numbers)
    if isinstance(theirs, type):
        assert isinstance(mine, type) and issubclass(mine, theirs), mine
    else:
        assert mine == theirs


GRADIENTS = {
    "mm": lambda T, s, x: T.sparse.mm(s, x), "dense first": lambda T, s, x: x.t() @ s.t(), "vector": lambda T, s, x: s @ x[:, 0],
    "to_dense": lambda T, s, x: s.to_dense() * x.t(), "sum": lambda T, s, x: T.sparse.sum(s) * x, "add": lambda T, s, x: x.t() + s,
    "scaled": lambda T, s, x: T.sparse.mm(s * 3, x), "softmax": lambda T, s, x: T.sparse.softmax(s, 1).to_dense() @ x,
    "log_softmax": lambda T, s, x: T.sparse.log_softmax(s, 0).to_dense() @ x, "sum dim": lambda T, s, x: T.sparse.sum(s, 1).to_dense() @ x.t(),
    "addmm": lambda T, s, x: T.sparse.addmm(x[:2], s, x), "sparse mm": lambda T, s, x: T.sparse.mm(s, s.t()).to_dense() @ x[:2],
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_values_and_dense_operands(name):
    rng = numpy.random.default_rng(3)
    v, x, found = rng.normal(size=3), rng.normal(size=(3, 2)), []
    for T in (torch, engine):
        values, dense = T.tensor(v).requires_grad_(), T.tensor(x).requires_grad_()
        s = T.sparse_coo_tensor(T.tensor([[0, 1, 1], [2, 0, 2]]), values, (2, 3)).coalesce()
        out = GRADIENTS[name](T, s, dense)
        (out * T.tensor(rng.normal(size=tuple(out.shape)) * 0 + numpy.arange(out.numel()).reshape(tuple(out.shape)))).sum().backward()
        found.append([None if t.grad is None else numpy.asarray(t.grad) for t in (values, dense)])
    for a, b in zip(*found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            numpy.testing.assert_allclose(b, a, atol=1e-12)
