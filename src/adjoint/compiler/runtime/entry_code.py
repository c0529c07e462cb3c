"""The entry point shared by all compiled functions: LLVM IR for METH_FASTCALL | METH_KEYWORDS.

Each function has a description, an array of words in `self`: a Head, then records. Words are numbers, addresses of objects,
offsets in the description, or offsets in the frame. The frame is the memory of one call: the objects found in the arguments, the
table of data pointers for the program, the references that the call owns (`owned`), and numbers. Offsets are in bytes. So the
code contains no address of a process, is compiled once, and can be cached.

Every reference that the call owns is in `owned` until it is given away; all exits release the rest.
"""

from __future__ import annotations

from enum import IntEnum

from ...core.places import Check, Load
from ..llvm.routine import InterpreterRoutine
from . import cpython as py

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


class Kind(IntEnum):
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


class Input(IntEnum):
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


class Read(IntEnum):
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


def entry_text() -> str:
    """The LLVM module that defines `@entry`. Optimisation passes cost much and gain nothing."""
    called: set[str] = set()
    functions = [_check_array(called), _check_number(called), _release(called), _call(called), _entry(called)]
    return "\n".join([*map(py.declaration, sorted(called)), "", *functions])


def _entry(called: set[str]) -> str:
    """Give the call its frame."""
    code = InterpreterRoutine("define ptr @entry(ptr %function, ptr %args, i64 %nargs, ptr %names)", called)
    code.do(f"%self = load ptr, ptr {code.address('%function', py.ARRAY_DATA)}")
    size = code.load("i64", "%self", WORD * Head.FRAME_SIZE)
    code.branch(code.let(f"icmp ugt i64 {size}, {LARGE_FRAME}"), "large", "small")
    code.label("small")
    stack = code.let(f"alloca i8, i64 {size}, align 16")
    code.jump("go")
    code.label("large")
    heap = code.call("PyMem_Malloc", f"i64 {size}")
    code.need_not_null(heap, "full")
    block = code.block
    code.jump("go")
    code.label("go")
    frame = code.let(f"phi ptr [{stack}, %small], [{heap}, %{block}]")
    free = code.let(f"phi ptr [null, %small], [{heap}, %{block}]")
    result = code.let(f"call ptr @entry.call(ptr %self, ptr %args, i64 %nargs, ptr %names, ptr {frame})")
    with code.when(code.let(f"icmp ne ptr {free}, null")):
        code.call("PyMem_Free", f"ptr {free}")
    code.do(f"ret ptr {result}")
    code.label("full")
    code.do(f"ret ptr {code.call('PyErr_NoMemory')}")
    return code.text()


class _Call(InterpreterRoutine):
    """The body of a call."""

    def __init__(self, called: set[str]) -> None:
        super().__init__("define internal ptr @entry.call(ptr %self, ptr %args, i64 %nargs, ptr %names, ptr %frame)", called)

    def word(self, field: Head, kind: str = "i64") -> str:
        return self.load(kind, "%self", WORD * field)

    def place(self, field: Head, base: str = "%self") -> str:
        return self.address(base, self.word(field))

    def record(self, start: str, i: str, fields: type[IntEnum]) -> str:
        """The i-th of the records of one kind."""
        return self.let(f"getelementptr [{len(fields)} x i64], ptr {start}, i64 {i}")

    def give(self, place: str) -> str:
        """An owned reference, given away."""
        value = self.load("ptr", place)
        self.store("ptr null", place)
        return value

    def release(self) -> None:
        self.do("call void @entry.release(ptr %self, ptr %frame)")

    def word_at(self, base: str, i: str) -> str:
        return self.let(f"getelementptr i64, ptr {base}, i64 {i}")


def _field(code: InterpreterRoutine, record: str, field: IntEnum, kind: str = "i64") -> str:
    return code.load(kind, record, WORD * field)


