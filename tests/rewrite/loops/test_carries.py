"""Carries that do not change, or that nothing reads."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ir.edit import renumber
from adjoint.rewrite.loops import drop_idle_carries
from adjoint.rewrite.simplify import simplify


def parsed(text):
    found = ad.parse(text)
    found.check()
    return found


def trimmed(graph, *args):
    """The graph without idle carries, which gives the same results."""
    smaller = drop_idle_carries(graph)
    smaller.check()
    for wanted, found in zip(graph.run_flat(list(args)), smaller.run_flat(list(args)), strict=True):
        assert np.array_equal(wanted, found)
    return smaller


RESULTS = "v3: float64[], v4: float64[], v5: bool[], v6: float64[], v7: float64[3], v8: float64[3]"
SCAN = f"""graph f(w: float64[], live: bool[], xs: float64[3]) {{
  {RESULTS} = scan float64(0.0), w, bool(True), float64(2.0), xs {{length=3, reverse=False, carries=4, consts=0}}
    body = graph body(s: float64[], g: float64[], m: bool[], unread: float64[], x: float64[]) {{
      v5: float64[] = mul g, x
      v6: float64[] = where m, v5, 0.0
      v7: float64[] = add s, v6
      v8: float64[] = sin unread
      return v7, g, m, v8, v5, v5
    }}
  v9: float64[] = add v3, v4
  v10: float64[3] = add v7, v8
  return v9, v10, v5
}}"""


def test_an_invariant_carry_of_a_scan_is_a_const_and_a_constant_one_is_folded():
    smaller = trimmed(parsed(SCAN), np.float64(0.3), np.bool_(True), np.arange(3.0))
    (scan,) = [e for e in smaller.equations if e.op.name == "scan"]
    assert scan.params["carries"] == 1
    assert scan.params["consts"] == 1
    assert len(scan.outputs) == 2  # a stack is kept once
    assert [e.op.name for e in scan.params["body"].equations] == ["mul", "add"]


def test_rows_that_are_given_twice_are_read_once():
    text = """graph f(xs: float64[3]) {
      v1: float64[] = scan float64(1.0), xs, xs {length=3, reverse=False, carries=1, consts=0}
        body = graph body(s: float64[], a: float64[], b: float64[]) {
          v3: float64[] = mul a, b
          v4: float64[] = add s, v3
          return v4
        }
      return v1
    }"""
    smaller = trimmed(parsed(text), np.arange(3.0))
    (scan,) = smaller.equations
    assert len(scan.inputs) == 2


def staged(f, *args):
    return simplify(ad.graph(f)(*args))[0]


def series(x, n):
    """A while_loop with a carry that is constant, one that does not change, and one that nothing reads."""

    def body(c):
        k, total, scale, shift, unread = c
        return k + 1, total + scale * np.sin(x * k) + shift, scale, shift, unread * 2.0

    return ad.while_loop(lambda c: (c[0] < n) & (c[2] > 0), body, (0, 0.0, 2.0, x, 1.0))[1]


def test_idle_carries_of_a_while_loop_are_dropped():
    smaller = trimmed(staged(series, 0.3, 5), np.float64(0.3), np.int64(5))
    (loop,) = [e for e in smaller.equations if e.op.name == "while"]
    assert len(loop.outputs) == 2


@pytest.mark.parametrize("n", [0, 1, 6])
def test_masks_and_unread_states_of_a_backward_pass_are_dropped(n):
    full = renumber(staged(ad.grad(series), 0.3, 5))
    smaller = trimmed(full, np.float64(0.3), np.int64(n))
    (before,), (after,) = ([e for e in g.equations if e.op.name == "while_vjp"] for g in (full, smaller))
    assert any(t.dtype.kind == "b" for t in before.types)
    assert not any(t.dtype.kind == "b" for t in after.types)
    total = after.params["step"]
    assert not any(e.op.name == "sin" for e in total.equations)  # the sum is not computed again
    slope = 2 * sum(k * np.cos(0.3 * k) for k in range(n)) + n
    assert np.isclose(smaller(np.float64(0.3), np.int64(n)), slope)


def test_a_loop_of_invariant_carries_alone_stays():
    def f(x, n):
        return ad.while_loop(lambda c: (c < 0) & (n > 3), lambda c: c, x)

    trimmed(staged(f, 0.5, 1), np.float64(0.5), np.int64(1))


def test_what_both_branches_pass_on_is_no_result():
    def f(x, y):
        a, b, c = ad.cond(x > 0, lambda: (np.sin(x), y, 1.0), lambda: (np.cos(x), y, 1.0))
        return a + b + c

    smaller = trimmed(staged(f, 0.5, 2.0), np.float64(0.5), np.float64(2.0))
    (cond,) = [e for e in smaller.equations if e.op.name == "cond"]
    assert len(cond.outputs) == 1
    assert len(cond.inputs) == 2  # y is not an operand


def test_loops_inside_loops():
    def f(x):
        def outer(c, _):
            inner, _ = ad.scan(lambda d, _: ((d[0] * x, d[1]), None), (c, 3.0), length=4)
            return inner[0] + inner[1], None

        return ad.scan(outer, 1.0, length=3)[0]

    for g in (f, ad.grad(f)):
        trimmed(staged(g, 0.5), np.float64(0.5))
    assert np.isclose(ad.jit(ad.grad(f))(0.5), ad.grad(f)(0.5))


def test_compiled_gradients_of_loops_agree():
    slope = ad.jit(ad.grad(series))
    for n in (0, 1, 7):
        assert np.isclose(slope(0.3, n), ad.grad(series)(0.3, n))
    curvature = ad.jit(ad.grad(ad.grad(series)))
    assert np.isclose(curvature(0.3, 7), ad.grad(ad.grad(series))(0.3, 7))
    both = ad.jit(ad.vmap(ad.grad(series), in_axes=(0, None)))
    assert np.allclose(both(np.array([0.3, 0.7]), 6), [ad.grad(series)(x, 6) for x in (0.3, 0.7)])


@pytest.mark.parametrize(
    ("starts", "left"),
    [
        ((True, True, False), 1),  # all by induction: the numbers are left
        ((True, True, True), 2),  # c may become False
        ((False, True, False), 3),  # a may become True, so that b does not follow
        (([True, False, True], True, None), 4),  # of different elements, or not known
    ],
)
def test_masks_that_stay_what_they_are_by_induction(starts, left):
    def step(carry, _):
        a, b, c, x = carry
        high = x > 2.0
        return (a | high, b & a, c & high, x + np.where(c, 1.0, np.where(b, x, 0.0))), None

    def f(x, m):
        a, b, c = (m if start is None else np.zeros(3, bool) | start for start in starts)
        return ad.scan(step, (a, b, c, x), None, length=4)[0]

    m = np.array([True, False, True])
    for x in (np.zeros(3), np.array([0.4, 1.0, 9.0])):
        smaller = trimmed(ad.graph(f)(x, m), x, m)
    (scan,) = [e for e in smaller.equations if e.op.name == "scan"]
    assert scan.params["carries"] == left


def test_masks_of_a_while_loop_by_induction():
    def f(x):
        live = np.ones(3, bool)
        body = lambda c: (np.where(c[1], c[0] * 1.5, c[0]), np.logical_or(c[1], c[0] > 2.0), c[2] + 1)
        return ad.while_loop(lambda c: c[2] < 5, body, (x, live, 0))

    x = np.array([1.0, -2.0, 3.0])
    graph = ad.graph(f)(x)
    (loop,) = [e for e in trimmed(graph, x).equations if e.op.name == "while"]
    assert len(loop.outputs) == 2


def test_an_empty_mask_is_not_true_by_induction():
    def f(x):
        def step(c, _):
            live, found = c
            return (np.logical_or(live, x > 0.0), np.logical_and(found, np.any(live[:0]))), None

        return ad.scan(step, (np.ones(3, bool), np.ones((), bool)), None, length=4)[0]

    live, found = ad.jit(f)(np.ones(3))
    assert live.all()
    assert not found
