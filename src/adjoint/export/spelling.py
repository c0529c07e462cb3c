"""How a language with braces spells scalar code: what C and JavaScript share, and where they differ.

Memory is an array and an offset into it (`Pointer`). C adds the two; in JavaScript, where a typed array has no address, a
function is given the offset, and the array too unless it is that of all intermediate arrays.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compiler.lower.kernel import STARTS, Dtype
from .template import Template

BOOL = np.dtype(bool)
#: Names of variables, functions and constants in exported code, which arguments must not have.
OWN_NAMES = (
    r"(i|n|c|from|to|next|done|status|kernel|body|product|triangular|solve|factors|inverse|cholesky(_pullback)?|is_symmetric|"
    r"cum(sum|prod)|running_(max|min)|recurrence|arg(sort|max|min)|search|put|last_write|eigen|singular|reflectors|orthogonal|"
    r"transform|convolve|permutation|fourier)\d+"
)
COMPARISONS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
#: Operations that both languages write alike.
RULES = {
    "div": "({0} / {1})",
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "not": "(!{0})",
    "select": "({0} ? {1} : {2})",
}
#: Names of functions in C and JavaScript that differ from ours.
MATH = {f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")}
#: Parts of the work array.
WORK = {"float64": "f64", "float32": "f32", "bool": "b8"}
WORK |= {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def filled(template: str, meanings: dict[str, str]) -> str:
    """A template with the words of one language."""
    return re.sub(rf"\b({'|'.join(meanings)})\b", lambda found: meanings[found[1]], template)


def renamed(names: Sequence[str], is_taken: Callable[[str], object]) -> list[str]:
    """Names with an underscore where they are taken, all different. No name that ends in one is taken."""
    made: list[str] = []
    for name in names:
        while name in made or (not name.endswith("_") and is_taken(name)):
            name += "_"
        made.append(name)
    return made


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a buffer begins: an array, and an offset in elements."""

    array: str
    at: str = "0"

    def moved(self, by: str | int) -> Pointer:
        if str(by) == "0":
            return self
        return Pointer(self.array, str(by) if self.at == "0" else f"{self.at} + {by}")


