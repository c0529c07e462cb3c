"""The command line.

    adjoint grad "x**2*y + y + 2" x=3 y=4
    adjoint trace "log(x1) + x1*x2 - sin(x2)" x1=2 x2=5
    adjoint graph model.py:loss --args "[1, 2, 3]" --html loss.html
    adjoint export model.py:loss --args "[1, 2, 3]" --grad --to python -o loss_and_gradient.py
    adjoint export model.py:loss --args "[1, 2, 3]" --hvp --to object --triple aarch64-linux-gnu -o loss.o

Exit codes: 0 success; 1 the computation or the check failed; 2 invalid command line.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad

from .. import export as exporters
from ..algebra.formula import CONSTANTS, Formula, FormulaError, near
from ..algebra.parse import ExpressionError
from ..core.errors import AdjointError, last_line
from ..core.tree import flatten
from . import completion
from .parser import SUMMARIES, TARGETS, Command, commands_of, named_targets, parser_for, protected, unknown_words
from .report import plain, shown
from .target import FunctionAtPoint, UsageError, as_floats, names_in, target
from .terminal import Terminal, abandon

OK, FAILED, USAGE, BROKEN_PIPE, INTERRUPTED = 0, 1, 2, 141, 130


# -- commands ---------------------------------------------------------------------------------------------------


def grad(options: argparse.Namespace, out: Terminal) -> int:
    at = target(options.what, options.values, options.args)
    chosen = at.chosen(options.wrt)
    value, slopes = ad.value_and_grad(_scalar(at), argnums=tuple(chosen))(*at.args)
    names = [at.names[i] for i in chosen]
    if options.json:
        _json(out, {"value": value, "gradient": dict(zip(names, slopes, strict=True))})
        return OK
    out.say(f"f = {out.style(shown(value), 'bold')}")
    for name, slope in zip(names, slopes, strict=True):
        leaves, structure = flatten(slope)
        for path, leaf in zip(structure.paths(), leaves, strict=True):
            head = f"∂f/∂{name}{path} = "
            out.say(head + out.style(shown(leaf).replace("\n", "\n" + " " * len(head)), "bold"))
    return OK


def _scalar(at: FunctionAtPoint) -> Callable[..., Any]:
    """The function; its value must be one number."""

    def f(*args: Any) -> Any:
        y = at.function(*args)
        if np.shape(y):
            raise UsageError(f"{at.title} is an array of shape {np.shape(y)}; a gradient is that of one number, as in sum(…)")
        return y

    return f


def trace(options: argparse.Namespace, out: Terminal) -> int:
    at = target(options.what, options.values, options.args)
    tangents = None
    if options.wrt is not None:
        chosen = at.chosen(options.wrt)
        tangents = tuple(_ones(a) if i in chosen else None for i, a in enumerate(at.args))
    table = ad.trace(_named(at), tangents=tangents)(*at.args)
    settings: dict[str, Any] = {
        "modes": options.mode or ("reverse", "forward"),
        "limit": None if options.all else options.limit,
        "lines": options.lines and not at.is_formula,
    }
    if options.json:
        _json(out, _trace_data(table.evaluation))
    elif options.format != "text":
        out.say(getattr(table, options.format)(**settings))
    else:
        for line in table.text(ascii=not out.is_unicode, **settings).splitlines():
            out.say(out.style(line, "bold") if line.startswith("Forward primal") else line)
    return OK


def _named(at: FunctionAtPoint) -> Callable[..., Any]:
    """The function with named arguments, which the trace shows."""
    if not at.is_formula:
        return at.function
    formula: Formula = at.function  # type: ignore[assignment]
    return formula.as_function()


def _ones(x: Any) -> Any:
    return np.ones_like(x)[()] if np.ndim(x) else 1.0


def _trace_data(run: Any) -> dict[str, Any]:
    def node(number: int, name: str) -> dict[str, Any]:
        return {
            "number": number,
            "name": name,
            "value": run.values[number],
            "adjoint": run.adjoints.get(number, 0.0) if run.has_adjoint(number) else None,
            "tangent": run.tangents.get(number, 0.0) if run.has_adjoint(number) else None,
        }

    graph = run.graph
    return {
        "inputs": [node(i, name) for i, name in enumerate(graph.input_names)],
        "equations": [
            {
                **node(n, f"v{n}"),
                "op": equation.op.name,
                "inputs": [_operand(o) for o in equation.inputs],
                "partials": list(run.partials[i]),
            }
            for i, equation in enumerate(graph.equations)
            for n in equation.outputs
        ],
        "outputs": [_operand(o) for o in graph.outputs],
        "refusals": run.refusals,
    }


def compare(options: argparse.Namespace, out: Terminal) -> int:
    at = target(options.what, options.values, options.args)
    chosen = at.chosen(options.wrt)
    result = ad.compare(_named(at), *at.args, argnums=tuple(chosen) if len(chosen) > 1 else chosen[0])
    if options.json:
        rows = [
            {"method": r.method, "derivative": r.value, "error": r.error, "evaluations": r.evaluations, "seconds": r.seconds}
            | ({"skipped": r.note} if r.note else {})
            for r in result.rows
        ]
        _json(out, {"reference": result.reference, "rows": rows})
        return OK
    for i, line in enumerate(str(result).splitlines()):
        out.say(out.style(line, "bold") if i < 2 else line)
    return OK


def symbolic(options: argparse.Namespace, out: Terminal) -> int:
    if options.order < 1 or options.order > 12:
        raise UsageError(f"--order is from 1 to 12, not {options.order}")
    formula = Formula(options.what)
    names = names_in(options.wrt) if options.wrt is not None else list(formula.names)
    for name in names:
        if name not in formula.names and name not in CONSTANTS and not name.isidentifier():
            raise UsageError(f"--wrt names {name!r}, which is not a name{near(name, formula.names)}")
    if not names:
        raise UsageError("the formula has no names to differentiate with respect to; give one with --wrt")
    try:
        expression = ad.symbolic(_spelled(formula), list(dict.fromkeys([*formula.names, *names])))
    except ExpressionError as error:  # arrays are allowed in a formula but not in a scalar expression
        raise FormulaError(error.reason, error.source, error.column - 1, error.column) from None
    derivatives = {name: expression.diff(name, options.order) for name in names}
    forms: dict[str, Callable[[Any], str]] = {"text": str, "latex": lambda e: e.latex(), "python": lambda e: e.python()}
    write = forms[options.format]
    if options.json:
        _json(out, {"expression": write(expression), "derivatives": {n: write(d) for n, d in derivatives.items()}})
        return OK
    power = str(options.order) if options.order > 1 else ""
    for name, d in derivatives.items():
        sign = power.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) if out.is_unicode else power and f"^{power}"
        head = f"∂{sign}f/∂{name}{sign} = " if len(derivatives) > 1 and options.format == "text" else ""
        out.say(head + write(d))
    return OK


class _Spelling(ast.NodeTransformer):
    """Constants as the algebra spells them."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        base, exponent = node.left, self.visit(node.right)
        if isinstance(node.op, ast.Pow) and isinstance(base, ast.Name) and base.id == "e":
            return ast.Call(ast.Name("exp"), [exponent], [])
        return ast.BinOp(self.visit(base), node.op, exponent)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "e":
            return ast.parse("exp(1)", mode="eval").body
        return ast.Name("pi") if node.id == "π" else node


