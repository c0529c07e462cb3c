"""Nothing is stale: every way of reaching a value outside (`outside.txt`), and every way of changing it, compiled and plain.

Both functions are called twice after each change, with their own state: the plain one says what is right.
"""

import builtins
import collections
import decimal
import functools
import importlib
import math
import os
import sys
import types
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outside import WAYS

import adjoint as ad
from adjoint.core.errors import AdjointError

SHARED = (builtins, collections, functools, functools.wraps, math, np, np.linalg, os, os.path, sys, types)
ADDED = {"k", "rate", "CFG", "D", "K", "myrate", "myarr", "rrr"}  # to modules, by the changes


@contextmanager
def restored():
    """Undo what the changes do to modules."""
    before = [(vars(owner), dict(vars(owner))) for owner in SHARED]
    modes, precision = np.geterr(), decimal.getcontext().prec
    try:
        yield
    finally:
        _restore(before, modes, precision)


def _restore(before, modes, precision):
    np.seterr(**modes)
    decimal.getcontext().prec = precision
    if hasattr(collections.Counter, "k"):
        del collections.Counter.k
    os.environ.pop("RIGHT_X", None)
    sys.modules.pop("mmm4", None)
    for now, then in before:
        for name in ADDED & (now.keys() - then.keys()):
            del now[name]
        now.update(then)


def outcome(f, x):
    """The value, or the class of the error; all of ours are one."""
    try:
        return float(np.asarray(f(x)).sum())
    except AdjointError:
        return AdjointError
    except Exception as error:
        return type(error)


def check(way, changes, transform=lambda f: f):
    with warnings.catch_warnings(), restored():
        warnings.simplefilter("ignore")
        plain, own = way.space(), way.space()
        f, compiled = transform(plain["f"]), ad.jit(transform(own["f"]))
        for change in ("None", *changes):
            made = [outcome(lambda space: exec(change, space) or 0.0, space) for space in (plain, own)]  # noqa: B023
            assert made[0] is made[1] or made[0] == made[1]
            for x in (0.7, 1.3):
                wanted, found = outcome(f, x), outcome(compiled, x)
                assert found == pytest.approx(wanted, rel=1e-12) if isinstance(wanted, float) else found is wanted, (
                    f"{way.name}, after {change!r}: {found}, not {wanted}"
                )


@pytest.mark.parametrize("name", WAYS)
def test_each_change_is_seen(name):
    check(WAYS[name], WAYS[name].changes)


@pytest.mark.parametrize("name", list(WAYS)[::5])
def test_each_change_is_seen_by_derivatives(name):
    check(WAYS[name], WAYS[name].changes, ad.grad)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_order_of_changes(data):
    way = WAYS[data.draw(st.sampled_from(sorted(WAYS)))]
    changes = data.draw(st.permutations(way.changes))
    check(way, changes)


def test_a_module_that_is_loaded_again(tmp_path, monkeypatch):
    source = tmp_path / "settings_of_a_model.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source.write_text("rate = 2.0\ndef scale(): return rate + 1.0\n")
    settings = importlib.import_module("settings_of_a_model")
    from_module = settings.scale
    f = lambda x: x * settings.rate * settings.scale() * from_module()
    compiled = ad.jit(f)
    for rate in ("2.0", "3.5", "4.25"):
        source.write_text(f"rate = {rate}\ndef scale(): return rate + 1.0\n")
        importlib.reload(settings)
        assert compiled(1.5) == compiled(1.5) == f(1.5)
    del sys.modules["settings_of_a_model"]
