"""The server of docs/serve.py: right answers under load, in batches; wrong requests are refused; both forms of a model."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest

import engine
from engine import nn

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def serve():
    spec = importlib.util.spec_from_file_location("serve", Path(__file__).parents[1] / "docs" / "serve.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model():
    engine.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


@pytest.fixture(scope="module", params=["onnx", "zip"])
def address(request, serve, model, tmp_path_factory):
    """The address of a server for the model, which runs in a thread with batches of at most 8 samples."""
    path, x = tmp_path_factory.mktemp("served") / f"model.{request.param}", engine.randn(2, 4)
    if request.param == "onnx":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        engine.onnx.export(model, (x,), path, dynamic_axes={"input": {0: "batch"}})
    else:
        pytest.importorskip("jax")
        pytest.importorskip("flatbuffers")
        with engine.no_grad():
            engine.compile(model).export(path, (x,), dynamic_batch=True)
    server = uvicorn.Server(uvicorn.Config(serve.app_for(path, largest=8), port=0, log_level="warning", loop="asyncio", http="h11"))
    started = threading.Event()
    startup = server.startup

    async def noted(*args: Any, **kwargs: Any) -> None:
        await startup(*args, **kwargs)
        started.set()

    server.startup = noted
    thread = threading.Thread(target=server.run)
    thread.start()
    assert started.wait(60)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def ask(url: str, body: Any = None) -> tuple[int, Any]:
    """The status and the answer, for a JSON body or bytes."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_requests_at_the_same_time_are_answered_in_batches(model, address):
    rng = numpy.random.default_rng(0)
    requests = [rng.normal(size=(1 + k % 3, 4)).astype(numpy.float32) for k in range(60)]
    before = ask(f"{address}/healthz")[1]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda x: ask(f"{address}/predict", {"inputs": x.tolist()}), requests))
    for x, (status, answer) in zip(requests, answers, strict=True):
        assert status == 200
        expected = model(engine.from_numpy(x)).detach().numpy()
        numpy.testing.assert_allclose(numpy.array(answer["outputs"]), expected, rtol=1e-4, atol=1e-5)
    status, health = ask(f"{address}/healthz")
    assert status == 200 and health["status"] == "ok"
    assert health["samples"] - before["samples"] == sum(map(len, requests))
    assert 0 < health["batches"] - before["batches"] <= len(requests)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": [[1, 2, 3]]}, "of shape [4], got int64 of shape [1, 3]"),
        ({"inputs": [[1, 2, 3, 4], [1]]}, "got lists of different lengths"),
        ({"inputs": []}, "expected 1 to 8 samples"),
        ({"inputs": [[0, 0, 0, 0]] * 9}, "expected 1 to 8 samples"),
        ({"inputs": [["1", "2", "3", "4"]]}, "got <U1"),
        ({"inputs": [[True, True, True, True]]}, "got bool"),
        ({"inputs": [[None, 1, 2, 3]]}, "got object"),
        ({"inputs": [[float("nan"), 1, 2, 3]]}, "finite numbers"),
        ({"inputs": [[1e300, 1, 2, 3]]}, "finite numbers of float32"),
        ({"inputs": [[10**30, 1, 2, 3]]}, "got object"),
        ({"inputs": 3}, "valid list"),
        ({}, "Field required"),
        (b"{", "JSON decode error"),
    ],
)
def test_wrong_requests_are_told_what_is_expected(address, body, words):
    status, answer = ask(f"{address}/predict", body)
    assert status == 422 and words in json.dumps(answer)


def test_requests_that_wait_share_a_batch_and_too_many_are_refused(serve):
    ran: list[list[float]] = []
    go = threading.Event()

    def doubled(batch: numpy.ndarray) -> numpy.ndarray:
        go.wait(60)
        ran.append(batch.tolist())
        if (batch < 0).any():
            raise ValueError("negative")
        return batch * 2

    async def run() -> list:
        batches = serve.Batches(doubled, largest=3, waiting=3)
        serving = asyncio.create_task(batches.serve())

        async def ask(*samples: float) -> asyncio.Task:
            task = asyncio.create_task(batches.run(numpy.array(samples)))
            await asyncio.sleep(0.01)
            return task

        tasks = [await ask(1.0), await ask(2.0), await ask(3.0, 4.0), await ask(-5.0)]  # the first one runs, and waits for `go`
        with pytest.raises(asyncio.QueueFull):
            await batches.run(numpy.array([6.0]))
        go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        found.append(await batches.run(numpy.array([7.0])))
        assert (batches.samples, batches.batches) == (5, 3)
        serving.cancel()
        return found

    with ThreadPoolExecutor(1) as alone:  # whatever loop this thread has
        *found, failed, last = alone.submit(lambda: asyncio.run(run())).result()
    assert [x.tolist() for x in (*found, last)] == [[2.0], [4.0], [6.0, 8.0], [14.0]] and str(failed) == "negative"
    assert ran == [[1.0], [2.0, 3.0, 4.0], [-5.0], [7.0]]
