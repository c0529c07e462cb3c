"""Eigenvalues of symmetric matrices, QR and singular values, written out for small matrices.

    eigh    Jacobi rotations: eigenvalues to a few units of rounding of the largest, vectors orthogonal to the same
    svd     one-sided Jacobi rotations (Hestenes), to the same
    qr      Householder reflections, with the signs that LAPACK has

An n by n matrix takes about 10 n³ multiplications per sweep, and 5 to 10 sweeps. The sign of an eigenvector is arbitrary, as is
that of a pair of singular vectors: LAPACK may have the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.lower.kernel import View
from ..compiler.lower.lowered import Rules
from ..compiler.lower.scalar import FLOATS
from ..compiler.lower.views import region
from ..core.types import Type
from ..ir.graph import Equation
from ..ops import decompose
from .array_routines import run

if TYPE_CHECKING:
    from ..compiler.lower.fuse import Lowering

_SWEEPS = 60


def _filled(text: str, **words: Any) -> str:
    for word, value in (words | {"SWEEPS": _SWEEPS}).items():
        text = text.replace(word, str(value))
    return text


# Row-major. Rotations of the rows and columns p, q that make a[p, q] zero, until all are; then in ascending order.
_EIGEN = """
    for (INT i = 0; i < N_; ++i) {
      for (INT j = 0; j < i; ++j) {
        REAL c = SAME;
        a[i * N_ + j] = c;
        a[j * N_ + i] = c;
      }
      for (INT j = 0; j < N_; ++j) v[i * N_ + j] = ZERO;
      v[i * N_ + i] = ONE;
    }
    REAL least = ZERO;
    for (INT i = 0; i < N_ * N_; ++i) {
      if (a[i] - a[i] != ZERO) return 1;
      if (ABS(a[i]) > least) least = ABS(a[i]);
    }
    least = LEAST * least;
    INT going = 1;
    INT sweep = 0;
    while (going == 1) {
      going = 0;
      for (INT p = 0; p < N_ - 1; ++p) for (INT q = p + 1; q < N_; ++q) {
        REAL b = a[p * N_ + q];
        REAL d = a[q * N_ + q] - a[p * N_ + p];
        REAL size = ABS(a[p * N_ + p]) + ABS(a[q * N_ + q]);
        if (ABS(b) > SMALL * size && ABS(b) > least) {
          going = 1;
          REAL t = ONE;
          REAL h = d / (b + b);
          if (ABS(d) > BIG * ABS(b)) t = b / d;
          else t = (h < ZERO ? -ONE : ONE) / (ABS(h) + SQRT(h * h + ONE));
          REAL c = ONE / SQRT(t * t + ONE);
          REAL s = t * c;
          for (INT k = 0; k < N_; ++k) {
            REAL x = a[k * N_ + p];
            REAL y = a[k * N_ + q];
            a[k * N_ + p] = c * x - s * y;
            a[k * N_ + q] = s * x + c * y;
          }
          for (INT k = 0; k < N_; ++k) {
            REAL x = a[p * N_ + k];
            REAL y = a[q * N_ + k];
            a[p * N_ + k] = c * x - s * y;
            a[q * N_ + k] = s * x + c * y;
          }
          a[p * N_ + q] = ZERO;
          a[q * N_ + p] = ZERO;
          for (INT k = 0; k < N_; ++k) {
            REAL x = v[k * N_ + p];
            REAL y = v[k * N_ + q];
            v[k * N_ + p] = c * x - s * y;
            v[k * N_ + q] = s * x + c * y;
          }
        }
      }
      sweep = sweep + 1;
      if (sweep > SWEEPS) return 1;
    }
    for (INT i = 0; i < N_; ++i) {
      w[i] = a[i * N_ + i];
      if (w[i] != w[i]) return 1;
    }
    for (INT i = 0; i < N_ - 1; ++i) {
      INT best = i;
      for (INT j = i + 1; j < N_; ++j) if (w[j] < w[best]) best = j;
      if (best != i) {
        REAL x = w[i];
        w[i] = w[best];
        w[best] = x;
        for (INT k = 0; k < N_; ++k) {
          REAL y = v[k * N_ + i];
          v[k * N_ + i] = v[k * N_ + best];
          v[k * N_ + best] = y;
        }
      }
    }
    return 0;"""

# g, of LONG rows and SHORT columns, column-major: rotations of its columns until all are orthogonal. Their lengths are the
# singular values, in descending order. Columns that are rounding errors, and further ones, complete an orthogonal basis.
_SINGULAR = """
    for (INT i = 0; i < SHORT; ++i) {
      for (INT j = 0; j < SHORT; ++j) z[i * SHORT + j] = ZERO;
      z[i * SHORT + i] = ONE;
    }
    REAL top = ZERO;
    for (INT i = 0; i < LONG * SHORT; ++i) {
      if (g[i] != g[i]) return 1;
      if (ABS(g[i]) > top) top = ABS(g[i]);
    }
    if (top > HUGE_) return 1;
    if (top > ZERO) for (INT i = 0; i < LONG * SHORT; ++i) g[i] = g[i] / top;
    INT going = 1;
    INT sweep = 0;
    while (going == 1) {
      going = 0;
      for (INT p = 0; p < SHORT - 1; ++p) for (INT q = p + 1; q < SHORT; ++q) {
        REAL a = ZERO;
        REAL b = ZERO;
        REAL d = ZERO;
        for (INT k = 0; k < LONG; ++k) {
          a += g[p * LONG + k] * g[p * LONG + k];
          b += g[p * LONG + k] * g[q * LONG + k];
          d += g[q * LONG + k] * g[q * LONG + k];
        }
        if (ABS(b) > SMALL * SQRT(a) * SQRT(d) && a > NOISE && d > NOISE) {
          going = 1;
          REAL h = (d - a) / (b + b);
          REAL t = (h < ZERO ? -ONE : ONE) / (ABS(h) + SQRT(h * h + ONE));
          REAL c = ONE / SQRT(t * t + ONE);
          REAL e = t * c;
          for (INT k = 0; k < LONG; ++k) {
            REAL x = g[p * LONG + k];
            REAL y = g[q * LONG + k];
            g[p * LONG + k] = c * x - e * y;
            g[q * LONG + k] = e * x + c * y;
          }
          for (INT k = 0; k < SHORT; ++k) {
            REAL x = z[p * SHORT + k];
            REAL y = z[q * SHORT + k];
            z[p * SHORT + k] = c * x - e * y;
            z[q * SHORT + k] = e * x + c * y;
          }
        }
      }
      sweep = sweep + 1;
      if (sweep > SWEEPS) return 1;
    }
    for (INT p = 0; p < SHORT; ++p) {
      REAL t = ZERO;
      for (INT k = 0; k < LONG; ++k) t += g[p * LONG + k] * g[p * LONG + k];
      s[p] = SQRT(t);
    }
    for (INT p = 0; p < SHORT; ++p) {
      INT best = p;
      for (INT q = p + 1; q < SHORT; ++q) if (s[q] > s[best]) best = q;
      if (best != p) {
        REAL t = s[p];
        s[p] = s[best];
        s[best] = t;
        for (INT k = 0; k < LONG; ++k) {
          t = g[p * LONG + k];
          g[p * LONG + k] = g[best * LONG + k];
          g[best * LONG + k] = t;
        }
        for (INT k = 0; k < SHORT; ++k) {
          t = z[p * SHORT + k];
          z[p * SHORT + k] = z[best * SHORT + k];
          z[best * SHORT + k] = t;
        }
      }
    }
    for (INT p = 0; p < ALL_; ++p) {
      INT known = 0;
      if (p < SHORT) if (s[p] * s[p] > NOISE) known = 1;
      if (known == 1) {
        for (INT k = 0; k < LONG; ++k) g[p * LONG + k] /= s[p];
      } else {
        INT axis = 0;
        REAL length = ZERO;
        while (length < SLIGHT && axis < LONG) {
          for (INT k = 0; k < LONG; ++k) g[p * LONG + k] = ZERO;
          g[p * LONG + axis] = ONE;
          for (INT again = 0; again < 2; ++again) for (INT q = 0; q < p; ++q) {
            REAL t = ZERO;
            for (INT k = 0; k < LONG; ++k) t += g[p * LONG + k] * g[q * LONG + k];
            for (INT k = 0; k < LONG; ++k) g[p * LONG + k] -= t * g[q * LONG + k];
          }
          length = ZERO;
          for (INT k = 0; k < LONG; ++k) length += g[p * LONG + k] * g[p * LONG + k];
          axis = axis + 1;
        }
        length = SQRT(length);
        for (INT k = 0; k < LONG; ++k) g[p * LONG + k] /= length;
      }
    }
    for (INT p = 0; p < SHORT; ++p) s[p] = s[p] * top;
    return 0;"""

# As geqr2 of LAPACK: reflections 1 - tau v vᵀ, v below the diagonal with a leading 1 that is not stored.
_REFLECTORS = """
    for (INT p = 0; p < SHORT; ++p) {
      REAL largest = ZERO;
      for (INT i = p + 1; i < M_; ++i) if (!(ABS(a[i + p * M_]) <= largest)) largest = ABS(a[i + p * M_]);
      tau[p] = ZERO;
      if (largest != ZERO) {
        REAL head = a[p + p * M_];
        if (ABS(head) > largest) largest = ABS(head);
        REAL t = ZERO;
        for (INT i = p; i < M_; ++i) t += (a[i + p * M_] / largest) * (a[i + p * M_] / largest);
        REAL length = largest * SQRT(t);
        REAL beta = head >= ZERO ? -length : length;
        tau[p] = (beta - head) / beta;
        for (INT i = p + 1; i < M_; ++i) a[i + p * M_] /= head - beta;
        a[p + p * M_] = beta;
        for (INT j = p + 1; j < N_; ++j) {
          REAL v = a[p + j * M_];
          for (INT i = p + 1; i < M_; ++i) v += a[i + p * M_] * a[i + j * M_];
          v = v * tau[p];
          a[p + j * M_] -= v;
          for (INT i = p + 1; i < M_; ++i) a[i + j * M_] -= v * a[i + p * M_];
        }
      }
    }"""

# As org2r of LAPACK: the product of the reflections, from the last to the first, in place.
_ORTHOGONAL = """
    for (INT j = SHORT; j < N_; ++j) {
      for (INT i = 0; i < M_; ++i) q[i + j * M_] = ZERO;
      q[j + j * M_] = ONE;
    }
    for (INT count = 0; count < SHORT; ++count) {
      INT p = SHORT - 1 - count;
      for (INT j = p + 1; j < N_; ++j) {
        REAL v = q[p + j * M_];
        for (INT i = p + 1; i < M_; ++i) v += q[i + p * M_] * q[i + j * M_];
        v = v * tau[p];
        q[p + j * M_] -= v;
        for (INT i = p + 1; i < M_; ++i) q[i + j * M_] -= v * q[i + p * M_];
      }
      for (INT i = p + 1; i < M_; ++i) q[i + p * M_] = -tau[p] * q[i + p * M_];
      q[p + p * M_] = ONE - tau[p];
      for (INT i = 0; i < p; ++i) q[i + p * M_] = ZERO;
    }"""


def _fits(low: Lowering, equation: Equation) -> bool:
    (a,) = equation.inputs
    t = low.type_of(a)
    return t.dtype in FLOATS and 0 not in t.shape


def _eigh(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    (a,), (values, vectors) = equation.inputs, equation.types
    n, dtype = vectors.shape[-1], vectors.dtype
    copy, v, w = low.local(vectors), low.local(vectors), low.local(values)
    low.copy(low.operand(a, vectors.shape), copy)
    same = "a[i * N_ + j]" if equation.params["lower"] else "a[j * N_ + i]"
    eps = float(np.finfo(dtype).eps)
    text = _filled(_EIGEN, SAME=same, N_=n, SMALL=repr(eps / 4), BIG=repr(1 / eps), LEAST=repr(eps / 16))
    one = View(w.buffer, (*w.shape, 1), (*w.strides, 0), 0)
    run(low, "eigen", text, dtype, {}, {"a": copy, "v": v, "w": one}, axes=2, failure="eigenvalues")
    low.values.update(zip(equation.outputs, (w, v), strict=True))
    return True


def _svd(low: Lowering, equation: Equation) -> bool:
    if not _fits(low, equation):
        return False
    (a,), (tu, _, tv) = equation.inputs, equation.types
    t = low.type_of(a)
    *stack, m, n = t.shape
    short, long = sorted((m, n))
    every = tu.shape[-1] if m >= n else tv.shape[-2]
    g, z, s = (low.local(Type((*stack, *size), t.dtype)) for size in ((every, long), (short, short), (short,)))
    given = low.view(a)
    columns = given if m < n else _swapped(given)  # g holds the long vectors as rows
    low.copy(columns, region(g, (*(slice(None),) * len(stack), slice(0, short))))
    eps = float(np.finfo(t.dtype).eps)
    text = _filled(
        _SINGULAR,
        SHORT=short,
        LONG=long,
        ALL_=every,
        SMALL=repr(eps),
        NOISE=repr((eps * long) ** 2),
        HUGE_=repr(float(np.finfo(t.dtype).max)),
        SLIGHT=repr(0.5 / long),
    )
    one = View(s.buffer, (*s.shape, 1), (*s.strides, 0), 0)
    run(low, "singular", text, t.dtype, {}, {"g": g, "z": z, "s": one}, axes=2, failure="singular values")
    u, vh = (_swapped(g), z) if m >= n else (_swapped(z), g)
    low.values.update(zip(equation.outputs, (u, s, vh), strict=True))
    return True


def _swapped(view: View) -> View:
    *stack, m, n = view.shape
    *outer, down, across = view.strides
    return View(view.buffer, (*stack, n, m), (*outer, across, down), view.offset)


RULES: Rules = {decompose.eigh: _eigh, decompose.svd: _svd}


def reflectors(m: int, n: int) -> str:
    return _filled(_REFLECTORS, SHORT=min(m, n), M_=m, N_=n)


def orthogonal(m: int, n: int, count: int) -> str:
    return _filled(_ORTHOGONAL, SHORT=count, M_=m, N_=n)
