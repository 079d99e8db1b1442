"""Reading and writing at indices: what NumPy reads and writes, with gradients through what stays, what is read and what is written."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from grouping import grouped

rng = numpy.random.default_rng(11)
DATA = rng.normal(size=(4, 5, 6))
MASK = rng.random((4, 5)) > 0.5
WEIGHTS = rng.normal(size=(4, 5, 6))

# indices that NumPy and PyTorch read alike: no integer stands beside an index array
INDICES = {
    "integer": 1,
    "negative": -1,
    "slice": slice(1, 3),
    "stride": slice(None, None, 2),
    "empty slice": slice(3, 1),
    "all": (),
    "integers": (1, 2, 3),
    "ellipsis": (..., 2),
    "new dimensions": (None, 1, None, ..., None),
    "rows": [0, 2, 2],
    "pairs": ([0, 1, 1], [1, 4, 4]),
    "negative rows": [-1, -4],
    "apart": ([0, 1], slice(None), [2, 3]),
    "beside": (slice(None), [0, 4], [2, 3]),
    "broadcast": ([[1], [2]], [0, 3]),
    "nothing": [],
    "mask of rows": numpy.array([True, False, True, True]),
    "mask of two": MASK,
    "mask of all": DATA > 0,
    "inner mask": (slice(1, 3), MASK[0]),
    "mask and rows": (numpy.array([True, False, True, False]), [1, 2]),
    "new dimension and rows": (None, [1, 2]),
    "last": (..., [5, 0, 0]),
}


def as_index(index):
    """The index as a user of tensors writes it."""
    if isinstance(index, tuple):
        return tuple(as_index(i) for i in index)
    return engine.tensor(index) if isinstance(index, (list, numpy.ndarray)) and len(index) else index


@pytest.fixture(params=INDICES)
def index(request):
    return INDICES[request.param]


def read_gradient(index):
    """The gradient of the sum of `x[index] * w` by NumPy: w added at the index."""
    w = rng.normal(size=DATA[index].shape)
    expected = numpy.zeros(DATA.shape)
    numpy.add.at(expected, index, w)
    return w, expected


def test_reading(index):
    x = engine.tensor(DATA, requires_grad=True)
    y = x[as_index(index)]
    assert numpy.array_equal(y.detach().numpy(), DATA[index])
    w, expected = read_gradient(index)
    (y * engine.tensor(w)).sum().backward()
    assert numpy.allclose(x.grad.numpy(), expected)


def test_writing_a_number(index):
    x = engine.tensor(DATA, requires_grad=True)
    y = x * 1
    y[as_index(index)] = 2.5
    expected = DATA.copy()
    expected[index] = 2.5
    assert numpy.array_equal(y.detach().numpy(), expected)
    (y * engine.tensor(WEIGHTS)).sum().backward()
    stays = WEIGHTS.copy()
    stays[index] = 0
    assert numpy.allclose(x.grad.numpy(), stays)


@grouped("name", [name for name in INDICES if name not in ("rows", "pairs", "last")])  # those name a place twice
def test_writing_a_tensor(name):
    index = INDICES[name]
    values = rng.normal(size=DATA[index].shape)
    x, v = engine.tensor(DATA, requires_grad=True), engine.tensor(values, requires_grad=True)
    y = x * 1
    y[as_index(index)] = v
    expected = DATA.copy()
    expected[index] = values
    assert numpy.array_equal(y.detach().numpy(), expected)
    (y * engine.tensor(WEIGHTS)).sum().backward()
    assert numpy.allclose(v.grad.numpy(), WEIGHTS[index])


def test_writing_without_a_graph(index):
    x = engine.tensor(DATA)
    version = x._version
    x[as_index(index)] = -1.0
    expected = DATA.copy()
    expected[index] = -1.0
    assert numpy.array_equal(x.numpy(), expected) and x._version == version + 1 and x.node is None


def test_a_written_value_is_broadcast_and_cast():
    x = engine.zeros(2, 3)
    row = engine.tensor(numpy.array([1.0, 2.0, 3.0]), requires_grad=True)
    x[:] = row
    assert x.dtype is engine.float32
    x.sum().backward()
    assert row.grad.tolist() == [2.0, 2.0, 2.0] and row.grad.dtype is engine.float64
    whole = engine.zeros(3, dtype=engine.int64)
    whole[1] = 2.7
    assert whole.tolist() == [0, 2, 0]


def test_integers_select_first():
    """As in PyTorch, and unlike NumPy, an integer beside an index tensor does not move the tensor's dimensions to the front."""
    x = engine.tensor(DATA)
    assert numpy.array_equal(x[0, :, engine.tensor([1, 2])].numpy(), DATA[0][:, [1, 2]])
    assert numpy.array_equal(x[engine.tensor([1, 2]), :, 0].numpy(), DATA[..., 0][[1, 2]])
    x[0, :, engine.tensor([1, 2])] = 0.0
    assert numpy.array_equal(x[0, :, 1:3].numpy(), numpy.zeros((5, 2))) and numpy.array_equal(x[1:].numpy(), DATA[1:])


