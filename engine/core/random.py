"""Random number generators: the CPU's produces the same stream as PyTorch's for every seed; one of a GPU has a stream of its own."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy

from . import devices as _devices
from .devices import device as _device
from .tensor import Tensor

_STATE = struct.Struct("<Qiiq624Qdddii fi")  # PyTorch's layout, so that states can be exchanged
_STATE_BYTES = 5056


class Generator:
    """A Mersenne Twister (mt19937) generator with the seeding and the stream of PyTorch's CPU generator.

    `Generator("cuda")` is a `Philox` generator, whose numbers are drawn on the GPU.
    """

    __slots__ = ("device", "spare", "_seed", "_bits")

    def __new__(cls, device: Any = "cpu") -> Generator:
        return object.__new__(Philox if cls is Generator and _device(device).type == "cuda" else cls)

    def __init__(self, device: Any = "cpu"):
        self.device = _device(device)
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Seed the generator with an integer from -2^63 to 2^64 - 1, of which the low 32 bits count, and return it.

        Raises RuntimeError for a seed that is not an integer and ValueError for one out of range.
        """
        if not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = seed.__index__()
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(f"Overflow when unpacking long long: expected an integer between -2^63 and 2^64 - 1, got {seed}")
        self._seed = seed & ((1 << 64) - 1)
        self.spare: float | None = None  # the second of the last pair of normal samples, if not used yet
        self._restart()
        return self

    def _restart(self) -> None:
        self._bits = numpy.random.MT19937(0)
        self._bits._legacy_seeding(self._seed & 0xFFFFFFFF)

    def seed(self) -> int:
        """Seed the generator from the operating system's randomness, and return the seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed of the stream."""
        return self._seed

    def words(self, n: int) -> numpy.ndarray:
        """Return the next `n` 32-bit random integers, as uint64."""
        return self._bits.random_raw(n)

    def long_words(self, n: int) -> numpy.ndarray:
        """Return the next `n` 64-bit random integers, each made of two 32-bit ones, the high one first."""
        words = self.words(2 * n)
        return words[0::2] << numpy.uint64(32) | words[1::2]

    def get_state(self) -> Tensor:
        """Return the state as a uint8 tensor of 5056 bytes, in PyTorch's layout."""
        at = self._bits.state["state"]
        position = int(at["pos"])
        packed = _STATE.pack(
            self._seed,
            625 - position,
            1,
            position % 624,
            *at["key"].tolist(),
            0.0,
            self.spare or 0.0,
            0.0,
            self.spare is not None,
            0,
            0.0,
            0,
        )
        return Tensor._wrap(numpy.frombuffer(packed.ljust(_STATE_BYTES, b"\0"), numpy.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Set a state that `get_state` of this library or of PyTorch returned. Raises TypeError or RuntimeError if it is not valid."""
        state = new_state
        array = numpy.asarray(state._host() if isinstance(state, Tensor) else state)
        if array.dtype != numpy.uint8:
            raise TypeError(f"expected a uint8 tensor as RNG state, got {array.dtype}")
        if array.size != _STATE_BYTES:
            raise RuntimeError(f"RNG state is wrong size: expected {_STATE_BYTES} bytes, got {array.size}")
        seed, left, seeded, _, *rest = _STATE.unpack(array.tobytes()[: _STATE.size])
        if not seeded or not 1 <= left <= 624:
            raise RuntimeError("Invalid mt19937 state")
        key, (_, spare, _, has_spare, *_) = rest[:624], rest[624:]
        self._seed, self.spare = seed, spare if has_spare else None
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": numpy.array(key, numpy.uint32), "pos": 625 - left}}
        return self

    def clone_state(self) -> Generator:
        """Return a new generator at the same point of the same stream."""
        twin = Generator(self.device)
        twin.set_state(self.get_state())
        return twin

    def __repr__(self) -> str:
        return f"Generator(device={str(self.device)!r}, seed={self._seed})"


class Philox(Generator):
    """A generator of a GPU: Philox 4x32-10 with the seed as its key and a counter of blocks of four 32-bit words, `offset`.

    The state is 16 bytes, seed and offset, as PyTorch's for CUDA, but the values are not PyTorch's. While a CUDA graph is captured,
    `graph` holds the address where its replays find the seed and the offset, and counts the blocks that one replay draws.
    """

    __slots__ = ("graph", "offset")

    def __init__(self, device: Any = "cuda"):
        self.graph: Any = None
        super().__init__(device)

    def _restart(self) -> None:
        self.offset = 0

    def advance(self, n: int) -> int:
        """Return the counter, and move it on by `n` blocks."""
        at = self.offset
        self.offset = (at + n) % (1 << 64)
        return at

    def take(self, n: int) -> tuple[int, int, int]:
        """Return `(seed, counter, address)` for a kernel that draws `n` blocks, and move on by `n`; see `Source` in `random.cu`."""
        return (self._seed, self.advance(n), 0) if self.graph is None else (0, self.graph.advance(n), self.graph.pointer)

    def words(self, n: int) -> numpy.ndarray:
        """Return the words of the next ceil(n / 4) blocks, computed on the host: the same as on the GPU."""
        blocks = -(-n // 4)
        counter = numpy.uint64(self.advance(blocks)) + numpy.arange(blocks, dtype=numpy.uint64)
        low, shift = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
        a, b, c, d = counter & low, counter >> shift, numpy.zeros_like(counter), numpy.zeros_like(counter)
        for i in range(10):
            k0, k1 = ((self._seed >> at & 0xFFFFFFFF) + i * step & 0xFFFFFFFF for at, step in ((0, 0x9E3779B9), (32, 0xBB67AE85)))
            x, y = a * numpy.uint64(0xD2511F53), c * numpy.uint64(0xCD9E8D57)
            a, b, c, d = (y >> shift) ^ b ^ numpy.uint64(k0), y & low, (x >> shift) ^ d ^ numpy.uint64(k1), x & low
        return numpy.stack([a, b, c, d], 1).reshape(-1)[:n]

    def get_state(self) -> Tensor:
        """Return the state as a uint8 tensor of 16 bytes."""
        return Tensor._wrap(numpy.array([self._seed, self.offset], numpy.uint64).view(numpy.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Set a state that `get_state` returned. Raises TypeError or RuntimeError if it is not valid."""
        state = numpy.asarray(new_state._host() if isinstance(new_state, Tensor) else new_state)
        if state.dtype != numpy.uint8:
            raise TypeError(f"expected a uint8 tensor as RNG state, got {state.dtype}")
        if state.size != 16:
            raise RuntimeError(f"RNG state is wrong size: expected 16 bytes, got {state.size}")
        self._seed, self.offset = numpy.ascontiguousarray(state).view(numpy.uint64).tolist()
        return self


class _Drawing(threading.local):
    """What draws in this thread instead of `kernels_random`, while a step is compiled."""

    by: Any = None


drawing = _Drawing()
default_generator = Generator()
default_generator.seed()
_of_gpus: dict[int, Philox] = {}  # the default generators of GPUs, made at their first use


def generator_of(device: Any) -> Generator:
    """Return the default generator of a device. A GPU's begins with the seed of the CPU's."""
    if device is None or device.type != "cuda":
        return default_generator
    index = _devices.cuda().current_device() if device.index is None else device.index
    if index not in _of_gpus:
        _of_gpus[index] = Philox(_device("cuda", index))
        _of_gpus[index].manual_seed(default_generator.initial_seed())
    return _of_gpus[index]


def states(*more: Generator) -> list[tuple[Generator, Tensor]]:
    """Return the states of all default generators, and of further ones, for `restore`."""
    return [(generator, generator.get_state()) for generator in (default_generator, *_of_gpus.values(), *more)]


def restore(saved: list[tuple[Generator, Tensor]]) -> None:
    """Set the generators to the states of an earlier time. Those first used since then begin anew."""
    for generator, state in saved:
        generator.set_state(state)
    held = {id(generator) for generator, _ in saved}
    for generator in _of_gpus.values():
        if id(generator) not in held:
            generator.manual_seed(generator.initial_seed())


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices with `int(seed)`, and return the CPU's."""
    for generator in _of_gpus.values():
        generator.manual_seed(int(seed))
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generators from the operating system's randomness, and return the seed."""
    return manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the default generator's state, a uint8 tensor of 5056 bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator to a state from `get_rng_state`."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Restore the states of the default generators at the end of the block: those of all devices, whatever `devices` is."""
    if not enabled:
        yield
        return
    saved = states()
    try:
        yield
    finally:
        restore(saved)
