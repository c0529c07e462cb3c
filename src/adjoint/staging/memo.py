"""Functions under `functools.lru_cache`, as a staged function sees them.

    @functools.cache
    def nodes(n): ...                  f(x): return x @ nodes(5)

What a memo gives depends on its state: an entry may be dropped (`cache_clear`), or the array that it holds written to. So a call
is a place: the compiled program makes the same call each time, as the function would, and reads or compares the result.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.bind import around
from ..core.places import Load
from .classify import EQUAL, FIXED
from .purity import unwatched
from .stand_ins import Partly
from .uncopied import At
from .watch import reading

if TYPE_CHECKING:
    from .reads import Reads


class Memo(Partly):
    """The replacement for a memo; its arguments are known numbers, strings or objects."""

    def __init__(self, reads: Reads, real: Any, name: str) -> None:
        super().__init__(real, f"reads the state of a {type(real).__name__}", name)
        self._adjoint_reads = reads

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        reads, real, name = self._adjoint_reads, self._adjoint_real, self._adjoint_name
        if not all(_is_known(x, reads) for x in (*args, *kwargs.values())):
            raise reads.refuse(
                f"calls {name}, whose results are remembered, with an argument that is computed: the result may be that of an "
                f"earlier call; call {name}.__wrapped__, or remove the memo"
            )
        call: Callable[..., Any] = functools.partial(real, **kwargs) if kwargs else real
        with _as_outside():
            value = call(*args)
        shown = [*map(repr, args), *(f"{key}={x!r}" for key, x in kwargs.items())]
        return reads.met(value, At(Load.CALL, call, args, f"{name}({', '.join(shown)})"))

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            real = self._adjoint_real
            return self._adjoint_reads.met(real.__wrapped__, At(Load.ATTRIBUTE, real, name, f"{self._adjoint_name}.{name}"))
        return super().__getattr__(name)

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)


def _is_known(x: Any, reads: Reads) -> bool:
    """Whether an argument is the same at each call of a program."""
    if type(x) in (tuple, frozenset):
        return all(_is_known(item, reads) for item in x)
    return type(x) in EQUAL or isinstance(x, (type, *FIXED)) or x in reads.objects


@contextmanager
def _as_outside() -> Iterator[None]:
    """Run code as if nothing were staged: what it reads and makes is its own."""
    tokens = reading.set(None), around.set(())
    try:
        with unwatched():
            yield
    finally:
        reading.reset(tokens[0])
        around.reset(tokens[1])
