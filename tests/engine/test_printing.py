"""Tensors as text: the strings are what PyTorch 2.13 prints."""

from __future__ import annotations

import math

import pytest

import engine
from engine.core import printing
from grouping import grouped

EXPECTED = {
    "engine.tensor(1.5)": "tensor(1.5000)",
    "engine.tensor(3)": "tensor(3)",
    "engine.tensor(True)": "tensor(True)",
    "engine.tensor(1 - 2j)": "tensor(1.-2.j)",
    "engine.tensor([1.0, 2.0, 3.0])": "tensor([1., 2., 3.])",
    "engine.tensor([1.0, 2.5, -3.25])": "tensor([ 1.0000,  2.5000, -3.2500])",
    "engine.tensor([1, -20, 300])": "tensor([  1, -20, 300])",
    "engine.tensor([True, False])": "tensor([ True, False])",
    "engine.tensor([1e-5, 1.0])": "tensor([1.0000e-05, 1.0000e+00])",
    "engine.tensor([1e9, 1.0])": "tensor([1.0000e+09, 1.0000e+00])",
    "engine.tensor([0.001, 5.0])": "tensor([1.0000e-03, 5.0000e+00])",
    "engine.tensor([100000.5, 1.0])": "tensor([1.0000e+05, 1.0000e+00])",
    "engine.tensor([123456789.0])": "tensor([1.2346e+08])",
    "engine.tensor([math.nan, 1.0, -math.inf])": "tensor([nan, 1., -inf])",
    "engine.tensor([math.nan, 1.5])": "tensor([   nan, 1.5000])",
    "engine.tensor([math.inf])": "tensor([inf])",
    "engine.tensor([0.0, 0.0])": "tensor([0., 0.])",
    "engine.tensor([1.5 + 2j, -3 - 0.25j])": "tensor([ 1.5000+2.0000j, -3.0000-0.2500j])",
    "engine.tensor([[1.0, 2.0], [3.0, 4.5]])": ("tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])"),
    "engine.tensor([1.0], dtype=engine.float64)": "tensor([1.], dtype=torch.float64)",
    "engine.tensor([1.5], dtype=engine.float16)": "tensor([1.5000], dtype=torch.float16)",
    "engine.tensor([1.5, 3.0], dtype=engine.bfloat16)": "tensor([1.5000, 3.0000], dtype=torch.bfloat16)",
    "engine.tensor([1], dtype=engine.int32)": "tensor([1], dtype=torch.int32)",
    "engine.tensor([1, 255], dtype=engine.uint8)": "tensor([  1, 255], dtype=torch.uint8)",
    "engine.tensor([])": "tensor([])",
    "engine.zeros(0, 3)": "tensor([], size=(0, 3))",
    "engine.zeros(2, 0, dtype=engine.int64)": "tensor([], size=(2, 0), dtype=torch.int64)",
    "engine.tensor([], dtype=engine.int64)": "tensor([], dtype=torch.int64)",
    "engine.arange(24.0).reshape(2, 3, 4)": (
        "tensor([[[ 0.,  1.,  2.,  3.],\n"
        "         [ 4.,  5.,  6.,  7.],\n"
        "         [ 8.,  9., 10., 11.]],\n"
        "\n"
        "        [[12., 13., 14., 15.],\n"
        "         [16., 17., 18., 19.],\n"
        "         [20., 21., 22., 23.]]])"
    ),
    "engine.arange(40)": (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n"
        "        36, 37, 38, 39])"
    ),
    "engine.arange(40) * 0.5": (
        "tensor([ 0.0000,  0.5000,  1.0000,  1.5000,  2.0000,  2.5000,  3.0000,  3.5000,\n"
        "         4.0000,  4.5000,  5.0000,  5.5000,  6.0000,  6.5000,  7.0000,  7.5000,\n"
        "         8.0000,  8.5000,  9.0000,  9.5000, 10.0000, 10.5000, 11.0000, 11.5000,\n"
        "        12.0000, 12.5000, 13.0000, 13.5000, 14.0000, 14.5000, 15.0000, 15.5000,\n"
        "        16.0000, 16.5000, 17.0000, 17.5000, 18.0000, 18.5000, 19.0000, 19.5000])"
    ),
    "engine.arange(1001)": "tensor([   0,    1,    2,  ...,  998,  999, 1000])",
    "engine.arange(10000).reshape(100, 100)": (
        "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n"
        "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
        "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
        "        ...,\n"
        "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n"
        "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n"
        "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])"
    ),
    "engine.arange(2000.0).reshape(10, 200) / 7": (
        "tensor([[0.0000e+00, 1.4286e-01, 2.8571e-01,  ..., 2.8143e+01, 2.8286e+01,\n"
        "         2.8429e+01],\n"
        "        [2.8571e+01, 2.8714e+01, 2.8857e+01,  ..., 5.6714e+01, 5.6857e+01,\n"
        "         5.7000e+01],\n"
        "        [5.7143e+01, 5.7286e+01, 5.7429e+01,  ..., 8.5286e+01, 8.5429e+01,\n"
        "         8.5571e+01],\n"
        "        ...,\n"
        "        [2.0000e+02, 2.0014e+02, 2.0029e+02,  ..., 2.2814e+02, 2.2829e+02,\n"
        "         2.2843e+02],\n"
        "        [2.2857e+02, 2.2871e+02, 2.2886e+02,  ..., 2.5671e+02, 2.5686e+02,\n"
        "         2.5700e+02],\n"
        "        [2.5714e+02, 2.5729e+02, 2.5743e+02,  ..., 2.8529e+02, 2.8543e+02,\n"
        "         2.8557e+02]])"
    ),
    "engine.arange(8000).reshape(20, 20, 20)": (
        "tensor([[[   0,    1,    2,  ...,   17,   18,   19],\n"
        "         [  20,   21,   22,  ...,   37,   38,   39],\n"
        "         [  40,   41,   42,  ...,   57,   58,   59],\n"
        "         ...,\n"
        "         [ 340,  341,  342,  ...,  357,  358,  359],\n"
        "         [ 360,  361,  362,  ...,  377,  378,  379],\n"
        "         [ 380,  381,  382,  ...,  397,  398,  399]],\n"
        "\n"
        "        [[ 400,  401,  402,  ...,  417,  418,  419],\n"
        "         [ 420,  421,  422,  ...,  437,  438,  439],\n"
        "         [ 440,  441,  442,  ...,  457,  458,  459],\n"
        "         ...,\n"
        "         [ 740,  741,  742,  ...,  757,  758,  759],\n"
        "         [ 760,  761,  762,  ...,  777,  778,  779],\n"
        "         [ 780,  781,  782,  ...,  797,  798,  799]],\n"
        "\n"
        "        [[ 800,  801,  802,  ...,  817,  818,  819],\n"
        "         [ 820,  821,  822,  ...,  837,  838,  839],\n"
        "         [ 840,  841,  842,  ...,  857,  858,  859],\n"
        "         ...,\n"
        "         [1140, 1141, 1142,  ..., 1157, 1158, 1159],\n"
        "         [1160, 1161, 1162,  ..., 1177, 1178, 1179],\n"
        "         [1180, 1181, 1182,  ..., 1197, 1198, 1199]],\n"
        "\n"
        "        ...,\n"
        "\n"
        "        [[6800, 6801, 6802,  ..., 6817, 6818, 6819],\n"
        "         [6820, 6821, 6822,  ..., 6837, 6838, 6839],\n"
        "         [6840, 6841, 6842,  ..., 6857, 6858, 6859],\n"
        "         ...,\n"
        "         [7140, 7141, 7142,  ..., 7157, 7158, 7159],\n"
        "         [7160, 7161, 7162,  ..., 7177, 7178, 7179],\n"
        "         [7180, 7181, 7182,  ..., 7197, 7198, 7199]],\n"
        "\n"
        "        [[7200, 7201, 7202,  ..., 7217, 7218, 7219],\n"
        "         [7220, 7221, 7222,  ..., 7237, 7238, 7239],\n"
        "         [7240, 7241, 7242,  ..., 7257, 7258, 7259],\n"
        "         ...,\n"
        "         [7540, 7541, 7542,  ..., 7557, 7558, 7559],\n"
        "         [7560, 7561, 7562,  ..., 7577, 7578, 7579],\n"
        "         [7580, 7581, 7582,  ..., 7597, 7598, 7599]],\n"
        "\n"
        "        [[7600, 7601, 7602,  ..., 7617, 7618, 7619],\n"
        "         [7620, 7621, 7622,  ..., 7637, 7638, 7639],\n"
        "         [7640, 7641, 7642,  ..., 7657, 7658, 7659],\n"
        "         ...,\n"
        "         [7940, 7941, 7942,  ..., 7957, 7958, 7959],\n"
        "         [7960, 7961, 7962,  ..., 7977, 7978, 7979],\n"
        "         [7980, 7981, 7982,  ..., 7997, 7998, 7999]]])"
    ),
    "engine.ones(3, requires_grad=True)": "tensor([1., 1., 1.], requires_grad=True)",
    "engine.ones(3, requires_grad=True) * 2": "tensor([2., 2., 2.], grad_fn=<MulBackward0>)",
    "engine.ones(30, requires_grad=True).exp()": (
        "tensor([2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183,\n"
        "        2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183,\n"
        "        2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183, 2.7183,\n"
        "        2.7183, 2.7183, 2.7183], grad_fn=<ExpBackward0>)"
    ),
    "engine.ones(8, dtype=engine.float64, requires_grad=True) / 3": (
        "tensor([0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333],\n       dtype=torch.float64, grad_fn=<DivBackward0>)"
    ),
    "engine.ones(2, 2, requires_grad=True).sum()": "tensor(4., grad_fn=<SumBackward0>)",
}


