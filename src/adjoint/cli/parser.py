"""The words of the command line: commands, their options, and formulas that look like options."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import export as exporters
from ..core.code import signature_of
from ..core.version import VERSION
from ..export.program import DERIVATIVES
from . import completion
from .terminal import Terminal

Command = Callable[[argparse.Namespace, Terminal], int]

SUMMARIES = {
    "grad": "value and gradient at a point",
    "trace": "the evaluation trace, step by step",
    "compare": "every way to differentiate, side by side",
    "symbolic": "the derivative as a formula",
    "graph": "the program as a graph: text, LaTeX, picture, page",
    "export": "the program and its derivatives in another language",
    "check": "derivatives against finite differences",
    "demo": "a tour",
    "completion": "completion for bash, zsh or fish",
}
#: Short names of exporters.
TARGETS = {"js": "javascript", "py": "python", "tex": "latex"}


def parser_for(runs: Mapping[str, Command], targets: Iterable[str] = ()) -> argparse.ArgumentParser:
    """The parser of the command line; `runs` has the function of each command.

    `targets` are the exporters whose own options `export` has. Their modules are loaded for that: `named_targets` says which.
    """
    parser = argparse.ArgumentParser(
        prog="adjoint",
        description="Exact derivatives, from the command line.",
        epilog='A formula is written as in Python: "log(x1) + x1*x2 - sin(x2)". A function in a file is file.py:name.',
    )
    parser.add_argument("--version", action="version", version=f"adjoint {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="command", dest="command")

    def command(name: str, what: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=SUMMARIES[name], description=SUMMARIES[name].capitalize() + ".")
        made.set_defaults(run=runs[name], json=False)
        made.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colour of the output")
        if what:
            made.add_argument("what", help="a formula, or a function in a file: file.py:name", metavar="formula|file.py:name")
            made.add_argument("--json", action="store_true", help="print JSON")
        return made

    def point(made: argparse.ArgumentParser, wrt: str) -> None:
        made.add_argument("values", nargs="*", metavar="name=value", help="values: x=3, x=pi/4, x=[1,2,3]")
        made.add_argument("--args", nargs="+", metavar="value", help="arguments of a function in a file, by position")
        made.add_argument("--wrt", metavar="names", help=wrt)

    def formats(made: argparse.ArgumentParser, *kinds: str) -> None:
        group = made.add_mutually_exclusive_group()
        for kind in kinds:
            group.add_argument(f"--{kind}", action="store_const", const=kind, dest="format", help=f"print {kind}")
        made.set_defaults(format="text")

    point(command("grad"), "the arguments to differentiate, with commas between them (all floats)")
    made = command("trace")
    point(made, "the arguments whose tangent is 1 in the forward tangent trace (the first)")
    formats(made, "markdown", "latex", "html")
    made.add_argument("--mode", choices=("reverse", "forward"), help="only the adjoints or only the tangents")
    made.add_argument("--limit", type=_limit, default=60, metavar="n", help="leave out the middle of programs longer than n (60)")
    made.add_argument("--all", action="store_true", help="leave nothing out")
    made.add_argument("--lines", action="store_true", help="show the source line of each step")
    point(command("compare"), "the arguments to differentiate, with commas between them (all floats)")
    made = command("symbolic")
    made.add_argument("--wrt", metavar="names", help="the names to differentiate by, with commas between them (all)")
    made.add_argument("--order", type=int, default=1, metavar="n", help="how many times to differentiate (1)")
    formats(made, "latex", "python")
    made = command("graph")
    point(made, argparse.SUPPRESS)
    formats(made, "latex", "python")
    made.add_argument("--html", metavar="path", help="write a page to explore the graph in")
    made.add_argument("--svg", metavar="path", help="write a picture")
    made.add_argument("--simplify", action="store_true", help="simplify the graph first")
    made = command("export")
    point(made, "the arguments to differentiate, with commas between them (all floats)")
    kinds = {"gradient": "grad", "value_and_gradient": "value-and-grad"}
    for kind, meaning in DERIVATIVES.items():
        flag = f"--{kinds.get(kind, kind)}"
        made.add_argument(flag, action="append_const", const=kind, dest="derivatives", help=f"also {meaning}")
    languages = [*exporters.EXPORTERS, *(short for short, name in TARGETS.items() if name in exporters.EXPORTERS)]
    made.add_argument("--to", choices=languages, required=True, help="the language")
    made.add_argument("-o", "--out", metavar="path", help="the file to write; without it the text is printed")
    made.add_argument("--name", metavar="name", help="the name of the exported function, if not its own")
    made.add_argument("--dtype", choices=("float32", "float64"), help="the dtype of float arguments (float64)")
    for option, settings in exporter_options(targets).items():
        made.add_argument(f"--{option}", **settings)
    made = command("check")
    point(made, "the arguments to check, with commas between them (all floats)")
    made.add_argument("--order", type=int, default=2, metavar="n", help="up to which order (2)")
    command("demo", what=False)
    made = command("completion", what=False)
    made.add_argument("shell", choices=completion.SHELLS)
    return parser


def named_targets(words: Sequence[str]) -> list[str]:
    """The exporters whose options a command line can have: the one that --to names, or all where a help text lists them."""
    if not words or words[0] not in ("export", "completion"):
        return []
    named = [TARGETS.get(word, word) for word in re.findall(r"--to[ =](\w+)", " ".join(words))]
    return [name for name in named if name in exporters.EXPORTERS] or list(exporters.EXPORTERS)


def exporter_options(targets: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The options that only some exporters have, as argparse declares them: from the exporters' signatures and docstrings."""
    found: dict[str, dict[str, Any]] = {}
    for target in targets:
        function = getattr(exporters, target)
        hints = typing.get_type_hints(function)
        for p in signature_of(function).parameters.values():
            if p.kind is p.KEYWORD_ONLY and p.name not in exporters.SHARED_OPTIONS:
                found[p.name] = {"dest": f"option_{p.name}", "default": None, "help": _help(function, p.name, target)}
                found[p.name] |= _values(hints[p.name])
    return found


