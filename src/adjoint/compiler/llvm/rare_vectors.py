"""Vector forms of slow paths (`vecmath/rare.py`): a vectorized loop has one branch for all lanes of a vector, not one for each.

    if any(is_rare):                            the form, inlined in the loop after it is vectorized
        for i in lanes where is_rare[i]:        a function, called out of line
            x[i] = rare.sin(x[i])

LLVM's vectorizer calls a masked form in every iteration, without a branch. So it sees declared forms only; their definitions,
which have the branch, are linked to the optimised module and inlined there. A branch and a call per lane would be half of the
machine code of a kernel with sines, and most of the time that LLVM takes for it. For other numbers of lanes it stays with these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from .slow_paths import FUNCTION, names_in

LANES = (2, 4, 8, 16)
# Texts, not compiled patterns: few processes need them.
_CLAIM = r'"vector-function-abi-variant"="(_ZGV_LLVM_M\d+(v+)_(adjoint\.rare\.[\w.]+)\([\w.]+\))"'
_LOCAL = r"(?m)^define internal (?:double|float) @(adjoint\.rare\.[\w.]+)\("
_KEPT = r"(?m)^(@llvm\.compiler\.used = appending global) \[(\d+) x ptr\] \[(.*?)\]"
_KINDS = {"f64": "double", "f32": "float"}


class RareFunction(NamedTuple):
    """The slow path of a function, of one number at a time."""

    name: str
    arity: int

    @property
    def suffix(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def kind(self) -> str:
        return _KINDS[self.suffix]

    def form(self, lanes: int) -> str:
        return f"{self.name}.x{lanes}"

    def head(self, lanes: int, names: Iterable[str], mask: str = "") -> str:
        vector = f"<{lanes} x {self.kind}>"
        arguments = [*(f"{vector}{name}" for name in names), f"<{lanes} x i1>{mask}"]
        return f"{vector} @{self.form(lanes)}({', '.join(arguments)})"


class Forms(NamedTuple):
    """A module that defines vector forms, and the slow paths that are local functions of the other module."""

    text: str
    local: Sequence[str]


def with_forms(text: str) -> tuple[str, Forms | None]:
    """A module in which slow paths have vector forms, only declared, and what to link to it.

    A module that is linked does not see local functions. So all slow paths are global until then.
    """
    if "adjoint.rare." not in text:
        return text, None
    claims = dict.fromkeys(RareFunction(name, len(letters)) for _, letters, name in re.findall(_CLAIM, text))
    in_loops = _in_loops(text) if claims else ()
    found = [rare for rare in claims if rare.name in in_loops]
    if not found:
        return text, None
    local = re.findall(_LOCAL, text)
    text = re.sub(_LOCAL, lambda m: m[0].replace(" internal", "", 1), text)
    declared = [f"declare {rare.head(lanes, [''] * rare.arity)}" for rare in found for lanes in LANES]
    kept = [rare.form(lanes) for rare in found for lanes in LANES]
    text = re.sub(_CLAIM, lambda m: _claimed(m) if m[3] in in_loops else m[0], text)
    text = re.sub(_KEPT, lambda m: _used(m, kept), text)
    return "\n".join([text, *declared]), Forms(_definitions(found), local)


def link(module: Any, forms: Forms, context: Any) -> None:
    """Add the definitions of the forms, to be inlined."""
    module.link_in(llvm.parse_assembly(forms.text, context))
    for name in forms.local:
        module.get_function(name).linkage = "internal"


def _in_loops(text: str) -> set[str]:
    """The slow paths of functions that loops over points call: not out of line, nor for one number alone."""
    calls = {names[0]: names[1:] for names in map(names_in, FUNCTION.findall(text))}
    used = {name for kernel, names in calls.items() if not kernel.startswith("adjoint.") for name in names}
    used = {name for name in used if not name.endswith(".apart") and ".alone." not in name}
    return {name for function in used for name in calls.get(function, ()) if name.startswith("adjoint.rare.")}


def _claimed(found: re.Match[str]) -> str:
    first, letters, name = found.groups()
    rare = RareFunction(name, len(letters))
    forms = [f"_ZGV_LLVM_M{lanes}{letters}_{name}({rare.form(lanes)})" for lanes in LANES]
    return f'"vector-function-abi-variant"="{",".join([first, *forms])}"'


def _used(found: re.Match[str], names: Iterable[str]) -> str:
    """The array of what the optimiser must not remove, with more names."""
    more = [f"ptr @{name}" for name in names]
    return f"{found[1]} [{int(found[2]) + len(more)} x ptr] [{', '.join([found[3], *more])}]"


def _definitions(functions: Iterable[RareFunction]) -> str:
    functions = sorted(functions)
    lines = [f"declare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)" for lanes in LANES]
    lines.append("declare i64 @llvm.cttz.i64(i64, i1)")
    for rare in functions:
        lines.append(f"declare {rare.kind} @{rare.name}({', '.join([rare.kind] * rare.arity)})")
        lines += [_form(rare, lanes) for lanes in LANES]
    by_type = {(rare.suffix, rare.arity): rare for rare in functions}
    return "\n".join([*lines, *map(_lanes, by_type.values()), '!0 = !{!"branch_weights", i32 1, i32 2000}'])


def _form(rare: RareFunction, lanes: int) -> str:
    """Only to be inlined: `available_externally`, so that none is compiled by itself."""
    vector = f"<{lanes} x {rare.kind}>"
    which = range(rare.arity)
    pointers = ", ".join(f"ptr %p{i}" for i in which)
    head = rare.head(lanes, [f" %x{i}" for i in which], " %rare")
    return "\n".join(
        [
            f"define available_externally {head} alwaysinline nounwind willreturn memory(none) {{",
            "entry:",
            *(f"  %p{i} = alloca {vector}" for i in which),
            f"  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> %rare)",
            "  br i1 %any, label %some, label %none, !prof !0",
            "some:",
            *(f"  store {vector} %x{i}, ptr %p{i}" for i in which),
            f"  %bits = bitcast <{lanes} x i1> %rare to i{lanes}",
            f"  %wide = zext i{lanes} %bits to i64",
            f"  call void @adjoint.lanes.{rare.suffix}.{rare.arity}(ptr @{rare.name}, i64 %wide, {pointers}) cold",
            f"  %slow = load {vector}, ptr %p0",
            "  br label %none",
            "none:",
            f"  %y = phi {vector} [ poison, %entry ], [ %slow, %some ]",
            f"  ret {vector} %y",
            "}",
        ]
    )


def _lanes(rare: RareFunction) -> str:
    """Replaces the first numbers of some lanes by the values of a function; a bit is set for each of these lanes."""
    kind, which = rare.kind, range(rare.arity)
    pointers = ", ".join(f"ptr %p{i}" for i in which)
    return "\n".join(
        [
            f"define internal void @adjoint.lanes.{rare.suffix}.{rare.arity}(ptr %f, i64 %bits, {pointers})"
            " noinline optnone nounwind cold {",
            "entry:",
            "  br label %lane",
            "lane:",
            "  %left = phi i64 [ %bits, %entry ], [ %rest, %lane ]",
            "  %i = call i64 @llvm.cttz.i64(i64 %left, i1 true)",
            *(f"  %a{i} = getelementptr {kind}, ptr %p{i}, i64 %i" for i in which),
            *(f"  %x{i} = load {kind}, ptr %a{i}" for i in which),
            f"  %y = call {kind} %f({', '.join(f'{kind} %x{i}' for i in which)})",
            f"  store {kind} %y, ptr %a0",
            "  %less = sub i64 %left, 1",
            "  %rest = and i64 %left, %less",
            "  %more = icmp ne i64 %rest, 0",
            "  br i1 %more, label %lane, label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )
