"""A function and its derivatives as the source of JAX functions.

    def energy(x):
        x = jnp.asarray(x, "float64")
        v1 = jnp.sin(x)  # model.py:3
        v2 = v1 * x
        v3 = jnp.sum(v2, axis=(0,), keepdims=False)
        return v3

JAX can compile, batch and differentiate what is written. Each op is an expression of `TABLE`, or is made of other ops
(`normal.py`). Conversions are explicit, since JAX promotes otherwise than NumPy. Loops and branches are those of `jax.lax`.
"""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ..core.boundary import boundary
from ..core.op import Op
from ..core.types import Type
from ..ir.graph import Equation, Graph, Literal, Operand
from ..ops import (
    bessel,
    broadcast,
    control,
    decompose,
    determinant,
    distribution,
    fft,
    gamma,
    hypergeometric,
    index,
    integer,
    linalg,
    matrix_functions,
    pseudo,
    reduce,
    shape,
    shift,
    solve,
    sort,
    special,
)
from ..ops import elementwise as ew
from ..view.python_text import array, as_declared, number, parameter, subscript
from .normal import (
    COMPLEX,
    EVERY,
    INEXACT,
    NUMBERS,
    REALS,
    TRUTHS,
    WHOLE,
    WITH_HALVES,
    Call,
    Dtype,
    LanguageOps,
    Spelling,
    has_elements,
    normal,
)
from .program import Part, parts, write
from .spelling import renamed


def _text(template: str | Callable[[Call], str], dtypes: frozenset[Dtype] = EVERY, by: int = -1, fits: Any = None) -> Spelling:
    """A template, in which {0}, {1}, … and {axis}, … stand for operands and parameters, or a function that gives the text."""

    def written(call: Call) -> str:
        assert isinstance(template, str)
        texts = {key: parameter(value) for key, value in call.equation.params.items() if f"{{{key}}}" in template}
        return template.format(*call.args, all=", ".join(call.args), **texts)

    write_ = template if callable(template) else written
    return Spelling(write_, dtypes, by) if fits is None else Spelling(write_, dtypes, by, fits)


def _alike(names: str, dtypes: frozenset[Dtype] = EVERY, module: Any = ew, by: int = -1, fits: Any = None) -> dict[Op, Spelling]:
    """Ops that JAX spells as NumPy or SciPy does. The spelling comes from their declarations."""

    def written(call: Call) -> str:
        text = as_declared(call.equation.op, call.args, call.equation.params)
        assert text, call.equation.op
        return _in_jax(text)

    return {getattr(module, name): _text(written, dtypes, by, fits) for name in names.split()}


def _in_jax(text: str) -> str:
    """Python source with JAX's modules in the place of NumPy's and SciPy's."""
    return re.sub(r"(?<![\w.])special\.", f"{_SPECIAL}.", re.sub(r"\bnp\.", "jnp.", text))


def _at(c: Call, first: int) -> str:
    """Integer arrays as an index. JAX compares an index with the length of the axis, in the dtype of the index."""
    wide = [t.dtype.itemsize >= 4 for t in c.types[first:]]
    arrays = [text if is_wide else f'{text}.astype("int32")' for text, is_wide in zip(c.args[first:], wide, strict=True)]
    return ", ".join([*[":"] * c.axis, *arrays]) + ("," if not c.axis and len(arrays) == 1 else "")


def _zeros(shape_: Any, dtype: Dtype) -> str:
    return f'jnp.zeros({shape_}, "{dtype.name}")'


def _place(c: Call) -> str:
    return f"{_zeros(c.equation.params['shape'], c.types[0].dtype)}.at[{subscript(c.spec)}].set({c.args[0]})"


def _scatter_add(c: Call) -> str:
    return f"{_zeros(c.equation.params['shape'], c.types[0].dtype)}.at[{_at(c, 1)}].add({c.args[0]})"


def _fft(c: Call) -> str:
    if not c.axes:
        return f'{c.args[0]}.astype("{c.equation.types[0].dtype.name}")'
    name = "ifft" if c.inverse else "fft"
    where = f"axis={c.axes[0]}" if len(c.axes) == 1 else f"axes={c.axes}"
    return f"jnp.fft.{name}{'n' if len(c.axes) != 1 else ''}({c.args[0]}, {where}, norm={c.equation.params['norm']!r})"


