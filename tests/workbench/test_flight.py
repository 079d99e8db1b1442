"""The flight recorder: when it writes, what is in its file, what a damaged file does, and going on from a recorded step."""

import gc
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import textwrap

import numpy
import pytest

import engine
import workbench as wb
from engine import nn
from workbench.flights.file import FlightFileError, read, write


class Training:
    """A small regression; `change(i, loss)` may spoil the loss of step i."""

    def __init__(self, path, n=30, change=lambda i, loss: loss, **options):
        engine.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.optimizer = engine.optim.Adam(self.model.parameters(), lr=0.01)
        self.x, self.y = engine.randn(n, 2, 4), engine.randn(n, 2, 1)
        self.path, self.n, self.change, self.options = path, n, change, options
        self.flight = None

    def step(self, x, y, i=0):
        loss = self.change(i, (self.model(x) - y).square().mean())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self):
        with wb.flight(self.model, self.optimizer, path=self.path, **self.options) as self.flight:
            for i in self.flight(range(self.n)):
                self.step(self.x[i], self.y[i], i)
        return self.flight

    def weights(self):
        return [p.detach().numpy().copy() for p in self.model.parameters()]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "run.flight")


def after_the_run(training):
    """What the loop gives for each step when nothing records it."""
    again = Training("", training.n, training.change)
    return [again.step(again.x[i], again.y[i], i) for i in range(again.n)], again


# -- what makes it write ---------------------------------------------------------------------------------------------------------


def at(step, change):
    return lambda i, loss: change(loss) if i == step else loss


@pytest.mark.parametrize(
    ("change", "options", "why"),
    [
        (at(25, lambda loss: loss * math.nan), {}, "The loss is nan"),
        (at(25, lambda loss: (loss * 0).log().exp() + 1 / (loss * 0)), {}, "The loss is inf"),
        (at(25, lambda loss: loss * 1e5), {}, "The loss is .* robust standard deviations above the median .* of 25 steps"),
        (at(25, lambda loss: loss + (loss - loss).sqrt() * 0), {}, "The gradient of .* is not finite"),
        (at(25, lambda loss: loss * 40), {"when": "norm > 20", "spike": None}, r"norm > 20 holds for the gradient of .*: norm [\d.]+"),
    ],
    ids=["nan", "inf", "spike", "gradient", "condition"],
)
def test_a_step_that_goes_wrong_is_written(path, capsys, monkeypatch, change, options, why):
    monkeypatch.setattr("workbench.flights.triggers.SHARE", math.inf)  # gradients are looked at in each step
    flight = Training(path, change=change, **options).run()
    opened = wb.open(path)
    assert opened.steps[-1].number == 25
    assert len(opened.steps) >= 3
    assert flight.why == opened.why
    assert re.fullmatch(why, opened.why), opened.why
    told = capsys.readouterr().err
    ends = " Recording ends." if flight.over else ""
    assert told.startswith(f"wb.flight: {opened.why} in step 25.{ends} Writing {path} (")


def test_a_healthy_training_writes_nothing(path):
    flight = Training(path).run()
    assert not os.path.exists(path)
    assert flight.why == ""
    assert repr(flight).startswith("Flight recorder: 30 steps, steps ")
    losses, _ = after_the_run(Training(path))
    numpy.testing.assert_array_equal(flight.curve, numpy.array([*enumerate(losses)]))


def test_an_exception_is_written_and_passes_through(path):
    def change(i, loss):
        if i == 7:
            raise ValueError("the data has ended")
        return loss

    training = Training(path, change=change)
    with pytest.raises(ValueError, match="the data has ended"):
        training.run()
    opened = wb.open(path)
    assert opened.why == "It raised ValueError: the data has ended"
    assert opened.steps[-1].number == 7
    assert opened.steps[-1].error == "ValueError: the data has ended"
    repeated = opened.repeat(program=training.run)
    assert repeated.same
    assert repeated.error == "ValueError: the data has ended"


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
def test_a_signal_asks_for_the_file(path):
    before = signal.getsignal(signal.SIGUSR1)

    def change(i, loss):
        if i == 11:
            os.kill(os.getpid(), signal.SIGUSR1)
        return loss

    Training(path, change=change, signal=signal.SIGUSR1).run()
    assert wb.open(path).why == "A signal came"
    assert wb.open(path).steps[-1].number == 11
    assert signal.getsignal(signal.SIGUSR1) is before


def test_it_can_be_saved_at_any_time(path, tmp_path):
    flight = Training(path).run()
    other = str(tmp_path / "other.flight")
    assert flight.save(other) == other
    assert wb.open(other).steps[-1].number == 29


def test_the_first_cause_is_kept(path):
    """Once the loss is NaN, each later step is, and none of them says more: recording ends."""
    flight = Training(path, change=lambda i, loss: loss * math.nan if i >= 20 else loss).run()
    assert flight.over
    assert flight.steps[-1].number == 20
    assert flight.repeat().step.number == 20
    assert wb.open(path).steps[-1].number == 20


