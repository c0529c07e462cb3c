"""Exact derivatives of NumPy programs.

>>> import adjoint as ad
>>> ad.grad(lambda x: x**2)(3.0)
np.float64(6.0)
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import numpy
from .api.elementwise import derivative, elementwise_grad
from .api.forward import jvp, linearize
from .api.grad import grad, stop_gradient, value_and_grad, vjp
from .api.jacobian import hessian, hvp, jacfwd, jacobian, jacrev
from .api.vmap import vmap
from .core.errors import AdjointError
from .core.tree import register_container
from .core.version import VERSION
from .eager.on_gpu import ON_GPU as _ON_GPU

if TYPE_CHECKING:
    from . import export, extend, scipy
    from .adopt import adopt
    from .algebra.expression import symbolic
    from .api.control import cond, fori_loop, map, scan, while_loop
    from .api.custom import checkpoint, custom_jvp, custom_vjp
    from .api.evaluation import trace
    from .api.graph import graph, parse
    from .api.imperative import array, dual, no_grad
    from .api.symbols import Graph, function, gradients, symbols
    from .check.compare import compare
    from .check.differences import finite_difference
    from .check.gradients import check_grads
    from .compiler.jit import jit
    from .compiler.num_threads import get_num_threads, set_num_threads
    from .export.container import load, save
    from .staging.stand_ins import static

__version__ = VERSION

#: Names that are loaded on first access, so that importing the package stays fast.
_LATE = {
    "Graph": "api.symbols",
    "adopt": "",
    "array": "api.imperative",
    "check_grads": "check.gradients",
    "checkpoint": "api.custom",
    "compare": "check.compare",
    "cond": "api.control",
    "custom_jvp": "api.custom",
    "custom_vjp": "api.custom",
    "dual": "api.imperative",
    "export": "",
    "extend": "",
    "finite_difference": "check.differences",
    "fori_loop": "api.control",
    "function": "api.symbols",
    "get_num_threads": "compiler.num_threads",
    "gradients": "api.symbols",
    "graph": "api.graph",
    "jit": "compiler.jit",
    "load": "export.container",
    "map": "api.control",
    "no_grad": "api.imperative",
    "parse": "api.graph",
    "save": "export.container",
    "scan": "api.control",
    "scipy": "",
    "set_num_threads": "compiler.num_threads",
    "static": "staging.stand_ins",
    "symbolic": "algebra.expression",
    "symbols": "api.symbols",
    "trace": "api.evaluation",
    "while_loop": "api.control",
}


def _run_compiled(*args: Any) -> Any:
    return importlib.import_module(".compiler.one_op", __name__).run(*args)


_ON_GPU.compiled = _run_compiled


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'adjoint' has no attribute {name!r}")
    home = _LATE[name]
    module = importlib.import_module(f".{home or name}", __name__)
    value = globals()[name] = getattr(module, name) if home else module
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__all__ = [
    "AdjointError",
    "Graph",
    "adopt",
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
    "export",
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
    "load",
    "map",
    "no_grad",
    "numpy",
    "parse",
    "register_container",
    "save",
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
