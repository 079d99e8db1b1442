"""JupyterLab as a child process of a test, with folders, a port and a token of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 300
STOP_SECONDS = 20


@dataclass
class Server:
    """A running JupyterLab; `root` is the folder that it serves."""

    url: str
    token: str
    root: Path
    log: Path
    process: subprocess.Popen[bytes]

    def open(self, path: str, method: str = "GET") -> tuple[str, bytes]:
        """One request; returns the address that answered, redirections followed, and what it said."""
        request = urllib.request.Request(self.url + path, method=method, headers={"Authorization": f"token {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.url, answer.read()

    def request(self, method: str, path: str) -> Any:
        """One call of the REST API; returns the answer, None if it is empty."""
        body = self.open(path, method)[1]
        return json.loads(body) if body else None

    def tail(self) -> str:
        """The end of the server's log, for the message of a failure."""
        return self.log.read_text(errors="replace")[-4000:]

    def wait(self) -> None:
        """Returns when the server answers: it prints its address a moment before it listens."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended with status {self.process.returncode}:\n{self.tail()}")
            try:
                self.request("GET", "/api/status")
                return
            except OSError as error:  # refused, reset or timed out
                if time.monotonic() > deadline:
                    raise TimeoutError(f"JupyterLab did not answer in {START_SECONDS} s:\n{self.tail()}") from error
                time.sleep(0.1)

    def shut_down_sessions(self) -> None:
        """Ends every notebook's session, and its kernel with it."""
        for session in self.request("GET", "/api/sessions"):
            try:
                self.request("DELETE", f"/api/sessions/{session['id']}")
            except urllib.error.HTTPError as error:
                if error.code not in (404, 410):  # gone already
                    raise

    def stop(self) -> None:
        """Ends the server and its kernels."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(command: list[str], folder: Path, *arguments: str, **environment: str) -> Server:
    """Runs the command in `folder`/root, which is made empty, JupyterLab's arguments behind it; returns when the server answers."""
    root = folder / "root"
    root.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = os.urandom(16).hex()
    names = ("JUPYTER_CONFIG", "JUPYTER_DATA", "JUPYTER_RUNTIME", "JUPYTERLAB_SETTINGS", "JUPYTERLAB_WORKSPACES")
    own = {f"{name}_DIR": str(folder / name.lower()) for name in names} | {"IPYTHONDIR": str(folder / "ipython")}
    command = [
        *command,
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        *arguments,
    ]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=root, env={**os.environ, **own, **environment}, stdout=output, stderr=subprocess.STDOUT)
    server = Server(f"http://127.0.0.1:{port}", token, root, log, process)
    try:
        server.wait()
    except BaseException:
        server.stop()
        raise
    return server
