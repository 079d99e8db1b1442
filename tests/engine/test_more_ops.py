"""Functions made of several ops: transforms, factorizations, statistics, views by strides, images read at places, windows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special

import engine
from engine.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(5)


def leaf(*shape, low=-1.0, high=1.0):
    return engine.tensor(rng.uniform(low, high, shape), requires_grad=True)


def close(found, expected, tolerance=1e-10):
    return np.allclose(found.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


# -- transforms ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dimension(name, norm):
    for n in (None, 5, 8):
        x = rng.normal(size=(3, 6)) + (1j * rng.normal(size=(3, 6)) if name not in ("rfft", "ihfft") else 0)
        assert close(getattr(engine.fft, name)(engine.tensor(x), n, norm=norm), getattr(np.fft, name)(x, n, norm=norm))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_fft_of_one_dimension_has_no_size_that_means_as_it_is(name):
    for n in (-1, 0):
        with pytest.raises(RuntimeError, match=f"Invalid number of data points .{n}. specified"):
            getattr(engine.fft, name)(engine.ones(3), n)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dimensions(name):
    x = rng.normal(size=(3, 4, 6)) + (0 if name.startswith("r") else 1j * rng.normal(size=(3, 4, 6)))
    assert close(getattr(engine.fft, name)(engine.tensor(x)), getattr(np.fft, name)(x))


def test_slopes_of_transforms():
    back = lambda x: engine.fft.irfft(engine.fft.rfft(x, norm="ortho") * 2, 5)  # noqa: E731
    assert gradcheck(back, (leaf(2, 5),)) and gradgradcheck(lambda x: engine.fft.fft(x).abs() ** 2, (leaf(4),))


def test_short_time_transform_and_back():
    x, window = rng.normal(size=64), engine.hann_window(16, dtype=engine.float64)
    found = engine.stft(engine.tensor(x), 16, 4, window=window, return_complex=True)
    whole = np.pad(x, 8, "reflect")
    expected = np.stack([np.fft.rfft(whole[4 * t : 4 * t + 16] * scipy.signal.windows.hann(16, sym=False)) for t in range(17)], 1)
    assert close(found, expected)
    assert close(engine.istft(found, 16, 4, window=window, length=64), x)


def test_transforms_of_a_number_and_over_no_dimensions():
    for name in ("fftn", "ifftn"):
        for x, dim in (
            (engine.tensor(2.0), None),
            (engine.tensor(2.0), ()),
            (engine.ones(3), ()),
            (engine.ones(3, dtype=engine.int64), ()),
        ):
            found = getattr(engine.fft, name)(x, dim=dim)
            assert found.dtype is engine.complex64 and found.real.tolist() == x.tolist()
    with pytest.raises(IndexError, match="no dimensions"):
        engine.fft.irfft(engine.tensor(2.0))


def test_frequencies():
    assert close(engine.fft.fftfreq(5, 0.5, dtype=engine.float64), np.fft.fftfreq(5, 0.5)) and engine.fft.fftfreq(0).shape == (0,)
    assert close(engine.fft.rfftfreq(6, dtype=engine.float64), np.fft.rfftfreq(6)) and engine.fft.rfftfreq(0).isnan().tolist() == [True]
    assert engine.fft.fftfreq(3, 0.0).tolist()[1:] == [np.inf, -np.inf] and engine.fft.fftfreq(3, requires_grad=True).requires_grad
    for call, words in (
        (lambda: engine.fft.fftfreq(3, dtype=engine.int64), "floating point"),
        (lambda: engine.fft.rfftfreq(-1), "negative dimension"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_a_window_that_begins_where_the_signal_does():
    x, window = engine.arange(1, 11, dtype=engine.float64), engine.tensor([1.0, 2.0], dtype=engine.float64)
    found = engine.stft(x, 6, 2, 2, window, center=False, align_to_window=True, return_complex=True)
    wide = np.pad(x.numpy(), 2)
    weights = np.array([0, 0, 1, 2, 0, 0])
    assert close(found, np.stack([np.fft.rfft(wide[2 * t : 2 * t + 6] * weights) for t in range(5)], 1))


Z = engine.ones(4, 5, dtype=engine.complex64)


@pytest.mark.parametrize("call, words", [
    (lambda: engine.stft(engine.ones(20), 4, 0, return_complex=True), "hop_length"),
    (lambda: engine.stft(engine.ones(20), 4, win_length=0, return_complex=True), "win_length"),
    (lambda: engine.stft(engine.ones(20), 4, align_to_window=True, return_complex=True), "align_to_window should only"),
    (lambda: engine.stft(engine.ones(20, dtype=engine.int64), 4, return_complex=True), "floating point or complex values, but got int64"),
    (lambda: engine.istft(Z, 6, 0), "hop_length"),
    (lambda: engine.istft(Z, 6, 7), "hop_length"),
    (lambda: engine.istft(Z, 6, 2, 0), "win_length"),
    (lambda: engine.istft(Z, 6, 3, 4, engine.ones(6)), "size equal to win_length=4"),
    (lambda: engine.istft(Z, 6, 2, window=engine.ones(6, dtype=engine.complex64)), "Complex windows"),
    (lambda: engine.istft(Z[None, None], 6), "2 or 3 dimensions"),
    (lambda: engine.istft(Z[:, :0], 6), "at least one element"),
    (lambda: engine.istft(Z, 6, 2, length=0), "at least one sample"),
])  # fmt: skip
def test_what_short_time_transforms_refuse(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_a_signal_longer_than_its_pieces_ends_in_zeros():
    with pytest.warns(UserWarning, match="padded with zeros in the tail"):
        found = engine.istft(Z, 6, 2, length=20)
    assert found.shape == (20,) and not found[11:].any()


@pytest.mark.parametrize("name, attrs", [("bartlett", {}), ("blackman", {}), ("cosine", {}), ("gaussian", {"std": 2.0}), ("hamming", {}), ("hann", {}),
                                         ("kaiser", {"beta": 8.0}), ("nuttall", {}), ("exponential", {"tau": 2.0})])  # fmt: skip
def test_windows(name, attrs):
    for m in (0, 1, 7, 8):
        for sym in (True, False):
            found = getattr(engine.signal.windows, name)(m, sym=sym, dtype=engine.float64, **attrs)
            assert close(found, getattr(scipy.signal.windows, name)(m, sym=sym, **attrs), 1e-7)


# -- linear algebra --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (5, 3), (3, 5)])
def test_lu(shape):
    a = leaf(*shape)
    P, L, U = engine.linalg.lu(a)
    assert close(P @ L @ U, a.detach().numpy())
    assert np.array_equal(L.detach().numpy(), np.tril(L.detach().numpy())) and np.array_equal(
        U.detach().numpy(), np.triu(U.detach().numpy())
    )
    assert gradcheck(lambda x: tuple(engine.linalg.lu(x)[1:]), (a,))


def test_eigenvalues_and_what_does_not_see_the_phase():
    a = leaf(4, 4)
    values, vectors = engine.linalg.eig(a)
    assert close(a.to(engine.complex128) @ vectors, (vectors * values).detach().numpy())

    def without_phase(x):
        w, v = engine.linalg.eig(x)
        order = engine.tensor(np.lexsort((w.detach().numpy().imag, w.detach().numpy().real)))
        return (v.abs() ** 2)[:, order], w[order].real

    assert gradcheck(without_phase, (a,)) and gradcheck(lambda x: engine.linalg.eigvals(x).abs().sum(), (a,))


def test_solves_with_factors():
    a, b = rng.normal(size=(2, 4, 4)), rng.normal(size=(2, 4, 3))
    LU, pivots = engine.linalg.lu_factor(engine.tensor(a))
    assert close(engine.linalg.lu_solve(LU, pivots, engine.tensor(b)), np.linalg.solve(a, b))
    assert close(engine.linalg.lu_solve(LU, pivots, engine.tensor(b), adjoint=True), np.linalg.solve(a.swapaxes(1, 2), b))
    spd = a @ a.swapaxes(1, 2) + np.eye(4)
    L = engine.linalg.cholesky(engine.tensor(spd))
    assert close(engine.cholesky_solve(engine.tensor(b), L), np.linalg.solve(spd, b)) and close(
        engine.cholesky_inverse(L), np.linalg.inv(spd)
    )
    found, info = engine.linalg.inv_ex(engine.tensor(np.stack([a[0], np.zeros((4, 4))])))
    assert close(found[0], np.linalg.inv(a[0])) and info.tolist() == [0, 1]
    assert engine.linalg.cholesky_ex(engine.tensor(-np.eye(3))).info.item() == 1


def test_gradients_of_complex_factorisations():
    """Functions of what is unique: gauge does not matter."""
    pairs, real = leaf(3, 3, 2), lambda y: engine.view_as_real(y) if y.is_complex() else y
    functions = (
        lambda x: engine.linalg.svdvals(x), lambda x: engine.linalg.pinv(x), lambda x: engine.linalg.qr(x)[1].abs(),
        lambda x: engine.linalg.eigvalsh(x @ x.mH), lambda x: engine.linalg.cholesky(x @ x.mH), lambda x: engine.linalg.slogdet(x)[0],
        lambda x: (engine.linalg.svd(x)[0].abs() ** 2), lambda x: engine.linalg.eigh(x @ x.mH)[1].abs() ** 2,
    )  # fmt: skip
    for f in functions:
        assert gradcheck(lambda x, f=f: real(f(engine.view_as_complex(x))), (pairs,))


def test_forward_mode_of_a_complex_result():
    x, t = leaf(3, 3), engine.tensor(rng.normal(size=(3, 3)))
    _, along = engine.autograd.functional.jvp(lambda a: engine.linalg.eigvals(a).sum(), (x,), (t,))
    assert np.allclose(along.numpy(), np.trace(t.numpy()))


def test_the_old_qr_takes_some():
    x = rng.normal(size=(4, 2))
    for some, shapes in ((True, ((4, 2), (2, 2))), (False, ((4, 4), (4, 2)))):
        Q, R = engine.qr(engine.tensor(x), some)
        assert (Q.shape, R.shape) == shapes and close(Q @ R, x)


# -- statistics ------------------------------------------------------------------------------------------------------------------


def test_statistics():
    x, w = rng.normal(size=(3, 8)), rng.integers(1, 4, 8)
    assert close(engine.cov(engine.tensor(x), fweights=engine.tensor(w)), np.cov(x, fweights=w)) and close(
        engine.corrcoef(engine.tensor(x)), np.corrcoef(x)
    )
    for found, expected in zip(
        engine.gradient(engine.tensor(x), spacing=0.5, edge_order=2), np.gradient(x, 0.5, edge_order=2), strict=True
    ):
        assert close(found, expected)
    at = np.sort(rng.normal(size=8))
    assert close(
        engine.gradient(engine.tensor(x), spacing=(engine.tensor(at),), dim=1, edge_order=2)[0], np.gradient(x, at, axis=1, edge_order=2)
    )
    holes = np.where(x > 1, np.nan, x)
    q = np.array([0.1, 0.6])
    assert close(engine.nanquantile(engine.tensor(holes), engine.tensor(q), 1), np.nanquantile(holes, q, 1))
    for found, expected in zip(
        engine.histogram(engine.tensor(x), 5, range=(-1, 2), density=True), np.histogram(x, 5, (-1, 2), density=True), strict=True
    ):
        assert close(found, expected)
    assert close(engine.renorm(engine.tensor(x), 2, 0, 1.5).norm(2, 1), np.minimum(np.linalg.norm(x, axis=1), 1.5), 1e-6)
    assert engine.isin(engine.tensor([[1, 2], [3, 4]]), engine.tensor([2, 4])).tolist() == [[False, True], [False, True]]
    assert close(engine.mvlgamma(engine.tensor(x[0] ** 2 + 3), 3), [scipy.special.multigammaln(v, 3) for v in x[0] ** 2 + 3])
    assert gradcheck(engine.cov, (leaf(3, 5),)) and gradcheck(
        lambda v, f: engine.quantile(v, f, 0), (leaf(5, 2), leaf(2, low=0.3, high=0.4))
    )


# -- views and places -----------------------------------------------------------------------------------------------------------


def test_views_of_memory_in_any_order_of_dimensions():
    x = engine.tensor(np.arange(24.0).reshape(2, 3, 4)).permute(1, 2, 0)
    y = x + 0.0  # lies as x does: neither in C nor in Fortran order
    assert close(y.unsqueeze(0).expand(2, 3, 4, 2), np.broadcast_to(np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0), (2, 3, 4, 2)))


def test_views_by_strides():
    x = engine.arange(12.0).requires_grad_()
    y = x * 1
    seen = y.as_strided((3, 4), (2, 1), 1)
    assert close(seen, np.lib.stride_tricks.as_strided(np.arange(12.0)[1:], (3, 4), (16, 8)))
    seen.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0, 0]
    with engine.no_grad():
        y.as_strided((2,), (1,), 0).fill_(7)
    assert y[:3].tolist() == [7, 7, 2]
    with pytest.raises(RuntimeError, match="out of bounds"):
        y.as_strided((4,), (4,), 1)


def test_in_place_changes_of_shape_stay_views():
    x = engine.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 2
    row = y[0]
    assert y.transpose_(0, 1) is y and y.unsqueeze_(0).shape == (1, 3, 2)
    row.mul_(3)
    assert y[0, :, 0].tolist() == [0, 6, 12]
    y.sum().backward()
    assert x.grad.tolist() == [[6, 6, 6], [2, 2, 2]]


def test_complex_numbers_as_pairs():
    z = engine.tensor(np.array([1 + 2j, 3 - 1j]))
    pairs = engine.view_as_real(z)
    pairs[0, 1] = 5.0
    assert z.tolist() == [1 + 5j, 3 - 1j] and engine.view_as_complex(pairs).tolist() == z.tolist()


def test_scattering_into_parts():
    x, part = leaf(3, 4), leaf(3)
    for f in (
        lambda a, b: a.select_scatter(b, 1, 2),
        lambda a, b: a.diagonal_scatter(b),
        lambda a, b: engine.as_strided_scatter(a, b, (3,), (4,), 1),
    ):
        assert gradcheck(f, (x, part))
    assert close(x.slice_scatter(engine.zeros(3, 2, dtype=engine.float64), 1, 1, 4, 2)[:, [1, 3]], np.zeros((3, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_reading_at_places(padding):
    image, grid = rng.normal(size=(1, 1, 5, 6)), rng.uniform(-0.95, 0.95, size=(1, 4, 3, 2))
    rows, columns = (grid[0, ..., 1] + 1) / 2 * 4, (grid[0, ..., 0] + 1) / 2 * 5
    expected = scipy.ndimage.map_coordinates(image[0, 0], [rows, columns], order=1)
    assert close(
        engine.nn.functional.grid_sample(engine.tensor(image), engine.tensor(grid), padding_mode=padding, align_corners=True)[0, 0],
        expected,
    )
    places = (leaf(1, 2, 4, 4), engine.tensor(rng.uniform(-1.4, 1.4, (1, 2, 2, 2)), requires_grad=True))
    for mode in ("bilinear", "bicubic"):
        sample = lambda x, g, mode=mode: engine.nn.functional.grid_sample(x, g, mode, padding, False)  # noqa: E731
        assert gradcheck(sample, places)


def test_affine_grid_of_the_identity_changes_nothing():
    x = engine.tensor(rng.normal(size=(2, 3, 4, 5)))
    theta = engine.tensor(np.tile(np.eye(2, 3), (2, 1, 1)))
    for corners in (True, False):
        grid = engine.nn.functional.affine_grid(theta, x.shape, corners)
        assert close(engine.nn.functional.grid_sample(x, grid, align_corners=corners), x.numpy())


def test_results_go_where_out_says():
    out = engine.empty(0)
    assert engine.addmm(engine.ones(2, 2), engine.ones(2, 3), engine.ones(3, 2), out=out) is out and out.tolist() == [[4, 4], [4, 4]]
    out = engine.empty(3)
    assert engine.arange(3.0, out=out).tolist() == [0, 1, 2] and engine.linspace(0, 1, 3, out=out).tolist() == [0, 0.5, 1]


def test_a_map_that_moves_nothing_lands_on_pytorchs_places_to_the_bit():
    """A spatial transformer starts there, and on which side of an element's center a place lies decides its gradient."""
    grid = engine.nn.functional.affine_grid(engine.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 28, 28), align_corners=False)
    bits = [3212237678, 3211039305, 3209840933, 3208642560, 3207444187, 3206245815, 3205047443]
    bits += [3203249883, 3200853138, 3198456392, 3196059648, 3191266158, 3185274294, 3172092195]  # PyTorch 2.13's first half
    for line in (grid[0, 0, :, 0], grid[0, :, 0, 1]):
        assert line[:14].numpy().view("uint32").tolist() == bits


def test_no_pairs_are_no_complex_numbers():
    for shape in ((0, 3, 2), (3, 0, 2), (0, 2)):
        z = engine.view_as_complex(engine.zeros(*shape, dtype=engine.float64))
        assert z.shape == shape[:-1] and z.dtype is engine.complex128
        assert engine.view_as_complex(engine.view_as_real(z)).shape == shape[:-1]
