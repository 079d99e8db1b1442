"""Functions that reduce dimensions: sums, means, extremes, norms, any and all; cumulative ones."""

from __future__ import annotations

from .case import case, fails
from .inputs import b, but, c, dtypes, every, f, floats, i, layouts, perm, shapes, v

# fmt: off
X = f(3, 4)
CUBE = f(2, 3, 4)
DIMS = [0, 1, -1, (0, 1), (2, -3), None]

case("torch.sum torch.Tensor.sum", ["torch.sum(x)", "x.sum()"], x=every(X))
case("torch.sum torch.Tensor.sum", ["torch.sum(x, dim)", "x.sum(dim=dim, keepdim=True)"], x=layouts(CUBE), dim=DIMS)
case("torch.sum", "torch.sum(x, 0, dtype=dtype)", grad=False, x=[X, i(3, 4), b(3, 4), f(3, 4, dtype="float32")], dtype=["torch.float32", "torch.float64", "torch.int64", "torch.bfloat16", "torch.complex64"])
case("torch.Tensor.sum", ["x.sum(0)", "x.sum((0, 1))", "x.sum(0, True)", "x.sum(axis=1)", "x.sum([0])", "x.sum(())"], x=[f(3, 4), f(0, 4), f(3, 0)])
case("torch.sum", "torch.sum(x, 0, out=out), out", grad=False, x=X, out=[f(4), f(0)])
fails("torch.sum", ["torch.sum(x, 2)", "torch.sum(x, -3)", "torch.sum(x, (0, 0))", "torch.sum(x, 'a')"], x=X)

case("torch.mean torch.Tensor.mean", ["torch.mean(x)", "x.mean()"], x=every(X))
case("torch.mean torch.Tensor.mean", ["torch.mean(x, dim, keepdim)", "x.mean(dim=dim, keepdim=keepdim)"], x=layouts(CUBE)[:3], dim=DIMS, keepdim=[False, True])
case("torch.mean", "torch.mean(x, dtype=dtype)", x=[i(3, 4), b(4), X], dtype=["torch.float32", "torch.float64"])
case("torch.mean", "torch.mean(x, 1, out=out)", grad=False, x=X, out=f(3))
fails("torch.mean torch.Tensor.mean", ["torch.mean(x)", "x.mean(0)"], x=[i(3, 4), b(3)])
fails("torch.mean", ["torch.mean(x, 5)", "x.mean((0, 0))"], x=X)

case("torch.Tensor.prod", ["torch.prod(x)", "x.prod()"], x=every(X))
case("torch.Tensor.prod", ["x.prod(dim)", "torch.prod(x, dim, keepdim=True)"], x=layouts(CUBE), dim=[0, 1, -1])
case("torch.Tensor.prod", ["x.prod()", "x.prod(0)"], x=[v([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]]), v([[0.0, 0.0], [2.0, 3.0]])])
case("torch.Tensor.prod", "x.prod(dtype=dtype)", grad=False, x=[i(4, low=1), X], dtype=["torch.float64", "torch.int32"])
fails("torch.Tensor.prod", "x.prod((0, 1))", x=X)

for name in ("amax", "amin"):
    case(f"torch.Tensor.{name}", [f"torch.{name}(x, dim, keepdim)", f"x.{name}(dim=dim, keepdim=keepdim)"], x=layouts(CUBE), dim=[0, -1, (0, 1), ()], keepdim=[False, True])
    case(f"torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(0)"], x=dtypes(perm(3, 4)))
    case(f"torch.Tensor.{name}", f"x.{name}(1)", x=[v([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]), v([[float("nan"), 1.0], [2.0, 3.0]])])
    fails(f"torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(0)", f"x.{name}(3)"], x=f(0, 3))

for name in ("max", "min"):
    case(f"torch.{name} torch.Tensor.{name}", [f"torch.{name}(x)", f"x.{name}()"], x=[*dtypes(perm(3, 4)), *layouts(CUBE), f(), f(1), v([1.0, float("nan")]), v([2.0, 2.0, 1.0])])
    case(f"torch.{name} torch.Tensor.{name}", [f"torch.{name}(x, dim)", f"x.{name}(dim=dim, keepdim=True)", f"x.{name}(dim).values, x.{name}(dim).indices"], x=[*layouts(CUBE), perm(2, 3, 4, dtype="int64"), perm(2, 3, 4, dtype="float16")], dim=[0, 1, -1])
    case(f"torch.{name}", [f"torch.{name}(x, y)", f"torch.{name}(x, other=y)"], x=[X, f(4), f(3, 1), f()], y=[f(3, 4), f(1, 4), i(3, 4), f(3, 4, dtype="float32")])
    case(f"torch.{name}", [f"torch.{name}(x, 0)", f"x.{name}(-1)"], x=[f(), f(1, 3), f(3, 0)][:2])
    case(f"torch.{name}", f"torch.{name}(x, 0, out=(a, k)), a, k", grad=False, x=X, a=f(4), k=i(4))
    case(f"torch.{name}", f"values, indices = x.{name}(1); values + indices", x=X)
    fails(f"torch.{name} torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(0)", f"torch.{name}(x, 2)"], x=f(0, 3))
    fails(f"torch.Tensor.{name}", [f"x.{name}((0, 1))", f"torch.{name}(x, 2)", f"torch.{name}(x, f)"], x=X)
    fails(f"torch.{name}", f"torch.{name}(x, y)", x=X, y=f(3))

