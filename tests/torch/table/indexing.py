"""Reading and writing by index: slices, masks, index tensors, gather and scatter; sorting and searching."""

from __future__ import annotations

from .case import case, fails, writes
from .inputs import b, but, f, i, layouts, perm, v

# fmt: off
X = f(4, 5)
CUBE = f(3, 4, 5)
READS = ["x[0]", "x[-1]", "x[1:3]", "x[:, 2]", "x[..., 0]", "x[None]", "x[:, None, 1]", "x[::2]", "x[1:1]", "x[0, 1]", "x[-1, -2]", "x[[0, 2]]", "x[[0, 2], [1, 3]]", "x[k]", "x[:, k]", "x[k, k]", "x[k[:, None], k]", "x[m]", "x[x > 0]", "x[m[:, 0]]", "x[:, m[0]]", "x[True]", "x[False]", "x[...]", "x[:]", "x[()]", "x[0, ...]", "x[k, None]", "x[None, k]", "x[torch.tensor(1)]", "x[torch.tensor(1), 2:]", "x[1, k]", "x[:2, 1:]", "x[2:, ::3]", "x[-3:-1]", "x[10:]", "x[k.int()]", "x[[True, False, True, False]]", "x[[]]", "x[np.array([0, 1])]", "x[(0, 1)]", "x[slice(0, 2)]", "x[k, 1:3]", "x[1:3, k]", "x[k, ..., 0]", "x[k.view(3, 1)]", "x[m].sum()", "x[torch.arange(3), k]", "x[[[0, 1], [2, 3]]]", "x[None, ..., None]"]
case("", READS, x=[X, i(4, 5), *layouts(X)[1:]], k=v([2, 0, 3], "int64"), m=b(4, 5))
case("", ["x[0, k]", "x[k, 0]", "x[k, :, k]", "x[:, k, k]", "x[:, k, :, None]", "x[k, 1, k]", "x[0, :, k]", "x[..., k]", "x[k, ..., k]", "x[m]", "x[:, m[0, :, 0]]", "x[m[..., 0]]", "x[1:, k, 2:4]", "x[None, k, :, k]", "x[k, None, k]", "x[k[:, None], k]", "x[0, m[0]]", "x[m[:, 0, 0], 1]"], x=[CUBE, f(3, 4, 5, layout="transposed")], k=v([2, 0, 2], "int64"), m=b(3, 4, 5))
case("", ["x[()]", "x[...]", "x[None]", "x[True]"], x=[f(), i()])
fails("", ["x[5]", "x[-5]", "x[0, 5]", "x[k]", "x[:, :, 0]", "x[0.5]", "x['a']", "x[::-1]", "x[m]", "x[x]", "x[None, 0, 0, 0]", "x[[7]]", "x[..., 9]", "x[k, k[:1], k]", "x[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]", "x[:, 1.5]", "x[::0]"], x=X, k=v([9], "int64"), m=b(3, 5))
fails("", ["x[0]", "x[0:1]"], x=f())
WRITES = ["x[0] = 1", "x[:, 1] = 2.5", "x[1:3] = y[:2]", "x[k] = 0", "x[k] = y[:3]", "x[m] = -1", "x[m] = y[m]", "x[..., -1] = y[:, 0]", "x[::2, 1:3] = 5", "x[k, k] = 9", "x[x > 0] = 0", "x[None, 0] = 3", "x[:] = y", "x[...] = 1", "x[0, 0] = y[1, 1]", "x[k[:, None], k] = y[0, :3]", "x[0] += 1", "x[k] += 1", "x[m] *= 2", "x[:, k] -= y[:, k]", "x[True] = 4", "x[1, k] = y[2, :3]", "x[k] = y[0]", "x[:2][0] = 7", "x.t()[1] = 3", "x[1:1] = 5", "x[[0, 1], [1, 2]] = torch.tensor([1., 2.], dtype=x.dtype)", "x.view(4, 5, 1)[3] = 1", "x[m] = torch.tensor(3)", "x[0] = torch.arange(5)"]
writes("", WRITES, x=[X, f(4, 5, layout="transposed"), but(i(4, 5), may_refuse=True), f(4, 5, dtype="float32", may_refuse=True)], y=f(4, 5), k=v([2, 0, 3], "int64"), m=b(4, 5))
fails("", ["x[9] = 1", "x[0] = y", "x[m] = y", "x[:, 0] = torch.ones(3)", "x['a'] = 1", "x[k] = torch.ones(2)", "x[0] = 'a'", "x[0, 0] = torch.ones(2)", "x[1.0] = 1"], x=f(4, 5, grad=False), y=f(3, grad=False), k=v([0, 1, 2], "int64"), m=b(4, 5))