def _cast(c: Call) -> str:
    dtype = c.equation.params["dtype"]
    x = f"jnp.real({c.args[0]})" if c.types[0].dtype.kind == "c" and dtype.kind not in "cb" else c.args[0]
    return f'jnp.asarray({x}).astype("{dtype.name}")'


def _owens_t(c: Call) -> str:
    h, a = c.args
    value = f'{_SPECIAL}.owens_t({h}, {a}).astype("{c.equation.types[0].dtype.name}")'  # JAX's is a float64
    return f"jnp.where(({h} == 0) & jnp.isinf({a}), jnp.copysign(0.25, {a}), {value})"


def _of_shapes(template: str, at_infinity: str) -> str:
    """An incomplete gamma function, with its values for an infinite shape, where JAX's are others."""
    inside = template.replace("{of}", _SPECIAL)
    ends = f"jnp.where({{1}} == jnp.inf, jnp.nan, {at_infinity})"
    return f"jnp.where(({{0}} == jnp.inf) & ({{1}} >= 0), {ends}, {inside})"


def _stacked_alike(types: Sequence[Type], params: Any) -> bool:
    return has_elements(types, params) and types[0].shape[:-2] == types[1].shape[:-2]


_SPECIAL = "jax.scipy.special"
_ORDERED = EVERY - COMPLEX
_DIVIDED = "jnp.where({1} == 0, 0, {0} // jnp.where({1} == 0, 1, {1}))"

