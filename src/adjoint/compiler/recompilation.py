"""Why a function was compiled again, for the warning about a function that is compiled repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..api.arguments import input_names
from ..core.places import values_at
from ..core.tree import leaf_names
from ..staging.questions import ARITHMETIC, Asked, Guard
from .specialization import Signature, Specialization, inputs_behind, same_guards


def varying_lines(some: Sequence[Guard], others: Sequence[Guard]) -> set[str]:
    """The lines where the truth of a value was asked by two calls, and the answers differ."""
    asked: list[dict[str, list[bool]]] = [{}, {}]
    for guards, by_line in zip((some, others), asked, strict=True):
        for guard in guards:
            if guard.of is Asked.TRUTH:
                by_line.setdefault(guard.line, []).append(bool(guard.answer))
    return {line for line in asked[0].keys() & asked[1].keys() if asked[0][line] != asked[1][line]}


def why_again(
    f: Callable[..., Any],
    specializations: Mapping[Signature, Sequence[Specialization]],
    signature: Signature,
    new: Specialization,
) -> str | None:
    """Why a new program was needed: the first guard that differs, or the first argument of another type; None for the first."""
    if known := specializations[signature]:
        return _why_another_program(known[0], new)
    others = [other for other, programs in specializations.items() if programs]
    return _why_another_signature(f, signature, others[-1]) if others else None


def _why_another_program(known: Specialization, new: Specialization) -> str:
    """Of arguments of the same types: what has another value."""
    changed = values_at(known.places)[1]
    if changed is not None:
        return f"{changed.name}, which it reads outside, has changed"
    for mine, theirs in zip(new.guards, known.guards, strict=False):
        if mine.what != ARITHMETIC and not same_guards([mine], [theirs]):
            behind = ", ".join(inputs_behind(new.staged, mine.number))
            return f"{mine.what} a value changes ({mine.line}), which depends on {behind}"
    lines = [guard.line for guard in (*known.guards, *new.guards)]
    return f"another branch is taken ({lines[-1]})" if lines else "an array that it reads outside has another type"


def _why_another_signature(f: Callable[..., Any], signature: Signature, last: Signature) -> str:
    """The first argument that is of another type than in the program before."""
    if signature.structure != last.structure:
        path = signature.structure.changed(last.structure) if signature.structure.fits(last.structure) else None
        if path is None:
            return "its arguments have another structure"
        return f"{input_names(f, [path])[0]} has another value, which is a static part of an argument"
    names = input_names(f, leaf_names("", signature.structure))
    for name, t, u, w, v in zip(names, signature.types, last.types, signature.weak, last.weak, strict=True):
        if t != u or w is not v:
            what = "shape" if t.shape != u.shape else "dtype" if t.dtype != u.dtype else "class"
            return f"the argument {name} has another {what}"
    if signature.strides != last.strides:
        return "an argument has another memory order"
    return "a static argument has another value" if signature.static != last.static else "an argument has another class"
