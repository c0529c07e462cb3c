"""Compiled programs as Python functions, called without running Python code.

All share one native entry point, `entry_text()`: it is compiled once, and `bind_entry` makes a function of it for every program.
A call opens containers, checks every argument, allocates the results, calls the program with a table of data pointers, and packs
the results.

Arguments that do not fit are not an error: the call is passed on to `otherwise`, or returns MISS. An argument fits if it is

- an `ndarray` (not a subclass) of the given shape and dtype, in native byte order, aligned and C-contiguous. For other strides
  the caller makes a copy on MISS and calls again;
- for the shape (), also a NumPy scalar of that dtype;
- for a `weak` input, exactly a Python float, int, bool or complex; an int must fit in 64 bits.
"""

from __future__ import annotations

import ctypes
import enum
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.places import Check, Load, Place
from ...core.tree import Structure
from ...core.types import Shape, Type
from . import cpython as py
from .containers import argument_patterns, containers, opens_natively, packs_natively, parts, result_pattern
from .description import GUARD_MISSED, WORD, Apart, Head, InputRecord, ObjectKind, Opening, Output, Packing, ReadRecord
from .entry_code import entry_text
from .memory import LARGE

__all__ = ["ERRORS", "GUARD_MISSED", "MISS", "Input", "bind_entry", "entry_text", "opens_natively", "packs_natively"]


class _Miss(enum.Enum):
    MISS = "the arguments do not fit"


MISS = _Miss.MISS  # returned when the arguments do not fit

Errors = Mapping[int, tuple[type[BaseException], str]]
ERRORS: Errors = {
    1: (IndexError, "index out of bounds"),
    2: (np.linalg.LinAlgError, "a matrix decomposition failed"),
    3: (MemoryError, "no memory for intermediate results"),
    5: (np.linalg.LinAlgError, "Singular matrix"),
    6: (np.linalg.LinAlgError, "Matrix is not positive definite"),
    7: (np.linalg.LinAlgError, "Eigenvalues did not converge"),
    8: (np.linalg.LinAlgError, "SVD did not converge"),
}
_UNKNOWN = (SystemError, "a compiled program ended with an unknown code")
_WEAK = {float: np.float64, int: np.int64, bool: np.bool_, complex: np.complex128}


@dataclass(frozen=True)
class Input:
    """An array or number that a program takes; `weak` is the class of a Python number, or None.

    For a 0-d input, `scalar` is whether it is a NumPy scalar or an array; None accepts both.
    """

    type: Type
    weak: Any = None
    scalar: bool | None = None

    def __post_init__(self) -> None:
        if self.weak is not None and (self.weak not in _WEAK or self.type != Type((), np.dtype(_WEAK[self.weak]))):
            raise ValueError(f"a Python {self.weak.__name__} does not give {self.type}")