def _spelled(formula: Formula) -> str:
    return ast.unparse(_Spelling().visit(ast.parse(formula.text, mode="eval")))


def graph(options: argparse.Namespace, out: Terminal) -> int:
    at = target(options.what, options.values, options.args)
    program = ad.graph(_named(at))(*at.args)
    if at.is_formula:  # no source lines to show
        bare = tuple(dataclasses.replace(equation, line="") for equation in program.equations)
        program = dataclasses.replace(program, equations=bare)
    if options.simplify:
        program = program.simplify()
    try:
        if options.html is not None:
            program.html(options.html, *at.args)
        if options.svg is not None:
            _write(options.svg, program.svg())
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from None
    written = [path for path in (options.html, options.svg) if path is not None]
    for path in written:
        out.say(f"wrote {path}")
    if options.json:
        _json(out, _graph_data(program))
    elif options.format == "latex":
        out.say(program.latex())
    elif options.format == "python":
        out.say(program.python().rstrip())
    elif not written:
        out.say(str(program))
    return OK


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _operand(o: Any) -> Any:
    return o if isinstance(o, int) else {"constant": o.value}


def _graph_data(program: Any) -> dict[str, Any]:
    return {
        "name": program.name,
        "inputs": [{"name": n, "type": repr(t)} for n, t in zip(program.input_names, program.input_types, strict=True)],
        "equations": [
            {
                "op": e.op.name,
                "inputs": [_operand(o) for o in e.inputs],
                "parameters": e.params,
                "outputs": list(e.outputs),
                "types": [repr(t) for t in e.types],
                "line": e.line,
            }
            for e in program.equations
        ],
        "outputs": [_operand(o) for o in program.outputs],
    }


