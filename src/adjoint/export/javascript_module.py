"""`export.javascript`: a function and its derivatives as an ES module on typed arrays, with TypeScript declarations.

    import { energy, energy_gradient } from "./energy.js";
    energy(Float64Array.of(1, 2, 3));            // a number
    energy_gradient(Float64Array.of(1, 2, 3));   // a Float64Array

Arrays are flat, in C order. One result is returned as it is, several as an object. The intermediate arrays of all functions are
allocated once, when the module is loaded. An int64 is a whole number below 2^53; one that is computed and is not throws a
RangeError. A uint64 is a BigInt.
"""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiler.lower.kernel import Buffer, Dtype
from ..compiler.lower.step import Branch, Scan, Step, While
from ..core.boundary import boundary
from ..core.errors import ArgumentError, UnsupportedError
from .javascript_math import HELPERS, NEEDS, OURS
from .lowering import lower
from .program import Part, file_named, parts, write_beside
from .spelling import COMPARISONS, MATH, OWN_NAMES, RULES, WORK, Language, Pointer, filled, renamed, words
from .steps import DTYPES, ERRORS, StepWriter, Work
from .template import Template

ARRAYS = {
    "float64": "Float64Array",
    "float32": "Float32Array",
    "int64": "Float64Array",
    "uint64": "BigUint64Array",
    "bool": "Uint8Array",
    **{f"{sign.lower()}int{bits}": f"{sign or 'I'}{'i' * bool(sign)}nt{bits}Array" for sign in ("", "U") for bits in (8, 16, 32)},
}
_WORK = {dtype: f"all_{short}" for dtype, short in WORK.items()}  # typed arrays that all functions use
KEYWORDS = frozenset({*ARRAYS.values(), *_WORK.values()}) | words(
    """
    arguments await break case catch class const continue debugger default delete do else enum eval export extends false
    finally for function if implements import in instanceof interface let new null package private protected public return
    static super switch this throw true try typeof undefined var void while with yield out fail check
    Math Error TypeError RangeError BigInt Number NaN Infinity
    """
)
_NUMBERS = {"bool": "boolean", "uint64": "bigint"}  # types of single numbers; others are "number"
_LARGEST = 2**53
_READABLE = 1000  # numbers of a constant with decimal digits
_LONGEST = 2**31  # of an array: its indices are integers of 32 bits
_OWN = re.compile(
    rf"{OWN_NAMES}|half|to_single|numbers_of|rint|exact|power|expit|logaddexp2?|growth|small|exp_of_square|erfc?|errors|exponential|hyperbolic_tangent|(powers|roots)_of_two"
)  # names that the module uses


class Source(NamedTuple):
    """The module, and its declarations. Printed, it is the module."""

    source: str
    declarations: str

    def __str__(self) -> str:
        return self.source


@boundary
def javascript(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: str | Iterable[str] = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> Source:
    """A function, and the derivatives asked for, as an ES module. With `path` ("energy.js"), it and "energy.d.ts" are written.

    >>> from adjoint import export
    >>> made = export.javascript(lambda x: x * x, 2.0, name="square")
    >>> print(made.declarations.splitlines()[-1])
    export function square(x: number): number;
    """
    result = write(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name))
    if path is not None:
        where = file_named(path, "export.javascript", ".js", ".mjs")
        write_beside(where, result.source)
        write_beside(where.with_suffix(".d.mts" if where.suffix == ".mjs" else ".d.ts"), result.declarations)
    return result


def write(made: Sequence[Part]) -> Source:
    """The module and the declarations of some parts."""
    for part in made:
        if part.name in (*KEYWORDS, "then") or _OWN.fullmatch(part.name):  # import() calls what a module exports as "then"
            raise ArgumentError(
                f"export.javascript cannot name a function {part.name!r}, which the module uses; give another name="
            )
    spelling, work = JavaScript(), Work()
    bodies = [_function(spelling, part, work) for part in made]
    constants = spelling.placed_constants(bodies, work)
    for size in work.sizes.values():
        _check_length(size)
    memory = [f"const {_WORK[d.name]} = new {ARRAYS[d.name]}({work.sizes[d]});" for d in DTYPES if work.sizes[d]]
    inside = ["\n".join(memory)] * bool(memory) + [_CHECK, *spelling.helpers.values(), *constants]
    text = "\n\n".join([_TITLE, *inside, *spelling.definitions(), *bodies])
    return Source(text + "\n", "\n\n".join([_TITLE, *(declaration(part) for part in made)]) + "\n")


