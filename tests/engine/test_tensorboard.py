"""SummaryWriter: what it writes is read back from the event files, record by record."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path

import numpy
import pytest

import engine
from engine import nn

pytest.importorskip("tensorboardX")

from PIL import Image
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef

from engine.utils.tensorboard import SummaryWriter


def events(folder: Path) -> list:
    """All events below a folder: each record is a length, a checksum, the message, a checksum (TFRecord)."""
    found = []
    for path in sorted(Path(folder).rglob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (n,) = struct.unpack_from("<Q", data, at)
            found.append(Event.FromString(data[at + 12 : at + 12 + n]))
            at += n + 16
        assert at == len(data)
    return found


def values(folder: Path) -> dict:
    """(tag, step) -> value."""
    return {(v.tag, e.step): v for e in events(folder) for v in e.summary.value}


def picture(value) -> numpy.ndarray:
    return numpy.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_scalar("loss", engine.tensor(0.25, requires_grad=True), 2, walltime=123.0)
        writer.add_scalar("loss", engine.tensor([3], dtype=engine.bfloat16), 3, new_style=True)
        writer.add_scalar("loss", numpy.float64(4), global_step=4)
        writer.add_scalars("both", {"a": engine.tensor(1.0), "b": 2}, 1)
        assert writer.log_dir == writer.get_logdir() == str(tmp_path)
        with pytest.raises(ValueError, match="scalar should be 0D: expected one number"):
            writer.add_scalar("loss", engine.ones(2))
    found = values(tmp_path)
    assert [found["loss", i].simple_value for i in (1, 2, 3, 4)] == [0.5, 0.25, 3, 4]
    assert sorted(v.simple_value for e in events(tmp_path) for v in e.summary.value if v.tag == "both") == [1, 2]
    assert 123.0 in [e.wall_time for e in events(tmp_path)]


def test_histograms(tmp_path):
    x = engine.arange(10.0, requires_grad=True)
    with SummaryWriter(str(tmp_path)) as writer:
        for step, values_of in enumerate([x, x.detach().numpy(), list(range(10)), x > 4, x.half(), x.to(engine.bfloat16)]):
            writer.add_histogram("h", values_of, step)
        writer.add_histogram("h", x, 6, bins="auto")
        writer.add_histogram("h", x, 7, bins=engine.tensor([0.0, 5.0, 10.0]))
        writer.add_histogram_raw("h", 0, 9, 10, 45, 285, engine.tensor([5.0, 10.0]), [5, 5], 8)
        with pytest.raises(ValueError, match="The input has no element"):
            writer.add_histogram("h", engine.zeros(0))
    found = values(tmp_path)
    for step in (0, 1, 2, 4, 5, 6, 7, 8):
        h = found["h", step].histo
        assert (h.min, h.max, h.num, h.sum, h.sum_squares) == (0, 9, 10, 45, 285) and sum(h.bucket) == 10
    assert found["h", 3].histo.sum == 5
    assert [b for b in found["h", 7].histo.bucket if b] == [5, 5]


def test_images(tmp_path):
    chw = engine.zeros(3, 4, 5)
    chw[0, 1, 2] = 1.0
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("i", chw, 0)
        writer.add_image("i", chw.permute(1, 2, 0), 1, dataformats="HWC")
        writer.add_image("i", (chw * 255).to(engine.uint8), 2)
        writer.add_image("i", chw[0], 3, dataformats="HW")
        writer.add_images("n", engine.stack([chw, chw]), 0)
        writer.add_images("n", [chw, chw], 1)
        writer.add_images("n", engine.stack([chw, chw]).permute(0, 2, 3, 1), 2, dataformats="NHWC")
        writer.add_image_with_boxes("box", chw, engine.tensor([[0, 0, 3, 3]]), 0)
        with pytest.raises(ValueError, match="only rescale=1"):
            writer.add_image_with_boxes("box", chw, engine.tensor([[0, 0, 3, 3]]), rescale=2)
    found = values(tmp_path)
    for step in range(4):
        seen = picture(found["i", step])
        assert (
            seen.shape == (4, 5, 3)
            and seen[1, 2].tolist() == ([255, 0, 0] if step < 3 else [255] * 3)
            and seen.sum() == (255 if step < 3 else 765)
        )
    for step in range(3):
        assert picture(found["n", step]).sum() == 510
    assert picture(found["box", 0]).shape == (4, 5, 3)


def test_figures(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with SummaryWriter(tmp_path) as writer:
        figure = pyplot.figure(figsize=(1, 2), dpi=50)
        writer.add_figure("f", figure, 1)
        assert pyplot.get_fignums() == []
        figure = pyplot.figure(figsize=(1, 2), dpi=50)
        writer.add_figure("f", figure, 2, close=False)
        assert len(pyplot.get_fignums()) == 1
        pyplot.close(figure)
    assert picture(values(tmp_path)["f", 1]).shape[:2] == (100, 50)


def test_video_and_audio(tmp_path):
    video = engine.zeros(2, 3, 3, 4, 5)
    video[1, 2, 1, 0, 0] = video[0, 1, 0, 3, 3] = 1.0
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("v", video, 1, fps=5)
        writer.add_audio("a", engine.sin(engine.arange(100.0)).unsqueeze(0), 1, sample_rate=8000)
        with pytest.raises(ValueError, match=r"\(N, T, C, H, W\)"):
            writer.add_video("v", video[0])
        with pytest.raises(ValueError, match="one channel"):
            writer.add_audio("a", engine.zeros(2, 10))
    found = values(tmp_path)
    gif = Image.open(io.BytesIO(found["v", 1].image.encoded_image_string))
    assert gif.n_frames == 3 and gif.size == (10, 4) and gif.info["duration"] == 200
    gif.seek(gif.n_frames - 1)
    assert numpy.asarray(gif.convert("RGB"))[0, 5].argmax() == 1
    with wave.open(io.BytesIO(found["a", 1].audio.encoded_audio_string)) as sound:
        assert (sound.getframerate(), sound.getnframes(), sound.getnchannels()) == (8000, 100, 1)
        samples = numpy.frombuffer(sound.readframes(100), "<i2") / 32767
    numpy.testing.assert_allclose(samples, numpy.sin(numpy.arange(100)), atol=1e-4)


def test_text_and_tensors(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("t", "some *words*", 3)
        writer.add_tensor("x", engine.arange(6).reshape(2, 3), 4)
        writer.add_mesh(
            "m", engine.rand(1, 5, 3), colors=engine.zeros(1, 5, 3, dtype=engine.uint8), faces=engine.zeros(1, 2, 3, dtype=engine.int64)
        )
    found = values(tmp_path)
    (text,) = [v for (tag, step), v in found.items() if tag.startswith("t") and step == 3]
    assert text.tensor.string_val == [b"some *words*"]
    assert [d.size for d in found["x", 4].tensor.tensor_shape.dim] == [2, 3] and list(found["x", 4].tensor.float_val) == [0, 1, 2, 3, 4, 5]
    assert sum(tag.startswith("m_") for tag, _ in found) == 3


def test_precision_and_recall(tmp_path):
    labels, predictions = engine.tensor([1, 0, 1, 1]), engine.tensor([0.9, 0.4, 0.6, 0.1])
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("pr", labels, predictions, 1, num_thresholds=3)
        writer.add_pr_curve_raw("raw", *[engine.tensor([3.0, 2.0, 0.0])] * 6, 1, num_thresholds=3)
    found = values(tmp_path)
    rows = numpy.array(found["pr", 1].tensor.float_val).reshape(6, 3)
    assert rows[0].tolist() == [3, 2, 0] and rows[1].tolist() == [1, 0, 0]  # true and false positives at 0, 1/2 and 1
    assert ("raw", 1) in found


def test_hyper_parameters(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            {"lr": 0.1, "layers": engine.tensor(3), "kind": "adam", "bias": True}, {"accuracy": engine.tensor(0.75)}, run_name="first"
        )
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams([], {})
        with pytest.raises(TypeError, match="hparam_domain_discrete"):
            writer.add_hparams({"lr": 0.1}, {}, {"lr": [1, 2]})
    found = {tag: v for (tag, _), v in values(tmp_path / "first").items()}
    assert found["accuracy"].simple_value == 0.75 and any("hparams" in tag for tag in found)


def test_hyper_parameters_that_are_none_or_no_number(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "momentum": None}, {"accuracy": 0.75}, run_name="run")
        with pytest.raises(ValueError, match=r"'sizes' should be an int, float, str, bool or Tensor, but got a list"):
            writer.add_hparams({"sizes": [1, 2]}, {"accuracy": 0.75})
    told = b"".join(path.read_bytes() for path in tmp_path.rglob("events.out.tfevents.*"))
    assert b"lr" in told and b"momentum" not in told


def test_embeddings(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(
            engine.arange(8.0).reshape(4, 2), metadata=engine.tensor([5, 6, 7, 8]), label_img=engine.rand(4, 3, 2, 2), global_step=7
        )
        with pytest.raises(ValueError, match="N labels"):
            writer.add_embedding(engine.rand(4, 2), metadata=["a"])
    (rows,) = tmp_path.rglob("tensors.tsv")
    assert [list(map(float, line.split("\t"))) for line in rows.read_text().splitlines()] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    (labels,) = tmp_path.rglob("metadata.tsv")
    assert labels.read_text().split() == ["5", "6", "7", "8"] and list(tmp_path.rglob("sprite.png"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x, y):
        return self.head(self.features(x).flatten(1)) + y, y


def test_graphs(tmp_path, capsys):
    net = Net()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, (engine.ones(1, 1, 4, 4), engine.ones(2)), verbose=True)
        with pytest.raises(ValueError, match="input_to_model"):
            writer.add_graph(net)
    assert "conv2d" in capsys.readouterr().out and net.training
    (graph,) = [GraphDef.FromString(e.graph_def) for e in events(tmp_path) if e.HasField("graph_def")]
    nodes = {n.name: n for n in graph.node}
    conv = nodes["Net/Sequential[features]/Conv2d[0]/conv2d"]
    assert list(conv.input) == ["input/input_0", "Net/Sequential[features]/Conv2d[0]/weight", "Net/Sequential[features]/Conv2d[0]/bias"]
    assert [d.size for d in conv.attr["_output_shapes"].list.shape[0].dim] == [1, 2, 2, 2] and conv.attr["dtype"].type == 1
    assert nodes["output/output.2"].input == ["input/input_1"] and nodes["Net/Linear[head]/linear"].op == "linear"
    assert all(source in nodes for n in graph.node for source in n.input) and len(nodes) == len(graph.node)
    order = list(nodes)
    assert all(order.index(source) < order.index(name) for name, n in nodes.items() for source in n.input)


def test_a_list_of_inputs_is_several_arguments(tmp_path):
    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(Sum(), [engine.ones(2), engine.ones(2)])
    graph = next(GraphDef.FromString(e.graph_def) for e in events(tmp_path) if e.graph_def)
    assert sum(node.name.startswith("input/") for node in graph.node) == 2


def test_layouts_and_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_test", flush_secs=1) as writer:
        writer.add_custom_scalars({"all": {"losses": ["Multiline", ["a", "b"]]}})
        writer.add_scalar("a", 1)
        writer.flush()
        assert [v.simple_value for (tag, _), v in values(tmp_path / "runs").items() if tag == "a"] == [1]
    assert writer.log_dir.startswith("runs") and writer.log_dir.endswith("_test")
    with SummaryWriter(tmp_path / "other", filename_suffix=".x") as writer:
        writer.add_custom_scalars_multilinechart(["a"], "c", "t")
        writer.add_custom_scalars_marginchart(["a", "b", "c"])
    assert list((tmp_path / "other").glob("*.x"))
    assert engine.utils.tensorboard.SummaryWriter is SummaryWriter
