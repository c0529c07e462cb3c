"""Locks that are free in the child of a fork, and properties that are computed once without a lock.

A child has one thread, the one that forked. Locks held by other threads at that moment would never be released, and modules that
they are importing would never be complete: the compiler is imported by the first call, perhaps in another thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import _bootstrap  # type: ignore[attr-defined]
from typing import Any, ClassVar, Generic, TypeVar, overload
from weakref import WeakSet

T = TypeVar("T")

Action = Callable[[], Any]

_locks: WeakSet[Any] = WeakSet()


def lock() -> Any:
    """A re-entrant lock. In the child of a fork it is held only if the thread that forked held it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _free_those_of_other_threads() -> None:
    for held in list(_locks):
        if not held._is_owned():
            held._at_fork_reinit()


#: Packages that calls import, and for how many seconds a fork waits for that.
IMPORTED, PATIENCE = ("adjoint", "llvmlite", "numpy", "scipy"), 20.0


def _is_importing() -> bool:
    """Whether another thread is importing a module that calls need."""
    held = [(name, found()) for name, found in list(getattr(_bootstrap, "_module_locks", {}).items())]
    owners = [made.owner for name, made in held if made is not None and name.partition(".")[0] in IMPORTED]
    return any(owner not in (None, threading.get_ident()) for owner in owners)


def _await_imports(end: float) -> None:
    while _is_importing() and time.monotonic() < end:
        time.sleep(0.001)


@dataclass(eq=False)
class _Hook:
    before: Action | None
    parent: Action | None
    child: Action | None


class _Forks(threading.local):
    """The hooks of the fork that this thread makes. Another thread may import a module, and add hooks, meanwhile."""

    hooks: ClassVar[list[_Hook]] = []

    def __init__(self) -> None:
        self.begun: list[_Hook] = []

    def before(self) -> None:
        self.begun, tried, error = [], set[_Hook](), None
        end = time.monotonic() + PATIENCE
        while True:
            try:
                _await_imports(end)
                hook = next((h for h in reversed(self.hooks) if h not in tried), None)
                if hook is None:
                    break
                tried.add(hook)
                if hook.before is not None:
                    hook.before()
                self.begun.append(hook)
            except BaseException as raised:  # Ctrl-C: Python reports it, and forks
                error = raised
        if error is not None:
            raise error

    def parent(self) -> None:
        for hook in reversed(self.begun):
            if hook.parent is not None:
                hook.parent()

    def child(self) -> None:
        for hook in reversed(self.begun):
            if hook.child is not None:
                hook.child()


_forks = _Forks()


def at_fork(*, before: Action | None = None, parent: Action | None = None, child: Action | None = None) -> None:
    """Call functions when the process forks, where it can: `before` in reverse order, then, if it did not fail, the others."""
    _forks.hooks.append(_Hook(before, parent, child))


at_fork(child=_free_those_of_other_threads)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.before, after_in_parent=_forks.parent, after_in_child=_forks.child)


class Gate:
    """Code that must not be running in any thread while the process forks.

        with gate:
            …             # os.fork() in another thread waits for the end of this

    A fork waits until no thread is inside, and lets none in until it is done.
    """

    def __init__(self) -> None:
        self._open()
        at_fork(before=self._close, parent=self._reopen)
        at_fork(child=self._open)

    def _open(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.inside = 0  # threads
        self.waiting = 0  # forks
        self.is_closed = False

    def __enter__(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: not self.waiting)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.inside -= 1
            self.changed.notify_all()

    def _close(self) -> None:
        self.changed.acquire()
        self.waiting += 1
        try:
            self.changed.wait_for(lambda: not self.inside)
        except BaseException:  # Ctrl-C: Python reports it, and forks
            self.waiting -= 1
            self.changed.release()
            raise
        self.is_closed = True

    def _reopen(self) -> None:
        if self.is_closed:
            self.is_closed = False
            self.waiting -= 1
            self.changed.notify_all()
            self.changed.release()


class cached(Generic[T]):  # noqa: N801  # as functools.cached_property, which has one lock for all objects before Python 3.12
    """A property that is computed on first access. Concurrent threads may each compute it."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: Any = None) -> cached[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...
    def __get__(self, instance: object | None, owner: Any = None) -> cached[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
