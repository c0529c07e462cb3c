"""Calls of the functions of scipy.special that are no ufuncs."""

import numpy as np
from surface.calls import F, call, entry

SIGN = "SciPy gives the sum of nothing the sign -1"
G = lambda *shape: F(*shape, low=0.5, high=3.0)


def of_order(*orders, low=0.3, high=3.0):
    """f(order, x), and with the option that gives the derivative."""
    x = lambda *shape: F(*shape, low=low, high=high)
    return [call(n, x(*shape)) for n, shape in zip(orders, ((), (3,), (2, 2)), strict=True)]


def slopes(*orders):
    return entry(*of_order(*orders), call(orders[0], G(3), 2), call(orders[1], G(2), n=0), call(v=orders[2], z=G(2), n=3))


def spherical(high=3.0, **options):
    x = lambda *shape: F(*shape, low=0.5, high=high)
    return entry(call(0, x()), call(1, x(3)), call(2, x(2, 2)), call(np.array([0, 2]), x(2)), call(1, x(3), True),
                 call(n=2, z=x(2), derivative=True), **options)  # fmt: skip


CASES = {
    "logsumexp": entry(
        call(F(3)), call(F(2, 3)), call(F()), call(F(1)), call(F(2, 3), 0), call(F(2, 3), axis=-1), call(F(2, 3), axis=(0, 1)),
        call(F(2, 3), 1, keepdims=True), call(F(3), b=F(3, low=0.5)), call(F(2, 3), axis=1, b=F(3, low=0.5), keepdims=True),
        call(F(3), b=F(3, low=0.5), return_sign=True).but(empty=SIGN),
        call(F(3), return_sign=True).but(empty=SIGN), call(F(3), b=2.0), call(F(2, 3), None, F(2, 3, low=0.5)),
    ),
    "softmax": entry(call(F(3)), call(F(2, 3)), call(F()), call(F(1)), call(F(2, 3), 0), call(F(2, 3), axis=-1),
        call(F(2, 3), axis=(0, 1))),
    "log_softmax": entry(call(F(3)), call(F(2, 3)), call(F()), call(F(1)), call(F(2, 3), 0), call(F(2, 3), axis=-1),
                         call(F(2, 3), axis=(0, 1))),
    "softplus": entry(call(F(3)), call(F(2, 3)), call(F()), call(F(0))),
    "polygamma": entry(call(0, G()), call(1, G(3)), call(2, G(2, 2)), call(np.array([1, 2]), G(2)), call(n=3, x=G(2))),
    "zeta": entry(call(2.5, G()), call(2.0, G(3)), call(2.0, G(2, 2)), call(np.array([[2.0], [3.5]]), G(2)), call(x=2.0, q=G(2))),
    "multigammaln": entry(call(F(low=2.5, high=5), 3), call(F(3, low=2.5, high=5), 2), call(F(2, 2, low=2.5, high=5), d=1)),
    "comb": entry(call(F(low=3, high=6), 2), call(F(3, low=3, high=6), F(3, low=0.5, high=2.5)),
        call(F(2, 2, low=3, high=6), 2.0),
                  call(F(3, low=3, high=6), 2, repetition=True), call(5.0, k=F(2, low=0.5, high=2.5), exact=False)),
    "perm": entry(call(F(low=3, high=6), 2), call(F(3, low=3, high=6), F(3, low=0.5, high=2.5)),
        call(F(2, 2, low=3, high=6), 2.0),
                  call(5.0, k=F(2, low=0.5, high=2.5), exact=False)),
    "factorial": entry(call(G()), call(G(3)), call(G(2, 2)),
        call(G(2), False, "complex").but(complex_second="SciPy has no trigamma of complex numbers: refused"),
        call(G(2), exact=False, extend="zero")),
    "spherical_jn": spherical(),
    "spherical_yn": spherical(),
    "spherical_in": spherical(),
    "spherical_kn": spherical(),
    **{name: slopes(0, 1, 1.5) for name in ("jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")},
    "lambertw": entry(call(G()), call(G(3)), call(G(2, 2)), call(G(3), 1), call(F(2, low=-0.3, high=-0.1), k=-1),
        call(G(2), 0, 1e-10)),
    "diric": entry(call(F(low=0.5), 3), call(F(3, low=0.5), 4), call(F(2, 2, low=0.5), n=5)),
    "sinc": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(0))),
    "assoc_laguerre": entry(call(G(), 2), call(G(3), 3, 0.5), call(G(2, 2), n=2, k=1.5)),
}  # fmt: skip
