"""scipy.signal, differentiable: convolutions, recursive filters, spectra, filter design by traced frequencies.

    from adjoint.scipy import signal
    ad.grad(lambda b: np.sum(signal.filtfilt(b, [1.0, -0.5], noise) ** 2))(np.array([0.2, 0.3]))

SciPy's code in Python runs as an adopted copy. What it leaves to compiled kernels (`lfilter`, `sosfilt`, direct convolutions) is
written here in our ops. Splines and the search for peaks take plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.signal as _scipy
import scipy.signal._sosfilt as _sections

from .. import numpy as anp
from ..adopt.copies import AMENDED, world_with
from ..adopt.face import FixedFace
from ..core.errors import UnsupportedError
from ..ops.convolve import convolve as _along
from ..ops.filter import all_pole, causal
from .copied import copied, of_module
from .ndimage import CONSTANT, REFLECT, WRAP, _extended

# -- recursive filters ----------------------------------------------------------------------------------------------------


def _lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Σ a_k y[n−k] = Σ b_k x[n−k], where the state zi is added to the first inputs of the recursion."""
    b, a, x = anp.atleast_1d(b), anp.atleast_1d(a), anp.moveaxis(anp.asarray(x), axis, -1)
    for name, given in (("b", b), ("a", a)):
        if given.ndim != 1 or not given.size:
            raise ValueError(f"Parameter {name} is not a non-empty 1d array, since {name}.shape={given.shape}!")
    b, a = b / a[0], a / a[0]
    states, n = max(len(a), len(b)) - 1, x.shape[-1]
    u = causal(b, x)
    if zi is not None:
        zi = anp.broadcast_to(anp.moveaxis(anp.asarray(zi), axis, -1), (*x.shape[:-1], states))
        first = zi[..., :n]
        u = u + anp.pad(first, [(0, 0)] * (x.ndim - 1) + [(0, n - first.shape[-1])])
    y = all_pole(a, u) if len(a) > 1 else u
    out = anp.moveaxis(y, -1, axis)
    return out if zi is None else (out, anp.moveaxis(_last_state(b, a, x, y, zi), -1, axis))


def _last_state(b: Any, a: Any, x: Any, y: Any, zi: Any) -> Any:
    """The state after the last sample: what earlier samples add to later outputs."""
    states, n = zi.shape[-1], x.shape[-1]
    found = []
    for i in range(states):
        z = zi[..., i + n] if i + n < states else 0.0 * zi[..., 0]
        for k in range(i + 1, min(states, n + i) + 1):
            z = z + (b[k] * x[..., n - k + i] if k < len(b) else 0.0) - (a[k] * y[..., n - k + i] if k < len(a) else 0.0)
        found.append(z)
    return anp.stack(found, axis=-1) if found else zi


