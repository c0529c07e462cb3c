"""Functions as LLVM text: blocks, branches and loops, compiled and called."""

import ctypes

import pytest

from adjoint.compiler.llvm import emit
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.native import load


def run(write, *args):
    """The result of `i64 f(i64 …)`, whose body is written by a function of the builder."""
    code = Builder()
    code.label("entry")
    write(code)
    head = ", ".join(f"i64 %a{i}" for i in range(len(args)))
    engine = load(emit.object_code(code.define(f"define i64 @f({head})"), quickly=True))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(engine.get_function_address("f"))
    return function(*args)


def add(code, value):
    before = code.let("load i64, ptr %total")
    code.do(f"store i64 {code.let(f'add i64 {before}, {value}')}, ptr %total")


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_loop_runs_so_many_times(count):
    def write(code):
        code.do("%total = alloca i64")
        code.do("store i64 0, ptr %total")
        with code.loop("%a0") as i:
            add(code, i)
        code.do(f"ret i64 {code.let('load i64, ptr %total')}")

    assert run(write, count) == sum(range(count))


@pytest.mark.parametrize("start, stop, step", [(0, 10, 3), (5, 5, 1), (6, 5, 1), (-4, 4, 2)])
def test_iterations_with_steps(start, stop, step):
    def write(code):
        code.do("%total = alloca i64")
        code.do("store i64 0, ptr %total")
        with code.iterations("%a0", "%a1", step) as i:
            add(code, code.let(f"mul i64 {i}, {i}"))
        code.do(f"ret i64 {code.let('load i64, ptr %total')}")

    assert run(write, start, stop) == sum(i * i for i in range(start, stop, step))


def test_carried_values():
    def write(code):  # Fibonacci's numbers
        loop = code.repeat([("i64", "0"), ("i64", "1")])
        a, b = loop.values
        loop.close("%a0", [b, code.let(f"add i64 {a}, {b}")])
        code.do(f"ret i64 {b}")

    assert [run(write, n) for n in (1, 2, 3, 10)] == [1, 1, 2, 55]


@pytest.mark.parametrize("x", [-3, 0, 5])
def test_branches(x):
    def write(code):
        code.do("%out = alloca i64")
        code.do("store i64 100, ptr %out")
        with code.when(code.let("icmp slt i64 %a0, 0")):
            code.do("store i64 -1, ptr %out")
        code.need(code.let("icmp sle i64 %a0, 0"), "large")
        code.do(f"ret i64 {code.let('load i64, ptr %out')}")
        code.label("large")
        code.do("ret i64 1")

    assert run(write, x) == (-1 if x < 0 else 100 if x == 0 else 1)


def test_switches_and_names():
    def write(code):
        code.switch("%a0", {1: "one", 7: "seven"}, "other")
        for label, value in (("one", 10), ("seven", 70), ("other", 0)):
            code.label(label)
            code.do(f"ret i64 {value}")

    assert [run(write, x) for x in (1, 7, 3)] == [10, 70, 0]
    code = Builder()
    assert len({code.fresh() for _ in range(5)} | {code.mark("x") for _ in range(5)}) == 10
