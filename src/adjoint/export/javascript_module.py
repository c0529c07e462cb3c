"""`export.javascript`: a function and its derivatives as an ES module on typed arrays, with TypeScript declarations.

    import { energy, energy_gradient } from "./energy.js";
    energy(Float64Array.of(1, 2, 3));            // a number
    energy_gradient(Float64Array.of(1, 2, 3));   // a Float64Array

Arrays are flat, in C order. One result is returned as it is, several as an object. The intermediate arrays of all functions are
allocated once, when the module is loaded. An int64 is a whole number, exact up to 2^53.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compiler.llvm.vecmath import coefficients
from ..compiler.lower.kernel import Buffer, Dtype
from ..compiler.lower.step import Branch, Scan, Step, While
from ..core.errors import ArgumentError, UnsupportedError, boundary
from .lowering import lower
from .program import Part, parts
from .spelling import COMPARISONS, MATH, OWN_NAMES, RULES, WORK, Place, Spelling, filled, renamed, words
from .steps import DTYPES, ERRORS, StepWriter, Work
from .template import Template

ARRAYS = {
    "float64": "Float64Array",
    "float32": "Float32Array",
    "int64": "Float64Array",
    "int32": "Int32Array",
    "bool": "Uint8Array",
}
_WORK = {dtype: f"all_{short}" for dtype, short in WORK.items()}  # typed arrays that all functions use
KEYWORDS = words(
    """
    arguments await break case catch class const continue debugger default delete do else enum eval export extends false
    finally for function if implements import in instanceof interface let new null package private protected public return
    static super switch this throw true try typeof undefined var void while with yield out fail check
    all_f64 all_f32 all_i64 all_i32 all_b8
    Math Error TypeError RangeError Float64Array Float32Array Int32Array Uint8Array NaN Infinity
    """
)
_LARGEST = 2**53
_LONGEST = 2**31  # of an array: its indices are integers of 32 bits
_OWN = re.compile(
    rf"{OWN_NAMES}|half|rint|power|expit|logaddexp2?|growth|small|exp_of_square|erfc?|errors|exponential|hyperbolic_tangent|(powers|roots)_of_two"
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
        where = Path(path)
        if where.suffix not in (".js", ".mjs"):
            raise ArgumentError(f"path of export.javascript ends in .js or .mjs, got {os.fspath(path)!r}")
        where.write_text(result.source, encoding="utf-8")
        where.with_suffix(".d.mts" if where.suffix == ".mjs" else ".d.ts").write_text(result.declarations, encoding="utf-8")
    return result


def write(made: Sequence[Part]) -> Source:
    """The module and the declarations of some parts."""
    for part in made:
        if part.name in KEYWORDS or _OWN.fullmatch(part.name):
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
        arrays = [f"{n}: {t}" for n, t, y in zip(made, results, part.made, strict=True) if y.shape]
        out = "{ " + "; ".join(arrays) + " }" if arrays else ""
    parameters += [f"out?: {out}"] * bool(out)
    return f"/** {part.summary} */\nexport function {part.name}({', '.join(parameters)}): {result};"


def _type(t: Any, typed: dict[str, str]) -> str:
    return typed[t.dtype.name] if t.shape else "boolean" if t.dtype.kind == "b" else "number"


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
            writer.places[buffer] = writer.reserve(t.dtype, buffer.size) if buffer in copied else Place(name)
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
        writer.places[buffer] = writer.reserve(t.dtype, buffer.size) if buffer in copied else Place(name)
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


class JavaScript(Spelling):
    """JavaScript. Memory is a typed array and an offset."""

    equal, unequal = "===", "!=="
    copies = places_rows = True

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[Dtype, int]] = []  # of the constants

    def literal(self, value: Any, dtype: Dtype) -> str:
        if dtype.kind == "b":
            return "true" if value else "false"
        if dtype.kind == "i":
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
        if dtype.itemsize < 8:
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

    def element(self, place: Place, index: str, dtype: Dtype) -> str:
        read = self.target(place, index)
        return f"({read} !== 0)" if dtype.kind == "b" else read

    def target(self, place: Place, index: str) -> str:
        at = self.sum_of([place.at, index])
        return f"{place.array}[{self.whole(at)}]"

    def whole(self, index: str) -> str:
        return index if index.isidentifier() or index.isdigit() else f"{index} | 0"

    def times(self, index: str, stride: int) -> str:
        return index if stride == 1 else f"Math.imul({index}, {stride})"

    def parameter(self, name: str, dtype: Dtype, constant: bool, given: Place | None = None) -> tuple[str, Place]:
        shared = _WORK[dtype.name]  # V8 knows the length of this array, and where it is
        return name, Place(shared, name) if given is None or given.array == shared else Place(name)

    def argument(self, place: Place) -> str:
        return f"{place.array}, {place.at}"

    def buffer(self, place: Place) -> str:
        return place.at if place.array in _WORK.values() else place.array

    def pointer(self, name: str, place: Place, dtype: Dtype, constant: bool) -> tuple[str, Place]:
        return f"let {name} = {place.at};", Place(place.array, name)

    def assign(self, target: Place, source: Place) -> str:
        return f"{target.at} = {source.at};"

    def as_index(self, value: str) -> str:
        return value

    def operation(self, name: str, args: Sequence[str], source: Dtype, result: Dtype) -> str:
        text = self.expression(name, args, source, result)
        exact = name in ("neg", "abs", "select", "maximum", "minimum", "floor", "ceil", "trunc", "rint")
        return f"Math.fround({text})" if result == np.float32 and not exact else text

    def calls(self, operation: str) -> int:
        name = _OURS.get(operation, operation)
        return (name in _HELPERS) + len(_NEEDS.get(name, ()))

    def expression(self, name: str, args: Sequence[str], source: Dtype, result: Dtype) -> str:
        a, b = args[0], args[-1]
        if source == np.int32 and name in ("add", "sub", "mul", "neg", "abs"):
            if name == "mul":
                return f"Math.imul({a}, {b})"
            plain = {"add": f"{a} + {b}", "sub": f"{a} - {b}", "neg": f"-{a}", "abs": f"Math.abs({a})"}[name]
            return f"({plain} | 0)"
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
        name = _OURS.get(name, name)
        if name in _HELPERS:
            for needed in (*_NEEDS.get(name, ()), name):
                self.helper(needed, _HELPERS[needed])
            return f"{name}({', '.join(args)})"
        return f"Math.{MATH.get(name, name)}({', '.join(args)})"

    def bits(self, name: str, args: Sequence[str], dtype: Dtype) -> str:
        """Operations on the bits of integers: of 64 bits as a BigInt. A shift by all bits or more leaves the sign, or nothing."""
        last = 8 * dtype.itemsize - 1
        if name in ("bits.left", "bits.right"):
            inside = f"{args[1]} >= 0 && {args[1]} <= {last}"
            args = [args[0], f"({inside} ? {args[1]} : {last})"]
        sign = _BITS[name]
        if dtype.itemsize == 4:
            value = f"({sign}{args[0]})" if len(args) == 1 else f"({args[0]} {sign} {args[1]})"
        else:
            big = [f"BigInt({a})" for a in args]
            whole = f"{sign}{big[0]}" if len(big) == 1 else f"{big[0]} {sign} {big[1]}"
            value = f"Number(BigInt.asIntN(64, {whole}))"
        return f"({inside} ? {value} : 0)" if name == "bits.left" else value

    def cast(self, x: str, source: Dtype, result: Dtype) -> str:
        if source.kind == "b":
            return f"({x} ? 1 : 0)"
        if source.kind == "f" and result.kind == "i":
            least = -(2 ** (8 * result.itemsize - 1))  # a power of two, so exact
            zero = " + 0"  # not -0
            return f"({x} >= {least} && {x} < {-least} ? Math.trunc({x}){zero} : {least})"
        return f"({x} | 0)" if result == np.int32 else x

    def function(
        self, what: str, parameters: Sequence[str], body: Sequence[str], fails: bool = False, uses_work: bool = False
    ) -> str:
        text = "\n".join(body)
        return self.shared(what, lambda name: f"function {name}({', '.join(parameters)}) {{\n{text}\n}}")

    def constant(self, data: np.ndarray[Any, Any]) -> Place:
        name = f"c{len(self.constants)}"
        numbers = ", ".join(self.literal(x, data.dtype).strip("()") for x in data.ravel().tolist())
        if data.dtype.kind == "b":
            numbers = ", ".join(str(int(x)) for x in data.ravel())
        shared = _WORK[data.dtype.name]
        self.constants.append(f"{shared}.set([{numbers}], {name});")
        self.sizes.append((data.dtype, data.size))
        return Place(shared, name)

    def placed_constants(self, bodies: Sequence[str], work: Work) -> list[str]:
        """The constants that functions read: offsets in the work array, behind the intermediate arrays, and their numbers."""
        made = []
        for text in self.used_constants(bodies):
            i = self.constants.index(text)
            dtype, size = self.sizes[i]
            at = work.sizes[dtype]
            work.need(dtype, at + size)
            made.append(f"const c{i} = {at};\n{text}")
        return made

    def work(self, dtype: Dtype, offset: int) -> Place:
        return Place(_WORK[dtype.name], str(offset))

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
    "quotient": "({1} === 0 ? 0 : ({0} - {0} % {1}) / {1} + 0)",
}


def _series(variable: str, numbers: Sequence[float]) -> str:
    """A polynomial by Horner's rule, the coefficient of the lowest power first."""
    text = repr(float(numbers[-1]))
    for number in reversed(numbers[:-1]):
        text = f"({text}) * {variable} + {float(number)!r}"
    return text


