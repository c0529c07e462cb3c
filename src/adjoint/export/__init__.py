"""Programs in other languages: `export.python(f, *args)`, each loaded on first use.

>>> from adjoint import export
>>> def energy(x):
...     return x * x
>>> text = export.python(energy, 1.0, derivatives="gradient")
>>> "def energy_gradient(x):" in text
True

Every exporter takes the function, arguments for their types, `path=`, `derivatives=` and `argnums=`: see docs/export.md.

`EXPORTERS` names the module of each exporter; the function in it has the public name. A module has a name of its own, since an
imported submodule would take the place of a function of the same name here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .c_source import c
    from .javascript_module import javascript
    from .jax_function import jax
    from .latex_text import latex
    from .numba_source import numba
    from .object_file import object
    from .onnx_file import onnx
    from .python_source import python
    from .stablehlo_text import stablehlo
    from .wasm_module import wasm

EXPORTERS = {
    "c": "c_source",
    "javascript": "javascript_module",
    "jax": "jax_function",
    "latex": "latex_text",
    "numba": "numba_source",
    "object": "object_file",
    "onnx": "onnx_file",
    "python": "python_source",
    "stablehlo": "stablehlo_text",
    "wasm": "wasm_module",
}

#: The keyword arguments of every exporter; others are its own.
SHARED_OPTIONS = frozenset({"path", "derivatives", "argnums", "name"})


def __getattr__(name: str) -> Any:
    if name not in EXPORTERS:
        raise AttributeError(f"module 'adjoint.export' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{EXPORTERS[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTERS})


__all__ = [
    "EXPORTERS",
    "SHARED_OPTIONS",
    "c",
    "javascript",
    "jax",
    "latex",
    "numba",
    "object",
    "onnx",
    "python",
    "stablehlo",
    "wasm",
]
