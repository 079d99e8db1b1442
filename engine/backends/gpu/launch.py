"""Compile CUDA text and launch its kernels: NVRTC and modules through CuPy, launches through the driver.

A launch by `ctypes` takes about 1 us of host time, one of `cupy.RawKernel` 5.5. The tests replace `driver` by an emulator.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OPTIONS = ("--std=c++17", "-default-device", "--fmad=true")

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT

# type of a parameter in a kernel's text -> its `struct` format; every parameter gets a slot of 8 bytes
_FORMATS = {"bool": "?", "int": "i", "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q", "float": "f", "double": "d"}
# dtype -> its type in a kernel's text
TYPES = {f"{kind}int{n}": f"{kind}int{n}_t" for kind in ("", "u") for n in (8, 16, 32, 64)}
TYPES |= {"bool": "bool", "float16": "half_t", "bfloat16": "bf16_t", "float32": "float", "float64": "double"}
TYPES |= {"complex64": "complex64_t", "complex128": "complex128_t"}
_SIGNATURE = r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?{name}\s*\(([^)]*)\)"


@functools.cache
def source(file: str, **named: str | int) -> str:
    """Return the CUDA text of a file of this folder, after `common.cuh` and the types and integers that it names, as `T="float"`."""
    own = "" if file == "common.cuh" else (HERE / file).read_text()
    own = re.sub(r'#include "(.*)"\n', lambda found: (HERE / found[1]).read_text(), own)
    lines = [f"typedef {c} {name};\n" if isinstance(c, str) else f"constexpr int {name} = {c};\n" for name, c in named.items()]
    return "".join([(HERE / "common.cuh").read_text(), *lines, own])


class CompileError(RuntimeError):
    """NVRTC refused a CUDA text; the message has the compiler's, and the text with line numbers."""


class Kernel:
    """A kernel of a CUDA text, compiled for a device at its first launch there.

    Its arguments are integers, floats and bools, addresses for pointers, and bytes for a parameter of a struct type.
    """

    def __init__(self, text: str, name: str) -> None:
        found = re.search(_SIGNATURE.format(name=name), text)
        if found is None:
            raise ValueError(f"the CUDA text has no kernel {name!r}")
        self.text, self.name = text, name
        self.types = [part.strip().rsplit(maxsplit=1)[0] for part in re.split(r",(?![^<]*>)", found[1])]
        self._handles: dict[int, Any] = {}  # device -> function
        self._blocks: list[_Arguments] = []  # those that no launch is using

    def __call__(self, grid: tuple[int, int, int] | int, block: tuple[int, int, int] | int, *values: Any, shared: int = 0) -> None:
        """Launch on the current device and stream. Raises RuntimeError if the driver refuses."""
        handle = self._handles.get(device := driver.device())
        if handle is None:
            handle = self._handles[device] = driver.load(self.text, self.name, device)
        held = self._blocks.pop() if self._blocks else self._arguments(values)  # not shared: another thread may launch too
        held.pack(held.buffer, 0, *values)
        if grid.__class__ is int and block.__class__ is int:
            sizes = (grid, 1, 1, block, 1, 1)
        else:
            sizes = [n for size in (grid, block) for n in ((size, 1, 1) if isinstance(size, int) else size)]
        code = driver.launch(handle, *sizes, shared, driver.stream(), held.pointers, None)
        if code == _NO_CONTEXT:  # the first call of a thread
            driver.bind(device)
            code = driver.launch(handle, *sizes, shared, driver.stream(), held.pointers, None)
        self._blocks.append(held)
        if code:
            raise RuntimeError(f"CUDA error {code} in the launch of kernel {self.name}, grid {grid}, block {block}: {driver.reason(code)}")

    def _arguments(self, values: Sequence[Any]) -> _Arguments:
        formats, places = "=", []
        for kind, value in zip(self.types, values, strict=True):
            code = "Q" if "*" in kind else f"{len(value)}s" if isinstance(value, bytes) else _FORMATS[kind]
            places.append(struct.calcsize(formats))
            formats += f"{code}{-struct.calcsize(code) % 8}x"
        return _Arguments(struct.Struct(formats), places)


class _Arguments:
    """Memory for the arguments of a launch: the driver takes an array of pointers to them, and copies them before it returns."""

    __slots__ = ("buffer", "pack", "pointers")

    def __init__(self, packing: struct.Struct, places: list[int]) -> None:
        self.buffer, self.pack = bytearray(max(packing.size, 1)), packing.pack_into
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.pointers = (ctypes.c_void_p * max(len(places), 1))(*[first + place for place in places])


class Driver:
    """CUDA's driver. No function has `argtypes`: checking them takes 12 us a launch."""

    def __init__(self) -> None:
        from cupy import cuda

        self._library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        self.device = cuda.runtime.getDevice if cuda.runtime.getDeviceCount() > 1 else lambda: 0
        self.launch, self._stream = self._library.cuLaunchKernel, cuda.get_current_stream
        self._modules: dict[tuple[str, int], Any] = {}
        self._streams: dict[int, ctypes.c_void_p] = {}

    def stream(self) -> ctypes.c_void_p:
        pointer = self._stream().ptr
        found = self._streams.get(pointer)
        if found is None:
            found = self._streams[pointer] = ctypes.c_void_p(pointer)
        return found

    def load(self, text: str, name: str, device: int) -> ctypes.c_void_p:
        """Return the handle of a kernel, compiling the text unless it is loaded or in the cache on disk."""
        from cupy import cuda

        module = self._modules.get((text, device))
        if module is None:
            module = self._modules[text, device] = cuda.function.Module()
            module.load(cubin(text, cuda.Device(device).compute_capability))
        return ctypes.c_void_p(module.get_function(name).ptr)

    def bind(self, device: int) -> None:
        """Make a device's context the one of this thread, as CUDA's runtime does at its first call."""
        from cupy import cuda

        cuda.Device(device).use()
        cuda.runtime.free(0)

    def reason(self, code: int) -> str:
        found = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(found))
        return (found.value or b"unknown").decode()


def cubin(text: str, arch: str) -> bytes:
    """Compile for a compute capability such as "90", or read the result from the cache on disk."""
    from cupy.cuda import nvrtc

    key = hashlib.sha256(repr((text, arch, OPTIONS, nvrtc.getVersion())).encode()).hexdigest()
    file = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradient-workbench" / "kernels" / f"{key}.cubin"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(compiled(text, f"sm_{arch}"))
        temporary.replace(file)  # a process that reads the cache never sees half a file
    return file.read_bytes()


def compiled(text: str, arch: str) -> bytes:
    """Compile CUDA text with NVRTC, to a CUBIN for "sm_90" or to PTX for "compute_90"; needs no device.

    Raises CompileError.
    """
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"--gpu-architecture={arch}"))
        return nvrtc.getCUBIN(program) if arch.startswith("sm_") else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        lines = "\n".join(f"{i:5} {line}" for i, line in enumerate(text.splitlines(), 1))
        raise CompileError(f"{error}: {nvrtc.getProgramLog(program)}\n{lines}") from error
    finally:
        nvrtc.destroyProgram(program)


class _Lazy:
    """The driver, opened at its first use; it then replaces this object."""

    def __getattr__(self, name: str) -> Any:
        global driver
        driver = Driver()
        return getattr(driver, name)


driver: Any = _Lazy()
