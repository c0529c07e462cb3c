"""Every exporter and the tool that runs what it writes: for the table of ops, and for random programs.

A runner takes (exporter, cases), where a case is (name, program, inputs), and returns for each case the flat results, or the
`UnsupportedError` that refused it. All cases come at once, so that a tool which starts slowly starts once. A runner whose tool is
missing returns why, as a string. To add an exporter, add its runner here; the tests and the table of docs/export.md follow.
"""

import importlib.util

import numpy as np
import op_samples
from export.runners import RUNNERS as NATIVE

from adjoint import export
from adjoint.core.errors import UnsupportedError

#: Ops of which the last digits depend on how sums are ordered.
ROUNDED = {"norm"}
#: Results whose vectors are determined up to their signs, and the axis along which they lie.
SIGNLESS = {("eigh", 1): -2, ("svd", 0): -2, ("svd", 2): -1}


def run_python(cases, write=None):
    found = []
    for _, program, inputs in cases:
        try:
            scope = {}
            exec((write or export.python)(program), scope)
        except UnsupportedError as error:
            found.append(error)
            continue
        made = [value for key, value in scope.items() if callable(value) and key != "special"][-1]
        results = made(*(inputs if write is None else [np.asarray(x)[()] for x in inputs]))
        found.append(list(results) if isinstance(results, tuple) else [results])
    return found


def run_numba(cases):
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed; make an environment for it: pip install numba"
    return run_python(cases, export.numba)


RUNNERS = {"python": run_python, "numba": run_numba, **NATIVE}


def cases():
    """One program for each op, with inputs."""
    return [(name, *op_samples.programs(name)[0]) for name in op_samples.names()]


def refusals(exporter):
    """For each op None if the exporter writes it, else why not; nothing is run."""
    found = {}
    for name, program, _ in cases():
        try:
            getattr(export, exporter)(program)
            found[name] = None
        except UnsupportedError as error:
            found[name] = str(error)
    return found


def differences(exporter):
    """The ops whose results differ, and those that were refused without being named."""
    tried = cases()
    results = RUNNERS[exporter](tried)
    if isinstance(results, str):
        return results
    wrong = []
    for (name, program, inputs), found in zip(tried, results, strict=True):
        if isinstance(found, UnsupportedError):
            if f"'{name}'" not in str(found):
                wrong.append(f"{name}: refused without its name: {found}")
            continue
        expected = program.run(*inputs)
        for i, (a, b) in enumerate(zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True)):
            a, b = np.asarray(a), np.asarray(b)
            if (name, i) in SIGNLESS:
                a, b = np.abs(a), np.abs(b)  # the products are tested with the samples of each exporter
            if a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, rtol=1e-12, atol=1e-300, equal_nan=True):
                wrong.append(f"{name}: {a!r:.200} instead of {b!r:.200}")
    return wrong
