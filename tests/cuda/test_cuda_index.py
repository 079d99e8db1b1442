"""The kernels of `index.cu` on the emulator, against NumPy."""

from __future__ import annotations

import re

import ml_dtypes
import numpy
import pytest
from fake_cupy import emulated

from engine.backends import indexing
from engine.backends.gpu import launch

kernels = pytest.importorskip("engine.backends.gpu.index")  # needs CuPy, not a GPU
faults = pytest.importorskip("engine.backends.gpu.faults")

BF16 = numpy.dtype(ml_dtypes.bfloat16)
MOVED = ["bool", "uint8", "int16", "float16", BF16, "int32", "float32", "int64", "float64", "complex64", "complex128"]
SUMMED = ["bool", "int8", "int32", "int64", "float16", BF16, "float32", "float64", "complex64"]


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"order{seed}")
def gpu(request, monkeypatch):
    monkeypatch.setattr(faults, "_noted", {})
    fake = emulated(monkeypatch, kernels, faults, seed=request.param)
    yield fake
    assert fake.intact()
    faults.check()


@pytest.fixture
def one(monkeypatch):
    """The same in a single order, for what is about shapes and dtypes."""
    monkeypatch.setattr(faults, "_noted", {})
    fake = emulated(monkeypatch, kernels, faults)
    yield fake
    assert fake.intact()


def values(shape, dtype, seed=0):
    x = numpy.random.default_rng(seed).standard_normal(shape) * 4
    return (x + 1j * x[..., ::-1] if numpy.dtype(dtype).kind == "c" else x).astype(dtype)


def places(n, shape, seed=1):
    return numpy.random.default_rng(seed).integers(0, n, shape)


def bits(x):
    return numpy.ascontiguousarray(x).view(numpy.uint8).tolist()


def test_the_constants_are_those_of_the_text():
    text = (launch.HERE / "index.cu").read_text()
    assert re.findall(r"constexpr int (\w+) = (\d+)", text) == [("BLOCK", str(kernels._BLOCK)), ("PIECE", str(kernels._PIECE))]


# -- reading -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_reading_moves_every_dtype(one, dtype, index_dtype):
    x = values((7, 5, 6), dtype)
    if numpy.dtype(dtype).kind == "f":
        x[0, 0, :3] = numpy.nan, numpy.inf, -0.0
    index, flat = places(5, (7, 300, 2)).astype(index_dtype), places(5, 9).astype(index_dtype)
    found = kernels.gather(one.array(x), 1, one.array(index))
    assert bits(found) == bits(numpy.take_along_axis(x[..., :2], index, 1))
    assert bits(kernels.index_select(one.array(x), 1, one.array(flat))) == bits(x[:, flat])
    assert bits(kernels.rows(one.array(x[:, :, 0]), one.array(flat.reshape(3, 3)))) == bits(x[:, :, 0][flat.reshape(3, 3)])


@pytest.mark.parametrize("width", [0, 1, 3, 4, 8, 33])
@pytest.mark.parametrize("begin", [0, 1, 2])
def test_rows_of_any_width_at_any_address(one, width, begin):
    flat = values(11 * width + begin, "float32")
    weight = one.array(flat)[begin:].reshape(11, width)
    index = places(11, 20)
    assert bits(kernels.rows(weight, one.array(index))) == bits(flat[begin:].reshape(11, width)[index])


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_reading_views(one, dim):
    x = values((6, 5, 4), "float32")
    for view in (lambda a: a.transpose(2, 0, 1), lambda a: a[::-1, :, ::2], lambda a: a[:, :1]):
        y, z = view(x), view(one.array(x))
        index = places(y.shape[dim], y.shape)
        assert bits(kernels.gather(z, dim, one.array(index))) == bits(numpy.take_along_axis(y, index, dim))
        assert bits(kernels.index_select(z, dim, one.array(index.ravel()[::3])[::-1])) == bits(y.take(index.ravel()[::3][::-1], dim))
    assert kernels.gather(one.array(numpy.float32(3)), 0, one.array(0)) == 3
    assert kernels.index_select(one.array(numpy.float32(3)), 0, one.array([0])).shape == ()


def test_take_along_axis_broadcasts_and_wraps(one):
    x, index = values((3, 1, 5), "float64"), places(5, (1, 4, 2)) - 5
    assert bits(kernels.take_along_axis(one.array(x), one.array(index))) == bits(numpy.take_along_axis(x, index, -1))


