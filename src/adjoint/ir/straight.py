"""A graph as one straight-line Python function of plain arrays, for a body that runs many times.

    def body(x0, x1):
        try:
            v2 = f0(x0, x1)
            v3 = f1(v2); del v2
            return (v3,)
        except Exception as error: ...

Each equation is a line that calls NumPy's implementation directly; a value is freed after its last use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .graph import Graph, Operand

_FIRST = 3  # the line of the first equation


def straight(graph: Graph) -> Callable[..., tuple[Any, ...]]:
    """The function of a graph's inputs that returns the tuple of its outputs."""
    count = len(graph.input_types)
    scope: dict[str, Any] = {}
    last, kept = graph.last_uses(), {o for o in graph.outputs if isinstance(o, int)}

    def text(o: Operand) -> str:
        if isinstance(o, int):
            return f"x{o}" if o < count else f"v{o}"
        name = f"k{len(scope)}"
        scope[name] = _constant(o.value)
        return name

    lines = []
    for i, equation in enumerate(graph.equations):
        arguments = [text(o) for o in equation.inputs]
        scope[f"f{i}"] = equation.op.impl
        for key, value in equation.params.items():
            scope[f"p{i}_{key}"] = value
            arguments.append(f"{key}=p{i}_{key}")
        targets = ", ".join(f"v{n}" for n in equation.outputs) + ("," if equation.op.many else "")
        read = {o for o in equation.inputs if isinstance(o, int) and o >= count and last[o] == i}
        gone = sorted((read | {n for n in equation.outputs if n not in last}) - kept)
        freed = f"; del {', '.join(f'v{n}' for n in gone)}" if gone else ""
        lines.append(f"{targets} = f{i}({', '.join(arguments)}){freed}")
    results = "".join(f"{text(o if isinstance(o, int) else o.strong())}, " for o in graph.outputs)

    def failed(error: BaseException) -> None:
        trace = error.__traceback__
        place = -1 if trace is None else trace.tb_lineno - _FIRST
        if 0 <= place < len(graph.equations):
            graph.explain(error, graph.equations[place])

    scope["failed"] = failed
    source = "\n        ".join(
        [f"def body({', '.join(f'x{i}' for i in range(count))}):\n    try:", *lines, f"return ({results})"]
    )
    source += "\n    except Exception as error:\n        failed(error)\n        raise\n"
    exec(compile(source, f"<adjoint {graph.name}>", "exec"), scope)
    return scope["body"]  # type: ignore[no-any-return]


def _constant(value: Any) -> Any:
    """A constant in the form that is fastest for NumPy. An array is passed as a read-only view: the code that returns it makes a
    copy."""
    if not isinstance(value, np.ndarray):
        return value
    if not value.ndim:
        return value[()]
    view = value.view()
    view.flags.writeable = False
    return view