def test_a_file_that_cannot_be_written_does_not_end_the_training(tmp_path):
    training = Training(str(tmp_path / "missing" / "run.flight"), change=at(25, lambda loss: loss * 1e5))
    with pytest.warns(UserWarning, match="could not be written: .*No such file or directory"):
        flight = training.run()
    assert flight.steps[-1].number == 29


def test_a_recorder_that_fails_does_not_end_the_training(path, monkeypatch):
    def full(slot, parts):
        raise OSError(28, "No space left on device")

    _, other = after_the_run(Training(path))
    training = Training(path)
    monkeypatch.setattr("workbench.flights.log.Slot.store", full)
    with pytest.warns(UserWarning, match="recording has ended, as it failed: OSError: .*No space left on device"):
        flight = training.run()
    assert flight.over and not flight.steps
    for mine, expected in zip(training.weights(), other.weights(), strict=True):
        numpy.testing.assert_array_equal(mine, expected)


# -- going on --------------------------------------------------------------------------------------------------------------------


def test_training_goes_on_from_a_recorded_step(path):
    losses, other = after_the_run(Training(path))
    training = Training(path, keep=5)
    flight = training.run()
    numpy.testing.assert_array_equal(training.weights()[0], other.weights()[0])
    number = flight.steps[-4].number
    step = flight.resume(number)
    assert step.number == number == 26
    again = [training.step(training.x[i], training.y[i], i) for i in flight.batches(number)]
    numpy.testing.assert_array_equal(again, losses[number:])
    for mine, expected in zip(training.weights(), other.weights(), strict=True):
        numpy.testing.assert_array_equal(mine, expected)


def test_a_file_is_put_into_a_new_model(path):
    training = Training(path)
    training.run().save()
    losses, other = after_the_run(training)
    new, opened = Training(path), wb.open(path)
    with pytest.raises(ValueError, match="into=\\(model, optimizer\\)"):
        opened.resume()
    step = opened.resume(into=(new.model, new.optimizer), program=Training(path).run)
    assert new.step(new.x[29], new.y[29], 29) == losses[step.number] == losses[29]
    numpy.testing.assert_array_equal(new.weights()[0], other.weights()[0])


def test_bisection_finds_the_first_step_with_a_condition(path):
    training = Training(path, keep=6, spike=None)
    training.y[26] = 1e6
    flight = training.run()
    found = flight.bisect(lambda model: training.optimizer.state[model[0].weight]["exp_avg_sq"].max() > 1e3)
    assert found.number == 27  # step 26 had the large gradient
    assert flight.bisect(lambda model: model[0].weight.isinf().any()) is None


def test_a_repeated_step_leaves_everything_as_it_was(path):
    training = Training(path)
    flight = training.run()
    before, chance, own = training.weights(), engine.get_rng_state(), random.getstate()
    state = training.optimizer.state_dict()["state"][0]["exp_avg"].numpy().copy()
    assert flight.repeat(-2).same
    for mine, expected in zip(training.weights(), before, strict=True):
        numpy.testing.assert_array_equal(mine, expected)
    numpy.testing.assert_array_equal(training.optimizer.state_dict()["state"][0]["exp_avg"].numpy(), state)
    assert engine.equal(engine.get_rng_state(), chance)
    assert random.getstate() == own


def test_what_differs_is_named(path):
    training = Training(path)
    training.run().save()
    other = Training(path, change=lambda i, loss: loss * 1.0001)
    repeated = wb.open(path).repeat(program=other.run)
    assert not repeated.same
    assert repeated.differs.startswith("the loss is ")
    assert "not as it was: the loss is" in repr(repeated)


def test_the_first_bad_op_is_found_in_the_repeated_step(path):
    training = Training(path, change=at(20, lambda loss: (loss - 1000).log()))
    training.run()
    (finding,) = wb.check(wb.open(path).repeat(program=training.run)).findings
    assert finding.code == "nan-forward"
    assert "log made the first NaN" in finding.sentence
    assert "test_flight.py" in finding.sentence


# -- bad input -------------------------------------------------------------------------------------------------------------------


def test_a_loop_that_is_not_seen_is_an_error():
    training = Training("")
    message = r"does not see where a step of this training begins.*flight\(range\(1000\)\)"
    with pytest.raises(RuntimeError, match=message), wb.flight(training.model, training.optimizer):
        training.step(training.x[0], training.y[0])


@pytest.mark.parametrize(
    ("subjects", "options", "error", "says"),
    [
        ((), {}, TypeError, "takes the model and the optimizer"),
        ((3,), {}, TypeError, "it got int 3"),
        (("model",), {"keep": 0}, ValueError, "keep is a number of steps of at least 1, got 0"),
        (("model",), {"when": "norm >"}, ValueError, "cannot be read as a condition"),
    ],
)
def test_bad_arguments(subjects, options, error, says):
    given = [nn.Linear(1, 1) if x == "model" else x for x in subjects]
    with pytest.raises(error, match=says):
        wb.flight(*given, **options)


def test_a_step_that_is_not_kept(path):
    flight = Training(path).run()
    with pytest.raises(LookupError, match=r"Step 90 is not kept; kept are \d+ to 29"):
        flight.repeat(90)
    with pytest.raises(TypeError, match="by its number, got str"):
        flight.repeat("90")


