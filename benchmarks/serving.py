"""The server of docs/serve.py under load: requests per second and latencies of an MLP, as ONNX and as an XLA program.

    python benchmarks/serving.py [--clients 32] [--seconds 10] [--batches 1 32] [--forms onnx xla] [--json FILE]

Each server is a process of its own, and so are the clients, which all wait for an answer before they send the next request of one sample
with 784 numbers. Needs gradient-workbench[serve,onnx,xla] and onnxruntime.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import write_json

import engine
from engine import nn

SERVER = Path(__file__).resolve().parent.parent / "docs" / "serve.py"


def exported(folder: Path) -> dict[str, Path]:
    """The model in each form."""
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
    x = engine.randn(2, 784)
    engine.onnx.export(model, (x,), folder / "model.onnx", dynamic_axes={"input": {0: "batch"}})
    with engine.no_grad():
        engine.compile(model).export(folder / "model.zip", (x,), dynamic_batch=True)
    return {"onnx": folder / "model.onnx", "xla": folder / "model.zip"}


def ask(connection: http.client.HTTPConnection, path: str, body: bytes | None = None) -> dict:
    connection.request("GET" if body is None else "POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: status {answer.status}: {text[:200]!r}")
    return json.loads(text)


def wait_for(port: int, server: subprocess.Popen) -> http.client.HTTPConnection:
    while server.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            ask(connection, "/healthz")
            return connection
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the server ended with {server.returncode}")


def load(port: int, clients: int, seconds: float) -> list[float]:
    """Milliseconds of each request, after a second that does not count."""
    random.seed(0)
    body = json.dumps({"inputs": [[round(random.random(), 3) for _ in range(784)]]}).encode()
    begin = time.perf_counter() + 1

    def client(_: int) -> list[float]:
        connection, found = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
        while (start := time.perf_counter()) < begin + seconds:
            ask(connection, "/predict", body)
            if start > begin:
                found.append((time.perf_counter() - start) * 1e3)
        return found

    with ThreadPoolExecutor(clients) as pool:
        return [ms for found in pool.map(client, range(clients)) for ms in found]


def measured(path: Path, batch: int, clients: int, seconds: float) -> dict[str, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(SERVER), str(path), "--batch", str(batch), "--port", str(port)])
    try:
        connection = wait_for(port, server)
        alone = load(port, 1, min(seconds, 2))
        before = ask(connection, "/healthz")
        times = sorted(load(port, clients, seconds))
        after = ask(connection, "/healthz")
    finally:
        server.terminate()
        server.wait()
    return {
        "requests_per_second": len(times) / seconds,
        "p50_ms": statistics.median(times),
        "p99_ms": times[int(0.99 * len(times))],
        "alone_p50_ms": statistics.median(alone),
        "samples_per_batch": (after["samples"] - before["samples"]) / (after["batches"] - before["batches"]),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--forms", nargs="+", default=["onnx", "xla"], choices=["onnx", "xla"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    print(f"{options.clients} clients{'':10} requests/s   p50 ms   p99 ms   alone p50 ms   samples per batch")
    with tempfile.TemporaryDirectory() as folder:
        paths = exported(Path(folder))
        for form in options.forms:
            for batch in options.batches:
                row = results[f"{form}, batch {batch}"] = measured(paths[form], batch, options.clients, options.seconds)
                rate, p50, p99, alone, filled = row.values()
                print(f"{form + ', batch ' + str(batch):<20} {rate:10.0f} {p50:8.2f} {p99:8.2f} {alone:14.2f} {filled:19.1f}")
    write_json(options.json, {"clients": options.clients, "seconds": options.seconds, "results": results})