def _call(called: set[str]) -> str:
    code = _Call(called)
    code.need_equal("i64", "%nargs", code.word(Head.ARGUMENT_COUNT), "elsewhere")
    code.need_equal("ptr", "%names", "null", "elsewhere")
    held = code.place(Head.HELD, "%frame")
    with code.loop(code.word(Head.HELD_COUNT)) as i:
        code.store("ptr null", code.word_at(held, i))

    # Without containers and places, the arguments are the objects.
    before, openings, reads = code.block, code.word(Head.OPENING_COUNT), code.word(Head.READ_COUNT)
    code.branch(code.equal("i64", code.let(f"or i64 {openings}, {reads}"), 0), "inputs", "containers")
    code.label("containers")
    _open(code, openings)
    _read_places(code, reads)
    opened = code.block
    code.jump("inputs")
    code.label("inputs")
    objects = code.let(f"phi ptr [%args, %{before}], [%frame, %{opened}]")

    table = code.place(Head.TABLE, "%frame")
    _read_inputs(code, objects, table)
    _allocate_outputs(code, code.word_at(table, code.word(Head.INPUT_COUNT)))
    _run(code, table)
    _box_numbers(code)
    _pack(code)
    result = code.give(code.place(Head.RESULT, "%frame"))
    with code.when(code.let(f"icmp ne i64 {code.word(Head.HELD_AFTER)}, 0")):
        code.release()
    code.do(f"ret ptr {result}")
    _other_exits(code)
    return code.text()


def _open(code: _Call, count: str) -> None:
    """Write the arguments, then the items of every container, into the frame."""
    with code.loop("%nargs") as i:
        code.store(f"ptr {code.load('ptr', code.word_at('%args', i))}", code.word_at("%frame", i))
    openings = code.place(Head.OPENINGS)
    with code.loop(count) as i:
        record = code.record(openings, i, Opening)
        container = code.load("ptr", code.address("%frame", _field(code, record, Opening.SOURCE)))
        kind = _field(code, record, Opening.KIND)
        after, tuples, lists, dicts = (code.mark(prefix) for prefix in ("after", "tuple", "list", "dict"))
        none, other = code.mark("none"), code.mark("container")
        code.branch(code.equal("i64", kind, Kind.NONE), none, other)
        code.label(none)
        code.need_equal("ptr", container, code.word(Head.NONE, "ptr"), "miss")
        code.jump(after)
        code.label(other)
        code.need_equal("ptr", code.load("ptr", container, py.TYPE), _field(code, record, Opening.CLASS, "ptr"), "miss")
        size = _field(code, record, Opening.COUNT)
        target = code.address("%frame", _field(code, record, Opening.TARGET))
        held = code.address("%frame", _field(code, record, Opening.HELD))
        keys = code.address("%self", _field(code, record, Opening.KEYS))
        code.do(f"switch i64 {kind}, label %{dicts} [ i64 {Kind.TUPLE:d}, label %{tuples} i64 {Kind.LIST:d}, label %{lists} ]")

        code.label(tuples)
        code.need_equal("i64", code.call("PyTuple_Size", f"ptr {container}"), size, "miss")
        with code.loop(size) as j:
            part = code.call("PyTuple_GetItem", f"ptr {container}", f"i64 {j}")
            code.store(f"ptr {part}", code.word_at(target, j))
        code.jump(after)

        # Another thread, or the __eq__ of a key, may remove an item from its list or dict during the call: own a reference.
        code.label(lists)
        code.need_equal("i64", code.call("PyList_Size", f"ptr {container}"), size, "miss")
        with code.loop(size) as j:
            part = code.call("PyList_GetItem", f"ptr {container}", f"i64 {j}")
            code.call("Py_IncRef", f"ptr {part}")
            code.store(f"ptr {part}", code.word_at(held, j))
            code.store(f"ptr {part}", code.word_at(target, j))
        code.jump(after)

        code.label(dicts)
        code.need_equal("i64", code.call("PyDict_Size", f"ptr {container}"), size, "miss")
        with code.loop(size) as j:
            key = code.load("ptr", code.word_at(keys, j))
            part = code.call("PyDict_GetItemWithError", f"ptr {container}", f"ptr {key}")
            code.need_not_null(part, "absent")
            code.call("Py_IncRef", f"ptr {part}")
            code.store(f"ptr {part}", code.word_at(held, j))
            code.store(f"ptr {part}", code.word_at(target, j))
        code.jump(after)
        code.label(after)