def test_read_rows_is_that_of_the_cpu(one):
    weight, index = values((9, 4), "float32"), places(9, (3, 40))
    for padding, scale in ((None, False), (2, False), (-1, True)):
        found = kernels.read_rows(one.array(weight), one.array(index), 9, padding, scale)
        padding = padding if padding is None else padding % 9
        assert numpy.allclose(found, indexing.read_rows(weight, index, 9, padding, scale), rtol=1e-6)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("n", [0, 1, 5, 1030])
def test_masked_fill(one, dtype, n):
    x, mask, value = values(n, dtype), places(2, n).astype(bool), numpy.ones((), dtype)
    for begin in (0, 1):
        found = kernels.masked_fill(one.array(x)[begin:], one.array(mask)[begin:], 1)
        assert bits(found) == bits(numpy.where(mask, value, x)[begin:])
    wide = kernels.masked_fill(one.array(x), one.array(mask.reshape(1, n)), one.array(value))
    assert bits(wide) == bits(numpy.where(mask.reshape(1, n), value, x))
    two = kernels.masked_fill(one.array(x)[:, None], one.array([True, False, False]), one.array(value))
    assert bits(two) == bits(numpy.where([True, False, False], value, x[:, None]))


# -- writing -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_the_last_element_for_a_place_is_kept(gpu, dtype):
    x, src, index = values((3, 7, 4), dtype), values((3, 400, 5), dtype, 2), places(7, (3, 400, 4))
    out = x.copy()
    for a, b, c in numpy.ndindex(index.shape):
        out[a, index[a, b, c], c] = src[a, b, c]
    assert bits(kernels.scatter(gpu.array(x), 1, gpu.array(index), gpu.array(src))) == bits(out)
    out[numpy.arange(3)[:, None, None], index, numpy.arange(4)] = 1
    assert bits(kernels.scatter(gpu.array(out), 1, gpu.array(index), 1)) == bits(out)


def test_index_copy(gpu):
    x, src, index = values((3, 7, 4), "float32"), values((3, 9, 4), "float32", 2), places(7, 9)
    expected = indexing.index_copy(x, 1, index, src)
    assert bits(kernels.index_copy(gpu.array(x), 1, gpu.array(index), gpu.array(src))) == bits(expected)
    assert bits(kernels.index_copy(gpu.array(x), 1, gpu.array(index), 0)) == bits(indexing.index_copy(x, 1, index, 0))


HOW = {"sum": numpy.add, "prod": numpy.multiply, "amax": numpy.maximum, "amin": numpy.minimum}


def reduced(how, dtype, x, index, src):
    """In float64 or int64, at the places of an index along dimension 0."""
    kind = numpy.dtype(dtype).kind
    wide = {"b": bool, "i": dtype, "c": complex}.get(kind, float)
    out = x.astype(wide)
    where = (index, *numpy.ogrid[tuple(slice(n) for n in index.shape)][1:])
    HOW[how].at(out, where, src.astype(wide))
    size = abs(x).astype(float)
    numpy.add.at(size, where, abs(src).astype(float))
    return out, size


@pytest.mark.parametrize(("dtype", "how"), [(d, how) for d in SUMMED for how in HOW if d != "complex64" or how in ("sum", "prod")], ids=str)
def test_scattering_combines_in_every_dtype(one, dtype, how):
    x, src, index = values((5, 3), dtype), values((70, 3), dtype, 2), places(5, (70, 3))
    if how == "prod":
        x, src = x / 4 + 1 if x.dtype.kind in "fc" else x, (abs(src) * 0 + 1) if src.dtype.kind == "i" else src / src.dtype.type(2)
        x, src = x.astype(dtype), src.astype(dtype)
    expected, size = reduced(how, dtype, x, index, src)
    given = one.array(x), 0, one.array(index), one.array(src)
    call = {"sum": kernels.scatter_add, "prod": kernels.scatter_prod}.get(how)
    found = call(*given) if call else kernels.scatter_extreme(*given, how)
    if x.dtype.kind in "bi" or how in ("amax", "amin"):
        assert bits(found) == bits(expected.astype(dtype))
    else:
        eps = 2.0 ** {"float16": -11, "bfloat16": -8, "float64": -52}.get(x.dtype.name, -23)
        bound = eps * 40 * (size if how == "sum" else abs(expected))
        assert (abs(found.astype(expected.dtype) - expected) <= bound).all()


