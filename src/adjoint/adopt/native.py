"""Native dispatch of NumPy's functions in adopted code: plain arguments go to NumPy's function at once.

    np.sin(x)       outside of transforms, x an array, a number, or a list of them: numpy.sin(x), 15 ns later
                    otherwise: adjoint.numpy.sin(x), which looks for traced values

One native function serves all: it checks the classes of the arguments, and calls one of two functions. The classes that stand
for `float` and for NumPy's scalars in adopted code become the real ones on the way, since NumPy takes a microsecond for another
class. `float(x)`, `type(x)` and `isinstance(x, float)` are native for plain x too (benchmarks/adopted.py).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.bind import depth, variables
from ..core.quick import NativePair, Quick
from ..core.types import REPLACED
from .builtin import SCALARS, SEEN, AdoptedType, Complex, Float
from .face import Face, FixedFace

#: Classes whose instances hold no traced value; the most frequent first.
_PLAIN = (
    *(np.ndarray, float, np.float64, int, str, type(None), bool, np.int64, np.bool_, slice, complex, np.complex128, type),
    *(np.float32, np.int32, type(np.dtype(float)), type(np.dtype(int)), type(np.dtype(bool)), type(np.dtype(complex))),
)
_REPLACED = tuple({id(cls): cls for cls in (Float, Complex, *SCALARS.values())}.values())
_NUMBER = type(Float)
_MOST = 8  # arguments
_DEEPEST = 3  # lists in lists
_FASTCALL_KEYWORDS = 0x80 | 0x02


def _address(x: object) -> str:
    return f"inttoptr (i64 {id(x)} to ptr)"


def _text() -> str:
    """The native function. Objects that it refers to by address live as long as their modules."""
    tests, is_plain = [], "false"
    for i, cls in enumerate(_PLAIN):
        tests.append(f"%is{i} = icmp eq ptr %class, {_address(cls)}\n %any{i} = or i1 {is_plain}, %is{i}")
        is_plain = f"%any{i}"
    chosen, real = [], "null"
    for i, cls in enumerate(_REPLACED):
        chosen.append(
            f"%is{i} = icmp eq ptr %x, {_address(cls)}\n %r{i} = select i1 %is{i}, ptr {_address(REPLACED[id(cls)])}, ptr {real}"
        )
        real = f"%r{i}"
    seen, found = [], "%class"
    for i, (cls, ours) in enumerate(SEEN.items()):
        seen.append(f"%is{i} = icmp eq ptr %class, {_address(cls)}\n %s{i} = select i1 %is{i}, ptr {_address(ours)}, ptr {found}")
        found = f"%s{i}"
    functions = ["ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)", "ptr @PyTuple_GetItem(ptr, i64)", "i64 @PyTuple_Size(ptr)"]
    functions += ["ptr @PyList_GetItem(ptr, i64)", "i64 @PyList_Size(ptr)", "i64 @PySet_Size(ptr)", "void @Py_DecRef(ptr)"]
    functions += ["i32 @PyContextVar_Get(ptr, ptr, ptr)", "i32 @PyType_IsSubtype(ptr, ptr)", "void @Py_IncRef(ptr)"]
    parts = {"tests": "\n ".join(tests), "is_plain": is_plain, "chosen": "\n ".join(chosen), "real": real}
    parts |= {"list": _address(list), "tuple": _address(tuple), "number": _address(_NUMBER), "zero": _address(0)}
    parts |= {"true": _address(True), "false": _address(False), "type": _address(AdoptedType)}
    parts |= {"seen": "\n ".join(seen), "found": found}
    parts |= {"variables": _address(variables), "depth": _address(depth), "most": str(_MOST), "deepest": str(_DEEPEST)}
    methods = [
        _METHOD.format(name=name, find=find.format(**parts), answer=answer.format(**parts))
        for name, (_, _, find, answer) in _METHODS.items()
    ]
    return "\n".join(f"declare {f}" for f in functions) + _CODE.format(**parts) + "".join(methods)


_CODE = """
define internal ptr @class_of(ptr %x) alwaysinline {{
 %place = getelementptr i8, ptr %x, i64 8
 %class = load ptr, ptr %place
 ret ptr %class
}}
define internal i1 @is_plain(ptr %x) alwaysinline {{
 %class = call ptr @class_of(ptr %x)
 {tests}
 ret i1 {is_plain}
}}
define internal ptr @real(ptr %x) {{
 {chosen}
 ret ptr {real}
}}
define internal i1 @are_plain(ptr %items, i64 %depth) {{
 %class = call ptr @class_of(ptr %items)
 %is_list = icmp eq ptr %class, {list}
 %is_tuple = icmp eq ptr %class, {tuple}
 %either = or i1 %is_list, %is_tuple
 br i1 %either, label %size, label %no
size:
 br i1 %is_list, label %of_list, label %of_tuple
of_list:
 %in_list = call i64 @PyList_Size(ptr %items)
 br label %loop
of_tuple:
 %in_tuple = call i64 @PyTuple_Size(ptr %items)
 br label %loop
loop:
 %n = phi i64 [ %in_list, %of_list ], [ %in_tuple, %of_tuple ], [ %n, %next ]
 %i = phi i64 [ 0, %of_list ], [ 0, %of_tuple ], [ %after, %next ]
 %ended = icmp sge i64 %i, %n
 br i1 %ended, label %yes, label %read
read:
 br i1 %is_list, label %from_list, label %from_tuple
from_list:
 %a = call ptr @PyList_GetItem(ptr %items, i64 %i)
 br label %test
from_tuple:
 %b = call ptr @PyTuple_GetItem(ptr %items, i64 %i)
 br label %test
test:
 %x = phi ptr [ %a, %from_list ], [ %b, %from_tuple ]
 %plain = call i1 @is_plain(ptr %x)
 br i1 %plain, label %next, label %nested
nested:
 %deepest = icmp eq i64 %depth, 0
 br i1 %deepest, label %no, label %inside
inside:
 %less = sub i64 %depth, 1
 %also = call i1 @are_plain(ptr %x, i64 %less)
 br i1 %also, label %next, label %no
next:
 %after = add i64 %i, 1
 br label %loop
yes:
 ret i1 true
no:
 ret i1 false
}}
define ptr @dispatch(ptr %self, ptr %args, i64 %flagged, ptr %names) {{
 %level = alloca ptr
 %given = alloca ptr, i64 {most}
 %made = call i64 @PySet_Size(ptr {variables})
 %is_imperative = icmp ne i64 %made, 0
 br i1 %is_imperative, label %ours, label %outside
outside:
 %status = call i32 @PyContextVar_Get(ptr {depth}, ptr null, ptr %level)
 %found = load ptr, ptr %level
 call void @Py_DecRef(ptr %found)
 %is_outside = icmp eq ptr %found, {zero}
 br i1 %is_outside, label %count, label %ours
count:
 %positional = and i64 %flagged, 9223372036854775807
 %is_unnamed = icmp eq ptr %names, null
 br i1 %is_unnamed, label %start, label %named
named:
 %by_name = call i64 @PyTuple_Size(ptr %names)
 br label %start
start:
 %k = phi i64 [ 0, %count ], [ %by_name, %named ]
 %n = add i64 %positional, %k
 %many = icmp sgt i64 %n, {most}
 br i1 %many, label %ours, label %loop
loop:
 %i = phi i64 [ 0, %start ], [ %after, %next ]
 %ended = icmp sge i64 %i, %n
 br i1 %ended, label %theirs, label %test
test:
 %place = getelementptr ptr, ptr %args, i64 %i
 %x = load ptr, ptr %place
 %plain = call i1 @is_plain(ptr %x)
 br i1 %plain, label %next, label %other
other:
 %class = call ptr @class_of(ptr %x)
 %is_number = icmp eq ptr %class, {number}
 br i1 %is_number, label %replace, label %nested
replace:
 %real = call ptr @real(ptr %x)
 %unknown = icmp eq ptr %real, null
 br i1 %unknown, label %ours, label %next
nested:
 %also = call i1 @are_plain(ptr %x, i64 {deepest})
 br i1 %also, label %next, label %ours
next:
 %value = phi ptr [ %x, %test ], [ %real, %replace ], [ %x, %nested ]
 %into = getelementptr ptr, ptr %given, i64 %i
 store ptr %value, ptr %into
 %after = add i64 %i, 1
 br label %loop
theirs:
 %numpys = call ptr @PyTuple_GetItem(ptr %self, i64 0)
 %y = call ptr @PyObject_Vectorcall(ptr %numpys, ptr %given, i64 %positional, ptr %names)
 ret ptr %y
ours:
 %z = call ptr @ours(ptr %self, ptr %args, i64 %flagged, ptr %names)
 ret ptr %z
}}
define internal ptr @ours(ptr %self, ptr %args, i64 %flagged, ptr %names) {{
 %own = call ptr @PyTuple_GetItem(ptr %self, i64 1)
 %z = call ptr @PyObject_Vectorcall(ptr %own, ptr %args, i64 %flagged, ptr %names)
 ret ptr %z
}}
define internal ptr @plain_one(ptr %args, i64 %flagged, ptr %names) {{
 %n = and i64 %flagged, 9223372036854775807
 %are_two = icmp eq i64 %n, 2
 %is_unnamed = icmp eq ptr %names, null
 %fits = and i1 %are_two, %is_unnamed
 br i1 %fits, label %test, label %no
test:
 %place = getelementptr ptr, ptr %args, i64 1
 %x = load ptr, ptr %place
 %plain = call i1 @is_plain(ptr %x)
 br i1 %plain, label %yes, label %no
yes:
 ret ptr %x
no:
 ret ptr null
}}
"""

#: A method of a class: if it is called with a plain value and the class fits, the answer, otherwise that of our method.
_METHOD = """
define ptr @{name}(ptr %self, ptr %args, i64 %flagged, ptr %names) {{
 %x = call ptr @plain_one(ptr %args, i64 %flagged, ptr %names)
 %is_other = icmp eq ptr %x, null
 br i1 %is_other, label %ours, label %find
find:
 %cls = load ptr, ptr %args
 {find}
 br i1 %fits, label %theirs, label %ours
theirs:
 {answer}
ours:
 %z = call ptr @ours(ptr %self, ptr %args, i64 %flagged, ptr %names)
 ret ptr %z
}}
"""
_FIND_REAL = "%real = call ptr @real(ptr %cls)\n %fits = icmp ne ptr %real, null"
_CONVERT = """%place = getelementptr ptr, ptr %args, i64 1
 %y = call ptr @PyObject_Vectorcall(ptr %real, ptr %place, i64 1, ptr null)
 ret ptr %y"""
_INSTANCE_CHECK = """%class = call ptr @class_of(ptr %x)
 %subtype = call i32 @PyType_IsSubtype(ptr %class, ptr %real)
 %is = icmp ne i32 %subtype, 0
 %answer = select i1 %is, ptr {true}, ptr {false}
 call void @Py_IncRef(ptr %answer)
 ret ptr %answer"""
_FIND_TYPE = "%fits = icmp eq ptr %cls, {type}"
_CLASS_SEEN = """%class = call ptr @class_of(ptr %x)
 {seen}
 call void @Py_IncRef(ptr {found})
 ret ptr {found}"""

#: Methods of the classes of `float` and `type` in adopted code that are called with plain arguments most of the time.
_METHODS = {
    "convert": (_NUMBER, "__call__", _FIND_REAL, _CONVERT),
    "instance_check": (_NUMBER, "__instancecheck__", _FIND_REAL, _INSTANCE_CHECK),
    "class_seen": (type(AdoptedType), "__call__", _FIND_TYPE, _CLASS_SEEN),
}


class _Definition(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@functools.cache
def _dispatcher() -> Any:
    """The address of the native function; None where objects have another layout than it reads."""
    is_usual = sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8
    if not is_usual or sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return None
    llvm = importlib.import_module("llvmlite.binding")  # heavy
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_text())
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    found = {name: engine.get_function_address(name) for name in ("dispatch", *_METHODS)}
    _kept.append(engine)
    for name, (cls, method, _, _) in _METHODS.items():
        setattr(cls, method, _as_method(_native(found[name], method, getattr(cls, method), getattr(cls, method))))
    return found["dispatch"]


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
    ("PyCMethod_New", ctypes.pythonapi)
)
_as_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyInstanceMethod_New", ctypes.pythonapi))
_kept: list[Any] = []  # as long as the functions live: forever


def _native(code: int, name: str, original: Any, ours: Any) -> Any:
    definition = _Definition(name.encode(), code, _FASTCALL_KEYWORDS, (original.__doc__ or "").encode())
    _kept.append(definition)
    return _new_function(
        ctypes.addressof(definition), NativePair((original, ours)), getattr(original, "__module__", None) or "numpy", None
    )


def dispatching(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A native function that calls the original with plain arguments, and ours with others and inside transforms."""
    found = _dispatcher()
    return ours if found is None else _native(found, original.__name__, original, ours)  # type: ignore[no-any-return]


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.sum), np.ufunc)


class QuickFace(FixedFace):
    """NumPy or a part of it: functions that we extend are called through native code."""

    def __getattr__(self, name: str) -> Any:
        """A name of the library; a function that we extend as a native one, which is made when it is first asked for."""
        ours = super().__getattr__(name)
        original = getattr(vars(self)["_public"], name, None)
        if ours is original or not isinstance(original, _FUNCTIONS) or isinstance(ours, type) or _dispatcher() is None:
            return ours
        made: Any = dispatching(original, ours)
        if not isinstance(original, types.BuiltinFunctionType):
            made = functools.update_wrapper(Quick(made), ours)
            made.ours = ours
        vars(self)[name] = made
        return made


def as_module(face: Face) -> types.ModuleType:
    """A face as a module of Python's own class, whose attributes Python reads faster."""
    module = types.ModuleType(face.__name__, face.__doc__)

    def read(name: str) -> Any:
        value = getattr(face, name)
        if not name.startswith("__"):
            vars(module)[name] = value  # later reads skip this function
        return value

    vars(module).update({name: x for name, x in vars(face).items() if name not in ("_original", "_public", "_world")})
    vars(module).update(__getattr__=read, __dir__=face.__dir__)
    return module
