"""What a staged function sees in place of the clock, the environment, threads and generators."""

import datetime
import functools
import logging
import os
import random
import sys
import threading
import time
import warnings
from contextvars import ContextVar

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.staging.reads import Reads
from adjoint.staging.stand_ins import Partly, Refused, is_static, stand_in


def module(x):
    """A module, as a staged function sees it."""
    return Reads().fixed(x)


USES = {
    "a module's function": lambda: module(time).perf_counter(),
    "a function": lambda: stand_in(time.time, "time")(),
    "an item": lambda: stand_in(os.environ, "environ")["HOME"],
    "a test of a key": lambda: "HOME" in module(os).environ,
    "the length of a list": lambda: len(module(sys).argv),
    "iteration": lambda: list(module(sys).path),
    "a comparison": lambda: module(sys).argv == [],
    "the date": lambda: stand_in(datetime.date, "date").today(),
    "the time": lambda: stand_in(datetime.datetime, "datetime").now(),
    "a generator": lambda: stand_in(np.random.default_rng(0), "rng").normal(),
    "a method of a generator": lambda: stand_in(random.random, "random")(),
    "a context variable": lambda: stand_in(ContextVar("v"), "v").get(),
    "an event": lambda: stand_in(threading.Event(), "event").is_set(),
    "the thread": lambda: module(threading).get_ident(),
    "a lock": lambda: stand_in(threading.Lock(), "lock").locked(),
    "a lock that is tried": lambda: stand_in(threading.Lock(), "lock").acquire(False),
    "the level of a logger": lambda: stand_in(logging.getLogger("x"), "log").level,
    "a logger by name": lambda: module(logging).getLogger("x").isEnabledFor(10),
    "a memo": lambda: Reads().fixed(functools.cache(len)).cache_info(),
    "filters": lambda: len(module(warnings).filters),
    "an attribute of an attribute": lambda: module(os).environ.get("HOME"),
}


@pytest.mark.parametrize("name", USES)
def test_refused_where_it_is_used(name):
    with pytest.raises(UnsupportedError, match="the function that is staged"):
        USES[name]()


def test_what_is_harmless_is_itself():
    for x in (np.sin, os.path.join, threading.Lock, datetime.timedelta, sys.maxsize, [1, 2], 3.0, "text"):
        assert stand_in(x, "x") is x
    assert module(np).sin is np.sin
    assert module(sys).float_info is sys.float_info


def test_a_stand_in_is_of_the_class_of_the_real_object():
    rng = np.random.default_rng(0)
    assert isinstance(stand_in(rng, "rng"), np.random.Generator)
    assert isinstance(stand_in(rng, "rng"), Refused)
    assert module(os).__name__ == "os"


def test_static_objects_are_baked_in():
    event = threading.Event()
    assert not is_static(event)
    assert ad.static(event) is event
    assert is_static(event)
    assert stand_in(event, "event") is event
    assert ad.static(stand_in(os.environ, "environ")) is os.environ


def test_what_is_used_for_its_effect():
    lock = threading.Lock()
    seen = stand_in(lock, "lock")
    assert isinstance(seen, Partly)
    with seen:
        assert lock.locked()
    assert seen.acquire()
    seen.release()
    assert not lock.locked()
    assert stand_in(logging.getLogger("x"), "log").name == "x"
