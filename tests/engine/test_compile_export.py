"""Exported programs: they run without the engine, give the results of eager runs, are lowered for devices that are not there."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

import engine
from engine import nn, optim
from grouping import grouped
from page_blocks import blocks

jax = pytest.importorskip("jax")
pytest.importorskip("flatbuffers")

F, load = nn.functional, engine.compiler.load
ROOT = Path(__file__).parents[2]
ALL = ("cpu", "cuda", "tpu")


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.conv(x))
        y += x
        return F.relu(y)


class Chars(nn.Module):
    """A GPT of one block over characters; the head shares its weight with the embedding."""

    def __init__(self, vocab=11, width=8, heads=2, context=6):
        super().__init__()
        self.heads = heads
        self.tok, self.pos, self.norm = nn.Embedding(vocab, width), nn.Embedding(context, width), nn.LayerNorm(width)
        self.qkv, self.out, self.drop = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(0.1)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tok.weight
        self.register_buffer("mask", engine.tril(engine.ones(context, context)).view(1, 1, context, context))

    def forward(self, x):
        b, t = x.shape
        h = self.tok(x) + self.pos(engine.arange(t))
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm(h)).split(h.shape[-1], 2))
        w = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        return self.head(h + self.drop(self.out((w @ v).transpose(1, 2).reshape(b, t, -1))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(11, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 11)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


def mlp():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3))


def resnet():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


MODELS = {  # the model, its optimizer, the shape of a batch, and whether that holds characters
    "mlp": (mlp, lambda p: optim.Adam(p, lr=1e-2), (4, 6), False),
    "cnn": (cnn, lambda p: optim.SGD(p, lr=0.05, momentum=0.9), (4, 1, 8, 8), False),
    "resnet": (resnet, lambda p: optim.SGD(p, lr=0.05, weight_decay=5e-4), (4, 1, 6, 6), False),
    "lstm": (Recurrent, lambda p: optim.Adam(p, lr=1e-2), (4, 6), True),
    "gpt": (Chars, lambda p: optim.AdamW(p, lr=1e-2), (4, 6), True),
}


class Training:
    """A training step of one of the models, exported after two calls, and its inference program for any batch."""

    def __init__(self, name: str, folder: Path) -> None:
        make, optimizer, shape, characters = MODELS[name]
        engine.manual_seed(0)
        self.model = make()
        self.optimizer = optimizer(self.model.parameters())
        self.x = engine.randint(0, 11, shape) if characters else engine.randn(*shape)
        self.y = engine.randint(0, 11, shape) if characters else engine.randint(0, 3, shape[:1])
        self.compiled = engine.compile(self.step, fullgraph=True)
        self.path = folder / f"{name}.zip"
        self.compiled.export(self.path, (self.x, self.y), platforms=ALL)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x).flatten(0, -2), y.flatten())
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.fixture(scope="module", autouse=True)
def quick():
    """XLA takes half of its time for optimizations, which do not matter here."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    made: dict[str, Training] = {}

    def get(name: str) -> Training:
        if name not in made:
            made[name] = Training(name, tmp_path_factory.mktemp("exported"))
        return made[name]

    return get


@pytest.fixture(scope="module")
def inference(tmp_path_factory, training):
    """The path of an inference program of `lstm`, for batches of any size."""
    path = tmp_path_factory.mktemp("exported") / "inference.zip"
    one = training("lstm")
    with engine.no_grad():
        engine.compile(one.model, fullgraph=True).export(path, (one.x,), dynamic_batch=True)
    return path


