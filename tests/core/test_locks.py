"""Locks and gates without a fork; tests/test_processes.py has those with one."""

import threading

from adjoint.core.locks import Gate, cached


def test_a_gate_counts_the_threads_inside():
    gate = Gate()
    with gate, gate:
        assert gate.inside == 2
    assert gate.inside == 0


def test_a_closed_gate_lets_nobody_in():
    gate = Gate()
    gate._close()
    entered = threading.Event()
    thread = threading.Thread(target=lambda: (gate.__enter__(), entered.set()), daemon=True)
    thread.start()
    assert not entered.wait(0.05)
    gate._reopen()
    thread.join()
    assert gate.inside == 1


def test_a_cached_property_is_computed_once():
    class Counted:
        calls = 0

        @cached
        def value(self):
            Counted.calls += 1
            return 7

    it = Counted()
    assert (it.value, it.value, Counted.calls) == (7, 7, 1)
