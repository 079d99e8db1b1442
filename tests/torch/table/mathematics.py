"""Names of torch, torch.linalg, torch.special, torch.masked and torch.sparse that courses use rarely, and older spellings of those they use."""

from __future__ import annotations

from .case import case, fails, writes
from .inputs import b, c, f, i, v

# fmt: off
POLYNOMIALS = [f"{shift}chebyshev_polynomial_{k}" for shift in ("", "shifted_") for k in "tuvw"] + ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
case("", [f"torch.special.{name}(x, n)" for name in POLYNOMIALS], x=[f(2, 3), f(3, dtype="float32"), f()], n=[0, 1, 4, v([2, 0, 3]), v([-1])], grad=False)
case("", [f"torch.special.{name}(2, x), torch.special.{name}(x, 1).dtype" for name in POLYNOMIALS[:2]], x=[i(3, low=0, high=4)], grad=False)
case("", "torch.special.airy_ai(x)", x=[f(3, 4, low=-3, high=3, dtype="float32"), f(2, low=0, high=1)], grad=False)
fails("", ["torch.special.chebyshev_polynomial_t(x, x.to(torch.complex128))", "torch.special.hermite_polynomial_h('a', x)"], x=f(3))

case("", ["torch.chain_matmul(x, y)", "torch.linalg.matmul(x, y)", "torch.linalg.multi_dot([x, y])"], x=f(2, 3), y=f(3, 4))
case("", ["torch.nuclear_norm(x)", "torch.nuclear_norm(x, keepdim=True)", "torch.frobenius_norm(x, 1)", "torch.frobenius_norm(x, [0, 1], True)", "torch.norm_except_dim(x, 2, 0)", "torch.norm_except_dim(x, 1, 1)"], x=[f(3, 3), f(2, 4)])
case("", ["torch.vander(x)", "torch.vander(x, 2)", "torch.vander(x, N=4, increasing=True)"], x=[f(3), i(3), c(2)], grad=False)
case("", ["torch.geqrf(x).tau", "torch.orgqr(*torch.geqrf(x))", "a, tau = torch.geqrf(x)\ntorch.ormqr(a, tau, x)", "a, tau = torch.geqrf(x)\ntorch.ormqr(a, tau, x, transpose=True)"], x=[f(4, 3), f(2, 3, 3)], grad=False)
case("", ["LD, p, info = torch.linalg.ldl_factor_ex(x + x.mT)\nLD, p, info, torch.linalg.ldl_solve(LD, p, x)", "torch.linalg.ldl_factor(x + x.mT).pivots"], x=[f(3, 3), f(2, 4, 4), f(0, 0)], grad=False)
case("", ["torch.lobpcg(x + x.mT, k=2)[0]", "torch.lobpcg(x + x.mT, k=1, largest=False)[0]"], x=f(9, 9), grad=False)
case("", ["u, s, w = torch.svd_lowrank(x[:, :2] @ x[:2], q=3)\nu @ torch.diag(s) @ w.T", "torch.pca_lowrank(x[:, :2] @ x[:2], q=2)[1]"], x=f(6, 6), grad=False)
fails("", ["torch.linalg.inv(x)", "torch.linalg.solve(x, x)", "torch.linalg.cholesky(x)", "torch.linalg.inv_ex(x, check_errors=True)", "torch.symeig(x)", "torch.eig(x)", "torch.linalg.ldl_factor(x[0])", "torch.chain_matmul(x[0])", "torch.pca_lowrank(x, q=9)"], x=v([[1.0, 2.0], [2.0, 4.0]]))
case("", "issubclass(torch.linalg.LinAlgError, RuntimeError)")
case("", ["repr(torch.max(x, 0))", "repr(torch.sort(x))", "repr(torch.linalg.slogdet(x))", "repr(x.median(0))", "repr(torch.aminmax(x))", "type(torch.topk(x, 2)).__name__"], x=f(3, 3), grad=False)

case("", ["torch.histogramdd(x, 2).hist", "torch.histogramdd(x, [2, 3], range=[-1.0, 1.0, -2.0, 2.0])[0]", "torch.histogramdd(x, [2, 3], density=True).bin_edges", "torch.histogramdd(x, 2, weight=x[:, 0].abs()).hist"], x=f(9, 2), grad=False)
case("", ["torch.nonzero_static(x, size=3)", "x.nonzero_static(size=9, fill_value=-2)"], x=[i(2, 3), b(4)])
case("", [f"torch.segment_reduce(x, '{r}', lengths=torch.tensor([2, 1, 3]))" for r in ("sum", "mean", "max", "min", "prod")] + ["torch.segment_reduce(x, 'sum', lengths=torch.tensor([2, 0, 4]), initial=1)", "torch.segment_reduce(x, 'max', offsets=torch.tensor([0, 4, 6]))"], x=[f(6), f(6, 2)])
fails("", ["torch.segment_reduce(x, 'sum')", "torch.segment_reduce(x, 'sum', lengths=torch.tensor([1]))", "torch.histogramdd(x, 2)", "torch.nonzero_static(x, size=-1)"], x=f(6))

