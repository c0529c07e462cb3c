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
then imported), as Python's operator, or as its definition in other ops (`scalar=`). Otherwise it is refused by name.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import UnsupportedError
from ..core.op import Op
from ..core.types import Type
from ..ir.edit import values_in, values_read
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import control
from .finite import finite, loop_tame, operands, ordinary_products
from .notation import python_name
from .python_names import Order, own_variable, result_names, words
from .python_text import PRELUDE, TABLE, PythonCall, array, definitions, number, readably, written

_BUILTINS = frozenset(dir(builtins))

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
                helpers |= definitions(equation.op.impl)

    def write(reserved: frozenset[str]) -> tuple[list[str], dict[Literal, str]]:
        constants = dict[Literal, str]()
        taken = {"np", "special", *PRELUDE, *helpers, *reserved}
        return [_Function(g, names, constants, taken, readable).text() for g, names in functions], constants

    written, constants = write(_BUILTINS)
    words = set(re.findall(r"(?<![.\w])\w+", "\n".join(written)))
    if any(word.rstrip("_0123456789") in _BUILTINS and word not in _BUILTINS for word in words):
        written, constants = write(_BUILTINS & words)  # a variable may have the name of a builtin that is not called
    everything = "\n".join(written)
    prelude = [text for name, text in PRELUDE.items() if re.search(rf"\b{name}\(", everything)]
    prelude += [text for name, text in helpers.items() if name in _called(helpers, everything)]
    head = ["import numpy as np"] + ["from scipy import special"] * ("special." in everything)
    read = [(name, literal) for literal, name in constants.items() if re.search(rf"\b{name}\b", everything)]
    head += [""] * bool(read) + [f"{name} = {array(literal.value)}" for name, literal in read]
    return "\n\n\n".join(["\n".join(head), *[text.rstrip("\n") for text in prelude], *[f.rstrip("\n") for f in written]]) + "\n"


def _called(helpers: dict[str, str], text: str) -> set[str]:
    """The helpers that a text calls, and those that they call."""
    found = {name for name in helpers if re.search(rf"\b{name}\(", text)}
    return found | {n for name in found for n in _called({k: v for k, v in helpers.items() if k not in found}, helpers[name])}


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
        self.words = words([graph.name, *graph.input_names], reserved)
        self.taken = {*self.words, *reserved}
        self.line = ""  # the source line that was named last

    def text(self) -> str:
        name, *inputs = self.words
        body = []
        for word, type_ in zip(inputs, self.graph.input_types, strict=True):
            body.append(f'{word} = np.asarray({word}, "{type_.dtype.name}")' + ("" if type_.shape else "[()]"))
        tame = finite(self.graph) if self.readable else set()
        lines, results = self.block(self.graph, inputs, tame, self.outputs, own=range(len(inputs)))
        shared = _aliases(set(self.constants.values()), lines)  # of all calls: the caller gets copies
        body += [*lines, f"return {', '.join(f'{y}.copy()' if y in shared else y for y in results)}"]
        return f'@np.errstate(all="ignore")\ndef {name}({", ".join(inputs)}):\n' + "".join(f"    {x}\n" for x in body)

    def fresh(self, name: str) -> str:
        """A name that stands for nothing else: `v3`, or the name of an input of a body."""
        is_value = re.fullmatch(r"v\d+", name)
        word = base = name if is_value else words([name], set())[0]
        number = int(name[1:]) if is_value else 1
        base = "v" if is_value else f"{base}_" if base in ("c", "v") else base  # c2 is a constant, v2 an equation
        while word in self.taken:
            number += 1
            word = f"{base}{number}"
        self.taken.add(word)
        return word

    def block(
        self,
        graph: Graph,
        inputs: Sequence[str],
        tame: set[int],
        outputs: Sequence[str] | None = None,
        state: Sequence[int] = (),
        own: Collection[int] = (),
        into: Sequence[str] = (),
    ) -> tuple[list[str], list[str]]:
        """The lines of a graph, and the texts of its results. `tame` are the values known to be finite.

        Results are named if names are given for them, and may be expressions if not. The first results are the inputs `state`
        after an iteration: one whose old value is no longer read takes its name. Inputs that are not `own` belong to the block
        around, which may read them later. A result that is not nested is assigned to its variable of `into`, if the block does
        not read that.
        """
        own_graph = ordinary_products(graph, tame) if self.readable else graph
        block = _Block(self, own_graph, inputs, outputs or (), state, own, is_body=graph is not self.graph)
        if self.readable:
            block.assign(into)
        return block.lines(tame), [self.operand(o, block.names) for o in own_graph.outputs]

    def operand(self, o: Operand, names: dict[int, str]) -> str:
        if isinstance(o, int):
            return names[o]
        if o.is_weak:
            return number(o.value)
        return self.constants.setdefault(o, f"c{len(self.constants)}") if o.value.ndim else array(o.value)

    def noted(self, lines: list[str], line: str) -> list[str]:
        """Lines with the source line that they come from, once if the text is to be readable."""
        if not line or line.startswith("<frozen ") or (self.readable and line == self.line):
            return lines
        self.line = line
        return [f"{lines[0]}  # {line}", *lines[1:]]