def test_another_program(path):
    training = Training(path)
    training.run().save()
    other = Training(path)
    other.model = nn.Linear(4, 1)
    other.optimizer = engine.optim.Adam(other.model.parameters())
    opened = wb.open(path)
    with pytest.raises(RuntimeError, match="another program than the one that was recorded"):
        opened.repeat(program=other.run)
    with pytest.raises(RuntimeError, match=r"ended without reaching a block `with wb.flight\(...\)`, so step 29"):
        opened.repeat(program=lambda: None)
    assert opened.repeat().same  # its recorder is still there
    training.flight = None
    gc.collect()
    with pytest.raises(ValueError, match="Which program"):
        opened.repeat()
    with pytest.raises(FileNotFoundError, match="no program 'nowhere.py'"):
        opened.repeat(program="nowhere.py")


# -- the file --------------------------------------------------------------------------------------------------------------------


def test_damaged_files_are_refused(path):
    """2,000 mutations: bytes changed, cut off, doubled. Each file is refused with a sentence; nothing in it is executed."""
    Training(path, n=4).run().save()
    good = bytearray(pathlib.Path(path).read_bytes())
    rng = random.Random(0)
    head = int.from_bytes(good[:8], "little")
    for _ in range(2000):
        bad = bytearray(good)
        kind = rng.random()
        if kind < 0.8:
            for _ in range(rng.choice((1, 1, 1, 4))):
                place = rng.randrange(8 + head) if rng.random() < 0.7 else rng.randrange(len(bad))
                bad[place] = rng.randrange(256)
        elif kind < 0.9:
            del bad[rng.randrange(len(bad)) :]
        else:
            place = rng.randrange(len(bad))
            bad[place:place] = bad[place : place + rng.randrange(1, 99)]
        if bad == good:
            continue
        pathlib.Path(path).write_bytes(bad)
        try:
            opened = wb.open(path)
        except FlightFileError as error:
            assert path in str(error)
        else:  # a change that JSON does not see, such as another kind of white space
            assert opened.steps[-1].number == 3


def test_other_files_and_versions_are_refused(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        wb.open(path)
    engine.save({"weight": engine.ones(2)}, str(tmp_path / "model.safetensors"))
    with pytest.raises(ValueError, match="is a safetensors file, but no flight file"):
        wb.open(tmp_path / "model.safetensors")
    engine.save({"body": {"flight": 99}, "digest": ""}, str(tmp_path / "new.safetensors"))
    with pytest.raises(ValueError, match="has version 99 of the format; this workbench reads version 1"):
        wb.open(tmp_path / "new.safetensors")
    (tmp_path / "text").write_text("hello, this is no flight file")
    with pytest.raises(ValueError, match="is no flight file, or damaged"):
        wb.open(tmp_path / "text")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda body: body["steps"][-1].update(losses=["<script>"]), "its steps"),
        (lambda body: body["steps"][-1].update(number=7), "its steps"),
        (lambda body: body["steps"][0].update(whole=None), "its steps"),
        (lambda body: body["steps"].clear(), "its steps"),
        (lambda body: body["program"].update(file=3), "its entries"),
        (lambda body: body["program"].pop("block"), "its entries"),
        (lambda body: body.update(curve=[[1.0]]), "its entries"),
        (lambda body: body.update(more=1), "its entries"),
    ],
)
def test_a_file_made_by_hand_is_checked(path, change, says):
    """The digest is right, and the content is not."""
    Training(path, n=4).run().save()
    body = read(path)
    change(body)
    write(path, body)
    with pytest.raises(FlightFileError, match=f"is no flight file: {says} are not those of one"):
        wb.open(path)


def test_a_killed_process_leaves_the_earlier_file_whole(path):
    """The process is killed in the middle of writing, when half of the new file is on the disk."""
    Training(path, n=4).run().save()
    before = pathlib.Path(path).read_bytes()
    program = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path[:0] = {[os.path.dirname(__file__)]!r}
        from test_flight import Training
        import engine.serialize.safetensors as safetensors
        struct = safetensors.struct
        class Killed:
            def __init__(self, file): self.file = file
            def write(self, data):
                self.file.write(data)
                if self.file.tell() > 5000:
                    self.file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
        write = safetensors._write
        safetensors._write = lambda arrays, metadata, file: write(arrays, metadata, Killed(file))
        Training({path!r}, n=6).run().save()
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert pathlib.Path(path).read_bytes() == before
    assert wb.open(path).steps[-1].number == 3


def test_a_file_tells_no_paths_and_no_strings_of_the_program(path):
    secret = "token-8431"  # a variable of the function with the loop
    training = Training(path, n=4)
    with wb.flight(training.model, training.optimizer, path=path) as flight:
        for i in flight(range(4)):
            training.step(training.x[i], training.y[i])
    flight.save()
    content = pathlib.Path(path).read_bytes()
    assert secret.encode() not in content
    assert os.path.dirname(__file__).encode() not in content
    assert os.path.expanduser("~").encode() not in content
