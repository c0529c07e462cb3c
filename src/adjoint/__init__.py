"""Exact derivatives of NumPy programs.

>>> import adjoint as ad
>>> ad.grad(lambda x: x**2)(3.0)
np.float64(6.0)
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import numpy
from .api import derivative, elementwise_grad, grad, jvp, linearize, stop_gradient, value_and_grad, vjp
from .core.errors import AdjointError
from .jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from .vectorize import map, vmap

if TYPE_CHECKING:
    from . import extend, scipy
    from .comparison import compare
    from .custom import checkpoint, custom_jvp, custom_vjp
    from .differences import finite_difference
    from .explicit import Graph, function, gradients, symbols
    from .expression import symbolic
    from .graphs import graph
    from .imperative import array, dual, no_grad
    from .testing import check_grads

__version__ = "0.1.0"

#: Names that are loaded when they are first asked for, so that importing the package stays quick.
_LATE = {
    "Graph": "explicit",
    "array": "imperative",
    "check_grads": "testing",
    "checkpoint": "custom",
    "compare": "comparison",
    "custom_jvp": "custom",
    "custom_vjp": "custom",
    "dual": "imperative",
    "extend": "",
    "finite_difference": "differences",
    "function": "explicit",
    "gradients": "explicit",
    "graph": "graphs",
    "no_grad": "imperative",
    "scipy": "",
    "symbolic": "expression",
    "symbols": "explicit",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'adjoint' has no attribute {name!r}")
    home = _LATE[name]
    module = importlib.import_module(f".{home or name}", __name__)
    value = globals()[name] = getattr(module, name) if home else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


__all__ = [
    "AdjointError",
    "Graph",
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
    "function",
    "grad",
    "gradients",
    "graph",
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
    "scipy",
    "stop_gradient",
    "symbolic",
    "symbols",
    "value_and_grad",
    "vjp",
    "vmap",
]
