"""What an exporter writes: the graphs of a function and of its derivatives, with names for what goes in and comes out.

    parts(energy, (x,), {}, derivatives=("gradient", "hvp"))
    →  energy(x) → y,   energy_gradient(x) → x_bar,   energy_hvp(x, x_dot) → x_bar_dot

The function may be a Python function, a compiled one, or a graph; a graph knows its types, and needs no arguments.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..api.arguments import name_of, positions
from ..api.forward import jvp
from ..api.grad import grad, value_and_grad, vjp
from ..api.graph import Program, graph
from ..api.jacobian import hessian, hvp, jacobian
from ..compiler.lower.kernel import PARTS
from ..core.errors import ArgumentError, UnsupportedError
from ..core.tree import LEAF, Structure, flatten
from ..core.types import Type
from ..ir.graph import Graph
from ..rewrite.pipeline import optimize

Function = Callable[..., Any]

#: What may be asked for in `derivatives=`, and what it computes.
DERIVATIVES = {
    "gradient": "the gradient of a scalar result",
    "value_and_gradient": "the result and its gradient",
    "jacobian": "all first derivatives: result axes, then argument axes",
    "hessian": "all second derivatives of a scalar result",
    "hvp": "the Hessian of a scalar result times a vector, the last argument",
    "jvp": "the result and its tangent, from tangents of the chosen arguments, the last ones",
    "vjp": "cotangents of the chosen arguments, from those of the result, the last argument",
}


@dataclass(frozen=True)
class Part:
    """One function to write.

    `graph` has the names and types of the flat inputs (`input_names`, `input_types`), the types of the flat results
    (`output_types`), and the containers of both (`in_structure`: a pair of positional and keyword arguments; `out_structure`).
    """

    name: str  # an identifier, such as energy_gradient
    kind: str  # "value", or a key of DERIVATIVES
    graph: Program
    output_names: tuple[str, ...]  # one per flat result, distinct from each other and from the inputs

    @property
    def given(self) -> tuple[Type, ...]:
        """The types of the flat inputs in memory: complex numbers are pairs of real ones, along a last axis."""
        return tuple(map(_in_memory, self.graph.input_types))

    @property
    def made(self) -> tuple[Type, ...]:
        """The types of the flat results in memory."""
        return tuple(map(_in_memory, self.graph.output_types))

    @property
    def summary(self) -> str:
        """One line for a comment, such as `energy_gradient(x: float64[3]) -> x_bar: float64[3]`."""
        g = self.graph
        given = ", ".join(f"{name}: {t!r}" for name, t in zip(g.input_names, g.input_types, strict=True))
        made = ", ".join(f"{name}: {t!r}" for name, t in zip(self.output_names, g.output_types, strict=True))
        return f"{self.name}({given}) -> {made}"


def _in_memory(t: Type) -> Type:
    return Type((*t.shape, 2), PARTS[t.dtype]) if t.dtype in PARTS else t


def parts(
    f: Function | Graph,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    derivatives: str | Iterable[str] = (),
    argnums: Any = 0,
    name: str | None = None,
    passes: bool = True,
    source: bool = False,
) -> list[Part]:
    """The function itself, then the derivatives asked for, by `argnums`.

    With `passes` the graphs have run through all passes of the compiler that keep their values: repeated equations are loops,
    dead code is gone. With `source` the loops and variables are those of the source (`ad.graph(f, source=True)`).
    The arguments matter by their types only; none are needed for a graph.
    """
    if not callable(f) and not isinstance(f, Graph):
        raise ArgumentError(
            f"export expects a function or a graph, and example arguments: export.c(f, x); got {type(f).__name__}"
        )
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"name of export is a string, got {type(name).__name__}")
    asked = list(derivatives) if isinstance(derivatives, Iterable) and not isinstance(derivatives, str) else [derivatives]
    for kind in asked:
        if kind not in DERIVATIVES:
            raise ArgumentError(f"derivatives of export are {', '.join(DERIVATIVES)}, not {kind!r}")
    if isinstance(f, Graph):
        f = _callable(f)
        if not args and not kwargs:
            args, kwargs = example(f)
    base = _word(name or name_of(f) if not isinstance(f, Graph) else name or f.name)
    result = []
    for kind in ["value", *dict.fromkeys(asked)]:
        result.append(_part(f, tuple(args), kwargs or {}, kind, argnums, base, passes, source))
    return result


def _callable(f: Graph) -> Program:
    """A graph with flat arguments, as one from text, becomes a program with positional ones."""
    given, made = f.in_structure, f.out_structure
    if given is None:
        given = flatten(((0,) * len(f.input_types), {}))[1]
        made = LEAF if len(f.outputs) == 1 else flatten((0,) * len(f.outputs))[1]
    kind = type(f) if isinstance(f, Program) else Program
    return kind(f.name, f.input_names, f.input_types, f.equations, f.outputs, given, made)


def example(f: Graph) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for a call of a graph: zeros of its types."""
    zeros = [np.zeros(t.shape, t.dtype)[()] for t in f.input_types]
    if f.in_structure is None:
        return tuple(zeros), {}
    args, kwargs = f.in_structure.unflatten(zeros)
    return tuple(args), dict(kwargs)


