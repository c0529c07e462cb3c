"""A graph as the source of a Python function that needs only NumPy.

    import numpy as np

    @np.errstate(all="ignore")
    def energy(x):
        x = np.asarray(x, "float64")
        v1 = np.sin(x)
        v2 = v1 * x
        v3 = np.sum(v2, axis=(0,), keepdims=False)
        return v3

An op is written as its declaration says (`python=`), by its name if it is a function of NumPy or of `scipy.special` (which is
then imported), by Python's operator, by the expression in other ops that it stands for (`scalar=`), or not at all: it is refused
by name.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.op import Constant, Expansion, Linear, Multilinear, Op
from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control, decompose, fft, index, linalg, solve
from ..ops.broadcast import cast, where
from ..ops.elementwise import ieee_mul, mul, strong_mul_either_op, strong_mul_op, truncate
from .notation import PYTHON, Text, python_name

_READABLE = 64  # elements; a longer constant is written as bytes


class Call(NamedTuple):
    """An equation about to be written: the texts of its operands, its parameters and the operands' dtypes."""

    args: Sequence[str]
    params: dict[str, Any]
    kinds: Sequence[str]

    def __getattr__(self, name: str) -> Any:
        return self.params[name]


# -- pieces of text ---------------------------------------------------------------------------------------------


def number(value: Any) -> str:
    """A Python number. A negative one is in parentheses, since a power binds tighter than a sign."""
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "(-np.inf)"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def array(value: Any) -> str:
    """An array constant."""
    name, shape = value.dtype.name, value.shape
    if not shape and name in ("float64", "float32", "int64", "complex128"):
        return f"np.{name}({number(value.item())})"
    if value.size > _READABLE or name.startswith(("longdouble", "clongdouble", "float128", "complex256")):
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes().hex()
        return f'np.frombuffer(bytes.fromhex("{raw}"), "{value.dtype.newbyteorder("<").str}").reshape({shape})'
    numbers = ", ".join(
        number(x).removeprefix("(").removesuffix(")") if not isinstance(x, complex) else number(x) for x in value.ravel().tolist()
    )
    flat = f'np.array([{numbers}], "{name}")'
    return flat if len(shape) == 1 else f"{flat}.reshape({shape})"


