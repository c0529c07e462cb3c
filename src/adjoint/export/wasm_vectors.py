"""Programs for the vectors of WebAssembly: LLVM's text before and after it is optimised, and the machine code.

prepared(text)              loops work on two vectors at a time; strides and truths as WebAssembly has them
extrema(text)               the larger of two vectors in three instructions, where f64x2.max is nine on x86-64
with_exact_extrema(code)    relaxed vectors fuse multiplications and additions, and do nothing else
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BACK_EDGE = re.compile(r"^  br i1 %\w+, label %loop\d+, label %\w+$", re.MULTILINE)
_INDEX = re.compile(r"^  (%\w+) = (mul|add) nsw i64 (-?%?\w+), (-?%?\w+)$")
_ADDRESS = re.compile(r"^  (%\w+) = getelementptr inbounds (\w+), ptr (%\w+), i64 (%\w+)$")
_NODES = 1 << 20  # numbers of metadata, above those of the program
_TRUTH = re.compile(r"uitofp i1 (%\w+) to (double|float)$", re.MULTILINE)
_KIND = r"<\d x (?:double|float)>"
_EXTREMUM = re.compile(
    rf"  (%\S+) = (?:tail )?call (?:\w+ )*({_KIND}) @llvm\.(maximum|minimum)\.\w+\({_KIND} (.+), {_KIND} (.+)\)$"
)
_COMPARISON = re.compile(rf"  (%\S+) = fcmp (?:\w+ )*([ou][lg][te]) ({_KIND}) (.+), (\S+|splat \(.*\)|<.*>)$")
_CHOICE = re.compile(rf"  (%\S+) = select (?:\w+ )*<\d x i1> (%[\w.\-]+), ({_KIND}) (.+), {_KIND} (.+)$")
#: A comparison that is true for nans, as the opposite of one that is false for them.
_OPPOSITE = {"ult": "oge", "ule": "ogt", "ugt": "ole", "uge": "olt"}


def prepared(text: str) -> str:
    """A program that LLVM is about to optimise. A truth as a number is a choice: WebAssembly converts lane by lane."""
    return _interleaved(_TRUTH.sub(r"select i1 \1, \2 1.0, \2 0.0", text))


def extrema(text: str) -> str:
    """An optimised program, in which a choice of the larger of two vectors is the instruction for it, `a < b ? b : a`.

    A maximum is the same, and a nan where b is one: of zeros with different signs it is the first. The instructions are named,
    since LLVM writes others for relaxed vectors, whose results for nans depend on the processor.
    """
    lines: list[str] = []
    compared: dict[str, tuple[str, str, str]] = {}
    used: set[tuple[str, str]] = set()

    def larger(kind: str, which: str, a: str, b: str) -> str:
        used.add((kind, which))
        return f"call {kind} @llvm.wasm.{which}.{_suffix(kind)}({kind} {a}, {kind} {b})"

    for line in text.splitlines():
        if line.startswith("define"):
            compared = {}
        elif found := _COMPARISON.match(line):
            compared[found[1]] = found[2], found[4], found[5]
        elif (found := _CHOICE.match(line)) and found[2] in compared:
            which = _chosen(*compared[found[2]], found[4], found[5])
            line = f"  {found[1]} = {larger(found[3], *which)}" if which else line
        elif found := _EXTREMUM.match(line):
            name, kind, extremum, a, b = found.groups()
            lines += _or_nan(name, kind, larger(kind, "pmax" if extremum == "maximum" else "pmin", a, b), b)
            continue
        lines.append(line)
    declared = [f"declare {kind} @llvm.wasm.{which}.{_suffix(kind)}({kind}, {kind})" for kind, which in sorted(used)]
    return "\n".join([*lines, *declared])


def _chosen(comparison: str, x: str, y: str, if_true: str, if_false: str) -> tuple[str, str, str] | None:
    """The instruction that `x < y ? … : …` is, with its operands in order; none if something else is chosen."""
    if comparison in _OPPOSITE:
        comparison, if_true, if_false = _OPPOSITE[comparison], if_false, if_true
    if {if_true, if_false} != {x, y} or x == y:
        return None
    is_larger = (comparison in ("ogt", "oge")) == (if_true == x)
    return "pmax" if is_larger else "pmin", if_false, if_true


def _or_nan(name: str, kind: str, chosen: str, b: str) -> list[str]:
    """The lines of a maximum or a minimum: the chosen number, or a nan, which is all bits, where b is one."""
    whole, stem = kind.replace("double", "i64").replace("float", "i32"), "%extremum" + re.sub(r"\W", ".", name)
    truths = re.sub(r"double|float", "i1", kind)
    return [
        f"  {stem}.chosen = {chosen}",
        f"  {stem}.nan = fcmp uno {kind} {b}, zeroinitializer",
        f"  {stem}.mask = sext {truths} {stem}.nan to {whole}",
        f"  {stem}.bits = bitcast {kind} {stem}.chosen to {whole}",
        f"  {stem}.either = or {whole} {stem}.bits, {stem}.mask",
        f"  {name} = bitcast {whole} {stem}.either to {kind}",
    ]


def _suffix(kind: str) -> str:
    return "v2f64" if "double" in kind else "v4f32"


def _interleaved(text: str) -> str:
    """A program whose loops work on two vectors at a time; LLVM takes one for WebAssembly, and waits for it."""
    nodes: list[str] = []

    def marked(found: re.Match[str]) -> str:
        nodes.append(f"!{_NODES + len(nodes)} = distinct !{{!{_NODES + len(nodes)}, !{_NODES - 1}}}")
        return f"{found[0]}, !llvm.loop !{_NODES + len(nodes) - 1}"

    made = _BACK_EDGE.sub(marked, _strided(text))
    return "\n".join([made, f'!{_NODES - 1} = !{{!"llvm.loop.interleave.count", i32 2}}', *nodes])


def _strided(text: str) -> str:
    """A program in whose kernels strided addresses are steps of the index itself.

    LLVM computes the product of an index and a stride for all lanes at once and takes the lanes out again, which is slow here.
    A row that may begin before its array stays as it is: `inbounds` would not hold for it.
    """
    lines: list[str] = []
    products: dict[str, tuple[str, str]] = {}
    sums: dict[str, tuple[str, str]] = {}
    negative: set[str] = set()
    is_kernel = False
    for line in text.splitlines():
        if line.startswith("define"):
            products, sums, negative, is_kernel = {}, {}, set(), "@kernel" in line
        elif not is_kernel:
            pass
        elif found := _INDEX.match(line):
            name, what, left, right = found.groups()
            if any(x.startswith("-") or x in negative for x in (left, right)):
                negative.add(name)
            elif what == "add":
                sums[name] = left, right
            elif right.isdigit():
                products[name] = left, right
        elif found := _ADDRESS.match(line):
            name, kind, base, at = found.groups()
            rest, last = sums.get(at, ("0", at))
            if last in products:
                index, stride = products[last]
                if rest != "0":
                    lines.append(f"  {name}.row = getelementptr inbounds {kind}, ptr {base}, i64 {rest}")
                    base = f"{name}.row"
                line = f"  {name} = getelementptr inbounds [{stride} x {kind}], ptr {base}, i64 {index}"
        lines.append(line)
    return "\n".join(lines)


# -- relaxed vectors --------------------------------------------------------------------------------------------

_FUSED = range(0x105, 0x109)
_RELAXED = range(0x100, 0x115)
_MORE, _VECTOR = 0xFC, 0xFD  # an instruction whose number follows
#: What follows an instruction: n a number, b a byte, t a count and one number more than that, v a count and as many numbers.
_OPERANDS = {
    **dict.fromkeys((0x02, 0x03, 0x04, 0x0C, 0x0D, 0x10, 0x12, *range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42, 0xD0, 0xD2), "n"),
    **dict.fromkeys((0x11, 0x13, *range(0x28, 0x3F)), "nn"),
    0x0E: "t",
    0x1C: "v",
    0x43: "b" * 4,
    0x44: "b" * 8,
}
_OF_MORE = {8: "nn", 9: "n", 10: "nn", 11: "n", 12: "nn", 13: "n", 14: "nn", 15: "n", 16: "n", 17: "n"}
_OF_VECTORS = {
    **dict.fromkeys((*range(12), 92, 93), "nn"),
    **dict.fromkeys((12, 13), "b" * 16),
    **dict.fromkeys(range(21, 35), "b"),
    **dict.fromkeys(range(84, 92), "nnb"),
}


def is_only_fused(section: bytes) -> bool:
    """Whether the code of a module has no relaxed instruction but fused multiplications and additions."""
    return all(code not in _RELAXED or code in _FUSED for code in _vector_instructions(section))


def _vector_instructions(section: bytes) -> Iterator[int]:
    """The numbers of the vector instructions."""
    count, at = _number(section, 0)
    for _ in range(count):
        size, at = _number(section, at)
        end = at + size
        groups, at = _number(section, at)
        for _ in range(groups):  # variables: how many, and their type
            at = _number(section, at)[1] + 1
        while at < end:
            code, at = section[at], at + 1
            operands = _OPERANDS.get(code, "")
            if code in (_VECTOR, _MORE):
                number, at = _number(section, at)
                operands = (_OF_VECTORS if code == _VECTOR else _OF_MORE).get(number, "")
                if code == _VECTOR:
                    yield number
            at = _after(section, at, operands)
        assert at == end, "a function ends with its last instruction"


def _after(section: bytes, at: int, operands: str) -> int:
    """What follows the operands of an instruction."""
    for kind in operands:
        if kind == "b":
            at += 1
            continue
        count, at = _number(section, at)
        for _ in range({"n": 0, "t": count + 1, "v": count}[kind]):
            _, at = _number(section, at)
    return at


def _number(section: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, without its sign, and what follows."""
    value = shift = 0
    while True:
        byte = section[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


__all__ = ["extrema", "is_only_fused", "prepared"]
