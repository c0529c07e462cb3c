"""Ops in terms of others: the expansion of each gives what the op gives; functions of SciPy over their whole domain.

An expansion is run by adjoint in the ops of ONNX, which has the fewest.
"""

import numpy as np
import op_samples
import pytest
import scipy.special
from export.in_process import exported
from night import sampled

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise, Structured
from adjoint.core.types import Type
from adjoint.export import expansions
from adjoint.export.expansions import EXPANSIONS, bessel, distributions, elliptic, error, gamma, integrals, polynomials, special
from adjoint.export.normal import normal
from adjoint.export.onnx_nodes import TARGET

MODULES = (special, gamma, error, bessel, elliptic, distributions, integrals, polynomials)
SPECIAL = [op for module in MODULES for op in module.EXPANSIONS if op.name not in ("logsumexp", "round")]


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


def of_complex(op, inputs, rng):
    """Complex operands of an op, in all quadrants where it is a function of single numbers; None if it takes none."""
    if not any(np.asarray(x).dtype.kind == "f" for x in inputs):
        return None
    width = 2.0 if isinstance(op, Elementwise) else 0.3  # a matrix stays near what it is

    def drawn(x):
        noise = rng.normal(size=(*np.shape(x), 2)) @ np.array([width * isinstance(op, Elementwise), 1j * width])
        return np.asarray(x) + noise if np.asarray(x).dtype.kind == "f" else x

    return [drawn(x) for x in inputs]


@pytest.mark.parametrize("name", [name for name in op_samples.names() if name not in op_samples.STRUCTURED])
def test_complex_numbers(name):
    """An expansion gives what the op gives for complex operands, or there is none for them."""
    op, rng = OPS[name], np.random.default_rng(1)
    for inputs, params in op_samples.samples(op, np.random.default_rng(0)):
        given = of_complex(op, inputs, rng)
        if given is None:
            continue
        try:
            with np.errstate(all="ignore"):
                op(*given, **params)
        except (TypeError, ValueError, np.linalg.LinAlgError, Warning):
            continue  # the op has no complex numbers, or drops their imaginary parts
        found, expected = expanded(op, given, params)
        for a, b in zip(found or (), expected if found else (), strict=True):
            a, b = (np.abs(a), np.abs(b)) if name == "svd" else (np.asarray(a), b)
            assert a.dtype == b.dtype
            finite = b[np.isfinite(b)]
            np.testing.assert_allclose(a, b, 1e-10, 1e-10 * max(1.0, np.max(np.abs(finite), initial=0)))


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


def positive(most, count=100):
    return 10 ** RNG.uniform(-2, np.log10(most), count)


def counts(most, count=100):
    return RNG.integers(0, most, count)