def _read_places(code: _Call, count: str) -> None:
    """Write the values of the places into the frame, and check them."""
    places = code.place(Head.READS)
    with code.loop(count) as i:
        record = code.record(places, i, Read)
        chained = _field(code, record, Read.CHAINED)
        inside, fixed, owned = code.mark("inside"), code.mark("fixed"), code.mark("owned")
        code.branch(code.equal("i64", chained, 0), fixed, inside)
        code.label(inside)
        first = code.load("ptr", "%frame", _field(code, record, Read.OWNER))
        code.jump(owned)
        code.label(fixed)
        second = _field(code, record, Read.OWNER, "ptr")
        code.jump(owned)
        code.label(owned)
        holder = code.let(f"phi ptr [{first}, %{inside}], [{second}, %{fixed}]")
        value = _load_value(code, record, holder)
        code.store(f"ptr {value}", code.address("%frame", _field(code, record, Read.TARGET)))
        _check_value(code, record, value)


def _load_value(code: _Call, record: str, holder: str) -> str:
    """The value at a place, with an owned reference: another thread may rebind it."""
    held = code.address("%frame", _field(code, record, Read.HELD))
    labels = {load: code.mark(load.name.lower()) for load in Load}
    borrowed, new, loaded = code.mark("borrowed"), code.mark("new"), code.mark("loaded")
    cases = " ".join(f"i64 {load:d}, label %{label}" for load, label in labels.items())
    code.do(f"switch i64 {_field(code, record, Read.LOAD)}, label %{labels[Load.FIXED]} [ {cases} ]")
    found: list[tuple[str, str]] = []

    def give(value: str) -> None:
        found.append((value, code.block))
        code.jump(borrowed)

    code.label(labels[Load.FIXED])
    give(holder)
    code.label(labels[Load.CELL])
    contents = code.load("ptr", holder, py.VALUE)
    code.need_not_null(contents, "miss")
    give(contents)
    code.label(labels[Load.ENTRY])
    entry = code.call("PyDict_GetItemWithError", f"ptr {holder}", f"ptr {_field(code, record, Read.KEY, 'ptr')}")
    code.need_not_null(entry, "absent")
    give(entry)
    for load, function in ((Load.ITEM, "PyList_GetItem"), (Load.PART, "PyTuple_GetItem")):
        code.label(labels[load])
        item = code.call(function, f"ptr {holder}", f"i64 {_field(code, record, Read.KEY)}")
        code.need_not_null(item, "changed")
        give(item)
    code.label(labels[Load.ATTRIBUTE])
    attribute = code.call("PyObject_GetAttr", f"ptr {holder}", f"ptr {_field(code, record, Read.KEY, 'ptr')}")
    code.need_not_null(attribute, "changed")
    at = code.block
    code.jump(new)

    code.label(borrowed)
    value = code.let("phi ptr " + ", ".join(f"[{value}, %{block}]" for value, block in found))
    code.call("Py_IncRef", f"ptr {value}")
    code.jump(new)
    code.label(new)
    result = code.let(f"phi ptr [{value}, %{borrowed}], [{attribute}, %{at}]")
    code.store(f"ptr {result}", held)
    code.jump(loaded)
    code.label(loaded)
    return result


