"""Ops in terms of others: the expansion of each gives what the op gives; functions of SciPy over their whole domain.

An expansion is run by adjoint in the ops of ONNX, which has the fewest.
"""

import numpy as np
import op_samples
import pytest
import scipy.special
from export.in_process import exported

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise, Structured
from adjoint.core.types import Type
from adjoint.export import expansions
from adjoint.export.expansions import EXPANSIONS, bessel, elliptic, error, gamma, special
from adjoint.export.normal import normal
from adjoint.export.onnx_nodes import TARGET

SPECIAL = [op for module in (special, gamma, error, bessel, elliptic) for op in module.EXPANSIONS if isinstance(op, Elementwise)]


def expanded(op, inputs, params):
    """The results of an op by its expansion alone, of which the ops are adjoint's own."""
    arrays = [np.asarray(x) for x in inputs]
    with np.errstate(all="ignore"):
        expected = op(*arrays, **params)
        expected = [np.asarray(y) for y in (expected if op.many else [expected])]
        found = expansions.expanded(op, arrays, params, list(map(Type.of, expected)))
    return found, expected


def check(op, inputs, params, rtol=1e-11):
    found, expected = expanded(op, inputs, params)
    assert found is not None, op
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == b.dtype
        if op.name in ("eigh", "svd"):  # vectors have arbitrary signs; see test_jacobi.py
            a, b = np.abs(a), np.abs(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("op", [op for op in EXPANSIONS if not isinstance(op, Structured)], ids=lambda op: op.name)
def test_an_expansion(op):
    for inputs, params in op_samples.samples(op, np.random.default_rng(0)):
        arrays = [np.asarray(x) for x in inputs]
        made = op(*arrays, **params)
        if all(x.size for x in arrays) and np.size(made[0] if op.many else made):
            with np.errstate(all="ignore"):
                if expanded(op, inputs, params)[0] is not None:  # it may hold for integers or truths only
                    check(op, inputs, params)


def test_an_op_has_one_expansion():
    modules = [m for m in vars(expansions).values() if hasattr(m, "EXPANSIONS") and m is not expansions]
    assert sum(len(m.EXPANSIONS) for m in modules) == len(EXPANSIONS)
    assert not [op.name for op in EXPANSIONS if callable(op.scalar) and op.name not in ("where", "ieee_mul")]


RNG = np.random.default_rng(0)
SCALES = 10 ** RNG.uniform(-12, 2.5, 300) * RNG.choice([-1, 1], 300)
LINE = np.concatenate([
    RNG.normal(size=200), RNG.normal(size=200) * 10, SCALES,
    [0.0, -0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, 1.5, 2.5, 8.0, -8.0, 12.0, 28.0, 170.0, 171.5, 172.0, np.inf, -np.inf, np.nan],
])  # fmt: skip
UNIT = np.concatenate([RNG.uniform(0, 1, 300), 10 ** RNG.uniform(-300, 0, 100), 1 - 10 ** RNG.uniform(-15, 0, 100), [0.0, 1.0]])
PAIRS = RNG.choice(LINE, 800), RNG.choice(LINE, 800)
POSITIVE = np.abs(PAIRS[0]), RNG.choice([0.0, 0.5, 1.0, -1.0, 2.0, 1e-20, -0.3], 800)
SHAPES = RNG.uniform(1e-3, 80, (2, 500))
#: Where a function is compared, if not on the line.
ARGUMENTS = {
    **dict.fromkeys(("erfinv", "ndtri", "logit"), (UNIT,)),
    "erfcinv": (2 * UNIT,),
    "zeta": (1 + 10 ** RNG.uniform(-3, 2, 500), 10 ** RNG.uniform(-3, 4, 500)),
    **dict.fromkeys(("beta", "betaln"), SHAPES),
    **dict.fromkeys(("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"), POSITIVE),
    **dict.fromkeys(("agm", "rel_entr", "kl_div", "huber"), PAIRS),
    "pseudo_huber": (np.nan_to_num(PAIRS[0], posinf=9.0), PAIRS[1]),  # SciPy's is nan for an infinite delta
    "powm1": (np.abs(PAIRS[0]), np.clip(PAIRS[1], -20, 20)),  # SciPy's is 0 where it overflows
    "radian": (*PAIRS, PAIRS[0]),
    "cotdg": (np.linspace(-400, 400, 301),),  # SciPy's is wrong near 0
    "exp10": (np.linspace(-300, 308, 301),),  # SciPy's is 0 before it underflows
}
#: Near a zero, an error relative to the terms of a difference: the size of the terms.
ABSOLUTE = {
    "gammaln": 1,
    "loggamma": 1,
    "betaln": 1,
    "psi": 1,
    "j0": 1,
    "j1": 1,
    "y0": 1,
    "y1": 1,
    "rel_entr": 1,
    "kl_div": 10,
    "cosm1": 1,
}


@pytest.mark.parametrize("op", SPECIAL, ids=lambda op: op.name)
@np.errstate(all="ignore")
def test_against_scipy(op):
    args = ARGUMENTS.get(op.name, (LINE,))
    program = ad.graph(lambda *xs: op(*xs))(*args)
    (found,), wanted = normal(program, TARGET).run_flat(args), getattr(scipy.special, op.name)(*args)
    np.testing.assert_allclose(found, wanted, 3e-13, ABSOLUTE.get(op.name, 0) * 3e-15, err_msg=op.name)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_signs_of_quotients(name):
    a, b = np.array([7.5, -7.5, 6.0, -6.0, 0.0, -0.0, 5.0]), np.array([2.0, 2.0, -4.0, -4.0, 3.0, 3.0, -1.0])
    check(OPS[name], [a, b], {})


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 2)])
def test_integers_wrap_around(name, axis, shape):
    check(OPS[name], [np.random.default_rng(0).integers(-(2**62), 2**62, shape)], {"axis": axis})


