"""A server for an exported model, ONNX or an XLA program: `python serve.py model.onnx`. It needs neither the engine nor PyTorch.

    POST /predict {"inputs": [sample, ...]} -> {"outputs": [result, ...]}
    GET  /healthz

Requests that arrive while the model runs are run together as the next batch. docs/deploy.md explains.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel


class OnnxModel:
    """An ONNX model with one input, whose first dimension is the batch."""

    def __init__(self, path: Path, sizes: list[int]) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(path, providers=onnxruntime.get_available_providers())
        (given,) = self.session.get_inputs()
        self.name, self.shape = given.name, tuple(given.shape[1:])
        self.dtype = numpy.dtype({"tensor(float)": "float32", "tensor(double)": "float64", "tensor(int64)": "int64"}[given.type])

    def __call__(self, batch: numpy.ndarray) -> numpy.ndarray:
        return self.session.run(None, {self.name: batch})[0]


class XlaModel:
    """A program of `compiled.export(..., dynamic_batch=True)` with one input; compiled for each batch size before the first request."""

    def __init__(self, path: Path, sizes: list[int]) -> None:
        import jax.export
        import safetensors.numpy

        jax.config.update("jax_enable_x64", True)
        with zipfile.ZipFile(path) as file:
            (given,) = json.loads(file.read("manifest.json"))["inputs"]
            program = jax.jit(jax.export.deserialize(bytearray(file.read("program.jax"))).call)
            state = jax.device_put(safetensors.numpy.load(file.read("state.safetensors")))
        self.shape, self.dtype, self.sizes = tuple(given["shape"][1:]), numpy.dtype(given["dtype"]), sizes
        self.program = lambda batch: jax.tree.leaves(program(state, batch)[0])[0]
        for n in sizes:
            self(numpy.zeros((n, *self.shape), self.dtype))

    def __call__(self, batch: numpy.ndarray) -> numpy.ndarray:
        n = len(batch)
        size = next(s for s in self.sizes if s >= n)
        padded = numpy.concatenate([batch, numpy.zeros((size - n, *self.shape), self.dtype)])
        return numpy.asarray(self.program(padded))[:n]


class Batches:
    """Runs requests in batches, one batch at a time."""

    def __init__(self, model: Callable, largest: int, waiting: int) -> None:
        self.model, self.largest = model, largest
        self.queue: asyncio.Queue = asyncio.Queue(waiting)
        self.thread = ThreadPoolExecutor(1)
        self.samples = self.batches = 0

    async def run(self, samples: numpy.ndarray) -> numpy.ndarray:
        """Return the results of some samples, once the batch that they are in has been run. Raises QueueFull if too many wait."""
        done = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((samples, done))
        return await done

    async def serve(self) -> None:
        left: Any = None
        while True:
            requests, left = [left or await self.queue.get()], None
            n = len(requests[0][0])
            while not self.queue.empty():
                request = self.queue.get_nowait()
                if n + len(request[0]) > self.largest:
                    left = request
                    break
                requests.append(request)
                n += len(request[0])
            try:
                batch = numpy.concatenate([samples for samples, _ in requests])
                results = await asyncio.get_running_loop().run_in_executor(self.thread, self.model, batch)
            except Exception as error:  # of the model's library: the requests get it, and the server goes on
                for _, done in requests:
                    if not done.done():
                        done.set_exception(error)
                continue
            self.samples, self.batches = self.samples + n, self.batches + 1
            for samples, done in requests:
                part, results = results[: len(samples)], results[len(samples) :]
                if not done.done():  # the client may have gone
                    done.set_result(part)


class Request(BaseModel):
    inputs: list


def checked(inputs: list, shape: tuple, dtype: numpy.dtype, largest: int) -> numpy.ndarray:
    """Return the samples of a request as an array. Raises HTTPException 422, saying what was expected, for anything else."""
    wanted = f"1 to {largest} samples, each a nested list of numbers of shape {list(shape)}"
    try:
        array = numpy.array(inputs)
    except ValueError as error:  # lists of different lengths
        raise HTTPException(422, f"inputs: expected {wanted}; got lists of different lengths") from error
    if array.dtype.kind not in ("i" if dtype.kind == "i" else "if") or array.shape[1:] != shape or not 1 <= len(array) <= largest:
        raise HTTPException(422, f"inputs: expected {wanted}, got {array.dtype} of shape {list(array.shape)}")
    with numpy.errstate(over="ignore"):
        array = array.astype(dtype)
    if not numpy.isfinite(array).all():
        raise HTTPException(422, f"inputs: expected finite numbers of {dtype}")
    return array


def app_for(path: Path, largest: int = 32, waiting: int = 1000) -> FastAPI:
    """The application for a model file. `largest` is the size of a batch, `waiting` how many requests may wait for theirs."""
    sizes = [1 << k for k in range((largest - 1).bit_length())] + [largest]
    model = (OnnxModel if path.suffix == ".onnx" else XlaModel)(path, sizes)
    state: dict[str, Any] = {}

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        state["batches"] = batches = Batches(model, largest, waiting)
        state["task"] = task = asyncio.create_task(batches.serve())
        yield
        task.cancel()

    app = FastAPI(title=path.name, lifespan=lifespan)

    @app.post("/predict")
    async def predict(request: Request) -> dict:
        samples = checked(request.inputs, model.shape, model.dtype, largest)
        try:
            results = await state["batches"].run(samples)
        except asyncio.QueueFull:
            raise HTTPException(503, "too many requests are waiting", {"Retry-After": "1"}) from None
        return {"outputs": results.tolist()}

    @app.get("/healthz")
    async def healthz() -> dict:
        if state["task"].done():
            raise HTTPException(503, "the model is not served any more")
        return {"status": "ok", "samples": state["batches"].samples, "batches": state["batches"].batches}

    return app


if __name__ == "__main__":
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    uvicorn.run(app_for(options.model, options.batch), host=options.host, port=options.port, log_level="warning")