def _check_length(size: int) -> None:
    if size >= _LONGEST:
        raise UnsupportedError(f"export.javascript has no array of {size} numbers: at most 2^31 - 1, of one dtype")


def names_of(part: Part) -> tuple[list[str], list[str]]:
    """The names of a function's arguments and results."""
    given = part.graph.input_names
    names = renamed((*given, *part.output_names), lambda name: name in KEYWORDS or _OWN.fullmatch(name))
    return names[: len(given)], names[len(given) :]


def declaration(part: Part, typed: dict[str, str] = ARRAYS) -> str:
    """A function in TypeScript."""
    given, made = names_of(part)
    parameters = [f"{n}: {_type(t, typed)}" for n, t in zip(given, part.given, strict=True)]
    results = [_type(t, typed) for t in part.made]
    if len(results) == 1:
        result, out = results[0], results[0] if part.made[0].shape else ""
    else:
        result = "{ " + "; ".join(f"{n}: {t}" for n, t in zip(made, results, strict=True)) + " }"
        arrays = [f"{n}?: {t}" for n, t, y in zip(made, results, part.made, strict=True) if y.shape]
        out = "{ " + "; ".join(arrays) + " }" if arrays else ""
    parameters += [f"out?: {out}"] * bool(out)
    return f"/** {part.summary} */\nexport function {part.name}({', '.join(parameters)}): {result};"


def _type(t: Any, typed: dict[str, str]) -> str:
    return typed[t.dtype.name] if t.shape else _NUMBERS.get(t.dtype.name, "number")


def _function(spelling: JavaScript, part: Part, work: Work) -> str:
    """An exported function: it checks its arguments, runs the steps, and returns the results."""
    lowered = lower(part.graph, "export.javascript")
    writer = _Exported(spelling, lowered, work)
    writer.name = part.name
    text = writer.text
    given, made = names_of(part)
    copied = _in_control_flow(lowered.steps)
    for buffer in (*lowered.inputs, *(view.buffer for view in lowered.outputs)):
        _check_length(buffer.size)
    for name, buffer, t in zip(given, lowered.inputs, part.given, strict=True):
        if t.shape:
            text.add(f"check({name}, {ARRAYS[t.dtype.name]}, {buffer.size}, {quoted(f'{part.name}: {name}')});")
            writer.places[buffer] = writer.reserve(t.dtype, buffer.size) if buffer in copied else Pointer(name)
            if buffer in copied:
                text.add(f"{writer.places[buffer].array}.set({name}, {writer.places[buffer].at});")
        else:
            writer.places[buffer] = writer.reserve(t.dtype, 1)
            text.add(f"{spelling.target(writer.places[buffer], '0')} = {name};")
    several = len(made) > 1
    arrays = []
    for name, view, t in zip(made, lowered.outputs, part.made, strict=True):
        buffer = view.buffer
        if not t.shape:
            writer.places[buffer] = writer.reserve(t.dtype, 1)
            continue
        arrays.append(name)
        kind = ARRAYS[t.dtype.name]
        source = f"out.{name}" if several else "out"
        text.add(
            f"const {name} = {source.replace('.', '?.')} ?? new {kind}({buffer.size});"
            if several
            else f"const {name} = out ?? new {kind}({buffer.size});"
        )
        text.add(f"check({name}, {kind}, {buffer.size}, {quoted(f'{part.name}: {source}')});")
        writer.places[buffer] = writer.reserve(t.dtype, buffer.size) if buffer in copied else Pointer(name)
    body = writer.text
    writer.run_steps()
    writer.check()
    for name, view in zip(made, lowered.outputs, strict=True):
        place = writer.places[view.buffer]
        if view.shape and view.buffer in copied:
            body.add(f"{name}.set({place.array}.subarray({place.at}, {int(place.at) + view.buffer.size}));")
    results = [
        name if t.shape else spelling.element(writer.places[view.buffer], "0", t.dtype)
        for name, view, t in zip(made, lowered.outputs, part.made, strict=True)
    ]
    pairs = [name if name == value else f"{name}: {value}" for name, value in zip(made, results, strict=True)]
    body.add(f"return {{ {', '.join(pairs)} }};" if several else f"return {results[0]};")
    parameters = [*given, *["out"] * bool(arrays)]
    return f"/** {part.summary} */\nexport function {part.name}({', '.join(parameters)}) {{\n" + "\n".join(body.lines) + "\n}"


