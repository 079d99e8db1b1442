"""Names that no file, page or terminal can have: they are written as what can be read, in everything that leaves the kernel."""

from __future__ import annotations

import json
import unicodedata
import xml.etree.ElementTree as ET

import pytest

import engine
import workbench as wb
from engine import nn
from workbench.base.readable import encodable, readable
from workbench.jupyter.widget import View
from workbench.protocol.pack import pack

NAMES = {
    "controls": "a\0b\x1b[31mred\x07\r\x9b0m\x7f",
    "half a character": "\ud800x\udc80",
    "no characters": "\ufffe\uffff",
    "turned": "\u202eabc\u2066\u202d",
    "lines": "\u2028\u2029\ufeff",
    "markup": "</script><img src=x onerror=alert(1)>&\"'",
    "tex": "\\href{javascript:alert(1)}{x}$\\input{/etc/passwd}$",
    "dot": 'a->b; } digraph { \\N "',
    "mermaid": 'end; subgraph "%%{init}%%" click A callback',
    "keys of objects": "__proto__",
    "long": "x" * 100_000,
    "empty": "",
}
ORDINARY = ["weight", "Überlauf", "שלום", "손실", "👩‍👩‍👧", "two\nlines\tand a tab"]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_names_stay_what_they_are(text):
    assert readable(text) == text and encodable(text) == text


def test_what_cannot_be_read_is_seen_to_be_missing():
    assert readable("a\0b") == "a\ufffdb" and readable("\ud800") == "\ufffd"
    assert readable("start" + "x" * 1000 + "end", 100).startswith("start") and readable("start" + "x" * 1000 + "end", 100).endswith("end")
    assert len(readable("x" * 1000, 100)) == 101
    assert encodable({"a": [["mi", "\ud800"], [1, 2]], "b": "\0"}) == {"a": [["mi", "?"], [1, 2]], "b": "\0"}


def named(name: str):
    """A graph with that name wherever a user can give one."""
    model = nn.Sequential()
    with wb.record(name) as session, wb.scope(name):
        a = engine.ones(2, requires_grad=True)
        if name and "." not in name:
            model.add_module(name, nn.Linear(2, 2))
        loss = (model(a) * 2).sum()
        with pytest.raises(RuntimeError):
            loss.reshape(3)
    r = session.recording
    r.names[r.find(a)] = name
    r.note[r.failure] = name + r.note[r.failure]
    session.kept = model, a, loss
    return session


@pytest.mark.slow
@pytest.mark.parametrize("which", NAMES)
@pytest.mark.parametrize("ending", ["html", "svg", "png", "pdf", "json", "dot", "mmd", "trace"])
def test_every_file_can_be_read(which, ending, tmp_path):
    file = tmp_path / f"file.{ending}"
    wb.export(file, named(NAMES[which]))
    assert 0 < file.stat().st_size < 1_000_000
    if ending in ("png", "pdf"):
        return
    text = file.read_bytes().decode()
    if ending == "svg":
        ET.fromstring(text)
    if ending in ("json", "trace"):
        json.loads(text)


@pytest.mark.parametrize("which", NAMES)
def test_the_picture_and_the_text_of_a_view(which):
    stills = named(NAMES[which]).stills()
    ET.fromstring(stills["image/svg+xml"])
    for still in stills.values():
        assert len(still.encode()) < 20_000
    assert {unicodedata.category(c) for c in stills["text/plain"]} & {"Cc", "Cs", "Cn"} <= {"Cc"}
    assert not set(stills["text/plain"]) & {*map(chr, range(9)), "\x1b", "\r", "\x7f", "\x9b", "\u202e"}


@pytest.mark.parametrize("which", NAMES)
def test_messages_can_be_sent(which):
    """As Jupyter sends them: UTF-8, without escapes."""
    session = named(NAMES[which])
    nodes = range(session.recording.count)
    kinds = [{"type": kind} for kind in ("ready", "ask_memory", "ask_timing", "ask_model", "ask_findings")]
    looks = [{"type": kind, "node": node} for kind in ("inspect", "ask_paths", "ask_local") for node in nodes]
    for number, request in enumerate([*kinds, {"type": "ask_faces", "nodes": list(nodes)}, *looks]):
        for answer in session.handle({"v": 1, "id": number, **request}):
            message, _ = pack(*answer)
            json.dumps(message, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("which", NAMES)
def test_what_a_lesson_says_is_saved(which, fresh_sheet):
    """Its text is the author's own and is not cut; it is written where others can read it."""
    text = NAMES[which] or "?"
    loss = engine.ones(2, requires_grad=True).sum()
    view = View(wb.teach.lesson(loss, [wb.teach.say(text), wb.teach.quiz(text, "right", kind="text", id="q")]))
    saved, _ = view._repr_mimebundle_()
    ET.fromstring(saved["image/svg+xml"])
    for kind in ("image/svg+xml", "text/plain"):
        saved[kind].encode()
    view.close()