for name in ("argmax", "argmin"):
    case(f"torch.Tensor.{name}", [f"torch.{name}(x)", f"x.{name}()", f"x.{name}(dim)", f"torch.{name}(x, dim=dim, keepdim=True)"], x=[*layouts(CUBE), *dtypes(perm(2, 3, 4))[:7]], dim=[0, 1, -1])
    case(f"torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(-1)", f"x.{name}(keepdim=True)"], x=[f(), f(1), f(3), v([1.0, float("nan"), 3.0])])
    case(f"torch.Tensor.{name}", f"x.{name}(1)", x=f(0, 3))
    fails(f"torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(0)", f"x.{name}(2)"], x=f(0, 3))
case("torch.argmax", ["torch.argmax(x)", "torch.argmax(x, 1)", "torch.argmax(x, dim=0, keepdim=True)"], x=layouts(CUBE))
fails("torch.argmax", ["torch.argmax(x, 3)", "torch.argmax(x, dim=(0, 1))"], x=CUBE)

for name in ("any", "all"):
    case(f"torch.Tensor.{name}", [f"torch.{name}(x)", f"x.{name}()"], x=[*dtypes(but(X, low=-0.5, high=0.5)), b(3, 4), b(), b(0), b(2, 0), *layouts(b(3, 4))], grad=False)
    case(f"torch.Tensor.{name}", [f"x.{name}(dim)", f"torch.{name}(x, dim=dim, keepdim=True)"], x=[*layouts(b(2, 3, 4)), i(2, 3, 4, low=0, high=2, dtype="uint8"), i(2, 3, 4, low=0, high=2)], dim=[0, -1, (0, 2), None])
    fails(f"torch.Tensor.{name}", f"x.{name}(2)", x=b(3, 4))
case("torch.all", ["torch.all(x)", "torch.all(x, 1)", "torch.all(x, dim=0, keepdim=True)", "torch.all(x > -9)"], x=[b(3, 4), i(3, 4), f(3, 4)], grad=False)
fails("torch.all", "torch.all(x, 3)", x=b(3))

for name in ("std", "var"):
    case(f"torch.Tensor.{name}", [f"torch.{name}(x)", f"x.{name}()", f"x.{name}(unbiased=False)", f"x.{name}(correction=2)"], x=[*floats(X), *layouts(X)[1:], f(1, 5), c(3, 4)])
    case(f"torch.Tensor.{name}", [f"x.{name}(dim)", f"x.{name}(dim, keepdim=True)", f"torch.{name}(x, dim, unbiased=False)", f"x.{name}(dim=dim, correction=0)"], x=layouts(CUBE)[:3], dim=[0, -1, (0, 1), None])
    case(f"torch.Tensor.{name}", [f"x.{name}(0, False)", f"x.{name}(0, True, True)", f"x.{name}(False)"], x=X)
    case(f"torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(0)"], x=[f(1), f(0)], grad=False)
    case(f"torch.Tensor.{name}", [f"torch.{name}_mean(x)", f"torch.{name}_mean(x, 1, keepdim=True)", f"torch.{name}_mean(x, dim=0, correction=0)"], x=X)
    fails(f"torch.Tensor.{name}", [f"x.{name}()", f"x.{name}(0)"], x=[i(3, 4), b(3)])
    fails(f"torch.Tensor.{name}", [f"x.{name}(3)", f"x.{name}((0, 0))", f"x.{name}(0, unbiased=True, correction=1)"], x=X)
case("torch.var", ["torch.var(x)", "torch.var(x, 1)", "torch.var(x, dim=(0, 1), keepdim=True)", "torch.var(x, unbiased=False)", "torch.var(x, 0, correction=0)"], x=[X, f(3, 4, dtype="float32")])
fails("torch.var", "torch.var(x)", x=i(3))

case("torch.norm torch.Tensor.norm", ["torch.norm(x)", "x.norm()", "x.norm(2)", "x.norm(p=p)", "torch.norm(x, p, dim=1)", "x.norm(p, 0, keepdim=True)"], x=[X, *layouts(X)[1:3], f(3, 4, dtype="float32"), c(3, 4)], p=[1, 2, 3, 0.5, float("inf"), -float("inf")])
case("torch.Tensor.norm", ["x.norm(p=0)", "x.norm(dim=(0, 1))", "x.norm(dim=(0, 2), keepdim=True)", "x.norm('fro')", "x.norm(p='fro', dim=(0, 1))", "x.norm(dtype=torch.float64)"], x=[CUBE, f(2, 3, 4, dtype="float32")])
case("torch.norm", ["torch.norm(x, 'nuc', dim=(0, 1))", "torch.norm(x, p='nuc')"], x=f(3, 3))
case("torch.norm", "torch.norm(x)", x=[f(), f(0), f(0, 3)])
fails("torch.norm", ["torch.norm(x)", "x.norm()"], x=i(3))
fails("torch.norm", ["torch.norm(x, dim=2)", "torch.norm(x, p='abc')"], x=X)

