"""The entry point shared by all compiled functions: LLVM IR for METH_FASTCALL | METH_KEYWORDS.

It interprets the description of a function (`description.py`), in `self`. So the code contains no address of a process, is
compiled once, and can be cached. `entry_arguments` writes how a call reads its arguments; here are its frame, its results and its
exits.

Every reference that the call owns is in `held` until it is given away; all exits release the rest.
"""

from __future__ import annotations

from ..llvm.routine import InterpreterRoutine
from . import cpython as py
from .description import GUARD_MISSED, LARGE_FRAME, WORD, Head, ObjectKind, Output, Packing
from .entry_arguments import (
    EntryRoutine,
    check_apart,
    check_array,
    check_number,
    field,
    open_containers,
    read_inputs,
    read_places,
)


def entry_text() -> str:
    """The LLVM module that defines `@entry`. Optimisation passes cost much and gain nothing."""
    called: set[str] = set()
    functions = [check_array(called), check_number(called), _release(called), _call(called), _entry(called)]
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
    frame = code.phi("ptr", ((stack, "small"), (heap, block)))
    free = code.phi("ptr", (("null", "small"), (heap, block)))
    result = code.let(f"call ptr @entry.call(ptr %self, ptr %args, i64 %nargs, ptr %names, ptr {frame})")
    with code.when(code.let(f"icmp ne ptr {free}, null")):
        code.call("PyMem_Free", f"ptr {free}")
    code.do(f"ret ptr {result}")
    code.label("full")
    code.do(f"ret ptr {code.call('PyErr_NoMemory')}")
    return code.text()


def _call(called: set[str]) -> str:
    code = EntryRoutine(called)
    code.need_equal("i64", "%nargs", code.word(Head.ARGUMENT_COUNT), "elsewhere")
    code.need_equal("ptr", "%names", "null", "elsewhere")
    held = code.place(Head.HELD, "%frame")
    with code.loop(code.word(Head.HELD_COUNT)) as i:
        code.store("ptr null", code.word_at(held, i))

    # Without containers and places, the arguments are the objects.
    before, openings, reads = code.block, code.word(Head.OPENING_COUNT), code.word(Head.READ_COUNT)
    code.branch(code.equal("i64", code.let(f"or i64 {openings}, {reads}"), 0), "inputs", "containers")
    code.label("containers")
    open_containers(code, openings)
    read_places(code, reads)
    opened = code.block
    code.jump("inputs")
    code.label("inputs")
    objects = code.phi("ptr", (("%args", before), ("%frame", opened)))

    table = code.place(Head.TABLE, "%frame")
    read_inputs(code, objects, table)
    check_apart(code, table)
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