def bind_entry(
    entry: int,
    program: int,
    inputs: Sequence[Input],
    outputs: Sequence[Type],
    *,
    arguments: Sequence[Structure] | None = None,
    result: Structure | None = None,
    places: Sequence[Place] = (),
    captured: Sequence[int] = (),
    apart: Sequence[tuple[int, int]] = (),
    env: int = 0,
    keep: object = None,
    release_gil: bool = False,
    otherwise: Callable[..., Any] | None = None,
    errors: Errors = ERRORS,
    memory: Any = None,
    name: str = "compiled",
) -> Callable[..., Any]:
    """A Python function that calls the program at an address through the entry point.

    The program is `i32 (ptr table, ptr env)`. The table points to the data of the inputs, which are read-only, then to the
    uninitialised memory of the outputs. It returns 0, or -1 with a Python exception set, or a code from `errors`, or GUARD_MISSED
    when the arguments fit but their values do not.

    `arguments` are the structures of the positional arguments, whose leaves are the inputs in order; without them, or where they
    are not `opens_natively`, each input is an argument. `result` is the structure of the result; without it, or where it is not
    `packs_natively`, the function gives the flat tuple of its outputs. Results of shape () are NumPy scalars.

    `places` are read and checked at each call; the values of those in `captured` are the last inputs. The inputs of each pair in
    `apart` must not share memory.

    `env` is an address that the program gets. `keep` is kept alive as long as the function: the owners of that memory and of the
    code. Calls that do not fit, and all calls with keywords, go to `otherwise`, or return MISS. `memory` is the capsule of
    NumPy's handler for the memory of large results; see `memory.py`.
    """
    if min(errors, default=1) < 1 or GUARD_MISSED in errors:
        raise ValueError(f"codes of errors are positive and not {GUARD_MISSED}: {sorted(errors)}")
    given = len(inputs) - len(captured)
    _check_count(given, arguments, "inputs")
    _check_count(len(outputs), None if result is None else [result], "outputs")
    patterns = argument_patterns(arguments, given), result_pattern(result, len(outputs))
    description = _Description(inputs, outputs, *patterns, memory, places, captured)
    description.add_errors(errors)
    description.add_apart(inputs, apart)
    description.head |= {Head.PROGRAM: program, Head.ENV: env, Head.RELEASE_GIL: int(release_gil)}
    description.head[Head.OTHERWISE] = 0 if otherwise is None else id(otherwise)
    return _function(entry, name, description, (keep, otherwise))


def _check_count(count: int, structures: Sequence[Structure] | None, what: str) -> None:
    if structures is not None and sum(structure.count for structure in structures) != count:
        raise ValueError(f"{count} {what} for the structure {structures}")


_SHARED = {
    Head.MISS: MISS,
    Head.NONE: None,
    Head.TRUE: True,
    Head.FALSE: False,
    Head.NDARRAY: np.ndarray,
    Head.METHOD: types.MethodType,
    Head.ATTRIBUTE_ERROR: AttributeError,
    Head.EXCEPTION: Exception,
}
_NO_ARRAY = 1 << 31  # an impossible rank
_KINDS = {float: ObjectKind.FLOATING, complex: ObjectKind.FLOATING, bool: ObjectKind.BOOL, int: ObjectKind.INT}
_CONTAINERS = {type(None): ObjectKind.NONE, tuple: ObjectKind.TUPLE, list: ObjectKind.LIST, dict: ObjectKind.DICT}
_WORDS = {float: 1, complex: 2}  # of numbers that are compared bitwise
_NUMBER = 32  # bytes in the frame for a number of any dtype, and its alignment


