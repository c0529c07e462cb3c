"""The order of long rows, by merging or by digits: functions for the rows of a step.

    keys of a row, each with its number:     5 2 7 1 | 3 8 6 4        blocks of `BLOCK`, each ordered by counting
                                             1 2 5 7 | 3 4 6 8        pairs of runs are merged, until one run is left
                                             1 2 3 4 5 6 7 8

A key is a whole number that compares as its element does: nan comes last, and both zeros are equal. The last block is padded with
the greatest key. Two runs of equal length are merged from both ends at once, without branches: each end takes half of the result,
so that neither leaves its runs. Merging keeps the order of equal keys.

Rows of more than `LONGEST_MERGED` elements are ordered by the digits of their keys, bytes, from the last to the first one. Each
pass keeps the order of those before it, and reads and writes the row once; a digit that is the same in all keys costs
none, as the first ones of small whole numbers. A row that is in order already stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..lower.kernel import View, size_of
from ..lower.order import BLOCK
from ..lower.step import Ordered
from .instruction import MEMORY, Code

if TYPE_CHECKING:
    from .program import StepRoutine

LONGEST_MERGED = 640  # elements of a row; up to here merging is as fast, or faster
_GREATEST = (1 << 63) - 1
_DIGITS, _VALUES = 8, 256  # of a key, and of a digit
_PAIR = "<2 x i64>"  # a key and its number
_INDEX = np.dtype(np.int64)
_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_CLEAR = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"


def emit(routine: StepRoutine, step: Ordered) -> None:
    views = (*step.operands, step.out, *step.scratch)
    code = Code()
    is_long = step.out.shape[-1] > LONGEST_MERGED
    way = (
        routine.module.function(*("digits", _digits_function()) if is_long else ("merge", _merge_function()))
        if step.scratch
        else ""
    )
    with code.loop(str(size_of(step.out.shape[:-1]))) as row:
        *given, target = (_row(code, f"%p{k}", view, row) for k, view in enumerate((*step.operands, step.out)))
        if step.scratch:
            (_by_digits if is_long else _by_merging)(code, step, given[0], target, f"%p{len(views) - 1}", way)
        else:
            _share(code, step, given[0], given[1], target)
    code.do("ret void")
    arguments = ", ".join(f"ptr noalias %p{k}" for k in range(len(views)))
    name = routine.module.function("order", code.define(f"define internal void @NAME({arguments}) nounwind noinline"))
    routine.module.declared |= {*code.declared, _COPY, _CLEAR} if step.scratch else code.declared
    routine.code.do(f"call void {name}({', '.join(f'ptr {routine.at(v)}' for v in views)})")


def _row(code: Code, pointer: str, view: View, number: str) -> str:
    """Where a row begins."""
    for length, stride in reversed([*zip(view.shape[:-1], view.strides, strict=False)]):
        index = code.let(f"urem i64 {number}, {length}")
        number = code.let(f"udiv i64 {number}, {length}")
        pointer = _element(code, pointer, view, index, stride)
    return pointer


def _element(code: Code, pointer: str, view: View, index: str, stride: int | None = None) -> str:
    step = code.let(f"mul nsw i64 {index}, {view.strides[-1] if stride is None else stride}")
    return code.let(f"getelementptr inbounds {MEMORY[view.dtype]}, ptr {pointer}, i64 {step}")


def _pair(code: Code, pointer: str, index: str) -> str:
    """The address of a key; its number is behind it."""
    return code.let(f"getelementptr inbounds {_PAIR}, ptr {pointer}, i64 {index}")


def _number(code: Code, pair: str) -> str:
    return code.let(f"getelementptr inbounds i64, ptr {pair}, i64 1")


def _by_digits(code: Code, step: Ordered, source: str, target: str, memory: str, digits: str) -> None:
    """The numbers of the elements of a row, in order."""
    n = step.out.shape[-1]
    _keys(code, step, source, memory)
    found = code.let(f"call ptr {digits}(ptr {memory}, ptr {_pair(code, memory, str(n))}, i64 {n})")
    _numbers(code, step, found, target)


def _keys(code: Code, step: Ordered, source: str, memory: str) -> None:
    """The keys of a row, each with its number."""
    (x,) = step.operands
    with code.loop(str(step.out.shape[-1])) as i:
        key = _key(code, code.load(_element(code, source, x, i), x.dtype), x)
        pair = _pair(code, memory, i)
        code.store(key, pair, _INDEX)
        code.store(i, _number(code, pair), _INDEX)


def _numbers(code: Code, step: Ordered, memory: str, target: str) -> None:
    """The numbers behind the keys, as a row."""
    with code.loop(str(step.out.shape[-1])) as i:
        found = code.load(_number(code, _pair(code, memory, i)), _INDEX)
        code.store(found, _element(code, target, step.out, i), _INDEX)


def _by_merging(code: Code, step: Ordered, source: str, target: str, memory: str, merge: str) -> None:
    """The numbers of the elements of a row, in order."""
    n = step.out.shape[-1]
    padded = -(-n // BLOCK) * BLOCK
    first, second = memory, _pair(code, memory, str(padded))
    _keys(code, step, source, memory)
    for k in range(n, padded):
        pair = _pair(code, first, str(k))
        code.store(str(_GREATEST), pair, _INDEX)
        code.store(str(k), _number(code, pair), _INDEX)
    with code.iterations("0", str(padded), BLOCK) as block:
        _by_counting(code, _pair(code, first, block), _pair(code, second, block))
    width = BLOCK
    while width < padded:
        first, second, width = second, first, 2 * width
        code.do(f"call void {merge}(ptr {first}, ptr {second}, i64 {padded}, i64 {width // 2})")
    _numbers(code, step, second, target)


def _key(code: Code, value: str, view: View) -> str:
    """Of fewer than 64 bits a key is not negative, so that its first digits are 0."""
    kind, dtype = MEMORY[view.dtype], view.dtype
    if dtype.kind == "b":
        return code.let(f"zext i1 {value} to i64")
    if dtype.kind == "f":
        if dtype.itemsize == 2:
            value = code.let(f"fpext {kind} {value} to float")
        return _key_of_float(code, value, "double" if dtype.itemsize == 8 else "float", 64 if dtype.itemsize == 8 else 32)
    bits = 8 * dtype.itemsize
    if dtype.kind == ("u" if bits == 64 else "i"):
        value = code.let(f"xor {kind} {value}, {-1 << bits - 1}")
    return value if bits == 64 else code.let(f"zext {kind} {value} to i64")


def _key_of_float(code: Code, value: str, kind: str, size: int) -> str:
    is_nan = code.let(f"fcmp uno {kind} {value}, {value}")
    bits = code.let(f"bitcast {kind} {code.let(f'fadd {kind} {value}, 0.0')} to i{size}")  # -0.0 + 0.0 is 0.0
    negative = code.let(f"ashr i{size} {bits}, {size - 1}")
    greatest = (1 << size - 1) - 1
    key = code.let(f"xor i{size} {bits}, {code.let(f'and i{size} {negative}, {greatest}')}")
    key = code.let(f"select i1 {is_nan}, i{size} {greatest}, i{size} {key}")
    return key if size == 64 else code.let(f"zext i{size} {code.let(f'xor i{size} {key}, {-1 << size - 1}')} to i64")


def _by_counting(code: Code, source: str, target: str) -> None:
    """A block in order: the place of a key is the number of those that come before it."""
    pairs, keys = f"<{2 * BLOCK} x i64>", f"<{BLOCK} x i64>"
    code.declared.add(f"declare i{BLOCK} @llvm.ctpop.i{BLOCK}(i{BLOCK})")
    both = code.let(f"load {pairs}, ptr {source}, align 16")
    wanted = ", ".join(f"i32 {2 * k}" for k in range(BLOCK))
    key = code.let(f"shufflevector {pairs} {both}, {pairs} poison, <{BLOCK} x i32> <{wanted}>")
    for k in range(BLOCK):
        same = ", ".join([f"i32 {k}"] * BLOCK)
        own = code.let(f"shufflevector {keys} {key}, {keys} poison, <{BLOCK} x i32> <{same}>")
        less, equal = (code.let(f"icmp {how} {keys} {key}, {own}") for how in ("slt", "eq"))
        less, equal = (code.let(f"bitcast <{BLOCK} x i1> {mask} to i{BLOCK}") for mask in (less, equal))
        before = code.let(f"or i{BLOCK} {less}, {code.let(f'and i{BLOCK} {equal}, {(1 << k) - 1}')}")
        place = code.let(f"zext i{BLOCK} {code.let(f'call i{BLOCK} @llvm.ctpop.i{BLOCK}(i{BLOCK} {before})')} to i64")
        pair = code.let(f"load {_PAIR}, ptr {_pair(code, source, str(k))}, align 16")
        code.do(f"store {_PAIR} {pair}, ptr {_pair(code, target, place)}, align 16")


def _digits_function() -> str:
    """Order keys by their digits; the result is where they are in the end, which is one of both arrays."""
    code = Code()
    unordered = code.mark("unordered")
    with code.iterations("1", "%length") as i:
        before, key = (code.load(_pair(code, "%first", k), _INDEX) for k in (code.let(f"sub nsw i64 {i}, 1"), i))
        code.need(code.let(f"icmp sle i64 {before}, {key}"), unordered)
    code.do("ret ptr %first")
    code.label(unordered)
    counts = code.variable(f"[{_DIGITS * _VALUES} x i64], align 64")
    source, target = code.variable("ptr"), code.variable("ptr")
    code.do(f"call void @llvm.memset.p0.i64(ptr align 64 {counts}, i8 0, i64 {8 * _DIGITS * _VALUES}, i1 false)")
    code.do(f"store ptr %first, ptr {source}")
    code.do(f"store ptr %second, ptr {target}")
    with code.loop("%length") as i:
        key = _in_order_of_bits(code, code.load(_pair(code, "%first", i), _INDEX))
        for k in range(_DIGITS):
            _next_place(code, _place(code, counts, str(k * _VALUES)), _digit(code, key, str(8 * k)))
    with code.loop(str(_DIGITS)) as digit:
        now, then = (code.let(f"load ptr, ptr {p}") for p in (source, target))
        places = _place(code, counts, code.let(f"mul nuw nsw i64 {digit}, {_VALUES}"))
        shift = code.let(f"shl nuw nsw i64 {digit}, 3")
        value = _digit(code, _in_order_of_bits(code, code.load(now, _INDEX)), shift)
        is_common = code.let(f"icmp eq i64 {code.load(_place(code, places, value), _INDEX)}, %length")
        with code.when(code.let(f"xor i1 {is_common}, true")):
            loop = code.repeat([("i64", "0")])
            place = _place(code, places, loop.index)
            count = code.load(place, _INDEX)
            code.store(loop.values[0], place, _INDEX)
            loop.close(str(_VALUES), [code.let(f"add nuw nsw i64 {loop.values[0]}, {count}")])
            with code.loop("%length") as i:
                pair = _pair(code, now, i)
                value = _digit(code, _in_order_of_bits(code, code.load(pair, _INDEX)), shift)
                moved = code.let(f"load {_PAIR}, ptr {pair}, align 16")
                code.do(f"store {_PAIR} {moved}, ptr {_pair(code, then, _next_place(code, places, value))}, align 16")
            code.do(f"store ptr {then}, ptr {source}")
            code.do(f"store ptr {now}, ptr {target}")
    code.do(f"ret ptr {code.let(f'load ptr, ptr {source}')}")
    return code.define("define internal ptr @NAME(ptr noalias %first, ptr noalias %second, i64 %length) nounwind noinline")


def _in_order_of_bits(code: Code, key: str) -> str:
    """A key as a number without a sign, which has the order of its digits."""
    return code.let(f"xor i64 {key}, {-1 << 63}")


def _digit(code: Code, key: str, shift: str) -> str:
    return code.let(f"and i64 {code.let(f'lshr i64 {key}, {shift}')}, {_VALUES - 1}")


def _place(code: Code, places: str, index: str) -> str:
    return code.let(f"getelementptr inbounds i64, ptr {places}, i64 {index}")


def _next_place(code: Code, places: str, value: str) -> str:
    """The number for a digit, which is one more afterwards."""
    place = _place(code, places, value)
    number = code.load(place, _INDEX)
    code.store(code.let(f"add nuw nsw i64 {number}, 1"), place, _INDEX)
    return number


def _merge_function() -> str:
    """Merge the runs of a width, two by two."""
    code = Code()
    wide = code.let("shl nuw nsw i64 %width, 1")
    most = code.let(f"sub nsw i64 {code.let(f'add nuw nsw i64 %length, {wide}')}, 1")
    with code.loop(code.let(f"udiv i64 {most}, {wide}")) as number:
        low = code.let(f"mul nuw nsw i64 {number}, {wide}")
        middle = code.smaller(code.let(f"add nuw nsw i64 {low}, %width"), "%length")
        high = code.smaller(code.let(f"add nuw nsw i64 {middle}, %width"), "%length")
        merging, whole, part, copied, done = map(code.mark, ("merging", "whole", "part", "copied", "done"))
        last = _pair(code, "%source", code.let(f"sub nsw i64 {middle}, 1"))
        following = _pair(code, "%source", code.smaller(middle, code.let(f"sub nsw i64 {high}, 1")))
        is_ordered = code.let(f"icmp sle i64 {code.load(last, _INDEX)}, {code.load(following, _INDEX)}")
        is_alone = code.let(f"icmp eq i64 {middle}, {high}")
        code.branch(code.let(f"or i1 {is_ordered}, {is_alone}"), copied, merging)
        code.label(merging)
        is_full = code.let(f"icmp eq i64 {code.let(f'sub nsw i64 {high}, {middle}')}, %width")
        code.branch(is_full, whole, part)
        code.label(whole)
        _merge_whole(code, low, middle, high)
        code.jump(done)
        code.label(part)
        _merge_part(code, low, middle, high)
        code.jump(done)
        code.label(copied)
        size = code.let(f"shl nuw nsw i64 {code.let(f'sub nsw i64 {high}, {low}')}, 4")
        ends = f"ptr {_pair(code, '%target', low)}, ptr {_pair(code, '%source', low)}"
        code.do(f"call void @llvm.memcpy.p0.p0.i64({ends}, i64 {size}, i1 false)")
        code.enter(done)
    code.do("ret void")
    head = "define internal void @NAME(ptr noalias %source, ptr noalias %target, i64 %length, i64 %width) nounwind noinline"
    return code.define(head)


def _moved(code: Code, pairs: Sequence[str], taken: str, target: str) -> None:
    """Copy the first of two pairs if it is taken, or else the second; LLVM is told not to branch."""
    chosen = code.let(f"select i1 {taken}, ptr {pairs[0]}, ptr {pairs[1]}, !unpredictable !{{}}")
    code.do(f"store {_PAIR} {code.let(f'load {_PAIR}, ptr {chosen}, align 16')}, ptr {target}, align 16")


def _merge_whole(code: Code, low: str, middle: str, high: str) -> None:
    """Two runs of equal length, from both ends."""
    ends = [
        ("i64", low),
        ("i64", middle),
        ("i64", code.let(f"sub nsw i64 {middle}, 1")),
        ("i64", code.let(f"sub nsw i64 {high}, 1")),
    ]
    loop = code.repeat(ends)
    i, j, p, q = loop.values
    pairs = [_pair(code, "%source", at) for at in loop.values]
    keys = [code.load(pair, _INDEX) for pair in pairs]
    is_left = code.let(f"icmp sle i64 {keys[0]}, {keys[1]}")
    is_late = code.let(f"icmp sgt i64 {keys[2]}, {keys[3]}")
    _moved(code, pairs[:2], is_left, _pair(code, "%target", code.let(f"add nsw i64 {low}, {loop.index}")))
    back = code.let(f"sub nsw i64 {ends[3][1]}, {loop.index}")
    _moved(code, pairs[2:], is_late, _pair(code, "%target", back))
    left, late = (code.let(f"zext i1 {one} to i64") for one in (is_left, is_late))
    following = code.let(f"add nsw i64 {i}, {left}")
    other = code.let(f"sub nsw i64 {code.let(f'add nsw i64 {j}, 1')}, {left}")
    before = code.let(f"sub nsw i64 {p}, {late}")
    rest = code.let(f"add nsw i64 {code.let(f'sub nsw i64 {q}, 1')}, {late}")
    loop.close("%width", [following, other, before, rest])


def _merge_part(code: Code, low: str, middle: str, high: str) -> None:
    """Two runs, of which the second is shorter."""
    loop = code.repeat([("i64", low), ("i64", middle)], low)
    i, j = loop.values
    last = [code.let(f"sub nsw i64 {end}, 1") for end in (middle, high)]
    pairs = [_pair(code, "%source", code.smaller(at, end)) for at, end in zip((i, j), last, strict=True)]
    keys = [code.load(pair, _INDEX) for pair in pairs]
    fits = code.let(f"icmp sle i64 {keys[0]}, {keys[1]}")
    has_left, no_right = code.let(f"icmp slt i64 {i}, {middle}"), code.let(f"icmp sge i64 {j}, {high}")
    is_left = code.let(f"and i1 {has_left}, {code.let(f'or i1 {fits}, {no_right}')}")
    _moved(code, pairs, is_left, _pair(code, "%target", loop.index))
    left = code.let(f"zext i1 {is_left} to i64")
    following = code.let(f"add nsw i64 {i}, {left}")
    loop.close(high, [following, code.let(f"sub nsw i64 {code.let(f'add nsw i64 {j}, 1')}, {left}")])


def _share(code: Code, step: Ordered, values: str, keys: str, target: str) -> None:
    """The mean of the values over equal keys, which are neighbours; the sum is in double precision, and then rounded."""
    (v, k), out, n = step.operands, step.out, str(step.out.shape[-1])
    is_wide = MEMORY[v.dtype] == "double"

    def value_at(index: str) -> str:
        value = code.load(_element(code, values, v, index), v.dtype)
        return value if is_wide else code.let(f"fpext float {value} to double")

    begin, entered, run, again, ended, write, done = map(code.mark, ("begin", "runs", "run", "again", "ended", "write", "shared"))
    code.enter(begin)
    code.enter(entered)
    first, end = code.fresh(), code.fresh()
    code.do(f"{first} = phi i64 [ 0, %{begin} ], [ {end}, %{write} ]")
    key = code.load(_element(code, keys, k, first), k.dtype)
    start = value_at(first)
    code.jump(run)
    code.label(run)
    total, following = code.fresh(), code.fresh()
    code.do(f"{total} = phi double [ {start}, %{entered} ], [ {following}, %{again} ]")
    place = len(code.lines) - 1
    at = code.fresh()
    code.lines.insert(place, f"  {at} = phi i64 [ {first}, %{entered} ], [ {end}, %{again} ]")
    code.do(f"{end} = add nuw nsw i64 {at}, 1")
    test = code.mark("test")
    code.branch(code.let(f"icmp slt i64 {end}, {n}"), test, ended)
    code.label(test)
    other = code.load(_element(code, keys, k, end), k.dtype)
    code.branch(code.compare("equal", k.dtype, key, other), again, ended)
    code.label(again)
    code.do(f"{following} = fadd double {total}, {value_at(end)}")
    code.jump(run)
    code.label(ended)
    count = code.let(f"uitofp i64 {code.let(f'sub nuw nsw i64 {end}, {first}')} to double")
    rounded = total if is_wide else code.let(f"fpext float {code.let(f'fptrunc double {total} to float')} to double")
    mean = code.let(f"fdiv double {rounded}, {count}")
    mean = mean if is_wide else code.let(f"fptrunc double {mean} to float")
    with code.iterations(first, end) as i:
        code.store(mean, _element(code, target, out, i), out.dtype)
    code.enter(write)
    code.branch(code.let(f"icmp slt i64 {end}, {n}"), entered, done)
    code.label(done)
