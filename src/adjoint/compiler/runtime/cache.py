"""The disk cache of object code and programs, so that a second process compiles nothing.

The key of an entry is a digest of everything it depends on: the program, the processor, the versions. An entry begins with a
digest of its contents; one that is damaged, or owned by another user, is discarded and rebuilt. Entries are written under a
temporary name and renamed, so that many processes may share the folder. The folder belongs to the user; the least recently used
entries are removed when it grows too large.

    ADJOINT_CACHE_DIR     the folder; empty to disable the cache
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import sys
import threading

LIMIT = 256 << 20  # bytes, in all
_MAGIC = b"adjoint object 1\n"
_DIGEST = 32


def folder() -> str | None:
    """The folder of the entries; None if the cache is disabled."""
    asked = os.environ.get("ADJOINT_CACHE_DIR")
    if asked is not None:
        return _home(asked) if asked else None
    if sys.platform == "darwin":
        return _home("~/Library/Caches/adjoint")
    if os.name == "nt":
        return _home(os.path.join(os.environ.get("LOCALAPPDATA", "~"), "adjoint", "Cache"))
    return _home(os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "adjoint"))


def _home(path: str) -> str | None:
    """The path with `~` as the user's home; None for a user without one, as in some containers."""
    found = os.path.expanduser(path)
    return None if found.startswith("~") else found


def key(*parts: str) -> str:
    """The name of an entry."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """The contents of an entry, if there is a valid one."""
    place = folder()
    if place is None:
        return None
    path = os.path.join(place, f"{name}.o")
    try:
        with open(path, "rb") as file:
            if not _is_ours(os.fstat(file.fileno())):
                return None
            data = file.read()
    except OSError:  # missing or unreadable: compile
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
    """Write an entry. A folder that cannot be written to is not an error: the program works without it."""
    place = folder()
    if place is None:
        return
    try:
        _make(place)
        if not _is_ours(os.stat(place)):
            return
        path = os.path.join(place, f"{os.getpid()}-{threading.get_ident()}-{next(_numbers)}.tmp")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(contents).digest() + contents)
        os.replace(path, os.path.join(place, f"{name}.o"))
    except OSError:
        _remove(path)
        return
    _written[place] = _written.get(place, LIMIT) + len(contents)
    if _written[place] > LIMIT // 16:  # scanning the folder at each write would take longer than compiling
        _written[place] = 0
        _shrink(place)


_written: dict[str, int] = {}  # bytes written since the last scan of a folder
_numbers = itertools.count()  # of temporary files


def _make(place: str) -> None:
    """Make a folder for this user alone, and the folders around it."""
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and is writable by no other user: its code is run."""
    if os.name == "nt":
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _shrink(place: str) -> None:
    """Remove entries above the limit, the least recently used first."""
    entries = []
    with os.scandir(place) as found:
        for entry in found:
            if entry.name.endswith((".o", ".tmp")):  # a killed process leaves one of the latter
                with contextlib.suppress(OSError):  # another process was faster
                    status = entry.stat()
                    entries.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= LIMIT:
            break
        _remove(path)
        total -= size


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # a read-only folder, or another process was faster
        os.unlink(path)
