"""check_grads: right derivatives pass, of any order; what its arguments may be."""

import dataclasses

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, CheckError, DtypeError


def example(x, y):
    return x**2 * y + y + 2


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


GOOD = {
    "scalar": (example, 3.0, 4.0),
    "array": (lambda x: np.sin(x) * x[::-1], np.array([0.5, -1.5, 2.0])),
    "float32": (lambda x: np.tanh(x) * x, np.array([0.5, 1.5], np.float32)),
    "flat": (lambda x: x**5, 0.0),
    "constant": (lambda x: x * 0.0 + 3.0, 1.0),
    "near a pole": (lambda x: np.log(x) + 1 / x, np.array([1e-3, 1e4])),
    "tiny": (lambda x: 1e-20 * np.sin(x), 0.5),
    "huge": (lambda x: 1e20 * np.sin(x), 0.5),
    "piecewise": (lambda x: np.maximum(x, 0) * x[::-1], np.array([1e-4, -0.3, 2.0, -1e-4])),
    "fast": (lambda x: np.sin(300 * x), np.array([0.1, 20.0])),
    "containers": (lambda p, x: {"y": np.tanh(p.w @ x[0] + p.b), "n": 3}, Layer(np.ones((2, 3)), np.zeros(2)), [np.arange(3.0)]),
    "complex": (lambda z: np.exp(z) * np.sum(np.abs(z) ** 2), np.array([1 + 2j, 0.3 - 1j])),
    "complex to real": (lambda z, x: np.abs(z * x), 1 + 2j, 3.0),
    "real to complex": (lambda x: np.exp(1j * x), np.array([1.0, 2.0])),
    "empty": (lambda x: x**2, np.zeros((0, 3))),
}


@pytest.mark.parametrize("name", GOOD)
def test_right_derivatives_pass(name):
    f, *args = GOOD[name]
    assert ad.check_grads(f, *args) is None
    ad.check_grads(f, *args, order=1, modes="fwd")
    ad.check_grads(f, *args, order=1, modes=["rev"])


def test_third_order():
    ad.check_grads(lambda x, y: np.sin(x * y) * x, np.array([0.5, 1.0]), 2.0, order=3)


def rule_inside_a_rule(slope_of_slope):
    """A square whose pullback is a function with a rule of its own."""

    @ad.custom_vjp
    def pull(x, g):
        return 2 * x * g

    pull.defvjp(lambda x, g: (pull(x, g), (x, g)), lambda saved, h: (2 * saved[1] * h, slope_of_slope(saved[0]) * h))

    @ad.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (pull(x, g),))
    return f


def test_the_derivative_of_a_pullback_by_its_cotangent_is_checked():
    ad.check_grads(rule_inside_a_rule(lambda x: 2 * x), np.array([0.5, 1.5]), modes="rev")
    with pytest.raises(CheckError, match=r"(?s)reverse over reverse.*the cotangent of the result"):
        ad.check_grads(rule_inside_a_rule(lambda x: 3 * x), np.array([0.5, 1.5]), modes="rev")


@pytest.mark.parametrize("dtype", [float, complex])
def test_functions_of_hermitian_matrices_are_checked_within_them(dtype):
    x = np.random.default_rng(0).normal(size=(3, 3)) + (
        1j * np.random.default_rng(1).normal(size=(3, 3)) if dtype is complex else 0
    )
    a = x @ np.conj(x.T) + np.diag([1.0, 2.0, 3.0])
    a = (a + np.conj(a.T)) / 2
    ad.check_grads(np.linalg.eigvalsh, a)
    ad.check_grads(np.linalg.cholesky, a)
    ad.check_grads(lambda a: np.abs(np.linalg.eigh(a)[1]) ** 2, a)
    ad.check_grads(
        lambda p: np.sum(np.linalg.cholesky(p["a"])[..., 0] ** 2) * p["b"], {"a": np.stack([a, 2 * a]), "b": 2.0}, order=1
    )

    @ad.custom_vjp
    def wrong(a):
        return np.sum(np.linalg.eigvalsh(a) ** 2)

    wrong.defvjp(lambda a: (wrong(a), a), lambda a, g: (3 * g * a,))
    with pytest.raises(CheckError):
        ad.check_grads(lambda a: wrong(a) + np.linalg.eigvalsh(a)[0], a, order=1)


def test_mistakes_of_check_grads():
    with pytest.raises(DtypeError, match="argument 1 is int"):
        ad.check_grads(example, 3.0, 4)
    with pytest.raises(ArgumentError, match="'fwd' and 'rev'"):
        ad.check_grads(np.sin, 1.0, modes=("forward",))
    with pytest.raises(ArgumentError, match="'fwd' and 'rev'"):
        ad.check_grads(np.sin, 1.0, modes=())
    for order in (0, 1.5, True):
        with pytest.raises(ArgumentError, match="order"):
            ad.check_grads(np.sin, 1.0, order=order)
    with pytest.raises(ArgumentError, match="rtol"):
        ad.check_grads(np.sin, 1.0, rtol=-1)
    with pytest.raises(ArgumentError, match="eps"):
        ad.check_grads(np.sin, 1.0, eps=0)
    with pytest.raises(ArgumentError, match="no float"):
        ad.check_grads(lambda x: 3, 1.0)
    with pytest.raises(ArgumentError, match="needs the point"):
        ad.check_grads(np.sin)


@pytest.mark.parametrize("modes", [("fwd", "rev"), "rev"])
def test_fourth_order(modes):
    ad.check_grads(lambda x, y: {"a": np.sin(x) * y, "b": x * x}, 0.5, 2.0, order=4, modes=modes)


@pytest.mark.parametrize("modes", [None, 1, True, object(), (), ("forward",), [["fwd"]]])
def test_modes_that_are_none(modes):
    with pytest.raises(ArgumentError, match="modes of check_grads are"):
        ad.check_grads(np.sin, 1.0, modes=modes)


def test_the_calls_of_other_libraries_are_answered_with_ours():
    x = np.array([0.3, 0.7])
    one, two = (lambda x: np.sum(np.sin(x))), (lambda x, y: np.sum(np.sin(x) * y))
    for f, args in ((one, (x,)), (two, (x, x)), (two, [x, x]), (np.sin, (1.0,)), (lambda x: x**2, (2.0,))):
        with pytest.raises(ArgumentError, match=r"one by one: write check_grads\(.*, \*args\)"):
            ad.check_grads(f, args)
        with pytest.raises(ArgumentError, match=r"check_grads\(f, \*args, order=1\)"):
            ad.check_grads(f, args, 1)
        ad.check_grads(f, *args)
    with pytest.raises(ArgumentError, match=r"not check_grads\(f\)\(x\)"):
        ad.check_grads(one, modes=["rev"])(x)
    ad.check_grads(lambda p: p[0] * p[1], (1.0, 2.0))  # a function of a tuple
    with pytest.raises(IndexError):
        ad.check_grads(lambda p: p[2] * p[1], (1.0, 2.0))  # with a mistake of its own
    for modes in (None, 3, "all", ["fwd", None]):
        with pytest.raises(ArgumentError, match="'fwd' and 'rev'"):
            ad.check_grads(one, x, modes=modes)
    for tolerance in ("a", np.nan, True, np.array([1e-3, 1e-2]), -1.0):
        for name in ("rtol", "atol"):
            with pytest.raises(ArgumentError, match=f"{name} of check_grads"):
                ad.check_grads(one, x, **{name: tolerance})
