"""Sparse tensors against dense arrays in NumPy, their gradients, the sparse gradient of tables, and the optimizers that take it."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from grouping import grouped

rng = numpy.random.default_rng(11)
PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]  # one of them twice
VALUES = [3.0, 4.0, 5.0, -1.0]
DENSE = numpy.array([[0.0, 0.0, 2.0], [4.0, 0.0, 5.0]])


def sparse(dtype=engine.float64):
    return engine.sparse_coo_tensor(PLACES, VALUES, (2, 3), dtype=dtype)


def test_equal_places_add_up():
    s = sparse()
    assert (s._nnz(), s.is_coalesced(), s.is_sparse, s.layout) == (4, False, True, engine.sparse_coo)
    c = s.coalesce()
    assert c._nnz() == 3 and c.is_coalesced() and c.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and c.values().tolist() == [2, 4, 5]
    for x in (
        s,
        c,
        s.to_sparse_csr(),
        engine.tensor(DENSE).to_sparse(),
        s.t().t(),
        pickle.loads(pickle.dumps(s)),
        copy.deepcopy(s),
        s.clone(),
    ):
        assert numpy.array_equal(x.to_dense().array, DENSE)
    with pytest.raises(RuntimeError, match="coalesce"):
        s.indices()


def test_it_prints_as_pytorchs():
    assert repr(sparse(engine.float32)) == (
        "tensor(indices=tensor([[0, 1, 1, 0],\n                       [2, 0, 2, 2]]),\n       values=tensor([ 3.,  4.,  5., -1.]),\n"
        "       size=(2, 3), nnz=4, layout=torch.sparse_coo)"
    )
    assert "size=(2, 3), nnz=3, dtype=torch.float64,\n       layout=torch.sparse_csr)" in repr(sparse().to_sparse_csr())


X, Y = rng.normal(size=(3, 2)), rng.normal(size=(2, 3))
RESULTS = {
    "mm": (lambda s: engine.sparse.mm(s, engine.tensor(X)), DENSE @ X), "mv": (lambda s: s @ engine.tensor(X[:, 0]), DENSE @ X[:, 0]),
    "dense mm": (lambda s: engine.tensor(X) @ s, X @ DENSE), "add": (lambda s: engine.tensor(Y) + s, Y + DENSE), "sum": (lambda s: s.sum(), DENSE.sum()),
    "sparse mm": (lambda s: s @ s.t(), DENSE @ DENSE.T), "both": (lambda s: s + s * 2, DENSE * 3), "less": (lambda s: s - s * s, DENSE - DENSE**2),
    "mul": (lambda s: s * engine.tensor(Y), DENSE * Y), "broadcast": (lambda s: s * engine.tensor(Y[0]), DENSE * Y[0]), "div": (lambda s: s / 4, DENSE / 4),
    "t": (lambda s: s.t(), DENSE.T), "sum 0": (lambda s: engine.sparse.sum(s, 0), DENSE.sum(0)), "keepdim": (lambda s: s.sum(1, keepdim=True), DENSE.sum(1, keepdims=True)),
    "select": (lambda s: s[1], DENSE[1]), "element": (lambda s: s[0, 2], DENSE[0, 2]), "column": (lambda s: s[:, 2], DENSE[:, 2]),
    "index_select": (lambda s: s.index_select(1, engine.tensor([2, 2, 0])), DENSE[:, [2, 2, 0]]), "neg": (lambda s: -s, -DENSE), "pow": (lambda s: s**2, DENSE**2),
    "cat": (lambda s: engine.cat([s, s], 1), numpy.concatenate([DENSE, DENSE], 1)), "stack": (lambda s: engine.stack([s, s]), numpy.stack([DENSE, DENSE])),
    "unsqueeze": (lambda s: s.unsqueeze(1), DENSE[:, None]), "abs": (lambda s: (-s).abs(), DENSE), "norm": (lambda s: s.norm(), numpy.linalg.norm(DENSE)),
    "addmm": (lambda s: engine.sparse.addmm(engine.tensor(Y[:, :2]), s, engine.tensor(X), beta=2, alpha=3), 2 * Y[:, :2] + 3 * DENSE @ X),
    "sampled": (lambda s: engine.sparse.sampled_addmm(s.coalesce(), engine.tensor(Y @ Y.T), engine.tensor(Y)), DENSE + (Y @ Y.T @ Y) * (DENSE != 0)),
    "in place": (lambda s: s.clone().mul_(2).add_(s), DENSE * 3), "zero_": (lambda s: s.clone().zero_(), DENSE * 0), "mask": (lambda s: engine.tensor(Y).sparse_mask(s.coalesce()), Y * (DENSE != 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("form", ["coo", "csr"])
def test_results(name, form):
    call, wanted = RESULTS[name]
    found = call(sparse() if form == "coo" else sparse().to_sparse_csr())
    numpy.testing.assert_allclose(found.to_dense().array, wanted, atol=1e-12)


def test_softmax_is_over_what_is_there():
    found = engine.sparse.softmax(sparse(), 1).coalesce()
    e = numpy.exp([4.0, 5.0])
    numpy.testing.assert_allclose(found.values().array, [1, *(e / e.sum())])
    numpy.testing.assert_allclose(engine.sparse.log_softmax(sparse(), 1).values().array, numpy.log(found.values().array), atol=1e-12)


FUNCTIONS = {
    "mm": lambda s, x: engine.sparse.mm(s, x), "to_dense": lambda s, x: s.to_dense() @ x, "coalesced": lambda s, x: s.coalesce() @ x,
    "scaled": lambda s, x: (s * 2 + s) @ x, "softmax": lambda s, x: engine.sparse.softmax(s, 1) @ x, "add": lambda s, x: (x.mT + s).exp(),
    "both": lambda s, x: (s @ s.t()).to_dense(), "sum": lambda s, x: engine.sparse.sum(s, 0).to_dense()[:, None] * x, "csr": lambda s, x: s.to_sparse_csr() @ x,
    "masked": lambda s, x: (s * x.mT).to_dense(), "select": lambda s, x: s[1].to_dense() * x.mT,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    def f(v, x):
        return FUNCTIONS[name](engine.sparse_coo_tensor(engine.tensor(PLACES), v, (2, 3)), x)

    given = engine.tensor(rng.normal(size=4), requires_grad=True), engine.tensor(rng.normal(size=(3, 2)), requires_grad=True)
    assert gradcheck(f, given) and gradgradcheck(f, given)


def test_the_gradient_of_a_sparse_leaf_has_its_places():
    s = sparse().requires_grad_()
    engine.sparse.mm(s, engine.tensor(X)).sum().backward()
    assert s.grad.is_sparse and s.grad._indices().tolist() == PLACES
    numpy.testing.assert_allclose(s.grad._values().array, X.sum(1)[PLACES[1]])


@grouped(("call", "kind", "words"), [
    (lambda: engine.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (2,)), RuntimeError, "found index 2"),
    (lambda: engine.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), RuntimeError, "negative index"),
    (lambda: engine.sparse_coo_tensor([[0]], [1.0, 2.0]), RuntimeError, "same nnz"),
    (lambda: engine.sparse_coo_tensor([0], [1.0]), RuntimeError, "sparse_dim x nnz"),
    (lambda: sparse() + 1, RuntimeError, "add.dense, sparse"), (lambda: sparse() / engine.tensor(DENSE), RuntimeError, "scalar"),
    (lambda: sparse() @ engine.tensor(DENSE), RuntimeError, "cannot be multiplied"), (lambda: sparse().float() @ engine.tensor(X), RuntimeError, "scalar type"),
    (lambda: sparse().exp(), NotImplementedError, "to_dense"), (lambda: sparse() == 1, NotImplementedError, "to_dense"),
    (lambda: sparse().numpy(), TypeError, "to_dense"), (lambda: numpy.asarray(sparse()), TypeError, "to_dense"), (lambda: sparse()[4], IndexError, "out of range"),
    (lambda: sparse().__setitem__(0, 1), TypeError, "to_dense"), (lambda: engine.sparse_csr_tensor([0, 2], [0], [1.0]), RuntimeError, "crow_indices"),
])  # fmt: skip
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_diagonals_and_old_constructors():
    m = engine.sparse.spdiags(engine.tensor([[1.0, 2, 3], [4, 5, 6]]), engine.tensor([0, -1]), (3, 3))
    assert m.to_dense().tolist() == [[1, 0, 0], [4, 2, 0], [0, 5, 3]]
    s = engine.sparse.FloatTensor(engine.tensor(PLACES), engine.tensor(VALUES), engine.Size([2, 3]))
    assert s.dtype is engine.float32 and numpy.array_equal(s.to_dense().array, DENSE)
    assert engine.sparse.LongTensor(2, 3).to_dense().tolist() == [[0] * 3] * 2
    h = engine.sparse_coo_tensor([[2, 0]], [[1.0, 2], [3, 4]], (3, 2))
    assert (h.sparse_dim(), h.dense_dim()) == (1, 1) and h.to_dense().tolist() == [[3, 4], [0, 0], [1, 2]]


# -- sparse gradients of tables -----------------------------------------------------------------------------------------------------


def table(make, **kwargs):
    layer = make(6, 3, **kwargs)
    with engine.no_grad():
        layer.weight.copy_(engine.arange(18.0).reshape(6, 3) / 7 - 1)
    return layer


@pytest.mark.parametrize("kwargs", [{}, {"padding_idx": 1}])
def test_gradients_of_a_table(kwargs):
    index, grads = engine.tensor([[1, 2, 1], [4, 5, 1]]), []
    for sparse_ in (True, False):
        layer = table(engine.nn.Embedding, sparse=sparse_, **kwargs)
        for _ in range(2):  # the second pass adds to the first's
            (layer(index) ** 2).sum().backward()
        grads.append(layer.weight.grad)
    assert grads[0].is_sparse and not grads[1].is_sparse and grads[0].shape == grads[1].shape
    numpy.testing.assert_allclose(grads[0].to_dense().array, grads[1].array, rtol=1e-6)


def test_a_table_read_twice_or_besides_in_a_dense_way():
    layer, dense = table(engine.nn.Embedding, sparse=True), table(engine.nn.Embedding)
    for other in (lambda x: x(engine.tensor([2, 3])).prod(), lambda x: (x.weight**2).sum()):
        for x in (layer, dense):
            x.zero_grad()
            (x(engine.tensor([1, 2])).sum() + other(x)).backward()
        numpy.testing.assert_allclose(layer.weight.grad.to_dense().array, dense.weight.grad.array, rtol=1e-6)
    g = engine.autograd.grad(layer(engine.tensor([1])).sum(), layer.weight)[0]
    assert g.is_sparse and g.to_dense()[1].tolist() == [1, 1, 1]
    layer.zero_grad(set_to_none=False)
    assert not layer.weight.grad.to_dense().any()


def test_bags_have_sparse_gradients_too():
    layer = table(engine.nn.EmbeddingBag, sparse=True, mode="sum")
    layer(engine.tensor([[1, 2], [2, 5]])).sum().backward()
    assert layer.weight.grad.is_sparse and layer.weight.grad.to_dense()[:, 0].tolist() == [0, 1, 2, 0, 0, 1]


def trained(make, sparse_, steps=6):
    layer = table(engine.nn.Embedding, sparse=sparse_)
    optimizer = make([layer.weight])
    for k in range(steps):
        optimizer.zero_grad()
        (layer(engine.tensor([[1, 2, 1], [k % 6, 5, 1]])) ** 2).sum().backward()
        optimizer.step()
    return layer.weight.detach().array, optimizer


@pytest.mark.parametrize("make", [
    lambda p: engine.optim.SGD(p, lr=0.1), lambda p: engine.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: engine.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: engine.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
])  # fmt: skip
def test_optimizers_take_sparse_gradients(make):
    numpy.testing.assert_allclose(trained(make, True)[0], trained(make, False)[0], rtol=1e-5, atol=1e-7)


def test_sparse_adam_is_adam_where_every_row_is_read():
    found, optimizer = trained(lambda p: engine.optim.SparseAdam(p, lr=0.05, eps=1e-12), True, 1)
    wanted, _ = trained(lambda p: engine.optim.Adam(p, lr=0.05, eps=1e-12), False, 1)
    numpy.testing.assert_allclose(found, wanted, rtol=1e-5)  # the first step: rows without a gradient do not move in either
    (state,) = optimizer.state.values()
    assert state["step"] == 1 and set(state) == {"step", "exp_avg", "exp_avg_sq"}


def test_optimizers_refuse():
    layer = table(engine.nn.Embedding, sparse=True)
    layer(engine.tensor([1])).sum().backward()
    for make, words in {engine.optim.Adam: "consider SparseAdam", engine.optim.RMSprop: "does not support sparse"}.items():
        with pytest.raises(RuntimeError, match=words):
            make([layer.weight]).step()
    with pytest.raises(RuntimeError, match="weight_decay"):
        engine.optim.SGD([layer.weight], lr=0.1, weight_decay=0.1).step()
    with pytest.raises(RuntimeError, match="not compatible"):
        engine.optim.Adagrad([layer.weight], weight_decay=0.1).step()
    layer.weight.grad = engine.ones(6, 3)
    with pytest.raises(RuntimeError, match="consider Adam instead"):
        engine.optim.SparseAdam([layer.weight]).step()
    with pytest.raises(ValueError, match="dense parameter"):
        engine.optim.SparseAdam([sparse()])


def test_sparse_without_a_gradient_is_a_plain_look_up():
    x, w = engine.tensor([1, 2, 1]), engine.ones(4, 2, dtype=engine.float16)
    assert engine.nn.functional.embedding(x, w, sparse=True, scale_grad_by_freq=True).shape == (3, 2)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        engine.nn.functional.embedding(x, w.float().requires_grad_(), sparse=True, scale_grad_by_freq=True)


def test_sparse_gradients_are_not_clipped():
    layer = table(engine.nn.Embedding, sparse=True)
    layer(engine.tensor([1])).sum().backward()
    for clip in (engine.nn.utils.clip_grad_norm_, engine.nn.utils.clip_grad_value_):
        with pytest.raises(NotImplementedError, match="to_dense"):
            clip(layer.parameters(), 0.5)


def test_a_graph_convolution_learns():
    """Two clusters joined by one edge, the degrees' square roots on both sides of the adjacency, two labeled nodes."""
    engine.manual_seed(0)
    edges = [(a, b) for c in (0, 4) for a in range(c, c + 4) for b in range(c, c + 4)] + [(3, 4), (4, 3)]
    degree = numpy.bincount([a for a, _ in edges]).astype("float32")
    weights = [1 / numpy.sqrt(degree[a] * degree[b]) for a, b in edges]
    adjacency = engine.sparse_coo_tensor(engine.tensor(edges).t(), engine.tensor(weights, dtype=engine.float32), (8, 8)).coalesce()

    class Layer(engine.nn.Module):
        def __init__(self, n, m):
            super().__init__()
            self.weight, self.bias = engine.nn.Parameter(engine.randn(n, m) / n**0.5), engine.nn.Parameter(engine.zeros(m))

        def forward(self, x, adj):
            return engine.spmm(adj, x @ self.weight) + self.bias

    first, second, x = Layer(8, 8), Layer(8, 2), engine.eye(8)
    optimizer = engine.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        out = second(engine.relu(first(x, adjacency)), adjacency)
        loss = engine.nn.functional.cross_entropy(out[[0, 7]], engine.tensor([0, 1]))
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05 and out.argmax(1).tolist() == [0] * 4 + [1] * 4


