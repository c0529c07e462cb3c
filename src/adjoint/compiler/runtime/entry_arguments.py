"""The first half of a call: open the containers among the arguments, read the places outside, check all of them.

An argument that does not fit branches to `miss`; a place that has changed or is gone to `changed` or `absent` (see `entry_code`).
"""

from __future__ import annotations

from enum import IntEnum

from ...core.places import Check, Load
from ..llvm.routine import InterpreterRoutine
from . import cpython as py
from .description import WORD, Apart, Head, InputRecord, ObjectKind, Opening, ReadRecord


class EntryRoutine(InterpreterRoutine):
    """The body of a call: what it reads of the description, and the references that it owns."""

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

    def item_of_list(self, container: str, i: str) -> str:
        """A new reference to an item of a list."""
        if py.FREE_THREADED:
            item = self.call("PyList_GetItemRef", f"ptr {container}", f"i64 {i}")
            self.need_not_null(item, "changed")
            return item
        item = self.call("PyList_GetItem", f"ptr {container}", f"i64 {i}")
        self.need_not_null(item, "changed")
        self.call("Py_IncRef", f"ptr {item}")
        return item

    def contents_of_cell(self, cell: str) -> str:
        """A new reference to the contents of a closure cell."""
        if py.FREE_THREADED:
            contents = self.call("PyCell_Get", f"ptr {cell}")
            self.need_not_null(contents, "miss")
            return contents
        contents = self.load("ptr", cell, py.VALUE)
        self.need_not_null(contents, "miss")
        self.call("Py_IncRef", f"ptr {contents}")
        return contents

    def entry_of_dict(self, holder: str, key: str, place: str) -> str:
        """A new reference to an entry of a dict. `place` is for the one that the interpreter returns."""
        if py.FREE_THREADED:
            found = self.call("PyDict_GetItemRef", f"ptr {holder}", f"ptr {key}", f"ptr {place}")
            self.need_equal("i32", found, 1, "absent")
            return self.load("ptr", place)
        entry = self.call("PyDict_GetItemWithError", f"ptr {holder}", f"ptr {key}")
        self.need_not_null(entry, "absent")
        self.call("Py_IncRef", f"ptr {entry}")
        return entry

    def word_at(self, base: str, i: str) -> str:
        return self.let(f"getelementptr i64, ptr {base}, i64 {i}")


def field(code: InterpreterRoutine, record: str, field: IntEnum, kind: str = "i64") -> str:
    return code.load(kind, record, WORD * field)


def open_containers(code: EntryRoutine, count: str) -> None:
    """Write the arguments, then the items of every container, into the frame."""
    with code.loop("%nargs") as i:
        code.store(f"ptr {code.load('ptr', code.word_at('%args', i))}", code.word_at("%frame", i))
    openings = code.place(Head.OPENINGS)
    place, key, value = (code.let(f"alloca {kind}, align 8") for kind in ("i64", "ptr", "ptr"))
    with code.loop(count) as i:
        _open_container(code, code.record(openings, i, Opening), place, key, value)


