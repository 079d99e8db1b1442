"""One number per node, for the overlays of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from .. import protocol
from ..backward import metrics
from ..base.requests import answers

if TYPE_CHECKING:
    from .session import Client, Sent, Session


@answers(protocol.AskMetric)
def metric(session: Session, request: protocol.AskMetric, client: Client) -> list[Sent]:
    """The requested metric, as one number per node."""
    if request.metric not in metrics.METRICS:
        raise protocol.Refused(f"There is no overlay {request.metric!r}; there are {', '.join(metrics.METRICS)}.")
    r = session.recording
    values, missing = metrics.METRICS[request.metric](r, session.stepper)
    known = int(numpy.count_nonzero(~numpy.isnan(values)))
    buffer = protocol.Buffer(0, "float32", [len(values)])
    message = protocol.Metric(request.id, r.name, request.metric, buffer, known, "" if known else missing)
    return [(message.to_json(), [values.astype("<f4").tobytes()])]