def test_a_quotient_can_be_rounded():
    x = engine.tensor([[0.0, 5.0], [-3.0, 0.0]]).to_sparse()
    assert (x // 2).to_dense().tolist() == [[0, 2], [-2, 0]]
    assert engine.div(x, 2, rounding_mode="trunc").to_dense().tolist() == [[0, 2], [-1, 0]]
    assert (x / 2).to_dense().tolist() == [[0, 2.5], [-1.5, 0]]


@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr"])
def test_zeros_like_a_sparse_tensor_have_no_values(form):
    x = getattr(engine.tensor([[0.0, 5.0], [-3.0, 0.0]]), form)().requires_grad_()
    for made in (engine.zeros_like(x, dtype=engine.float64), engine.empty_like(x, dtype=engine.float64)):
        assert made.layout == x.layout and made._nnz() == 0 and made.shape == (2, 2)
        assert made.dtype is engine.float64 and not made.requires_grad
    assert x._nnz() == 2
    with pytest.raises(NotImplementedError, match="to_dense"):
        engine.ones_like(x)


def test_a_sparse_tensor_is_copied_into_one_that_is_like_it():
    x = engine.tensor([[0.0, 5.0], [-3.0, 0.0]]).to_sparse()
    assert engine.empty_like(x).copy_(x).to_dense().tolist() == [[0, 5], [-3, 0]]
