"""Recurrent layers, their cells and packed sequences. Expected numbers are torch 2.13's."""

from __future__ import annotations

import numpy
import pytest
from nets import close, values

import engine
from engine import nn
from engine.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(name):
    engine.manual_seed(0)
    net = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True)
    x = engine.tensor(numpy.linspace(-1, 1, 12, dtype=numpy.float32).reshape(3, 2, 2))
    out, state = net(x)
    h = state[0] if name == "LSTM" else state
    assert out.shape == (3, 2, 6) and h.shape == (4, 2, 3)
    close(out[:, 0, :2], EXPECTED[f"{name}.out"])
    close(h.sum((1, 2)), EXPECTED[f"{name}.h"])
    out.sum().backward()
    close(net.weight_hh_l0.grad.sum(1), EXPECTED[f"{name}.grad"])


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_equal_each_alone(name):
    engine.manual_seed(1)
    net = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True).double()
    sequences = [engine.randn(n, 2).double() for n in (2, 5, 1, 4)]
    packed, state = net(pack_sequence(sequences, enforce_sorted=False))
    for i, (sequence, out) in enumerate(zip(sequences, unpack_sequence(packed), strict=True)):
        alone, alone_state = net(sequence)
        close(out, values(alone), rtol=1e-12)
        for s, a in zip(state, alone_state, strict=True) if name == "LSTM" else [(state, alone_state)]:
            close(s[:, i], values(a), rtol=1e-12)


def test_cells_are_one_step():
    engine.manual_seed(0)
    for cell, layer in ((nn.LSTMCell(2, 3), nn.LSTM(2, 3)), (nn.GRUCell(2, 3), nn.GRU(2, 3)), (nn.RNNCell(2, 3), nn.RNN(2, 3))):
        layer.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
        x = engine.randn(4, 2)
        expected = layer(x.unsqueeze(0))[0][0]
        got = cell(x)
        close(got[0] if isinstance(got, tuple) else got, values(expected))
        single = cell(x[1])
        close(single[0] if isinstance(single, tuple) else single, values(expected)[1])


def test_recurrent_mistakes():
    net = nn.LSTM(2, 3)
    for args, error, message in (
        ((engine.ones(4, 1, 5),), RuntimeError, r"input.size\(-1\) must be equal to input_size. Expected 2, got 5"),
        ((engine.ones(2),), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        ((engine.ones(4, 1, 2), (engine.ones(1, 2, 3), engine.ones(1, 1, 3))), RuntimeError, r"Expected hidden\[0\] size \(1, 1, 3\)"),
        ((engine.ones(4, 1, 2), (engine.ones(1, 3), engine.ones(1, 3))), RuntimeError, "hx should also be 3-D but got 2-D and 2-D tensors"),
    ):
        with pytest.raises(error, match=message):
            net(*args)


def test_dropout_behind_the_only_layer_is_told():
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer"):
        nn.GRU(2, 3, dropout=0.5)


def test_padding_and_packing():
    a, b = engine.tensor([[1.0], [2.0], [3.0]]), engine.tensor([[4.0]])
    assert pad_sequence([a, b], batch_first=True, padding_value=9).squeeze(-1).tolist() == [[1, 2, 3], [4, 9, 9]]
    assert pad_sequence([a, b], padding_side="left").squeeze(-1).tolist() == [[1, 0], [2, 0], [3, 4]]
    packed = pack_padded_sequence(pad_sequence([b, a]), [1, 3], enforce_sorted=False)
    assert packed.data.squeeze(-1).tolist() == [1, 4, 2, 3] and packed.batch_sizes.tolist() == [2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 0]
    padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1, total_length=4)
    assert padded.squeeze(-1).tolist() == [[4, -1, -1, -1], [1, 2, 3, -1]] and lengths.tolist() == [1, 3]
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        pack_padded_sequence(engine.ones(3, 2, 1), [1, 3])
    with pytest.raises(RuntimeError, match="Length of all samples has to be greater than 0"):
        pack_padded_sequence(engine.ones(3, 2, 1), [3, 0])


