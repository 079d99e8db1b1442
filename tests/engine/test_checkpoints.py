"""PyTorch's checkpoints: round trips through `save` and `load`, files that torch wrote (stored), places, and what may be named."""

from __future__ import annotations

import argparse
import copy
import enum
import functools
import io
import os
import pathlib
import pickle
import time
import zipfile
from collections import Counter, OrderedDict, defaultdict

import numpy
import pytest

import engine
from engine import nn, optim
from engine.base.dtypes import ALL
from engine.serialize import CheckpointError, load, save

STORED = pathlib.Path(__file__).parent / "expected" / "checkpoints"


def there_and_back(obj, weights_only=True, **options):
    file = io.BytesIO()
    save(obj, file, **options)
    file.seek(0)
    return load(file, weights_only=weights_only)


FORMATS = pytest.mark.parametrize(
    "options", [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 5}], ids=["zip", "legacy", "p5"]
)


@FORMATS
@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_every_dtype(d, shape, options):
    numbers = numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape) % 2
    x = engine.Tensor._wrap((numbers + 1j * numbers if d.is_complex else numbers).astype(d.numpy))
    found = there_and_back({"x": x}, **options)["x"]
    assert found.dtype is d and found.array.dtype is d.numpy and found.shape == x.shape and found.array.tobytes() == x.array.tobytes()
    assert type(found) is engine.Tensor and not found.requires_grad and found.is_contiguous()


@FORMATS
def test_containers(options):
    obj = {
        "none": None, "yes": True, "n": 3, "big": 1 << 80, "minus": -(1 << 70), "x": 0.1, "c": 1 + 2j, "text": 'é"\\\n', "bytes": b"\x00\xff",
        "array": bytearray(b"ab"), "list": [1, [2.5]], "tuple": (1, (2, 3, 4), ()), "empty": {}, "dtype": engine.bfloat16,
        "device": engine.device("cpu"), "gpu": engine.device("cuda", 1), "size": engine.ones(2, 3).shape, 5: "int key", (1, "a"): "tuple key",
        "ordered": OrderedDict(b=1, a=2), "set": {1, 2}, "frozen": frozenset({3}), "count": Counter("aab"), "default": defaultdict(list, a=[1]),
    }  # fmt: skip
    found = there_and_back(obj, **options)
    assert found == obj
    assert all(type(found[k]) is type(v) for k, v in obj.items()) and found["default"].default_factory is list
    loop: list = [1]
    loop.append(loop)
    found = there_and_back(loop, **options)
    assert found[1] is found


@FORMATS
def test_views_stay_tied(options):
    base = engine.arange(12.0).reshape(3, 4)
    obj = {
        "base": base,
        "t": base.t(),
        "row": base[1],
        "step": base[:, ::2],
        "again": base,
        "wide": base[0].expand(2, 4),
        "free": base.clone(),
    }
    found = there_and_back(obj, **options)
    for name, x in obj.items():
        assert found[name].stride() == x.stride() and found[name].tolist() == x.tolist()
    assert found["again"] is found["base"] and found["row"].storage_offset() == 4
    found["base"][1, 2] = 99
    assert found["t"][2, 1] == found["row"][2] == found["step"][1, 1] == 99 and found["free"][1, 2] == 6
    found["row"][0] = -1
    assert found["base"][1, 0] == -1


def test_what_strides_cannot_say_is_copied():
    backwards = engine.Tensor._wrap(numpy.arange(5.0)[::-1])
    assert there_and_back(backwards).tolist() == [4, 3, 2, 1, 0]
    wide = engine.ones(3, 2, dtype=engine.complex64)
    assert there_and_back(engine.view_as_real(wide)).shape == (3, 2, 2)
    with pytest.raises(RuntimeError, match="view the same data as different types: complex64 and float32"):
        save([wide, engine.view_as_real(wide)], io.BytesIO())