@dataclass(slots=True)
class IndentedText:
    """Lines, indented by the depth of their block."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def add(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def open(self, line: str) -> None:
        self.add(f"{line} {{" if line else "{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.add("}")


class Language(ABC):
    """The words of one language. Expressions that are not a single word stand in parentheses."""

    equal, unequal = "==", "!="
    work_argument: Sequence[str] = ()  # how a body is given the work array
    blas = False  # products and triangular systems through CBLAS
    lapack = False  # other matrix routines through LAPACKE
    tile: tuple[int, int] | None = None  # rows and bytes of a row of a product's tile, if it is made of vectors
    tall = 0  # rows of a tile where AVX-512 has 32 registers; 0 if the language cannot ask
    lanes = 1  # running totals of a long sum, which the language's compilers turn into one vector
    copies = False  # whether innermost loops are unrolled here, since the language's compilers do not
    places_rows = False  # whether the place of a row is computed before the loop over its elements, for the same reason

    def __init__(self) -> None:
        self.helpers: dict[str, str] = {}  # functions that the code calls, by name
        self.functions: dict[str, str] = {}  # functions of the program: name by text
        self.constants: list[str] = []  # definitions of constant arrays

    # -- what differs --

    @abstractmethod
    def literal(self, value: Any, dtype: Dtype) -> str: ...

    @abstractmethod
    def let(self, name: str, dtype: Dtype, value: str) -> str:
        """The definition of a value that does not change."""

    @abstractmethod
    def variable(self, name: str, dtype: Dtype, value: str) -> str: ...

    @abstractmethod
    def index(self, name: str, value: str, fixed: bool = True) -> str:
        """The definition of a number that counts elements."""

    @abstractmethod
    def index_parameter(self, name: str) -> str: ...

    @abstractmethod
    def loop(self, index: str, start: str, stop: str, step: int = 1) -> str:
        """The head of a counted loop."""

    @abstractmethod
    def element(self, place: Pointer, index: str, dtype: Dtype) -> str:
        """An element of an array, to be read."""

    @abstractmethod
    def target(self, place: Pointer, index: str) -> str:
        """An element of an array, to be written."""

    @abstractmethod
    def parameter(self, name: str, dtype: Dtype, constant: bool, given: Pointer | None = None) -> tuple[str, Pointer]:
        """A parameter that is a buffer, and its place inside the function; `given` is a place that it is called with."""

    @abstractmethod
    def argument(self, place: Pointer) -> str:
        """How a place is passed to a matrix routine."""

    @abstractmethod
    def pointer(self, name: str, place: Pointer, dtype: Dtype, constant: bool) -> tuple[str, Pointer]:
        """The definition of a variable that holds a place."""

    @abstractmethod
    def assign(self, target: Pointer, source: Pointer) -> str:
        """A new place for a variable that holds one."""

    @abstractmethod
    def as_index(self, value: str) -> str: ...

    @abstractmethod
    def operation(self, name: str, args: Sequence[str], source: Dtype, result: Dtype) -> str: ...

    @abstractmethod
    def function(
        self, what: str, parameters: Sequence[str], body: Sequence[str], fails: bool = False, uses_work: bool = False
    ) -> str:
        """The name of a function; functions of equal text are shared. One that `fails` returns a status."""

    @abstractmethod
    def constant(self, data: np.ndarray[Any, Any]) -> Pointer: ...

    @abstractmethod
    def work(self, dtype: Dtype, offset: int) -> Pointer: ...

    @abstractmethod
    def routine(self, name: str, template: Template, dtype: Dtype) -> str:
        """The name of a routine for one matrix, from the template that all languages share."""

    # -- what does not --

    def buffer(self, place: Pointer) -> str:
        """How a buffer is passed to a kernel or a body."""
        return self.argument(place)

    def calls(self, operation: str) -> int:
        """How many of the program's own functions an operation calls."""
        return 0

    def times(self, index: str, stride: int) -> str:
        """An index times a number."""
        return index if stride == 1 else f"{index} * {stride}"

    def whole(self, index: str) -> str:
        """An index, marked as an integer where the language has other numbers."""
        return index

    def sum_of(self, parts: Sequence[str]) -> str:
        """A sum of indices."""
        return " + ".join(part for part in parts if part != "0") or "0"

    def start_of(self, how: str, dtype: Dtype) -> str:
        if how in ("max", "min") and dtype.kind in "iu":
            return self.extreme(how, dtype)
        return self.literal(STARTS[how], dtype)

    def extreme(self, how: str, dtype: Dtype) -> str:
        """The integer that no other one is below, for a maximum, or above."""
        limits = np.iinfo(dtype)
        return self.literal(limits.min if how == "max" else limits.max, dtype)

    def array(self, name: str, dtype: Dtype, size: int, value: str) -> str:
        """A variable that is a small array, of one number; for a language with lanes."""
        return self.variable(f"{name}[{size}]", dtype, "{" + ", ".join([value] * size) + "}")

    def halving(self, name: str, start: int) -> str:
        """The head of a loop over start, start / 2, …, 1; for a language with lanes."""
        return f"for (ptrdiff_t {name} = {start}; {name} > 0; {name} /= 2)"

    def combine(self, how: str, dtype: Dtype, total: str, value: str) -> str:
        """Two parts of a reduction as one."""
        if how in ("any", "all"):
            return f"({total} {'||' if how == 'any' else '&&'} {value})"
        words = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
        return self.operation(words[how], [total, value], dtype, dtype)

    def copy(self, text: IndentedText, source: Pointer, target: Pointer, size: int, dtype: Dtype) -> None:
        """Copy elements, in a loop."""
        if not size:
            return
        if size == 1:
            text.add(f"{self.target(target, '0')} = {self.element(source, '0', dtype)};")
            return
        text.open(self.loop("i", "0", str(size)))
        text.add(f"{self.target(target, 'i')} = {self.element(source, 'i', dtype)};")
        text.close()

    def helper(self, name: str, text: str) -> str:
        self.helpers.setdefault(name, text)
        return name

    def shared(self, what: str, text: Callable[[str], str]) -> str:
        """The name of a function, made by `text` from its name; one of equal text is used again."""
        key = text("NAME")
        if key not in self.functions:
            self.functions[key] = f"{what}{len(self.functions) + 1}"
        return self.functions[key]

    def used_constants(self, bodies: Sequence[str]) -> list[str]:
        """The definitions of constants that functions read; one without elements is not."""
        words = set(re.findall(r"\bc\d+\b", "\n".join([*self.functions, *bodies])))
        return [text for i, text in enumerate(self.constants) if f"c{i}" in words]

    def definitions(self) -> list[str]:
        """The functions of the program, in an order in which each is defined before it is called."""
        return [text.replace("NAME", name, 1) for text, name in self.functions.items()]