# written by torch 2.13 with the seeds and inputs of the tests above
EXPECTED = {
    "LSTM.out": [[-0.1945755, 0.0206937], [-0.2795466, 0.0294434], [-0.3108786, 0.0357557]],
    "LSTM.h": [-0.4905123, -1.2588058, -0.258393, -1.1081796],
    "LSTM.grad": [-0.0005992, -0.006785, -0.00284, -0.0011626, -0.0011626, -0.0035695, -0.0084706, 0.0499311, 0.0235905, -0.0012095,
        -0.0069223, -0.0066305],
    "GRU.out": [[-0.2545145, -0.4010935], [-0.3866149, -0.5522646], [-0.3001113, -0.4695657]],
    "GRU.h": [1.2205776, -0.3471004, -2.0007799, 0.9815267],
    "GRU.grad": [-0.0368173, 0.0069818, -0.0410822, -0.0794033, 0.0118689, -0.0510326, -0.3783848, 0.0195744, 0.2411929],
    "RNN.out": [[0.3176312, 0.2994594], [0.7517131, 0.2189816], [0.8354951, 0.582179]],
    "RNN.h": [-0.6486306, 0.2532239, 3.4457035, -3.0830159],
    "RNN.grad": [1.1568457, -0.1402364, -0.4046881],
}  # fmt: skip


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_an_empty_batch(name):
    layer, x = getattr(nn, name)(2, 3, bidirectional=True), engine.zeros(4, 0, 2, requires_grad=True)
    out, state = layer(x)
    h = state[0] if name == "LSTM" else state
    assert out.shape == (4, 0, 6) and h.shape == (2, 0, 3)
    out.sum().backward()
    assert x.grad.shape == x.shape and layer.weight_ih_l0.grad.abs().sum().item() == 0


def test_packed_sequences_in_other_types():
    packed = pack_sequence([engine.tensor([[1.5], [2.0]]), engine.tensor([[3.0]])])
    for name in ("double", "float", "half", "long", "int", "short", "char", "byte"):
        cast = getattr(packed, name)()
        assert type(cast) is type(packed) and cast.data.dtype is getattr(engine.ones(1), name)().dtype
        assert cast.data.tolist() == getattr(packed.data, name)().tolist() and cast.batch_sizes.tolist() == [2, 1]
    assert packed.cpu() is packed and packed.is_pinned() is False


def test_the_wrong_kind_of_state():
    x, h = engine.ones(1, 3, 2), engine.zeros(1, 3, 4)
    with pytest.raises(RuntimeError, match=r"LSTM: expected hx to be a pair \(h_0, c_0\), but got Tensor"):
        nn.LSTM(2, 4)(x, h)
    with pytest.raises(RuntimeError, match="GRU: expected hx to be a Tensor, but got tuple"):
        nn.GRU(2, 4)(x, (h, h))
    assert nn.LSTM(2, 4)(x, [h, h])[0].shape == (1, 3, 4)


def test_what_cannot_be_padded():
    with pytest.raises(RuntimeError, match="Expected iterable for input sequences"):
        pad_sequence(5)


def test_chunks_of_steps_do_not_show():
    """More than what is worked on at a time gives what its parts give alone, forwards and backwards in time."""
    engine.manual_seed(0)
    layer = nn.LSTM(3, 8, bidirectional=True, dtype=engine.float64)
    x, g = (engine.randn(7, 1400, n, dtype=engine.float64) for n in (3, 16))
    x.requires_grad_()
    layer(x)[0].backward(g)
    whole = [x.grad.clone(), *(p.grad.clone() for p in layer.parameters())]
    x.grad = None
    layer.zero_grad()
    for i in range(0, 1400, 50):
        layer(x[:, i : i + 50])[0].backward(g[:, i : i + 50])
    for a, b in zip(whole, [x.grad, *(p.grad for p in layer.parameters())], strict=True):
        assert engine.allclose(a, b)
