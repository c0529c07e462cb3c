"""Split a kernel into kernels of independent results.

    kernel over (3,):                       kernel over (3,):               kernel over (3,):
      s0 = load b0                            s0 = load b0                    s0 = load b1
      s1 = sin s0                             s1 = sin s0                     store s0 to b3
      s2 = load b1                            store s1 to b2
      store s1 to b2, s2 to b3

Results over the same domain are fused, even if one depends on a long step and another is needed by a second long step. For a
parallel group they are computed separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .kernel import Kernel, Reduce, Scatter, Store
from .schedule import arrange

_FREE = ("load", "const")  # lines that may be duplicated


Result = Store | Reduce | Scatter


def parts(kernel: Kernel) -> list[list[Result]]:
    """The results of a kernel, grouped: those that share more than loads are in one list."""
    code = kernel.code
    known = list(range(len(code)))  # union-find: for each line, a line of the same part, up to its root

    def part(i: int) -> int:
        while known[i] != i:
            known[i] = i = known[known[i]]
        return i

    def joined(lines: tuple[int, ...]) -> int | None:
        """Merge the parts of some lines; returns the root."""
        found = [part(i) for i in lines if code[i].kind not in _FREE]
        for i in found:
            known[part(i)] = part(found[0])
        return part(found[0]) if found else None

    for i, line in enumerate(code):
        joined((i, *line.args))
    written: list[Result] = [*kernel.stores, *kernel.reductions, *kernel.scatters]
    for result in written:
        joined(_lines(result))
    found: dict[int, list[Result]] = {}
    for i, result in enumerate(written):
        which = joined(_lines(result))
        found.setdefault(-1 - i if which is None else which, []).append(result)
    return list(found.values())


def only(kernel: Kernel, results: Sequence[Result]) -> Kernel:
    """A kernel for some of the results."""
    needed = {line for result in results for line in _lines(result)}
    for i in reversed(range(len(kernel.code))):
        if i in needed:
            needed.update(kernel.code[i].args)
    made = Kernel(kernel.domain, lines=dict(kernel.lines))
    moved: dict[int, int] = {}
    for i in sorted(needed):
        line = kernel.code[i]
        moved[i] = made.add(line.kind, tuple(moved[a] for a in line.args), line.data, line.dtype)
    for result in results:
        if isinstance(result, Store):
            made.stores.append(Store(moved[result.scalar], result.view))
        elif isinstance(result, Reduce):
            made.reductions.append(Reduce(result.how, moved[result.scalar], result.axes, result.view))
        else:
            at = tuple(moved[a] for a in result.at)
            made.scatters.append(replace(result, scalar=moved[result.scalar], at=at))
    arrange(made)
    return made


def _lines(result: Result) -> tuple[int, ...]:
    return (result.scalar, *result.at) if isinstance(result, Scatter) else (result.scalar,)