class _Block:
    """The lines of one graph: that of a function, or the body of a loop or a branch. See `_Function.block`."""

    def __init__(
        self,
        function: _Function,
        graph: Graph,
        inputs: Sequence[str],
        outputs: Sequence[str],
        state: Sequence[int],
        own: Collection[int],
        is_body: bool,
    ) -> None:
        self.function, self.graph, self.types = function, graph, graph.types
        self.names = dict(enumerate(inputs))  # of values: a variable, or an expression that is nested
        self.wanted = {o: name for o, name in zip(graph.outputs, outputs, strict=False) if isinstance(o, int)}
        self.own = {*own, *(n for e in graph.equations for n in e.outputs)}  # values whose names may be assigned again
        self.targets = dict[int, str]()  # names that results must have
        self.assigned = set[tuple[str, str]]()  # lines of the source, with a variable that they assign
        self.nested = _nested(graph, is_body) if function.readable else set[int]()
        self.order = Order(graph, self.nested, len(state)) if function.readable else None
        self.renewed = self.order.renewed(state) if self.order is not None else dict[int, int]()
        self.nested -= set(self.renewed)

    def assign(self, into: Sequence[str]) -> None:
        """Results take the names that the block around has for them, except those of values that the block reads."""
        read = {self.names[o] for e in self.graph.equations for o in values_in(e.inputs) if o in self.names}
        read |= {self.names[o] for o in values_in(self.graph.outputs) if o in self.names}
        for o, name in zip(self.graph.outputs, into, strict=False):
            if isinstance(o, int) and o not in self.names and name not in read:
                self.targets.setdefault(o, name)

    def lines(self, tame: set[int]) -> list[str]:
        lines = list[str]()
        for equation in self.graph.equations:
            args = [self.function.operand(o, self.names) for o in equation.inputs]
            if equation.op in _STRUCTURED:
                wanted = result_names(equation, self.wanted)
                names = [self.name_of(n, word, equation) for n, word in zip(equation.outputs, wanted, strict=True)]
                written = _STRUCTURED[equation.op](self.function, equation, args, names, tame)
            elif equation.outputs[0] in self.nested:
                self.names[equation.outputs[0]] = f"({self.expression(equation, args)})"
                continue
            else:
                word = self.variable(equation)
                names = [self.name_of(n, self.wanted.get(n, word or f"v{n}"), equation) for n in equation.outputs]
                written = [self.assignment(equation, names, args)]
            self.names |= zip(equation.outputs, names, strict=True)
            lines += self.function.noted(written, equation.line)
        return lines

    def name_of(self, n: int, word: str, equation: Equation) -> str:
        """The name of a result: that of a value that is no longer read, or a new one."""
        if n in self.targets:
            return self.targets[n]
        old = self.renewed.get(n)
        if old is None and self.order is not None and equation.op in _STRUCTURED:
            mine = {o: self.names[o] for o in equation.inputs if isinstance(o, int) and o in self.own}
            old = self.order.replaced(equation, n, mine, word)
        return self.function.fresh(word) if old is None else self.names[old]

    def variable(self, equation: Equation) -> str:
        """The variable that the source line of an equation assigns, unless another one here has it; '' if there is none."""
        name = own_variable(equation) if self.function.readable else ""
        is_first = (equation.line, name) not in self.assigned  # others are tangents
        self.assigned.add((equation.line, name))
        return name if is_first else ""

    def assignment(self, equation: Equation, names: Sequence[str], args: Sequence[str]) -> str:
        comma = "," if equation.op.many and len(names) == 1 else ""
        line = f"{', '.join(names)}{comma} = {self.expression(equation, args)}"
        return _plain(line) if self.function.readable else line

    def expression(self, equation: Equation, args: Sequence[str]) -> str:
        """The right-hand side of an equation that is neither a loop nor a branch."""
        given = [o.type if isinstance(o, Literal) else self.types[o] for o in equation.inputs]
        if self.function.readable:
            return readably(equation, args, given)
        return written(equation, PythonCall(args, equation.params, given))


