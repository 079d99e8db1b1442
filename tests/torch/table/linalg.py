"""Products of vectors and matrices, einsum, distances, determinants, inverses."""

from __future__ import annotations

from .case import case, fails
from .inputs import c, f, i, layouts, v

# fmt: off
MATMULS = [(f(3), f(3)), (f(2, 3), f(3)), (f(3), f(3, 2)), (f(2, 3), f(3, 4)), (f(5, 2, 3), f(5, 3, 4)), (f(5, 2, 3), f(3, 4)), (f(2, 3), f(5, 3, 4)), (f(2, 1, 2, 3), f(5, 3, 4)), (f(5, 2, 3), f(3)), (f(0, 3), f(3, 2)), (f(2, 0), f(0, 3)), (i(2, 3), i(3, 2)), (c(2, 3), c(3, 2)), (f(2, 3, dtype="float16"), f(3, 2, dtype="float16")), (f(2, 3, dtype="bfloat16"), f(3, 2, dtype="bfloat16")), (f(2, 3, dtype="float32"), f(3, 4, dtype="float32")), (f(3, 4, layout="transposed"), f(4, 2)), (f(3, 4, layout="stepped"), f(4, 2, layout="transposed")), (f(3, 4, layout="expanded"), f(4, 2))]
for x, y in MATMULS:
    case("torch.matmul torch.Tensor.matmul", ["torch.matmul(x, y)", "x.matmul(y)", "x @ y"], x=x, y=y)
fails("torch.matmul torch.Tensor.matmul", ["torch.matmul(x, y)", "x.matmul(y[0, 0])", "x @ 2", "x @ x", "torch.matmul(x, x.t().float())", "x.matmul('a')"], x=f(2, 3), y=f(2, 4))
case("torch.mm torch.Tensor.mm", ["torch.mm(x, y)", "x.mm(y)", "torch.mm(x, mat2=y)"], x=layouts(f(2, 3)), y=[f(3, 4), f(3, 4, layout="transposed")])
case("torch.mm", "torch.mm(x, y)", x=[f(0, 3), f(2, 3)], y=[f(3, 0), f(3, 1)])
case("torch.mm", "torch.mm(x, y, out=out)", grad=False, x=f(2, 3), y=f(3, 2), out=f(2, 2))
fails("torch.mm torch.Tensor.mm", ["torch.mm(x, x)", "torch.mm(x, x[0])", "x.mm(2)", "torch.mm(x[None], x)", "torch.mm(x, x.t().float())"], x=f(2, 3))
case("torch.bmm", ["torch.bmm(x, y)", "x.bmm(y)", "torch.baddbmm(z, x, y), torch.bmm(x, y)"], x=[f(4, 2, 3), f(4, 2, 3, layout="stepped")], y=[f(4, 3, 2)], z=f(4, 2, 2))
fails("torch.bmm", ["torch.bmm(x, x)", "torch.bmm(x, x[0])", "torch.bmm(x, x.transpose(1, 2)[:2])", "torch.bmm(x)"], x=f(4, 2, 3))
case("torch.mv", ["torch.mv(x, y)", "x.mv(y)", "torch.addmv(z, x, y), torch.mv(x, y)", "torch.addmm(z, x, x.t()), torch.mv(x, y)", "torch.addr(x, z, y), torch.mv(x, y)"], x=[f(3, 4), f(3, 4, layout="transposed")], y=f(4), z=f(3))
fails("torch.mv", ["torch.mv(x, x)", "torch.mv(x, y)", "torch.mv(y, y)"], x=f(3, 4), y=f(3))
case("torch.dot torch.Tensor.dot", ["torch.dot(x, y)", "x.dot(y)", "torch.inner(x, y), torch.dot(x, y)", "torch.vdot(x, y), x.dot(y)"], x=[f(4)], y=[f(4)])
case("torch.dot", "torch.dot(x, x)", x=[f(0), i(3), c(3), f(4, dtype="float32"), f(3, layout="stepped")])
fails("torch.dot torch.Tensor.dot", ["torch.dot(x, y)", "x.dot(x[:, None])", "torch.dot(x, 2)", "x.dot(x.float())"], x=f(4), y=f(3))
case("torch.outer", ["torch.outer(x, y)", "x.outer(y)", "torch.ger(x, y), torch.outer(x, y)", "torch.kron(x, y), torch.outer(x, y)", "torch.cross(x[:3], y[:3], dim=0), torch.outer(x, y)"], x=f(4), y=[f(3), f(3, dtype="float64")][:1])
fails("torch.outer", ["torch.outer(x, x[None])", "torch.outer(x)", "torch.outer(x, 2)"], x=f(3))
EQUATIONS = {"ij,jk->ik": (f(2, 3), f(3, 4)), "ij,jk": (f(2, 3), f(3, 4)), "ij,ij->": (f(2, 3), f(2, 3)), "i,j->ij": (f(2), f(3)), "bij,bjk->bik": (f(2, 3, 4), f(2, 4, 3)), "bhid,bhjd->bhij": (f(2, 2, 3, 4), f(2, 2, 3, 4)), "...ij,...jk->...ik": (f(2, 3, 4), f(4, 2)), "ii": (f(3, 3),), "ii->i": (f(3, 3),), "ij->ji": (f(2, 3),), "ijk->": (f(2, 3, 2),), "ij->j": (f(2, 3),), "i,ij,j->": (f(2), f(2, 3), f(3)), "b i j, b j -> b i": (f(2, 3, 4), f(2, 4)), "ijk,kl->ijl": (f(2, 3, 4), f(4, 2)), "a...,a->...": (f(2, 3), f(2)), "ij,kj->ikj": (f(2, 3), f(4, 3)), "Ab,bC->AC": (f(2, 3), f(3, 2))}
for equation, inputs in EQUATIONS.items():
    words = dict(zip("xyz", inputs))
    case("torch.einsum", [f"torch.einsum('{equation}', {', '.join(words)})", f"torch.einsum('{equation}', [{', '.join(words)}])"], **words)
