"""Multivariate distributions: the normal one by its mean and covariance, Dirichlet's by its concentrations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.bind import Traced
from ..core.errors import UnsupportedError
from ..core.types import Value, dtype_of, ndim_of, shape_of
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
from .family import Frozen


class _Multivariate:
    """The methods of a distribution: SciPy's for plain numbers, ours for traced ones."""

    name = ""

    @property
    def scipy(self) -> Any:
        import scipy.stats

        return getattr(scipy.stats, self.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        original = getattr(self.scipy, name)
        if not callable(original):
            return original

        def method(*args: Any, **kwargs: Any) -> Any:
            if any(map(holds_traced, (*args, *kwargs.values()))):
                raise UnsupportedError(f"scipy.stats.{self.name}.{name} has no derivative rule; logpdf and pdf have")
            return original(*args, **kwargs)

        return method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(map(holds_traced, (*args, *kwargs.values()))):
            return Frozen(self, args, kwargs)
        return self.scipy(*args, **kwargs)


class MultivariateNormal(_Multivariate):
    name = "multivariate_normal"

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        if not any(map(holds_traced, (x, mean, cov))):
            return self.scipy.logpdf(x, mean, cov, allow_singular)
        if not isinstance(cov, Traced | np.ndarray | list | tuple | float | int | np.generic):
            raise UnsupportedError("scipy.stats.multivariate_normal with a Covariance object is not supported on traced values")
        x, cov = lift(x), _floating(lift(cov))
        mean = None if mean is None else lift(mean)
        d = _dimension(mean, cov)
        if ndim_of(cov) == 0:
            cov = cov * np.eye(d)
        elif ndim_of(cov) == 1:
            cov = as_diagonal(cov)
        if shape_of(cov) != (d, d):
            raise ValueError(
                f"Array 'cov' must be square, of the dimension of 'mean', which is {d}; its shape is {shape_of(cov)}"
            )
        if ndim_of(x) == 0:
            x = shapes.reshape(x, shape=(1, 1))
        elif ndim_of(x) == 1:
            x = shapes.reshape(x, shape=(*shape_of(x), 1) if d == 1 else (1, *shape_of(x)))
        deviation = x if mean is None else x - shapes.reshape(mean, shape=(d,))
        # Both triangles take part, as they do for whoever wrote the matrix.
        factor = cholesky(0.5 * (cov + swap(cov)))
        lead = shape_of(deviation)[:-1]
        columns = swap(shapes.reshape(deviation, shape=(math.prod(lead), d)))
        white = triangular_solve(factor, columns, lower=True, transposed=False)
        distance = shapes.sum_(ops.square(white), axis=(0,), keepdims=False)
        half_log_det = shapes.sum_(ops.log(diagonal_of(factor)), axis=(0,), keepdims=False)
        y = -0.5 * (d * math.log(2 * math.pi) + distance) - half_log_det
        # SciPy squeezes the result.
        return shapes.reshape(y, shape=tuple(n for n in lead if n != 1))

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        if not any(map(holds_traced, (x, mean, cov))):
            return self.scipy.pdf(x, mean, cov, allow_singular)
        return ops.exp(self.logpdf(x, mean, cov, allow_singular))


def _floating(x: Value) -> Value:
    return x if dtype_of(x).kind == "f" else np.asarray(x, float)


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
    """Raise SciPy's error, unless the condition differs from example to example."""
    if not isinstance(condition, Traced) and not np.all(condition):
        raise ValueError(message)