def test_gradients_parameters_buffers():
    p = nn.Parameter(engine.ones(2))
    p.note = "kept"
    x = engine.ones(2)
    x.label = [1]
    found = there_and_back([p, p * 2, nn.Parameter(engine.ones(1), requires_grad=False), nn.Buffer(engine.ones(1), persistent=False), x])
    assert [type(t) for t in found] == [nn.Parameter, engine.Tensor, nn.Parameter, nn.Buffer, engine.Tensor]
    assert [t.requires_grad for t in found] == [True, True, False, False, False] and all(t.is_leaf for t in found)
    assert found[0].note == "kept" and found[3].persistent is False and found[4].label == [1]


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def test_a_training_goes_on(tmp_path):
    net, x = network(), engine.randn(8, 3)
    opt = optim.AdamW(net.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(opt, 2)

    def step(net, opt, scheduler):
        opt.zero_grad()
        net(x).square().sum().backward()
        opt.step()
        scheduler.step()

    for _ in range(3):
        step(net, opt, scheduler)
    save({"net": net.state_dict(), "opt": opt.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 3}, tmp_path / "x.pt")
    saved = load(tmp_path / "x.pt")
    other = network()
    assert repr(other.load_state_dict(saved["net"])) == "<All keys matched successfully>"
    assert saved["net"]._metadata == net.state_dict()._metadata and type(saved["net"]) is OrderedDict
    again = optim.AdamW(other.parameters(), lr=0.5)
    again.load_state_dict(saved["opt"])
    later = optim.lr_scheduler.StepLR(again, 2)
    later.load_state_dict(saved["scheduler"])
    for _ in range(3):
        step(net, opt, scheduler)
        step(other, again, later)
    assert all((a == b).all() for a, b in zip(net.parameters(), other.parameters(), strict=True))


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    found = there_and_back(Tied().state_dict())
    assert found["embed.weight"].data_ptr() == found["head.weight"].data_ptr()
    with zipfile.ZipFile(archive_of(Tied().state_dict())) as z:
        assert sum("/data/" in name for name in z.namelist()) == 1


def archive_of(obj) -> io.BytesIO:
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return file


def test_the_archive():
    with zipfile.ZipFile(archive_of({"a": engine.ones(3), "b": engine.ones(5, dtype=engine.float64)})) as z:
        assert z.testzip() is None
        assert z.read("archive/byteorder") == b"little" and z.read("archive/version") == b"3\n"
        for name in ("archive/data/0", "archive/data/1"):
            info = z.getinfo(name)
            z.fp.seek(info.header_offset + 26)
            names, extra = numpy.frombuffer(z.fp.read(4), "<u2")
            assert (info.header_offset + 30 + int(names) + int(extra)) % 64 == 0
    assert archive_of(engine.ones(3)).getvalue() == archive_of(engine.ones(3)).getvalue()


# -- files of PyTorch's (written by expected/make_checkpoints.py) ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zip.pt", "legacy.pt"])
def test_files_of_torch(name):
    found, expected = load(STORED / name), numpy.load(STORED / "values.npz")
    assert set(found["tensors"]) == set(expected.files)
    for key, x in found["tensors"].items():
        got = x.float() if x.dtype is engine.bfloat16 else x
        assert tuple(x.shape) == expected[key].shape, key
        numpy.testing.assert_array_equal(got.detach().numpy(), expected[key])
    t = found["tensors"]
    assert t["view"].data_ptr() == t["base"].data_ptr() + 4 and t["view"].stride() == (1, 4) and isinstance(t["parameter"], nn.Parameter)
    assert t["bfloat16"].dtype is engine.bfloat16 and t["uint16"].dtype is engine.uint16
    assert found["plain"] == {
        "size": engine.Size([2, 3]),
        "device": engine.device("cpu"),
        "dtype": engine.float16,
        "set": {1, 2},
        "n": (1, 2.5, b"\xff"),
    }
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    assert repr(net.load_state_dict(found["net"])) == "<All keys matched successfully>"
    opt = optim.Adam(net.parameters())
    opt.load_state_dict(found["opt"])
    assert opt.state[net[0].weight]["step"] == 1 and opt.param_groups[0]["lr"] == 0.25


def test_a_module_of_torch():
    with pytest.raises(CheckpointError, match=r"GLOBAL torch\.nn\.modules\.container\.Sequential was not an allowed global"):
        load(STORED / "module.pt")
    net = load(STORED / "module.pt", weights_only=False)
    assert type(net) is nn.Sequential and type(net[0]) is nn.Conv2d and not net.training
    expected = numpy.load(STORED / "module.npz")
    out = net(engine.from_numpy(expected["x"])).detach().numpy()
    numpy.testing.assert_allclose(out, expected["y"], atol=1e-6)
    assert list(net.state_dict()) == list(expected["keys"])


# -- where it comes from, where it goes -----------------------------------------------------------------------------------------------


def test_paths_and_files(tmp_path):
    x = engine.arange(4.0)
    save(x, tmp_path / "a.pth")
    save(x, str(tmp_path / "b"))
    with open(tmp_path / "c.pt", "wb") as file:
        save(x, file)
    with open(tmp_path / "d.pt", "wb") as file:
        file.write(b"")
        save(x, file, _use_new_zipfile_serialization=False)
    for name in ("a.pth", "b", "c.pt", "d.pt"):
        assert load(tmp_path / name).tolist() == [0, 1, 2, 3]
        with open(tmp_path / name, "rb") as file:
            assert load(file).tolist() == [0, 1, 2, 3]
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(AttributeError, match="a path or a file object with `read`, got a int"):
        load(3)
    with pytest.raises(TypeError, match="binary mode"):
        load(io.StringIO("x"))
    with pytest.raises(AttributeError, match="with `write`"):
        save(x, 3)
    with pytest.raises(ValueError, match="pickle_protocol must be one of"):
        save(x, io.BytesIO(), pickle_protocol=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        load(tmp_path / "b", weights=True)
    with pytest.raises(RuntimeError, match="pickle_module"):
        load(tmp_path / "b", pickle_module=pickle)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    save({"x": engine.ones(1)}, tmp_path / "x.pt")
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        save({"x": engine.zeros(1), "f": lambda: 1}, tmp_path / "x.pt")
    assert load(tmp_path / "x.pt")["x"].item() == 1 and os.listdir(tmp_path) == ["x.pt"]


def test_mapped(tmp_path):
    save({"a": engine.arange(1000.0), "b": engine.arange(3), "e": engine.zeros(0)}, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    found = load(tmp_path / "x.pt", mmap=True)
    found["a"] += 1
    assert found["a"][:3].tolist() == [1, 2, 3] and found["b"].tolist() == [0, 1, 2] and found["e"].shape == (0,)
    assert (tmp_path / "x.pt").read_bytes() == before
    save(engine.ones(2), tmp_path / "l.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        load(tmp_path / "l.pt", mmap=True)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        load(io.BytesIO(before), mmap=True)


def test_mapping_is_quick(tmp_path):
    save({str(i): engine.zeros(1_000_000) for i in range(20)}, tmp_path / "x.pt")
    load(tmp_path / "x.pt", mmap=True)
    began = time.process_time()
    load(tmp_path / "x.pt", mmap=True)
    assert time.process_time() - began < 0.05  # 80 MB; a copy of it would take longer


def test_map_location():
    file = archive_of({"a": engine.ones(2), "b": engine.zeros(1)})
    calls = []

    def place(storage, location):
        calls.append((storage.nbytes(), location, storage.device.type))
        return storage if location == "cpu" else None

    for location in (
        None,
        "cpu",
        engine.device("cpu"),
        {"cpu": "cpu"},
        {},
        place,
        lambda storage, location: None,
        lambda storage, location: storage.cpu(),
    ):
        file.seek(0)
        assert load(file, location)["a"].tolist() == [1, 1]
    assert calls == [(8, "cpu", "cpu"), (4, "cpu", "cpu")]
    file.seek(0)
    with pytest.raises(TypeError, match="map_location must return the storage"):
        load(file, lambda storage, location: 3)
    with pytest.raises(TypeError, match="must be a device, a dict or a function"):
        load(file, 1.5)


@pytest.mark.skipif(engine.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_here():
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        load(STORED / "cuda.pt")
    for location in ("cpu", {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert load(STORED / "cuda.pt", map_location=location).tolist() == [1, 2]


@pytest.mark.gpu
def test_on_a_gpu():
    if not engine.cuda.is_available():
        pytest.skip("no CuPy, or no NVIDIA GPU")
    base = engine.arange(6.0, device="cuda").reshape(2, 3)
    file = archive_of({"base": base, "t": base.t(), "cpu": engine.ones(1)})
    found = load(file)
    assert found["base"].device.type == "cuda" and found["cpu"].device.type == "cpu"
    found["base"][0, 1] = 9
    assert found["t"][1, 0].item() == 9
    file.seek(0)
    assert load(file, map_location="cpu")["t"].device.type == "cpu"
    assert load(STORED / "cuda.pt").device == engine.device("cuda", 0)
    for copied in (pickle.loads(pickle.dumps(base)), copy.deepcopy(base)):
        assert copied.device == base.device and (copied == base).all()


# -- what may be named ----------------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.act, self.norm = nn.Linear(2, 3), nn.functional.gelu, functools.partial(nn.functional.normalize, dim=0)
        self.colour, self.path, self.options, self.own = Colour.RED, pathlib.Path("a/b"), argparse.Namespace(lr=0.1), helper
        self.scale = numpy.float64(2.5)

    def forward(self, x):
        return self.norm(self.act(self.layer(x))) * float(self.scale)


def helper(x):
    return x


class Slotted:
    __slots__ = ("a",)


class Mourner:
    def __del__(self):
        raise AssertionError("ran")


class Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


class Caller:
    def __init__(self, function, *args):
        self.what = function, args

    def __reduce__(self):
        return self.what


def test_a_whole_module():
    net, file = Net(), io.BytesIO()
    save({"net": net, "array": numpy.arange(6.0).reshape(2, 3), "opt": optim.SGD(net.parameters(), lr=0.1)}, file)
    file.seek(0)
    with pytest.raises(CheckpointError, match=r"Unsupported global: GLOBAL test_checkpoints\.Net .*add_safe_globals\(\[Net\]\)"):
        load(file)
    file.seek(0)
    found = load(file, weights_only=False)
    x = engine.rand(4, 2)
    assert (found["net"](x) == net(x)).all() and found["net"].own is helper and found["net"].colour is Colour.RED
    assert found["net"].path == pathlib.Path("a/b")
    assert found["net"].options == argparse.Namespace(lr=0.1) and found["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["opt"].param_groups[0]["params"][0] is found["net"].layer.weight
    slotted = Slotted()
    slotted.a = 5
    assert there_and_back(slotted, weights_only=False).a == 5


def test_safe_globals():
    class_names = [nn.Sequential, nn.Linear, (nn.ReLU, "torch.nn.modules.activation.ReLU"), nn.ReLU]
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(CheckpointError, match="Unsupported global"):
        there_and_back(net)
    with engine.serialization.safe_globals(class_names):
        assert type(there_and_back(net)) is nn.Sequential
        assert len(engine.serialization.get_safe_globals()) >= 3
    assert engine.serialization.get_safe_globals() == []
    engine.serialization.add_safe_globals([complex, Slotted])
    engine.serialization.clear_safe_globals()
    with pytest.raises(CheckpointError):
        there_and_back(Slotted())
    parts = [nn.MultiheadAttention, nn.modules.linear.NonDynamicallyQuantizableLinear, nn.LayerNorm, nn.Dropout, nn.Linear]
    with engine.serialization.safe_globals([nn.TransformerEncoderLayer, *parts, nn.functional.relu]):
        assert there_and_back(nn.TransformerEncoderLayer(4, 2, 8)).activation is nn.functional.relu  # by the address that `save` writes
    with pytest.raises(TypeError, match="expected classes and functions"):
        engine.serialization.add_safe_globals([3])
    assert engine.serialization.get_unsafe_globals_in_checkpoint(archive_of(net.state_dict())) == []
    unsafe = engine.serialization.get_unsafe_globals_in_checkpoint(archive_of([Colour.RED, {"x": engine.ones(1)}]))
    assert unsafe == ["test_checkpoints.Colour"]


def test_members_of_enums_by_name():
    """Python 3.11.2 writes a member as `getattr(Color, "RED")`; other attributes are none of a file's business."""
    assert there_and_back([Caller(getattr, Colour, "RED")], weights_only=False) == [Colour.RED]
    with engine.serialization.safe_globals([Colour]):
        assert there_and_back([Caller(getattr, Colour, "RED")]) == [Colour.RED]
    with pytest.raises(CheckpointError):
        there_and_back([Caller(getattr, Colour, "RED")])
    for name in ("__class__", "mro", "nothing"):
        with pytest.raises(CheckpointError, match="asks for the attribute"):
            there_and_back([Caller(getattr, Colour, name)], weights_only=False)


HOSTILE = {
    "a system call": Caller(os.system, "exit 3"), "eval": Caller(eval, "1 + 1"), "setattr": Trap(), "getattr": Caller(getattr, nn.Linear, "forward"),
    "an import": Caller(__import__, "this"), "open": Caller(open, os.devnull), "a class of a library": pickle.Unpickler,
    "a function of a library": os.getcwd, "a partial of one": functools.partial(os.getcwd), "a big bytearray": Caller(bytearray, 1 << 40),
    "a list of a range": Caller(list, range(1 << 40)), "a thing with __del__": Caller(object.__new__, Mourner),
}  # fmt: skip


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("what", HOSTILE)
def test_nothing_is_executed(what, weights_only):
    for protocol in (2, 4):
        file = io.BytesIO()
        save({"x": [HOSTILE[what]]}, file, pickle_protocol=protocol)
        file.seek(0)
        with pytest.raises(CheckpointError):
            load(file, weights_only=weights_only)
    assert Trap.sprung is False


def test_a_class_with_del_is_not_made():
    text = b"\x80\x02ctest_checkpoints\nMourner\n)\x81."
    with pytest.raises(CheckpointError, match="has a __del__"):
        load(packed(text), weights_only=False)


def packed(text: bytes, records: tuple = ()) -> io.BytesIO:
    """An archive with this pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        for name, data in (("data.pkl", text), ("version", b"3\n"), *records):
            z.writestr(f"archive/{name}", data)
    file.seek(0)
    return file