M = b(3, 4)
case("", [f"torch.masked.{n}(x, 1, mask=m | (x == x[:, :1]))" for n in ("sum", "prod", "mean", "amax", "amin", "logsumexp", "softmax", "log_softmax", "softmin", "cumsum", "cumprod")] + ["torch.masked.norm(x, 2, 1, mask=m)", "torch.masked.var(x, mask=m)", "torch.masked.std(x, 0, False, mask=m | (x == x[:1]))"], x=f(3, 4), m=M)
case("", ["torch.masked.sum(x, mask=m)", "torch.masked.argmax(x, 1, mask=m)", "torch.masked.amin(x, keepdim=True, mask=m)", "torch.masked.median(x, 1, mask=m | (x == x[:, :1]))", "torch.masked.median(x, 0)"], x=[i(3, 4), f(3, 4, dtype="float32")], m=M, grad=False)
fails("", ["torch.masked.mean(x)", "torch.masked.sum(x, 3)"], x=i(3, 4))

OLD = ["x.add(0.5, y)", "torch.add(x, 2, y)", "torch.sub(x, 2, y)", "torch.addcmul(x, 0.5, x, y)", "torch.addcdiv(x, 3, x, y)", "torch.addmm(2, x, 3, x, y)", "torch.addmm(2, x, x, y)", "x.addmm(2, 3, x, y)", "torch.addmv(2, x[0], 3, x, y[0])", "torch.baddbmm(2, x[None], 3, x[None], y[None])"]
case("", OLD, x=f(3, 3), y=f(3, 3, low=1, high=2))
writes("", ["x.add_(-0.1, y)", "x.sub_(2, y)", "x.addcmul_(3, y, y)", "x.addcdiv_(0.5, y, y)", "x.addmm_(2, 3, y, y)"], x=f(3, 3), y=f(3, 3, low=1, high=2))
case("", ["torch.tensor_split(x, sections=2)", "torch.tensor_split(x, indices=(1, 2))", "x.split(split_size=2)", "torch.swapaxes(x, axis0=0, axis1=1)", "torch.repeat_interleave(torch.tensor([2, 0, 1]))"], x=f(4, 3))

# gradients of these: tests/parity/test_sparse_parity.py; PyTorch has no second ones of some
S = "s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), x, (2, 3))\n"
case("", [S + e for e in ("s.to_dense()", "torch.sparse.mm(s, y)", "s @ y", "y.t() @ s.t()", "torch.mv(s, y[:, 0])", "(s * 2 + s).to_dense()", "s.coalesce().values()", "torch.sparse.sum(s)", "torch.sparse.sum(s, 0).to_dense()", "torch.sparse.softmax(s.coalesce(), 1).to_dense()", "y.t() + s", "torch.sparse.addmm(y[:2], s, y)", "torch.sparse.mm(s, s.t()).to_dense()")], x=f(4), y=f(3, 2), grad=False)
case("", [S + e for e in ("repr(s.detach())", "s.coalesce().indices()", "s.is_coalesced(), s._nnz(), s.sparse_dim(), s.dense_dim(), s.shape, str(s.layout), s.is_sparse", "s.t().coalesce().indices(), s[1].to_dense(), s[0, 2]", "torch.cat([s, s]).to_dense()", "s.to_dense().to_sparse().indices()", "s.to_dense().to_sparse_csr().crow_indices()")], x=f(4), grad=False)
fails("", [S + e for e in ("s.indices()", "s + 1", "s / y", "s.numpy()", "torch.exp(s)", "s @ s", "torch.sparse_coo_tensor(torch.tensor([[0]]), x)")], x=f(4), y=f(2, 3))
EMBED = "e = nn.Embedding(5, 2, sparse=True).double()\nwith torch.no_grad(): e.weight.copy_(w)\no = torch.optim.{}\nfor k in range(3):\n    o.zero_grad(); (e(torch.tensor([1, k, 1])) ** 2).sum().backward(); o.step()\ne.weight.detach(), e.weight.grad.coalesce().indices()"
case("", [EMBED.format(o) for o in ("SGD(e.parameters(), lr=0.1)", "SGD(e.parameters(), lr=0.1, momentum=0.9)", "Adagrad(e.parameters(), lr=0.1)", "SparseAdam(list(e.parameters()), lr=0.1)")], w=f(5, 2), grad=False)
case("", ["out = torch.empty(0, dtype=torch.float64); torch.sin(x.float(), out=out)", "raised(lambda: torch.mm(x, x.t(), out=torch.empty(2, 2)))", "raised(lambda: torch.abs(x, out=torch.empty(2, 3)))", "raised(lambda: torch.argmax(x, 1, out=torch.empty(2)))", "warned(lambda: torch.add(x, 1, out=torch.empty(7, dtype=torch.float64)))"], x=f(2, 3), grad=False)