def _allocate_outputs(code: EntryRoutine, table: str) -> None:
    """New arrays, owned by the call, and slots in the frame for numbers."""
    outputs = code.place(Head.OUTPUTS)
    with code.loop(code.word(Head.OUTPUT_COUNT)) as i:
        record = code.record(outputs, i, Output)
        ndim = field(code, record, Output.NDIM)
        array, number, done = code.mark("array"), code.mark("number"), code.mark("done")
        code.branch(code.equal("i64", ndim, 0), number, array)
        code.label(number)
        slot = code.address("%frame", field(code, record, Output.SLOT))
        code.jump(done)
        code.label(array)
        dtype = field(code, record, Output.DTYPE, "ptr")
        memory = field(code, record, Output.MEMORY, "ptr")
        usual = _set_memory(code, memory, memory)
        code.call("Py_IncRef", f"ptr {dtype}")  # the new array takes this reference
        created = code.call(
            "PyArray_NewFromDescr",
            f"ptr {code.word(Head.NDARRAY, 'ptr')}",
            f"ptr {dtype}",
            f"i32 {code.let(f'trunc i64 {ndim} to i32')}",
            f"ptr {code.address('%self', field(code, record, Output.SHAPE))}",
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
        code.store(f"ptr {created}", code.address("%frame", field(code, record, Output.HELD)))
        place, block = code.load("ptr", created, py.ARRAY_DATA), code.block
        code.jump(done)
        code.label(done)
        data = code.phi("ptr", ((slot, number), (place, block)))
        code.store(f"ptr {data}", code.word_at(table, i))


def _set_memory(code: EntryRoutine, wanted: str, handler: str) -> str:
    """Set NumPy's memory handler, if `wanted` is not null; returns a reference to the previous one."""
    before, set_, after = code.block, code.mark("set"), code.mark("after")
    code.branch(code.let(f"icmp ne ptr {wanted}, null"), set_, after)
    code.label(set_)
    old = code.call("PyDataMem_SetHandler", f"ptr {handler}")
    code.jump(after)
    code.label(after)
    return code.phi("ptr", (("null", before), (old, set_)))


def _run(code: EntryRoutine, table: str) -> None:
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


def _box_numbers(code: EntryRoutine) -> None:
    """NumPy scalars of the numbers in the frame."""
    outputs = code.place(Head.OUTPUTS)
    with code.loop(code.word(Head.OUTPUT_COUNT)) as i:
        record = code.record(outputs, i, Output)
        with code.when(code.equal("i64", field(code, record, Output.NDIM), 0)):
            slot = code.address("%frame", field(code, record, Output.SLOT))
            scalar = code.call("PyArray_Scalar", f"ptr {slot}", f"ptr {field(code, record, Output.DTYPE, 'ptr')}", "ptr null")
            code.need_not_null(scalar, "failed")
            code.store(f"ptr {scalar}", code.address("%frame", field(code, record, Output.HELD)))


def _pack(code: EntryRoutine) -> None:
    """Build the containers of the result, inner ones first."""
    packings = code.place(Head.PACKINGS)
    with code.loop(code.word(Head.PACKING_COUNT)) as i:
        record = code.record(packings, i, Packing)
        count = field(code, record, Packing.COUNT)
        place = code.address("%frame", field(code, record, Packing.HELD))
        parts = code.address("%self", field(code, record, Packing.PARTS))
        keys = code.address("%self", field(code, record, Packing.KEYS))
        labels = {
            kind: code.mark(kind.name.lower()) for kind in (ObjectKind.NONE, ObjectKind.TUPLE, ObjectKind.LIST, ObjectKind.DICT)
        }
        after = code.mark("after")
        code.switch(field(code, record, Packing.KIND), labels, labels[ObjectKind.NONE])

        code.label(labels[ObjectKind.NONE])
        none = code.word(Head.NONE, "ptr")
        code.call("Py_IncRef", f"ptr {none}")
        code.store(f"ptr {none}", place)
        code.jump(after)

        for kind, name in ((ObjectKind.TUPLE, "PyTuple"), (ObjectKind.LIST, "PyList")):
            code.label(labels[kind])
            container = code.call(f"{name}_New", f"i64 {count}")
            code.need_not_null(container, "failed")
            code.store(f"ptr {container}", place)
            with code.loop(count) as j:
                part = code.give(code.address("%frame", code.load("i64", code.word_at(parts, j))))
                code.call(f"{name}_SetItem", f"ptr {container}", f"i64 {j}", f"ptr {part}")
            code.jump(after)

        code.label(labels[ObjectKind.DICT])  # adds references: the items stay owned, and are released at the end
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


def _other_exits(code: EntryRoutine) -> None:
    code.label("changed")  # a place has lost an item or an attribute, or cannot be compared
    code.call("PyErr_Clear")
    code.jump("miss")

    code.label("raised.at.place")  # an attribute that is gone, or code that raises: but Ctrl-C is obeyed
    is_error = code.call("PyErr_ExceptionMatches", f"ptr {code.word(Head.EXCEPTION, 'ptr')}")
    code.need_equal("i32", is_error, 1, "failed")
    code.jump("changed")

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
