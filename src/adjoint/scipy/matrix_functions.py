"""Functions of matrices of scipy.linalg: exponential, logarithm, roots."""

from __future__ import annotations

import math
from typing import Any

import scipy.linalg as _scipy

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, ndim_of, shape_of
from ..numpy import linalg as numpy_linalg
from ..numpy.dropin import drop_in
from ..ops import broadcast as shapes
from ..ops import matrix
from ..ops import matrix_functions as functions
from ..ops import solve as systems
from .operands import double, lift, square


@drop_in(_scipy.expm)
def expm(A: Any) -> Value:
    A = lift(A)
    if ndim_of(A) < 2 and math.prod(shape_of(A)) == 1:  # a number
        A = shapes.reshape(double(A), shape=(1, 1))
    return functions.expm(square(A))


@drop_in(_scipy.expm_frechet)
def expm_frechet(A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    A, E = double(square(A)), double(square(E))
    slope = functions.expm_slope(A, E)
    return (functions.expm(A), slope) if compute_expm else slope


@drop_in(_scipy.sqrtm)
def sqrtm(A: Any, disp: bool = True, blocksize: Any = None) -> Value:
    _no_estimate("sqrtm", disp)
    return functions.sqrtm(square(A))


@drop_in(_scipy.logm)
def logm(A: Any, disp: bool = True) -> Value:
    _no_estimate("logm", disp)
    return functions.logm(square(A))


def _no_estimate(name: str, disp: bool) -> None:
    if not disp:
        raise UnsupportedError(f"scipy.linalg.{name} of traced values gives no estimate of its error; leave out disp=False")


@drop_in(_scipy.fractional_matrix_power)
def fractional_matrix_power(A: Any, t: Any) -> Value:
    if not isinstance(t, Traced) and t == int(t):
        return numpy_linalg.matrix_power(A, int(t))
    return functions.fractional_power(square(A), shapes.reshape(lift(t), shape=(1, 1)))


def _real_if_real(y: Value, a: Value) -> Value:
    return y if matrix.is_complex(a) else shapes.real(y)


@drop_in(_scipy.cosm)
def cosm(A: Any) -> Value:
    A = square(A)
    return _real_if_real(functions.expm(1j * A) if not matrix.is_complex(A) else 0.5 * (expm(1j * A) + expm(-1j * A)), A)


@drop_in(_scipy.sinm)
def sinm(A: Any) -> Value:
    A = square(A)
    return -0.5j * (expm(1j * A) - expm(-1j * A)) if matrix.is_complex(A) else shapes.imag(functions.expm(1j * A))


@drop_in(_scipy.tanm)
def tanm(A: Any) -> Value:
    return systems.solve(cosm(A), sinm(A))


@drop_in(_scipy.coshm)
def coshm(A: Any) -> Value:
    A = square(A)
    return 0.5 * (functions.expm(A) + functions.expm(-A))


@drop_in(_scipy.sinhm)
def sinhm(A: Any) -> Value:
    A = square(A)
    return 0.5 * (functions.expm(A) - functions.expm(-A))


@drop_in(_scipy.tanhm)
def tanhm(A: Any) -> Value:
    return systems.solve(coshm(A), sinhm(A))
