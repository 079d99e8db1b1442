"""Downloads the files of a data set when a program asks for them: resumed where they were cut off, checked, and only then put in place."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from tqdm import tqdm

TIMEOUT = 30  # seconds without a byte
_BLOCK = 1 << 20


def fetch(urls: Sequence[str], path: str | Path, md5: str) -> None:
    """Download a file to `path` from the first address that has it, unless it is there already.

    What was downloaded before a failure is kept as PATH.part, and the next attempt goes on from there. Raises RuntimeError if no address
    could be read, or if the file has another MD5 than expected; it is deleted then.
    """
    path = Path(path)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part, failed = path.with_name(path.name + ".part"), []
    for url in urls:
        try:
            _download(url, part)
            break
        except (OSError, http.client.HTTPException) as error:
            failed.append(f"{url}: {getattr(error, 'reason', None) or error}")
    else:
        raise RuntimeError(
            f"{path.name} could not be downloaded. Put it at {path.absolute()} yourself, or try again.\n" + "\n".join(failed)
        )
    found = _md5(part)
    if found != md5:
        part.unlink()
        raise RuntimeError(f"{path.name} from {url}: expected a file with MD5 {md5}, got {found}. It was deleted.")
    part.replace(path)


def _download(url: str, part: Path) -> None:
    there = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "gradient-workbench", "Range": f"bytes={there}-"})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:  # all of it is there already
            raise
        return
    with answer:
        resumed = answer.status == 206
        length, start = answer.headers["Content-Length"], there if resumed else 0
        total = start + int(length) if length else None
        with open(part, "ab" if resumed else "wb") as file, tqdm(desc=url, total=total, initial=start, unit="B", unit_scale=True) as bar:
            while block := answer.read(_BLOCK):
                file.write(block)
                bar.update(len(block))
        if total is not None and part.stat().st_size < total:
            raise OSError(f"the connection was closed after {part.stat().st_size:,} of {total:,} bytes")


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def fetch_archive(url: str, archive: str | Path, md5: str, folder: str | Path, inside: str) -> None:
    """Download a tar or zip archive as `fetch` does, and extract the files in its folder `inside` to `folder`; others are left out."""
    fetch([url], archive, md5)
    target = Path(folder).resolve()
    for name, file in _members(archive):
        parts = PurePosixPath(name).parts
        if parts[:1] == (inside,) and len(parts) > 1 and ".." not in parts:
            path = target.joinpath(*parts[1:])
            path.parent.mkdir(parents=True, exist_ok=True)
            with file, open(path, "wb") as copy:
                shutil.copyfileobj(file, copy)


def _members(archive: str | Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The names and contents of an archive's regular files."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for one in opened.infolist():
                if not one.is_dir():
                    yield one.filename, opened.open(one)
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isreg() else None
            if file is not None:
                yield os.path.normpath(member.name).replace(os.sep, "/"), file