def _check_value(code: _Call, record: str, value: str) -> None:
    """Continue if the check of a value holds."""
    labels = {check: code.mark(check.name.lower()) for check in Check}
    done = labels[Check.INPUT]
    expected, count = _field(code, record, Read.EXPECTED, "ptr"), _field(code, record, Read.COUNT)
    cases = " ".join(f"i64 {check:d}, label %{label}" for check, label in labels.items())
    code.do(f"switch i64 {_field(code, record, Read.CHECK)}, label %{done} [ {cases} ]")

    def need_class(of: str) -> None:
        code.need_equal("ptr", code.load("ptr", value, py.TYPE), of, "miss")

    code.label(labels[Check.IS])
    code.need_equal("ptr", value, expected, "miss")
    code.jump(done)
    code.label(labels[Check.TYPE])
    need_class(expected)
    code.jump(done)
    code.label(labels[Check.LENGTH])
    need_class(expected)
    code.need_equal("i64", code.call("PyObject_Size", f"ptr {value}"), count, "changed")
    code.jump(done)
    code.label(labels[Check.SAME])
    code.need_equal("ptr", value, code.load("ptr", "%frame", _field(code, record, Read.EXPECTED)), "miss")
    code.jump(done)
    code.label(labels[Check.TEST])
    answer = code.call("PyObject_CallOneArg", f"ptr {expected}", f"ptr {value}")
    code.need_not_null(answer, "failed")
    code.call("Py_DecRef", f"ptr {answer}")
    code.need_equal("ptr", answer, code.word(Head.TRUE, "ptr"), "miss")
    code.jump(done)

    code.label(labels[Check.EQUAL])
    other, bits, rich = code.mark("other"), code.mark("bits"), code.mark("rich")
    code.branch(code.equal("ptr", value, expected), done, other)
    code.label(other)
    need_class(code.load("ptr", expected, py.TYPE))
    code.branch(code.equal("i64", count, 0), rich, bits)
    code.label(bits)
    with code.loop(count) as j:
        ours, theirs = (code.load("i64", code.word_at(code.address(x, py.VALUE), j)) for x in (expected, value))
        code.need_equal("i64", ours, theirs, "miss")
    code.jump(done)
    code.label(rich)
    code.need_equal(
        "i32", code.call("PyObject_RichCompareBool", f"ptr {value}", f"ptr {expected}", f"i32 {py.EQUAL}"), 1, "changed"
    )
    code.jump(done)
    code.label(done)


def _read_inputs(code: _Call, objects: str, table: str) -> None:
    inputs = code.place(Head.INPUTS)
    with code.loop(code.word(Head.INPUT_COUNT)) as i:
        record = code.record(inputs, i, Input)
        value = code.load("ptr", code.address(objects, _field(code, record, Input.SOURCE)))
        array, number, read = code.mark("array"), code.mark("number"), code.mark("read")
        code.branch(code.equal("i64", _field(code, record, Input.KIND), Kind.ARRAY), array, number)
        code.label(array)
        first = code.let(f"call ptr @entry.array(ptr %self, ptr {record}, ptr {value})")
        code.jump(read)
        code.label(number)
        slot = code.address("%frame", _field(code, record, Input.SLOT))
        second = code.let(f"call ptr @entry.number(ptr %self, ptr {record}, ptr {value}, ptr {slot})")
        code.jump(read)
        code.label(read)
        data = code.let(f"phi ptr [{first}, %{array}], [{second}, %{number}]")
        code.need_not_null(data, "miss")
        code.store(f"ptr {data}", code.word_at(table, i))