@pytest.mark.parametrize("n", [1, 63, 64, 65, 128, 129, 1000])
@pytest.mark.parametrize("places_", [1, 2, 7, 500])
def test_runs_of_every_length_add_up(gpu, n, places_):
    """Integers as float64: sums are exact, whatever the order, so a missed or repeated element shows."""
    index = numpy.sort(places(places_, n))[numpy.random.default_rng(3).permutation(n)]
    src = numpy.arange(1.0, n + 1)
    expected = numpy.bincount(index, src, places_)
    assert (kernels.scatter_add(gpu.zeros(places_, "float64"), 0, gpu.array(index), gpu.array(src)) == expected).all()


def test_results_are_the_same_bits_in_every_order(one, monkeypatch):
    x, src, index = values(5, "float32"), values(1000, "float32", 2), places(5, 1000)
    found = set()
    for seed in range(4):
        fake = emulated(monkeypatch, kernels, faults, seed=seed)
        found.add(kernels.scatter_add(fake.array(x), 0, fake.array(index), fake.array(src)).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", BF16], ids=str)
@pytest.mark.parametrize("width", [1, 3, 4, 36])
@pytest.mark.parametrize("scale", [False, True])
def test_the_gradient_of_an_embedding(gpu, dtype, width, scale):
    index, value = places(6, (5, 40)), values((5, 40, width), dtype)
    index[0] -= 6  # negative indices count from the end
    index[1] = 3
    for padding in (None, 3, -1):
        expected, flat = numpy.zeros((6, width)), index.ravel() % 6
        numpy.add.at(expected, flat, value.reshape(200, width).astype(float))
        if scale:
            expected /= numpy.bincount(flat, minlength=6)[:, None]
        if padding is not None:
            expected[padding] = 0
        found = kernels.add_rows(gpu.array(value), gpu.array(index), 6, padding, scale)
        eps = 2.0 ** {"float16": -11, "bfloat16": -8, "float64": -50}.get(found.dtype.name, -22)
        assert numpy.abs(found.astype(float) - expected).max() <= eps * 200


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_index_add(gpu, dim):
    x = values((4, 5, 8), "float64")
    index = places(x.shape[dim], 90)
    shape = list(x.shape)
    shape[dim] = 90
    source = values(tuple(shape), "float64", 2)
    expected = indexing.index_add(x, dim, index, source, 2)
    assert numpy.allclose(kernels.index_add(gpu.array(x), dim, gpu.array(index), gpu.array(source), 2), expected, rtol=1e-13, atol=1e-13)


def test_add_along_axis(gpu):
    x, index = values((3, 70, 1), "float64"), places(4, (3, 70, 2)) - 4
    for length in (70, 1):
        expected = indexing.add_along_axis(x[:, :length], index[:, :length], 4, 1)
        found = kernels.add_along_axis(gpu.array(x[:, :length]), gpu.array(index[:, :length]), 4, 1)
        assert numpy.allclose(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "index",
    [
        lambda a: a(places(4, 90) - 4),
        lambda a: (a(places(4, (30, 3))),),
        lambda a: (a(places(4, 90)), a(places(5, 90, 2))),
        lambda a: (slice(None), a(places(5, 90)), None, slice(1, 3)),
        lambda a: a(places(2, (4, 5)).astype(bool)),
        lambda a: (slice(1, 3), 2),
        lambda a: a(numpy.zeros((0,), "int64")),
    ],
)
def test_adding_at_any_index(gpu, index):
    x, host = values((4, 5, 6), "float64"), index(numpy.asarray)
    value = values(x[host].shape, "float64", 2)
    for given in (value, value[..., :1]):
        found = kernels.put_zeros(gpu.array(given), x.shape, index(gpu.array))
        assert numpy.allclose(found, indexing.put_zeros(given, x.shape, host), rtol=1e-13, atol=1e-13)
        found = kernels.put(gpu.array(x), index(gpu.array), gpu.array(given), True)
        assert numpy.allclose(found, indexing.put(x, host, given, True), rtol=1e-13, atol=1e-13)
    assert bits(kernels.put(gpu.array(x), index(gpu.array), 3.0)) == bits(indexing.put(x, host, 3.0))


def test_nan_and_infinity_stay_where_they_belong(gpu):
    src = numpy.array([numpy.nan, 1, numpy.inf, 2, -numpy.inf, numpy.inf])
    index = numpy.array([0, 1, 2, 1, 3, 3])
    found = kernels.scatter_add(gpu.zeros(5, "float64"), 0, gpu.array(index), gpu.array(src))
    assert str(found.tolist()) == "[nan, 3.0, inf, nan, 0.0]"
    found = kernels.scatter_extreme(gpu.zeros(5, "float64"), 0, gpu.array(index), gpu.array(src), "amax")
    assert str(found.tolist()) == "[nan, 2.0, inf, inf, 0.0]"


@pytest.mark.parametrize("name", ["scatter", "scatter_add", "gather", "index_add", "index_select", "index_copy"])
def test_nothing_is_launched_for_no_index(one, name):
    x, none = one.array(values((3, 4), "float32")), one.array(numpy.zeros((0,), "int64"))
    index = none.reshape(0, 4) if "scatter" in name or name == "gather" else none
    more = () if name in ("gather", "index_select") else (x[:0],)
    found = getattr(kernels, name)(x, 0, index, *more)
    assert bits(found) == bits(getattr(indexing, name)(x.view(numpy.ndarray), 0, index.view(numpy.ndarray), *more))
    assert launch.driver.launches == []


def test_offsets_of_64_bits_give_the_same(one, monkeypatch):
    x, index, src = values((5, 6, 4), "float32"), places(6, (5, 90, 4)), values((5, 90, 4), "float32", 2)

    def results():
        a, i, b = one.array(x), one.array(index), one.array(src)
        flat = i.reshape(-1)[:90]
        yield kernels.gather(a, 1, i)
        yield kernels.index_select(a, 1, flat)
        yield kernels.masked_fill(a[:, :, ::2], one.array(x > 0)[:, :, ::2], 2)
        yield kernels.scatter(a, 1, i, b)
        yield kernels.scatter_add(a, 1, i, b)
        yield kernels.index_add(a, 1, flat, b)

    small = [bits(found) for found in results()]
    monkeypatch.setattr(kernels.layouts, "SMALL", 0)
    kernels.layouts.packed.cache_clear()
    assert [bits(found) for found in results()] == small
    assert all("typedef int64_t I;" in text for text in list(launch.driver.libraries)[-3:])
    kernels.layouts.packed.cache_clear()


def test_structs_are_packed_as_the_compiler_lays_them_out(one):
    for small, offset in ((1 << 31, "uint32_t"), (0, "int64_t")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels.layouts, "SMALL", small)
            kernels.layouts.packed.cache_clear()
            found, layout = kernels._layout((2, 3), (3, 1), (1, 2))
        kernels.layouts.packed.cache_clear()
        text = launch.source("index.cu", T="float", R="struct Sum", J="int64_t", I=offset)
        sizes = launch.driver.sizes(text, "gather")
        assert found == offset and sizes[-2:] == [len(layout), len(kernels.bounds("gather", 3))]
        assert launch.driver.sizes(text, "combine")[-1] == 48


# -- bounds ------------------------------------------------------------------------------------------------------------------

BAD = {
    "gather": lambda m, x, i: m.gather(x, 0, i),
    "index_select": lambda m, x, i: m.index_select(x, 0, i.ravel()),
    "embedding": lambda m, x, i: m.rows(x, i),
    "scatter": lambda m, x, i: m.scatter(x, 0, i, x),
    "scatter_add": lambda m, x, i: m.scatter_add(x, 0, i, x),
    "scatter_reduce": lambda m, x, i: m.scatter_prod(x, 0, i, x),
    "index_add": lambda m, x, i: m.index_add(x, 0, i[:, 0], x),
    "take_along_axis": lambda m, x, i: m.take_along_axis(x, i, 0),
    "index_put": lambda m, x, i: m.put_zeros(x[:, :, None].repeat(4, 2), (3, 4), i),
    "embedding_backward": lambda m, x, i: m.add_rows(x[:, :, None].repeat(4, 2), i, 3),
    "max_unpool": lambda m, x, i: m.flat_scatter(x.reshape(1, -1), i.reshape(1, -1), (3,)),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("bad", [3, -1, -4, 2**40])
def test_an_index_out_of_range_is_told_at_the_next_synchronization(one, name, bad):
    x, index = one.array(values((3, 4), "float32")), one.array(places(3, (3, 4)))
    index[2, 0] = bad
    found = BAD[name](kernels, x, index)
    if bad == -1 and name in ("take_along_axis", "embedding_backward", "index_put"):
        faults.check()
        return
    BAD[name](kernels, x, index)  # a later one does not replace it
    position = 2 if name == "index_add" else 8
    with pytest.raises(
        IndexError, match=rf"index {bad} is out of bounds for a dimension of size 3: {name} on cuda:0, at position {position} "
    ):
        faults.check()
    faults.check()
    assert numpy.isfinite(found).all()


def test_an_index_out_of_range_writes_nothing(one):
    x = values(6, "float32")
    found = kernels.scatter(one.array(x), 0, one.array([6, 2, -1]), one.array(numpy.ones(3, "float32")))
    x[2] = 1
    assert bits(found) == bits(x)
    with pytest.raises(IndexError, match="index (6|-1) is out of bounds"):
        faults.check()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m, x, i: m.gather(x, 0, i.astype("float32")), "int32/int64"),
        (lambda m, x, i: m.gather(x, 0, i[:, 0]), "same number of dimensions"),
        (lambda m, x, i: m.scatter(x[:, :2], 0, i, x), "no larger than self"),
        (lambda m, x, i: m.scatter_add(x, 0, i, x[:1]), "no larger than src"),
        (lambda m, x, i: m.index_add(x, 0, i[0], x), "should be equal to source.size"),
        (lambda m, x, i: m.masked_fill(x, i, 1), "boolean masks"),
        (lambda m, x, i: m.rows(x[0], i), "2-D"),
    ],
)
def test_what_the_host_can_tell_is_refused_at_once(one, call, error):
    x, index = one.array(values((3, 4), "float32")), one.array(places(3, (3, 4)))
    for module in (kernels, indexing):
        with pytest.raises((ValueError, IndexError), match=error):
            call(module, x, index)