LEVELS = np.concatenate([RNG.uniform(0, 1, 70), 10 ** RNG.uniform(-20, 0, 30)])
CARLSON = [RNG.permutation(np.append(10 ** RNG.uniform(-4, 3, 97), [0.0, 1.0, 2.0])) for _ in range(3)]
TURNS = RNG.normal(size=100) * 3
DEGREES = np.append(counts(40, 90), RNG.integers(0, 3, 10))
INSIDE = RNG.uniform(-1, 1, 100)
#: Where a function is compared, if not on the line.
ARGUMENTS = {
    **dict.fromkeys(("erfinv", "ndtri", "logit"), (UNIT,)),
    "erfcinv": (2 * UNIT,),
    "zeta": (1 + 10 ** RNG.uniform(-3, 2, 500), 10 ** RNG.uniform(-3, 4, 500)),
    **dict.fromkeys(("beta", "betaln"), SHAPES),
    **dict.fromkeys(("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"), POSITIVE),
    **dict.fromkeys(("agm", "rel_entr", "kl_div", "huber", "pseudo_huber"), PAIRS),
    "powm1": (np.abs(PAIRS[0]), np.clip(PAIRS[1], -20, 20)),  # SciPy's is 0 where it overflows
    "radian": (*PAIRS, PAIRS[0]),
    "cotdg": (np.linspace(-400, 400, 301),),  # SciPy's is wrong near 0
    "exp10": (np.linspace(-300, 308, 301),),  # SciPy's is 0 before it underflows
    "binom": (RNG.uniform(-3, 60, 100), RNG.uniform(0, 30, 100)),
    "poch": (RNG.uniform(-3, 60, 100), RNG.uniform(0, 30, 100)),
    "diric": (RNG.normal(size=100) * 10, 1 + counts(9)),
    **dict.fromkeys(("gammainc", "gammaincc", "chdtr", "chdtrc"), (positive(300), positive(400))),
    **dict.fromkeys(("gammaincinv", "gammainccinv", "chdtri"), (positive(100), LEVELS)),
    **dict.fromkeys(("betainc", "betaincc"), (positive(100), positive(100), RNG.uniform(0, 1, 100))),
    **dict.fromkeys(("betaincinv", "betainccinv"), (0.2 + positive(50), 0.2 + positive(50), LEVELS)),
    **dict.fromkeys(("gdtr", "gdtrc"), (positive(3), positive(50), positive(50))),
    "gdtrix": (positive(3), positive(50), LEVELS),
    "gdtria": (LEVELS, positive(50), positive(9)),
    "stdtr": (positive(100), TURNS),
    "stdtrit": (0.1 + positive(100), np.clip(LEVELS, 1e-10, 1)),
    **dict.fromkeys(("fdtr", "fdtrc"), (positive(50), positive(50), positive(20))),
    "fdtri": (1 + positive(50), 1 + positive(50), np.clip(LEVELS, 1e-6, 0.999)),
    "nrdtrimn": (LEVELS, positive(3), TURNS),
    "nrdtrisd": (TURNS, LEVELS, TURNS[::-1].copy()),
    "ndtri_exp": (-(10 ** RNG.uniform(-10, 4, 100)),),
    **dict.fromkeys(("bdtr", "bdtrc"), (counts(20) * 1.0, 20 + counts(20), LEVELS)),
    "bdtri": (counts(20) * 1.0, 21 + counts(20), np.clip(LEVELS, 1e-4, 1)),  # SciPy's is 1 for small ones
    **dict.fromkeys(("nbdtr", "nbdtrc", "nbdtri"), (counts(20), 1 + counts(20), LEVELS)),
    **dict.fromkeys(("pdtr", "pdtrc"), (counts(50) * 1.0, positive(60))),
    "pdtri": (counts(50), LEVELS),
    **dict.fromkeys(("elliprf", "elliprd", "elliprg"), CARLSON),
    "elliprc": (CARLSON[0], (CARLSON[1] + 1e-5) * RNG.choice([-1, 1], 100)),
    **dict.fromkeys(("ellipkinc", "ellipeinc"), (TURNS, RNG.uniform(-4, 1, 100))),
    "ellipj": (TURNS, np.append(RNG.uniform(0, 1, 98), [0.0, 1.0])),
    **dict.fromkeys(("iv", "ive"), (RNG.choice([0.0, 1.0, 2.5, 7.0, -2.0, 0.3], 100), 10 ** RNG.uniform(-3, 2.7, 100))),
    "spherical_in": (counts(9), 10 ** RNG.uniform(-3, 2, 100)),
    **dict.fromkeys(("kn", "yn", "spherical_yn", "spherical_kn"), (counts(12), 10 ** RNG.uniform(-2, 2, 100))),
    **dict.fromkeys(("eval_hermite", "eval_hermitenorm", "eval_laguerre"), (DEGREES, TURNS)),
    "eval_genlaguerre": (DEGREES, positive(3), np.abs(TURNS)),
    **dict.fromkeys((f"eval_{n}" for n in ("legendre", "chebyt", "chebyu")), (DEGREES, INSIDE)),
    **dict.fromkeys((f"eval_{n}" for n in ("chebyc", "chebys")), (DEGREES, 2 * INSIDE)),
    **dict.fromkeys((f"eval_sh_{n}" for n in ("legendre", "chebyt", "chebyu")), (DEGREES, 0.5 + 0.5 * INSIDE)),
    "eval_gegenbauer": (DEGREES, positive(3), INSIDE),
    "eval_jacobi": (DEGREES, positive(3), positive(3), INSIDE),
    "eval_sh_jacobi": (counts(12), 2 + positive(3), 0.5 + positive(2), 0.5 + 0.5 * INSIDE),
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


#: Results of iterations, and those that magnify the rounding of a logarithm.
LOOSE = {*distributions.EXPANSIONS, *polynomials.EXPANSIONS, *bessel.EXPANSIONS, *integrals.EXPANSIONS, OPS["binom"], OPS["poch"]}
OF_KNOWN_ORDER = {"jv", "jve", "yv", "yve", "kv", "kve"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(OF_KNOWN_ORDER))
@pytest.mark.parametrize("order", [0, 1, 2.0, 5, 25, -3])
@np.errstate(all="ignore")
def test_known_orders(name, order):
    x = np.concatenate([np.linspace(0.01, 60, 200), [1e-3, 1e-8, order, 2 * order]])
    x = np.abs(x[x != 0])

    def program_of(x):
        return normal(ad.graph(lambda x, op=OPS[name]: op(order, x))(x), TARGET)

    (found,), wanted = program_of(x).run_flat([x]), getattr(scipy.special, name)(order, x)
    np.testing.assert_allclose(found, wanted, 2e-12, 1e-14 if name[0] in "jy" else 0)
    x = np.array([0.0, np.inf, 1.0, -np.inf, np.nan])
    np.testing.assert_allclose(program_of(x).run_flat([x])[0], getattr(scipy.special, name)(order, x), 2e-12)
    with pytest.raises(UnsupportedError, match=name):
        normal(ad.graph(lambda x, op=OPS[name]: op(order + 0.5, x))(x), TARGET)


@pytest.mark.parametrize("op", [op for op in SPECIAL if op.name not in OF_KNOWN_ORDER], ids=lambda op: op.name)
@np.errstate(all="ignore")
def test_against_scipy(op):
    args = ARGUMENTS.get(op.name, (LINE,))
    program = ad.graph(lambda *xs: op(*xs))(*args)
    found, wanted = normal(program, TARGET).run_flat(args), getattr(scipy.special, op.name)(*args)
    size, rtol = 1000 if op in polynomials.EXPANSIONS else ABSOLUTE.get(op.name, 0), 3e-12 if op in LOOSE else 3e-13
    for a, b in zip(found, wanted if op.many else (wanted,), strict=True):
        np.testing.assert_allclose(a, b, rtol, size * 3e-15 * max(1, np.nanmedian(np.abs(b))) + 1e-300, err_msg=op.name)


@pytest.mark.parametrize("op", [op for op in SPECIAL if op.name not in OF_KNOWN_ORDER], ids=lambda op: op.name)
@np.errstate(all="ignore")
def test_ends(op):
    """SciPy's values, nan where they are nan; a number that is not finite changes no other element."""
    grid = op_samples.ends(op)
    found, wanted = normal(ad.graph(lambda *xs: op(*xs))(*grid), TARGET).run_flat(grid), getattr(scipy.special, op.name)(*grid)
    for a, b in zip(found, wanted if op.many else (wanted,), strict=True):
        np.testing.assert_allclose(a, b, 1e-11, 1e-15)


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


POINTS = {
    "poch": (
        [1e-8, 0.5, 3.3, 99.0, 150.0, 1e4, 1e30, -1.0, -2.0, -0.5, -3.3, -50.5, 0.0],
        [0, 1, 5, 20, 21, -1, -5, 0.5, -0.5, 30.5],
    ),
    "gammaincc": (10.0 ** np.linspace(-12, 2, 15), 10.0 ** np.linspace(-10, 2, 13)),
    "gammainc": (10.0 ** np.linspace(-12, 2, 15), 10.0 ** np.linspace(-10, 2, 13)),
    "iv": ([-0.5, -1.5, -3.7, -2, 0, 0.5, 3, 7.3, 20], [0.0, 1e-5, 0.1, 1.0, 30.0, 200.0, 690.0, 705.0]),
    "ive": ([-0.5, -1.5, -3.7, -2, 0, 0.5, 3, 7.3, 20], [0.0, 1e-5, 0.1, 1.0, 30.0, 200.0, 690.0, 710.0, 1e4]),
}


@pytest.mark.parametrize("name", POINTS)
def test_small_large_and_negative_parameters(name):
    inputs = [x.ravel().astype(float) for x in np.meshgrid(*POINTS[name])]
    (found,), (expected,) = expanded(OPS[name], inputs, {})
    np.testing.assert_allclose(found, expected, rtol=5e-12 if name == "poch" else 1e-12)  # SciPy's poch has an error of 2e-12


INF = np.inf
ENDS = [0.0, INF, -INF, np.nan, 1.0, -1.0, 0.5, -0.5]
FAR_ONE = [
    *ENDS,
    1e-3,
    1e-10,
    1e-100,
    1e-300,
    30.0,
    -30.0,
    170.5,
    -170.5,
    700.0,
    1e3,
    1e5,
    -1e5,
    1e10,
    -1e10,
    1e100,
    -1e100,
    1e300,
]
FAR_TWO = [*ENDS, 2.0, -2.0, 1.5, -2.5, 7.3, -7.3, 50.0, -50.0, 300.5, 1e3, -1e3, 1e5, 1e10, -1e10, 1e-10, 1e100, -1e100]
FAR_MORE = [0.0, INF, np.nan, 1.0, -1.0, 0.5, -1.5, 0.9, 4.7, 300.0, 1e5, 1e10, -1e10, 1e-3]
FAR_DEGREES = [-1000, -7, -3, -2, -1, 0, 1, 2, 3, 6, 17]


def far(x, y=0.0):
    return np.maximum(np.abs(x), np.abs(y)) > 1e8


#: Where SciPy's value is not the right one, which exported code has: it overflows, loses its digits, or is nan beside a limit.
NOT_SCIPYS = {
    "powm1": lambda x, y: np.isinf(np.power(x, y)),  # 0
    "cotdg": lambda x: np.abs(x) < 1e-6,
    "zeta": lambda s, q: s > 1e99,
    **dict.fromkeys(("beta", "betaln"), lambda a, b: np.logical_and(np.maximum(a, b) == INF, np.minimum(a, b) > 1e70)),
    **dict.fromkeys(("j0", "j1", "y0", "y1"), far),
    "yn": lambda n, x: far(x),
    "spherical_kn": lambda n, x: np.logical_or(x < -700, x == -1),  # e⁻ˣ overflows; the value at −1 is 0
    "ive": far,
    "ellipj": lambda u, m: np.abs(u) > 100,
    **dict.fromkeys(("gammaincinv", "gammainccinv"), lambda a, p: (a > 1e8) | (a == 0) | (p < 0) | (p > 1)),
    "chdtri": lambda v, p: (v > 1e8) | (v == 0) | (p < 0) | (p > 1),
    "nrdtrimn": lambda p, std, x: p == 0.5,
    "nrdtrisd": lambda mn, p, x: p == 0.5,
    "fresnel": lambda x: x > 1e299,
}
INVERSES = {"betaincinv", "betainccinv", "fdtri", "stdtrit", "bdtri", "nbdtri", "gdtria", "gdtrix"}  # loops in loops


@pytest.mark.parametrize("op", sampled([op for op in SPECIAL if op.name not in OF_KNOWN_ORDER], 3), ids=lambda op: op.name)
@np.errstate(all="ignore")
def test_far_arguments(op):
    """Tiny, huge, negative and singular arguments, and all their combinations: SciPy's values, nan and infinities included."""
    inside, _ = next(op_samples.samples(op, np.random.default_rng(0)))
    real = FAR_ONE if len(inside) == 1 else FAR_TWO if len(inside) == 2 else FAR_MORE
    lines = [FAR_DEGREES if np.asarray(x).dtype.kind in "iu" else real for x in inside]
    if op.name in ("eval_jacobi", "eval_sh_jacobi"):
        lines[0] = [n for n in FAR_DEGREES if n >= 0]
    grid = [x.ravel() for x in np.meshgrid(*lines, indexing="ij")]
    most = 100 if op.name in INVERSES else 3000
    chosen = np.random.default_rng(0).permutation(grid[0].size)[:most]
    grid = [x[chosen] for x in grid]
    known = ~NOT_SCIPYS.get(op.name, lambda *xs: np.zeros(np.shape(xs[0]), bool))(*grid)
    found, wanted = exported(lambda *xs: op(*xs), *grid)(*grid), getattr(scipy.special, op.name)(*grid)
    for a, b in zip(found, wanted if op.many else (wanted,), strict=True):
        np.testing.assert_allclose(a[known], b[known], 1e-8, 1e-14)


@pytest.mark.parametrize("degree", [-1, [3, -2]])
@pytest.mark.parametrize("name", ["eval_jacobi", "eval_sh_jacobi"])
def test_jacobi_polynomials_of_negative_degrees_are_refused(name, degree):
    with pytest.raises(UnsupportedError, match=name):
        exported(lambda x: OPS[name](np.array(degree), 0.5, 1.5, x), np.array([0.5, 0.25]))


HIGH_PRECISION = {
    "gammaln": ((1 + 2.0**-52,), -1.281676242696e-16),
    "ive": ((300.5, 1e5), 0.00080320291206910247),
    "spherical_kn": ((50, -50.0), -6298574817.497997),
    "kn": ((1000, 1000.0), 1.2981802514667009e-233),
    "gammaincinv": ((1e10, 1e-10), 9999363879.06527),
    "gammainc": ((1e10, 1e10), 0.5000013298076014),
    "betainc": ((1e10, 0.5, 1 - 1e-10), 0.15729918987202318),
    "j0": ((1e10,), 2.1755917502468917e-6),
}


@pytest.mark.parametrize("name", HIGH_PRECISION)
def test_values_of_high_precision(name):
    """Computed with 60 digits by mpmath."""
    args, value = HIGH_PRECISION[name]
    args = [np.asarray(x) for x in args]
    (found,) = exported(lambda *xs: OPS[name](*xs), *args)(*args)
    np.testing.assert_allclose(found, value, 1e-10)