def _check_array(called: set[str]) -> str:
    """The data of an array that fits an input, or of a NumPy scalar; null for any other object."""
    code = InterpreterRoutine("define internal ptr @entry.array(ptr %self, ptr %input, ptr %object)", called)
    kind = code.load("ptr", "%object", py.TYPE)
    code.need_equal("ptr", kind, code.load("ptr", "%self", WORD * Head.NDARRAY), "scalar")
    dtype = code.load("ptr", "%object", py.ARRAY_DTYPE)
    code.branch(code.equal("ptr", dtype, _field(code, "%input", Input.DTYPE, "ptr")), "layout", "another")

    code.label("another")  # another object may be an equal dtype: with metadata, or under another name
    number = code.load("i32", dtype, py.DTYPE_NUMBER)
    numbers = code.address("%input", WORD * Input.NUMBERS)
    first = code.equal("i32", number, code.load("i32", numbers))
    second = code.equal("i32", number, code.load("i32", numbers, 4))
    code.need(code.let(f"or i1 {first}, {second}"), "miss")
    order = code.load("i8", dtype, py.DTYPE_BYTE_ORDER)
    code.need(code.let(f"icmp ne i8 {order}, {ord('>')}"), "miss")
    code.jump("layout")

    code.label("layout")
    ndim = _field(code, "%input", Input.NDIM)
    found = code.let(f"sext i32 {code.load('i32', '%object', py.ARRAY_NDIM)} to i64")
    code.need_equal("i64", found, ndim, "miss")
    wanted = py.C_CONTIGUOUS | py.ALIGNED
    flags = code.let(f"and i32 {code.load('i32', '%object', py.ARRAY_FLAGS)}, {wanted}")
    code.need_equal("i32", flags, wanted, "miss")
    sizes = code.load("ptr", "%object", py.ARRAY_SHAPE)
    shape = code.address("%self", _field(code, "%input", Input.SHAPE))
    with code.loop(ndim) as i:
        size, expected = (code.load("i64", code.let(f"getelementptr i64, ptr {base}, i64 {i}")) for base in (sizes, shape))
        code.need_equal("i64", size, expected, "miss")
    code.do(f"ret ptr {code.load('ptr', '%object', py.ARRAY_DATA)}")

    code.label("scalar")
    code.need_equal("ptr", kind, _field(code, "%input", Input.SCALAR, "ptr"), "miss")
    code.do(f"ret ptr {code.address('%object', py.VALUE)}")
    code.label("miss")
    code.do("ret ptr null")
    return code.text()


def _check_number(called: set[str]) -> str:
    """The address of the value of a Python number; null for any other object."""
    code = InterpreterRoutine("define internal ptr @entry.number(ptr %self, ptr %input, ptr %object, ptr %slot)", called)
    overflow = code.let("alloca i32, align 4")
    code.need_equal("ptr", code.load("ptr", "%object", py.TYPE), _field(code, "%input", Input.CLASS, "ptr"), "miss")
    kind = _field(code, "%input", Input.KIND)
    code.do(f"switch i64 {kind}, label %floating [ i64 {Kind.BOOL:d}, label %bool i64 {Kind.INT:d}, label %int ]")

    code.label("floating")
    code.do(f"ret ptr {code.address('%object', py.VALUE)}")

    code.label("bool")
    true = code.equal("ptr", "%object", code.load("ptr", "%self", WORD * Head.TRUE))
    code.store(f"i8 {code.let(f'zext i1 {true} to i8')}", "%slot")
    code.do("ret ptr %slot")

    code.label("int")
    number = code.call("PyLong_AsLongLongAndOverflow", "ptr %object", f"ptr {overflow}")
    code.need_equal("i32", code.load("i32", overflow), 0, "miss")
    code.store(f"i64 {number}", "%slot")
    code.do("ret ptr %slot")

    code.label("miss")
    code.do("ret ptr null")
    return code.text()