@pytest.fixture(autouse=True)
def usual_options():
    yield
    engine.set_printoptions(profile="default")


@grouped("made", EXPECTED)
def test_text(made):
    tensor = eval(made, {"engine": engine, "math": math})
    assert repr(tensor) == EXPECTED[made]


def test_precision_width_and_summary():
    engine.set_printoptions(precision=2, linewidth=30, threshold=5, edgeitems=2)
    assert repr(engine.arange(12.0) / 7) == "tensor([0.00, 0.14,  ...,\n        1.43, 1.57])"
    assert repr(engine.arange(4.0) / 7) == "tensor([0.00, 0.14, 0.29,\n        0.43])"


def test_scientific_format_forced_and_forbidden():
    engine.set_printoptions(sci_mode=True)
    assert repr(engine.tensor([1.0, 2.0])) == "tensor([1.0000e+00, 2.0000e+00])"
    engine.set_printoptions(sci_mode=False)
    assert repr(engine.tensor([1e-6, 2e6])) == "tensor([      0.0000, 2000000.0000])"


def test_format():
    """Literals from PyTorch: a 0-d tensor formats as its number, and only it takes a format."""
    assert f"{engine.tensor(3.0)}" == "3.0" and f"{engine.tensor(3.0, requires_grad=True):.2f}" == "3.00"
    assert f"{engine.tensor([3.0])}" == "tensor([3.])"
    assert f"{engine.nn.Parameter(engine.tensor(3.0))}" == "Parameter containing:\ntensor(3., requires_grad=True)"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{engine.tensor([3.0]):.2f}"


def test_profiles():
    engine.set_printoptions(profile="full")
    assert "..." not in repr(engine.arange(1500))
    engine.set_printoptions(profile="short")
    assert repr(engine.tensor([0.12345])) == "tensor([0.12])"
    engine.set_printoptions(profile="default")
    assert printing.options.precision == 4 and "..." in repr(engine.arange(1500))
    with pytest.raises(ValueError, match="profile must be one of"):
        engine.set_printoptions(profile="long")


def test_results_of_several_are_called_by_their_op():
    values = engine.core.op.functions["linalg.svd"](engine.eye(2, requires_grad=True)).S
    assert repr(values) == "tensor([1., 1.], grad_fn=<LinalgSvdBackward0>)"
