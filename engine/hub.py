"""`engine.hub`: load models and weights from the local cache. Nothing is downloaded; errors name the file's expected path."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from .serialize import load as _load

try:
    from tqdm import tqdm  # pyright: ignore[reportAssignmentType]  # re-exported, as PyTorch's examples import it from here
except ImportError:

    class tqdm:  # type: ignore[no-redef]  # like PyTorch's fallback, it counts but cannot be iterated
        """Progress counter on stderr, in percent if `total` is given. Install tqdm for a bar and for `for x in tqdm(loader)`."""

        def __init__(self, total: float | None = None, disable: bool = False, unit: str | None = None, *args: Any, **kwargs: Any):
            self.total, self.disable, self.n = total, disable, 0

        def update(self, n: float) -> None:
            """Add `n` to the count and print it."""
            self.n += n
            self._tell(f"\r{self.n:.1f} bytes" if self.total is None else f"\r{100 * self.n / float(self.total):.1f}%")

        def set_description(self, *args: Any, **kwargs: Any) -> None:
            """Do nothing: there is no bar to label."""

        def write(self, s: str) -> None:
            """Print a line."""
            sys.stderr.write(f"{s}\n")

        def close(self) -> None:
            """Stop printing."""
            self.disable = True

        def _tell(self, text: str) -> None:
            if not self.disable:
                sys.stderr.write(text)
                sys.stderr.flush()

        def __iter__(self) -> Iterator[Any]:
            raise TypeError("this stand-in of tqdm counts and does not loop, and PyTorch's neither: install tqdm")

        def __enter__(self) -> tqdm:
            return self

        def __exit__(self, *error: Any) -> None:
            self._tell("\n")


_dir: str | None = None
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # resnet18-bfd8deac.pth contains the start of its SHA-256


def get_dir() -> str:
    """Return the cache folder: the one from `set_dir`, or `$TORCH_HOME/hub`; by default ~/.cache/torch/hub, shared with PyTorch."""
    if _dir is not None:
        return _dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """Return the parent folder of all PyTorch caches."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike) -> None:
    """Set the cache folder."""
    global _dir
    _dir = os.path.expanduser(d)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load the cached file `checkpoints/NAME` in `get_dir()`, NAME being `file_name` or the last part of `url`.

    A `file:` URL is first copied into the cache. `check_hash` compares the file's SHA-256 with the prefix in its name and raises
    RuntimeError if they differ; a missing file raises FileNotFoundError. Files are always read with `weights_only=True`, and `progress`
    is ignored.
    """
    address = urlparse(url)
    folder = Path(model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints"))
    path = folder / (file_name if file_name is not None else os.path.basename(address.path))
    if not path.is_file() and address.scheme == "file":
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(url2pathname(address.path), path)
    if not path.is_file():
        raise FileNotFoundError(f"load_state_dict_from_url: nothing is downloaded here. Put the file that {url} gives at {path}.")
    if check_hash:
        expected = HASH_REGEX.search(path.name)
        if expected is not None:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if not found.startswith(expected[1]):
                raise RuntimeError(f'invalid hash value (expected "{expected[1]}", got "{found}"): {path}')
    return _load(path, map_location=map_location)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Raise RuntimeError: the engine makes no network connections."""
    raise RuntimeError(f"download_url_to_file: nothing is downloaded here. Put the file that {url} gives at {dst}.")


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call `model` from hubconf.py in a local folder (`source="local"`) or in a cached repository, and return its result."""
    with _hubconf(repo_or_dir, source) as conf:  # open during the call, too: the function may import from the folder
        return _entry(conf, model)(*args, **kwargs)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None, verbose: bool = True, *,
    source: str = "github",
) -> Any:  # fmt: skip
    """Return the names of the functions in hubconf.py."""
    with _hubconf(github, source) as conf:
        return [name for name in dir(conf) if callable(getattr(conf, name)) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None, *, source: str = "github"
) -> str | None:
    """Return the docstring of a function in hubconf.py."""
    with _hubconf(github, source) as conf:
        return _entry(conf, model).__doc__


@contextmanager
def _hubconf(repo_or_dir: str, source: str) -> Iterator[ModuleType]:
    """Import hubconf.py, with its folder on `sys.path` inside the block."""
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = Path(repo_or_dir).expanduser() if source == "local" else _cached(repo_or_dir)
    path = folder / "hubconf.py"
    if not path.is_file():
        raise FileNotFoundError(f"hub: there is no {path}" + ("" if source == "local" else "; nothing is downloaded here"))
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None  # a .py file has both
    conf = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(conf)
        missing = [name for name in getattr(conf, "dependencies", ()) if importlib.util.find_spec(name) is None]
        if missing:
            raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
        yield conf
    finally:
        sys.path.remove(str(folder))


def _cached(github: str) -> Path:
    """Return the cache folder of `owner/name:branch`, owner_name_branch; without a branch, main or master."""
    repo, _, branch = github.partition(":")
    owner, slash, name = repo.partition("/")
    if not slash:
        raise ValueError(f'hub: expected a repository as "owner/name[:branch]", got {github!r}')
    tried = [Path(get_dir()) / f"{owner}_{name}_{b.replace('/', '_')}" for b in ([branch] if branch else ["main", "master"])]
    return next((folder for folder in tried if folder.is_dir()), tried[0])


def _entry(conf: ModuleType, model: str) -> Any:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(conf, model, None)
    if function is None or not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function