#: The ops that are one expression, with their dtypes; other ops are expanded into these.
TABLE: dict[Op, Spelling] = {
    **_alike("sqrt exp expm1 log log1p sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh div", INEXACT),
    **_alike("exp2 log2 log10 cbrt logaddexp logaddexp2 arctan2 hypot sinc nextafter copysign fmod rint floor ceil", REALS),
    **_alike("trunc signbit isnan isinf isfinite mantissa exponent rounded", REALS),
    **_alike("add sub mul neg square absolute power", NUMBERS),
    **_alike("sign", NUMBERS - COMPLEX),
    **_alike("equal not_equal"),
    **_alike("maximum minimum less less_equal greater greater_equal", _ORDERED),
    **_alike("bitwise_and bitwise_or bitwise_xor", WHOLE | TRUTHS),
    **_alike("ldexp", REALS, by=0),
    **_alike("gcd lcm left_shift right_shift bitwise_count", WHOLE, integer),
    **_alike("erf erfc erfinv log_ndtr ndtri dawsn erfcx", REALS, special),
    **_alike("wofz", INEXACT, special),
    **_alike("gamma", REALS, gamma),  # betaln, beta and poch of JAX have an error of 3e-7
    **_alike("loggamma", COMPLEX, gamma),
    **_alike("betainc", REALS, distribution),
    **_alike("spence fresnel sici", REALS, hypergeometric),
    **_alike("i0 i0e i1 i1e", REALS, bessel),
    **_alike("real imag conj", COMPLEX, broadcast),
    **_alike("reshape transpose broadcast_to", EVERY, broadcast),
    **_alike("sum_", NUMBERS, broadcast),
    **_alike("prod cumsum cumprod", NUMBERS, reduce),
    **_alike("max_ min_ argmax argmin", _ORDERED, reduce),
    **_alike("all_ any_", TRUTHS, reduce),
    **_alike("take_along", EVERY, sort, by=0),
    **_alike("concatenate stack", EVERY, shape),
    **_alike("roll", EVERY, shift),
    **_alike("det", INEXACT, determinant),
    **_alike("rfft", REALS, fft, fits=has_elements),
    **_alike("irfft", INEXACT, fft, fits=has_elements),
    ew.floor_divide: _text(_DIVIDED, WHOLE),
    ew.expit: _text("jax.nn.sigmoid({0})", REALS),
    ew.logical_and: _text("{0} & {1}", TRUTHS),
    ew.logical_or: _text("{0} | {1}", TRUTHS),
    ew.logical_xor: _text("{0} ^ {1}", TRUTHS),
    ew.logical_not: _text("~{0}", TRUTHS),
    ew.invert: _text("~{0}", WHOLE | TRUTHS),
    gamma.gammasgn: _text(f"{_SPECIAL}.gammasgn({{0}})", REALS),
    gamma.psi: _text(f"jnp.where({{0}} == 0, -jnp.copysign(jnp.inf, {{0}}), {_SPECIAL}.digamma({{0}}))", REALS),  # a pole
    gamma.gammaln: _text(f"jnp.where({{0}} == -jnp.inf, -jnp.inf, {_SPECIAL}.gammaln({{0}}))", REALS),
    distribution.gammainc: _text(_of_shapes("jnp.where(({0} == 0) & ({1} > 0), 1.0, {of}.gammainc({all}))", "0.0"), REALS),
    distribution.gammaincc: _text(_of_shapes("{of}.gammaincc({all})", "1.0"), REALS),
    hypergeometric.exp1: _text(f"jnp.where({{0}} == jnp.inf, 0.0, {_SPECIAL}.exp1({{0}}))", REALS),
    hypergeometric.expi: _text(
        f"jnp.where(jnp.isinf({{0}}), jnp.maximum({{0}}, 0.0), jnp.where({{0}} == 0, -jnp.inf, {_SPECIAL}.expi({{0}})))", REALS
    ),
    special.owens_t: _text(_owens_t, REALS),
    special.logsumexp: _text(f"{_SPECIAL}.logsumexp({{0}}, axis={{axis}})", REALS),
    broadcast.where: _text("jnp.where({0}, {1}, {2})"),
    broadcast.cast: _text(_cast, WITH_HALVES),
    ew.truncate: _text(_cast),
    ew.stop_gradient: _text("lax.stop_gradient({0})"),
    reduce.argsort: _text("jnp.argsort({0}, axis={axis}, stable=True)", _ORDERED),
    index.getitem: _text(lambda c: f"{c.args[0]}[{subscript(c.spec)}]"),
    index.place: _text(_place),
    index.put: _text(lambda c: f"{c.args[0]}.at[{subscript(c.spec)}].set({c.args[1]})"),
    index.gather: _text(lambda c: f"{c.args[0]}[{_at(c, 1)}]", by=0),
    index.scatter_add: _text(_scatter_add, NUMBERS, by=0),
    linalg.matmul: _text('jnp.matmul({0}, {1}, precision="highest")', NUMBERS),
    linalg.einsum: _text(
        lambda c: f'jnp.einsum("{",".join(c.inputs)}->{c.output}", {", ".join(c.args)}, precision="highest")', NUMBERS
    ),
    decompose.cholesky: _text("lax.linalg.cholesky({0}, symmetrize_input=False)", INEXACT),
    decompose.qr: _text(lambda c: f'tuple(jnp.linalg.qr({c.args[0]}, "{"complete" if c.complete else "reduced"}"))', INEXACT),
    decompose.eigh: _text(
        lambda c: f'tuple(jnp.linalg.eigh({c.args[0]}, "{"L" if c.lower else "U"}", symmetrize_input=False))', INEXACT
    ),
    decompose.svd: _text(lambda c: f"tuple(jnp.linalg.svd({c.args[0]}, full_matrices={c.full}))", INEXACT),
    decompose.eig: _text("tuple(jnp.linalg.eig({0}))", INEXACT),
    determinant.slogdet: _text("tuple(jnp.linalg.slogdet({0}))", INEXACT),
    solve.solve: _text("jnp.linalg.solve({0}, {1})", INEXACT, fits=_stacked_alike),
    solve.triangular_solve: _text(
        "jax.scipy.linalg.solve_triangular({0}, {1}, lower={lower}, trans=int({transposed}))", INEXACT, fits=_stacked_alike
    ),
    pseudo.pinv: _text("jnp.linalg.pinv({0}, rtol={rcond})", INEXACT),
    matrix_functions.sylvester: _text("jax.scipy.linalg.solve_sylvester({all})", REALS),
    matrix_functions.lu: _text("tuple(jax.scipy.linalg.lu_factor({0}))", INEXACT),
    matrix_functions.expm: _text("jax.scipy.linalg.expm({0})", INEXACT, fits=has_elements),
    fft.fft: _text(_fft, INEXACT, fits=has_elements),
}