# -- the checks themselves, and the compiler ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (begin < last) k = key(begin);", ""),
        ("total = next;\n      else", "total = next;\n      if (at != begin + 1)"),
        ("if (begin == first && same(first - 1, k)) return;", ""),
        ("const bool goes_on = same(first - 1, k);", "const bool goes_on = false;"),
        ("(o * size + k) * length + c", "(o * size + k) * length + c + 1"),
    ],
)
def test_a_planted_fault_is_caught(monkeypatch, right, wrong):
    real = launch.source

    def planted(file, **types):
        assert real(file, **types).count(right) == 1
        return real(file, **types).replace(right, wrong)

    fake, n = emulated(monkeypatch, kernels, faults, seed=2), 200
    monkeypatch.setattr(launch, "source", planted)
    monkeypatch.setattr(faults, "_noted", {})
    index = numpy.sort(places(3, n))
    found = kernels.add_rows(fake.array(numpy.arange(1.0, n + 1)[:, None]), fake.array(index), 3)
    assert not fake.intact() or (found[:, 0] != numpy.bincount(index, numpy.arange(1.0, n + 1))).any()


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
@pytest.mark.parametrize(
    ("T", "R", "vectors"),
    [
        ("float", "Sum", {"combine": r"ld\.global(\.nc)?\.v4", "masked_fill": r"ld\.global(\.nc)?\.v4"}),
        ("half_t", "Product", {"join": r"ld\.global(\.nc)?\.v4\.f32|ld\.global(\.nc)?\.v4"}),
        ("bf16_t", "Largest", {"combine": r"ld\.global(\.nc)?\.v4"}),
        ("int8_t", "Smallest", {}),
        ("bool", "Sum", {}),
        ("double", "Largest", {"combine": r"ld\.global(\.nc)?\.v2"}),
        ("complex128_t", "Sum", {"take": r"ld\.global(\.nc)?\.v2"}),
    ],
)
def test_it_compiles_for_the_gpus(arch, T, R, vectors):
    for offset in ("uint32_t", "int64_t"):
        ptx = launch.compiled(launch.source("index.cu", T=T, R=f"struct {R}", J="int32_t", I=offset), arch)
        bodies = dict(re.findall(r"\.entry (\w+)\((.*?)\n}", ptx if isinstance(ptx, str) else ptx.decode(), re.S))
        assert {"take", "gather", "masked_fill", "keys", "claim", "put", "combine", "join"} <= set(bodies)
        for name, pattern in vectors.items():
            assert re.search(pattern, bodies[name]), name