def _open_container(code: EntryRoutine, record: str, place: str, next_key: str, next_value: str) -> None:
    """Write the items of one container into the frame; None has no items. A dict is read in its order, which loops follow."""
    container = code.load("ptr", code.address("%frame", field(code, record, Opening.SOURCE)))
    code.need_equal("ptr", code.load("ptr", container, py.TYPE), field(code, record, Opening.CLASS, "ptr"), "miss")
    size = field(code, record, Opening.COUNT)
    target, held = (code.address("%frame", field(code, record, at)) for at in (Opening.TARGET, Opening.HELD))
    keys = code.address("%self", field(code, record, Opening.KEYS))

    def need_key(j: str, found: str) -> None:
        key = code.load("ptr", code.word_at(keys, j))
        with code.when(code.let(f"icmp ne ptr {key}, {found}")):  # another string, perhaps an equal one
            code.need_equal("ptr", code.load("ptr", key, py.TYPE), code.load("ptr", found, py.TYPE), "miss")
            same = code.call("PyObject_RichCompareBool", f"ptr {key}", f"ptr {found}", f"i32 {py.EQUAL}")
            code.need_equal("i32", same, 1, "changed")

    def item(kind: ObjectKind, j: str) -> str:
        if kind is ObjectKind.LIST:
            return code.item_of_list(container, j)
        if kind is ObjectKind.TUPLE:
            return code.call("PyTuple_GetItem", f"ptr {container}", f"i64 {j}")
        more = code.call("PyDict_Next", f"ptr {container}", f"ptr {place}", f"ptr {next_key}", f"ptr {next_value}")
        code.need_equal("i32", more, 1, "miss")
        need_key(j, code.load("ptr", next_key))
        value = code.load("ptr", next_value)
        code.call("Py_IncRef", f"ptr {value}")
        return value

    def open_copy() -> None:
        """The items of a dict, from a list of them: another thread cannot change that."""
        items = code.call("PyDict_Items", f"ptr {container}")
        code.need_not_null(items, "failed")
        code.store(f"ptr {items}", held)
        code.need_equal("i64", code.call("PyList_Size", f"ptr {items}"), size, "miss")
        with code.loop(size) as j:
            pair = code.call("PyList_GetItem", f"ptr {items}", f"i64 {j}")
            need_key(j, code.call("PyTuple_GetItem", f"ptr {pair}", "i64 0"))
            code.store(f"ptr {code.call('PyTuple_GetItem', f'ptr {pair}', 'i64 1')}", code.word_at(target, j))

    labels = {kind: code.mark(kind.name.lower()) for kind in _CLASSES}
    after = code.mark("after")
    code.switch(field(code, record, Opening.KIND), labels, after)
    for kind, label in labels.items():
        code.label(label)
        code.need_equal("i64", code.call(f"{_CLASSES[kind]}_Size", f"ptr {container}"), size, "miss")
        if kind is ObjectKind.DICT and py.FREE_THREADED:
            with code.when(code.let(f"icmp ne i64 {size}, 0")):
                open_copy()
            code.jump(after)
            continue
        if kind is ObjectKind.DICT:
            code.store("i64 0", place)
        with code.loop(size) as j:
            part = item(kind, j)
            if (
                kind is not ObjectKind.TUPLE
            ):  # another thread, or the __eq__ of a key, may remove the item: the reference is owned
                code.store(f"ptr {part}", code.word_at(held, j))
            code.store(f"ptr {part}", code.word_at(target, j))
        code.jump(after)
    code.label(after)


_CLASSES = {ObjectKind.TUPLE: "PyTuple", ObjectKind.LIST: "PyList", ObjectKind.DICT: "PyDict"}


def read_places(code: EntryRoutine, count: str) -> None:
    """Write the values of the places into the frame, and check them."""
    places = code.place(Head.READS)
    entry = code.let("alloca ptr, align 8")
    with code.loop(count) as i:
        record = code.record(places, i, ReadRecord)
        chained = field(code, record, ReadRecord.CHAINED)
        inside, fixed, owned = code.mark("inside"), code.mark("fixed"), code.mark("owned")
        code.branch(code.equal("i64", chained, 0), fixed, inside)
        code.label(inside)
        first = code.load("ptr", "%frame", field(code, record, ReadRecord.OWNER))
        code.jump(owned)
        code.label(fixed)
        second = field(code, record, ReadRecord.OWNER, "ptr")
        code.jump(owned)
        code.label(owned)
        holder = code.phi("ptr", ((first, inside), (second, fixed)))
        value = _load_value(code, record, holder, entry)
        code.store(f"ptr {value}", code.address("%frame", field(code, record, ReadRecord.TARGET)))
        _check_value(code, record, holder, value)


def _load_value(code: EntryRoutine, record: str, holder: str, entry: str) -> str:
    """The value at a place, with an owned reference: another thread may rebind it."""
    held = code.address("%frame", field(code, record, ReadRecord.HELD))
    labels = {load: code.mark(load.name.lower()) for load in Load}
    loaded = code.mark("loaded")
    code.switch(field(code, record, ReadRecord.LOAD), labels, labels[Load.FIXED])
    found: list[tuple[str, str]] = []

    def give(value: str) -> None:
        found.append((value, code.block))
        code.jump(loaded)

    def give_borrowed(value: str) -> None:  # of what cannot be changed
        code.call("Py_IncRef", f"ptr {value}")
        give(value)

    code.label(labels[Load.FIXED])
    give_borrowed(holder)
    code.label(labels[Load.CELL])
    give(code.contents_of_cell(holder))
    code.label(labels[Load.CODE])
    give_borrowed(code.load("ptr", holder, py.FUNCTION_CODE))
    code.label(labels[Load.ENTRY])
    give(code.entry_of_dict(holder, field(code, record, ReadRecord.KEY, "ptr"), entry))
    code.label(labels[Load.ITEM])
    give(code.item_of_list(holder, field(code, record, ReadRecord.KEY)))
    code.label(labels[Load.PART])
    part = code.call("PyTuple_GetItem", f"ptr {holder}", f"i64 {field(code, record, ReadRecord.KEY)}")
    code.need_not_null(part, "changed")
    give_borrowed(part)
    for load, function in ((Load.ATTRIBUTE, "PyObject_GetAttr"), (Load.CALL, "PyObject_CallObject")):
        code.label(labels[load])
        made = code.call(function, f"ptr {holder}", f"ptr {field(code, record, ReadRecord.KEY, 'ptr')}")
        code.need_not_null(made, "raised.at.place")
        give(made)

    code.label(loaded)
    result = code.phi("ptr", found)
    code.store(f"ptr {result}", held)
    return result


