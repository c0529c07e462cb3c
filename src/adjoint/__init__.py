"""Exact derivatives of NumPy programs.

>>> import adjoint as ad
>>> ad.grad(lambda x: x**2)(3.0)
np.float64(6.0)
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import numpy
from .api import derivative, elementwise_grad, grad, jvp, linearize, stop_gradient, value_and_grad, vjp
from .core.errors import AdjointError
from .core.version import VERSION
from .jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from .vectorize import vmap

if TYPE_CHECKING:
    from . import extend, scipy
    from .comparison import compare
    from .compiled import get_num_threads, jit, set_num_threads
    from .control import cond, fori_loop, map, scan, while_loop
    from .custom import checkpoint, custom_jvp, custom_vjp
    from .differences import finite_difference
    from .evaluation import trace
    from .explicit import Graph, function, gradients, symbols
    from .expression import symbolic
    from .graphs import graph
    from .imperative import array, dual, no_grad
    from .outside import static
    from .testing import check_grads

__version__ = VERSION

#: Names that are loaded when they are first asked for, so that importing the package stays quick.
_LATE = {
    "Graph": "explicit",
    "array": "imperative",
    "check_grads": "testing",
    "checkpoint": "custom",
    "compare": "comparison",
    "cond": "control",
    "custom_jvp": "custom",
    "custom_vjp": "custom",
    "dual": "imperative",
    "extend": "",
    "finite_difference": "differences",
    "fori_loop": "control",
    "function": "explicit",
    "get_num_threads": "compiled",
    "gradients": "explicit",
    "graph": "graphs",
    "jit": "compiled",
    "map": "control",
    "no_grad": "imperative",
    "scan": "control",
    "scipy": "",
    "set_num_threads": "compiled",
    "static": "outside",
    "symbolic": "expression",
    "symbols": "explicit",
    "while_loop": "control",
}


class _Trace(ModuleType):
    """`adjoint.trace` is both the package of the interpreters and a function, `ad.trace(f)`: a package that is called."""

    def __call__(self, f: Any, *, seed: Any = None, tangents: Any = None) -> Any:
        return importlib.import_module(".evaluation", __name__).trace(f, seed=seed, tangents=tangents)


sys.modules[f"{__name__}.trace"].__class__ = _Trace


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
    "cond",
    "custom_jvp",
    "custom_vjp",
    "derivative",
    "dual",
    "elementwise_grad",
    "extend",
    "finite_difference",
    "fori_loop",
    "function",
    "get_num_threads",
    "grad",
    "gradients",
    "graph",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "map",
    "no_grad",
    "numpy",
    "scan",
    "scipy",
    "set_num_threads",
    "static",
    "stop_gradient",
    "symbolic",
    "symbols",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
