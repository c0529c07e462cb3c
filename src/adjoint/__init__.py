"""Exact derivatives of NumPy programs.

>>> import adjoint as ad
>>> ad.grad(lambda x: x**2)(3.0)
np.float64(6.0)
"""

from . import extend, numpy
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
from .comparison import compare
from .core.errors import AdjointError
from .custom import checkpoint, custom_jvp, custom_vjp
from .differences import finite_difference
from .imperative import array, dual, no_grad
from .testing import check_grads
from .vectorize import map, vmap

__version__ = "0.1.0"
__all__ = [
    "AdjointError",
    "array",
    "check_grads",
    "checkpoint",
    "compare",
    "custom_jvp",
    "custom_vjp",
    "derivative",
    "dual",
    "elementwise_grad",
    "extend",
    "finite_difference",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "map",
    "no_grad",
    "numpy",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]
