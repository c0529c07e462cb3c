"""Which package a module belongs to. A private copy made by `adopt` belongs to the package that it is a copy of.

>>> package_of("adjoint.numpy.linalg"), package_of("adjoint.adopted.iapws.iapws97"), package_of("scipy.linalg")
('adjoint', 'iapws', 'scipy')
"""

from __future__ import annotations

import sys
import sysconfig
import types

OWN = __name__.partition(".")[0]
COPIES = f"{OWN}.adopted"  # the package that holds the copies
_PREFIX = f"{COPIES}."
OPTIONS = "="  # begins the part of a copy's name that holds the options it was made with


def original_name(module: str) -> str:
    """The name of the module that a copy was made of; any other name unchanged."""
    if not module.startswith(_PREFIX):
        return module
    name = module[len(_PREFIX) :]
    return name.partition(".")[2] if name.startswith(OPTIONS) else name


def package_of(module: object) -> str:
    """The top-level package of a module, by its name."""
    name = str(module)
    root = name.partition(".")[0]
    return original_name(name).partition(".")[0] if root == OWN else root


INSTALLED = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))  # the folders of installed packages


def is_installed(module: str) -> bool:
    """Whether a module, by its name, is part of an installed package, not a script, a notebook or a module of the user's."""
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    return module != "__main__" and file.startswith(INSTALLED)  # `python -m package` runs code of the user's as well


def is_own(module: str) -> bool:
    """Whether a module, by its name, is part of this package."""
    return module.startswith(f"{OWN}.") and not module.startswith(_PREFIX)


ADOPTED = "__adopted__"  # in the builtins of adopted code
EXTENDS = "__extends__"  # in a class that a transform derives from one of the user's: that class
RUNTIME = "__adjoint__"  # a free variable of code that is rewritten from its source, which calls f as __adjoint__.call(f)(x)


def is_adopted(frame: types.FrameType) -> bool:
    """Whether a frame runs adopted code."""
    return ADOPTED in frame.f_builtins


def is_copy(module: object) -> bool:
    """Whether a module, by its name, is a private copy."""
    return str(module).startswith(_PREFIX)