def _polynomial(numbers: Sequence[float]) -> str:
    """A polynomial in t as four in q = t^4, which do not wait for each other; w = t^2."""
    first, second, third, fourth = (_series("q", numbers[i::4]) for i in range(4))
    return f"{first} + t * ({second}) +\n    w * ({third} + t * ({fourth}))"


def _table(numbers: Sequence[float]) -> str:
    rows = [", ".join(map(repr, numbers[i : i + 6])) for i in range(0, len(numbers), 6)]
    return ",\n  ".join(rows)


_HELPERS = {
    "exponential": f"""\
const powers_of_two = new Float64Array(2046);
for (let k = 0, power = 2.2250738585072014e-308; k < 2046; ++k, power *= 2) powers_of_two[k] = power;

const roots_of_two = new Float64Array([
  {_table([float(Decimal(2) ** (Decimal(j) / 64)) for j in range(64)])}
]);

function exponential(x) {{  // x = (64 k + j) ln(2)/64 + r; to 1.3 units in the last place
  if (!(x > -708 && x < 709)) return Math.exp(x);
  const n = x * 92.33248261689366 + 6755399441055744 - 6755399441055744, i = n | 0;
  const r = x - n * 0.010830424696223417 - n * 2.572804622327669e-14;
  const t = roots_of_two[i & 63];
  const p = r + r * r * (0.5 + r * (0.16666666666666666 + r * (0.041666666666666664 + r * 0.008333333333333333)));
  return (t + t * p) * powers_of_two[(i >> 6) + 1022];
}}""",
    "hyperbolic_tangent": """\
function hyperbolic_tangent(x) {
  const a = Math.abs(x);
  if (a < 0.55) {  // Lambert's continued fraction
    const s = x * x;
    const top = 34459425 + s * (4729725 + s * (135135 + s * (990 + s)));
    return x * (top / (34459425 + s * (16216200 + s * (945945 + s * (13860 + s * 45)))));
  }
  if (!(a < 20)) return x < 0 ? -1 : x > 0 ? 1 : x;
  return x / a * (1 - 2 / (exponential(2 * a) + 1));  // x / a is the sign: no branch, which processors would mispredict
}""",
    "rint": """\
function rint(x) {
  if (Math.abs(x) >= 4503599627370496 || x !== x) return x;
  const shifter = x < 0 ? -4503599627370496 : 4503599627370496;
  const y = x + shifter - shifter;
  return y === 0 ? (x < 0 || 1 / x < 0 ? -0 : 0) : y;
}""",
    "power": """\
function power(x, y) {
  return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.pow(x, y);
}""",
    "expit": """\
function expit(x) {
  return x < -700 ? exponential(x) : 1 / (1 + exponential(-x));
}""",
    "logaddexp": """\
function logaddexp(a, b) {
  if (a === b) return a + Math.LN2;
  if (a !== a || b !== b) return NaN;
  return a > b ? a + Math.log1p(exponential(b - a)) : b + Math.log1p(exponential(a - b));
}""",
    "logaddexp2": """\
function logaddexp2(a, b) {
  if (a === b) return a + 1;
  if (a !== a || b !== b) return NaN;
  return (a > b ? a : b) + Math.log1p(Math.pow(2, -Math.abs(a - b))) * Math.LOG2E;
}""",
    "growth": f"""\
function growth(a) {{  // (1 + 2 a) exp(a^2) erfc(a)
  const t = (a - 3.75) / (a + 3.75), w = t * t, q = w * w;
  return 1.25 + ({_polynomial(coefficients.ERFCX_64)});
}}""",
    "small": f"""\
function small(a) {{  // erf(a) - a, for |a| <= 1
  const t = a * a, w = t * t, q = w * w;
  return a * ({_polynomial(coefficients.ERF_64)});
}}""",
    "erf": """\
function erf(x) {
  const a = Math.abs(x);
  if (a <= 1 || a !== a) return x + small(x);
  if (a > 6.5) return x < 0 ? -1 : 1;
  return x / a * (1 - exponential(-a * a) * growth(a) / (1 + 2 * a));  // x / a is the sign
}""",
    "exp_of_square": """\
function exp_of_square(a) {  // exp(-a^2), of the square without its rounding error
  const high = Math.fround(a);
  return exponential(-high * high) * exponential(-(a - high) * (a + high));
}""",
    "erfc": """\
function erfc(x) {
  const a = Math.abs(x);
  if (a < 0.5 || a !== a) return 1 - x - small(x);
  const y = a > 28 ? 0 : exp_of_square(a) * growth(a) / (1 + 2 * a);
  return x < 0 ? 2 - y : y;
}""",
}
_ERROR = ("growth", "small", "exponential")
_NEEDS = {"erf": _ERROR, "erfc": (*_ERROR, "exp_of_square")}
_NEEDS |= dict.fromkeys(("expit", "logaddexp", "hyperbolic_tangent"), ("exponential",))
#: Functions that V8 has slow ones for.
_OURS = {"exp": "exponential", "tanh": "hyperbolic_tangent"}

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
