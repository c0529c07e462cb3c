"""`install()`: packages that import autograd get adjoint.compat.autograd instead, without a change to their source."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_HERE = __name__.rpartition(".")[0]


class _Redirect(MetaPathFinder, Loader):
    """Finds `autograd.x.y` as `adjoint.compat.autograd.x.y`: the same module under a second name."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.partition(".")[0] == "autograd" else None

    def exec_module(self, module: ModuleType) -> None:
        ours = _HERE + module.__name__.removeprefix("autograd")
        importlib.import_module(ours)
        # importlib returns what stands there now. The modules that came with it get their second names too: an import of one
        # under that name would replace the attribute of its package, as the function `misc.flatten` by its module.
        for name, found in list(sys.modules.items()):
            if name == ours or name.startswith(ours + "."):
                sys.modules.setdefault("autograd" + name.removeprefix(_HERE), found)
        sys.modules[module.__name__] = sys.modules[ours]


def install() -> None:
    """From now on, let `import autograd` and `from autograd.x import y` find this package, in every module of the process.

    Call it before the first import of autograd, and of packages that use it.
    """
    if any(isinstance(finder, _Redirect) for finder in sys.meta_path):
        return
    if any(name.partition(".")[0] == "autograd" for name in sys.modules):
        raise RuntimeError("autograd is imported already; call adjoint.compat.autograd.install() before anything that imports it")
    sys.meta_path.insert(0, _Redirect())