case("torch.gather torch.Tensor.gather", ["torch.gather(x, 0, k)", "x.gather(1, k)", "x.gather(dim=-1, index=k)", "torch.take_along_dim(x, k[:1], 1), x.gather(1, k)"], x=[*layouts(X), i(4, 5), f(4, 5, dtype="bfloat16")], k=[v([[0, 3], [1, 1]], "int64"), v([[2, 0, 1]], "int64")])
fails("torch.gather torch.Tensor.gather", ["torch.gather(x, 2, k)", "x.gather(0, k + 5)", "x.gather(0, k[0])", "x.gather(0, k.float())", "x.gather(1, k.repeat(9, 1))", "torch.gather(x, 0)"], x=X, k=v([[0, 1], [1, 0]], "int64"))
case("torch.Tensor.index_select", ["x.index_select(0, k)", "torch.index_select(x, 1, k)", "x.index_select(-1, k)", "x.index_select(dim=0, index=k.int())"], x=[*layouts(X), i(4, 5)], k=[v([0, 3, 3], "int64"), v([], "int64"), v(2, "int64")])
fails("torch.Tensor.index_select", ["x.index_select(0, k)", "x.index_select(2, k - 9)", "x.index_select(0, x)", "x.index_select(0, k.view(1, 1) - 8)"], x=X, k=v([9], "int64"))
case("torch.Tensor.scatter", ["x.scatter(0, k, y)", "x.scatter(1, k, 5)", "torch.scatter(x, 0, k, y)", "x.scatter(dim=1, index=k, src=y)", "x.scatter(1, k, value=2.5)", "x.scatter_add(1, k, y)", "x.scatter_reduce(1, k, y, 'amax')", "x.scatter_reduce(0, k, y, reduce='sum', include_self=False)", "x.scatter_reduce(1, k, y, 'mean')", "x.scatter_reduce(1, k, y, 'prod')"], x=[X, f(4, 5, layout="transposed"), f(4, 5, dtype="float64", low=0.5)], y=f(2, 2, low=0.5), k=v([[0, 1], [2, 3]], "int64"))
writes("torch.Tensor.scatter_", ["x.scatter_(0, k, y)", "x.scatter_(1, k, 1.)", "x.scatter_(1, k, y); x * 2", "x.scatter_add_(1, k, y)", "x.t().scatter_(0, k, y)"], x=[X, f(4, 5, layout="transposed")], y=f(2, 2), k=v([[0, 1], [2, 3]], "int64"))
writes("torch.Tensor.scatter_", ["x.scatter_(1, k, 1)", "x.scatter_(1, k, 3)", "torch.zeros(2, 5).scatter_(1, k, 1)", "x.scatter_(1, k, 2, reduce='add')", "x.scatter_(1, k, 2, reduce='multiply')"], grad=False, x=[f(4, 5), i(4, 5)], k=v([[0, 1], [2, 3]], "int64"))
fails("torch.Tensor.scatter torch.Tensor.scatter_", ["x.scatter(0, k + 9, x)", "x.scatter(2, k, x)", "x.scatter(0, k, x.float())", "x.scatter(0, k, x[0])", "x.detach().scatter_(0, k.float(), 1)", "x.scatter(0, k, x, reduce='max')"], x=X, k=v([[0, 1], [1, 0]], "int64"))
writes("torch.Tensor.index_add_", ["x.index_add_(0, k, y)", "x.index_add_(0, k, y, alpha=2)", "x.index_add_(1, k, z)", "x.index_copy_(0, k, y); x.index_add_(0, k, y)", "x.index_fill_(0, k, 3); x.index_add_(0, k, y)", "x.index_put_((k,), y); x.index_add_(0, k, y)", "x.index_put_((k,), y, accumulate=True).index_add_(0, k, y)"], x=[X, f(4, 5, layout="transposed")], y=f(2, 5), z=f(4, 2), k=v([0, 3], "int64"))
writes("torch.Tensor.index_add_", "x.index_add_(0, k, y)", x=[f(4, 5), f(4, 5, dtype="float32")][:1], y=f(3, 5), k=v([1, 1, 2], "int64"))
fails("torch.Tensor.index_add_", ["x.index_add_(0, k, y)", "x.index_add_(2, k, y)", "x.index_add_(0, k, y[:2].float())", "x.index_add_(0, k[:2] + 9, y[:2])"], x=f(4, 5, grad=False), y=f(3, 5, grad=False), k=v([0, 1], "int64"))
case("torch.nonzero torch.Tensor.nonzero", ["torch.nonzero(x)", "x.nonzero()", "torch.nonzero(x, as_tuple=True)", "x.nonzero(as_tuple=True)", "torch.argwhere(x), x.nonzero()", "torch.nonzero(x > 0)"], grad=False, x=[i(3, 4, low=-1, high=2), b(3, 4), f(2, 2), v([0.0, 1.0, 0.0]), i(), b(0), b(2, 3, 2), b(3, 4, layout="transposed")])
fails("torch.nonzero", ["torch.nonzero(3)", "torch.nonzero()"])
case("torch.Tensor.gather", ["torch.take(x, k), x.gather(0, k)", "torch.masked_select(x, x > 0), x.gather(0, k)", "x.masked_scatter(x > 0, y), x.gather(0, k)", "x.index_put((k[0],), y[0]), x.gather(0, k)", "torch.select_scatter(x, y[0], 0, 1), x.gather(0, k)", "torch.searchsorted(torch.tensor([1., 3.]), torch.tensor([0., 1., 2., 4.])), x.gather(1, k)", "torch.bucketize(x.detach(), torch.tensor([-1., 0., 1.])), x.gather(1, k)", "torch.bincount(k.flatten()), x.gather(0, k)", "torch.histc(x.detach(), 4, -2, 2), x.gather(1, k)"], x=X, y=f(4, 5), k=v([[0, 1, 2, 3, 0]], "int64"))