def _in_control_flow(steps: Sequence[Step]) -> set[Buffer]:
    """The buffers that a loop or a branch reads or writes: all that its body is given must be in one array."""
    control = [step for step in steps if isinstance(step, (Scan, While, Branch))]
    return {view.buffer for step in control for view in (*step.reads(), *step.writes())}


class _Exported(StepWriter):
    """An exported function throws, where a body returns a status."""

    name: str

    def leave(self, status: str | int) -> str:
        return f"fail({quoted(self.name)}, {status});"


def quoted(text: str) -> str:
    return f'"{text}"'


class JavaScript(Language):
    """JavaScript. Memory is a typed array and an offset."""

    equal, unequal = "===", "!=="
    copies = places_rows = True

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[Dtype, int]] = []  # of the constants

    def literal(self, value: Any, dtype: Dtype) -> str:
        if dtype.kind == "b":
            return "true" if value else "false"
        if dtype == np.uint64:
            return f"{int(value)}n"
        if dtype.kind in "iu":
            if abs(int(value)) > _LARGEST:
                raise UnsupportedError(
                    f"export.javascript has no code for the integer {int(value)}: a number is exact up to 2^53"
                )
            return str(int(value)) if value >= 0 else f"({int(value)})"
        x = float(dtype.type(value))
        # NaN and Infinity are global variables: until a branch that reads one has run, V8 takes its type for unknown.
        if math.isnan(x):
            return "(0 / 0)"
        if math.isinf(x):
            return "(1 / 0)" if x > 0 else "(-1 / 0)"
        text = repr(abs(x)).removesuffix(".0")
        return f"(-{text})" if math.copysign(1.0, x) < 0 else text

    def extreme(self, how: str, dtype: Dtype) -> str:
        if dtype.itemsize < 8 or dtype.kind == "u":
            return super().extreme(how, dtype)
        return "(-Infinity)" if how == "max" else "Infinity"  # an int64 is a number with 53 bits

    def let(self, name: str, dtype: Dtype, value: str) -> str:
        return f"const {name} = {value};"

    def variable(self, name: str, dtype: Dtype, value: str) -> str:
        return f"let {name} = {value};"

    def index(self, name: str, value: str, fixed: bool = True) -> str:
        return f"{'const' if fixed else 'let'} {name} = {value};"

    def index_parameter(self, name: str) -> str:
        return name

    def loop(self, index: str, start: str, stop: str, step: int = 1) -> str:
        move = f"++{index}" if step == 1 else f"{index} += {step}"
        return f"for (let {index} = {start}; {index} < {stop}; {move})"

    def element(self, place: Pointer, index: str, dtype: Dtype) -> str:
        read = self.target(place, index)
        return f"({read} !== 0)" if dtype.kind == "b" else read

    def target(self, place: Pointer, index: str) -> str:
        at = self.sum_of([place.at, index])
        return f"{place.array}[{self.whole(at)}]"

    def whole(self, index: str) -> str:
        return index if index.isidentifier() or index.isdigit() else f"{index} | 0"

    def times(self, index: str, stride: int) -> str:
        return index if stride == 1 else f"Math.imul({index}, {stride})"

    def parameter(self, name: str, dtype: Dtype, constant: bool, given: Pointer | None = None) -> tuple[str, Pointer]:
        shared = _WORK[dtype.name]  # V8 knows the length of this array, and where it is
        return name, Pointer(shared, name) if given is None or given.array == shared else Pointer(name)

    def argument(self, place: Pointer) -> str:
        return f"{place.array}, {place.at}"

    def buffer(self, place: Pointer) -> str:
        return place.at if place.array in _WORK.values() else place.array

    def pointer(self, name: str, place: Pointer, dtype: Dtype, constant: bool) -> tuple[str, Pointer]:
        return f"let {name} = {place.at};", Pointer(place.array, name)

    def assign(self, target: Pointer, source: Pointer) -> str:
        return f"{target.at} = {source.at};"

    def as_index(self, value: str) -> str:
        return value

    def operation(self, name: str, args: Sequence[str], source: Dtype, result: Dtype) -> str:
        text = self.expression(name, args, source, result)
        exact = name in ("neg", "abs", "select", "maximum", "minimum", "floor", "ceil", "trunc", "rint")
        return f"Math.fround({text})" if result == np.float32 and not exact else text

    def calls(self, operation: str) -> int:
        name = OURS.get(operation, operation)
        return (name in HELPERS) + len(NEEDS.get(name, ()))

    def expression(self, name: str, args: Sequence[str], source: Dtype, result: Dtype) -> str:
        a, b = args[0], args[-1]
        if source.kind in "iu" and name in _WHOLE:
            plain = {"mul": f"Math.imul({a}, {b})", "abs": f"Math.abs({a})"} if source.itemsize < 8 else {}
            if source.kind == "u" and name == "abs":
                return a
            text = plain.get(name) or _WHOLE[name].format(*args)
            if source == np.int64 and name in ("add", "sub", "mul"):
                return f"{self.helper('exact', HELPERS['exact'])}({text})"
            return f"(({text}) + 0)" if source == np.int64 else _wrapped(source, text)  # not -0
        if name in COMPARISONS:
            sign = COMPARISONS[name]
            return f"({a} {sign + '=' if sign in ('==', '!=') else sign} {b})"
        if name in ("maximum", "minimum"):
            if source.kind == "f":
                nan = f" || {a} !== {a}"
                return f"({a} {'>=' if name == 'maximum' else '<='} {b}{nan} ? {a} : {b})"
            return f"({a} {'>=' if name == 'maximum' else '<='} {b} ? {a} : {b})"
        if name == "cast":
            return self.cast(a, source, result)
        if name.startswith("power."):
            return f"Math.pow({a}, {int(name[6:].replace('minus.', '-'))})"
        if name in _BITS:
            return self.bits(name, args, result)
        if name in _RULES:
            return _RULES[name].format(*args)
        name = OURS.get(name, name)
        if name in HELPERS:
            for needed in (*NEEDS.get(name, ()), name):
                self.helper(needed, HELPERS[needed])
            return f"{name}({', '.join(args)})"
        return f"Math.{MATH.get(name, name)}({', '.join(args)})"

    def bits(self, name: str, args: Sequence[str], dtype: Dtype) -> str:
        """Operations on the bits of integers: of 64 bits as a BigInt. A shift by all bits or more leaves the sign, or nothing."""
        last, zero = self.literal(8 * dtype.itemsize - 1, dtype), self.literal(0, dtype)
        is_shift, unsigned = name in ("bits.left", "bits.right"), dtype.kind == "u"
        if is_shift:
            inside = f"{args[1]} >= {zero} && {args[1]} <= {last}"
            args = [args[0], f"({inside} ? {args[1]} : {last})"]
        sign = _BITS[name]
        if name == "bits.right" and unsigned and dtype.itemsize < 8:
            sign = ">>>"
        big = [f"BigInt({a})" for a in args] if dtype == np.int64 else args
        plain = f"{sign}{big[0]}" if len(big) == 1 else f"{big[0]} {sign} {big[1]}"
        value = f"Number(BigInt.asIntN(64, {plain}))" if dtype == np.int64 else _wrapped(dtype, plain)
        if dtype == np.int64:
            value = f"{self.helper('exact', HELPERS['exact'])}({value})"
        return f"({inside} ? {value} : {zero})" if is_shift and (unsigned or name == "bits.left") else value

    def cast(self, x: str, source: Dtype, result: Dtype) -> str:
        if source.kind == "b":
            return f"({x} ? {self.literal(1, result)} : {self.literal(0, result)})"
        if source.kind == "f" and result.kind in "iu":
            # As jit has it: few bits are the last ones of an int32, or of an int64; what it cannot hold is its least number.
            bits = 32 if result.itemsize < 4 or result == np.int32 else 64
            least, high = -(2 ** (bits - 1)), 2.0 ** (64 if result == np.uint64 else bits - 1)  # powers of two, so exact
            whole = f"({x} >= {least} && {x} < {high:.0f} ? Math.trunc({x}) + 0 : {least})"  # + 0: not -0
            return whole if result == np.int64 else self.cast(whole, np.dtype(np.int64), result)
        if source == np.uint64 and result.kind != "u":
            if result == np.float32:
                return f"{self.helper('to_single', HELPERS['to_single'])}({x})"
            return f"Number({x})" if result.kind == "f" else f"Number(BigInt.asIntN({8 * result.itemsize}, {x}))"
        if result == np.uint64:
            return _wrapped(result, f"BigInt({x})")
        if source == np.uint64:
            return f"Number(BigInt.asUintN({8 * result.itemsize}, {x}))"
        return _wrapped(result, x) if result.kind in "iu" else x

    def function(
        self, what: str, parameters: Sequence[str], body: Sequence[str], fails: bool = False, uses_work: bool = False
    ) -> str:
        text = "\n".join(body)
        return self.shared(what, lambda name: f"function {name}({', '.join(parameters)}) {{\n{text}\n}}")

    def constant(self, data: np.ndarray[Any, Any]) -> Pointer:
        name = f"c{len(self.constants)}"
        shared = _WORK[data.dtype.name]
        self.constants.append(f"{shared}.set({self.numbers(data)}, {name});")
        self.sizes.append((data.dtype, data.size))
        return Pointer(shared, name)

    def numbers(self, data: np.ndarray[Any, Any]) -> str:
        """The elements of a constant. Many of them are bytes, which are written and read faster."""
        if data.dtype == np.int64 and (data.size == 0 or max(-int(data.min()), int(data.max())) <= _LARGEST):
            data = data.astype(np.float64)
        if data.size <= _READABLE or data.dtype == np.int64:
            return f"[{', '.join(self.literal(x, data.dtype).strip('()') for x in data.ravel().tolist())}]"
        self.helper("numbers_of", HELPERS["numbers_of"])
        little = data.astype(data.dtype.newbyteorder("<"))
        return f"numbers_of({ARRAYS[data.dtype.name]}, {quoted(base64.b64encode(little.tobytes()).decode())})"

    def placed_constants(self, bodies: Sequence[str], work: Work) -> list[str]:
        """The constants that functions read: offsets in the work array, behind the intermediate arrays, and their numbers."""
        made = []
        for text in self.used_constants(bodies):
            i = self.constants.index(text)
            dtype, size = self.sizes[i]
            at = work.sizes[dtype]
            work.need(dtype, at + max(size, 1))  # one without elements has a place too
            made.append(f"const c{i} = {at};\n{text}")
        return made

    def work(self, dtype: Dtype, offset: int) -> Pointer:
        return Pointer(_WORK[dtype.name], str(offset))

    def routine(self, name: str, template: Template, dtype: Dtype) -> str:
        meanings = {"INT32": "", "INT": "let", "COUNT": "const", "REAL": "let", "ZERO": "0", "ONE": "1", "NOT_A_NUMBER": "NaN"}
        meanings |= {"HALF": "half", "SQRT": "Math.sqrt", "ABS": "Math.abs", "AT": ""}
        if "HALF(" in template.text:
            self.helper("half", "function half(n) {\n  return Math.floor(n / 2);\n}")
        text = filled(template.text, meanings)
        arrays = [*template.reads, *template.writes]
        names = "|".join(arrays)
        text = re.sub(rf"\b({names})\[([^][]*)\]", r"\1<\1_at + \2 | 0]", text)
        text = re.sub(rf"\b({names})\[", r"\1[\1_at + ", text)  # an index with an element in it
        text = re.sub(rf"\b({names})<(?=\1_at)", r"\1[", text)
        return self.function(name, [f"{n}, {n}_at" for n in arrays], [text.rstrip()], template.tells)


