"""What programs see of optimizers and schedulers around the numbers: hooks, older files, warnings, state dicts. Values are PyTorch 2.13's."""

from __future__ import annotations

import copy
import warnings

import numpy
import pytest

import engine
from engine import optim
from engine.optim import lr_scheduler


def ones(*shape, dtype=None):
    return engine.ones(*shape, dtype=dtype, requires_grad=True)


def test_hooks_get_the_arguments_with_the_optimizer_first():
    optimizer, told = optim.SGD([ones(2)]), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: told.append((args[0] is o, len(args), sorted(kwargs))))
    optimizer.register_step_post_hook(lambda o, args, kwargs: told.append((args[0] is o, len(args), sorted(kwargs))))
    optimizer.step()
    optimizer.step(lambda: 1.0)
    optimizer.step(closure=lambda: 1.0)
    assert told == [(True, 1, [])] * 2 + [(True, 2, [])] * 2 + [(True, 1, ["closure"])] * 2


def test_a_hook_gives_the_step_other_arguments():
    optimizer = optim.SGD([ones(2)])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7.0), {}))
    assert optimizer.step() == 7.0


@pytest.mark.parametrize(
    ("name", "second"),
    [("Adam", 0.998), ("AdamW", 0.99798), ("NAdam", 0.99632), ("RAdam", 0.998), ("Adamax", 0.996), ("RMSprop", 0.82911),
     ("Adagrad", 0.98293), ("Adadelta", 0.99359), ("ASGD", 0.98), ("Rprop", 0.978)],
)  # fmt: skip
def test_step_counts_of_older_files_are_plain_numbers(name, second):
    p = ones(2)
    first = getattr(optim, name)([p])
    p.grad = engine.ones(2)
    first.step()
    saved = copy.deepcopy(first.state_dict())
    for key in ("step", "mu_product", "eta", "mu"):
        if key in saved["state"][0]:
            saved["state"][0][key] = float(saved["state"][0][key])
    resumed = getattr(optim, name)([p])
    resumed.load_state_dict(saved)
    resumed.step()
    numpy.testing.assert_allclose(p.tolist(), [second] * 2, atol=5e-6)
    assert all(x.dtype is engine.float32 for x in resumed.state[p].values())


def test_adagrad_starts_every_group_with_the_sum_of_the_constructor():
    a, b = ones(1), ones(1)
    optimizer = optim.Adagrad([{"params": [a]}, {"params": [b], "initial_accumulator_value": 0.3}], initial_accumulator_value=0.1)
    assert [round(optimizer.state[p]["sum"].item(), 6) for p in (a, b)] == [0.1, 0.1]


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "RMSprop"])
def test_a_complex_parameter_may_be_empty(name):
    p = ones(0, 3, dtype=engine.complex64)
    optimizer = getattr(optim, name)([p])
    p.grad = engine.ones(0, 3, dtype=engine.complex64)
    optimizer.step()
    assert p.shape == (0, 3)


def test_a_line_search_stays_within_max_eval():
    """PyTorch's evaluations: the search of the third step may try twice more, where the conditions would ask for three."""
    r = numpy.random.default_rng(4)
    params = [engine.tensor(r.standard_normal(shape), requires_grad=True) for shape in ((3, 4), 4)]
    optimizer = optim.LBFGS(params, max_iter=3, history_size=3, line_search_fn="strong_wolfe", max_eval=4)
    losses = []

    def closure():
        optimizer.zero_grad()
        x = engine.cat([p.reshape(-1) for p in params])
        loss = ((x - 1) ** 4).sum() + (x * 0.3).sin().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    calls = []
    for _ in range(4):
        optimizer.step(closure)
        calls.append(len(losses))
    assert calls == [4, 8, 13, 17]
    numpy.testing.assert_allclose(losses[-5:], [3.37019, 3.37019, 3.30494, 3.27586, 3.26857], atol=5e-5)


def test_lbfgs_takes_sparse_gradients_as_dense_ones():
    trained = []
    for sparse in (True, False):
        table = engine.nn.Embedding(5, 3, sparse=sparse, _weight=engine.arange(15.0).reshape(5, 3))
        optimizer = optim.LBFGS(table.parameters(), lr=0.1, max_iter=3)

        def closure(table=table, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (table(engine.tensor([0, 1, 1])) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        trained.append(table.weight.detach().numpy())
    numpy.testing.assert_array_equal(*trained)
    assert trained[0][1, 0] < 3 and (trained[0][2:] == numpy.arange(6.0, 15.0).reshape(3, 3)).all()


# -- schedules ---------------------------------------------------------------------------------------------------------------------


def test_get_lr_between_steps_warns():
    optimizer = optim.SGD([ones(2)], lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        assert scheduler.get_lr() == pytest.approx([0.001])


def test_warm_restarts_do_not_ask_for_an_order_and_take_epochs():
    optimizer = optim.SGD([ones(2)], lr=0.1)
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
        scheduler.step(0.5)
    assert scheduler.get_last_lr() == pytest.approx([0.1 * (1 + numpy.cos(numpy.pi / 4)) / 2])
    assert scheduler.state_dict()["_step_count"] == 0


def test_a_sequence_whose_first_milestone_is_0_starts_with_the_second_schedule():
    optimizer = optim.SGD([ones(2)], lr=0.2)
    parts = [lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.ConstantLR(optimizer, 0.5, 1)]
    scheduler = lr_scheduler.SequentialLR(optimizer, parts, [0])
    rates = [scheduler.get_last_lr()[0]]
    for _ in range(2):
        optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
    assert rates == pytest.approx([0.1, 0.2, 0.2])


def test_the_state_of_a_schedule_has_pytorchs_entries_in_its_order():
    scheduler = lr_scheduler.ExponentialLR(optim.SGD([ones(2)], lr=0.1), 0.9)
    assert list(scheduler.state_dict().items()) == [
        ("gamma", 0.9), ("base_lrs", [0.1]), ("last_epoch", 0), ("_step_count", 1), ("_is_initial", False),
        ("_get_lr_called_within_step", False), ("_last_lr", [0.1]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "Adagrad", "Adafactor"])
def test_numbers_of_the_state_in_the_default_dtype(name):
    """As PyTorch keeps them: float64 where that is the default, float32 else."""
    for dtype, kept in ((engine.float64, engine.float64), (engine.float32, engine.float32), (engine.float16, engine.float32)):
        engine.set_default_dtype(dtype)
        try:
            p = engine.ones(2, 2, dtype=engine.float32, requires_grad=True)
            optimizer = getattr(engine.optim, name)([p], lr=0.1)
            p.sum().backward()
            optimizer.step()
        finally:
            engine.set_default_dtype(engine.float32)
        numbers = [s for s in optimizer.state[p].values() if isinstance(s, engine.Tensor) and s.ndim == 0]
        assert numbers and {s.dtype for s in numbers} == {kept}
