"""Names of torch, torch.linalg and torch.special that are made of other ops: values by mathematics, gradients by differences, refusals."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import engine
from engine import Tensor
from engine.autograd import gradcheck, gradgradcheck
from grouping import grouped

F64, rng = engine.float64, numpy.random.default_rng(5)


def draw(*shape, grad=False):
    return engine.tensor(rng.normal(size=shape), requires_grad=grad)


def symmetric(*shape):
    x = rng.normal(size=shape)
    return engine.tensor(x + x.swapaxes(-1, -2))


def close(a, b, atol=1e-9):
    assert tuple(a.shape) == tuple(b.shape)
    numpy.testing.assert_allclose(a.detach().array, b.detach().array if isinstance(b, Tensor) else b, atol=atol)


# -- results with names ----------------------------------------------------------------------------------------------------------


def test_named_results_print_as_pytorchs():
    found = engine.max(engine.eye(2), 0)
    assert repr(found) == "torch.return_types.max(\nvalues=tensor([1., 1.]),\nindices=tensor([0, 1]))"
    assert repr(engine.linalg.qr(engine.eye(1))).startswith("torch.return_types.linalg_qr(\nQ=tensor([[")
    assert type(found) is engine.return_types.max and isinstance(found, tuple)
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(again) is type(found) and again.indices.tolist() == [0, 1]


# -- torch.linalg ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda a: engine.linalg.inv(a), lambda a: engine.linalg.solve(a, a), lambda a: engine.linalg.cholesky(a),
    lambda a: engine.linalg.inv_ex(a, check_errors=True), lambda a: engine.linalg.cholesky_ex(a, check_errors=True), lambda a: a.inverse(),
])  # fmt: skip
def test_a_matrix_without_result_is_a_linalg_error(call):
    with pytest.raises(engine.linalg.LinAlgError, match="singular|positive-definite"):
        call(engine.tensor([[1.0, 2.0], [2.0, 4.0]]))
    assert issubclass(engine.linalg.LinAlgError, RuntimeError)


def test_matrices_go_by_the_name_A():
    a = draw(3, 3)
    for name in ("det", "inv", "svdvals", "slogdet", "qr", "svd", "eigvals", "matrix_norm", "cond", "pinv"):
        f = getattr(engine.linalg, name)
        for x, y in zip(*[r if isinstance(r, tuple) else (r,) for r in (f(a), f(A=a))], strict=True):
            close(x, y)
    with pytest.raises(TypeError, match="missing 1 required"):
        engine.linalg.det()
    with pytest.raises(RuntimeError, match="driver"):
        engine.linalg.svd(a, driver="gesvd")


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 0), (2, 0, 3, 3)])
def test_ldl_factors_solve(shape):
    a, b = symmetric(*shape), draw(*shape[:-1], 2)
    packed, pivots = engine.linalg.ldl_factor(a)
    assert pivots.dtype is engine.int32 and tuple(pivots.shape) == shape[:-1]
    close(a @ engine.linalg.ldl_solve(packed, pivots, b), b)


def test_ldl_of_hermitian_matrices_and_refusals():
    x = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    a, b = engine.tensor(x + x.conj().T), engine.tensor(rng.normal(size=(3, 1)) + 0j)
    packed, pivots, info = engine.linalg.ldl_factor_ex(a, hermitian=True)
    assert int(info) == 0
    close(a @ engine.linalg.ldl_solve(packed, pivots, b, hermitian=True), b)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        engine.linalg.ldl_factor(draw(3))
    with pytest.raises(RuntimeError, match="same dtype"):
        engine.linalg.ldl_solve(packed, pivots, draw(3, 1))
    with pytest.raises(NotImplementedError, match="derivative"):
        engine.linalg.ldl_factor(draw(3, 3, grad=True))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflections_make_q(left, transpose):
    a, c = draw(2, 5, 3), draw(2, 5, 4)
    packed, tau = engine.geqrf(a)
    close(engine.orgqr(packed, tau) @ packed[..., :3, :].triu(), a)
    q = engine.ormqr(packed, tau, engine.eye(5, dtype=F64).expand(2, 5, 5))
    close(q.mT @ q, engine.eye(5, dtype=F64).expand(2, 5, 5))
    turned = q.mT if transpose else q
    close(engine.ormqr(packed, tau, c if left else c.mT, left, transpose), turned @ c if left else c.mT @ turned)
    assert gradcheck(lambda v, t, o: engine.ormqr(v, t, o), (draw(4, 2, grad=True), draw(2, grad=True), draw(4, 3, grad=True)))


def test_low_rank_approximations_find_matrices_of_low_rank():
    a = draw(2, 7, 3) @ draw(2, 3, 5)
    for x in (a, a.mT):
        u, s, v = engine.svd_lowrank(x, q=4)
        close(u @ s.diag_embed() @ v.mT, x)
    engine.manual_seed(0)
    values = engine.svd_lowrank(engine.randn(9, 8, dtype=engine.complex128), 3, 1)[1]  # PyTorch's, with the same seed
    assert numpy.allclose(values.numpy(), [4.713202713352965, 3.902840150719039, 3.3023266467116517])
    u, s, v = engine.pca_lowrank(a[0], q=3)
    centred = a[0] - a[0].mean(0)
    close(s, engine.linalg.svdvals(centred)[:3])
    close(u @ s.diag() @ v.mT, centred)
    with pytest.raises(ValueError, match="non-negative"):
        engine.pca_lowrank(a[0], q=6)


def test_lobpcg_finds_the_eigenpairs_at_one_end():
    a, m = symmetric(7, 7), draw(7, 7)
    b = m @ m.mT + engine.eye(7, dtype=F64)
    wanted = numpy.linalg.eigvalsh(a.array)
    close(engine.lobpcg(a, k=2)[0], wanted[::-1][:2])
    close(engine.lobpcg(a, k=2, largest=False)[0], wanted[:2])
    values, vectors = engine.lobpcg(a, k=2, B=b)
    close(a @ vectors, b @ vectors * values)
    with pytest.raises(ValueError, match="3 x"):
        engine.lobpcg(a, k=3)


def test_old_names_of_norms_and_products():
    a, b, c = draw(2, 3), draw(3, 4), draw(4, 2)
    close(engine.chain_matmul(a, b, c), a @ b @ c)
    close(engine.linalg.matmul(a, b), a @ b)
    close(engine.nuclear_norm(a), engine.linalg.svdvals(a).sum())
    close(engine.frobenius_norm(a, 1), (a * a).sum(1).sqrt())
    close(engine.norm_except_dim(b, 2, 0), (b * b).sum(1, keepdim=True).sqrt())
    close(engine.norm_except_dim(b, 2, 1), (b * b).sum(0, keepdim=True).sqrt())
    close(engine.norm_except_dim(b, 2, -1), (b * b).sum().sqrt())
    x = engine.tensor([1.0, 2.0, 3.0])
    assert engine.vander(x).tolist() == numpy.vander([1.0, 2.0, 3.0]).tolist()
    assert engine.vander(x, 2, increasing=True).tolist() == [[1, 1], [1, 2], [1, 3]]
    for name in ("eig", "symeig", "solve", "lstsq", "matrix_rank"):
        with pytest.raises(RuntimeError, match="removed"):
            getattr(engine, name)(a)


# -- torch.special -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l", "legendre_polynomial_p"])
def test_polynomials_differentiate_and_promote(kind):
    f, x = getattr(engine.special, kind), draw(2, 3, grad=True)
    assert gradcheck(lambda x: f(x, 4), (x,)) and gradgradcheck(lambda x: f(x, 4), (x,))
    assert f(engine.tensor([1, 2]), 2).dtype is engine.float32
    assert f(x, engine.tensor([-1, 0, 1]))[:, 0].tolist() == [0, 0] and f(0.5, engine.tensor(2)).ndim == 0
    out = engine.empty(2, 3, dtype=F64)
    assert f(x.detach(), 2, out=out) is out
    with pytest.raises(NotImplementedError, match="whole number"):
        f(1.0, draw(2, grad=True)).sum().backward()


def test_degrees_beyond_the_range_of_the_dtype_are_nan_at_once():
    f, degrees = engine.special.laguerre_polynomial_l, engine.tensor([1.0, 2.0, 1e9, 1e18])
    assert f(-2, degrees).tolist()[:2] == [3.0, 7.0] and f(-2, degrees)[2:].isnan().all()
    assert f(-2, engine.tensor(1e18)).isnan()


# -- counting ------------------------------------------------------------------------------------------------------------------------


def test_histograms_of_points():
    x, w = draw(20, 2), engine.tensor(rng.uniform(size=20))
    for kwargs in ({}, {"weight": w}, {"density": True}, {"range": [-1.0, 1.0, -2.0, 2.0]}):
        hist, edges = engine.histogramdd(x, [3, 4], **kwargs)
        limits = kwargs.get("range")
        wanted, at = numpy.histogramdd(
            x.array, [3, 4], None if limits is None else [limits[:2], limits[2:]], density=kwargs.get("density"),
            weights=w.array if "weight" in kwargs else None,
        )  # fmt: skip
        close(hist, wanted)
        for e, other in zip(edges, at, strict=True):
            close(e, other)
    with pytest.raises(RuntimeError, match="innermost dimension"):
        engine.histogramdd(x, [3])


def test_nonzero_in_a_fixed_size():
    x = engine.tensor([[0, 1], [2, 0]])
    assert engine.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert x.nonzero_static(size=1, fill_value=9).tolist() == [[0, 1]]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce):
    x, parts = draw(6, 2, grad=True), ([0, 1, 2], [3], [4, 5])
    found = engine.segment_reduce(x, reduce, lengths=engine.tensor([3, 1, 2]))
    close(found, numpy.stack([getattr(numpy, reduce)(x.array[p], axis=0) for p in parts]))
    close(engine.segment_reduce(x, reduce, offsets=engine.tensor([0, 3, 4, 6])), found)
    assert gradcheck(lambda x: engine.segment_reduce(x, reduce, lengths=engine.tensor([3, 1, 2])), (x,))
    with pytest.raises(RuntimeError, match="sum to"):
        engine.segment_reduce(x, reduce, lengths=engine.tensor([3, 1]))


# -- the functions behind layers -------------------------------------------------------------------------------------------------------

F = engine.nn.functional
A, B, T = draw(4, 3), draw(4, 3), engine.tensor([1.0, -1.0, 1.0, -1.0], dtype=F64)
W, TBC = draw(2, 4, 3), draw(3, 3, 2)
SAME = {
    "kl_div": (lambda: engine.kl_div(A, B, 2), lambda: F.kl_div(A, B, reduction="sum")),
    "kl_div mean": (lambda: engine.kl_div(A, B.exp(), 1), lambda: F.kl_div(A, B.exp(), reduction="none").mean()),
    "margin_ranking_loss": (lambda: engine.margin_ranking_loss(A[:, 0], B[:, 0], T, 0.5, 0), lambda: F.margin_ranking_loss(A[:, 0], B[:, 0], T, 0.5, reduction="none")),
    "hinge_embedding_loss": (lambda: engine.hinge_embedding_loss(A[:, 0], T), lambda: F.hinge_embedding_loss(A[:, 0], T, reduction="none")),
    "cosine_embedding_loss": (lambda: engine.cosine_embedding_loss(A, B, T, 0.1), lambda: F.cosine_embedding_loss(A, B, T, 0.1, reduction="none")),
    "triplet_margin_loss": (lambda: engine.triplet_margin_loss(A, B, -B, 1.0, 2, 1e-6, False, 2), lambda: F.triplet_margin_loss(A, B, -B, reduction="sum")),
    "poisson_nll_loss": (lambda: engine.poisson_nll_loss(A, B.exp(), True, False, 1e-8, 1), lambda: F.poisson_nll_loss(A, B.exp())),
    "binary_cross_entropy_with_logits": (lambda: engine.binary_cross_entropy_with_logits(A, B.sigmoid(), None, None, 0), lambda: F.binary_cross_entropy_with_logits(A, B.sigmoid(), reduction="none")),
    "batch_norm": (lambda: engine.batch_norm(A, B[0], B[1], None, None, True, 0.1, 1e-5, True), lambda: F.batch_norm(A, None, None, B[0], B[1], True)),
    "instance_norm": (lambda: engine.instance_norm(A[None], None, None, None, None, True, 0.1, 1e-5, True), lambda: F.instance_norm(A[None])),
    "layer_norm": (lambda: engine.layer_norm(A, (3,), B[0], B[1], 1e-5, False), lambda: F.layer_norm(A, (3,), B[0], B[1])),
    "group_norm": (lambda: engine.group_norm(A, 3, B[0], B[1]), lambda: F.group_norm(A, 3, B[0], B[1])),
    "embedding": (lambda: engine.embedding(A, engine.tensor([2, 0])), lambda: A[[2, 0]]),
    "convolution": (lambda: engine.convolution(A[None], W, None, [1], [1], [1], False, [0], 1), lambda: F.conv1d(A[None], W, padding=1)),
    "conv_tbc": (lambda: engine.conv_tbc(A[:, None], TBC, B[0, :2], 1)[:, 0], lambda: F.conv1d(A.mT[None], TBC.permute(2, 1, 0), B[0, :2], padding=1)[0].mT),
    "affine_grid_generator": (lambda: engine.affine_grid_generator(A[:2][None], [1, 1, 2, 2], False), lambda: F.affine_grid(A[:2][None], [1, 1, 2, 2], False)),
    "max_pool1d_with_indices": (lambda: engine.max_pool1d_with_indices(A[None], 2)[1], lambda: F.max_pool1d(A[None], 2, return_indices=True)[1]),
    "adaptive_max_pool1d": (lambda: engine.adaptive_max_pool1d(A[None], 2)[0], lambda: F.adaptive_max_pool1d(A[None], 2)),
    "dropout": (lambda: engine.dropout(A, p=0.5, train=False), lambda: A),
    "split_with_sizes": (lambda: engine.split_with_sizes(A, [1, 3])[1], lambda: A[1:]),
    "native_layer_norm": (lambda: engine.native_layer_norm(A, [3], None, None, 1e-5)[1], lambda: A.mean(1, keepdim=True)),
    "native_batch_norm": (lambda: engine.native_batch_norm(A, None, None, None, None, True, 0.1, 0.5)[2], lambda: (A.var(0, correction=0) + 0.5).rsqrt()),
    "cosine_similarity": (lambda: engine.cosine_similarity(A, B), lambda: F.cosine_similarity(A, B)),
    "rrelu": (lambda: engine.rrelu(A, 0.25, 0.25), lambda: F.leaky_relu(A, 0.25)),
}  # fmt: skip


@grouped("name", SAME)
def test_the_functions_behind_layers(name):
    first, second = SAME[name]
    close(first(), second())


def test_modes_are_numbers_here():
    with pytest.raises(TypeError, match="must be int"):
        engine.kl_div(A, B, "sum")
    close(engine.hinge_embedding_loss(A[:, 0], T, 1.0, 3), F.hinge_embedding_loss(A[:, 0], T, reduction="none"))  # PyTorch's other numbers
    x, grid = draw(1, 2, 4, 4), draw(1, 3, 3, 2).tanh()
    close(engine.grid_sampler(x, grid, 1, 2, True), F.grid_sample(x, grid, "nearest", "reflection", True))


def test_channels_are_dropped_whole():
    engine.manual_seed(0)
    out = engine.feature_dropout(engine.ones(6, 8, 5), 0.5, True)
    assert set(map(float, out.unique().tolist())) == {0.0, 2.0} and bool((out == out[..., :1]).all())
    out, kept = engine.native_dropout(engine.ones(50), 0.5, True)
    assert bool((out == kept * 2).all())


# -- older spellings ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "wanted"), [
    (lambda x, y: x.clone().add_(-0.5, y), lambda x, y: x - 0.5 * y), (lambda x, y: engine.add(x, 2, y), lambda x, y: x + 2 * y),
    (lambda x, y: x.clone().sub_(2, y), lambda x, y: x - 2 * y), (lambda x, y: x.clone().addcmul_(3, x, y), lambda x, y: x + 3 * x * y),
    (lambda x, y: x.clone().addcdiv_(3, x, y), lambda x, y: x + 3 * x / y), (lambda x, y: engine.addcmul(x, 0.5, x, y), lambda x, y: x + 0.5 * x * y),
    (lambda x, y: engine.addmm(2, x, 3, x, y), lambda x, y: 2 * x + 3 * x @ y), (lambda x, y: engine.addmm(2, x, x, y), lambda x, y: 2 * x + x @ y),
    (lambda x, y: x.clone().addmm_(2, 3, x, y), lambda x, y: 2 * x + 3 * x @ y), (lambda x, y: engine.addmv(2, x[0], 3, x, y[0]), lambda x, y: 2 * x[0] + 3 * x @ y[0]),
])  # fmt: skip
def test_numbers_among_tensors_are_the_keywords(call, wanted):
    x, y = draw(2, 2), draw(2, 2)
    with pytest.warns(UserWarning, match="deprecated"):
        found = call(x, y)
    numpy.testing.assert_allclose(found.array, wanted(x.array, y.array))


def test_keywords_of_overloads():
    x = engine.arange(5)
    assert [p.tolist() for p in engine.tensor_split(x, sections=2)] == [[0, 1, 2], [3, 4]]
    assert [p.tolist() for p in engine.tensor_split(x, indices=(1, 3))] == [[0], [1, 2], [3, 4]]
    assert [len(p) for p in x.split(split_size=2)] == [2, 2, 1]
    assert tuple(engine.swapaxes(engine.ones(2, 3), axis0=0, axis1=1).shape) == (3, 2)
    assert engine.repeat_interleave(engine.tensor([1, 0, 2])).tolist() == [0, 2, 2]
    with pytest.raises(RuntimeError, match="1D vector"):
        engine.repeat_interleave(engine.ones(2, 2).long())
