"""The names of `torch.utils.cpp_extension`, so that programs can import them; calling any but `is_ninja_available` raises."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "get_compiler_abi_compatibility_and_version",
    "get_default_build_root", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline", "verify_ninja_availability",
]  # fmt: skip
CUDA_HOME: str | None = None  # no compiler
CUDNN_HOME: str | None = None
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.utils.cpp_extension.{name}: this engine is written in Python and compiles no C++ or CUDA against PyTorch. "
        "Use the library's own Python way, if it has one, or write the op as a torch.autograd.Function."
    )


class BuildExtension:
    """Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> Any:
        """Raise NotImplementedError."""
        _refused("BuildExtension")


def is_ninja_available() -> bool:
    """Return False: nothing can be built."""
    return False


def _refusing(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        _refused(name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Refused: NotImplementedError."
    return call


CppExtension, CUDAExtension, SyclExtension = map(_refusing, ("CppExtension", "CUDAExtension", "SyclExtension"))
load, load_inline, include_paths, library_paths = map(_refusing, ("load", "load_inline", "include_paths", "library_paths"))
get_default_build_root, verify_ninja_availability = map(_refusing, ("get_default_build_root", "verify_ninja_availability"))
get_compiler_abi_compatibility_and_version = _refusing("get_compiler_abi_compatibility_and_version")