def _nested(graph: Graph, with_results: bool) -> set[int]:
    """The values that are written inside the one expression that uses them, which comes from the same source line.

    In the body of a loop or a branch a result is such a value too.
    """
    users: dict[int, list[Equation | None]] = {}
    for equation in graph.equations:
        for o in values_in(equation.inputs):
            users.setdefault(o, []).append(equation)
    for o in values_in(graph.outputs):
        users.setdefault(o, []).append(None)
    depth: dict[int, int] = {}
    length: dict[int, int] = {}
    found = set[int]()
    for equation in graph.equations:
        n, inside = equation.outputs[0], [o for o in values_in(equation.inputs) if o in found]
        depth[n] = (not equation.op.infix) + max((depth[o] for o in inside), default=0)
        length[n] = 1 + sum(length[o] for o in inside)
        if len(users.get(n, ())) != 1 or equation.op.many or equation.op in _STRUCTURED:
            continue
        user = users[n][0]
        if depth[n] >= _DEEPEST or length[n] > _LONGEST:
            continue
        if with_results if user is None else _takes_expression(user, n) and user.line == equation.line:
            found.add(n)
    return found


def _aliases(shared: set[str], lines: Sequence[str]) -> set[str]:
    """Constants, and the variables that may be one of them: `y = c0` in a branch, or before a loop that does not run."""
    if not shared:
        return shared
    pairs = list[tuple[str, str]]()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            given: Iterable[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                given = zip(target.elts, value.elts, strict=True)
            pairs += [(n.id, v.id) for n, v in given if isinstance(n, ast.Name) and isinstance(v, ast.Name)]
    found = set(shared)
    while more := {n for n, v in pairs if v in found} - found:
        found |= more
    return found


_DEEPEST = 4  # calls inside one another, in a readable expression
_LONGEST = 8  # ops of an expression that is nested in another


def _takes_expression(equation: Equation, n: int) -> bool:
    """Whether an operand is written once."""
    op = equation.op
    if op in _STRUCTURED:
        return op is control.cond and equation.inputs[0] == n and n not in equation.inputs[1:]
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
    known = loop_tame(body, equation, tame, consts, carries)
    own = range(consts, len(body.input_names))
    lines, results = f.block(body, [*fixed, *state, *inputs], known, state=range(consts, consts + carries), own=own)
    made = [f'np.empty({(length, *t.shape)}, "{t.dtype.name}")' for t in body.output_types[carries:]]
    backwards = f"range({length - 1}, -1, -1)" if equation.params["reverse"] else f"range({length})"
    head = [*_assigned(state, first), *(f"{s} = {m}" for s, m in zip(stacks, made, strict=True))]
    read = values_read(ordinary_products(body, known)) if f.readable else {*range(consts, len(body.input_names))}
    inside = [f"{x} = {row}[{i}]" for n, (x, row) in enumerate(zip(inputs, rows, strict=True), consts + carries) if n in read]
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
    known = loop_tame(body, replace(equation, inputs=equation.inputs[asked:]), tame, fixed, len(names))
    own = range(fixed, fixed + len(names))
    lines, results = f.block(body, [*args[asked : asked + fixed], *names], known, state=own, own=own)
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
    own = range(consts, consts + len(state))
    lines, results = f.block(step, [*fixed, *state], set(), state=own, own=own)
    read = {o for e in pull.equations for o in e.inputs if isinstance(o, int)} | {*pull.outputs}
    # The others have no value of their own: they have the type of a cotangent.
    used = [k for k in range(len(state)) if consts + k in read or step.outputs[k] != consts + k]
    all_state = ", ".join(state[k] for k in used) or "_"
    kept = all_state if len(used) == 1 else f"({all_state})"
    forward = [f"{saved}.append({kept})", *lines, *_assigned(state, results)]
    given_state = args[1 + consts : 1 + len(step.input_names)]
    back, pulled = f.block(pull, [*fixed, *state, *names[shared:]], set(), own=range(consts, len(pull.input_names)))
    totals = [_plain(f"{total} = {total} + {part}") for total, part in zip(names[:shared], pulled[:shared], strict=True)]
    zeros = [array(np.zeros(t.shape, t.dtype)) for t in equation.types[:shared]]
    head = []
    if used:
        head = [*_assigned([state[k] for k in used], [given_state[k] for k in used]), f"{saved} = []"]
        head += [f"for {f.fresh('i')} in range({count}):", *_inner(forward)]
    start = _assigned(names, [*zeros, *given])
    return [
        *head,
        *start,
        f"for {all_state} in reversed({saved}):" if used else f"for _ in range({count}):",
        *_inner([*back, *totals, *_assigned(names[shared:], pulled[shared:])] or ["pass"]),
    ]


def _write_cond(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    written = []
    for word, key in ((f"if {_plain(args[0])}:", "true"), ("else:", "false")):
        part = equation.params[key]
        lines, results = f.block(part, args[1:], finite(part, operands(equation.inputs[1:], tame)), into=names)
        inside = [*lines, *_assigned(names, results)]
        if key == "false" and _is_one_branch(inside):
            written += [f"el{inside[0]}", *inside[1:]]
        elif inside or key == "true":
            written += [word, *_inner(inside or ["pass"])]
    return written


def _is_one_branch(lines: Sequence[str]) -> bool:
    """Whether lines are an `if` with all that belongs to it."""
    return bool(lines) and lines[0].startswith("if ") and all(x.startswith((" ", "else:", "elif ")) for x in lines[1:])


def _write_checkpoint(f: _Function, equation: Equation, args: Sequence[str], names: Sequence[str], tame: set[int]) -> list[str]:
    body = equation.params["body"]
    lines, results = f.block(body, args, finite(body, operands(equation.inputs, tame)))
    return [*lines, *_assigned(names, results)] or ["pass"]


_STRUCTURED: dict[Op, Callable[..., list[str]]] = {
    control.scan: _write_scan,
    control.while_: _write_while,
    control.while_vjp: _write_while_vjp,
    control.cond: _write_cond,
    control.checkpoint: _write_checkpoint,
}


def has_text(op: Op, params: dict[str, Any], types: Sequence[Type]) -> bool:
    """Whether an op on operands of these types can be written."""
    try:
        return op in _STRUCTURED or bool(written(Equation(op, (), params, (), ()), PythonCall(["x"] * len(types), params, types)))
    except UnsupportedError:
        return False


__all__ = ["all_equations", "finite", "has_text", "module", "source"]
