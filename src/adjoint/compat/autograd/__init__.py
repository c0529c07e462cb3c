"""HIPS/autograd's names and signatures: change the import, keep the program.

>>> import adjoint.compat.autograd.numpy as np
>>> from adjoint.compat.autograd import grad
>>> grad(np.tanh)(0.0)
np.float64(1.0)
"""

from __future__ import annotations

from . import builtins, core, extend, numpy, tracer, util, wrap_util
from .builtins import dict, isinstance, list, tuple, type
from .differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from .extend import primitive
from .redirect import install

egrad = elementwise_grad

__all__ = [
    "builtins",
    "checkpoint",
    "core",
    "deriv",
    "dict",
    "egrad",
    "elementwise_grad",
    "extend",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "install",
    "isinstance",
    "jacobian",
    "list",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_jvp_reversemode",
    "make_vjp",
    "multigrad_dict",
    "numpy",
    "primitive",
    "tensor_jacobian_product",
    "tracer",
    "tuple",
    "type",
    "util",
    "value_and_grad",
    "vector_jacobian_product",
    "wrap_util",
]