def _allocate_outputs(code: _Call, table: str) -> None:
    """New arrays, owned by the call, and slots in the frame for numbers."""
    outputs = code.place(Head.OUTPUTS)
    with code.loop(code.word(Head.OUTPUT_COUNT)) as i:
        record = code.record(outputs, i, Output)
        ndim = _field(code, record, Output.NDIM)
        array, number, done = code.mark("array"), code.mark("number"), code.mark("done")
        code.branch(code.equal("i64", ndim, 0), number, array)
        code.label(number)
        slot = code.address("%frame", _field(code, record, Output.SLOT))
        code.jump(done)
        code.label(array)
        dtype = _field(code, record, Output.DTYPE, "ptr")
        memory = _field(code, record, Output.MEMORY, "ptr")
        usual = _set_memory(code, memory, memory)
        code.call("Py_IncRef", f"ptr {dtype}")  # the new array takes this reference
        created = code.call(
            "PyArray_NewFromDescr",
            f"ptr {code.word(Head.NDARRAY, 'ptr')}",
            f"ptr {dtype}",
            f"i32 {code.let(f'trunc i64 {ndim} to i32')}",
            f"ptr {code.address('%self', _field(code, record, Output.SHAPE))}",
            "ptr null",
            "ptr null",
            "i32 0",
            "ptr null",
        )
        ours = _set_memory(code, memory, usual)
        for handler in (usual, ours):
            with code.when(code.let(f"icmp ne ptr {handler}, null")):
                code.call("Py_DecRef", f"ptr {handler}")
        code.need_not_null(created, "failed")
        code.store(f"ptr {created}", code.address("%frame", _field(code, record, Output.HELD)))
        place, block = code.load("ptr", created, py.ARRAY_DATA), code.block
        code.jump(done)
        code.label(done)
        data = code.let(f"phi ptr [{slot}, %{number}], [{place}, %{block}]")
        code.store(f"ptr {data}", code.word_at(table, i))


def _set_memory(code: _Call, wanted: str, handler: str) -> str:
    """Set NumPy's memory handler, if `wanted` is not null; returns a reference to the previous one."""
    before, set_, after = code.block, code.mark("set"), code.mark("after")
    code.branch(code.let(f"icmp ne ptr {wanted}, null"), set_, after)
    code.label(set_)
    old = code.call("PyDataMem_SetHandler", f"ptr {handler}")
    code.jump(after)
    code.label(after)
    return code.let(f"phi ptr [null, %{before}], [{old}, %{set_}]")


def _run(code: _Call, table: str) -> None:
    program, env = code.word(Head.PROGRAM, "ptr"), code.word(Head.ENV, "ptr")
    code.branch(code.equal("i64", code.word(Head.RELEASE_GIL), 0), "locked", "unlocked")
    code.label("locked")
    first = code.let(f"call i32 {program}(ptr {table}, ptr {env})")
    code.jump("ran")
    code.label("unlocked")
    thread = code.call("PyEval_SaveThread")
    second = code.let(f"call i32 {program}(ptr {table}, ptr {env})")
    code.call("PyEval_RestoreThread", f"ptr {thread}")
    code.jump("ran")
    code.label("ran")
    code.do(f"%code = phi i32 [{first}, %locked], [{second}, %unlocked]")
    code.need_equal("i32", "%code", 0, "error")


def _box_numbers(code: _Call) -> None:
    """NumPy scalars of the numbers in the frame."""
    outputs = code.place(Head.OUTPUTS)
    with code.loop(code.word(Head.OUTPUT_COUNT)) as i:
        record = code.record(outputs, i, Output)
        with code.when(code.equal("i64", _field(code, record, Output.NDIM), 0)):
            slot = code.address("%frame", _field(code, record, Output.SLOT))
            scalar = code.call("PyArray_Scalar", f"ptr {slot}", f"ptr {_field(code, record, Output.DTYPE, 'ptr')}", "ptr null")
            code.need_not_null(scalar, "failed")
            code.store(f"ptr {scalar}", code.address("%frame", _field(code, record, Output.HELD)))


