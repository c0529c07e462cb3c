"""The description of a compiled function, which the shared entry point interprets: an array of words.

It begins with a `Head`, followed by records. Words are numbers, addresses of objects, offsets in the description, or offsets in
the frame. The frame is the memory of one call: the objects found in the arguments, the table of data pointers for the program,
the references that the call owns (`held`), and numbers. Offsets are in bytes.
"""

from __future__ import annotations

from enum import IntEnum

WORD = 8
LARGE_FRAME = 1 << 16  # bytes; a larger frame is not on the stack
GUARD_MISSED = 4  # returned by a program whose guards do not hold


class Head(IntEnum):
    """The first words of a description."""

    PROGRAM = 0  # address of i32 (ptr table, ptr env)
    ENV = 1
    OTHERWISE = 2  # object to call with arguments that do not fit, or 0
    RELEASE_GIL = 3
    ARGUMENT_COUNT = 4
    OPENING_COUNT = 5
    OPENINGS = 6  # offset of the first; so are the next three
    INPUT_COUNT = 7
    INPUTS = 8
    OUTPUT_COUNT = 9
    OUTPUTS = 10
    PACKING_COUNT = 11
    PACKINGS = 12
    ERROR_COUNT = 13
    ERRORS = 14  # offset of pairs (class, message)
    FRAME_SIZE = 15  # in bytes; the objects come first
    TABLE = 16  # offsets in the frame
    HELD = 17
    RESULT = 18
    HELD_COUNT = 19
    HELD_AFTER = 20  # whether a successful call still owns references after returning its result
    MISS = 21
    NONE = 22
    TRUE = 23
    FALSE = 24
    NDARRAY = 25
    READ_COUNT = 26
    READS = 27  # offset of the first
    METHOD = 28
    ATTRIBUTE_ERROR = 29
    APART_COUNT = 30
    APARTS = 31  # offset of the first
    EXCEPTION = 32


class ObjectKind(IntEnum):
    """The kind of a record. An argument is an array, or a Python bool, int, or float or complex; the rest are containers."""

    ARRAY = 0
    BOOL = 1
    INT = 2
    FLOATING = 3
    NONE = 4
    TUPLE = 5
    LIST = 6
    DICT = 7


class Opening(IntEnum):
    """A container among the arguments."""

    KIND = 0
    CLASS = 1
    SOURCE = 2  # offsets in the frame: of the container, and of its first item
    TARGET = 3
    COUNT = 4
    HELD = 5  # offset of the first item in the frame; unused for tuples, which own their items
    KEYS = 6


class InputRecord(IntEnum):
    """An array or number that the program takes."""

    KIND = 0
    SOURCE = 1  # offset of the object in the frame, or in the arguments if there are no containers
    CLASS = 2  # of a Python number
    SLOT = 3  # offset of an int in the frame
    DTYPE = 4
    NUMBERS = 5  # one or two type numbers, 32 bits each
    SCALAR = 6  # class of a NumPy scalar that fits, or 0
    NDIM = 7
    SHAPE = 8


class ReadRecord(IntEnum):
    """A place outside the function: see `core/places.py`."""

    LOAD = 0
    CHAINED = 1  # whether OWNER is an offset in the frame; otherwise an object
    OWNER = 2
    KEY = 3  # an object, or the index of an item
    CHECK = 4
    EXPECTED = 5  # an object, or an offset in the frame
    COUNT = 6  # of items, or of the words of a float or complex number
    TARGET = 7  # offsets in the frame: of the value, and of the owned reference
    HELD = 8


class Apart(IntEnum):
    """Two inputs that must not share memory: their numbers, and how many bytes each has."""

    FIRST = 0
    FIRST_SIZE = 1
    SECOND = 2
    SECOND_SIZE = 3


class Output(IntEnum):
    """An array that the program fills, or a number where NDIM is 0."""

    DTYPE = 0
    NDIM = 1
    SHAPE = 2
    SLOT = 3  # offset of a number in the frame
    HELD = 4  # offset of the result in the frame
    MEMORY = 5  # NumPy's handler for the memory of the array, or 0


class Packing(IntEnum):
    """A container to build from owned references."""

    KIND = 0
    COUNT = 1
    PARTS = 2  # offset of the frame offsets of the items
    KEYS = 3
    HELD = 4