fails("torch.einsum", ["torch.einsum('ij,jk', x)", "torch.einsum('ij,jk', x, x)", "torch.einsum('ijk', x)", "torch.einsum('ij->k', x)", "torch.einsum('i!', x)", "torch.einsum(x, 'ij')", "torch.einsum('ij->ijj', x)"], x=f(2, 3))
case("torch.det", ["torch.det(x)", "x.det()", "torch.linalg.det(x), torch.det(x)", "torch.logdet(x @ x.mT + torch.eye(3, dtype=x.dtype)), torch.det(x)", "torch.slogdet(x), torch.det(x)"], x=[f(3, 3), f(2, 3, 3), f(3, 3, layout="transposed")])
case("torch.det", "torch.det(x)", x=[f(1, 1), f(0, 0), f(3, 3, dtype="float32"), c(2, 2), v([[1.0, 2.0], [2.0, 4.0]], grad=False)])
fails("torch.det", ["torch.det(x)", "torch.det(x[0])"], x=f(2, 3))
case("torch.Tensor.inverse", ["x.inverse()", "torch.inverse(x)", "torch.linalg.inv(x), x.inverse()", "torch.linalg.solve(x, y), x.inverse()", "torch.linalg.pinv(x), x.inverse()", "torch.linalg.matrix_power(x, 3), x.inverse()"], x=[v([[2.0, 0.5, 0.1], [0.2, 3.0, 0.3], [0.4, 0.1, 1.5]]), v([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 3.0]])], y=f(3, 2))
case("torch.Tensor.inverse", "(x @ x.mT + 3 * torch.eye(3, dtype=x.dtype)).inverse()", x=[f(2, 3, 3), f(3, 3, dtype="float32")])
fails("torch.Tensor.inverse", ["x.inverse()", "(x[:, :2] * 0).inverse()", "x[0].inverse()"], x=f(2, 3))
P = f(3, 3)
case("", ["u, s, vh = torch.linalg.svd(x); s, u @ torch.diag(s) @ vh", "torch.linalg.svdvals(x)", "q, r = torch.linalg.qr(x); q @ r, r.abs()", "l, q = torch.linalg.eigh(x @ x.mT); l, q @ torch.diag(l) @ q.mT", "torch.linalg.cholesky(x @ x.mT + torch.eye(3, dtype=x.dtype))", "torch.linalg.eigvalsh(x @ x.mT)", "torch.linalg.norm(x)", "torch.linalg.matrix_norm(x)", "torch.linalg.vector_norm(x, 3, dim=0)", "torch.linalg.matrix_rank(x)", "torch.linalg.cond(x)", "torch.linalg.cross(x, x.roll(1, 0))", "torch.linalg.multi_dot([x, x, x])", "torch.matrix_exp(x)", "torch.linalg.solve_triangular(x.tril() + 3 * torch.eye(3, dtype=x.dtype), x, upper=False)", "torch.linalg.lstsq(x + 5 * torch.eye(3, dtype=x.dtype), x[:, :1]).solution", "torch.linalg.vander(x[0])", "torch.linalg.norm(x, 'nuc')", "torch.linalg.norm(x, 1)", "torch.linalg.slogdet(x)", "torch.linalg.eigvals(x).abs().sort().values", "torch.linalg.diagonal(x)", "torch.tensordot(x, x, 1)", "torch.tensordot(x, x, ([0], [1]))", "torch.linalg.matmul(x, x)", "torch.cov(x)", "torch.corrcoef(x)", "torch.cross(x, x.roll(1, 0), dim=1)"], x=[P, f(3, 3, layout="transposed")])
fails("", ["torch.linalg.cholesky(-x @ x.mT - torch.eye(3, dtype=x.dtype))", "torch.linalg.inv(x * 0)", "torch.linalg.solve(x, x[0, :2])", "torch.linalg.svd(x[0])", "torch.linalg.eigh(x[:2])", "torch.linalg.norm(x, 'abc')"], x=P)
case("torch.cdist", ["torch.cdist(x, y)", "torch.cdist(x, y, p=p)", "torch.cdist(x, x + 1, p=p)"], x=[f(4, 3), f(2, 4, 3)], y=[f(5, 3), f(1, 5, 3)], p=[1.0, 2.0, 3.0, float("inf"), 0.0])
case("torch.cdist", "torch.cdist(x, y)", x=[f(0, 3), f(2, 3, dtype="float32")][:1], y=f(5, 3))
fails("torch.cdist", ["torch.cdist(x, y)", "torch.cdist(x, x, p=-1)", "torch.cdist(x[0], x)", "torch.cdist(x)"], x=f(4, 3), y=f(5, 2))
