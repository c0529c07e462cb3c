"""Locks and gates without a fork; tests/test_processes.py has those with one."""

import threading

import pytest

from adjoint.core.locks import Gate, _Forks, _Hook, cached


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


@pytest.fixture
def forks(monkeypatch):
    monkeypatch.setattr(_Forks, "hooks", [])
    return _Forks()


def hook(said, name):
    return _Hook(*(lambda part=part: said.append(f"{name} {part}") for part in ("before", "parent", "child")))


@pytest.mark.parametrize("after", ["parent", "child"])
def test_hooks_end_in_the_reverse_of_the_order_in_which_they_begin(forks, after):
    said = []
    forks.hooks += [hook(said, "a"), hook(said, "b")]
    forks.before()
    getattr(forks, after)()
    assert said == ["b before", "a before", f"a {after}", f"b {after}"]


@pytest.mark.parametrize("after", ["parent", "child"])
def test_a_hook_that_another_thread_adds_during_a_fork_begins_before_it_ends(forks, after):
    said = []
    late, later = hook(said, "late"), hook(said, "later")
    forks.hooks.append(_Hook(lambda: forks.hooks.append(late), None, None))
    forks.before()
    forks.hooks.append(later)
    getattr(forks, after)()
    assert said == ["late before", f"late {after}"]


def test_a_hook_that_fails_does_not_end_and_the_others_do(forks):
    said = []
    failing = hook(said, "failing")

    def interrupted():
        raise KeyboardInterrupt

    failing.before = interrupted
    forks.hooks += [hook(said, "a"), failing, hook(said, "b")]
    with pytest.raises(KeyboardInterrupt):
        forks.before()
    forks.child()
    assert said == ["b before", "a before", "a child", "b child"]


def test_a_cached_property_is_computed_once():
    class Counted:
        calls = 0

        @cached
        def value(self):
            Counted.calls += 1
            return 7

    it = Counted()
    assert (it.value, it.value, Counted.calls) == (7, 7, 1)