def manifest_of(path: Path) -> dict:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("manifest.json"))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_goes_on_as_in_the_engine(name, training):
    one = training(name)
    program = load(one.path)
    assert program.platforms == ALL
    state = program.state_dict()
    for key, value in one.model.state_dict().items():
        if key != "head.weight" or name != "gpt":
            assert engine.equal(state[key], value), key
    if name == "gpt":  # which draws numbers of its own
        assert {e["name"]: e.get("also") for e in manifest_of(one.path)["state"]}["tok.weight"] == ["head.weight"]
        losses = [program(one.x, one.y).item() for _ in range(15)]
        assert losses[0] != losses[1] and losses[-1] < losses[0] - 0.2
        return
    for lr in (None, 1e-3, 1e-3):
        if lr is not None:
            program.load_state_dict({"optimizer.param_groups.0.lr": numpy.float64(lr)})
            one.optimizer.param_groups[0]["lr"] = lr
        found, expected = program(one.x, one.y), one.step(one.x, one.y)
        assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    state = program.state_dict()
    for key, value in one.model.state_dict().items():
        numpy.testing.assert_allclose(state[key].numpy(), value.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.slow
@grouped("name", MODELS)
def test_every_device_is_lowered_for_and_nothing_of_this_machine_is_in_the_file(name, training):
    path = training(name).path
    manifest = manifest_of(path)
    assert manifest["platforms"] == list(ALL) and [e["name"] for e in manifest["inputs"]] == ["x", "y"]
    with zipfile.ZipFile(path) as file:
        assert sorted(file.namelist()) == ["manifest.json", "program.jax", "program.mlir", "state.safetensors"]
        text = file.read("program.mlir").decode()
        assert "stablehlo.dot_general" in text and "custom_call @" not in text
        assert "test_compile_export.py" in text
        for member in file.namelist():
            assert str(ROOT).encode() not in file.read(member)


@pytest.mark.slow
def test_inference_takes_batches_of_any_size(inference, training):
    program, one = load(inference), training("lstm")
    assert manifest_of(inference)["inputs"] == [{"name": "x", "shape": ["batch", 6], "dtype": "int64"}]
    before = program.state_dict()
    assert "random.key" not in before
    program.load_state_dict(one.model.state_dict())
    for n in (1, 3):
        numpy.testing.assert_allclose(program(one.x[:n]).numpy(), one.model(one.x[:n]).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_loader_of_the_documentation_runs_where_there_is_no_engine(inference, training, tmp_path):
    (loader,) = (block for _, block in blocks(ROOT / "docs" / "deploy.md", "python") if "jax.export.deserialize" in block)
    one = training("lstm")
    numpy.save(tmp_path / "x.npy", one.x[:3].numpy())
    (tmp_path / "model.zip").write_bytes(inference.read_bytes())
    code = f"""
import sys, numpy
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("engine", "workbench", "torch"):
            raise ImportError(name)
sys.meta_path.insert(0, Refused())
x = numpy.load("x.npy")
{loader}
assert not changes
numpy.save("found.npy", results)
"""
    subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True)
    program = load(inference)
    numpy.testing.assert_allclose(numpy.load(tmp_path / "found.npy"), program(one.x[:3]).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_gradients_without_an_optimizer_are_state(tmp_path):
    model = nn.Linear(2, 1)

    def backward(pair, times):
        loss = (model(pair["x"]) * pair["scale"]).sum() * times
        loss.backward()
        return {"loss": loss.detach(), "times": times}

    given = {"x": engine.ones(3, 2), "scale": engine.tensor(2.0)}
    compiled = engine.compile(backward, fullgraph=True)
    compiled.export(tmp_path / "a.zip", (given, 2))
    manifest = manifest_of(tmp_path / "a.zip")
    assert [e["name"] for e in manifest["inputs"]] == ["pair.x", "pair.scale"]
    assert [e["name"] for e in manifest["results"]] == ["loss", "times"]
    assert {e["name"]: e["changes"] for e in manifest["state"]} == {"bias": False, "bias.grad": True, "weight": False, "weight.grad": True}
    program = load(tmp_path / "a.zip")
    found, expected = program(*given.values()), backward(given, 2)
    assert found["loss"].item() == pytest.approx(expected["loss"].item()) and found["times"].item() == 2
    assert engine.equal(program.state_dict()["weight.grad"], model.weight.grad)


@pytest.mark.slow
def test_tensors_that_share_memory_and_transposed_ones(tmp_path):
    model = nn.Linear(2, 3, bias=False)
    model.weight = nn.Parameter(engine.randn(2, 3).t())
    both = engine.arange(4.0)
    first, second = both[:2], both[2:]
    compiled = engine.compile(lambda x: model(x + first) * second.sum(), fullgraph=True)
    x = engine.randn(5, 2)
    with engine.no_grad():
        compiled.export(tmp_path / "a.zip", (x,))
        program = load(tmp_path / "a.zip")
        assert {name: tuple(t.shape) for name, t in program.state_dict().items()} == {"weight": (3, 2), "tensor.0.storage": (4,)}
        assert engine.equal(program.state_dict()["weight"], model.weight)
        numpy.testing.assert_allclose(program(x).numpy(), compiled(x).numpy(), rtol=1e-5)


@pytest.mark.slow
def test_wrong_calls_of_a_program_say_what_it_takes(inference):
    program = load(inference)
    with pytest.raises(TypeError, match=r"takes 1 inputs \(x\), got 2"):
        program(numpy.zeros((1, 6), int), 1)
    with pytest.raises(ValueError, match=r"input 'x' is int64 of shape \(1, 6\), got int64 of shape \(1, 7\)"):
        program(engine.zeros(1, 7, dtype=engine.int64))
    with pytest.raises(ValueError, match=r"got float32 of shape \(1, 6\)"):
        program(engine.zeros(1, 6))
    with pytest.raises(ValueError, match="no state 'weight'"):
        program.load_state_dict({"weight": engine.ones(1)})
    with pytest.raises(ValueError, match=r"'head.bias' is float32 of shape \(11,\), got float32 of shape \(1,\)"):
        program.load_state_dict({"head.bias": engine.ones(1)})


@pytest.fixture
def changed(inference, tmp_path):
    """Write the inference program with members replaced or left out; returns the path."""

    def write(members: dict[str, bytes | None], compression: int = zipfile.ZIP_STORED) -> Path:
        path = tmp_path / "changed.zip"
        with zipfile.ZipFile(inference) as old, zipfile.ZipFile(path, "w", compression) as new:
            for name in old.namelist():
                data = members.get(name, old.read(name))
                if data is not None:
                    new.writestr(name, data)
        return path

    return write


@pytest.mark.slow
def test_damaged_and_foreign_files_are_refused(inference, changed, training, tmp_path):
    def refused(path: Path, *words: str) -> None:
        with pytest.raises(ValueError, match="^load: ") as caught:
            load(path)
        assert all(word in str(caught.value) for word in (path.name, *words)), caught.value

    data, manifest = inference.read_bytes(), manifest_of(inference)
    (tmp_path / "other.zip").write_bytes(b"no zip")
    refused(tmp_path / "other.zip", "is no exported program")
    (tmp_path / "short.zip").write_bytes(data[: len(data) // 2])
    refused(tmp_path / "short.zip", "is no exported program, or damaged")
    at = data.index(b"StableHLO_v") + 200
    (tmp_path / "flipped.zip").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    refused(tmp_path / "flipped.zip", "Bad CRC-32")
    for name in ("manifest.json", "program.jax", "state.safetensors"):
        refused(changed({name: None}), f"has no member {name}")
    refused(changed({}, zipfile.ZIP_DEFLATED), "compressed")
    refused(changed({"program.jax": b"no program at all"}), "damaged program")
    refused(changed({"state.safetensors": b"{}"}), "damaged state")
    with zipfile.ZipFile(training("mlp").path) as file:
        refused(changed({"program.jax": file.read("program.jax")}), "contradicts itself")
        refused(changed({"state.safetensors": file.read("state.safetensors")}), "contradicts itself")

    def with_entries(**entries: object) -> Path:
        return changed({"manifest.json": json.dumps({**manifest, **entries}).encode()})

    refused(changed({"manifest.json": b"{"}), "damaged manifest")
    refused(with_entries(format="something else"), "does not say 'gradient-workbench program'")
    refused(with_entries(version=2), "version 2 of the format", "reads 1")
    refused(with_entries(calling_convention=1, jax="0.4.1"), "jax 0.4.1 with calling convention 1")
    refused(with_entries(calling_convention=10_000, jax="9.0.0"), "jax 9.0.0 with calling convention 10000")
    refused(with_entries(inputs={}), "'inputs' is missing or of the wrong type")
    refused(with_entries(inputs=[{"name": "x"}]), "an entry is")
    refused(with_entries(inputs=[{"name": "x", "shape": ["batch", 7], "dtype": "int64"}]), "contradicts itself")


def test_what_cannot_be_exported(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    double = engine.compile(lambda x: x * 2)
    with pytest.raises(RuntimeError, match=r"not compiled yet; give example arguments"):
        double.export(path)
    with pytest.raises(ValueError, match="platforms are .* got \\('cpu', 'gpu'\\)"):
        double.export(path, platforms=("cpu", "gpu"))
    with pytest.raises(ValueError, match=r"got \(\)"):
        double.export(path, platforms=())
    with pytest.raises(TypeError, match=r"args is a tuple of arguments, such as \(x,\), got a Tensor"):
        double.export(path, engine.ones(2))
    with pytest.raises(ValueError, match="needs example arguments"):
        double.export(path, dynamic_batch=True)
    for x in (engine.ones(1, 2), engine.tensor(1.0)):
        with pytest.raises(ValueError, match="whose first dimension is the batch"):
            double.export(path, (x,), dynamic_batch=True)
    with pytest.raises(ValueError, match="a result of shape \\(\\) for one sample has no batch"):
        engine.compile(lambda x: x.sum()).export(path, (engine.ones(2, 2),), dynamic_batch=True)
    with pytest.raises(ValueError, match="the samples of a batch depend on each other"):
        engine.compile(lambda x: x - x.mean(0)).export(path, (engine.arange(2.0),), dynamic_batch=True)
    with pytest.raises(ValueError, match="draws random numbers"):
        engine.compile(lambda x: F.dropout(x)).export(path, (engine.ones(2, 3),), dynamic_batch=True)
    with pytest.raises(ValueError, match="writes into an argument"):
        engine.compile(lambda x: x.add_(1)).export(path, (engine.ones(2),))
    with pytest.raises(ValueError, match="got a str"):
        engine.compile(lambda x: (x * 2, "words")).export(path, (engine.ones(2),))
    with pytest.raises(ValueError, match="permutation have no form"):
        engine.compile(lambda x: x[engine.randperm(2)]).export(path, (engine.ones(2),))
    for eager in (engine.compile(F.relu, backend="eager"), engine.compile(nn.ReLU(), backend="eager")):
        with pytest.raises(RuntimeError, match=r"nothing is compiled: JAX is not installed .*, or the backend is eager"):
            eager.export(path, (engine.ones(2),))
    item = engine.compile(lambda x: x * x.sum().item())
    with pytest.warns(UserWarning, match="runs eagerly"), pytest.raises(RuntimeError, match=r"is not compiled: compile: \.item\(\)"):
        item.export(path, (engine.ones(2),))
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package flatbuffers .* gradient-workbench\[xla\]"):
        double.export(path, (engine.ones(2),))
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ModuleNotFoundError, match=r"load needs the package jax .* gradient-workbench\[xla\]"):
        load(path)
    assert not path.exists()


@pytest.mark.slow
def test_without_arguments_the_one_compiled_program_is_exported(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = engine.compile(model, fullgraph=True)
    with engine.no_grad():
        model.eval()
        for _ in range(2):
            compiled(engine.ones(3, 2))
        compiled.export(tmp_path / "a.zip", platforms="cpu")
        assert manifest_of(tmp_path / "a.zip")["platforms"] == ["cpu"]
        assert engine.allclose(load(tmp_path / "a.zip")(engine.ones(3, 2)), model(engine.ones(3, 2)))
        model.train()
        with pytest.raises(RuntimeError, match="'training' of Sequential changed since the last call"):
            compiled.export(tmp_path / "b.zip")
        model.eval()
        for _ in range(2):
            compiled(engine.ones(4, 2))
        with pytest.raises(RuntimeError, match="compiled for 2 kinds of arguments"):
            compiled.export(tmp_path / "b.zip")