@pytest.mark.parametrize("by", [0, 1, -1, 3, 4, -9])
def test_rolls(by):
    check(OPS["roll"], [np.arange(8.0).reshape(2, 4)], {"shifts": (by, 1), "axes": (1, 0)})


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 9])
def test_cofactors(n):
    check(OPS["cofactor"], [np.random.default_rng(0).normal(size=(2, n, n))], {}, rtol=1e-10)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 20.0])
def test_exponentials_of_matrices_are_squared_as_often_as_needed(scale):
    a = scale * np.array([[0.1, 1.0, 0.0], [-1.0, 0.2, 0.3], [0.0, 0.5, -0.1]])
    check(OPS["expm"], [a], {}, rtol=1e-9)


def grown(s, t, x):
    return s + 1.0 + 0.5 * np.sin(s) * t, t * 0.9 + 0.1 * np.cos(s) * x


def counted(c, x):
    return {"n": c["n"] + 1, "s": grown(c["s"], np.sum(c["v"]), x)[0], "v": c["v"] * 0.95 + x * c["n"] / 100}


STEPS = np.array([1.0, 2.0, -1.0])
LOOPS = {
    "one state": lambda x, end: ad.while_loop(lambda s: s < end, lambda s: grown(s, 1.0, x)[0], x),
    "two states": lambda x, end: ad.while_loop(lambda c: c[0] < end, lambda c: grown(*c, x), (x, x * x))[1],
    "states of several types": lambda x, end: np.sum(
        ad.while_loop(lambda c: c["s"] < end, lambda c: counted(c, x), {"n": 0, "s": x, "v": x * STEPS})["v"]
    ),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("target", ["object", "onnx"])
def test_the_backward_pass_of_a_loop_in_blocks(name, target):
    f = ad.grad(LOOPS[name])
    if target == "object":
        made = exported(f, 0.3, 1.0)
    else:
        graph = normal(ad.graph(f)(0.3, 1.0), TARGET)
        made = lambda *args: graph.run_flat(args)
    for end in (0.0, 0.31, 1.5, 8.0, 29.0, 31.5, 32.5, 33.5, 64.5, 70.0):
        np.testing.assert_allclose(made(0.3, end), [f(0.3, end)], rtol=1e-12)


def test_what_has_no_expansion():
    f64 = Type((), np.dtype(float))
    assert expansions.expanded(OPS["airy"], [0.5], {}, [f64] * 4) is None
    with pytest.raises(UnsupportedError, match="'airy'"):
        exported(lambda x: scipy.special.airy(x)[0], 0.5)
