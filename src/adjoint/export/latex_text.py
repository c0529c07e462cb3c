r"""A function and its derivatives in LaTeX, one line of mathematics for each equation.

The body of a loop, or a branch, stands below its equation as a program of its own. A long program is cut into several
`aligned` blocks, so that pages can break between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ..core.errors import boundary
from ..ir.graph import Graph
from ..view.latex import lines
from .program import Part, parts, write

LINES = 30  # of one block
_DOCUMENT = r"""\documentclass{article}
\usepackage{amsmath,amssymb}
\allowdisplaybreaks
\begin{document}
%s
\end{document}
"""


@boundary
def latex(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    derivatives: Any = (),
    argnums: Any = 0,
    document: bool = False,
    **kwargs: Any,
) -> str:
    """The equations of f, and of the derivatives asked for, in LaTeX (amsmath); a whole document if asked for."""
    found = "\n\n".join(
        text for part in parts(f, args, kwargs, derivatives=derivatives, argnums=argnums) for text in _shown(part)
    )
    return write(path, _DOCUMENT % found if document else f"{found}\n")


def _shown(part: Part) -> Iterator[str]:
    yield rf"\paragraph{{\texttt{{{_plain(part.summary)}}}}}"
    yield from _blocks(part.graph)


def _plain(text: str) -> str:
    """Text outside mathematics."""
    for sign in "_{}#%&$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("->", r"$\to$")


def _blocks(graph: Graph) -> Iterator[str]:
    written = lines(graph)
    for start in range(0, len(written), LINES):
        yield "\\[\n\\begin{aligned}\n" + " \\\\\n".join(written[start : start + LINES]) + "\n\\end{aligned}\n\\]"
    for equation in graph.equations:
        for key, inner in equation.params.items():
            if isinstance(inner, Graph):
                values = ", ".join(f"v_{{{n}}}" for n in equation.outputs)
                yield rf"where {key} of ${values}$, \texttt{{{_plain(equation.op.name)}}}, is"
                yield from _blocks(inner)


__all__ = ["latex"]
