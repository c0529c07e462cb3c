"""Native entry points, with small programs written by hand in LLVM IR."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import gc
import pathlib
import re
import sys
import threading
import time
import tracemalloc
import weakref

import llvmlite.binding as llvm
import numpy as np
import pytest

from adjoint.compiler.runtime import cpython as interpreter
from adjoint.compiler.runtime.entry import GUARD_MISSED, MISS, Input, bind_entry, entry_text, opens_natively, packs_natively
from adjoint.core.errors import UnsupportedError
from adjoint.core.tree import flatten
from adjoint.core.types import Type

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def machine(**options):
    return llvm.Target.from_default_triple().create_target_machine(opt=1, **options)


def load(text, name, **options):
    """Compile a module; the engine and the address of one function."""
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine(**options))
    engine.finalize_object()
    return engine, engine.get_function_address(name)


ENTRY, ENTRY_ADDRESS = load(entry_text(), "entry")


def bind(program, inputs, outputs, keep=(), **options):
    engine, address = load(program, "program")
    return bind_entry(ENTRY_ADDRESS, address, inputs, outputs, keep=(engine, keep), **options)


def body(code):
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @adjoint_PyErr_SetObject(ptr, ptr)
define i32 @program(ptr %table, ptr %env) {{
{code}
}}"""


def copying(types, start=None):
    """Output i is input i."""
    start = len(types) if start is None else start
    lines = []
    for i, type in enumerate(types):
        size = type.size * type.dtype.itemsize
        lines.append(f"""
  %from{i} = getelementptr ptr, ptr %table, i64 {i}
  %to{i} = getelementptr ptr, ptr %table, i64 {start + i}
  %x{i} = load ptr, ptr %from{i}
  %y{i} = load ptr, ptr %to{i}
  call void @llvm.memcpy.p0.p0.i64(ptr %y{i}, ptr %x{i}, i64 {size}, i1 false)""")
    return body("".join(lines) + "\n  ret i32 0")


def returning(code):
    return body(f"  ret i32 {code}")


def identity(tree, weak=(), **options):
    """A compiled function that gives a copy of its one argument."""
    leaves, structure = flatten(tree)
    types = [Type.of(leaf) for leaf in leaves]
    inputs = [
        Input(t, type(leaf) if type(leaf) in (float, int, bool, complex) else None) for t, leaf in zip(types, leaves, strict=True)
    ]
    return bind(copying(types), inputs, types, arguments=[structure], result=structure, **options)


F8 = np.dtype(np.float64)
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G"]


