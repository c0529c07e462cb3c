"""The calls of NumPy's own tests, repeated: a slice of what `make nightly` runs, and that a difference would be found."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from surface import repeat
from surface.repeat import Call, Difference

TESTS = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize(
    "suite, files", [("numpy.lib", "ufunclike,type_check"), ("scipy.special", "boxcox"), ("scipy.fft", "helper")]
)
def test_a_slice_of_their_tests(suite, files):
    command = [sys.executable, "-W", "ignore", "-m", "surface.repeat", suite, "--files", files, "--each", "2"]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    report = done.stdout[done.stdout.rfind(f"{suite}:") :]
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " same" in report


X = np.array([[3.0, 1.0], [2.0, 5.0]])
GOOD = [
    Call("numpy", "sort", (X,), {"axis": 0}),
    Call("numpy", "median", ([3.0, 1.0, 2.5],), {}),
    Call("numpy.linalg", "inv", (X,), {}),
    Call("numpy", "concatenate", ([X, X],), {"axis": 1}),
    Call("numpy", "concatenate", ([X, X[0]],), {}),  # which NumPy refuses
    Call("scipy.special", "gammaln", (X,), {}),
    Call("scipy.stats", "norm.logpdf", (X, 1.0), {"scale": 2.0}),
    Call("scipy.stats", "multivariate_normal.logpdf", (X[0], X[1], X @ X.T), {}),
    Call("scipy.linalg", "cho_factor", (X @ X.T,), {"lower": True}),
    Call("scipy.linalg", "svd", (np.outer([1.0, 2.0], [3.0, 1.0, 1.0]) + np.eye(2, 3),), {}),
    Call("scipy.linalg", "eigh", (X @ X.T,), {"driver": "evr"}),
    Call("scipy.linalg", "norm", (X[0],), {}),  # a number of Python's
    Call("numpy", "broadcast_to", (X[0], (10**9, 2)), {}),  # which is a view
]


@pytest.mark.parametrize("mode", repeat.MODES)
@pytest.mark.parametrize("call", GOOD, ids=str)
def test_calls_that_agree(call, mode):
    outcome, what = repeat.repeat(call, mode)
    assert outcome in ("same", "passed over"), what


WRONG = {
    "value": (lambda x: np.sin(x) + 1e-6, "eager", "instead of"),
    "shape": (lambda x: np.sin(x)[None], "eager", "shape"),
    "dtype": (lambda x: np.sin(x).astype(np.float32), "compiled", "dtype"),
    "error": (lambda x: np.sin(x)[9], "compiled", "IndexError"),
    "slope": (lambda x: np.sin(repeat.ad.stop_gradient(x)) + x - repeat.ad.stop_gradient(x), "derivative", "differences"),
}


@pytest.mark.parametrize("name", WRONG)
def test_differences_are_found(name, monkeypatch):
    ours, mode, said = WRONG[name]
    monkeypatch.setattr(repeat, "counterpart", lambda home, name: ours)
    outcome, what = repeat.repeat(Call("numpy", "sin", (X,), {}), mode)
    assert outcome == "different"
    assert said in what


def test_whole_numbers_are_repeated_as_floats():
    call = Call("numpy", "cumsum", ([[3, 1], [2, 5]],), {"axis": 0})
    assert [repeat.repeat(call, mode)[0] for mode in ("eager", "derivative")] == ["same", "same"]
    assert repeat.with_floats(Call("numpy", "zeros_like", ("int",), {})).args == ("int",)


def test_coarse_results_are_not_differentiated():
    assert repeat.repeat(Call("numpy", "sum", (X,), {"dtype": np.float16}), "derivative")[0] == "passed over"


def test_a_call_that_should_raise(monkeypatch):
    monkeypatch.setattr(repeat, "counterpart", lambda home, name: lambda arrays, axis=0: arrays[0])
    assert repeat.repeat(Call("numpy", "concatenate", ([X, X[0]],), {}), "eager")[0] == "different"


def test_reasons():
    rules = repeat.allowed()
    assert all(rule["function"] and rule["reason"] for rule in rules)
    rule = {"function": "numpy.sin", "mode": "eager", "what": "dtype", "reason": "…"}
    assert repeat.is_allowed(Difference("numpy.sin", "eager", "numpy.sin(1)", "dtype f"), [rule])
    assert not repeat.is_allowed(Difference("numpy.sin", "compiled", "numpy.sin(1)", "dtype f"), [rule])
    assert not repeat.is_allowed(Difference("numpy.cos", "eager", "numpy.cos(1)", "dtype f"), [rule])
