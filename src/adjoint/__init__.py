"""Exact derivatives of NumPy programs.

>>> import adjoint as ad
>>> ad.grad(lambda x: x**2)(3.0)
np.float64(6.0)
"""

from . import numpy
from .api import (
    derivative,
    elementwise_grad,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
)
from .core.errors import AdjointError
from .vectorize import vmap

__version__ = "0.1.0"
__all__ = [
    "AdjointError",
    "derivative",
    "elementwise_grad",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "numpy",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]
