"""What leaves the notebook: the replay page, drawings, data for other tools; nothing in it is executed, nothing tells where it was made."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html.parser
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy
import pytest

import engine
import workbench as wb
from engine import nn
from engine.base import observe
from engine.nn import functional as F
from workbench.exporting import dot, mermaid, privacy
from workbench.exporting.ask import sized
from workbench.exporting.pack import key
from workbench.graph import outline, text
from workbench.graph.drawing import draw
from workbench.jupyter import display
from workbench.recording.recorder import Recorder
from workbench.session.passes import PassWatcher
from workbench.session.session import Session

HOSTILE = '</script><script>alert(1)</script><!-- \u2028 <img src=x onerror="alert(2)"> & "quoted" \\ {record|field} ]]>'
DOT = shutil.which("dot")
HOME = "/" + "home"  # in two pieces: the tree itself shall have no such path


@pytest.fixture
def model():
    engine.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


@pytest.fixture
def recorded(model):
    with wb.record("a lesson") as session:
        x = engine.randn(16, 4)
        loss = F.cross_entropy(model(x), engine.arange(16) % 3)
    session.loss, session.x = loss, x  # both stay
    return session


def hostile():
    """A graph with such a name wherever a name can stand."""
    with wb.record(HOSTILE) as session, wb.scope(HOSTILE):
        a = engine.ones(2, requires_grad=True)
        b = a * 2
    session.recording.names[session.recording.find(b)] = HOSTILE
    session.keep = a, b
    return session


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its tags in order, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data


class Replay:
    """A replay file, read without any of the code that wrote it."""

    def __init__(self, file: Path) -> None:
        self.page = Page(file.read_text(encoding="utf-8"))
        block = gzip.decompress(base64.b64decode(self.page.scripts[0]))
        length = int.from_bytes(block[-4:], "little")
        self.block, self.index = block, json.loads(block[-4 - length : -4])
        self.scene = self.index["scenes"][self.index["shown"]]

    def message(self, number: int) -> tuple[dict, list[bytes]]:
        offset, length, *sizes = self.index["messages"][number]
        buffers, at = [], offset + length
        for size in sizes:
            buffers.append(self.block[at : at + size])
            at += size
        return json.loads(self.block[offset : offset + length]), buffers

    def answer(self, request: dict, place: int = 0) -> dict | None:
        stretches = self.scene["answers"][request["type"]][key(request)]
        number = [number for begin, number in zip(stretches[::2], stretches[1::2], strict=True) if begin <= place][-1]
        return None if number < 0 else self.message(number)[0]


def request(kind: str, **more) -> dict:
    looks = {"facet": -2, "rows": -2, "cols": -2, "index": [], "pool": "mean", "image": "", "exact": False}
    return {"type": kind, **(looks if kind == "inspect" else {}), **more}


def test_the_data_of_a_replay_can_be_written_alone(recorded, tmp_path):
    recorded.recording.title = "one title"
    for ending in ("html", "replay"):
        wb.export(tmp_path / f"lesson.{ending}", recorded.loss)
    page = Replay(tmp_path / "lesson.html")
    block = gzip.decompress((tmp_path / "lesson.replay").read_bytes())
    index = json.loads(block[-4 - int.from_bytes(block[-4:], "little") : -4])
    assert index["title"] == "one title" and index["shown"] == page.index["shown"]
    assert index["scenes"][0]["pass"]["plan"] == page.scene["pass"]["plan"]


# -- the replay page -----------------------------------------------------------------------------------------------------------


def test_a_replay_has_every_gradient_at_every_step(recorded, tmp_path):
    written = wb.export(tmp_path / "lesson.html", recorded.loss)
    replay = Replay(tmp_path / "lesson.html")
    assert written.left == "" and all(p.grad is None for p in recorded.recording.modules[0]().parameters())
    shown = replay.scene["pass"]
    assert shown["total"] == len(shown["plan"]) == 8 and shown["start"] == 0  # four ops and four parameters
    recorded.loss.backward()
    r = recorded.recording
    for row in range(r.count):
        if r.kind[row] == "parameter":
            done = replay.answer(request("inspect", node=row, what="grad"), shown["total"])
            gradient = r.tensor(row).grad.numpy().astype(numpy.float64)
            assert done["summary"]["norm"] == pytest.approx(numpy.sqrt((gradient**2).sum()), rel=1e-6)
            here = shown["plan"].index(row) + 1  # the leaf's own step; its gradient has come with the step before
            assert replay.answer(request("inspect", node=row, what="grad"), 0)["summary"] is None
            assert replay.answer(request("inspect", node=row, what="grad"), here)["summary"] == done["summary"]
    # step by step, in the order of the plan
    for place in range(1, shown["total"] + 1):
        told, _ = replay.message(shown["told"][str(place)])
        assert told["index"] == place and [step["node"] for step in told["steps"]] == [shown["plan"][place - 1]]
    assert shown["ways"]["next op"] == [1, 2, 3, 4, 5, 6, 7, 8, 8] and shown["ways"]["previous op"] == [0, 0, 1, 2, 3, 4, 5, 6, 7]


def test_a_replay_knows_what_each_pane_asks(recorded, tmp_path):
    wb.export(tmp_path / "lesson.html", recorded.loss)
    replay = Replay(tmp_path / "lesson.html")
    kinds = {"ask_memory": "memory", "ask_timing": "timing", "ask_model": "model_health", "ask_findings": "findings", "ask_bytes": "bytes"}
    for asked, answered in kinds.items():
        (only,) = replay.scene["answers"][asked].values()
        assert replay.message(only[1])[0]["type"] == answered
    row = recorded.recording.find(recorded.x)
    value = replay.answer(request("inspect", node=row, what="value"))
    assert value["summary"]["mean"] == pytest.approx(float(recorded.x.numpy().astype(numpy.float64).mean()), rel=1e-5)
    message, buffers = replay.message(replay.scene["answers"]["inspect"][key(request("inspect", node=row, what="value"))][1])
    heat = numpy.frombuffer(buffers[message["heat"]["values"]["index"]], "<f4").reshape(message["heat"]["values"]["shape"])
    assert numpy.array_equal(heat[0], recorded.x.numpy())  # 16 by 4 is small enough for every element


def test_a_walk_that_stands_somewhere_stands_there_afterwards(recorded, tmp_path):
    walk = wb.step(recorded.loss)
    walk.to(5)
    grads = [p.grad for p in recorded.recording.modules[0]().parameters()]
    wb.export(tmp_path / "lesson.html", walk)
    assert walk.index == 5 and all(a is p.grad for a, p in zip(grads, recorded.recording.modules[0]().parameters(), strict=True))
    assert Replay(tmp_path / "lesson.html").scene["pass"]["start"] == 5


def watched(turns: int) -> tuple[Session, engine.Tensor]:
    """A session of code that has run so many backward passes, of k times the sum of three weights."""
    recorder = Recorder()
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, lambda: {})
    w = engine.ones(3, requires_grad=True)
    with observe.observing(watcher):
        for k in range(1, turns + 1):
            w.grad = None
            (w * k).sum().backward()
    watcher.close()
    recorder.stop()
    session.finish({"w": w})
    return session, w


def test_a_replay_has_every_pass_with_its_own_gradients(tmp_path):
    session, w = watched(3)
    stood = [one.index for one in session.passes]
    assert wb.export(tmp_path / "passes.html", session).left == ""
    assert [one.index for one in session.passes] == stood and session.number == 2
    replay = Replay(tmp_path / "passes.html")
    assert replay.index["shown"] == 2 and len(replay.index["scenes"]) == 3
    row = session.recording.find(w)
    for k, scene in enumerate(replay.index["scenes"], 1):
        replay.scene = scene
        total = replay.scene["pass"]["total"]
        told = replay.answer(request("inspect", node=row, what="grad"), total)
        assert told["summary"]["norm"] == pytest.approx(k * 3**0.5, rel=1e-6)  # d(k Σw)/dw = k
        stepper = next(message for message, _ in map(replay.message, replay.scene["opening"]) if message["type"] == "stepper")
        assert stepper["number"] == k - 1 and len(stepper["passes"]) == 3 and stepper["plan"] == replay.scene["pass"]["plan"]


@pytest.mark.slow
def test_passes_that_had_no_room_are_counted_and_the_shown_one_is_there(tmp_path):
    session, _ = watched(60)
    written = wb.export(tmp_path / "passes.html", session, budget="100 kB")
    scenes = Replay(tmp_path / "passes.html").index["scenes"]
    left = sum(scene is None for scene in scenes)
    assert 0 < left < 60 and scenes[-1] is not None and f"{left} of 60 backward passes were left out to stay under 100 kB." in written.left


def test_a_lesson_in_a_replay_knows_where_each_page_is(tmp_path):
    w = engine.ones(3, requires_grad=True)
    loss = (w * 2).sum()
    pages = [
        wb.teach.say("start", step="start"),
        wb.teach.say("the product", at="mul"),
        wb.teach.say("stay", step=None),
        wb.teach.say("end", step="end"),
    ]
    lesson = wb.teach.lesson(loss, pages)
    wb.export(tmp_path / "lesson.html", lesson)
    replay = Replay(tmp_path / "lesson.html")
    assert replay.scene["pages"] == [0, 2, None, 3]  # of sum, mul, w


@pytest.mark.slow
def test_a_cell_that_exports_is_no_cell_that_runs(tmp_path):
    """In a kernel the very cell that exports runs, and answers that would compute while one does are given all the same."""
    from kernels import Kernel

    kernel = Kernel()
    try:
        kernel.run("%load_ext workbench\nimport engine\nw = engine.ones(2, 3, requires_grad=True)\nloss = (w * w).sum()")
        kernel.run("s = wb.step(loss)\ns")
        kernel.run(f"wb.export({str(tmp_path / 'lesson.html')!r})")
    finally:
        kernel.close()
    replay = Replay(tmp_path / "lesson.html")
    assert replay.scene["pass"]["total"] == 3 and replay.index["left"] == ""
    kinds = {replay.message(number)[0]["type"] for stretches in replay.scene["answers"]["ask_local"].values() for number in stretches[1::2]}
    (local,) = [replay.message(s[1])[0] for s in replay.scene["answers"]["ask_local"].values() if replay.message(s[1])[0]["node"] == 1][:1]
    assert kinds == {"local"} and local["missing"] == "" and local["parts"][0]["structure"] == "identity"  # w is all ones
    assert b"A cell is running" not in replay.block and b"running a cell" not in replay.block


@pytest.mark.slow
def test_a_replay_says_what_it_had_no_room_for(recorded, tmp_path):
    engine.manual_seed(0)
    with wb.record("deep"):
        loss = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(8)])(engine.randn(16, 32)).sum()
    written = wb.export(tmp_path / "lesson.html", loss, budget="200 kB")
    assert re.fullmatch(r"[\d,]+ of [\d,]+ answers about .+ were left out to stay under 200 kB\.", written.left)
    assert "files to save" in wb.export(tmp_path / "least.html", loss, budget=1).left
    replay = Replay(tmp_path / "lesson.html")
    assert any(-1 in stretches for answers in replay.scene["answers"].values() for stretches in answers.values())
    assert len(replay.page.scripts[0]) < 240_000 and written.left in (tmp_path / "lesson.html").read_text(encoding="utf-8")
    assert wb.export(tmp_path / "whole.html", recorded.loss).left == ""


@pytest.mark.parametrize(("budget", "bytes"), [(5000, 5000), ("5000", 5000), ("2 MB", 2_000_000), ("1.5kB", 1500), ("7 B", 7)])
def test_a_budget_is_bytes_or_a_size(budget, bytes):
    assert sized(budget) == bytes


@pytest.mark.parametrize("budget", ["much", -1, 0, "nan", "inf", "MB"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match="budget is a number of bytes"):
        sized(budget)


def test_the_page_allows_one_script_and_nothing_from_anywhere(recorded, tmp_path):
    wb.export(tmp_path / "lesson.html", recorded.loss)
    page = Page((tmp_path / "lesson.html").read_text(encoding="utf-8"))
    (policy,) = [attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["base-uri"] == rules["form-action"] == "'none'"
    view, start = gzip.decompress(base64.b64decode(page.scripts[1])), page.scripts[2].encode()
    hashes = [base64.b64encode(hashlib.sha256(one).digest()).decode() for one in (start, view)]
    assert rules["script-src"].split() == [f"'sha256-{one}'" for one in hashes]
    assert "unsafe-eval" not in policy and "connect-src" not in policy and "http:" not in policy
    assert (tmp_path / "lesson.html").stat().st_size - len(page.scripts[0]) <= 300_000
    assert not [attrs for _, attrs in page.tags for name in attrs if name in ("src", "href") or name.startswith("on")]


def test_hostile_names_stay_text_in_the_page(tmp_path):
    session = hostile()
    wb.export(tmp_path / "hostile.html", session)
    page = Page((tmp_path / "hostile.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 3 and "img" not in tags
    replay = Replay(tmp_path / "hostile.html")
    graph = next(message for message, _ in map(replay.message, replay.scene["opening"]) if message["type"] == "graph")
    assert graph["title"] == HOSTILE and HOSTILE in graph["nodes"]["name"] and HOSTILE in [g["name"] for g in graph["groups"]]


def test_nothing_is_exported_while_the_code_runs(recorded, tmp_path):
    with wb.record("running") as session:
        (recorded.x * 2).sum()
        with pytest.raises(RuntimeError, match="still runs"):
            wb.export(tmp_path / "lesson.html", session)
    assert not (tmp_path / "lesson.html").exists()


# -- which session, which file -------------------------------------------------------------------------------------------------


def test_without_a_target_it_is_what_was_shown_last(recorded, tmp_path):
    shown = wb.show(recorded.loss)
    wb.export(tmp_path / "graph.json")
    assert json.loads((tmp_path / "graph.json").read_text())["title"] == "a lesson"
    assert shown.graph.view == "graph"


def test_what_cannot_be_exported_is_said(recorded, tmp_path):
    with pytest.raises(ValueError, match=r"files that end in \.html, \.svg.*not 'graph\.gif'"):
        wb.export(tmp_path / "graph.gif", recorded)
    with pytest.raises(TypeError, match="not int"):
        wb.export(tmp_path / "graph.svg", 3)
    with wb.record("nothing") as empty:
        pass
    with pytest.raises(RuntimeError, match="nothing to export"):
        wb.export(tmp_path / "graph.svg", empty)


# -- paths ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"open('{HOME}/ann/x/data.csv')", "open('…/data.csv')"),
        ('File "/usr/lib/python3/x.py", line 3', 'File "…/x.py", line 3'),
        (r"C:\Users\Bob\x.py is gone", "…/x.py is gone"),
        (r"\\server\share\x.py", "…/x.py"),
        (f"open('{HOME}/ann lee/my project/my data.csv')", "open('…/my data.csv')"),  # folders with spaces
        (r"C:\Users\Ann Lee\My Project\x.py is gone", "…/x.py is gone"),
        (f"{HOME}/ann/x.csv of 3/4 and a/b", "…/x.csv of 3/4 and a/b"),
        (f"{Path.home()}/x.py", "…/x.py"),
        (f"{Path.cwd()}/data/x.py: no", "…/x.py: no"),
    ],
)
def test_an_absolute_path_keeps_its_last_name(text, shown):
    assert privacy.without_path(text) == shown


@pytest.mark.parametrize(
    "text", ["a /y/z", "x//tmp/b", "‖g‖/‖x‖", "1/tmp/2", f"https://a.b{HOME}/x", r"\frac{a}{b}", r'print("A:\n\n")', "data/x.py"]
)
def test_what_is_no_absolute_path_stays(text):
    assert privacy.without_path(text) == text


@pytest.mark.parametrize("ending", ["html", "svg", "json", "dot", "mmd"])
def test_exports_carry_no_paths_unless_asked(tmp_path, ending):
    secret = f"{Path.home()}/secret_folder/weights.npz"
    with wb.record(secret) as session, wb.scope(secret):
        a = engine.ones(2, requires_grad=True) * 2
        b = a.exp()
    session.recording.names[session.recording.find(b)] = secret
    for paths in (False, True):
        file = tmp_path / f"graph.{ending}"
        wb.export(file, session, paths=paths)
        content = file.read_text(encoding="utf-8")
        assert ("secret_" in content or ending == "html" and b"secret_" in Replay(file).block) is paths


# -- data for other tools ------------------------------------------------------------------------------------------------------

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "graph.schema.json").read_text(encoding="utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def fits(value, schema, where="$"):
    """The sentences that say where the value breaks the schema: those words of JSON Schema that ours has."""
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], where)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    plain = isinstance(value, int) and not isinstance(value, bool)
    numbers = ("integer" in kinds and plain) or ("number" in kinds and (plain or isinstance(value, float)))
    if kinds and not numbers and not any(kind in TYPES and isinstance(value, TYPES[kind]) for kind in kinds):
        return [f"{where} is a {type(value).__name__}, not {kinds}"]
    found = []
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} is {value!r}")
    if "minimum" in schema and isinstance(value, (int, float)) and value < schema["minimum"]:
        found.append(f"{where} is {value}")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{where} has no {name}" for name in schema.get("required", []) if name not in value]
        found += [f"{where} has {name}" for name in value if name not in known and schema.get("additionalProperties") is False]
        found += [one for name in value if name in known for one in fits(value[name], known[name], f"{where}.{name}")]
    if isinstance(value, list) and "items" in schema:
        found += [one for i, item in enumerate(value) for one in fits(item, schema["items"], f"{where}[{i}]")]
    return found


def test_the_schema_is_one_that_refuses():
    assert fits({"format": "other"}, SCHEMA)
    assert fits({"id": "0"}, SCHEMA["$defs"]["node"])


@pytest.mark.parametrize("stats", [False, True])
def test_json_is_what_the_schema_says(recorded, tmp_path, stats):
    wb.export(tmp_path / "graph.json", recorded, stats=stats)
    graph = json.loads((tmp_path / "graph.json").read_text())
    assert fits(graph, SCHEMA) == []
    by_op = {node["op"]: node for node in graph["nodes"]}
    assert [graph["nodes"][one["node"]]["op"] for one in by_op["cross_entropy"]["inputs"]] == ["linear", "remainder"]
    linear = [node for node in graph["nodes"] if node["op"] == "linear"]
    assert [[graph["nodes"][one["node"]]["name"] for one in node["inputs"]][1:] for node in linear] == [
        ["0.weight", "0.bias"],
        ["2.weight", "2.bias"],
    ]
    weight = next(node for node in graph["nodes"] if node["name"] == "0.weight")
    assert (weight["shape"], weight["dtype"], weight["bytes"], weight["kind"]) == ([8, 4], "float32", 128, "parameter")
    if stats:
        x = recorded.x.numpy().astype(numpy.float64)
        known = next(node for node in graph["nodes"] if node["shape"] == [16, 4] and node["kind"] == "input")["stats"]
        assert (known["min"], known["max"], known["negative"]) == (pytest.approx(x.min()), pytest.approx(x.max()), int((x < 0).sum()))


def test_hostile_names_stay_data(tmp_path):
    session = hostile()
    wb.export(tmp_path / "graph.json", session)
    graph = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))
    assert fits(graph, SCHEMA) == [] and HOSTILE in [node["name"] for node in graph["nodes"]]
    assert mermaid.text(session.graph.message()).count("<") == mermaid.text(session.graph.message()).count("<br>")


def test_dot_says_what_the_graph_is(recorded):
    whole = dot.text(recorded.graph.message())
    assert len(re.findall(r"^\s*n\d+ -> n\d+ ", whole, re.M)) == len(recorded.graph.message().edges.source)
    assert len(re.findall(r"subgraph cluster_", whole)) == len(recorded.graph.message().groups)


@pytest.mark.skipif(DOT is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_graphviz_takes_it(recorded, which, tmp_path):
    """Graphviz reads what we wrote and shows the very texts."""
    session = recorded if which == "plain" else hostile()
    message = session.graph.message()
    run = subprocess.run([str(DOT), "-Tsvg"], input=dot.text(message).encode(), capture_output=True, check=True)
    assert run.stderr == b""
    drawn = ET.fromstring(run.stdout)
    texts = [element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert sum("class" in g.attrib and g.attrib["class"] == "node" for g in drawn.iter("{http://www.w3.org/2000/svg}g")) == len(
        message.nodes.op
    )
    if which == "hostile":
        assert any(HOSTILE.replace("\u2028", "").split("<!--")[0] in " ".join(one.split()) for one in texts)


def test_a_trace_has_each_op_with_its_time(recorded, tmp_path):
    recorded.loss.backward()
    wb.export(tmp_path / "lesson.trace.json", recorded)
    events = json.loads((tmp_path / "lesson.trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    forward = [event for event in spans if event["cat"] == "forward"]
    assert [event["name"] for event in forward] == ["linear", "tanh", "linear", "remainder", "cross_entropy"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    assert [event["ts"] for event in spans] == sorted(event["ts"] for event in spans)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(forward, forward[1:], strict=False))


# -- drawings ------------------------------------------------------------------------------------------------------------------


def graphs():
    """Programs with modules, branches, loops and folds."""

    def mlp():
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))(engine.randn(2, 4)).sum()

    def deep():
        return nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(12)])(engine.randn(2, 8)).sum()

    def loop():
        h, w = engine.zeros(2, 4), engine.randn(4, 4, requires_grad=True)
        for _ in range(30):
            h = (h @ w).tanh() + h
        return h.sum()

    def branches():
        x = engine.randn(3, 3, requires_grad=True)
        parts = [x * float(i) for i in range(9)]
        return sum(a * b for a, b in zip(parts, parts[::-1], strict=True)).sum()  # type: ignore[union-attr]

    def long():
        x = engine.randn(3, requires_grad=True)
        for f in (lambda y: y * 1.5, engine.tanh, engine.exp, engine.sin) * 60:
            x = f(x)
        return x.sum()

    def beside():  # inputs and updates beside a tall group
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 3))
        x, target = engine.randn(2, 4), engine.randn(2, 3)
        return F.mse_loss(model(x), target) + model(x + 1.0).sum()

    return {"mlp": mlp, "deep": deep, "loop": loop, "branches": branches, "long": long, "beside": beside}


def drawn(name: str):
    engine.manual_seed(0)
    with wb.record(name) as session:
        kept = graphs()[name]()
    assert kept.requires_grad
    return session, draw(session.graph.message())


def inside(frame, x, y):
    return frame.x < x < frame.x + frame.width and frame.y < y < frame.y + frame.height


@pytest.mark.slow
@pytest.mark.parametrize("name", graphs())
def test_no_box_overlaps_another_and_no_edge_passes_one(name):
    _, d = drawn(name)
    assert 0 < len(d.boxes) <= outline.BOXES
    for i, a in enumerate(d.boxes):
        assert a.x >= 0 and a.y >= 0 and a.x + a.width <= d.width + 0.1 and a.y + a.height <= d.height + 0.1
        for b in d.boxes[:i]:
            assert a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
    for wire in d.wires:
        for (x, y), (to_x, to_y) in zip(wire, wire[1:], strict=False):
            for k in range(21):
                t = k / 20  # Bernstein: the two middle points are half of the way down, one at each end's x
                px = x + (to_x - x) * (3 * t**2 - 2 * t**3)
                py = y + (to_y - y) * (1.5 * t - 1.5 * t**2 + t**3)
                hit = [box.title for box in d.boxes if inside(box, px, py) and inside_by(box, px, py) > 1.0]
                assert hit == [], (wire, (px, py))


def inside_by(box, x, y):
    return min(x - box.x, box.x + box.width - x, y - box.y, box.y + box.height - y)


@pytest.mark.parametrize("name", graphs())
def test_a_drawing_counts_what_it_does_not_show(name):
    """The ops in the boxes add up to those of the graph."""
    session, d = drawn(name)
    nodes = session.graph.message().nodes
    own = sum(box.kind in ("op", "failed") for box in d.boxes)
    counted = sum(int(box.detail.split(" op")[0].replace(",", "")) for box in d.boxes if box.kind in ("group", "more"))
    assert counted == d.hidden
    written = sum("BatchNorm1d" in box.title for box in d.boxes)  # each counts its batches
    assert own + counted + written == sum(kind == "op" for kind in nodes.kind)


def test_the_update_of_a_modules_state_is_written_in_its_box():
    norm = nn.BatchNorm1d(3)
    with wb.record() as session:
        norm(engine.randn(2, 3)).sum()
    boxes = {box.title: box.riders for box in draw(session.graph.message()).boxes}
    assert boxes == {"input": "", "batch_normalize · norm: BatchNorm…": "weight, bias, num_batches_tracked", "sum": ""}
    assert "add num_batches_tracked" in repr(session)


def test_fewer_boxes_close_more_groups(tmp_path, recorded):
    session, whole = drawn("beside")
    few = draw(session.graph.message(), 4)
    assert len(few.boxes) <= 4 < len(whole.boxes) and few.hidden > whole.hidden == 0
    assert str(few.hidden) in wb.export(tmp_path / "few.svg", session, boxes=4).left
    with pytest.raises(ValueError, match="boxes is the number of boxes that a drawing may have, at least 1, not 0"):
        wb.export(tmp_path / "none.svg", session, boxes=0)


def test_frames_hold_what_is_in_them():
    session, d = drawn("deep")
    titles = [frame.title for frame in d.frames]
    assert any("×12" in title for title in titles) and [box.title for box in d.boxes if box.kind == "more"] == ["+11 more"]
    for outer, inner in zip(d.frames, d.frames[1:], strict=False):
        if inner.depth > outer.depth:
            assert inside(outer, inner.x, inner.y) and inside(outer, inner.x + inner.width, inner.y + inner.height)


def test_png_is_twice_the_drawing_and_pdf_has_text(recorded, tmp_path):
    d = draw(recorded.graph.message())
    wb.export(tmp_path / "graph.png", recorded)
    png = (tmp_path / "graph.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    assert abs(width - 2 * d.width) <= 2 and abs(height - 2 * d.height) <= 2
    wb.export(tmp_path / "graph.pdf", recorded)
    pdf = (tmp_path / "graph.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and b"/Type /Page" in pdf and b"/FontFile2" in pdf and b"/ToUnicode" in pdf  # letters, not outlines
    box = [float(one) for one in re.search(rb"/MediaBox \[ ([\d. ]+) \]", pdf)[1].split()]
    assert box[2] == pytest.approx(d.width * 0.75, abs=1) and box[3] == pytest.approx(d.height * 0.75, abs=1)


# -- the still picture in a notebook -------------------------------------------------------------------------------------------

# What GitHub keeps of an SVG (github/markup, gjtorikian/html-pipeline: sanitization filter): no script, style, foreignObject, link, handler.
KEPT_TAGS = {"svg", "g", "path", "rect", "text", "title", "desc", "line", "circle", "polyline", "polygon", "tspan"}
KEPT = {"viewBox", "width", "height", "x", "y", "rx", "d", "fill", "stroke", "stroke-dasharray", "stroke-width", "fill-opacity", "points"}
KEPT |= {"font-size", "font-family", "text-anchor", "role", "aria-label"}


def kept_by_github(markup: str) -> bool:
    root = ET.fromstring(markup)
    names = [(element.tag.split("}")[-1], set(element.attrib)) for element in root.iter()]
    return all(tag in KEPT_TAGS and attributes <= KEPT for tag, attributes in names)


@pytest.mark.parametrize("name", graphs())
def test_a_still_loses_nothing_to_a_sanitiser(name):
    session, _ = drawn(name)
    stills = session.stills()
    assert set(stills) == {"text/plain", "image/svg+xml"}
    assert kept_by_github(stills["image/svg+xml"])
    assert sum(len(one.encode()) for one in stills.values()) <= 200_000
    assert not kept_by_github('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>')


def test_hostile_names_stay_text_in_a_still():
    stills = hostile().stills()
    assert kept_by_github(stills["image/svg+xml"])
    drawn = ET.fromstring(stills["image/svg+xml"])
    assert any("</script>" in (element.text or "") for element in drawn.iter())


def test_stills_of_every_kind_of_view(recorded):
    recorded.loss.backward()
    x = engine.randn(40, 40)
    for session in (wb.show(recorded.loss), wb.diff(recorded, recorded)):
        assert kept_by_github(session.stills()["image/svg+xml"])
    for report in (wb.memory(), wb.profile(), wb.check()):
        assert repr(report)
    markup = display.html(x)
    assert "<script" not in markup and "<style" not in markup


def test_a_saved_notebook_shows_the_picture_everywhere(recorded):
    import nbformat
    from nbconvert import HTMLExporter, MarkdownExporter

    stills = recorded.stills()
    data = {**stills, "application/vnd.jupyter.widget-view+json": {"model_id": "gone", "version_major": 2, "version_minor": 1}}
    output = nbformat.v4.new_output("display_data", data=data)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("wb.show(loss)", outputs=[output])])
    assert "image/svg+xml;base64," in HTMLExporter().from_notebook_node(notebook)[0]
    written, resources = MarkdownExporter().from_notebook_node(notebook)
    assert any(name.endswith(".svg") for name in resources["outputs"]) and ".svg)" in written


# -- the text ------------------------------------------------------------------------------------------------------------------


def lines_of(told: str) -> list[str]:
    return told.splitlines()[1:]


def test_the_text_has_each_op_with_its_inputs_and_each_parameter_with_its_gradient(recorded):
    before = repr(wb.show(recorded.loss))
    assert before.count("no gradient yet") == 4
    recorded.loss.backward()
    told = repr(wb.show(recorded.loss))
    assert "a lesson: 5 ops, 4 parameters" in told.splitlines()[0]
    by_id = {int(found[1]): line for line in lines_of(told) if (found := re.match(r" *#(\d+) ", line))}
    message = recorded.graph.message()
    assert sorted(by_id) == list(range(len(message.nodes.op)))
    for target in by_id:
        sources = [s for s, t in zip(message.edges.source, message.edges.target, strict=True) if t == target]
        assert (f", from {', '.join(f'#{s}' for s in sources)}," in by_id[target] + ",") == bool(sources)
    for name, parameter in recorded.recording.modules[0]().named_parameters():
        norm = float(numpy.sqrt((parameter.grad.numpy().astype(numpy.float64) ** 2).sum()))
        (line,) = [line for line in by_id.values() if f"parameter {name}:" in line]
        assert float(line.rsplit(" ", 1)[1]) == pytest.approx(norm, rel=1e-3)


@pytest.mark.parametrize("name", graphs())
def test_the_text_is_a_tree_that_counts_what_it_leaves_out(name):
    session, _ = drawn(name)
    nodes = session.graph.message().nodes
    lines = lines_of(text.tree(session.graph.message()))
    shown = [int(found[1]) for line in lines if (found := re.match(r" *#(\d+) ", line))]
    counted = sum(int(found[1].replace(",", "")) for line in lines if (found := re.search(r": ([\d,]+) ops?(,|$)", line)))
    assert len(set(shown)) == len(shown) and sum(nodes.kind[row] == "op" for row in shown) + counted == sum(
        kind == "op" for kind in nodes.kind
    )
    depths = [(len(line) - len(line.lstrip())) // 2 for line in lines]
    assert depths[0] == 1 and all(b <= a + 1 for a, b in zip(depths, depths[1:], strict=False))
    assert len(lines) <= 4 * outline.BOXES


def test_a_loop_is_told_once_and_counted():
    session, _ = drawn("loop")
    lines = lines_of(text.tree(session.graph.message()))
    assert any(line.strip().startswith("for _ in range(30) ×30") for line in lines)
    assert [line.strip() for line in lines if "more like it" in line] == ["+29 more like it: 87 ops"]  # 3 ops at each turn


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], {})
    assert {file.name for file in tmp_path.iterdir()} == {"lesson.html", "graph.pdf", "graph.json"}
    fields = set(re.findall(r"`(\w+)`", page.split("## JSON, version 1")[1]))
    named = set(SCHEMA["properties"]) | {name for part in SCHEMA["$defs"].values() for name in part["properties"]}
    assert named - fields <= {"nodes", "groups", "sites"} | {"node", "slot"}


def test_every_file_is_written_without_another_program(tmp_path, monkeypatch):
    """No Graphviz, no browser, no LaTeX: nothing is started, and no part of the packages is a binary of one machine."""
    monkeypatch.setenv("PATH", "")

    def refuse(*args, **kwargs):
        raise AssertionError(f"a program was started: {args}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    w = engine.tensor([1.0, 2.0], requires_grad=True)
    with wb.record("alone") as r:
        (w * w).sum()
    for ending in ("a.html", "a.svg", "a.png", "a.pdf", "a.json", "a.dot", "a.mmd", "trace.json"):
        wb.export(tmp_path / ending, r)
        assert (tmp_path / ending).stat().st_size > 50
    root = Path(__file__).parents[2]
    native = {".so", ".pyd", ".dll", ".dylib", ".node", ".exe"}
    assert not [path for package in ("engine", "workbench") for path in (root / package).rglob("*") if path.suffix in native]
