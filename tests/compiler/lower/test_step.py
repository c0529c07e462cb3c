"""Steps tell what they read and write, what is inside them, and whether they can fail or call Python."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Branch, Foreign, Lapack, Product, Scan, While, bodies, calls_python, can_fail

X = np.linspace(0.1, 1.0, 40_000).reshape(200, 200)
PROGRAMS = {
    Product: (lambda x: x @ x, X),
    Lapack: (lambda x: np.linalg.cholesky(x @ x.T + np.eye(200)), X),
    Foreign: (np.linalg.pinv, X),
    Scan: (lambda x: ad.scan(lambda c, r: (np.linalg.pinv(c[None])[:, 0] + r, c), x[0], x)[0], X),
    While: (lambda x: ad.while_loop(lambda s: np.sum(s) < 1e9, lambda s: np.sort(s) * 2, x[0]), X),
    Branch: (lambda x: ad.cond(ad.stop_gradient(np.sum(x)) * x[0, 0] > 0, np.sin, np.cos, x), X),
}


def steps_of(f, *args):
    return ad.jit(f).lower(*args).lowered.steps


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_a_step_reads_before_it_is_read(kind):
    lowered = ad.jit(PROGRAMS[kind][0]).lower(PROGRAMS[kind][1]).lowered
    found = [step for step in lowered.steps if isinstance(step, kind)]
    if not found and kind is Branch:
        pytest.skip("the branch became a select")
    assert found
    written = {buffer for buffer in lowered.buffers if buffer.kind in ("input", "constant")}
    for step in lowered.steps:
        assert {view.buffer for view in step.reads()} - {view.buffer for view in step.writes()} <= written, step
        written |= {view.buffer for view in step.writes()}
    assert {buffer for buffer in lowered.buffers if buffer.kind == "output"} <= written


def test_what_is_inside():
    (loop,) = [step for step in steps_of(*PROGRAMS[Scan]) if isinstance(step, Scan)]
    assert len(bodies(loop)) == 1
    assert calls_python(loop)  # of a pseudo-inverse
    assert any(isinstance(step, Foreign) for step in bodies(loop)[0].steps)
    (product,) = [step for step in steps_of(*PROGRAMS[Product]) if isinstance(step, Product)]
    assert bodies(product) == ()
    assert not calls_python(product)
    assert not can_fail(product)


def test_programs_print():
    assert "product" in str(ad.jit(PROGRAMS[Product][0]).lower(X).lowered)