def _values(hint: Any) -> dict[str, Any]:
    """How argparse reads the values of an option with a type hint."""
    if hint is bool:
        return {"action": "store_true"}
    choices = [value for part in (hint, *typing.get_args(hint)) for value in typing.get_args(part) if isinstance(value, str)]
    if choices:
        return {"choices": choices}
    return {"metavar": "name"} if hint in (str, str | None) else {"metavar": "value", "type": ast.literal_eval}


def _help(function: Any, name: str, target: str) -> str:
    """The sentence of a docstring that explains a parameter."""
    text = " ".join((inspect.getdoc(function) or "").partition(">>>")[0].split())
    explained = next(part for part in re.split(r"(?<=\.) (?=[`A-Z])", text) if re.search(rf"`{name}\b", part))
    return f"{target}: {explained.replace('`', '').replace('%', '%%').rstrip('.')}"


def unknown_words(words: Sequence[str], options: argparse.Namespace) -> str:
    """Why some words of a command line mean nothing."""
    if options.command == "export":
        for target in exporters.EXPORTERS:
            for name in exporter_options([target]):
                if any(word.split("=")[0] == f"--{name}" for word in words):
                    return f"--{name} is an option of --to {target}, not of --to {options.to}"
    return f"unrecognized arguments: {' '.join(words)}"


def _limit(text: str) -> int:
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError("it is at least 2")
    return value


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has commands")


def protected(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The words with a space before a formula such as -x**2, which would be parsed as an option."""
    known = {option for made in commands_of(parser).values() for action in made._actions for option in action.option_strings}
    return [f" {w}" if w.startswith("-") and not w.startswith("--") and w not in known and w != "-" else w for w in words]