def export(options: argparse.Namespace, out: Terminal) -> int:
    at = target(options.what, options.values, options.args)
    asked = list(dict.fromkeys(options.derivatives or []))
    own = {name.removeprefix("option_"): value for name, value in vars(options).items() if name.startswith("option_")}
    settings: dict[str, Any] = {"derivatives": asked, "name": options.name}
    settings |= {name: value for name, value in own.items() if value is not None}
    if asked:
        chosen = at.chosen(options.wrt)
        settings["argnums"] = tuple(chosen) if len(chosen) > 1 else chosen[0]
    elif options.wrt is not None:
        raise UsageError("--wrt chooses the arguments of a derivative; ask for one, as with --grad")
    f = _named(at)
    if at.is_formula:
        f.__name__ = "f"
    write = getattr(exporters, TARGETS.get(options.to, options.to))
    if options.out is not None and not os.path.isdir(os.path.dirname(options.out) or "."):
        raise UsageError(f"{options.out} cannot be written: its folder does not exist")
    try:
        made = write(f, *as_floats(at.args, options.dtype), path=options.out, **settings)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from None
    text = made if isinstance(made, str) else getattr(made, "source", None)  # C and JavaScript have a second file
    if options.out is None and text is None:
        raise UsageError(f"--to {options.to} needs a file to write: -o path")
    if options.json:
        _json(out, {"to": options.to, "path": options.out, "text": text})
    else:
        out.say(f"wrote {options.out}" if options.out is not None else str(text).rstrip())
    return OK


def check(options: argparse.Namespace, out: Terminal) -> int:
    at = target(options.what, options.values, options.args, draw=True)
    fixed = at.chosen(options.wrt)
    point = ", ".join(f"{at.names[i]} = {shown(at.args[i])}" for i in fixed)

    def f(*xs: Any) -> Any:
        args = list(at.args)
        for i, x in zip(fixed, xs, strict=True):
            args[i] = x
        return at.function(*args)

    f.__name__ = at.title
    try:
        ad.check_grads(f, *[at.args[i] for i in fixed], order=options.order)
    except Exception as error:
        if at.drawn and not isinstance(error, AdjointError):
            error.add_note(f"the point was drawn at random ({point}); choose one with {'values' if at.is_formula else '--args'}")
        if options.json:
            _json(out, {"ok": False, "order": options.order, "message": _message(error)})
            return FAILED
        raise
    if options.json:
        _json(out, {"ok": True, "order": options.order, "point": {at.names[i]: at.args[i] for i in fixed}})
        return OK
    drawn = " (drawn at random)" if at.drawn else ""
    orders = "first order" if options.order == 1 else f"order {options.order}"
    out.say(f"{out.style('ok', 'green', 'bold')}: {at.title} at {point}{drawn}")
    out.say(f"forward and reverse mode agree with finite differences, to {orders}")
    return OK


