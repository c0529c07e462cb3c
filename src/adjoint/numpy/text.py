"""The text of a traced value. It can be shown; a number that is read from it has no derivative.

float(str(x))     refused: the number would be a constant
str(x) == "2.5"   a decision, as `x == 2.5` is; refused where the value has no single number (vmap, graph)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from ..core.bind import Trace
from ..core.errors import ConversionError


class Text(str):
    """All the digits of a number, from which it could be read back while the transform runs."""

    __slots__ = ("made_by", "running")
    made_by: str
    running: Callable[[], Trace | None]

    @classmethod
    def of(cls, text: str, trace: Trace) -> Text:
        made = cls(text)
        made.made_by, made.running = trace.name, ref(trace)
        return made

    @property
    def has_left(self) -> bool:
        trace = self.running()
        return trace is None or trace.ended or not trace.has_function

    def _number(self, kind: Callable[[str], Any]) -> Any:
        if self.has_left:
            return kind(self[:])
        raise ConversionError(
            f"the number read from the text of a value traced by {self.made_by} would lose its derivative; use the value itself, "
            "or ad.stop_gradient(x) if it is meant to be a constant"
        )

    def __float__(self) -> float:
        return self._number(float)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self._number(int)  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec) if spec else self

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self[:],)


def _only_later(name: str) -> Any:
    """A method of strings that is refused while the transform runs."""
    method = getattr(str, name)

    def use(self: Description, *other: Any) -> Any:
        if self.has_left:
            return method(self, *other)
        raise ConversionError(
            f"the text {self[:]!r} describes a value traced by {self.made_by}, which has no single number; it can be shown, but "
            "not compared or be a key. Compare the value itself, in np.where"
        )

    return use


class Description(Text):
    """What is shown for a value without a number: its type, and the transform."""

    __slots__ = ()


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__hash__"):
    setattr(Description, _name, _only_later(_name))