# order
DISTINCT = [*layouts(perm(3, 4)), perm(3, 4, dtype="int64"), perm(3, 4, dtype="float16"), perm(3, 4, dtype="uint8"), perm(2, 3, 4)]
case("torch.sort torch.Tensor.sort", ["torch.sort(x)", "x.sort(0)", "x.sort(dim=-1, descending=True)", "torch.sort(x, descending=True)", "x.sort(0, True).values", "torch.sort(x, stable=True)", "values, indices = x.sort(); values + indices", "torch.msort(x), x.sort(0)"], x=DISTINCT)
case("torch.sort", ["torch.sort(x)", "torch.sort(x, dim=0)"], x=[f(), f(1), f(0), f(0, 3)])
case("torch.sort", ["torch.sort(x, stable=True)", "torch.sort(x, stable=True, descending=True)"], x=[v([2, 1, 2, 1, 3], "int64"), v([1.0, float("nan"), 0.0]), b(4)])
case("torch.sort", "torch.sort(x, out=(a, k)), a, k", grad=False, x=perm(4), a=f(4), k=i(4))
fails("torch.sort torch.Tensor.sort", ["torch.sort(x, 2)", "x.sort(descending=1.5)", "torch.sort()", "x.sort((0, 1))"], x=perm(3, 4))
case("torch.argsort torch.Tensor.argsort", ["torch.argsort(x)", "x.argsort(0)", "x.argsort(dim=-1, descending=True)", "torch.argsort(x, stable=True)", "x.argsort().argsort()"], x=DISTINCT)
fails("torch.argsort torch.Tensor.argsort", ["torch.argsort(x, 2)", "x.argsort(-3)"], x=perm(3, 4))
case("torch.topk torch.Tensor.topk", ["torch.topk(x, 2)", "x.topk(2)", "x.topk(1, dim=0)", "x.topk(3, largest=False)", "torch.topk(x, k=2, dim=1, largest=True, sorted=True)", "x.topk(0)", "values, indices = x.topk(2, 0); values", "x.topk(2).indices"], x=DISTINCT)
case("torch.topk", "torch.topk(x, 1)", x=[f(), f(1)])
fails("torch.topk torch.Tensor.topk", ["torch.topk(x, 5)", "x.topk(-1)", "x.topk(1, 2)", "torch.topk(x)", "x.topk(1.5)"], x=perm(3, 4))
case("torch.Tensor.topk", ["x.kthvalue(2), x.topk(1)", "torch.kthvalue(x, 1, 0, keepdim=True), x.topk(1)", "x.mode(), x.topk(1)"][:2], x=perm(3, 4))
case("torch.Tensor.values", ["x.max(1).values", "x.sort().values", "torch.topk(x, 2).values", "x.median(0).values"], x=perm(3, 4))

# one-hot words and embeddings are read by index, too
case("torch.nn.functional.one_hot", ["F.one_hot(k)", "F.one_hot(k, 6)", "F.one_hot(k, num_classes=5).sum(-1)", "F.one_hot(k).float()"], k=[v([0, 2, 4], "int64"), v([[1, 0], [3, 3]], "int64")])
case("torch.nn.functional.one_hot", ["F.one_hot(k, 3)"], k=[v(2, "int64"), v([], "int64")])
fails("torch.nn.functional.one_hot", ["F.one_hot(k, 2)", "F.one_hot(-k)", "F.one_hot(k.float())", "F.one_hot(k, 'a')", "F.one_hot(k.int(), 9)", "F.one_hot(k[:0])"], k=v([1, 5], "int64"))
