"""Sparse tensors: making, reading, arithmetic, products, and gradients."""

from __future__ import annotations

from .case import case, fails
from .inputs import f, v

# fmt: off
COO = "s = torch.sparse_coo_tensor(k, x, (3, 4))\n"
K, X = v([[0, 2, 2, 0], [1, 0, 3, 1]], "int64"), f(4)
case("", [COO + text for text in (
    "s.to_dense()", "s.coalesce().values()", "s.coalesce().indices()", "s._nnz(), s.coalesce()._nnz(), s.is_coalesced(), s.coalesce().is_coalesced()", "s.shape, s.dtype, s.sparse_dim(), s.dense_dim(), s.is_sparse, s.layout == torch.sparse_coo",
    "(s * 2).to_dense()", "(s + s).to_dense()", "(s - s * 3).to_dense()", "(-s).to_dense()", "s.t().to_dense()", "s.transpose(0, 1).coalesce().indices()", "torch.sparse.mm(s, torch.ones(4, 2, dtype=x.dtype))", "s @ torch.ones(4, 2, dtype=x.dtype)", "torch.mv(s, torch.arange(4., dtype=x.dtype))",
    "torch.sparse.sum(s)", "torch.sparse.sum(s, 0).to_dense()", "torch.sparse.sum(s, dim=1).to_dense()", "s.coalesce().abs().to_dense()", "s.coalesce().sqrt().to_dense().shape", "s.to(torch.float32).to_dense()", "s.clone().to_dense()", "s.to_dense().sum()", "torch.sparse.addmm(torch.ones(3, 2, dtype=x.dtype), s, torch.ones(4, 2, dtype=x.dtype), alpha=2)",
    "s.detach().to_dense()", "(s.coalesce() * torch.ones(3, 4, dtype=x.dtype)).to_dense()", "s.index_select(0, torch.tensor([2, 0])).to_dense()", "torch.stack([s, s]).to_dense().shape, torch.cat([s, s]).to_dense()", "s.to_sparse_csr().to_dense()", "(s / 2).to_dense()")], k=K, x=X)
case("", [COO + f"w = x.detach().clone().requires_grad_()\ny = torch.sparse.{name}(torch.sparse_coo_tensor(k, w, (3, 4)), 1).to_dense()\n(y * y.detach()).sum().backward()\ny.detach(), w.grad" for name in ("softmax", "log_softmax")], grad=False, k=K, x=X)
case("", [COO + "repr(s.coalesce())", COO + "str(s)", "repr(torch.sparse_coo_tensor((2, 3)))"], k=K, x=v([1.5, 2.0, -3.0, 4.0], "float32", grad=False))
case("", ["x.to_sparse().to_dense()", "x.to_sparse().indices()", "x.to_sparse().values()", "x.relu().to_sparse()._nnz()", "x.to_sparse_csr().to_dense()", "x.to_sparse_csr().crow_indices(), x.to_sparse_csr().col_indices()", "x.to_sparse_csr().values()", "x.to_sparse_csr() @ torch.ones(4, 2, dtype=x.dtype)", "x.to_sparse(1).values().shape", "x.to_sparse(layout=torch.sparse_csr).layout == torch.sparse_csr"], x=v([[0.0, 1.5, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, -1.0, 0.0]], grad=False))
case("", ["torch.sparse_csr_tensor(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 3, 1]), x, (3, 4)).to_dense()", "torch.sparse_coo_tensor(torch.tensor([[0, 2, 1]]), x).to_dense()", "torch.sparse_coo_tensor(torch.tensor([[0, 2, 1]]), x, dtype=torch.float32).to_dense()", "torch.sparse.spdiags(x[None].detach(), torch.tensor([0]), (3, 3)).to_dense()"], x=f(3))
case("", "x.sparse_mask(m.to_sparse()).to_dense()", x=f(3, 3), m=v([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], grad=False))
case("", ["e = nn.Embedding(5, 2, sparse=True)\nnn.init.ones_(e.weight)\n(e(k) * x).sum().backward()\ng = e.weight.grad\ng.is_sparse, g.coalesce().indices(), g.to_dense()", "e = nn.EmbeddingBag(5, 2, mode='sum', sparse=True)\nnn.init.ones_(e.weight)\ne(k[None]).sum().backward()\ne.weight.grad.to_dense()", "e = nn.Embedding(5, 2, sparse=True)\nnn.init.ones_(e.weight)\no = torch.optim.SparseAdam(e.parameters(), lr=0.1)\n(e(k) * x).sum().backward()\no.step()\ne.weight.detach()"], k=v([1, 3, 1], "int64"), x=f(3, 2, dtype="float32"), grad=False)
fails("", ["torch.sparse_coo_tensor(k, x[:2], (3, 4))", "torch.sparse_coo_tensor(k, x, (3,))", COO + "s.values()", COO + "s.indices()", COO + "s[0, 0] = 1", COO + "s.view(4, 3)", COO + "s @ torch.ones(3, 2)", "x.coalesce()", "x.crow_indices()", COO + "s.numpy()"], k=K, x=X)
