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
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OPTIONS = ("--std=c++17", "-default-device", "--fmad=true")

# type of a parameter in a kernel's text -> its `struct` format; every parameter gets a slot of 8 bytes
_FORMATS = {"bool": "?", "int": "i", "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q", "float": "f", "double": "d"}
# dtype -> its type in a kernel's text
TYPES = {f"{kind}int{n}": f"{kind}int{n}_t" for kind in ("", "u") for n in (8, 16, 32, 64)}
TYPES |= {"bool": "bool", "float16": "half_t", "bfloat16": "bf16_t", "float32": "float", "float64": "double"}
TYPES |= {"complex64": "complex64_t", "complex128": "complex128_t"}
_SIGNATURE = r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?{name}\s*\(([^)]*)\)"


@functools.cache
def source(file: str, **types: str) -> str:
    """Return the CUDA text of a file of this folder, after `common.cuh` and a `typedef` for each of `types`, such as `T="float"`."""
    own = "" if file == "common.cuh" else (HERE / file).read_text()
    return (HERE / "common.cuh").read_text() + "".join(f"typedef {c} {name};\n" for name, c in types.items()) + own


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
        self._structs = [i for i, kind in enumerate(self.types) if "*" not in kind and kind not in _FORMATS]
        self._handles: dict[int, Any] = {}  # device -> function
        self._blocks: list[_Arguments] = []  # those that no launch is using
        self._packed = self._packing([0] * len(self._structs))

    def _packing(self, sizes: list[int]) -> tuple[struct.Struct, list[int]]:
        """The format of all parameters, and where each begins."""
        formats, sizes = [], iter(sizes)
        for i, kind in enumerate(self.types):
            code = f"{next(sizes)}s" if i in self._structs else "Q" if "*" in kind else _FORMATS[kind]
            formats.append(code + f"{-struct.calcsize(code) % 8}x")
        return struct.Struct("=" + "".join(formats)), [struct.calcsize("=" + "".join(formats[:i])) for i in range(len(formats))]

    def __call__(self, grid: int | tuple, block: int | tuple, *values: Any, shared: int = 0) -> None:
        """Launch on the current device and stream. Raises RuntimeError if the driver refuses."""
        handle = self._handles.get(device := driver.device())
        if handle is None:
            handle = self._handles[device] = driver.load(self.text, self.name, device)
        if self._structs:
            held = _Arguments(*self._packing([len(values[i]) for i in self._structs]))
        else:
            held = self._blocks.pop() if self._blocks else _Arguments(*self._packed)  # not shared: another thread may launch too
        held.pack(held.buffer, 0, *values)
        gx, gy, gz = (grid, 1, 1) if grid.__class__ is int else (*grid, 1, 1)[:3]
        bx, by, bz = (block, 1, 1) if block.__class__ is int else (*block, 1, 1)[:3]
        code = driver.launch(handle, gx, gy, gz, bx, by, bz, shared, driver.stream(), held.pointers, None)
        if not self._structs:
            self._blocks.append(held)
        if code:
            raise RuntimeError(f"CUDA error {code} in the launch of kernel {self.name}, grid {grid}, block {block}: {driver.reason(code)}")


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
        from cupy.cuda import get_current_stream, runtime  # pyright: ignore[reportMissingImports]
        from cupy.cuda.stream import get_current_stream_ptr  # pyright: ignore[reportMissingImports]

        self._library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        self.device = runtime.getDevice if runtime.getDeviceCount() > 1 else lambda: 0
        self._launch, self._pointer = self._library.cuLaunchKernel, ctypes.c_void_p
        self._stream, self._streams = get_current_stream_ptr, get_current_stream
        self._modules: dict[tuple[str, int], Any] = {}

    def stream(self) -> ctypes.c_void_p:
        return self._pointer(self._stream())

    def load(self, text: str, name: str, device: int) -> ctypes.c_void_p:
        """Return the handle of a kernel, compiling the text unless it is loaded or in the cache on disk."""
        from cupy.cuda import Device, function  # pyright: ignore[reportMissingImports]

        module = self._modules.get((text, device))
        if module is None:
            module = self._modules[text, device] = function.Module()
            module.load(cubin(text, Device(device).compute_capability))
        return self._pointer(module.get_function(name).ptr)

    def launch(self, *arguments: Any) -> int:
        return self._launch(*arguments)

    def reason(self, code: int) -> str:
        found = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(found))
        return (found.value or b"unknown").decode()


def cubin(text: str, arch: str) -> bytes:
    """Compile for a compute capability such as "90", or read the result from the cache on disk."""
    from cupy.cuda import nvrtc  # pyright: ignore[reportMissingImports]

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

    Raises RuntimeError with the compiler's messages and the text with line numbers.
    """
    from cupy.cuda import nvrtc  # pyright: ignore[reportMissingImports]

    program = nvrtc.createProgram(text, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"--gpu-architecture={arch}"))
        return nvrtc.getCUBIN(program) if arch.startswith("sm_") else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        lines = "\n".join(f"{i:5} {line}" for i, line in enumerate(text.splitlines(), 1))
        raise RuntimeError(f"{error}: {nvrtc.getProgramLog(program)}\n{lines}") from error
    finally:
        nvrtc.destroyProgram(program)


class _Lazy:
    """The driver, opened at its first use; it then replaces this object."""

    def __getattr__(self, name: str) -> Any:
        global driver
        driver = Driver()
        return getattr(driver, name)


driver: Any = _Lazy()
