"""Slow paths of functions (`vecmath/rare.py`): compiled by themselves, and kept for later programs.

    define void @kernel1() {… call @adjoint.rare.sin.f64 …}         the text of a program
    define internal double @adjoint.rare.sin.f64(double %x) …

    declare double @adjoint.rare.sin.f64(double %x) …                what is left of it, and a text of its own:
    define double @adjoint.rare.sin.f64(double %x) …

A slow path does not depend on the program, and a long one takes 10 ms and more. Its text has only what it needs, so it is the
same for all programs that may take it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

FUNCTION = re.compile(r"^define .*?^}\n?", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@([\w.]+)")
_SLOW = re.compile(r"^define internal (?=[^\n]* optnone )")
_HOW = re.compile(r" (?:noinline|optnone)\b")
_LONG = 150  # lines; a shorter one compiles in the time that a part of its own takes
_NOTE = re.compile(r"!\d+")


class SlowPath(NamedTuple):
    """One function, with all that it calls."""

    name: str
    text: str


def names_in(body: str) -> list[str]:
    """The names of functions in a text, in order: the defined one first."""
    return _NAME.findall(body)


def reached(some: Iterable[str], calls: Mapping[str, Iterable[str]], large: Collection[str]) -> set[str]:
    """The functions that these call, transitively, except the large ones."""
    found: set[str] = set()
    waiting = [c for name in some for c in calls[name]]
    while waiting:
        name = waiting.pop()
        if name not in found and name not in large:
            found.add(name)
            waiting += calls[name]
    return found


def taken_apart(text: str) -> tuple[str, list[SlowPath]]:
    """A module with its slow paths declared only, and the slow paths."""
    functions = {names_in(body)[0]: body for body in FUNCTION.findall(text)}
    slow = {name for name, body in functions.items() if _SLOW.match(body)}
    if not slow:
        return text, []
    calls = {name: [c for c in names_in(body)[1:] if c in functions] for name, body in functions.items()}
    called = sorted({c for name in functions if name not in slow for c in calls[name] if c in slow})
    behind = {root: [root, *sorted(reached([root], calls, ()) - {root})] for root in called}
    roots = [root for root in called if sum(functions[name].count("\n") for name in behind[root]) >= _LONG]
    if not roots:
        return text, []
    shared = FUNCTION.sub("", text)
    lines = _lines_by_name(shared)
    found = []
    for root in roots:
        first, *others = [functions[name] for name in behind[root]]
        bodies = [first.replace(" internal", "", 1), *others]
        found.append(SlowPath(root, "\n".join([*_used(bodies, lines), *bodies])))
    usual = [name for name in functions if name not in slow]
    kept = {*usual, *reached(usual, calls, roots)}
    declared = [_declaration(functions[root]) for root in roots]
    return "\n".join([shared, *declared, *(functions[name] for name in functions if name in kept)]), found


def _declaration(body: str) -> str:
    """With the attributes that matter to callers."""
    first = body.partition("\n")[0].replace("define internal", "declare", 1)
    return _HOW.sub("", first.rstrip().removesuffix("{"))


def _lines_by_name(shared: str) -> dict[str, str]:
    """The declarations, constants and notes of a module, by what they declare."""
    found = {}
    for line in shared.splitlines():
        if line.startswith("!"):
            found[line.partition(" ")[0]] = line
        elif line.startswith(("declare ", "@")):
            found[names_in(line)[0]] = line
    return found


def _used(bodies: Iterable[str], lines: Mapping[str, str]) -> list[str]:
    """The lines that some functions refer to, and those that these refer to."""
    found: dict[str, str] = {}
    waiting = list(bodies)
    while waiting:
        text = waiting.pop()
        for name in (*names_in(text), *_NOTE.findall(text)):
            if name in lines and name not in found:
                found[name] = lines[name]
                waiting.append(lines[name])
    return [found[name] for name in sorted(found)]