def _normalised(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of coefficients b and a, which SciPy divides by a₀ only if that is not 1."""

    def call(b: Any, a: Any, *rest: Any, **options: Any) -> Any:
        b, a = anp.atleast_1d(b), anp.atleast_1d(a)
        return f(b / a[0], a / a[0], *rest, **options)

    return call


def _filter_sections(sos: Any, x: Any, zi: Any) -> None:
    """`sosfilt`, of rows x with states zi, both of which are overwritten."""
    for s in range(sos.shape[0]):
        x[...], zi[:, s] = _lfilter(sos[s, :3], sos[s, 3:], x[...], zi=zi[:, s])


# -- convolutions ---------------------------------------------------------------------------------------------------------


def _full(x: Any, y: Any) -> Any:
    """Every overlap of two arrays of the same number of axes."""
    if x.ndim == 1:
        return _along(x, y, mode="full")
    x, y = (x, y) if x.size >= y.size else (y, x)
    wide = anp.pad(x, [(n - 1, n - 1) for n in y.shape])
    shape = [n + m - 1 for n, m in zip(x.shape, y.shape, strict=True)]
    total: Any = 0.0
    for place in np.ndindex(*y.shape):
        starts = [n - 1 - k for k, n in zip(place, y.shape, strict=True)]
        total = total + y[place] * wide[tuple(slice(s, s + n) for s, n in zip(starts, shape, strict=True))]
    return total


def _resampled(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0) -> Any:
    """The samples with up − 1 zeros between them, filtered, and every down-th of the result."""
    if mode != "constant" or cval != 0:
        raise UnsupportedError(f"upfirdn with mode={mode!r} and cval={cval!r} has no rule; extend the signal first")
    h, x = anp.asarray(h), anp.moveaxis(anp.asarray(x), axis, -1)
    spread = anp.zeros((*x.shape[:-1], (x.shape[-1] - 1) * up + 1), x.dtype)
    spread[..., ::up] = x
    return anp.moveaxis(_along(spread, h, mode="full")[..., ::down], -1, axis)


def _cut(y: Any, first: tuple[int, ...], second: tuple[int, ...], mode: str) -> Any:
    """The part of all overlaps that a mode keeps."""
    if mode == "full":
        return y
    if mode == "same":
        starts = [(n - k) // 2 for n, k in zip(y.shape, first, strict=True)]
        return y[tuple(slice(s, s + k) for s, k in zip(starts, first, strict=True))]
    if mode != "valid":
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    pairs = list(zip(first, second, strict=True))
    if not (all(n >= m for n, m in pairs) or all(n <= m for n, m in pairs)):
        raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")
    return y[tuple(slice(min(n, m) - 1, max(n, m)) for n, m in pairs)]


def _convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    x, y = anp.asarray(in1), anp.asarray(in2)
    if x.ndim == y.ndim == 0:
        return x * y
    if x.ndim != y.ndim:
        raise ValueError("volume and kernel should have the same dimensionality")
    if not x.size or not y.size:
        return np.array([])
    if method == "auto":
        method = _scipy.choose_conv_method(*(np.ones(v.shape, v.dtype) for v in (x, y)), mode=mode)
    if method == "fft":
        return world_with().load("scipy.signal._signaltools").fftconvolve(x, y, mode)
    if method != "direct":
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    return _cut(_full(x, y), x.shape, y.shape, mode)


def _reversed(x: Any) -> Any:
    return anp.conj(x[(slice(None, None, -1),) * x.ndim])


def _correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    x, y = anp.asarray(in1), anp.asarray(in2)
    return x * anp.conj(y) if x.ndim == y.ndim == 0 else _convolve(x, _reversed(y), mode, method)


def _convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    x, y = anp.asarray(in1), anp.asarray(in2)
    if not x.ndim == y.ndim == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    modes = {"fill": CONSTANT, "pad": CONSTANT, "wrap": WRAP, "circular": WRAP, "symm": REFLECT, "symmetric": REFLECT}
    if boundary not in modes:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    if mode == "valid" or (modes[boundary] == CONSTANT and fillvalue == 0):
        return _cut(_full(x, y), x.shape, y.shape, mode)
    wide = x
    for axis, n in enumerate(y.shape):
        wide = _extended(wide, axis, n - 1, n - 1, modes[boundary], fillvalue)
    return _cut(_cut(_full(wide, y), wide.shape, y.shape, "valid"), x.shape, y.shape, mode)


def _correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    x, y = anp.asarray(in1), anp.asarray(in2)
    if mode != "same":
        return _convolve2d(x, _reversed(y), mode, boundary, fillvalue)
    everything = _convolve2d(x, _reversed(y), "full", boundary, fillvalue)
    return everything[tuple(slice(k // 2, k // 2 + n) for n, k in zip(x.shape, y.shape, strict=True))]


_OURS: dict[str, Callable[..., Any]] = {
    "lfilter": _lfilter,
    "convolve": _convolve,
    "correlate": _correlate,
    "convolve2d": _convolve2d,
    "correlate2d": _correlate2d,
    "upfirdn": _resampled,
}


def _amended(names: dict[str, Any]) -> dict[str, Any]:
    return {**_OURS, **{name: _normalised(names[name]) for name in ("lfilter_zi", "lfiltic")}}


AMENDED["scipy.signal._signaltools"] = _amended

#: In place of the compiled module that `sosfilt` calls.
_sosfilt = FixedFace(_sections, {"_sosfilt": _filter_sections})


def __getattr__(name: str) -> Any:
    globals()[name] = found = copied(getattr(_scipy, name), _OURS[name]) if name in _OURS else of_module(_scipy, name)
    return found


def __dir__() -> list[str]:
    return dir(_scipy)
