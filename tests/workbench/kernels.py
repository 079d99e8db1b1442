"""A real kernel for the tests, driven as a front end drives it: cells, comm messages on the main shell or on a subshell, interrupts."""

from __future__ import annotations

import os
import queue
import sys
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

from kernel_messages import custom, is_custom, printed  # noqa: F401 # for the tests

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300


class Kernel:
    """One kernel and one front end."""

    def __init__(self, path: str = "") -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.kernel_spec.argv[0] = sys.executable
        folders = [p for p in (path, str(ROOT)) if p]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        self.manager.start_kernel(env=environment, cwd=str(ROOT))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)
        info = self.client.kernel_info(reply=True, timeout=PATIENCE)["content"]
        self.has_subshells = "kernel subshells" in info.get("supported_features", [])
        self.seen: list[dict[str, Any]] = []  # everything that came on iopub
        self.subshell: str | None = None
        self._ids = 100

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    # -- cells ------------------------------------------------------------------------------------------------------------------

    def start(self, code: str) -> str:
        """Run a cell and do not wait for it."""
        return self.client.execute(code)

    def run(self, code: str) -> list[dict[str, Any]]:
        """Run a cell to its end; what it published."""
        return self.finish(self.start(code))

    def finish(self, request: str) -> list[dict[str, Any]]:
        """Wait until the cell of that request is done; what it published."""
        self.until(
            lambda m: (
                m["msg_type"] == "status" and m["content"]["execution_state"] == "idle" and m["parent_header"].get("msg_id") == request
            )
        )
        return [m for m in self.seen if m["parent_header"].get("msg_id") == request]

    def until(self, wanted: Any, seconds: float = PATIENCE) -> dict[str, Any]:
        """The first message on iopub, old or new, that is wanted."""
        looked, deadline = 0, time.monotonic() + seconds
        while True:
            for message in self.seen[looked:]:
                if wanted(message):
                    return message
            looked = len(self.seen)
            try:
                self.seen.append(self.client.get_iopub_msg(timeout=0.2))
            except queue.Empty:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"nothing like that came in {seconds:.0f} s; last: {[m['msg_type'] for m in self.seen[-8:]]}"
                    ) from None

    # -- comms ------------------------------------------------------------------------------------------------------------------

    def widget(self, after: int = 0) -> str:
        """The comm of the view that was displayed last."""

        def is_view(m: dict[str, Any]) -> bool:
            return m["msg_type"] == "comm_open" and "_esm" in m["content"]["data"].get("state", {})

        self.until(lambda m: is_view(m) and self.seen.index(m) >= after)
        return [m for m in self.seen if is_view(m)][-1]["content"]["comm_id"]

    def use_subshell(self) -> None:
        """From now on comm messages go to a subshell of their own, as JupyterLab does it. ipykernel 7."""
        session = self.client.session
        message = session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        reply = self.client.control_channel.get_msg(timeout=PATIENCE)
        self.subshell = reply["content"]["subshell_id"]

    def say(self, comm: str, data: dict[str, Any]) -> int:
        """Send a message of the view; its id."""
        self._ids += 1
        message = self.client.session.msg(
            "comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": {"v": 1, "id": self._ids, **data}}}
        )
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(message)
        return self._ids

    def ask(self, comm: str, seconds: float = PATIENCE, **data: Any) -> dict[str, Any]:
        """Send a message of the view and wait for the answer."""
        request = self.say(comm, data)
        return self.until(lambda m: is_custom(m, comm) and custom(m).get("re") == request, seconds)["content"]["data"]["content"]

    def told(self, comm: str, kind: str) -> list[dict[str, Any]]:
        """All messages of a kind that this view has been sent."""
        return [custom(m) for m in self.seen if is_custom(m, comm) and custom(m)["type"] == kind]