def _pack(code: _Call) -> None:
    """Build the containers of the result, inner ones first."""
    packings = code.place(Head.PACKINGS)
    with code.loop(code.word(Head.PACKING_COUNT)) as i:
        record = code.record(packings, i, Packing)
        count = _field(code, record, Packing.COUNT)
        place = code.address("%frame", _field(code, record, Packing.HELD))
        parts = code.address("%self", _field(code, record, Packing.PARTS))
        keys = code.address("%self", _field(code, record, Packing.KEYS))
        labels = {kind: code.mark(kind.name.lower()) for kind in (Kind.NONE, Kind.TUPLE, Kind.LIST, Kind.DICT)}
        after = code.mark("after")
        cases = " ".join(f"i64 {kind:d}, label %{label}" for kind, label in labels.items())
        code.do(f"switch i64 {_field(code, record, Packing.KIND)}, label %{labels[Kind.NONE]} [ {cases} ]")

        code.label(labels[Kind.NONE])
        none = code.word(Head.NONE, "ptr")
        code.call("Py_IncRef", f"ptr {none}")
        code.store(f"ptr {none}", place)
        code.jump(after)

        for kind, name in ((Kind.TUPLE, "PyTuple"), (Kind.LIST, "PyList")):
            code.label(labels[kind])
            container = code.call(f"{name}_New", f"i64 {count}")
            code.need_not_null(container, "failed")
            code.store(f"ptr {container}", place)
            with code.loop(count) as j:
                part = code.give(code.address("%frame", code.load("i64", code.word_at(parts, j))))
                code.call(f"{name}_SetItem", f"ptr {container}", f"i64 {j}", f"ptr {part}")
            code.jump(after)

        code.label(labels[Kind.DICT])  # adds references: the items stay owned, and are released at the end
        container = code.call("PyDict_New")
        code.need_not_null(container, "failed")
        code.store(f"ptr {container}", place)
        with code.loop(count) as j:
            part = code.load("ptr", code.address("%frame", code.load("i64", code.word_at(parts, j))))
            key = code.load("ptr", code.word_at(keys, j))
            failure = code.call("PyDict_SetItem", f"ptr {container}", f"ptr {key}", f"ptr {part}")
            code.need_equal("i32", failure, 0, "failed")
        code.jump(after)
        code.label(after)


def _other_exits(code: _Call) -> None:
    code.label("changed")  # a place has lost an item or an attribute, or cannot be compared
    code.call("PyErr_Clear")
    code.jump("miss")

    code.label("absent")  # missing in a dict, or a key could not be compared
    code.need_equal("ptr", code.call("PyErr_Occurred"), "null", "failed")
    code.jump("miss")

    code.label("miss")
    code.release()
    code.jump("elsewhere")
    code.label("elsewhere")
    otherwise = code.word(Head.OTHERWISE, "ptr")
    code.need_not_null(otherwise, "nowhere")
    result = code.call("PyObject_Vectorcall", f"ptr {otherwise}", "ptr %args", "i64 %nargs", "ptr %names")
    code.do(f"ret ptr {result}")
    code.label("nowhere")
    miss = code.word(Head.MISS, "ptr")
    code.call("Py_IncRef", f"ptr {miss}")
    code.do(f"ret ptr {miss}")

    code.label("error")
    code.need(code.let(f"icmp ne i32 %code, {GUARD_MISSED}"), "miss")
    code.release()  # first: destructors may run code, which must not see an exception set
    code.need(code.let("icmp ne i32 %code, -1"), "raised")
    number = code.let("sext i32 %code to i64")
    known = code.let(f"icmp ult i64 {number}, {code.word(Head.ERROR_COUNT)}")
    error = code.let(f"select i1 {known}, i64 {number}, i64 0")
    pair = code.let(f"getelementptr [2 x ptr], ptr {code.place(Head.ERRORS)}, i64 {error}")
    code.call("PyErr_SetObject", f"ptr {code.load('ptr', pair)}", f"ptr {code.load('ptr', pair, WORD)}")
    code.jump("raised")

    code.label("failed")
    code.release()
    code.jump("raised")
    code.label("raised")
    code.do("ret ptr null")


def _release(called: set[str]) -> str:
    code = InterpreterRoutine("define internal void @entry.release(ptr %self, ptr %frame)", called)
    held = code.address("%frame", code.load("i64", "%self", WORD * Head.HELD))
    with code.loop(code.load("i64", "%self", WORD * Head.HELD_COUNT)) as i:
        owned = code.load("ptr", code.let(f"getelementptr ptr, ptr {held}, i64 {i}"))
        with code.when(code.let(f"icmp ne ptr {owned}, null")):
            code.call("Py_DecRef", f"ptr {owned}")
    code.do("ret void")
    return code.text()
