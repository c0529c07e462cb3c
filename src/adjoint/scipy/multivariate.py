"""Multivariate distributions: the normal one by its mean and covariance, Dirichlet's by its concentrations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
from ..numpy.concrete import primal
from ..numpy.table import holds_traced, lift
from ..ops import broadcast as shapes
from ..ops import elementwise as ops
from ..ops.decompose import cholesky
from ..ops.gamma import gammaln
from ..ops.linalg import swap
from ..ops.matrix import as_diagonal, diagonal_of
from ..ops.shape import concatenate
from ..ops.solve import triangular_solve
from ..ops.special import xlogy
from .family import Distribution


class _Multivariate(Distribution):
    """The methods of a distribution: SciPy's for plain numbers, ours for traced ones."""

    def method(self, name: str, original: Any) -> Any:
        if not callable(original):
            return original

        def method(*args: Any, **kwargs: Any) -> Any:
            if any(map(holds_traced, (*args, *kwargs.values()))):
                raise UnsupportedError(f"scipy.stats.{self.name}.{name} has no derivative rule; logpdf and pdf have")
            return original(*args, **kwargs)

        return method


class MultivariateNormal(_Multivariate):
    name = "multivariate_normal"

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        if not any(map(holds_traced, (x, mean, cov))):
            return self.scipy.logpdf(x, mean, cov, allow_singular)
        if not isinstance(cov, Traced | np.ndarray | list | tuple | float | int | np.generic):
            raise UnsupportedError("scipy.stats.multivariate_normal with a Covariance object is not supported on traced values")
        x = _double(lift(x))
        mean = None if mean is None else _double(lift(mean))
        d, cov = _covariance(mean, cov)
        if ndim_of(x) == 0:
            x = shapes.reshape(x, shape=(1, 1))
        elif ndim_of(x) == 1:
            x = shapes.reshape(x, shape=(*shape_of(x), 1) if d == 1 else (1, *shape_of(x)))
        deviation = x if mean is None else x - shapes.reshape(mean, shape=(d,))
        lead = shape_of(deviation)[:-1]
        rows = shapes.reshape(deviation, shape=(math.prod(lead), d))
        y = (_singular_logpdf if allow_singular else _regular_logpdf)(rows, cov)
        # SciPy squeezes the result.
        return shapes.reshape(y, shape=tuple(n for n in lead if n != 1))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        if not any(map(holds_traced, (mean, cov))):
            return self.scipy.entropy(mean, cov)
        mean = None if mean is None else _double(lift(mean))
        d, cov = _covariance(mean, cov)
        return 0.5 * d * (math.log(2 * math.pi) + 1) + _half_log_det(cholesky(cov))

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        if not any(map(holds_traced, (x, mean, cov))):
            return self.scipy.pdf(x, mean, cov, allow_singular)
        return ops.exp(self.logpdf(x, mean, cov, allow_singular))


def _covariance(mean: Value | None, cov: Any) -> tuple[int, Value]:
    """The dimension, and the full matrix of a covariance. Both triangles are used."""
    cov = _double(lift(cov))
    d = _dimension(mean, cov)
    if ndim_of(cov) == 0:
        cov = cov * np.eye(d)
    elif ndim_of(cov) == 1:
        cov = as_diagonal(cov)
    if shape_of(cov) != (d, d):
        raise ValueError(f"Array 'cov' must be square, of the dimension of 'mean', which is {d}; its shape is {shape_of(cov)}")
    return d, 0.5 * (cov + swap(cov))


def _half_log_det(factor: Value) -> Value:
    return shapes.sum_(ops.log(diagonal_of(factor)), axis=(0,), keepdims=False)


def _regular_logpdf(rows: Value, cov: Value) -> Value:
    factor = cholesky(cov)
    white = triangular_solve(factor, swap(rows), lower=True, transposed=False)
    distance = shapes.sum_(ops.square(white), axis=(0,), keepdims=False)
    return -0.5 * (shape_of(cov)[0] * math.log(2 * math.pi) + distance) - _half_log_det(factor)


def _singular_logpdf(rows: Value, cov: Value) -> Value:
    """The density on the subspace that the covariance spans, and zero outside. The rank is that of the given numbers."""
    cut = 1e6 * np.finfo(float).eps  # SciPy's
    values, vectors = np.linalg.eigh(primal(cov))
    least = cut * np.max(np.abs(values))
    kept = values > least
    inverse = np.linalg.pinv(cov, cut, hermitian=True)
    distance = np.sum((rows @ inverse) * rows, axis=-1)
    spectrum = np.linalg.eigvalsh(cov)
    log_det = np.sum(np.log(np.where(kept, spectrum, 1.0)))
    y = -0.5 * (int(kept.sum()) * math.log(2 * math.pi) + distance + log_det)
    beside = np.linalg.norm(primal(rows) @ vectors[:, ~kept], axis=-1) >= 1e3 * least  # SciPy's limit
    return np.where(beside, -np.inf, y) if np.any(beside) else y


def _double(x: Value) -> Value:
    """In double precision, as SciPy computes."""
    if dtype_of(x) == np.dtype(float):
        return x
    return shapes.cast(x, dtype=np.dtype(float)) if isinstance(x, Traced) else np.asarray(x, float)


def _dimension(mean: Value | None, cov: Value) -> int:
    """As SciPy finds it: from the mean, else from a covariance matrix."""
    if mean is not None:
        return math.prod(shape_of(mean))
    return shape_of(cov)[0] if ndim_of(cov) == 2 else 1


class Dirichlet(_Multivariate):
    name = "dirichlet"

    def logpdf(self, x: Any, alpha: Any) -> Any:
        if not any(map(holds_traced, (x, alpha))):
            return self.scipy.logpdf(x, alpha)
        x, alpha = lift(x), lift(alpha)
        (k,) = shape_of(alpha)
        if shape_of(x)[0] == k - 1:
            x = concatenate(x, 1 - shapes.sum_(x, axis=(0,), keepdims=True), axis=0)
        if shape_of(x)[0] != k:
            raise ValueError(f"Vector 'x' must have either the same number of entries as, or one entry fewer than, 'alpha': {k}")
        _require(ops.greater(alpha, 0), "All parameters must be greater than 0")
        _require(ops.greater_equal(x, 0), "Each entry in 'x' must be greater than or equal to zero.")
        total = shapes.sum_(x, axis=(0,), keepdims=False)
        _require(ops.less(ops.absolute(total - 1), 1e-9), "The input vector 'x' must lie within the normal simplex.")
        exponent = shapes.reshape(alpha - 1, shape=(k,) + (1,) * (ndim_of(x) - 1))
        log_beta = shapes.sum_(gammaln(alpha), axis=(0,), keepdims=False) - gammaln(shapes.sum_(alpha, axis=(0,), keepdims=False))
        return shapes.sum_(xlogy(exponent, x), axis=(0,), keepdims=False) - log_beta

    def pdf(self, x: Any, alpha: Any) -> Any:
        if not any(map(holds_traced, (x, alpha))):
            return self.scipy.pdf(x, alpha)
        return ops.exp(self.logpdf(x, alpha))


def _require(condition: Value, message: str) -> None:
    """Raise SciPy's error, unless the condition differs between examples."""
    if not isinstance(condition, Traced) and not np.all(condition):
        raise ValueError(message)