def _part(
    f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: str, argnums: Any, base: str, passes: bool, source: bool
) -> Part:
    """A function, or one of its derivatives, with the names of its inputs and results."""
    value = staged(f, args, kwargs, source)
    _check_types(value)
    given, outputs = list(value.input_names), _output_names(value)
    if kind == "value":
        return _named(value, base, kind, given, outputs, passes)
    chosen, single = positions(argnums, len(args), "export")
    wanted = _leaves_of(value, chosen)  # names of the differentiated inputs
    bars, dots = [f"{x}_bar" for x in wanted], [f"{x}_dot" for x in wanted]
    tangents = args[chosen[0]] if single else tuple(args[i] for i in chosen)

    def made(transformed: Function, more: Any = None, inputs: Sequence[str] = (), names: Sequence[str] = ()) -> Part:
        """A derivative, which may have one more argument, with the names of that argument's leaves and of its results."""
        program = staged(transformed, args if more is None else (*args, more), kwargs, source)
        named = given if more is None else _insert(value, args, inputs)
        return _named(program, f"{base}_{kind}", kind, named, list(names), passes)

    match kind:
        case "gradient":
            return made(grad(f, argnums), names=bars)
        case "value_and_gradient":
            return made(value_and_grad(f, argnums), names=[*outputs, *bars])
        case "jacobian":
            return made(jacobian(f, argnums), names=[f"d{y}_d{x}" for y in outputs for x in wanted])
        case "hessian":
            return made(hessian(f, argnums), names=[f"d2{y}_d{a}_d{b}" for y in outputs for a in wanted for b in wanted])
        case "hvp":
            return made(hvp(f, argnums), tangents, dots, [f"{x}_bar_dot" for x in wanted])
        case "jvp":
            return made(_pushed(f, chosen, single), tangents, dots, [*outputs, *(f"{y}_dot" for y in outputs)])
    seeds = value.out_structure.unflatten([np.zeros(t.shape, t.dtype)[()] for t in value.output_types])
    return made(_pulled(f, chosen, single), seeds, [f"{y}_bar" for y in outputs], bars)


def _check_types(value: Program) -> None:
    for name, t in zip(value.input_names, value.input_types, strict=True):
        if t.dtype.kind not in "biufc":
            raise ArgumentError(f"{name} of export has the dtype {t.dtype}; only numbers and bools can be exported")


def _pushed(f: Function, chosen: Sequence[int], single: bool) -> Function:
    """f and its jvp, with one more argument: the tangents of the chosen ones."""

    def pushed(*args: Any, **named: Any) -> Any:
        *primals, last = args
        return jvp(_on(f, primals, chosen, named), tuple(primals[i] for i in chosen), (last,) if single else tuple(last))

    return pushed


def _pulled(f: Function, chosen: Sequence[int], single: bool) -> Function:
    """The vjp of f by the chosen arguments, with one more argument: the cotangent of the result."""

    def pulled(*args: Any, **named: Any) -> Any:
        *primals, bar = args
        result = vjp(_on(f, primals, chosen, named), *[primals[i] for i in chosen])[1](bar)
        return result[0] if single else result

    return pulled


def _on(f: Function, primals: Sequence[Any], chosen: Sequence[int], named: dict[str, Any]) -> Function:
    """f as a function of the chosen arguments."""

    def on_chosen(*xs: Any) -> Any:
        full = list(primals)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        return f(*full, **named)

    on_chosen.__name__ = name_of(f)
    return on_chosen


def staged(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], source: bool = False) -> Program:
    """The graph of f: from its source if that is asked for, or if it cannot be staged otherwise, since it branches on a value."""
    if isinstance(f, Program) and f.in_structure is not None and _types(args, kwargs) == f.input_types:
        return f
    if not source:
        with suppress(UnsupportedError):
            return cast(Program, graph(f)(*args, **kwargs))
    return cast(Program, graph(f, source=True)(*args, **kwargs))