#: Functions that JAX has, without the accuracy of the others.
_INACCURATE = "for some arguments below -1 no digit of JAX's own function is correct"
_REFUSED: dict[Op, str] = {
    hypergeometric.hyp1f1: _INACCURATE,
    hypergeometric.hyp2f1: f"{_INACCURATE}, and at infinity it does not return",
}
TARGET = LanguageOps("a JAX function", WITH_HALVES, TABLE, _REFUSED)

# -- graphs -----------------------------------------------------------------------------------------------------


_USED = frozenset({"jax", "jnp", "lax", "tuple", "int", "complex", "bytes"})  # names that the text uses


def _words(names: Iterable[str], reserved: Collection[str]) -> list[str]:
    """Names that Python accepts, all different. A constant is c0, c1, …"""
    return renamed(list(names), lambda name: keyword.iskeyword(name) or name in reserved or re.fullmatch(r"c\d+", name))


class _Function:
    """Writes one function; values are named once, over all nested functions."""

    def __init__(self, part: Part, name: str, constants: dict[Literal, str], reserved: set[str]) -> None:
        self.name, self.constants = name, constants
        self.graph = normal(part.graph, TARGET)
        self.count = 0
        self.reserved = reserved

    def fresh(self, letter: str = "v") -> str:
        while True:
            self.count += 1
            word = f"{letter}{self.count}"
            if word not in self.reserved:
                return word

    def text(self) -> str:
        words = _words(self.graph.input_names, self.reserved)
        self.reserved = self.reserved | set(words)
        body = [f'{w} = jnp.asarray({w}, "{t.dtype.name}")' for w, t in zip(words, self.graph.input_types, strict=True)]
        lines, results = self.block(self.graph, words)
        body += [*lines, f"return {', '.join(results)}"]
        return f"def {self.name}({', '.join(words)}):\n" + "".join(f"    {line}\n" for line in body)

    def block(self, graph: Graph, inputs: Sequence[str]) -> tuple[list[str], list[str]]:
        """The lines of a graph, and the texts of its results."""
        names, types = dict(enumerate(inputs)), graph.types
        lines: list[str] = []
        for equation in graph.equations:
            given = [o.type if isinstance(o, Literal) else types[o] for o in equation.inputs]
            args = [self.operand(o, names, equation, given) for o in equation.inputs]
            call = Call(equation, args, given)
            results = [self.fresh() for _ in equation.outputs]
            names.update(zip(equation.outputs, results, strict=True))
            if equation.op in _STRUCTURED:
                written = _STRUCTURED[equation.op](self, call, results)
            else:
                comma = "," if equation.op.many and len(results) == 1 else ""
                written = [f"{', '.join(results)}{comma} = {TABLE[equation.op].write(call)}"]
            if equation.line:
                written[-1] += f"  # {equation.line}"
            lines += written
        return lines, [names[o] if isinstance(o, int) else self.strong(o) for o in graph.outputs]

    def operand(self, o: Operand, names: dict[int, str], equation: Equation, types: Sequence[Type]) -> str:
        if isinstance(o, int):
            return names[o]
        beside = any(isinstance(p, int) and t.dtype == o.type.dtype for p, t in zip(equation.inputs, types, strict=True))
        if not o.type.shape and beside and equation.op in _WITH_NUMBERS and o.type.dtype.kind in "fi":
            return _in_jax(number(o.value.item()))
        return self.strong(o)

    def strong(self, o: Literal) -> str:
        """A constant with its dtype: a number, or a name for an array."""
        value = np.asarray(o.value)
        if not value.shape:
            text = _in_jax(number(value.item()))
            return f"jnp.{value.dtype.name if value.dtype != bool else 'bool_'}({text})"
        if o not in self.constants:
            self.constants[o] = f"c{len(self.constants)}"
        return self.constants[o]


#: Ops in which JAX gives a Python number the dtype of the other operand.
_WITH_NUMBERS = frozenset({
    ew.add, ew.sub, ew.mul, ew.div, ew.power, ew.maximum, ew.minimum, ew.equal, ew.not_equal, ew.less, ew.less_equal, ew.greater,
    ew.greater_equal, broadcast.where,
})  # fmt: skip


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def _nested(head: str, lines: Sequence[str]) -> list[str]:
    return [head, *(f"    {line}" for line in lines)]