def parameter(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f'"{value.name}"'
    if isinstance(value, tuple):
        return "(" + ", ".join(map(parameter, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, (bool, int, str, type(None))):
        return repr(value)
    if isinstance(value, (float, complex)):
        return number(value)
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if value is Ellipsis:
        return "..."
    raise TypeError(f"the parameter {value!r} has no text")


def subscript(spec: Any) -> str:
    """An index as written in brackets."""
    parts = spec if isinstance(spec, tuple) else (spec,)
    return ", ".join(map(_place, parts)) + ("," if len(parts) == 1 and isinstance(parts[0], tuple) else "") if parts else "()"


def _place(part: Any) -> str:
    if not isinstance(part, slice):
        return parameter(part)
    ends = [("" if end is None else str(end)) for end in (part.start, part.stop)]
    return ":".join(ends) + ("" if part.step in (None, 1) else f":{part.step}")


# -- the table --------------------------------------------------------------------------------------------------

Writer = Callable[[Call], str]


def _cast(c: Call) -> str:
    x = f"np.real({c.args[0]})" if c.kinds[0] == "c" and c.dtype.kind != "c" else c.args[0]
    return f"np.asarray({x}).astype({parameter(c.dtype)})[()]"


def _einsum(c: Call) -> str:
    contracts = len(c.args) > 1 and any(letter not in c.output for letters in c.inputs for letter in letters)
    return f'np.einsum("{",".join(c.inputs)}->{c.output}", {", ".join(c.args)}, optimize={contracts})[()]'


def _fft(c: Call) -> str:
    name = "ifft" if c.inverse else "fft"
    where = f"axis={c.axes[0]}" if len(c.axes) == 1 else f"axes={c.axes}"
    return f"np.fft.{name}{'n' if len(c.axes) != 1 else ''}({c.args[0]}, {where}, norm={c.params['norm']!r})"


def _index(c: Call, first: int) -> str:
    """Integer arrays as an index."""
    arrays = c.args[first:]
    return ", ".join([*[":"] * c.axis, *arrays]) + ("," if not c.axis and len(arrays) == 1 else "")


def _triangular_solve(c: Call) -> str:
    a = f"np.{'tril' if c.lower else 'triu'}({c.args[0]})"
    return f"np.linalg.solve({f'np.swapaxes({a}, -1, -2)' if c.transposed else a}, {c.args[1]})"


#: Ops that are neither a function nor an operator of Python; the others say in their declaration how they are written.
TABLE: dict[Op, Writer] = {
    cast: _cast,
    truncate: _cast,
    linalg.einsum: _einsum,
    index.getitem: lambda c: f"{c.args[0]}[{subscript(c.spec)}]",
    index.gather: lambda c: f"{c.args[0]}[{_index(c, 1)}]",
    index.scatter_add: lambda c: f"scattered({c.args[0]}, np.s_[{_index(c, 1)}], {parameter(c.shape)})",
    index.put_at: lambda c: f"put({c.args[0]}, {c.args[1]}, np.s_[{_index(c, 2)}])",
    decompose.qr: lambda c: f'np.linalg.qr({c.args[0]}, "{"complete" if c.complete else "reduced"}")',
    decompose.eigh: lambda c: f'np.linalg.eigh({c.args[0]}, "{"L" if c.lower else "U"}")',
    decompose.cholesky_pullback: lambda c: f"cholesky_pullback({c.args[0]}, {c.args[1]})",
    solve.triangular_solve: _triangular_solve,
    solve.inv: lambda c: f"np.linalg.inv({c.args[0]})" if c.strict else f"_inv({c.args[0]}, strict=False)",
    fft.fft: _fft,
}

#: Functions that some lines call, written out in front where they are needed.
PRELUDE = {
    "strong_mul": '''def strong_mul(g, p):
    """g * p, and exactly 0 wherever g is exactly 0, even if p is infinite or nan."""
    return np.where(np.equal(g, 0), np.zeros((), np.result_type(g, p)), g * p)[()]
''',
    "strong_mul_either": '''def strong_mul_either(a, b):
    """a * b, and exactly 0 wherever either is exactly 0."""
    return np.where(np.equal(a, 0) | np.equal(b, 0), np.zeros((), np.result_type(a, b)), a * b)[()]
''',
    "placed": '''def placed(x, where, shape):
    """Zeros with x at an index."""
    out = np.zeros(shape, x.dtype)
    out[where] = x
    return out
''',
    "put": '''def put(x, v, where):
    """x with v written into it."""
    out = np.array(x, np.result_type(x, v))
    out[where] = v
    return out
''',
    "scattered": '''def scattered(x, where, shape):
    """x added to zeros at an index."""
    out = np.zeros(shape, x.dtype)
    np.add.at(out, where, x)
    return out
''',
    "recurrence": '''def recurrence(a, b, axis):
    """y with y_0 = b_0 and y_i = a_i y_{i-1} + b_i along an axis."""
    a, b = (np.moveaxis(x, axis, 0) for x in np.broadcast_arrays(a, b))
    y = np.array(b, np.result_type(a, b))
    for i in range(1, len(y)):
        y[i] += a[i] * y[i - 1]
    return np.moveaxis(y, 0, axis)
''',
    "cholesky_pullback": '''def cholesky_pullback(l, g):
    """The cotangent of a = l @ l.T from that of l, twice its symmetric part."""
    l, n = np.tril(l), l.shape[-1]
    turned = np.conjugate(np.swapaxes(l, -1, -2))
    s = (np.tri(n, k=-1) + 0.5 * np.eye(n)) * (turned @ np.tril(g))
    x = np.linalg.solve(turned, np.swapaxes(np.linalg.solve(np.swapaxes(l, -1, -2), np.swapaxes(s, -1, -2)), -1, -2))
    return x + np.conjugate(np.swapaxes(x, -1, -2))
''',
    "logsumexp": """def logsumexp(x, axis):
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    return np.squeeze(np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift, axis)[()]
""",
}


# -- graphs -----------------------------------------------------------------------------------------------------


def source(graph: Graph) -> str:
    """The source of a function of the graph's flat inputs, one line for each equation; several results are a tuple."""
    return module([(graph, None)])


def module(functions: Sequence[tuple[Graph, Sequence[str] | None]], readable: bool = False) -> str:
    """The source of several functions, each with names for its results.

    A `readable` one nests expressions, names a source line once, and has the product in which zero wins only where its factor can
    be infinite or nan for finite arguments (`finite`).
    """
    helpers = dict[str, str]()
    for graph, _ in functions:
        for equation in all_equations(graph):
            if equation.op.python == "def":
                helpers |= _definitions(equation.op.impl)
    constants = dict[Literal, str]()
    written = [_Function(g, names, constants, {"np", "special", *PRELUDE, *helpers}, readable).text() for g, names in functions]
    everything = "\n".join(written)
    prelude = [text for name, text in PRELUDE.items() if re.search(rf"\b{name}\(", everything)]
    prelude += [text for name, text in helpers.items() if re.search(rf"\b{name}\(", everything + "".join(helpers.values()))]
    head = ["import numpy as np"] + ["from scipy import special"] * ("special." in everything)
    head += [""] * bool(constants) + [f"{name} = {array(literal.value)}" for literal, name in constants.items()]
    return "\n\n\n".join(["\n".join(head), *[text.rstrip("\n") for text in prelude], *[f.rstrip("\n") for f in written]]) + "\n"


def all_equations(graph: Graph) -> Iterator[Equation]:
    for equation in graph.equations:
        yield equation
        for part in equation.params.values():
            if isinstance(part, Graph):
                yield from all_equations(part)


class _Function:
    """Writes one function. Values are named once, over all nested blocks."""

    def __init__(
        self, graph: Graph, outputs: Sequence[str] | None, constants: dict[Literal, str], reserved: set[str], readable: bool
    ) -> None:
        self.graph, self.outputs, self.constants, self.readable = graph, outputs, constants, readable
        self.words = _words([graph.name, *graph.input_names], reserved)
        self.taken = {*self.words, *reserved}
        self.line = ""  # the source line that was named last

    def text(self) -> str:
        name, *inputs = self.words
        body = []
        for word, type_ in zip(inputs, self.graph.input_types, strict=True):
            body.append(f'{word} = np.asarray({word}, "{type_.dtype.name}")' + ("" if type_.shape else "[()]"))
        lines, results = self.block(self.graph, inputs, finite(self.graph) if self.readable else set(), self.outputs)
        shared = set(self.constants.values())  # of all calls: the caller gets copies
        body += [*lines, f"return {', '.join(f'{y}.copy()' if y in shared else y for y in results)}"]
        return f'@np.errstate(all="ignore")\ndef {name}({", ".join(inputs)}):\n' + "".join(f"    {x}\n" for x in body)

    def fresh(self, name: str) -> str:
        """A name that stands for nothing else: `v3`, or the name of an input of a body."""
        is_value = re.fullmatch(r"[vc]\d+", name)
        word = base = name if is_value else _words([name], set())[0]
        number = int(name[1:]) if is_value else 1
        while word in self.taken:
            number += 1
            word = f"v{number}" if is_value else f"{base}{number}"
        self.taken.add(word)
        return word

    def block(
        self,
        graph: Graph,
        inputs: Sequence[str],
        tame: set[int],
        outputs: Sequence[str] | None = None,
        state: Sequence[int] = (),
    ) -> tuple[list[str], list[str]]:
        """The lines of a graph, and the texts of its results. `tame` are the values known to be finite.

        Results are named if names are given for them, and may be expressions if not. The first results are the inputs `state`
        after an iteration: one whose old value is no longer read takes its name.
        """
        is_body = graph is not self.graph
        graph = _ordinary_products(graph, tame) if self.readable else graph
        values, lines = dict(enumerate(inputs)), list[str]()
        types, nested = graph.types, self._nested(graph, is_body)
        wanted = {o: name for o, name in zip(graph.outputs, outputs or (), strict=False) if isinstance(o, int)}
        order = _Order(graph, nested, len(state)) if self.readable else None
        renewed = order.renewed(state) if order is not None and state else {}
        nested -= set(renewed)

        def operand(o: Operand) -> str:
            if isinstance(o, int):
                return values[o]
            if o.is_weak:
                return number(o.value)
            return self.constants.setdefault(o, f"c{len(self.constants)}") if o.value.ndim else array(o.value)

        for equation in graph.equations:
            args = [operand(o) for o in equation.inputs]
            if equation.op in _STRUCTURED:
                names = []
                for n, name in zip(equation.outputs, _result_names(equation, wanted), strict=True):
                    old = renewed.get(n)
                    if old is None and order is not None:
                        old = order.replaced(equation, n, {o: values[o] for o in equation.inputs if isinstance(o, int)}, name)
                    names.append(self.fresh(name) if old is None else values[old])
                lines += self._noted(_STRUCTURED[equation.op](self, equation, args, names, tame), equation.line)
                values |= zip(equation.outputs, names, strict=True)
                continue
            given = [o.type if isinstance(o, Literal) else types[o] for o in equation.inputs]
            if self.readable:
                written = _readably(equation, args, given)
            else:
                written = _written(equation, Call(args, equation.params, [t.dtype.kind for t in given]))
            if equation.outputs[0] in nested:
                values[equation.outputs[0]] = f"({written})"
                continue
            names = [values[renewed[n]] if n in renewed else self.fresh(wanted.get(n, f"v{n}")) for n in equation.outputs]
            values |= zip(equation.outputs, names, strict=True)
            target = ", ".join(names) + ("," if equation.op.many and len(names) == 1 else "")
            line = f"{target} = {written}"
            lines += self._noted([_plain(line) if self.readable else line], equation.line)
        return lines, [operand(o) for o in graph.outputs]

    def _noted(self, lines: list[str], line: str) -> list[str]:
        """Lines with the source line that they come from, once if the text is to be readable."""
        if not line or line.startswith("<frozen ") or (self.readable and line == self.line):
            return lines
        self.line = line
        return [f"{lines[0]}  # {line}", *lines[1:]]

    def _nested(self, graph: Graph, with_results: bool) -> set[int]:
        """The values that are written inside the one expression that uses them, which comes from the same source line.

        In the body of a loop or a branch a result is such a value too.
        """
        if not self.readable:
            return set()
        users: dict[int, list[Equation | None]] = {}
        for equation in graph.equations:
            for o in equation.inputs:
                if isinstance(o, int):
                    users.setdefault(o, []).append(equation)
        for o in graph.outputs:
            if isinstance(o, int):
                users.setdefault(o, []).append(None)
        depth: dict[int, int] = {}
        found = set[int]()
        for equation in graph.equations:
            deep = 1 + max((depth.get(o, 0) for o in equation.inputs if isinstance(o, int) and o in found), default=0)
            n = equation.outputs[0]
            depth[n] = deep
            once = users.get(n, [])
            if len(once) != 1 or equation.op.many or equation.op in _STRUCTURED or deep >= _DEEPEST:
                continue
            user = once[0]
            if with_results if user is None else _takes_expressions(user.op) and user.line == equation.line:
                found.add(n)
        return found


class _Order:
    """When the values of a graph are read, in the order of its lines: one that is nested, with the line that it is nested in."""

    def __init__(self, graph: Graph, nested: set[int], carries: int) -> None:
        self.graph = graph
        self.made = {n: i for i, e in enumerate(graph.equations) for n in e.outputs}
        stored_first = [o for o in graph.outputs[carries:] if carries and isinstance(o, int) and o not in self.made]
        late = [*graph.outputs[:carries], *(o for o in graph.outputs[carries:] if o not in stored_first)]
        self.last: dict[int, int] = {o: len(graph.equations) for o in late if isinstance(o, int)}
        for i in range(len(graph.equations) - 1, -1, -1):
            e = graph.equations[i]
            at = self.last.get(e.outputs[0], i) if e.outputs and e.outputs[0] in nested else i
            for o in e.inputs:
                if isinstance(o, int):
                    self.last[o] = max(self.last.get(o, -1), at)

    def renewed(self, state: Sequence[int]) -> dict[int, int]:
        """The results that can take the name of the input that they are the next value of."""
        found: dict[int, int] = {}
        for old, o in zip(state, self.graph.outputs, strict=False):
            if isinstance(o, int) and o in self.made and o not in found and self._is_last(old, self.made[o], o):
                found[o] = old
        return found

    def replaced(self, equation: Equation, n: int, names: dict[int, str], name: str) -> int | None:
        """The operand of a loop that has the name of a result, and is not read again."""
        fitting = [o for o, text in names.items() if text == name and _is_start(equation, n, o)]
        return fitting[0] if fitting and self._is_last(fitting[0], self.made[n], n) else None

    def _is_last(self, old: int, at: int, n: int) -> bool:
        last = self.last.get(old, -1)
        equation = self.graph.equations[at]
        return last < at or (last == at and (equation.op not in _LOOPS or _is_start(equation, n, old)))


_LOOPS = (control.scan, control.while_, control.while_vjp)


def _is_start(equation: Equation, n: int, old: int) -> bool:
    """Whether a loop reads a value only to start the state from it that becomes the result n."""
    params, at = equation.params, [i for i, o in enumerate(equation.inputs) if o == old]
    if equation.op is control.scan:
        return at == [params["consts"] + equation.outputs.index(n)]
    return equation.op is control.while_ and at == [params["cond_consts"] + params["body_consts"] + equation.outputs.index(n)]


def _saved_names(body: Graph, consts: int, carries: int) -> list[str]:
    """Names for the stacked results of a scan: `x_saved` for the carry x after each iteration, `x_before` for that before it."""
    names = body.input_names[consts : consts + carries]
    found = {o: f"{name}_saved" for o, name in zip(body.outputs, names, strict=False) if isinstance(o, int)}
    found |= {consts + i: f"{name}_before" for i, name in enumerate(names)}
    return [found.get(o, "") if isinstance(o, int) else "" for o in body.outputs[carries:]]


def _result_names(equation: Equation, wanted: dict[int, str]) -> list[str]:
    """Names for the results of a loop or a branch: a carry has that of the body's input."""
    names: Sequence[str] = ()
    if equation.op is control.scan:
        body, consts, carries = (equation.params[key] for key in ("body", "consts", "carries"))
        names = [*body.input_names[consts : consts + carries], *_saved_names(body, consts, carries)]
        names = [name or f"v{n}" for n, name in zip(equation.outputs, names, strict=True)]
    elif equation.op is control.while_vjp:
        pull = equation.params["pull"]
        names = [f"{name}_bar" for name, flag in zip(pull.input_names, equation.params["wanted"], strict=False) if flag]
    elif equation.op is control.while_:
        names = equation.params["body"].input_names[equation.params["body_consts"] :]
    names = [*names, *(f"v{n}" for n in equation.outputs[len(names) :])]
    return [wanted.get(n, name) for n, name in zip(equation.outputs, names, strict=True)]


#: Reductions over all axes that need not name them.
_REDUCTIONS = frozenset({"sum", "max", "min", "prod", "any", "all"})


def _readably(equation: Equation, args: Sequence[str], types: Sequence[Type]) -> str:
    """The right-hand side as a person writes it: `x @ w`, `np.sum(x, axis=0)`, `0.5 * x`."""
    op, params, args = equation.op, dict(equation.params), list(args)
    if op is linalg.matmul and all(t.shape for t in types):
        return f"{args[0]} @ {args[1]}"
    constant = [isinstance(o, Literal) for o in equation.inputs]
    if op.infix and not all(constant) and all(t.dtype == np.float64 for t in types):  # a Python number promotes to the same
        for i, o in enumerate(equation.inputs):
            if isinstance(o, Literal) and not o.is_weak and not o.type.shape:
                args[i] = number(o.value.item())
    if op.name in _REDUCTIONS and not params.get("keepdims", True):
        del params["keepdims"]
        axis = params.pop("axis")
        if len(axis) < len(types[0].shape) or not axis:
            params["axis"] = axis[0] if len(axis) == 1 else axis
    written = _written(replace(equation, params=params), Call(args, params, [t.dtype.kind for t in types]))
    return written.removesuffix("[()]") if equation.types[0].shape else written  # it makes a number of an array without axes


_DEEPEST = 4  # calls inside one another, in a readable expression


def _takes_expressions(op: Op) -> bool:
    """Whether each operand is written once."""
    if op in _STRUCTURED:
        return False
    if "{" in op.python:
        return all(op.python.count(f"{{{i}}}") < 2 for i in range(9))
    return op in TABLE or op.python == "def" or bool(python_name(op)) or bool(op.infix)


def _plain(line: str) -> str:
    """A statement or an expression without needless parentheses."""
    return ast.unparse(ast.parse(line))


# -- loops and branches -----------------------------------------------------------------------------------------


def _inner(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _assigned(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """All names at once: a value may be that of another name."""
    pairs = [(n, v) for n, v in zip(names, values, strict=True) if n != v]
    return [f"{', '.join(n for n, _ in pairs)} = {', '.join(_plain(v) for _, v in pairs)}"] if pairs else []


def _write_scan(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    body, length, carries, consts = (equation.params[key] for key in ("body", "length", "carries", "consts"))
    fixed, first, rows = args[:consts], args[consts : consts + carries], args[consts + carries :]
    state, stacks, i = names[:carries], names[carries:], f.fresh("i")
    inputs = [f.fresh(_row_name(name, row)) for name, row in zip(body.input_names[consts + carries :], rows, strict=True)]
    known = _loop_tame(body, equation, tame, consts, carries)
    lines, results = f.block(body, [*fixed, *state, *inputs], known, state=range(consts, consts + carries))
    made = [f'np.empty({(length, *t.shape)}, "{t.dtype.name}")' for t in body.output_types[carries:]]
    backwards = f"range({length - 1}, -1, -1)" if equation.params["reverse"] else f"range({length})"
    head = [*_assigned(state, first), *(f"{s} = {m}" for s, m in zip(stacks, made, strict=True))]
    inside = [f"{x} = {row}[{i}]" for x, row in zip(inputs, rows, strict=True)]
    stored = [(o, _plain(f"{s}[{i}] = {y}")) for s, o, y in zip(stacks, body.outputs[carries:], results[carries:], strict=True)]
    first = [text for o, text in stored if isinstance(o, int) and o < len(body.input_types)]  # before an input is assigned
    inside += [*first, *lines, *[text for _, text in stored if text not in first]]
    return [*head, f"for {i} in {backwards}:", *_inner([*inside, *_assigned(state, results[:carries])] or ["pass"])]


def _row_name(name: str, row: str) -> str:
    found = re.fullmatch(r"(\w+)_(saved|before)\d*", row)
    return found[1] if found else name


def _write_while(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    test, body, asked, fixed = (equation.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    first = args[asked + fixed :]
    before, (answer,) = f.block(test, [*args[:asked], *names], set())
    known = _loop_tame(body, replace(equation, inputs=equation.inputs[asked:]), tame, fixed, len(names))
    lines, results = f.block(body, [*args[asked : asked + fixed], *names], known, state=range(fixed, fixed + len(names)))
    inside = [*lines, *_assigned(names, results)] or ["pass"]
    if before:
        return [*_assigned(names, first), "while True:", *_inner([*before, f"if not {answer}:", "    break", *inside])]
    return [*_assigned(names, first), f"while {_plain(answer)}:", *_inner(inside)]


def _write_while_vjp(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    """The states of all iterations once more, and then the backward pass over them. (Segments would save memory only.)"""
    step, pull, consts = (equation.params[key] for key in ("step", "pull", "consts"))
    count, fixed, given = args[0], args[1 : 1 + consts], args[1 + len(step.input_names) :]
    state = [f.fresh(name) for name in step.input_names[consts:]]
    saved = f.fresh("_".join(["saved", *step.input_names[consts:][:1]]))
    shared = len(names) - len(given)
    lines, results = f.block(step, [*fixed, *state], set(), state=range(consts, consts + len(state)))
    forward = [f"{saved}.append(({', '.join(state)},))", *lines, *_assigned(state, results)]
    back, pulled = f.block(pull, [*fixed, *state, *names[shared:]], set())
    totals = [_plain(f"{total} = {total} + {part}") for total, part in zip(names[:shared], pulled[:shared], strict=True)]
    zeros = [f'np.zeros({t.shape}, "{t.dtype.name}")[()]' for t in equation.types[:shared]]
    head = [*_assigned(state, args[1 + consts : 1 + len(step.input_names)]), f"{saved} = []"]
    head += [f"for {f.fresh('i')} in range({count}):", *_inner(forward)]
    start = _assigned(names, [*zeros, *given])
    return [
        *head,
        *start,
        f"for {', '.join(state)}, in reversed({saved}):",
        *_inner([*back, *totals, *_assigned(names[shared:], pulled[shared:])]),
    ]


def _write_cond(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    written = []
    for word, key in ((f"if {args[0]}:", "true"), ("else:", "false")):
        part = equation.params[key]
        known = {i for i, o in enumerate(equation.inputs[1:]) if _is_tame(o, tame)}
        lines, results = f.block(part, args[1:], finite(part, known))
        written += [word, *_inner([*lines, *_assigned(names, results)] or ["pass"])]
    return written


def _write_checkpoint(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    body = equation.params["body"]
    lines, results = f.block(body, args, finite(body, {i for i, o in enumerate(equation.inputs) if _is_tame(o, tame)}))
    return [*lines, *_assigned(names, results)] or ["pass"]


_STRUCTURED: dict[Op, Callable[..., list[str]]] = {
    control.scan: _write_scan,
    control.while_: _write_while,
    control.while_vjp: _write_while_vjp,
    control.cond: _write_cond,
    control.checkpoint: _write_checkpoint,
}

# -- which values are finite ------------------------------------------------------------------------------------

#: Functions that are finite wherever their arguments are; exp and products may overflow, which is not considered.
_FINITE = frozenset({
    "abs", "add", "arcsinh", "arctan", "arctan2", "cbrt", "copysign", "cos", "cosh", "cumprod", "dawsn", "deg2rad", "erf", "erfc",
    "exp", "exp2", "expit", "expm1", "fabs", "fmax", "fmin", "heaviside", "hypot", "huber", "i0e", "i1e", "j0", "j1", "log_expit",
    "logaddexp", "logsumexp", "max", "maximum", "min", "minimum", "mul", "ndtr", "neg", "norm", "pos", "prod", "pseudo_huber",
    "rad2deg", "sin", "sinc", "sinh", "square", "sub", "tanh",
})  # fmt: skip


def _is_tame(o: Operand, tame: set[int]) -> bool:
    return o in tame if isinstance(o, int) else bool(np.all(np.isfinite(o.value)))


def finite(graph: Graph, inputs: Iterable[int] | None = None) -> set[int]:
    """The values that are finite if those inputs are, all of them by default, and nothing overflows."""
    tame = set(range(len(graph.input_types)) if inputs is None else inputs)
    for equation in graph.equations:
        op = equation.op
        if op in _STRUCTURED:
            tame.update(_finite_results(equation, tame))
            continue
        known = isinstance(op, (Linear, Multilinear, Constant)) and op.name != "floor_divide"
        if (known or op.name in _FINITE) and all(_is_tame(o, tame) for o in equation.inputs):
            tame.update(equation.outputs)
    return tame


def _ordinary_products(graph: Graph, tame: set[int]) -> Graph:
    """Without a strong zero where that is the same: no factor that a zero would have to win over is infinite or nan."""
    made: dict[int, Equation] = {}
    for equation in graph.equations:
        ordinary = _ordinary(equation, made, tame)
        made |= dict.fromkeys(equation.outputs, ordinary)
    needed, kept = {o for o in graph.outputs if isinstance(o, int)}, list[Equation]()
    for equation in reversed([made[e.outputs[0]] if e.outputs else e for e in graph.equations]):
        if not needed.isdisjoint(equation.outputs):
            needed.update(o for o in equation.inputs if isinstance(o, int))
            kept.append(equation)
    return replace(graph, equations=tuple(kept[::-1]))


def ordinary(graph: Graph, tame: set[int] | None = None) -> Graph:
    """A graph whose products are ordinary ones where no factor can be infinite or nan for finite arguments, in loops too."""
    tame = finite(graph) if tame is None else tame
    equations = []
    for equation in _ordinary_products(graph, tame).equations:
        bodies = {key: ordinary(body, known) for key, (body, known) in _bodies(equation, tame).items()}
        equations.append(replace(equation, params={**equation.params, **bodies}) if bodies else equation)
    return replace(graph, equations=tuple(equations))


def _bodies(equation: Equation, tame: set[int]) -> dict[str, tuple[Graph, set[int]]]:
    """The graphs of a loop or a branch, each with its finite values."""
    params, inputs = equation.params, equation.inputs
    if equation.op is control.cond:
        known = {i for i, o in enumerate(inputs[1:]) if _is_tame(o, tame)}
        return {key: (params[key], finite(params[key], known)) for key in ("true", "false")}
    if equation.op is control.checkpoint:
        return {"body": (params["body"], finite(params["body"], {i for i, o in enumerate(inputs) if _is_tame(o, tame)}))}
    if equation.op is control.scan:
        return {"body": (params["body"], _loop_tame(params["body"], equation, tame, params["consts"], params["carries"]))}
    if equation.op is control.while_:
        inner = replace(equation, inputs=inputs[params["cond_consts"] :])
        return {"body": (params["body"], _loop_tame(params["body"], inner, tame, params["body_consts"], len(equation.outputs)))}
    return {}


def _ordinary(equation: Equation, made: dict[int, Equation], tame: set[int]) -> Equation:
    op, inputs = equation.op, equation.inputs
    factors = inputs[1:] if op is strong_mul_op else inputs  # those whose infinities a zero would win over
    if op in (strong_mul_op, strong_mul_either_op) and all(_is_tame(o, tame) for o in factors):
        return replace(equation, op=mul)
    if op is where and _is_zero(inputs[2]):  # where(g != 0, g * p, 0)
        test, product = (made.get(o) if isinstance(o, int) else None for o in inputs[:2])
        if test is None or product is None or test.op.name != "not_equal" or product.op not in (mul, ieee_mul):
            return equation
        g, *others = test.inputs[0], *product.inputs
        if _is_zero(test.inputs[1]) and g in others and product.types == equation.types:
            others.remove(g)
            return replace(product, outputs=equation.outputs) if _is_tame(others[0], tame) else equation
    return equation


def _is_zero(o: Operand) -> bool:
    return isinstance(o, Literal) and not np.any(o.value)


def _finite_results(equation: Equation, tame: set[int]) -> Iterator[int]:
    """The finite results of a loop or a branch."""
    if equation.op is control.while_vjp:
        return  # sums over a number of iterations that is not known
    bodies = _bodies(equation, tame).values()
    for i, n in enumerate(equation.outputs):
        if all(_is_tame(body.outputs[i], found) for body, found in bodies):
            yield n


def _loop_tame(body: Graph, equation: Equation, tame: set[int], consts: int, carries: int) -> set[int]:
    """The finite values of a body: a carry is one if it starts so and every iteration keeps it so."""
    known = {i for i, o in enumerate(equation.inputs) if _is_tame(o, tame)}
    while True:
        found = finite(body, known)
        lost = {consts + i for i, o in enumerate(body.outputs[:carries]) if not _is_tame(o, found)} & known
        if not lost:
            return found
        known -= lost


def _definitions(function: Any) -> dict[str, str]:
    """The sources of a function and of those that it calls, by name, in definition order."""
    tree = ast.parse(inspect.getsource(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    found = dict[str, str]()
    for other in (function.__globals__.get(name) for name in names):
        if isinstance(other, FunctionType) and other is not function:
            found |= _definitions(other)
    return found | {function.__name__: ast.unparse(tree)}


def _written(equation: Equation, call: Call) -> str:
    """The right-hand side of an equation."""
    op, args = equation.op, call.args
    try:
        if op in TABLE:
            return TABLE[op](call)
        texts = {key: parameter(value) for key, value in call.params.items()}
        if "{" in op.python:
            return op.python.format(*args, all=", ".join(args), **texts)
        name = op.impl.__name__ if op.python == "def" else python_name(op)
        if name:
            return f"{name}({', '.join([*args, *(f'{key}={text}' for key, text in texts.items())])})"
    except TypeError as error:
        raise _unwritten(equation, str(error)) from None
    if op.infix:
        return f" {op.infix} ".join(args) if len(args) > 1 else f"{op.infix}{args[0]}"
    if callable(op.scalar):
        return str(Expansion(_expanded).run(op.scalar, [Text(a) for a in args]).text)
    raise _unwritten(equation, "it is not one function of NumPy or scipy.special")


def _expanded(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Text:
    """One op of an expression that another stands for."""
    return PYTHON.call(op, [a.aux if isinstance(a, Traced) else Text(number(a)) for a in args])


def _unwritten(equation: Equation, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the op {equation.op.name!r} cannot be written as Python with NumPy: {why}; run the graph itself, or save its text",
        equation.line or None,
    )


def _words(names: Iterable[str], reserved: set[str]) -> list[str]:
    """Names that Python accepts, all different."""
    words: list[str] = []
    for name in names:
        word = re.sub(r"\W", "_", name)
        while keyword.iskeyword(word) or word in reserved or word in words or re.fullmatch(r"[vc]\d+", word):
            word += "_"
        words.append(word)
    return words


__all__ = ["all_equations", "finite", "module", "source"]