def test_views_and_copies():
    x = engine.zeros(3, 4)
    for view in (x[1], x[1:], x[..., 0], x[None], x[engine.tensor(1)]):
        assert view._base is x
    for copy in (x[[0, 1]], x[engine.tensor([1])], x[x == 0], x[True]):
        assert copy._base is None
    x[1][2] = 5.0
    assert x[1, 2].item() == 5 and x.sum().item() == 5


def test_scalars_and_flags():
    x = engine.tensor(3.0)
    assert x[...].item() == 3 and x[None].shape == (1,) and x[True].shape == (1,) and x[False].shape == (0,)
    assert engine.zeros(2, 3)[False].shape == (0, 2, 3)
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]


@pytest.mark.parametrize(
    "index, error, words",
    [
        (4, IndexError, "index 4 is out of bounds for dimension 0 with size 4"),
        (-5, IndexError, "index -5 is out of bounds for dimension 0 with size 4"),
        ((0, 9), IndexError, "index 9 is out of bounds"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (engine.tensor([0, 7]), IndexError, "index 7 is out of bounds for dimension 0 with size 4"),
        (
            engine.tensor([True, False]),
            IndexError,
            r"The shape of the mask \[2\] at index 0 does not match the shape of the indexed tensor \[4, 5, 6\] at index 0",
        ),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (engine.tensor([1.0]), IndexError, "must be long, int, byte or bool"),
        ((engine.tensor([0, 1]), engine.tensor([0, 1, 2])), IndexError, r"could not be broadcast together with shapes \[2\], \[3\]"),
        (1.5, IndexError, "valid indices"),
        (engine.tensor([1], dtype=engine.int16), IndexError, "must be long, int, byte or bool"),
    ],
)
def test_refused_indices(index, error, words):
    with pytest.raises(error, match=words):
        engine.tensor(DATA)[index]
    with pytest.raises(error, match=words):
        engine.tensor(DATA)[index] = 1.0


def test_refused_values():
    x = engine.zeros(4, 5)
    with pytest.raises(RuntimeError, match=r"value tensor of shape \[3\] cannot be broadcast to indexing result of shape \[5\]"):
        x[0] = engine.ones(3)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        engine.zeros(3, requires_grad=True)[0] = 1.0
    with pytest.raises(RuntimeError, match="single memory location"):
        engine.zeros(1, 3).expand(2, 3)[:, 0] = 1.0


def test_a_part_of_an_expanded_tensor_is_written_once():
    x = engine.zeros(1, 3).expand(2, 3)
    x[0] = 1.0
    x[1, 2] = 5.0
    assert x.tolist() == [[1.0, 1.0, 5.0]] * 2


def test_writes_have_second_derivatives():
    rows = engine.tensor([0, 2])

    def write(x, v):
        y = x * x
        y[rows, 1:] = v**2
        y[1, 0] = v.sum() ** 2
        y[y.detach() > 0.5] = 0.0
        return y * x

    x = engine.tensor(rng.normal(size=(3, 3)), requires_grad=True)
    v = engine.tensor(rng.normal(size=(2, 2)), requires_grad=True)
    assert gradcheck(write, (x, v)) and gradgradcheck(write, (x, v))


def test_repeated_rows_add_up_in_large_and_small_tables():
    """The gradient of reading rows has three ways to sum them; all agree with NumPy's."""
    for count, reads in ((7, 30), (3000, 2000), (5000, 60)):
        places = rng.integers(0, count, reads)
        g = rng.normal(size=(reads, 3))
        table = engine.zeros(count, 3, dtype=engine.float64, requires_grad=True)
        (table[engine.tensor(places)] * engine.tensor(g)).sum().backward()
        expected = numpy.zeros((count, 3))
        numpy.add.at(expected, places, g)
        assert numpy.allclose(table.grad.numpy(), expected)


def test_scatter_reduce_shares_among_the_reached():
    """By hand: with the input's own element left out, two equal largest elements share the gradient."""
    x = engine.zeros(2, requires_grad=True)
    src = engine.tensor([3.0, 3.0, 1.0], requires_grad=True)
    out = x.scatter_reduce(0, engine.tensor([0, 0, 1]), src, "amax", include_self=False)
    (out * engine.tensor([1.0, 10.0])).sum().backward()
    assert out.tolist() == [3.0, 1.0] and src.grad.tolist() == [0.5, 0.5, 10.0] and x.grad.tolist() == [0.0, 0.0]


def test_embedding_padding_row_gets_no_gradient():
    weight = engine.tensor(rng.normal(size=(4, 2)), requires_grad=True)
    embedding = engine.core.op.functions["nn.functional.embedding"]
    out = embedding(engine.tensor([[0, 1], [1, 3]]), weight, padding_idx=0)
    out.sum().backward()
    assert weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    with pytest.raises(IndexError, match="index out of range in self"):
        embedding(engine.tensor([4]), weight)


def test_sorting_is_stable_and_puts_nan_last():
    x = engine.tensor([2.0, float("nan"), 1.0, 2.0])
    values, places = engine.sort(x, stable=True)
    assert places.tolist() == [2, 0, 3, 1] and values[:3].tolist() == [1, 2, 2]
    assert engine.sort(x, descending=True, stable=True).indices.tolist() == [1, 0, 3, 2]
    assert engine.topk(engine.arange(100.0) % 7, 3).values.tolist() == [6, 6, 6]
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        engine.topk(x, 5)


def test_a_value_may_have_leading_dimensions_of_one_behind_a_mask():
    for recorded in (False, True):
        x = engine.zeros(2, 3, dtype=engine.float64, requires_grad=recorded) * 1
        x[engine.tensor(MASK[:2, :3])] = engine.ones(1, 1, int(MASK[:2, :3].sum()), dtype=engine.float64)
        assert x.tolist() == MASK[:2, :3].astype(float).tolist()
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x[engine.tensor([True, False])] = engine.ones(2, 3, 2, dtype=engine.float64)
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x[engine.ones(2, 3, dtype=engine.bool)] = engine.ones(6, 2, dtype=engine.float64)


def test_values_added_at_a_matrix_of_places_broadcast():
    """NumPy's `add.at` reads past the end of the values here."""
    places = numpy.array([[0, -2, 0], [1, 0, 0]])
    for dtype in (engine.int64, engine.float32, engine.float64):
        x = engine.zeros(2, dtype=dtype)
        x.index_put_((engine.tensor(places),), engine.tensor([1, 2, 3], dtype=dtype), accumulate=True)
        assert x.tolist() == [11, 1]  # 0 gets 1 + 2 + 3 and 2 + 3, 1 gets 1
        assert engine.zeros(2, dtype=dtype).index_put((engine.tensor(places),), engine.tensor(5, dtype=dtype), True).tolist() == [25, 5]


def test_index_put_takes_bytes_as_a_mask_and_refuses_what_is_no_index():
    x = engine.zeros(3).index_put((engine.tensor([1, 0, 1], dtype=engine.uint8),), engine.tensor(2.0))
    assert x.tolist() == [2, 0, 2]
    for dtype in (engine.int16, engine.float32):
        for put in (engine.index_put, engine.Tensor.index_put_):
            with pytest.raises(IndexError, match="must be long, int, byte or bool"):
                put(x, (engine.tensor([1, 0], dtype=dtype),), engine.tensor(2.0))
    with pytest.raises(RuntimeError, match=r"value tensor of shape \[1, 2\] cannot be broadcast to indexing result of shape \[2\]"):
        x.index_put_((engine.tensor([0, 1]),), engine.ones(1, 2))
    assert x.tolist() == [2, 0, 2]