# What fits


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 0, 3), (2, 3), (1, 1, 4), (2, 1) * 10], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_and_shape(dtype, shape):
    x = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    y = identity(x)(x)
    assert y is not MISS
    assert type(y) is (np.ndarray if shape else x.dtype.type)
    assert y.dtype == x.dtype
    assert y.shape == shape
    assert np.array_equal(x, y)
    if shape:
        assert y.flags.c_contiguous
        assert y.flags.owndata
        assert y.flags.writeable
        assert not np.shares_memory(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars(dtype):
    x = np.dtype(dtype).type(1)
    y = identity(x)(x)
    assert type(y) is type(x)
    assert y == 1


@pytest.mark.parametrize(
    "x", [0.0, -1.5, float("inf"), 5e-324, 0, -1, 2**63 - 1, -(2**63), 10**9, True, False, 1 - 2j, complex(0, 1e300)]
)
def test_python_numbers(x):
    y = identity(x)(x)
    assert type(y) is np.dtype(type(x)).type
    assert y == x
    assert np.isnan(identity(1.0)(float("nan")))


def test_read_only_and_borrowed_memory_fits():
    x = np.arange(4.0)
    x.flags.writeable = False
    f = identity(x)
    assert np.array_equal(f(x), x)
    assert np.array_equal(f(np.arange(8.0)[2:6]), [2, 3, 4, 5])
    assert np.array_equal(f(np.frombuffer(np.arange(4.0).tobytes())), x)


def test_strides_of_axes_of_length_one_do_not_matter():
    f = identity(np.ones((1, 3)))
    assert f(np.ones((5, 3))[::-2][:1]) is not MISS
    assert f(np.ones((1, 3), order="F")) is not MISS


def test_other_names_of_a_dtype_fit():
    x = np.arange(3)
    f = identity(x)
    for dtype in (np.longlong, np.intp, np.dtype("l"), np.dtype("<i8").newbyteorder("<"), np.dtype(np.int64, metadata={"a": 1})):
        if np.dtype(dtype) == np.int64:
            assert np.array_equal(f(x.astype(dtype)), x)
    f = identity(np.arange(3, dtype=np.longlong))
    assert np.array_equal(f(x), x)


# What does not


class Sub(np.ndarray):
    pass


class SubFloat(float):
    pass


class SubList(list):
    pass


NONSENSE = [
    "3",
    b"3",
    None,
    ...,
    NotImplemented,
    object(),
    np.ndarray,
    float,
    [],
    {},
    (),
    set(),
    lambda: 0,
    10**30,
    -(10**30),
    2**63,
    0,
    1.0,
    True,
    1j,
    SubFloat(1),
    np.float64(1),
    np.float32(1),
    np.int64(1),
    np.longlong(1),
    np.True_,
    np.str_("x"),
    np.datetime64("2020-01-01"),
    np.void(b"abc"),
    np.array(None),
    np.array([None, 1, 2]),
    np.array(["a", "b", "c"]),
    np.array([b"a", b"b", b"c"]),
    np.zeros(3, "m8[s]"),
    np.zeros(3, [("a", "f8")]),
    np.zeros(3, "V8"),
    np.zeros(3, np.dtypes.StringDType()),
    np.zeros(3, ">f8"),
    np.zeros(3, ">i8"),
    np.zeros((3, 1)),
    np.zeros((1, 3)),
    np.zeros(()),
    np.zeros(4),
    np.zeros(0),
    np.zeros(3, "f4"),
    np.zeros(3, "u8"),
    np.zeros(3, "c16"),
    np.zeros(6)[::2],
    np.zeros(3)[::-1],
    np.broadcast_to(0.0, 3),
    np.frombuffer(bytearray(25), "f8", 3, 1),
    np.zeros(3).view(Sub),
    np.ma.zeros(3),
    np.zeros(3).data,
    memoryview(b"abc"),
]


@pytest.mark.parametrize(
    "x, fitting",
    [
        (np.ones(3), []),
        (np.float64(1), [np.float64(1), np.zeros(())]),
        (np.int64(1), [np.int64(1)]),
        (np.True_, [np.True_]),
        (1.0, [1.0]),
        (1, [0]),
        (True, [True]),
        (1j, [1j]),
        (None, [None]),
        ([1.0], []),
        ((np.ones(3),), []),
        ({"a": 1.0}, []),
    ],
    ids=repr,
)
def test_nonsense_is_a_miss(x, fitting):
    f = identity(x)
    assert f(x) is not MISS
    assert repr([bad for bad in NONSENSE if f(bad) is not MISS]) == repr(fitting)
    for arguments in ((), (x, x), (x,) * 50, (None, x)):
        assert f(*arguments) is MISS
    assert f(x, key=1) is MISS
    assert f(x=x) is MISS


def test_python_numbers_are_not_numpy_scalars():
    strong, weak = identity(np.float64(1)), identity(1.0)
    assert strong(1.0) is MISS
    assert weak(np.float64(1)) is MISS
    assert weak(1) is MISS
    assert identity(1)(True) is MISS
    assert identity(True)(1) is MISS
    assert strong(np.array(1.0)) == 1.0
    assert strong(np.array(1.0, ">f8")) is MISS
    assert strong(np.frombuffer(bytearray(9), "f8", 1, 1).reshape(())) is MISS


def test_fortran_order_is_a_miss():
    f = identity(np.ones((2, 3)))
    assert f(np.ones((2, 3), order="F")) is MISS
    assert f(np.ones((3, 2)).T) is MISS
    assert f(np.ones((2, 6))[:, ::2]) is MISS
    assert f(np.ones((2, 3)).swapaxes(0, 1)) is MISS


# Containers


@dataclasses.dataclass
class Pair:
    a: object
    b: object


Named = collections.namedtuple("Named", "a b")

X, Y = np.arange(3.0), np.arange(6.0).reshape(2, 3)
TREES = [
    (X, Y),
    [X, Y],
    {"w": X, "b": Y},
    (),
    [],
    {},
    None,
    (None, X),
    [X, (Y, [X, {"a": 1.0, "b": (2, True)}]), None],
    {"layers": [{"w": Y, "b": X}, {"w": X, "b": X}], "scale": 2.0},
    ((((X,),),),),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_containers(tree):
    f = identity(tree)
    y = f(tree)
    assert y is not MISS
    leaves, structure = flatten(y)
    expected, wanted = flatten(tree)
    assert structure == wanted
    assert all(np.array_equal(a, b) for a, b in zip(leaves, expected, strict=True))
    for bad in [*TREES, *NONSENSE, SubList([X, Y]), Named(X, Y), Pair(X, Y), collections.OrderedDict(w=X, b=Y)]:
        if flatten(bad)[1] != wanted:
            assert f(bad) is MISS


def test_dicts_match_by_key_and_order():
    f = identity({"w": X, "b": Y})
    result = f({"w": X, "b": Y})
    assert list(result) == ["w", "b"]
    assert np.array_equal(result["b"], Y)
    assert f({"w": X}) is MISS
    assert f({"w": X, "c": Y}) is MISS
    assert f({"w": X, "b": Y, "c": Y}) is MISS
    assert f({"w": Y, "b": X}) is MISS
    assert f(collections.defaultdict(None, w=X, b=Y)) is MISS


def test_which_containers_are_native():
    def structure(tree):
        return flatten(tree)[1]

    native = [*TREES, 1.0]
    assert opens_natively([structure(tree) for tree in native])
    assert all(packs_natively(structure(tree)) for tree in native)
    for tree in (Named(X, Y), Pair(X, Y), collections.OrderedDict(a=X), SubList([X]), [Named(X, Y)]):
        assert not opens_natively([structure(X), structure(tree)])
        assert not packs_natively(structure(tree))
    assert not opens_natively([structure({1: X})])
    assert packs_natively(structure({1: X, (2, 3): Y}))


def test_other_containers_are_flat():
    structure = flatten(Pair(X, Y))[1]
    types = [Type.of(X), Type.of(Y)]
    f = bind(copying(types), [Input(t) for t in types], types, arguments=[structure], result=structure)
    assert f(Pair(X, Y)) is MISS
    result = f(X, Y)
    assert type(result) is tuple
    assert np.array_equal(result[1], Y)


def test_several_arguments_and_nested_results():
    types = [Type((3,), F8), Type((), F8), Type((2, 3), F8)]
    structures = [flatten(a)[1] for a in (X, [1.0, Y])]
    f = bind(
        copying(types),
        [Input(types[0]), Input(types[1], float), Input(types[2])],
        types,
        arguments=structures,
        result=flatten((1.0, (2.0, {3: 3.0})))[1],
    )
    a, (b, c) = f(X, [2.5, Y])
    assert np.array_equal(a, X)
    assert b == 2.5
    assert np.array_equal(c[3], Y)
    assert f(X, [2.5]) is MISS
    assert f(X, (2.5, Y)) is MISS
    assert f([2.5, Y], X) is MISS


def test_no_arguments_and_no_results():
    assert bind(returning(0), [], [])() == ()
    assert bind(returning(0), [], [], result=flatten(None)[1])() is None
    assert bind(returning(0), [], [])(1) is MISS


LONG = [[np.full(2, float(i)) for i in range(5000)], tuple(float(i) for i in range(5000))]


@pytest.mark.parametrize("tree", LONG, ids=["list", "tuple"])
def test_thousands_of_inputs(tree):
    leaves, structure = flatten(tree)
    last = Type.of(leaves[-1])
    code = f"""
  %from = getelementptr ptr, ptr %table, i64 4999
  %to = getelementptr ptr, ptr %table, i64 5000
  %x = load ptr, ptr %from
  %y = load ptr, ptr %to
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 {8 * last.size}, i1 false)
  ret i32 0"""
    weak = float if last.shape == () else None
    f = bind(body(code), [Input(last, weak)] * 5000, [last], arguments=[structure], result=flatten(1.0)[1])
    assert np.array_equal(f(tree), tree[-1])
    assert f(tree[:-1]) is MISS
    assert f(type(tree)([*tree[:-1], None])) is MISS


def test_keys_of_other_classes_are_not_compared():
    """Their `__eq__` could raise, or empty the dict."""

    class Bad:
        def __hash__(self):
            return hash("b")

        def __eq__(self, other):
            raise RuntimeError("compared")

    assert identity({"a": [np.arange(1000.0)], "b": X})({"a": [np.arange(1000.0)], Bad(): X}) is MISS


# Errors


@pytest.mark.parametrize(
    "code, error",
    [
        (1, IndexError),
        (2, np.linalg.LinAlgError),
        (3, MemoryError),
        (5, np.linalg.LinAlgError),
        (9, SystemError),
        (2**31 - 1, SystemError),
        (-2, SystemError),
    ],
)
def test_codes(code, error):
    f = bind(returning(code), [Input(Type((3,), F8))], [Type((3,), F8), Type((), F8)])
    for _ in range(3):
        with pytest.raises(error):
            f(X)
    assert f(Y) is MISS


def test_own_errors():
    class CustomError(Exception):
        pass

    f = bind(returning(5), [], [Type((3,), F8)], errors={5: (CustomError, "what happened")})
    with pytest.raises(CustomError, match="what happened"):
        f()
    with pytest.raises(SystemError, match="unknown code"):
        bind(returning(3), [], [], errors={5: (CustomError, "what happened")})()
    with pytest.raises(SystemError, match="unknown code"):
        bind(returning(1), [], [], errors={})()


def test_an_exception_of_the_program():
    pair = np.array([id(KeyError), id("message")], dtype=np.uintp)
    code = """
  %second = getelementptr ptr, ptr %env, i64 1
  %class = load ptr, ptr %env
  %text = load ptr, ptr %second
  call void @adjoint_PyErr_SetObject(ptr %class, ptr %text)
  ret i32 -1"""
    f = bind(body(code), [Input(Type((3,), F8))], [Type((3,), F8)], env=pair.ctypes.data, keep=pair)
    with pytest.raises(KeyError, match="message"):
        f(X)


@pytest.mark.parametrize("first", [(), (1 << 10,)])
def test_no_memory_for_the_results(first):
    f = bind(returning(0), [Input(Type((3,), F8))], [Type(first, F8), Type((1 << 45,), F8)])
    for _ in range(3):
        with pytest.raises(MemoryError):
            f(X)


def test_mistakes_in_the_signature():
    with pytest.raises(ValueError, match="does not give"):
        Input(Type((), F8), int)
    with pytest.raises(ValueError, match="does not give"):
        Input(Type((3,), F8), float)
    with pytest.raises(ValueError, match="does not give"):
        Input(Type((), F8), str)
    for code in (-1, 0, GUARD_MISSED):
        with pytest.raises(ValueError, match="codes of errors"):
            bind(returning(0), [], [], errors={code: (ValueError, "")})
    with pytest.raises(ValueError, match="1 inputs"):
        bind(returning(0), [Input(Type((), F8))], [], arguments=[flatten((1.0, 2.0))[1]])
    with pytest.raises(ValueError, match="1 outputs"):
        bind(returning(0), [], [Type((), F8)], result=flatten((1.0, 2.0))[1])
    for dtype in ("O", "U3", "M8[s]", ">f8"):
        with pytest.raises(UnsupportedError, match="does not work on arrays of"):
            bind(returning(0), [Input(Type((), np.dtype(dtype)))], [])


# Calls that are passed on


def test_otherwise():
    calls = []

    def otherwise(*args, **keywords):
        calls.append((args, keywords))
        return "passed on"

    f = identity(X, otherwise=otherwise)
    assert np.array_equal(f(X), X)
    assert calls == []
    assert f(1, 2, three=3) == "passed on"
    assert f() == "passed on"
    assert f(x=X) == "passed on"
    assert calls == [((1, 2), {"three": 3}), ((), {}), ((), {"x": X})]


def test_functions_in_a_row():
    f = identity(X, otherwise=identity(Y, otherwise=identity(1.0)))
    for x in (X, Y, 1.0):
        assert np.array_equal(f(x), x)
    assert f(1) is MISS


def test_guards():
    x = np.arange(3.0)
    signature = [Input(Type.of(x))], [Type.of(x), Type((), F8)]
    assert bind(returning(GUARD_MISSED), *signature)(x) is MISS
    f = bind(returning(GUARD_MISSED), *signature, arguments=[flatten([x])[1]], otherwise=lambda tree: tree)
    count = sys.getrefcount(x)
    for _ in range(100):
        assert f([x])[0] is x
    assert sys.getrefcount(x) == count


def test_errors_of_otherwise():
    def otherwise(*args):
        raise ZeroDivisionError

    f = identity({"a": X}, otherwise=otherwise)
    with pytest.raises(ZeroDivisionError):
        f({"a": Y})


# Lifetime


def test_the_function_keeps_what_it_needs():
    class Owner:
        pass

    owner = Owner()
    seen = weakref.ref(owner)
    f = identity(X, keep=owner, name="a_name")
    del owner
    gc.collect()
    assert seen() is not None
    assert f.__name__ == "a_name"
    assert f(X) is not MISS
    del f
    gc.collect()
    assert seen() is None


def test_a_cycle_through_the_function_is_collected():
    class Owner:
        pass

    owner = Owner()
    owner.function = identity(X, keep=owner)
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def scenarios():
    """Calls of all kinds, each with the objects whose reference counts must not change."""
    tree = {"w": [np.arange(3.0), 1.0], "b": (np.arange(2.0), None), "n": 10**6}
    f = identity(tree)
    yield lambda: f(tree), (tree, tree["w"], *tree["w"], tree["b"], tree["b"][0], *tree)
    yield lambda: f({**tree, "n": 1.5}), (*tree["w"], tree["b"], *tree)
    yield lambda: f({"w": tree["w"], "b": tree["b"], "m": 1}), (*tree["w"], tree["b"], *tree)
    x, y = np.arange(3.0), np.float32(2)
    g = identity((x, y, 2.5, 7))
    yield lambda: g((x, y, 2.5, 7)), (x, y)
    yield lambda: g((x, y, 2.5, 10**40)), (x, y)
    h = identity(x)
    yield lambda: h(x), (x,)
    yield lambda: h(y), (y,)
    yield lambda: h(x, x), (x,)
    error = bind(returning(1), [Input(Type.of(x))], [Type.of(x), Type((), F8)], arguments=[flatten([x])[1]])
    yield lambda: error([x]), (x, IndexError)
    large = bind(returning(0), [Input(Type.of(x))], [Type.of(x), Type((1 << 45,), F8)])
    yield lambda: large(x), (x,)
    passed = identity([x], otherwise=lambda *args: args)
    yield lambda: passed([x, x]), (x,)
    unlocked = identity((x, {1: x}), release_gil=True)
    yield lambda: unlocked((x, {1: x})), (x,)


@pytest.mark.parametrize("number", range(len(list(scenarios()))))
def test_references(number):
    call, objects = list(scenarios())[number]
    shared = (MISS, None, np.dtype(float), np.dtype(np.float32), np.ndarray, float, dict, list, tuple)

    def counts():
        return np.array([sys.getrefcount(value) for value in (*objects, *shared)])

    def run():
        for _ in range(200):
            with contextlib.suppress(IndexError, MemoryError):
                call()

    run()
    before = counts()
    run()
    change = np.abs(counts() - before)
    assert np.all(change[: len(objects)] == 0)
    assert np.all(change < 50)  # others use the shared objects too, but 200 calls leave nothing


def test_memory_does_not_grow():
    calls = [call for call, _ in scenarios()]

    def run(count):
        for _ in range(count):
            for call in calls:
                with contextlib.suppress(IndexError, MemoryError):
                    call()

    run(20)
    tracemalloc.start()
    try:
        run(5)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        run(300)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 4000


# Threads


def meeting(spins):
    """A program that ends well only if two calls are inside it at once: each waits for the counter at env to reach 2."""
    return body(f"""
  %old = atomicrmw add ptr %env, i64 1 seq_cst
  br label %wait
wait:
  %i = phi i64 [0, %0], [%j, %again]
  %now = load atomic i64, ptr %env seq_cst, align 8
  %met = icmp uge i64 %now, 2
  br i1 %met, label %yes, label %again
again:
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, {spins}
  br i1 %more, label %wait, label %no
yes:
  ret i32 0
no:
  ret i32 1""")


@pytest.mark.parametrize("release_gil", [True, False])
def test_two_calls_at_once_without_the_gil(release_gil):
    counter = np.zeros(1, np.int64)
    spins = 1 << 40 if release_gil else 1 << 10
    f = bind(meeting(spins), [], [], env=counter.ctypes.data, keep=counter, release_gil=release_gil)
    if not release_gil:
        with pytest.raises(IndexError):
            f()
        return
    results = []
    threads = [threading.Thread(target=lambda: results.append(f()), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [(), ()]


def test_arrays_in_a_list_live_through_the_call():
    flag = np.zeros(1, np.int64)
    code = """
  br label %wait
wait:
  %now = load atomic i64, ptr %env seq_cst, align 8
  %go = icmp ne i64 %now, 0
  br i1 %go, label %copy, label %wait
copy:
  %to = getelementptr ptr, ptr %table, i64 1
  %x = load ptr, ptr %table
  %y = load ptr, ptr %to
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 800000, i1 false)
  ret i32 0"""
    x = np.arange(100000.0)
    structure = flatten([x])[1]
    f = bind(
        body(code),
        [Input(Type.of(x))],
        [Type.of(x)],
        arguments=[structure],
        result=flatten(x)[1],
        env=flag.ctypes.data,
        release_gil=True,
    )
    held, results = [x], []
    alive = weakref.ref(x)
    count = sys.getrefcount(x)
    thread = threading.Thread(target=lambda: results.append(f(held)), daemon=True)
    thread.start()
    end = time.monotonic() + 60
    while sys.getrefcount(x) == count and time.monotonic() < end:
        time.sleep(0.001)
    del x
    held.clear()
    assert alive() is not None
    flag[0] = 1
    thread.join(60)
    assert np.array_equal(results[0], np.arange(100000.0))
    assert alive() is None


@pytest.mark.parametrize("release_gil", [True, False])
def test_many_threads(release_gil):
    f = identity([X, 1.0, 1], release_gil=release_gil)
    failures = []

    def work(seed):
        for i in range(2000):
            a, b, c = f([np.full(3, float(seed + i)), float(i), seed])
            if not (np.all(a == seed + i) and b == i and c == seed):
                failures.append((seed, i))
            if f([None, 1.0, 1]) is not MISS:
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# The code itself


def test_the_code_holds_no_addresses():
    text = entry_text()
    assert text == entry_text()
    assert "inttoptr" not in text
    assert all(int(number) <= 1 << 16 for number in re.findall(r"(?<![\w.%])\d+\b", text))


@pytest.mark.parametrize("options", [{}, {"codemodel": "small", "reloc": "pic"}, {"codemodel": "large"}], ids=str)
def test_code_from_a_file(options):
    """Object code that is stored and loaded again, under every code model."""
    stored = machine(**options).emit_object(llvm.parse_assembly(entry_text()))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine(**options))
    engine.add_object_file(llvm.ObjectFileRef.from_data(stored))
    engine.finalize_object()
    program, address = load(copying([Type.of(X)]), "program")
    f = bind_entry(
        engine.get_function_address("entry"),
        address,
        [Input(Type.of(X))],
        [Type.of(X)],
        result=flatten(X)[1],
        keep=(engine, program),
    )
    assert np.array_equal(f(X), X)
    assert f(Y) is MISS


def test_places_in_numpys_table_are_those_of_its_header():
    header = pathlib.Path(np.get_include(), "numpy", "__multiarray_api.h").read_text()
    for name, place in interpreter.NUMPY_PLACES.items():
        found = re.search(rf"#define {name} \\\s*\(\*\([^;]*?PyArray_API\[(\d+)\]\)", header)
        assert found is not None
        assert int(found[1]) == place


def test_object_layouts():
    def word(value, offset, kind):
        return kind.from_address(id(value) + offset).value

    x = np.zeros((5, 7))
    assert word(x, interpreter.TYPE, ctypes.c_void_p) == id(np.ndarray)
    assert word(x, interpreter.ARRAY_DATA, ctypes.c_void_p) == x.ctypes.data
    assert word(x, interpreter.ARRAY_NDIM, ctypes.c_int) == 2
    assert word(x, interpreter.ARRAY_DTYPE, ctypes.c_void_p) == id(x.dtype)
    assert word(x, interpreter.ARRAY_FLAGS, ctypes.c_int) == x.flags.num
    assert word(1.5, interpreter.VALUE, ctypes.c_double) == 1.5
    assert word(np.float32(1.5), interpreter.VALUE, ctypes.c_float) == 1.5
    for dtype in interpreter.DTYPES:
        assert word(dtype, interpreter.DTYPE_NUMBER, ctypes.c_int) == dtype.num
    assert word(np.dtype(">f8"), interpreter.DTYPE_BYTE_ORDER, ctypes.c_char) == b">"


def test_interpreters_that_are_refused():
    fine = {
        "implementation": "cpython",
        "byte_order": "little",
        "pointer_size": 8,
        "counts_references": False,
        "numpy_abi": 0x02000000,
    }
    assert interpreter.refusal(**fine) is None
    for change, words in [
        ({"implementation": "pypy"}, "not in pypy"),
        ({"byte_order": "big"}, "big-endian"),
        ({"pointer_size": 4}, "32 bits"),
        ({"counts_references": True}, "release build"),
        ({"numpy_abi": 0x01000009}, "NumPy 2"),
    ]:
        assert words in interpreter.refusal(**{**fine, **change})


@pytest.mark.parametrize(("starts", "fits"), [((0, 3), True), ((3, 0), True), ((0, 2), False), ((2, 0), False), ((1, 1), False)])
def test_inputs_that_must_not_share_memory(starts, fits):
    types = [Type((3,), np.dtype(float))] * 2
    a = np.arange(6.0)
    given = [a[start : start + 3] for start in starts]
    f = bind(copying(types), [Input(t) for t in types], types, apart=[(0, 1)])
    assert (f(*given) is not MISS) == fits
    assert bind(copying(types), [Input(t) for t in types], types)(*given) is not MISS


def test_a_dict_in_another_order_does_not_fit():
    f = identity({"b": 1.0, "a": 2.0})
    assert list(f({"b": 3.0, "a": 4.0}).items()) == [("b", 3.0), ("a", 4.0)]
    assert f({"a": 4.0, "b": 3.0}) is MISS
    assert f({"".join(["b", "c"])[:1]: 3.0, "a": 4.0}) is not MISS  # an equal string
