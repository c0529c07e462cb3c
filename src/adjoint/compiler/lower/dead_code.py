"""Dead code elimination: unused lines of kernels, and kernels that write nothing."""

from __future__ import annotations

from dataclasses import replace

from .kernel import Kernel, KernelLine
from .step import Step


def prune(steps: list[Step]) -> list[Step]:
    """Steps without unused lines and kernels."""
    for step in steps:
        if isinstance(step, Kernel):
            _prune_lines(step)
    return [step for step in steps if not isinstance(step, Kernel) or any(True for _ in step.writes())]


def needed(code: list[KernelLine], roots: set[int]) -> list[int]:
    """The lines that some lines depend on, these included, in order."""
    found, waiting = set(roots), list(roots)
    while waiting:
        fresh = set(code[waiting.pop()].args) - found
        found |= fresh
        waiting += fresh
    return sorted(found)


def _prune_lines(kernel: Kernel) -> None:
    kept = needed(kernel.code, kernel.results)
    if len(kept) == len(kernel.code):
        return
    numbers = {old: new for new, old in enumerate(kept)}
    kernel.code = [replace(kernel.code[i], args=tuple(numbers[a] for a in kernel.code[i].args)) for i in kept]
    kernel.known = {}
    kernel.stores = [replace(s, scalar=numbers[s.scalar]) for s in kernel.stores]
    kernel.reductions = [replace(r, scalar=numbers[r.scalar]) for r in kernel.reductions]
    kernel.scatters = [replace(s, scalar=numbers[s.scalar], at=tuple(numbers[a] for a in s.at)) for s in kernel.scatters]
