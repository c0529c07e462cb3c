"""Staging a function as a graph: what it loads."""

import subprocess
import sys

STAGED = """
import sys
import numpy as np
import adjoint as ad

program = ad.graph(ad.grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
str(program), program(np.ones(3)), program.simplify()
drawing = [m for m in sys.modules if m.startswith(("adjoint.view", "adjoint.export", "adjoint.algebra", "adjoint.cli"))]
assert not drawing, drawing
"""


def test_a_graph_that_is_not_drawn_loads_no_drawing_code():
    subprocess.run([sys.executable, "-c", STAGED], check=True)