def _check_value(code: EntryRoutine, record: str, holder: str, value: str) -> None:
    """Continue if the check of a value, which was read from its holder, holds."""
    labels = {check: code.mark(check.name.lower()) for check in Check}
    done = labels[Check.INPUT]
    expected, count = field(code, record, ReadRecord.EXPECTED, "ptr"), field(code, record, ReadRecord.COUNT)
    code.switch(field(code, record, ReadRecord.CHECK), labels, done)

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
    code.need_equal("ptr", value, code.load("ptr", "%frame", field(code, record, ReadRecord.EXPECTED)), "miss")
    code.jump(done)
    code.label(labels[Check.OTHER])
    earlier = code.load("ptr", "%frame", field(code, record, ReadRecord.EXPECTED))
    code.need(code.let(f"icmp ne ptr {value}, {earlier}"), "miss")
    code.jump(done)
    code.label(labels[Check.TEST])
    answer = code.call("PyObject_CallOneArg", f"ptr {expected}", f"ptr {value}")
    code.need_not_null(answer, "failed")
    code.call("Py_DecRef", f"ptr {answer}")
    code.need_equal("ptr", answer, code.word(Head.TRUE, "ptr"), "miss")
    code.jump(done)

    code.label(labels[Check.NO_ENTRY])
    code.need_equal("i32", code.call("PyDict_Contains", f"ptr {value}", f"ptr {expected}"), 0, "changed")
    code.jump(done)
    code.label(labels[Check.ORDER])
    keys = code.call("PySequence_List", f"ptr {value}")  # not PyDict_Keys, which ignores the order of an OrderedDict
    code.need_not_null(keys, "failed")
    same = code.call("PyObject_RichCompareBool", f"ptr {keys}", f"ptr {expected}", f"i32 {py.EQUAL}")
    code.call("Py_DecRef", f"ptr {keys}")
    code.need_equal("i32", same, 1, "changed")
    code.jump(done)
    code.label(labels[Check.NO_ATTRIBUTE])
    code.need_equal("i32", code.call("PyObject_HasAttr", f"ptr {value}", f"ptr {expected}"), 0, "miss")
    code.jump(done)
    code.label(labels[Check.LACKS])
    _need_missing(code, value, expected)
    code.jump(done)
    code.label(labels[Check.METHOD])
    need_class(code.word(Head.METHOD, "ptr"))
    code.need_equal("ptr", code.load("ptr", value, py.METHOD_FUNCTION), expected, "miss")
    code.need_equal("ptr", code.load("ptr", value, py.METHOD_SELF), holder, "miss")
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


def _need_missing(code: EntryRoutine, value: str, name: str) -> None:
    """Continue if an object has no attribute of a name, without its `__getattr__`."""
    is_quiet = py.QUIET_ATTRIBUTE in py.FUNCTIONS
    if is_quiet:
        given = code.call(py.QUIET_ATTRIBUTE, f"ptr {value}", f"ptr {name}", "ptr null", "i32 1")
    else:
        given = code.call("PyObject_GenericGetAttr", f"ptr {value}", f"ptr {name}")
    found, absent = code.mark("found"), code.mark("absent")
    code.branch(code.equal("ptr", given, "null"), absent, found)
    code.label(found)
    code.call("Py_DecRef", f"ptr {given}")
    code.jump("miss")
    code.label(absent)
    if is_quiet:
        code.need_equal("ptr", code.call("PyErr_Occurred"), "null", "failed")
    else:
        is_missing = code.call("PyErr_ExceptionMatches", f"ptr {code.word(Head.ATTRIBUTE_ERROR, 'ptr')}")
        code.need_equal("i32", is_missing, 1, "failed")
        code.call("PyErr_Clear")


