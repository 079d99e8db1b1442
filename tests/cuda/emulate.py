"""Run CUDA kernels on the CPU: a kernel's own text, built by a C++ compiler behind `emu.h`, and launched with the driver's arguments."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

HERE = Path(__file__).parent
CACHE = Path(tempfile.gettempdir()) / f"gradient-workbench-emulated-{os.getuid()}"
COMPILER = [os.environ.get("CXX", "g++"), "-O0", "-std=c++17", "-fPIC", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE"]
COMPILER += ["-fsanitize=alignment,shift,bounds", "-fsanitize-undefined-trap-on-error"]
LIBRARIES = ["-nostdlib", "-lm", "-lgcc"]  # of a kernel; the C++ library, which the scheduler brings, takes longer to link than all else
_ONE_AT_A_TIME = threading.Lock()  # the fibers of one launch; calls through ctypes give up the interpreter's lock
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(")
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?(\w+)\s+(\w+)\[\]")


def built(text: str) -> ctypes.CDLL:
    """Build a library with all kernels of a CUDA text. Raises RuntimeError if it does not compile."""
    names = _KERNEL.findall(re.sub(r"template\s*<[^>]*>\s*__global__", "", text))
    fibrous = "true" if re.search("__sync|__shfl", text) else "false"
    text = _DYNAMIC.sub(r"\1* const \2 = reinterpret_cast<\1*>(emu::dynamic_memory)", text)
    return _library('#include "emu.h"\n' + text + "".join(f"\nEMU_EXPORT({name}, {fibrous})" for name in names) + "\n", scheduler())


@functools.cache
def scheduler() -> ctypes.CDLL:
    found = _library((HERE / "emu.cpp").read_text())
    found.emu_fault.restype = ctypes.c_char_p
    return found


def _library(text: str, base: ctypes.CDLL | None = None) -> ctypes.CDLL:
    """Compile C++ text, and link it with a library; results are cached by the text."""
    flags = [base._name, *LIBRARIES] if base else ["-O2"]
    key = _key(text, _header().name, flags)
    library = CACHE / f"{key}.so"
    if not library.exists():
        own = CACHE / f"{key}-{os.getpid()}"
        Path(f"{own}.cpp").write_text(text)
        _compile(f"-I{_header()}", "-shared", f"{own}.cpp", *flags, "-o", f"{own}.so")
        Path(f"{own}.so").replace(library)
    return ctypes.CDLL(str(library))


@functools.cache
def _header() -> Path:
    """A folder with `emu.h`, precompiled: half of the time that a small kernel takes."""
    text = (HERE / "emu.h").read_text()
    folder = CACHE / _key(text)
    if not (folder / "emu.h.gch").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("emu.h", "emu.h.gch"):
            own = folder / f"{os.getpid()}-{name}"
            if name == "emu.h":
                own.write_text(text)
            else:
                _compile("-x", "c++-header", str(folder / "emu.h"), "-o", str(own))
            own.replace(folder / name)
    return folder


def _key(*parts: Any) -> str:
    return hashlib.sha256(repr((parts, COMPILER[1:])).encode()).hexdigest()[:32]


def _compile(*arguments: str) -> None:
    if shutil.which(COMPILER[0]) is None:
        pytest.skip(f"no {COMPILER[0]}, with which CUDA kernels run on the CPU")
    done = subprocess.run([*COMPILER, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[:4000])


class Emulator:
    """Stands in for `engine.backends.gpu.launch.driver`. `seed` is the order in which blocks and threads run."""

    submit = staticmethod(lambda run: run())  # runs a launch, or keeps it for the graph that is being captured

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.libraries, self.launches, self.fault = seed, {}, [], ""

    def device(self) -> int:
        return 0

    def stream(self) -> None:
        return None

    def load(self, text: str, name: str, device: int) -> Any:
        if text not in self.libraries:
            self.libraries[text] = built(text)
        return self.libraries[text], name

    def launch(self, handle: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: Any, pointers: Any, extra: Any) -> int:  # fmt: skip
        library, name = handle
        self.launches.append(name)
        three = ctypes.c_uint * 3
        values = [ctypes.create_string_buffer(ctypes.string_at(pointers[i], n), n) for i, n in enumerate(self._sizes(library, name))]
        copies = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))  # as the driver copies them

        def run(values: list = values) -> int:  # which live as long as the launch
            with _ONE_AT_A_TIME:
                scheduler().emu_seed(self.seed)
                code = getattr(library, f"emu_launch_{name}")(three(gx, gy, gz), three(bx, by, bz), ctypes.c_size_t(shared), copies)
                self.fault = scheduler().emu_fault().decode()
            return code

        return self.submit(run) or 0

    def reason(self, code: int) -> str:
        return self.fault

    def sizes(self, text: str, name: str) -> list[int]:
        """The sizes of a kernel's parameters, in bytes, as the compiler sees them."""
        return self._sizes(self.load(text, name, 0)[0], name)

    @staticmethod
    def _sizes(library: ctypes.CDLL, name: str) -> list[int]:
        sizes = (ctypes.c_int * 64)()
        n = getattr(library, f"emu_sizes_{name}")(sizes)
        return list(sizes[:n])


class Guarded:
    """An array between two stretches of nan, at an address that is a multiple of 256 as CuPy's are."""

    def __init__(self, shape: tuple, dtype: Any) -> None:
        n = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        self._raw = numpy.full(n + 4096 + 512, 0xFF, numpy.uint8)
        self._low = (-self._raw.ctypes.data) % 256 + 256
        self._high = self._low + n
        self.array = self._raw[self._low : self._high].view(dtype).reshape(shape)

    @property
    def pointer(self) -> int:
        return self._raw.ctypes.data + self._low

    def intact(self) -> bool:
        """Whether nothing was written outside of the array."""
        return bool((self._raw[: self._low] == 0xFF).all() and (self._raw[self._high :] == 0xFF).all())


def guarded(array: Any) -> Guarded:
    """A guarded copy of an array, in row-major order."""
    copy = Guarded(array.shape, array.dtype)
    copy.array[...] = array
    return copy
