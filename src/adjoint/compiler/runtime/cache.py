"""Object code, and what belongs with it, kept on disk, so that a second process compiles nothing.

An entry is named by what it depends on: the program, the processor, the versions. It begins with a digest of its contents; one
that is damaged, or not ours, is thrown away and made again. Entries are written under another name and renamed, so that many
processes may start at once. The folder is the user's own; what was not read for longest goes when it grows too large.

    ADJOINT_CACHE_DIR     the folder; empty to keep nothing
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

LIMIT = 256 << 20  # bytes, in all
_MAGIC = b"adjoint object 1\n"
_DIGEST = 32


def folder() -> Path | None:
    """Where entries are kept; None if nothing shall be."""
    asked = os.environ.get("ADJOINT_CACHE_DIR")
    if asked is not None:
        return _home(Path(asked)) if asked else None
    if sys.platform == "darwin":
        return _home(Path("~/Library/Caches/adjoint"))
    if os.name == "nt":
        return _home(Path(os.environ.get("LOCALAPPDATA", "~"), "adjoint", "Cache"))
    return _home(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "adjoint"))


def _home(path: Path) -> Path | None:
    """The path with `~` as the user's home; None for a user without one, as in some containers."""
    try:
        return path.expanduser()
    except RuntimeError:
        return None


def key(*parts: str) -> str:
    """The name of an entry."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """The contents of an entry, if there is a good one."""
    place = folder()
    if place is None:
        return None
    path = place / f"{name}.o"
    try:
        with path.open("rb") as file:
            if not _is_ours(os.fstat(file.fileno())):
                return None
            data = file.read()
    except OSError:  # not there, or not to be read: then it is compiled
        return None
    head = len(_MAGIC) + _DIGEST
    contents = data[head:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(contents).digest() != data[len(_MAGIC) : head]:
        _remove(path)
        return None
    with contextlib.suppress(OSError):  # another process may have removed it
        os.utime(path)
    return contents


def write(name: str, contents: bytes) -> None:
    """Keep an entry. A folder that cannot be written to is no error: the program is there, and works."""
    place = folder()
    if place is None:
        return
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(place.stat()):
            return
        handle, temporary = tempfile.mkstemp(dir=place, suffix=".tmp")
    except OSError:
        return
    path = Path(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(contents).digest() + contents)
        path.replace(place / f"{name}.o")
    except OSError:
        _remove(path)
        return
    _written[place] = _written.get(place, LIMIT) + len(contents)
    if _written[place] > LIMIT // 16:  # going through the folder at each write would take longer than compiling
        _written[place] = 0
        _shrink(place)


_written: dict[Path, int] = {}  # bytes since this process has last looked at the size of a folder


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and nobody else can write to it: code from it is run."""
    if os.name == "nt":
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _shrink(place: Path) -> None:
    """Remove the entries above the limit, those first that were not read for longest."""
    entries = []
    for path in (*place.glob("*.o"), *place.glob("*.tmp")):  # a process that was killed leaves one of these
        try:
            status = path.stat()
        except OSError:  # another process was quicker
            continue
        entries.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= LIMIT:
            break
        _remove(path)
        total -= size


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that is only to be read, or another process was quicker
        path.unlink()
