"""What became of each loop and branch of the source, for `report()`.

model.py:12: for became a scan of 1000 iterations
model.py:20: while runs in Python: a return in the middle
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # heavy: the rewriting of syntax trees
    from .rewrite import Site

_Found = dict[tuple[str, str, str], None]  # line, kind and text, each once
_noting: ContextVar[_Found | None] = ContextVar("adjoint_source_notes", default=None)
_failures: ContextVar[dict[int, list[str]] | None] = ContextVar("adjoint_source_failures", default=None)  # by the id of a site
_MOST_FAILURES = 3  # of one loop or branch while a program is staged: a nested one would be tried again by each around it


@contextmanager
def noting() -> Iterator[_Found]:
    """While this is open, outcomes are collected."""
    found: _Found = {}
    token, failures = _noting.set(found), _failures.set({})
    try:
        yield found
    finally:
        _noting.reset(token)
        _failures.reset(failures)


def note(site: Site, text: str) -> None:
    note_function(site.line, text, site.kind)


def note_function(line: str, text: str, kind: str = "def") -> None:
    found = _noting.get()
    if found is not None:
        found.setdefault((line, kind, text))


def failed(site: Site, why: str) -> None:
    """A loop or a branch could not be staged."""
    failures = _failures.get()
    if failures is not None:
        failures.setdefault(id(site), []).append(why)


def hopeless(site: Site) -> str:
    """Why a loop or a branch is not tried again, or ''."""
    reasons = (_failures.get() or {}).get(id(site), [])
    return reasons[-1] if len(reasons) >= _MOST_FAILURES else ""


def saved() -> list[tuple[str, str, str]]:
    return list(_noting.get() or ())


def restore(before: list[tuple[str, str, str]]) -> None:
    """Forget what was noted since then, by an attempt that has failed."""
    found = _noting.get()
    if found is not None:
        found.clear()
        found.update(dict.fromkeys(before))


def lines(found: _Found) -> list[str]:
    """The lines of a report, in the order of the source."""

    def place(key: tuple[str, str, str]) -> tuple[str, int]:
        file, _, number = key[0].rpartition(":")
        return file, int(number) if number.isdecimal() else 0

    return [f"{line}: {kind} {text}" for line, kind, text in sorted(found, key=place)]