def read_inputs(code: EntryRoutine, objects: str, table: str) -> None:
    inputs = code.place(Head.INPUTS)
    with code.loop(code.word(Head.INPUT_COUNT)) as i:
        record = code.record(inputs, i, InputRecord)
        value = code.load("ptr", code.address(objects, field(code, record, InputRecord.SOURCE)))
        array, number, read = code.mark("array"), code.mark("number"), code.mark("read")
        code.branch(code.equal("i64", field(code, record, InputRecord.KIND), ObjectKind.ARRAY), array, number)
        code.label(array)
        first = code.let(f"call ptr @entry.array(ptr %self, ptr {record}, ptr {value})")
        code.jump(read)
        code.label(number)
        slot = code.address("%frame", field(code, record, InputRecord.SLOT))
        second = code.let(f"call ptr @entry.number(ptr %self, ptr {record}, ptr {value}, ptr {slot})")
        code.jump(read)
        code.label(read)
        data = code.phi("ptr", ((first, array), (second, number)))
        code.need_not_null(data, "miss")
        code.store(f"ptr {data}", code.word_at(table, i))


def check_apart(code: EntryRoutine, table: str) -> None:
    """Continue if no two inputs share memory of which one is written to."""
    pairs = code.place(Head.APARTS)
    with code.loop(code.word(Head.APART_COUNT)) as i:
        record = code.record(pairs, i, Apart)
        first, second = (code.load("i64", code.word_at(table, field(code, record, at))) for at in (Apart.FIRST, Apart.SECOND))
        end = code.let(f"add i64 {first}, {field(code, record, Apart.FIRST_SIZE)}")
        other_end = code.let(f"add i64 {second}, {field(code, record, Apart.SECOND_SIZE)}")
        before, after = code.let(f"icmp ule i64 {end}, {second}"), code.let(f"icmp ule i64 {other_end}, {first}")
        code.need(code.let(f"or i1 {before}, {after}"), "miss")


def check_array(called: set[str]) -> str:
    """The data of an array that fits an input, or of a NumPy scalar; null for any other object."""
    code = InterpreterRoutine("define internal ptr @entry.array(ptr %self, ptr %input, ptr %object)", called)
    kind = code.load("ptr", "%object", py.TYPE)
    code.need_equal("ptr", kind, code.load("ptr", "%self", WORD * Head.NDARRAY), "scalar")
    dtype = code.load("ptr", "%object", py.ARRAY_DTYPE)
    code.branch(code.equal("ptr", dtype, field(code, "%input", InputRecord.DTYPE, "ptr")), "layout", "another")

    code.label("another")  # another object may be an equal dtype: with metadata, or under another name
    number = code.load("i32", dtype, py.DTYPE_NUMBER)
    numbers = code.address("%input", WORD * InputRecord.NUMBERS)
    first = code.equal("i32", number, code.load("i32", numbers))
    second = code.equal("i32", number, code.load("i32", numbers, 4))
    code.need(code.let(f"or i1 {first}, {second}"), "miss")
    order = code.load("i8", dtype, py.DTYPE_BYTE_ORDER)
    code.need(code.let(f"icmp ne i8 {order}, {ord('>')}"), "miss")
    code.jump("layout")

    code.label("layout")
    ndim = field(code, "%input", InputRecord.NDIM)
    found = code.let(f"sext i32 {code.load('i32', '%object', py.ARRAY_NDIM)} to i64")
    code.need_equal("i64", found, ndim, "miss")
    wanted = py.C_CONTIGUOUS | py.ALIGNED
    flags = code.let(f"and i32 {code.load('i32', '%object', py.ARRAY_FLAGS)}, {wanted}")
    code.need_equal("i32", flags, wanted, "miss")
    sizes = code.load("ptr", "%object", py.ARRAY_SHAPE)
    shape = code.address("%self", field(code, "%input", InputRecord.SHAPE))
    with code.loop(ndim) as i:
        size, expected = (code.load("i64", code.let(f"getelementptr i64, ptr {base}, i64 {i}")) for base in (sizes, shape))
        code.need_equal("i64", size, expected, "miss")
    code.do(f"ret ptr {code.load('ptr', '%object', py.ARRAY_DATA)}")

    code.label("scalar")
    code.need_equal("ptr", kind, field(code, "%input", InputRecord.SCALAR, "ptr"), "miss")
    code.do(f"ret ptr {code.address('%object', py.VALUE)}")
    code.label("miss")
    code.do("ret ptr null")
    return code.text()


def check_number(called: set[str]) -> str:
    """The address of the value of a Python number; null for any other object."""
    code = InterpreterRoutine("define internal ptr @entry.number(ptr %self, ptr %input, ptr %object, ptr %slot)", called)
    overflow = code.let("alloca i32, align 4")
    code.need_equal("ptr", code.load("ptr", "%object", py.TYPE), field(code, "%input", InputRecord.CLASS, "ptr"), "miss")
    kind = field(code, "%input", InputRecord.KIND)
    code.switch(kind, {ObjectKind.BOOL: "bool", ObjectKind.INT: "int"}, "floating")

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
