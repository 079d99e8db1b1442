"""FlopCounterMode: operations of products and convolutions, by module, forward and backward; the table. Counts by arithmetic."""

from __future__ import annotations

import pytest

import engine
from engine import nn
from engine.base import observe
from engine.utils.flop_counter import FlopCounterMode


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.b(self.a(x).relu())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = Inner(), nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.inner(x))


def test_modules_forward_and_backward():
    with FlopCounterMode(display=False) as counter:
        Net()(engine.ones(2, 3)).sum().backward()
    a, b, head = 2 * 2 * 3 * 4, 2 * 2 * 4 * 3, 2 * 2 * 3
    assert counter.get_flop_counts() == {
        "Global": {"aten.addmm": a + b + head, "aten.mm": a + 2 * b + 2 * head},  # the input of the first needs no gradient
        "Net": {"aten.addmm": a + b + head, "aten.mm": a + 2 * b + 2 * head},
        "Net.inner": {"aten.addmm": a + b, "aten.mm": a + 2 * b},
        "Net.inner.a": {"aten.addmm": a, "aten.mm": a},
        "Net.inner.b": {"aten.addmm": b, "aten.mm": 2 * b},
        "Net.head": {"aten.addmm": head, "aten.mm": 2 * head},
    }
    assert counter.get_total_flops() == 2 * a + 3 * b + 3 * head


@pytest.mark.parametrize(
    ("program", "counts"),
    [
        (lambda: engine.ones(2, 3) @ engine.ones(3, 4), {"aten.mm": 48}),
        (lambda: engine.ones(5, 2, 3) @ engine.ones(3, 4), {"aten.mm": 240}),
        (lambda: engine.bmm(engine.ones(5, 2, 3), engine.ones(5, 3, 4)), {"aten.bmm": 240}),
        (lambda: engine.addmm(engine.ones(2, 4), engine.ones(2, 3), engine.ones(3, 4)), {"aten.addmm": 48}),
        (lambda: engine.einsum("bij,bjk->bik", engine.ones(5, 2, 3), engine.ones(5, 3, 4)), {"aten.bmm": 240}),
        (
            lambda: nn.functional.conv2d(engine.ones(2, 4, 5, 5), engine.ones(6, 2, 3, 3), groups=2),
            {"aten.convolution": 2 * 2 * 6 * 9 * 2 * 9},
        ),
        (lambda: nn.functional.conv_transpose2d(engine.ones(2, 3, 5, 5), engine.ones(3, 4, 2, 2)), {"aten.convolution": 4800}),
        (lambda: nn.functional.scaled_dot_product_attention(*[engine.ones(2, 4, 8)] * 3), {"aten.bmm": 2 * (2 * 2 * 4 * 4 * 8)}),
        (lambda: engine.ones(9).exp() + 1, {}),
        (lambda: engine.dot(engine.ones(3), engine.ones(3)), {}),
    ],
)
def test_single_ops(program, counts):
    with FlopCounterMode(display=False) as counter:
        program()
    assert counter.get_flop_counts() == ({"Global": counts} if counts else {})


def test_steps_of_convolutions():
    x, w = engine.ones(1, 2, 4, 4, requires_grad=True), engine.ones(3, 2, 3, 3, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        nn.functional.conv2d(x, w).sum().backward()
    once = 2 * 3 * 4 * 2 * 9
    assert counter.get_flop_counts()["Global"] == {"aten.convolution": once, "aten.convolution_backward": 2 * once}


def test_the_table(capsys):
    with FlopCounterMode(depth=1) as counter:
        Net()(engine.ones(2, 3))
    assert capsys.readouterr().out == counter.get_table() + "\n"
    assert counter.get_table() == (
        "Module            FLOP    % Total\n"
        "-------------  -------  ---------\n"
        "Net            108.000    100.00%\n"
        " - aten.addmm  108.000    100.00%"
    )
    assert "  Net.inner  " not in counter.get_table(1) and " Net.inner " in counter.get_table(2)
    with FlopCounterMode(display=False) as counter:
        nn.Linear(100, 100)(engine.ones(100, 100))
        engine.mm(engine.ones(100, 100), engine.ones(100, 100))
    assert counter.get_table().splitlines()[2].split() == ["Global", "4000.000K", "100.00%"]
    assert FlopCounterMode().get_table().splitlines()[2].split() == ["Global", "0", "0%"]


def test_what_is_refused_and_that_others_watch():
    counter = FlopCounterMode(display=False)
    with pytest.raises(RuntimeError, match="without having been entered"):
        counter.__exit__()
    with pytest.warns(UserWarning, match="mods argument"):
        FlopCounterMode(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="custom_mapping"):
        FlopCounterMode(custom_mapping={"aten.mm": lambda: 0})
    with observe.observing(observe.Observer()) as before:
        with counter, pytest.raises(RuntimeError, match="counting already"):
            counter.__enter__()
        assert observe.current is before
