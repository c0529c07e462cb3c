"""autograd.scipy.stats: the distributions of `adjoint.scipy.stats`, which autograd has as modules."""

from __future__ import annotations

import sys
from typing import Any

from ....scipy import stats as _face

__path__: list[str] = []  # a package, so that `import adjoint.compat.autograd.scipy.stats.norm as norm` finds them
for _name in ("beta", "chi2", "dirichlet", "expon", "gamma", "multivariate_normal", "norm", "poisson", "t"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = getattr(_face, _name)


def __getattr__(name: str) -> Any:
    return getattr(_face, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_face)})