def demo(options: argparse.Namespace, out: Terminal) -> int:
    for words in (
        ["trace", "log(x1) + x1*x2 - sin(x2)", "x1=2", "x2=5"],
        ["compare", "x**2*y + y + 2", "x=3", "y=4"],
        ["symbolic", "x**2*y + y + 2"],
        ["check", "sin(x)*exp(-y**2)", "x=1", "y=0.5"],
    ):
        quoted = " ".join(f'"{w}"' if set(w) & set(" *(") else w for w in words)
        out.say(out.style(f"$ adjoint {quoted}", "cyan"))
        inner, _ = parser_for(COMMANDS).parse_known_args(words)
        inner.run(inner, out)
        out.say()
    return OK


def complete(options: argparse.Namespace, out: Terminal) -> int:
    parser = parser_for(COMMANDS, named_targets(["completion"]))
    out.say(completion.script(options.shell, commands_of(parser), SUMMARIES).rstrip())
    return OK


def _json(out: Terminal, data: Any) -> None:
    out.say(json.dumps(plain(data), indent=2))


COMMANDS: dict[str, Command] = {
    "grad": grad,
    "trace": trace,
    "compare": compare,
    "symbolic": symbolic,
    "graph": graph,
    "export": export,
    "check": check,
    "demo": demo,
    "completion": complete,
}


# -- running ----------------------------------------------------------------------------------------------------


def _decoded(word: str) -> str:
    """A UTF-8 word that a non-UTF-8 locale has decoded as surrogate bytes."""
    try:
        return os.fsencode(word).decode() if any("\udc80" <= c <= "\udcff" for c in word) else word
    except UnicodeDecodeError:
        return word


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    given = [_decoded(word) for word in (sys.argv[1:] if words is None else words)]
    parser = parser_for(COMMANDS, named_targets(given) if given[:1] == ["export"] else ())
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it stays open until the end
    options, unknown = parser.parse_known_args(protected(given, parser))
    if unknown:
        parser.error(unknown_words(unknown, options))
    if options.command is None:
        parser.print_help()
        return USAGE
    out, err = Terminal(sys.stdout, options.color), Terminal(sys.stderr, options.color)
    try:
        with np.errstate(all="ignore"):
            code: int = options.run(options, out)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        abandon(sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except FormulaError as error:
        _complain(err, f"{error.reason}\n{error.caret(spelled=err.spelled)}")
        return USAGE
    except UsageError as error:
        _complain(err, _message(error))
        return USAGE
    except Exception as error:
        if os.environ.get("ADJOINT_FULL_TRACEBACK"):
            raise
        _complain(err, _message(error))
        return FAILED


def _message(error: BaseException) -> str:
    """The message of an error, with the user's line if there is one."""
    text = str(error) or type(error).__name__
    line = getattr(error, "line", "")
    if line and _is_our_line(line):
        text = text.replace(f" ({line})", "")
    if not isinstance(error, AdjointError):
        line = last_line(error)
        text = f"{type(error).__name__}: {text}" + (f" ({line})" if line and not _is_our_line(line) else "")
    return "\n".join([text, *getattr(error, "__notes__", [])])


def _is_our_line(line: str) -> bool:
    """Whether a line belongs to the launcher of the command, not to user code."""
    return line.startswith("<") or line.rpartition(":")[0] in ("adjoint", os.path.basename(sys.argv[0]))


def _complain(err: Terminal, text: str) -> None:
    first, _, rest = text.partition("\n")
    err.say(f"{err.style('adjoint: error:', 'red', 'bold')} {first}")
    for line in rest.splitlines():
        err.say(err.style(line, "red") if set(line.strip()) == {"^"} else line)


if __name__ == "__main__":
    sys.exit(main())