case("torch.logsumexp", ["torch.logsumexp(x, dim)", "x.logsumexp(dim, keepdim=True)", "torch.logsumexp(x, dim=dim)"], x=[*floats(CUBE), *layouts(CUBE)[1:], f(2, 3, 4, low=-900, high=900)], dim=[0, -1, (0, 1)])
case("torch.logsumexp", "torch.logsumexp(x, 0)", x=[f(0), f(0, 3), i(3), v([-float("inf"), -float("inf")]), v([float("inf"), 1.0])], grad=False)
fails("torch.logsumexp", ["torch.logsumexp(x)", "torch.logsumexp(x, 5)"], x=X)

case("torch.cumsum torch.Tensor.cumsum", ["torch.cumsum(x, dim)", "x.cumsum(dim=dim)"], x=[*every(X)], dim=[0, -1])
case("torch.cumsum torch.Tensor.cumsum", ["x.cumsum(0, dtype=dtype)", "torch.cumsum(x, 0, dtype=dtype)"], grad=False, x=[X, i(3, 4), b(4)], dtype=["torch.float32", "torch.int32", "torch.float64"])
fails("torch.cumsum", ["torch.cumsum(x, 2)", "torch.cumsum(x)"], x=X)
case("torch.cumprod torch.Tensor.cumprod", ["torch.cumprod(x, dim)", "x.cumprod(dim=dim)"], x=[*dtypes(X), *layouts(X)[1:], *shapes(X)[1:], v([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])], dim=[0, -1])
case("torch.cumprod", "torch.cumprod(x, 0, dtype=torch.float64)", x=i(3, 4))
fails("torch.cumprod", "torch.cumprod(x, 2)", x=X)
for name in ("cummax", "cummin"):
    case("torch.cumsum torch.cumprod", [f"torch.{name}(x, 0), torch.cumsum(x, 0), torch.cumprod(x, 0)", f"x.{name}(-1).values, x.cumsum(-1), x.cumprod(-1)"], x=[X, perm(2, 3), f(3, 4, layout="transposed")])
case("torch.cumsum", ["torch.logcumsumexp(x, 0)", "x.logcumsumexp(-1), x.cumsum(-1)"][1:], x=[X, f(3, 4, dtype="float32")])

case("torch.Tensor.median", ["x.median()", "torch.median(x)"], x=[*floats(perm(3, 5)), perm(3, 5, dtype="int64"), *layouts(perm(3, 4)), f(), f(1), v([1.0, float("nan"), 2.0])])
case("torch.Tensor.median", ["x.median(dim)", "torch.median(x, dim, keepdim=True)", "x.median(dim=dim).values"], x=layouts(perm(2, 3, 4))[:3], dim=[0, 1, -1])
fails("torch.Tensor.median", ["x.median(0)", "x.median(4)"], x=f(0, 3))
case("torch.Tensor.median", ["x.nanmedian()", "x.median(), x.nanmean(), x.nansum()", "x.nanmean(0), x.nansum(1, keepdim=True), x.median(1).indices"][1:], x=v([[1.0, float("nan"), 2.0], [3.0, 5.0, 4.0]]))
case("torch.Tensor.median torch.Tensor.mean", ["x.quantile(q), x.median()", "x.quantile(q, dim=1, keepdim=True), x.mean(1)", "torch.quantile(x, q, interpolation='nearest'), x.median(0)"], x=X, q=[0.5, 0.1, 1.0])
case("torch.Tensor.mean", ["torch.aminmax(x), x.mean()", "torch.aminmax(x, dim=1, keepdim=True), x.mean(1)", "torch.count_nonzero(x), x.mean()", "torch.count_nonzero(x, dim=0), x.mean(0)"], x=[X, perm(3, 4)])

case("torch.unique torch.Tensor.unique", ["torch.unique(x)", "x.unique()", "torch.unique(x, return_inverse=True)", "x.unique(return_counts=True)", "torch.unique(x, sorted=True, return_inverse=True, return_counts=True)"], grad=False, x=[i(3, 4, low=0, high=4), v([2.0, 1.0, 2.0, 1.5]), b(5), v([], "int64"), i(3, 4, low=0, high=3, dtype="int32", layout="transposed"), i(), v([3, 3, 1], "uint8")])
case("torch.unique", ["torch.unique(x, dim=0)", "torch.unique(x, dim=1, return_inverse=True, return_counts=True)"], x=v([[1, 2, 1], [0, 2, 0], [1, 2, 1]], "int64"))
case("torch.unique", ["torch.unique_consecutive(x), torch.unique(x)", "x.unique_consecutive(return_inverse=True, return_counts=True), x.unique()"], x=v([1, 1, 2, 2, 1, 3, 3], "int64"))
fails("torch.unique", "torch.unique(x, dim=2)", x=i(3, 4))