def _unpacked(names: Sequence[str], text: str) -> list[str]:
    return [f"{_tuple(names)} = {text}"] if names else []


def _scan(f: _Function, c: Call, results: Sequence[str]) -> list[str]:
    body, length, carries, consts = (c.equation.params[key] for key in ("body", "length", "carries", "consts"))
    name, carry, row = f.fresh("step"), f.fresh("carry"), f.fresh("row")
    inputs = [f.fresh() for _ in body.input_types[consts:]]
    lines, made = f.block(body, [*c.args[:consts], *inputs])
    inside = [*_unpacked(inputs[:carries], carry), *_unpacked(inputs[carries:], row), *lines]
    inside.append(f"return {_tuple(made[:carries])}, {_tuple(made[carries:])}")
    first, rows = _tuple(c.args[consts : consts + carries]), _tuple(c.args[consts + carries :])
    target = f"{_tuple(results[:carries]) if carries else '_'}, {_tuple(results[carries:]) if results[carries:] else '_'}"
    call = f"{target} = lax.scan({name}, {first}, {rows}, length={length}, reverse={c.reverse})"
    return [*_nested(f"def {name}({carry}, {row}):", inside), call]


def _while(f: _Function, c: Call, results: Sequence[str]) -> list[str]:
    test, body, asked, fixed = (c.equation.params[key] for key in ("cond", "body", "cond_consts", "body_consts"))
    written = []
    names = [f.fresh("test"), f.fresh("step")]
    for name, part, known in ((names[0], test, c.args[:asked]), (names[1], body, c.args[asked : asked + fixed])):
        state, inputs = f.fresh("state"), [f.fresh() for _ in results]
        lines, made = f.block(part, [*known, *inputs])
        end = f"return {made[0] if part is test else _tuple(made)}"
        written += _nested(f"def {name}({state}):", [*_unpacked(inputs, state), *lines, end])
    return [*written, f"{_tuple(results)} = lax.while_loop({names[0]}, {names[1]}, {_tuple(c.args[asked + fixed :])})"]


def _cond(f: _Function, c: Call, results: Sequence[str]) -> list[str]:
    written, names = [], [f.fresh("then"), f.fresh("otherwise")]
    for name, key in zip(names, ("true", "false"), strict=True):
        lines, made = f.block(c.equation.params[key], c.args[1:])
        written += _nested(f"def {name}():", [*lines, f"return {_tuple(made)}"])
    return [*written, f"{_tuple(results)} = lax.cond({c.args[0]}, {names[0]}, {names[1]})"]


_STRUCTURED: dict[Op, Callable[[_Function, Call, Sequence[str]], list[str]]] = {
    control.scan: _scan,
    control.while_: _while,
    control.cond: _cond,
}


def module(found: Sequence[Part]) -> str:
    """The source of several functions."""
    constants: dict[Literal, str] = {}
    names = _words([part.name for part in found], _USED)
    reserved = {*_USED, *names}
    functions = [_Function(part, name, constants, reserved).text() for part, name in zip(found, names, strict=True)]
    everything = "\n".join(functions)
    # NumPy's arrays could not be indexed by values that JAX traces, nor updated.
    arrays = [f"{name} = {array(np.asarray(literal.value)).replace('np.', 'jnp.')}" for literal, name in constants.items()]
    head = ["import jax", "import jax.numpy as jnp"]
    head += ["from jax import lax"] * ("lax." in everything)
    if re.search(r"float64|int64|complex128", everything + "\n".join(arrays)):
        head += ["", 'jax.config.update("jax_enable_x64", True)  # JAX has no 64-bit numbers otherwise']
    head += [""] * bool(arrays) + arrays
    return "\n\n\n".join(["\n".join(head), *[text.rstrip("\n") for text in functions]]) + "\n"


@boundary
def jax(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> str:
    """The source of f, and of the derivatives asked for, as JAX functions of flat arrays; written to `path` if it is given.

    >>> from adjoint import export
    >>> "v1 = x * x" in export.jax(lambda x: x * x, 2.0)
    True
    """
    return write(path, module(parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name)))


__all__ = ["TABLE", "TARGET", "jax", "module"]
