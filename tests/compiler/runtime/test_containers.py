"""Containers that another thread changes while compiled functions read them."""

import threading

import numpy as np
import pytest

import adjoint as ad

SPACE = {"a": np.ones(5), "k": 1.0}
A, K = np.ones(5), 1.0


class Model:
    def __init__(self):
        self.a, self.k = np.ones(5), 1.0


def cases():
    """Each: a function without arguments that calls a compiled one, and one that changes what it reads to a number."""
    entries, items, model = {"a": np.ones(5), "k": 1.0}, [np.ones(5), 1.0], Model()
    cell = np.ones(5)
    of_dict, of_list = ad.jit(lambda d: d["a"] * d["k"]), ad.jit(lambda c: c[0] * c[1])
    of_cell = ad.jit(lambda x: x * cell)
    of_global, of_attribute = ad.jit(lambda x: x * A), ad.jit(lambda x: x * model.a)
    of_space = ad.jit(lambda x: x * SPACE["a"])

    def set_cell(v):
        nonlocal cell
        cell = np.full(5, v)

    return {
        "dict": (lambda: of_dict(entries), lambda v: entries.update(a=np.full(5, v), k=float(v > 0))),
        "list": (lambda: of_list(items), lambda v: items.__setitem__(0, np.full(5, v))),
        "cell": (lambda: of_cell(1.0), set_cell),
        "global": (lambda: of_global(1.0), lambda v: globals().update(A=np.full(5, v))),
        "attribute": (lambda: of_attribute(1.0), lambda v: setattr(model, "a", np.full(5, v))),
        "entry of a global": (lambda: of_space(1.0), lambda v: SPACE.update(a=np.full(5, v))),
    }


@pytest.mark.parametrize("name", cases())
def test_another_thread_replaces_what_a_call_reads(name):
    call, change = cases()[name]
    call()
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            found = call()
            if np.ptp(found) != 0.0:  # parts of two arrays
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for v in range(1, 3000):
        change(float(v))
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert np.all(call() == 2999.0)


def test_threads_share_one_program():
    f = ad.jit(ad.value_and_grad(lambda x: np.sum(np.sin(np.outer(x, x)) @ np.cos(x))))
    inputs = [np.linspace(0, k, 40) for k in range(1, 5)]
    expected, wrong = [f(x) for x in inputs], []

    def work(x, known):
        for _ in range(300):
            value, slope = f(x)
            if value != known[0] or np.any(slope != known[1]):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