def _types(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Type, ...]:
    return tuple(map(Type.of, flatten((args, kwargs))[0]))


def _named(g: Program, name: str, kind: str, inputs: Sequence[str], outputs: Sequence[str], passes: bool) -> Part:
    if passes:
        g = optimize(g).graph
    words = distinct([*inputs, *outputs])
    named = replace(g, name=name, input_names=tuple(words[: len(inputs)]))
    return Part(name, kind, named, tuple(words[len(inputs) :]))


def distinct(names: Iterable[str]) -> list[str]:
    """Identifiers, all different. Names of a graph's own values (`v3`, `c0`) are left to them."""
    words: list[str] = []
    for name in names:
        word = _word(name)
        while word in words or re.fullmatch(r"[vc]\d+", word):
            word += "_"
        words.append(word)
    return words


def _word(name: str) -> str:
    """A name of ASCII letters: `θ_0` is theta_0, `é` is e."""
    name = "".join(c if c.isascii() else _spelled(c) for c in unicodedata.normalize("NFKD", name))
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "f"
    return f"_{word}" if word[0].isdigit() else word


def _spelled(letter: str) -> str:
    """The last word of the name of a letter; nothing for an accent, which has been parted from its letter."""
    return "" if unicodedata.combining(letter) else unicodedata.name(letter, "_").split()[-1].lower()


def _output_names(g: Program) -> list[str]:
    paths = list(g.out_structure.paths()) if g.out_structure.count == len(g.outputs) else []
    if len(paths) != len(g.outputs) or len(g.outputs) == 1:
        return ["y"] if len(g.outputs) == 1 else [f"y{i}" for i in range(len(g.outputs))]
    return [_word(re.sub(r"^\[(\d+)\]", r"y\1", path)) for path in paths]


def _leaves_of(g: Program, chosen: Sequence[int]) -> list[str]:
    """The names of the flat inputs that belong to some positional arguments."""
    assert g.in_structure is not None
    (_, positional), _ = g.in_structure.children
    counts = [_count(child) for _, child in positional.children]
    return [name for i in chosen for name in g.input_names[sum(counts[:i]) : sum(counts[: i + 1])]]


def _count(structure: Structure) -> int:
    return 1 if structure is LEAF else structure.count


def _insert(g: Program, args: tuple[Any, ...], new: Sequence[str]) -> list[str]:
    """The names of the inputs with those of one more positional argument: keyword arguments are the last."""
    assert g.in_structure is not None
    (_, positional), _ = g.in_structure.children
    return [*g.input_names[: positional.count], *new, *g.input_names[positional.count :]]


def file_named(path: Any, exporter: str = "export", *suffixes: str) -> Path:
    """The path of a file to write, which ends in one of the suffixes, if there are any."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise ArgumentError(f"path of {exporter} is the name of a file, a string or a path, got {type(path).__name__}")
    where = Path(path)
    if suffixes and where.suffix not in suffixes:
        raise ArgumentError(f"path of {exporter} ends in {' or '.join(suffixes)}, got {os.fspath(path)!r}")
    if where.is_dir():
        raise ArgumentError(f"path of {exporter} is the name of a file, and {os.fspath(path)!r} is a folder")
    if not where.parent.is_dir():
        raise ArgumentError(f"path of {exporter} is in a folder that does not exist: {str(where.parent)!r}")
    return where


def write_beside(where: Path, text: str) -> None:
    """Write a file that belongs to another one; the first line says which. Those of other exporters are not overwritten."""
    title = text.partition("\n")[0]
    if where.exists():
        with where.open(encoding="utf-8", errors="replace") as file:
            found = file.readline().rstrip("\n")
        if "Written by adjoint" in found and found != title:
            raise ArgumentError(f"{where.name} exists and belongs to another exported file; give this one another name, in path=")
    where.write_text(text, encoding="utf-8")


def titled(text: str, where: Path) -> str:
    """A text that says which file it belongs to."""
    return text.replace("Written by adjoint.", f"Written by adjoint, for {where.name}.", 1)


def write(path: str | os.PathLike[str] | None, text: str) -> str:
    """Write a text to a file, if one is named; returns the text."""
    if path is not None:
        file_named(path).write_text(text, encoding="utf-8")
    return text


__all__ = ["DERIVATIVES", "Part", "distinct", "example", "file_named", "parts", "staged", "titled", "write", "write_beside"]
