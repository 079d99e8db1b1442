"""`torch.lstm`, `gru` and their like, cells, `torch._VF`, and what layers check. Expected numbers and refusals are PyTorch 2.13's."""

from __future__ import annotations

import numpy
import pytest
from nets import close

import engine
from engine import nn


def grid(*shape, at=0.0):
    return engine.tensor(numpy.sin(numpy.arange(numpy.prod(shape)) * 0.7 + at).reshape(shape), requires_grad=True)


def told(tensors):
    """Each tensor as one number in which every element counts differently."""
    return engine.stack([(t.detach().flatten() * engine.cos(engine.arange(t.numel(), dtype=engine.float64) * 0.3)).sum() for t in tensors])


def weights(gates):
    shapes = ((gates * 3, 2), (gates * 3, 3), (gates * 3,), (gates * 3,))
    return [grid(*shape, at=i + more) for i in range(2) for shape, more in zip(shapes, (0, 3, 4, 5), strict=True)]


# padded: output and states, gradients of the input and two weights; packed: output and states; a cell's states
EXPECTED = {
    "lstm": ([1.340653258, 1.387703701, 3.799245676], [-0.534855475, 0.774945671, 4.376847951],
        [0.24868791, 0.789754165, 2.125128364], [0.031050216, 0.142621321]),
    "gru": ([2.701957117, 2.978179124], [-8.107903354, -1.714091862, 1.603136699],
        [3.203182585, 2.188539013], [1.852498909]),
    "rnn_tanh": ([-7.027150807, -3.266990942], [-1.2780915, 2.34563925, -3.679832303],
        [-2.449328225, -3.688790697], [-1.136809131]),
    "rnn_relu": ([-1.110221015, -5.70506607], [12.838986159, -5.222650505, 125.381245101],
        [0.424431146, -4.889406862], [1.185532202]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
def test_padded_packed_and_one_step(name, gates):
    padded, grads, packed, one = EXPECTED[name]
    params, x, h = weights(gates), grid(2, 4, 2), grid(2, 2, 3, at=1.0)
    hx = (h, grid(2, 2, 3, at=2.0)) if name == "lstm" else h
    out = getattr(engine, name)(x, hx, params, True, 1, 0.0, True, True, True)
    close(told(out), padded, rtol=1e-8)
    sum((o * o).sum() for o in out).backward()
    close(told([x.grad, params[1].grad, params[-1].grad]), grads, rtol=1e-8)
    out = getattr(engine._VF, name)(grid(5, 2), engine.tensor([2, 2, 1]), hx, params, True, 1, 0.0, True, True)
    close(told(out), packed, rtol=1e-8)
    rest = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": True, "bidirectional": True}
    close(told(getattr(engine, name)(grid(5, 2), engine.tensor([2, 2, 1]), hx, params, **rest)), packed, rtol=1e-8)
    h = grid(2, 3, at=1.0)
    got = getattr(engine, f"{name}_cell")(grid(2, 2), (h, grid(2, 3, at=2.0)) if name == "lstm" else h, *params[:4])
    close(told(got if name == "lstm" else [got]), one, rtol=1e-8)


def test_projections_and_keywords():
    w = [grid(12, 2), grid(12, 2, at=3), grid(12, at=4), grid(12, at=5), grid(2, 3, at=6)]
    hx = (grid(1, 2, 2), grid(1, 2, 3))
    close(told(engine.lstm(grid(3, 2, 2), hx, w, True, 1, 0.0, False, False, False)), [0.309654038, -0.054564538, 0.837296982], rtol=1e-7)
    got = engine.lstm(
        grid(3, 2, 2), hx=hx, params=w[:2] + w[4:], has_biases=False, num_layers=1, dropout=0.0, train=False, bidirectional=False,
        batch_first=False,
    )  # fmt: skip
    close(told(got), [0.548300611, -0.068613223, 0.272548565], rtol=1e-7)


def test_dropout_falls_out_between_layers_in_training_only():
    w = [grid(3, 3, at=i) for i in range(4)]
    whole = engine.rnn_tanh(grid(2, 1, 3), grid(2, 1, 3), w, False, 2, 1.0, False, False, False)
    none = engine.rnn_tanh(grid(2, 1, 3), grid(2, 1, 3), w, False, 2, 1.0, True, False, False)
    assert engine.equal(none[1][0], whole[1][0]) and not engine.equal(none[0], whole[0])
    assert engine.equal(none[0][0], engine.tanh(grid(2, 1, 3)[1] @ w[3].T))  # nothing came from below


def test_layers_take_the_same_weights():
    net = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True).double()
    x, hx = grid(2, 5, 4), (grid(4, 2, 3), grid(4, 2, 3, at=1))
    out, h, c = engine.lstm(x, hx, net._flat_weights, True, 2, 0.0, False, True, True)
    expected, (last_h, last_c) = net(x, hx)
    assert engine.equal(out, expected) and engine.equal(h, last_h) and engine.equal(c, last_c)


def test_refused():
    x, h, w = grid(3, 2, 4), grid(1, 2, 5), [grid(20, 4), grid(20, 5), grid(20), grid(20)]
    with pytest.raises(RuntimeError, match="expects two hidden states"):
        engine.lstm(x, (h,), w, True, 1, 0.0, False, False, False)
    with pytest.raises(TypeError, match=r"hx.*must be tuple of Tensors, not Tensor"):
        engine.lstm(x, h, w, True, 1, 0.0, False, False, False)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        engine.lstm(x, (h, h), w, True, 1, 0.0, False, False)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        engine.gru()
    with pytest.raises(RuntimeError, match="4 weights each, 8 in all, but got 4"):
        engine.lstm(x, (grid(2, 2, 5),) * 2, w, True, 2, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="hidden state 0 of 1 layers and directions and 2 sequences"):
        engine.lstm(x, (h[:, :1], h), w, True, 1, 0.0, False, False, False)  # PyTorch reads beyond the state's end here
    with pytest.raises(RuntimeError, match="larger than 0"):
        engine.lstm(x[:0], (h, h), w, True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="batch_sizes must not grow"):
        engine.lstm(x.reshape(6, 4), engine.tensor([1, 2, 3]), (h, h), w, True, 1, 0.0, False, False)
    with pytest.raises(TypeError, match=r"hx.*must be Tensor, not tuple"):
        engine.gru(x, (h, h), w, True, 1, 0.0, False, False, False)


def test_cells_refuse():
    cell, x, h = nn.LSTMCell(4, 5).double(), grid(2, 4), grid(2, 5)
    w = list(cell.parameters())
    assert engine.lstm_cell(x, (h, h), *w[:2])[0].shape == (2, 5)
    for call in (lambda *a: engine.lstm_cell(*a, *w), cell):
        with pytest.raises(RuntimeError, match="expects two hidden states"):
            call(x, (h, h, h))
        with pytest.raises(RuntimeError, match="Input batch size 2 doesn't match hidden1 batch size 1"):
            call(x, (h, h[:1]))
        with pytest.raises(RuntimeError, match="hidden0 has inconsistent hidden_size: got 4, expected 5"):
            call(x, (h[:, :4], h))
        with pytest.raises(RuntimeError, match="input has inconsistent input_size: got 3 expected 4"):
            call(x[:, :3], (h, h))
    with pytest.raises(RuntimeError, match="LSTMCell: Expected hidden to be 2D"):
        cell(x, (h[0], h))
    with pytest.raises(TypeError, match=r"'hx' \(position 2\) must be tuple of Tensors, not Tensor"):
        engine.lstm_cell(x, h, *w)
    with pytest.raises(TypeError, match=r"'hx' \(position 2\) must be Tensor, not NoneType"):
        engine.gru_cell(x, None, *w)
    with pytest.raises(IndexError):
        engine.gru_cell(x[0], h[0], *w)


def test_layers_check_what_they_are_given():
    net = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
    x, h = engine.zeros(3, 7, 4), engine.zeros(4, 3, 5)
    assert net.get_expected_hidden_size(x, None) == net.get_expected_cell_size(x, None) == (4, 3, 5)
    assert net.get_expected_hidden_size(x[0], engine.tensor([6, 1])) == (4, 6, 5)
    assert nn.LSTM(4, 5, proj_size=2).get_expected_hidden_size(x, None) == (1, 7, 2)
    net.check_forward_args(x, (h, h), None)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(4, 3, 5\), got \[4, 3, 4\]"):
        net.check_forward_args(x, (h, h[..., :4]), None)
    with pytest.raises(RuntimeError, match="input must have 2 dimensions, got 3"):
        net.check_input(x, engine.tensor([1]))
    with pytest.raises(ValueError, match="does not match weight dtype"):
        net.check_input(x.double(), None)
    with pytest.raises(RuntimeError, match=r"h of \(1,\), not \[2\]"):
        net.check_hidden_size(engine.zeros(2), (1,), "h of {}, not {}")
    order = engine.tensor([2, 0, 1])
    there = engine.arange(12.0).reshape(4, 3, 1)
    assert net.permute_hidden((there, there), order)[1][0].flatten().tolist() == [2, 0, 1]
    assert nn.GRU(4, 5).permute_hidden(there, order)[0].flatten().tolist() == [2, 0, 1] and net.permute_hidden(there, None) is there


def test_masks_are_merged():
    net = nn.MultiheadAttention(4, 2)
    query, causal = engine.zeros(1, 2, 4), engine.tensor([[True, False], [False, False]])
    assert net.merge_masks(None, None, query) == (None, None)
    padding = engine.tensor([[True, False]])
    assert net.merge_masks(None, padding, query) == (padding, 1)
    merged, kind = net.merge_masks(causal, padding, query)
    assert kind == 2 and merged.tolist() == [[[[True, False], [True, False]]] * 2]
    assert net.merge_masks(engine.ones(2, 2, 2), engine.ones(1, 2), query)[0].tolist() == [[[[2.0, 2.0], [2.0, 2.0]]] * 2]


def test_names_of_VF():
    assert engine._VF.lstm is engine.lstm and engine._VF.split is engine.split and engine._VF._weight_norm is engine._weight_norm
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        engine._VF.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nn'"):
        engine._VF.nn  # noqa: B018


def test_weight_norm():
    v = grid(2, 3, 2)
    for dim, g in ((0, (2, 1, 1)), (1, (1, 3, 1)), (-1, ())):
        g = engine.ones(g, dtype=engine.float64)
        others = tuple(i for i in range(3) if dim == -1 or i != dim)
        norm = numpy.sqrt((v.detach().numpy() ** 2).sum(others, keepdims=dim != -1))
        close(engine.norm_except_dim(v, 2, dim), norm)
        close(engine._weight_norm(v, g, dim), v.detach().numpy() / norm)
    with pytest.raises(IndexError, match="Dimension out of range"):
        engine.norm_except_dim(v, 2, 3)


def test_embedding_bag_tells_what_it_took():
    w, i, o = engine.arange(12.0).reshape(4, 3), engine.tensor([0, 1, 2, 3, 3]), engine.tensor([0, 2, 2])
    told = [t.tolist() for t in engine.embedding_bag(w, i, o)]
    assert told == [[[3.0, 5.0, 7.0], [0.0] * 3, [24.0, 27.0, 30.0]], [], [0, 0, 0], [0, 0, 0]]
    assert engine.embedding_bag(w.double(), i, o)[1].tolist() == [0, 0, 2, 2, 2]
    mean = engine.embedding_bag(w, i, o, False, 1, False, None, False, -1)
    assert [t.tolist() for t in mean] == [[[1.5, 2.5, 3.5], [0.0] * 3, [6.0, 7.0, 8.0]], [0, 0, 2, 2, 2], [2, 0, 1], [2, 0, 1]]
    largest = engine.embedding_bag(w, i, o, mode=2)
    assert largest[0].tolist() == [[3.0, 4.0, 5.0], [0.0] * 3, [9.0, 10.0, 11.0]] and largest[3].tolist() == [[1] * 3, [0] * 3, [3] * 3]
    assert engine._VF.embedding_bag(w, i, o, False, 2, False, None, False, 3)[3].tolist() == [[1] * 3, [0] * 3, [2] * 3]
    empty = engine.embedding_bag(w, i[:0], o[:0], mode=2)
    assert [tuple(t.shape) for t in empty] == [(0, 3), (0,), (0,), (0, 3)]
    with pytest.raises(RuntimeError, match="per_sample_weights only supported with mode='sum'"):
        engine.embedding_bag(w, i, o, mode=1, per_sample_weights=engine.ones(5))
    with pytest.raises(RuntimeError, match="mode must be"):
        engine.embedding_bag(w, i, o, mode=3)
    with pytest.raises(RuntimeError, match="weight has to be a 2D Tensor"):
        engine.embedding_bag(w[0], i, o)
    with pytest.raises(RuntimeError, match="padding_idx must be within"):
        engine.embedding_bag(w, i, o, padding_idx=9)