def _wrapped(dtype: Dtype, text: str) -> str:
    """The last bits of an integer. An int64 is a number with 53 of them."""
    return f"({_LAST_BITS[dtype.name].format(text)})"


_LAST_BITS = {
    "int8": "({}) << 24 >> 24",
    "int16": "({}) << 16 >> 16",
    "int32": "{} | 0",
    "int64": "{}",
    "uint8": "({}) & 255",
    "uint16": "({}) & 65535",
    "uint32": "({}) >>> 0",
    "uint64": "BigInt.asUintN(64, {})",
}
_WHOLE = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "neg": "-{0}",
    "abs": "({0} < 0 ? -{0} : {0})",
    "quotient": "{1} == 0 ? {1} : ({0} - {0} % {1}) / {1}",
}
_BITS = {"bits.and": "&", "bits.or": "|", "bits.xor": "^", "bits.not": "~", "bits.left": "<<", "bits.right": ">>"}
_RULES = RULES | {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "neg": "(-{0})",
    "xor": "({0} !== {1})",
    "isnan": "({0} !== {0})",
    "signbit": "({0} < 0 || 1 / {0} < 0)",
    "exp2": "Math.pow(2, {0})",
    "fmod": "({0} % {1})",
}


_TITLE = "// Written by adjoint."
_CHECK = f"""\
const errors = {{ {", ".join(f'{code}: "{text}"' for code, text in ERRORS.items())} }};

function fail(name, status) {{
  throw new Error(`${{name}}: ${{errors[status]}}`);
}}

function check(array, kind, length, name) {{
  if (!(array instanceof kind) || array.length !== length) {{
    throw new TypeError(`${{name}} must be a ${{kind.name}} of length ${{length}}`);
  }}
}}"""