class _Description:
    """Writes the description of one function for the entry point: see `description`."""

    def __init__(
        self,
        inputs: Sequence[Input],
        outputs: Sequence[Type],
        arguments: Sequence[Any],
        result: Any,
        memory: Any,
        places: Sequence[Place],
        captured: Sequence[int],
    ) -> None:
        self.memory = memory
        self.objects: list[Any] = []  # referenced by the words, so kept alive
        self.words: list[int] = []  # after the head
        self.head: dict[Head, int] = {place: self.refer(value) for place, value in _SHARED.items()}
        opened, packed = list(containers(arguments))[1:], list(containers(result))
        shared = sum(len(pattern) for pattern in opened if isinstance(pattern, (list, dict))) + len(places)

        # The frame: objects, table, owned references, numbers.
        self.reads = WORD * (len(arguments) + sum(len(pattern) for pattern in opened if pattern is not None))
        self.table = self.reads + WORD * len(places)
        self.held = self.table + WORD * (len(inputs) + len(outputs))
        self.free = -(-(self.held + WORD * (shared + len(outputs) + len(packed))) // _NUMBER) * _NUMBER
        self.head |= {Head.TABLE: self.table, Head.HELD: self.held}
        self.head[Head.HELD_COUNT] = shared + len(outputs) + len(packed)
        self.head[Head.HELD_AFTER] = int(shared > 0 or any(isinstance(pattern, dict) for pattern in packed))

        self.add_inputs(inputs, arguments, captured)
        self.add_places(places)
        self.add_outputs(outputs, result)
        self.head[Head.FRAME_SIZE] = self.free

    def refer(self, value: Any) -> int:
        self.objects.append(value)
        return id(value)

    def add(self, words: Sequence[int]) -> int:
        """Append words; returns their offset in the description."""
        place = WORD * (len(Head) + len(self.words))
        self.words += words
        return place

    def add_records(self, count: Head, start: Head, records: Sequence[Mapping[Any, int]]) -> None:
        self.head[count] = len(records)
        self.head[start] = self.add([record[field] for record in records for field in sorted(record)])

    def hold(self, count: int) -> int:
        """A slot in the frame for references."""
        self.held += WORD * count
        return self.held - WORD * count

    def number(self) -> int:
        """A slot in the frame for a number."""
        self.free += _NUMBER
        return self.free - _NUMBER

    def add_inputs(self, inputs: Sequence[Input], arguments: Sequence[Any], captured: Sequence[int]) -> None:
        openings: list[dict[Opening, int]] = []
        given = len(inputs) - len(captured)
        sources: dict[int, int] = {given + i: self.reads + WORD * place for i, place in enumerate(captured)}
        waiting = [(pattern, WORD * i) for i, pattern in enumerate(arguments)]
        target = WORD * len(arguments)
        while waiting:
            pattern, source = waiting.pop()
            if isinstance(pattern, int):
                sources[pattern] = source
                continue
            inner = parts(pattern)
            openings.append(
                {
                    Opening.KIND: _CONTAINERS[type(pattern)],
                    Opening.CLASS: self.refer(type(pattern)),
                    Opening.SOURCE: source,
                    Opening.TARGET: target,
                    Opening.COUNT: len(inner),
                    Opening.HELD: self.hold(len(inner)) if isinstance(pattern, (list, dict)) else 0,
                    Opening.KEYS: self.add([self.refer(key) for key in pattern]) if isinstance(pattern, dict) else 0,
                }
            )
            waiting += [(part, target + WORD * i) for i, part in enumerate(inner)]
            target += WORD * len(inner)
        self.head[Head.ARGUMENT_COUNT] = len(arguments)
        self.add_records(Head.OPENING_COUNT, Head.OPENINGS, openings)
        self.add_records(Head.INPUT_COUNT, Head.INPUTS, [self.input(input, sources[i]) for i, input in enumerate(inputs)])

    def add_places(self, places: Sequence[Place]) -> None:
        def target(place: int) -> int:
            return self.reads + WORD * place

        records = []
        for i, place in enumerate(places):
            expected, count = place.expected, 0
            if place.check is Check.LENGTH:
                expected, count = place.expected
            elif place.check is Check.EQUAL:
                count = _WORDS.get(type(expected), 0)
            records.append(
                {
                    ReadRecord.LOAD: place.load,
                    ReadRecord.CHAINED: int(place.chained),
                    ReadRecord.OWNER: target(place.owner) if place.chained else self.refer(place.owner),
                    ReadRecord.KEY: place.key if place.load in (Load.ITEM, Load.PART) else self.refer(place.key),
                    ReadRecord.CHECK: place.check,
                    ReadRecord.EXPECTED: target(expected) if place.check in (Check.SAME, Check.OTHER) else self.refer(expected),
                    ReadRecord.COUNT: count,
                    ReadRecord.TARGET: target(i),
                    ReadRecord.HELD: self.hold(1),
                }
            )
        self.add_records(Head.READ_COUNT, Head.READS, records)

    def input(self, input: Input, source: int) -> dict[InputRecord, int]:
        shape, dtype = input.type
        numbers = py.type_numbers(dtype)
        return {
            InputRecord.KIND: ObjectKind.ARRAY if input.weak is None else _KINDS[input.weak],
            InputRecord.SOURCE: source,
            InputRecord.CLASS: self.refer(input.weak),
            InputRecord.SLOT: self.number() if input.weak in (int, bool) else 0,
            InputRecord.DTYPE: self.refer(py.canonical(dtype)),
            InputRecord.NUMBERS: numbers[0] | numbers[-1] << 32,
            InputRecord.SCALAR: self.refer(py.canonical(dtype).type) if shape == () and input.scalar is not False else 0,
            InputRecord.NDIM: _NO_ARRAY if input.scalar else len(shape),
            InputRecord.SHAPE: self.add(shape),
        }

    def add_apart(self, inputs: Sequence[Input], pairs: Sequence[tuple[int, int]]) -> None:
        def size(i: int) -> int:
            shape, dtype = inputs[i].type
            return math.prod(shape) * dtype.itemsize

        records = [{Apart.FIRST: i, Apart.FIRST_SIZE: size(i), Apart.SECOND: j, Apart.SECOND_SIZE: size(j)} for i, j in pairs]
        self.add_records(Head.APART_COUNT, Head.APARTS, records)

    def add_outputs(self, outputs: Sequence[Type], result: Any) -> None:
        places = [self.hold(1) for _ in outputs]
        packings: list[dict[Packing, int]] = []

        def pack(pattern: Any) -> int:
            if isinstance(pattern, int):
                return places[pattern]
            inner = [pack(part) for part in parts(pattern)]
            place = self.hold(1)
            packings.append(
                {
                    Packing.KIND: _CONTAINERS[type(pattern)],
                    Packing.COUNT: len(inner),
                    Packing.PARTS: self.add(inner),
                    Packing.KEYS: self.add([self.refer(key) for key in pattern]) if isinstance(pattern, dict) else 0,
                    Packing.HELD: place,
                }
            )
            return place

        self.head[Head.RESULT] = pack(result)
        self.add_records(
            Head.OUTPUT_COUNT,
            Head.OUTPUTS,
            [
                {
                    Output.DTYPE: self.refer(py.canonical(dtype)),
                    Output.NDIM: len(shape),
                    Output.SHAPE: self.add(shape),
                    Output.SLOT: self.number() if shape == () else 0,
                    Output.HELD: place,
                    Output.MEMORY: self.memory_of(shape, dtype),
                }
                for (shape, dtype), place in zip(outputs, places, strict=True)
            ],
        )
        self.add_records(Head.PACKING_COUNT, Head.PACKINGS, packings)

    def memory_of(self, shape: Shape, dtype: np.dtype[Any]) -> int:
        """The handler for the memory of a result, if it is large."""
        return self.refer(self.memory) if self.memory is not None and math.prod(shape) * dtype.itemsize >= LARGE else 0

    def add_errors(self, errors: Errors) -> None:
        """Pairs by code; 0 is for unknown codes."""
        pairs = [errors.get(code, _UNKNOWN) if code else _UNKNOWN for code in range(max(errors, default=0) + 1)]
        self.head[Head.ERROR_COUNT] = len(pairs)
        self.head[Head.ERRORS] = self.add([self.refer(part) for pair in pairs for part in pair])


class _Self(np.ndarray[Any, Any]):
    """The `self` of a function: the description, and everything that must live as long."""

    keep: Any


class _MethodDefinition(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_FASTCALL_KEYWORDS = 0x80 | 0x02
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
_new_function = _new(("PyCMethod_New", ctypes.pythonapi))


def _function(entry: int, name: str, description: _Description, keep: object) -> Callable[..., Any]:
    words = [description.head[place] for place in Head] + description.words
    self = np.array(words, dtype=np.uintp).view(_Self)
    self.flags.writeable = False
    definition = _MethodDefinition(name.encode(), entry, _FASTCALL_KEYWORDS, None)
    self.keep = (keep, description.objects, definition)
    return _new_function(ctypes.addressof(definition), self, None, None)
