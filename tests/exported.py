"""Every exporter and the tool that runs what it writes: for the table of ops, and for random programs.

A runner takes (exporter, cases), where a case is (name, program, inputs), and returns for each case the flat results, or the
`UnsupportedError` that refused it. All cases come at once, so that a tool which starts slowly starts once. A runner whose tool is
missing returns why, as a string. To add an exporter, add its runner here; the tests and the table of docs/export.md follow.
"""

import functools
import re
import warnings

import numpy as np
import op_samples
import scipy.special
from export.environments import JAX, NUMBA
from export.runners import RUNNERS as NATIVE
from night import rotated

import adjoint as ad
from adjoint import export
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS, Elementwise
from adjoint.export import jax_function, onnx_nodes, stablehlo_ops
from adjoint.export.lowering import lower
from adjoint.export.normal import normal
from adjoint.export.program import parts

#: Ops of which the last digits depend on how sums are ordered.
ROUNDED = {"norm"}
#: Results whose vectors are determined up to their signs, and the axis along which they lie.
SIGNLESS = {("eigh", 1): -2, ("svd", 0): -2, ("svd", 2): -1}

#: Ops whose result is a small difference of large numbers, and how large these are: the rounding of a logarithm is magnified.
CANCELS = {"kl_div": 4.0, "sinc": 1.0}

#: Ops of derivatives, whose operands are floats.
NEVER_OF_INTEGERS = {"cofactor_slope", "hermitian"}
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

#: Exporters that write a program in the ops of a target: which ops those refuse is known without the target's library. The native
#: ones refuse what has no steps, all the same.
TARGETS = {"onnx": onnx_nodes.TARGET, "stablehlo": stablehlo_ops.TARGET, "jax": jax_function.TARGET}


def run_python(cases):
    found = []
    for _, program, inputs in cases:
        try:
            scope = {}
            exec(export.python(program), scope)
        except UnsupportedError as error:
            found.append(error)
            continue
        made = [value for key, value in scope.items() if callable(value) and key != "special"][-1]
        results = made(*inputs)
        found.append(list(results) if isinstance(results, tuple) else [results])
    return found


def run_onnx(cases):
    try:
        import onnxruntime
    except ImportError:
        return "ONNX Runtime is not installed: pip install onnx onnxruntime"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    found = []
    for _, program, inputs in cases:
        try:
            made = export.onnx(program)
        except UnsupportedError as error:
            found.append(error)
            continue
        session = onnxruntime.InferenceSession(made.SerializeToString(), options)
        names = [i.name for i in session.get_inputs()]
        found.append(session.run(None, {n: np.asarray(x) for n, x in zip(names, inputs, strict=True)}))
    return found


def run_in_environment(language, environment, cases):
    if environment.interpreter() is None:
        return environment.missing
    found, sent = [], []
    for _, program, inputs in cases:
        try:
            part = parts(program, ())[0]
            sent.append((language, getattr(export, language)(program), part.name, [np.asarray(x) for x in inputs]))
            found.append(None)
        except UnsupportedError as error:
            found.append(error)
    results = iter(environment.run(sent))
    made = [next(results) if error is None else error for error in found]
    errors = [f"{name}: {r}" for (name, *_), r in zip(cases, made, strict=True) if isinstance(r, str)]
    assert not errors, "\n".join(errors)
    return made


def runner(language, environment):
    return lambda cases: run_in_environment(language, environment, cases)


RUNNERS = {"python": run_python, "numba": runner("numba", NUMBA), **NATIVE, "onnx": run_onnx}
RUNNERS |= {language: runner(language, JAX) for language in ("stablehlo", "jax")}


@functools.cache
def cases():
    """One program for each op, with inputs."""
    return [(name, *op_samples.programs(name)[0]) for name in op_samples.names()]


@functools.cache
def integer_cases(dtype, part):
    """One program of integers of a dtype for each op that has one, with inputs; of every other op if not at night."""
    tried = [name for name in op_samples.names() if name not in (*op_samples.STRUCTURED, *NEVER_OF_INTEGERS)]
    tried = rotated(tried, part, 2)
    found = [(name, op_samples.whole_numbers(name, np.dtype(dtype))) for name in tried]
    return [(name, *made) for name, made in found if made is not None]


@functools.cache
def end_cases():
    """One program for each function of floats that is written in native code, with infinite operands and ends of its domain."""
    found = []
    for name, refusal in refusals("c").items():
        op = OPS.get(name)
        of_numbers = isinstance(op, Elementwise) or isinstance(getattr(scipy.special, name, None), np.ufunc)
        if refusal is None and of_numbers and name not in op_samples.STRUCTURED:
            (inside, params), grid = next(op_samples.samples(op, np.random.default_rng(0))), op_samples.ends(op)
            if not params and any(np.asarray(x).dtype.kind == "f" for x in inside):
                found.append((name, ad.graph(lambda *xs, op=op: op(*xs))(*grid), grid))
    return found


@functools.cache
def kind_cases(kind):
    """One program for each op that has operands of a kind, with inputs."""
    found = [(name, op_samples.converted(name, kind)) for name in op_samples.names()]
    return [(name, *made) for name, made in found if made is not None]


def refusals(exporter):
    """For each op None if the exporter writes it, else why not; nothing is run."""
    found = {}
    for name, program, _ in cases():
        try:
            if exporter in TARGETS:
                normal(_part(name).graph, TARGETS[exporter])
            elif exporter in NATIVE:
                _lower(name)
            else:
                getattr(export, exporter)(program)
            found[name] = None
        except UnsupportedError as error:
            found[name] = str(error)
    return found


@functools.cache
def _part(name):
    """The function of an op, as exporters have it."""
    return parts(next(program for other, program, _ in cases() if other == name), ())[0]


def _lower(name):
    """Raise if an op has no steps; the answer is that of all native exporters."""
    if name not in _refused:
        try:
            lower(_part(name).graph, "export.c")
            _refused[name] = None
        except UnsupportedError as error:
            _refused[name] = error
    if _refused[name] is not None:
        raise _refused[name]


_refused = {}


def differences(run, tried):
    """The ops of some cases whose results differ, and those that were refused without being named, by a runner or its name."""
    results = (run if callable(run) else RUNNERS[run])(tried)
    if isinstance(results, str):
        return results
    wrong = []
    for (name, program, inputs), found in zip(tried, results, strict=True):
        if isinstance(found, UnsupportedError):
            if f"'{name}'" not in str(found) and not re.search(r"the input '\w+' is complex", str(found)):
                wrong.append(f"{name}: refused without its name: {found}")
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            expected = program.run(*inputs)
        for i, (a, b) in enumerate(zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True)):
            a, b = np.asarray(a), np.asarray(b)
            if (name, i) in SIGNLESS:
                a, b = np.abs(a), np.abs(b)  # the products are tested with the samples of each exporter
            near = {"rtol": 1e-12, "atol": 1e-15 * CANCELS.get(name, 1e-285), "equal_nan": True}
            if any(np.asarray(x).dtype in (np.float32, np.complex64) for x in (*inputs, b)):
                scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)  # a sum is rounded in another order
                near |= {"rtol": 2e-5, "atol": 5e-6 * scale}
            elif any(np.asarray(x).dtype == bool for x in inputs) and b.dtype.kind == "f":
                near["atol"] = 1e-15  # zeros and ones: there are roots among the results
            if a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, **near):
                wrong.append(f"{name}: {a!r:.200} instead of {b!r:.200}")
    return wrong
