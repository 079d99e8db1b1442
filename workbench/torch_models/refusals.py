"""Replies to requests that a PyTorch recording cannot answer, because PyTorch's rules cannot be rerun one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from .. import protocol
from ..inspector import summary

if TYPE_CHECKING:
    from .recording import TorchRecording

SENTENCE = (
    "PyTorch's engine runs a backward pass as a whole; its rules cannot be rerun one by one. "
    "The record of the pass can be stepped through and inspected; nothing in it can be changed or recomputed."
)


def answer(recording: TorchRecording, request: Any) -> protocol.ToView | None:
    """The substitute answer to a request; None if it can be answered normally. Raises `protocol.Refused` for actions."""
    r, name = request, recording.name
    if isinstance(r, protocol.AskEdit):
        return protocol.Editable(r.id, name, r.node, r.what, r.slot, None, SENTENCE)
    if isinstance(r, protocol.AskPaths):
        return protocol.Paths(r.id, name, r.node, SENTENCE, summary(numpy.zeros(0, numpy.float32)), [], 0, 0.0, "")
    if isinstance(r, protocol.AskWhy):
        sentence = "What holds a tensor of PyTorch's is not searched for; the memory view names the variables and ops that it knows of."
        return protocol.Why(r.id, name, r.block, -1, "", 0, [], sentence)
    if isinstance(r, protocol.ForkPass) and r.do == "list":
        return None  # there are none, and the list says so
    if isinstance(r, (protocol.CheckRule, protocol.ForkPass, protocol.Rerun, protocol.AskSampleGradients)):
        raise protocol.Refused(SENTENCE)
    return None
