"""Which interpreter runs an op.

A transform runs the user's function on `Traced` values. Each carries the `Trace` that made it; a trace made later is nested
deeper and has a higher level, so the highest level among the arguments runs the op first and passes the values below to the next.
With no traced argument the op's NumPy implementation runs.

    grad(lambda x: jvp(f, (x,), (v,))[1])(3.0)     # the jvp trace (inner) sees x before the grad trace does

Levels never repeat: a perturbation of one transform cannot be mistaken for that of another.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from . import floating
from .errors import CALLER, ConversionError, LeakError
from .home import COPIES, OWN
from .types import dtype_of

if TYPE_CHECKING:
    from .op import Op

_levels = itertools.count(1)

#: How many transforms surround the running code.
depth: ContextVar[int] = ContextVar("adjoint_depth", default=0)

#: The arrays with `requires_grad` that are alive, by id: values computed from them may be written into new arrays at any time.
variables: set[int] = set()


def is_tracking() -> bool:
    """Whether `adjoint.numpy` makes arrays that traced values can be written to."""
    return bool(variables) or depth.get() > 0


#: Where a value was last rounded to some decimals, which makes it a constant: the level of its trace, the line, the decimals.
rounded: ContextVar[tuple[float, str, int] | None] = ContextVar("adjoint_rounded", default=None)


#: The traces that are open around the running code, from the outermost on.
around: ContextVar[tuple[Trace, ...]] = ContextVar("adjoint_around", default=())

#: The traces that are open in any thread. A thread that the function starts has no context variables of ours.
_open: set[Trace] = set()


class Trace:
    """An interpreter of ops: one per call of a transform.

    A trace is closed when its transform has returned. It is closed temporarily, `taken` by another, while a branch inside it is
    staged: ops on its values there belong to the branch.
    """

    __slots__ = ("__weakref__", "closed", "level", "name", "taken", "token")
    has_numbers = True  # whether its values have numbers; a staged value has a type only
    has_function = True  # whether it runs the user's function, which may decide by what it sees
    has_identity = False  # its values are hashed by identity, not by number

    def __init__(self, name: str, level: float | None = None) -> None:
        self.name = name  # of the transform, for messages
        self.level: float = next(_levels) if level is None else level
        self.closed = False
        self.taken: Trace | None = None

    @property
    def ended(self) -> bool:
        """Whether its transform has returned, so that its values are invalid."""
        return self.closed and self.taken is None

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        raise NotImplementedError

    def shape(self, x: Traced) -> tuple[int, ...]:
        raise NotImplementedError

    def with_value(self, x: Traced, value: Any) -> Traced:
        """x with the same number in another form: a NumPy scalar for a Python number, another layout."""
        return Traced(self, value, x.aux)

    def dtype(self, x: Traced) -> np.dtype[Any]:
        return dtype_of(x.underlying)

    def is_array(self, x: Traced) -> bool:
        """Whether NumPy would have an array here, of any rank, and not a scalar."""
        return is_array(x.underlying)

    def class_of(self, x: Traced) -> type:
        """The class of the value that x represents."""
        return class_of(x.underlying)

    def is_mask(self, x: Traced) -> bool:
        """Whether a float without a number is computed from bools and integers alone, as `(a > 0).astype(float)` is."""
        return isinstance(x.underlying, Traced) and x.underlying.by.is_mask(x.underlying)

    def concrete(self, x: Traced, what: str) -> Any:
        """The number of x, for Python code that needs it (`what`: "the truth of", "int() of")."""
        return x.underlying

    def is_plain(self, x: Traced) -> bool:
        """Whether x may become a plain number or array: no derivative is lost."""
        return False

    def overflow(self) -> None:
        """NumPy has reported an overflow in the running op."""

    def abandon(self) -> None:
        """Mark the staged program as valid for this call only."""

    def line(self, x: Traced) -> str:
        """The user's line that computed x, if the op has just been staged."""
        return x.underlying.by.line(x.underlying) if isinstance(x.underlying, Traced) else ""

    def show(self, x: Traced) -> str:
        """How a value without numbers prints."""
        return f"<value of {self.name}>"

    def adopt(self, x: Traced, new: Any) -> None:
        """Let the array x of this trace refer to a new value: an in-place write."""
        if isinstance(new, Traced):
            x.by, x.underlying, x.aux = new.by, new.underlying, new.aux
        else:
            x.by, x.underlying, x.aux = FRESH, np.asarray(new), None

    def __enter__(self) -> Any:
        self.token = depth.set(depth.get() + 1), around.set((*around.get(), self)), floating.replace()
        _open.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.closed = True
        _open.discard(self)
        depth_before, around_before, modes = self.token
        depth.reset(depth_before)
        around.reset(around_before)
        floating.restore(modes)

    def leaked(self) -> LeakError:
        return LeakError(
            f"a value traced by {self.name} was used after {self.name} had returned: it was kept in a global, a closure, a "
            "cache or an attribute. Return it from the function instead (has_aux=True for extra results), or keep "
            "ad.stop_gradient(value)"
        )


def _overflow() -> None:
    """Tell the open recordings; a thread that runs no transform may work for any of them."""
    for trace in around.get() or tuple(_open):
        trace.overflow()


floating.LISTENERS.append(_overflow)


class Fresh(Trace):
    """Runs ops on arrays that `adjoint.numpy` made inside a transform and that have no traced element yet.

    They are Traced so that `a = np.zeros(3); a[0] = x` can write x into them later; until then they are numbers.
    """

    __slots__ = ()

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        y = op.impl(*[a.underlying if isinstance(a, Traced) else a for a in args], **params)
        if op.many:
            return tuple(map(fresh, y))
        made = fresh(y)
        is_table = made is y and any(isinstance(a, Traced) and a.underlying.dtype.kind not in "fc" for a in args)
        return table(y) if is_table else made

    def shape(self, x: Traced) -> tuple[int, ...]:
        return x.underlying.shape  # type: ignore[no-any-return]

    def is_plain(self, x: Traced) -> bool:
        return True


FRESH = Fresh("adjoint.numpy", 0)


def fresh(y: Any) -> Any:
    """A new array that accepts writes of traced values; anything but a float array is returned unchanged."""
    return Traced(FRESH, y, None) if isinstance(y, np.ndarray) and y.dtype.kind in "fc" else y


def table(y: Any) -> Any:
    """An array, of integers too, that can be read at traced indices, as can what is computed from it."""
    return Traced(FRESH, y, None) if type(y) is np.ndarray and y.dtype.kind in "biufc" else y


def unwrap_fresh(x: Any) -> Any:
    """The plain array of a fresh one; any other value unchanged."""
    return x.underlying if isinstance(x, Traced) and x.by is FRESH else x


class _HiddenMethods(type):
    """Hides the methods of `Traced` from abstract classes.

    `isinstance(x, Iterable)` accepts x if it accepts `x.__class__`, which is the class of the value behind, or `type(x)`, in
    whose method resolution order it looks for `__iter__`. A number has none, so only the former may count.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        asks = sys._getframe(1).f_globals.get("__name__")
        return () if asks in _ABSTRACT else type.__dict__["__mro__"].__get__(cls)  # type: ignore[no-any-return]

    def __eq__(cls, other: object) -> bool:
        """`type(x) == float` in user code. The class of all tracers cannot answer for each value, so this is an error."""
        if cls is not other and _may_be_traced(other) and not is_library(sys._getframe(1)):
            name = other.__name__  # type: ignore[attr-defined]
            raise ConversionError(
                f"type(x) of a traced value cannot be compared with {name}: Python gives the class of the tracer; write "
                f"isinstance(x, {name}), or x.__class__ for type(x)"
            )
        return cls is other

    __hash__ = type.__hash__


def _may_be_traced(cls: object) -> bool:
    """Whether a traced value may stand for one of this class."""
    return isinstance(cls, type) and issubclass(cls, (np.ndarray, np.number, float, complex))


_ABSTRACT = ("collections.abc", "typing")


class Traced(metaclass=_HiddenMethods):
    """A value seen by a trace: `underlying` is what lies below it, `aux` what the trace adds (a node, a tangent).

    `adjoint.numpy.protocols` gives it operators, methods and NumPy's protocols. `memory_layout` is set where the strides that
    NumPy would give the array do not follow from the value: strides, or a function that finds them. User code may ask any
    value for an attribute, as in `x.value if hasattr(x, "value") else x`, so ours have names that other classes do not have.
    """

    __slots__ = ("__weakref__", "aux", "by", "memory_layout", "underlying")
    is_view = False

    def __init__(self, trace: Trace, value: Any, aux: Any) -> None:
        self.by = trace
        self.underlying = value
        self.aux = aux

    def noted_strides(self) -> tuple[int, ...] | None:
        """The strides in NumPy, if they are recorded here."""
        found = getattr(self, "memory_layout", None)
        if callable(found):
            found = self.memory_layout = found()
        return found

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` sees: the class of the value that this stands for. Our own modules see `Traced`.

        xarray sees an array, also of rank 0: it makes a plain array of a scalar.
        """
        frame = sys._getframe(1)
        if is_ours(frame):
            return type(self)
        return np.ndarray if frame.f_globals.get("__name__", "").startswith("xarray.") else self.by.class_of(self)


_OURS = f"{OWN}."
_COPIES = f"{COPIES}."
_ours: dict[str, bool] = {}  # by the name of the module


def is_ours(frame: types.FrameType | None) -> bool:
    """Whether a frame runs code of this package."""
    if frame is None:
        return False
    name = frame.f_globals.get("__name__", "")
    known = _ours.get(name)
    if known is None:
        known = _ours[name] = name.startswith(_OURS) and not name.startswith(_COPIES)
    return known


def called_from_outside(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function as user code would call it. A builtin has no frame: `isinstance` of a traced value sees that of its caller."""
    return f if isinstance(f, types.FunctionType) else functools.partial(_CALL, f)


#: f(*args, **kwargs) in a frame that is neither `is_ours` nor `is_library`.
_CALL = types.FunctionType((lambda f, /, *args, **kwargs: f(*args, **kwargs)).__code__, {"__name__": CALLER})


def is_library(frame: types.FrameType) -> bool:
    """Whether a frame runs code of this package, of Python's library, of NumPy or of SciPy."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES


_LIBRARIES = sys.stdlib_module_names - {"__main__"} | {__name__.partition(".")[0], "numpy", "scipy"}


def with_gaps(x: Traced) -> Traced:
    """A variable of a transform, which remembers the strides of the user's array if that is a view, perhaps with gaps."""
    value = x.underlying
    if value.__class__ is np.ndarray:
        if value.base is not None:
            x.memory_layout = value.strides
    elif isinstance(value, Traced):
        x.memory_layout = value.noted_strides
    return x


def is_array(x: Any) -> bool:
    """Whether x is an array, which can be written to, and not a scalar; a 0-d array is an array."""
    return x.by.is_array(x) if isinstance(x, Traced) else isinstance(x, np.ndarray)


def class_of(x: Any) -> type:
    """The class of a value; for a traced one, of the underlying value: an array, a NumPy scalar, a Python number."""
    return x.by.class_of(x) if isinstance(x, Traced) else type(x)


class _Types(type):
    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) > 1:
            return type(*args, **options)
        found = class_of(*args, **options)
        return cls if found is type else found

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type)

    def __subclasscheck__(cls, x: Any) -> bool:
        return issubclass(x, type)


class TypeOf(type, metaclass=_Types):
    """`type` for staged code: for a traced value it gives the class of the underlying value."""


def numbers(x: Any) -> Any:
    """The numbers of a value; None where there are none, as in a staged program."""
    while isinstance(x, Traced):
        x = x.underlying if x.by.has_numbers else None
    return x


def is_staged(x: Any) -> bool:
    """Whether there are no numbers beneath a value, however many transforms are around it."""
    while isinstance(x, Traced):
        if not x.by.has_numbers:
            return True
        x = x.underlying
    return False


def have_numbers(x: Any) -> bool:
    """Whether all values in nested lists are known."""
    return all(map(have_numbers, x)) if isinstance(x, (list, tuple)) else not is_staged(x)


def snapshot(x: Any) -> Any:
    """The current state of a traced value, unaffected by later in-place writes."""
    return Traced(x.by, x.underlying, x.aux) if isinstance(x, Traced) else x


_modes, _MODES_SEEN = floating.state, floating.SEEN


def renew_modes() -> None:
    """NumPy's error modes have changed since the last op, or are those of another thread."""
    floating.renew(bool(around.get() or _open))


def bind(op: Op, /, *args: Any, **params: Any) -> Any:
    """Run an op: arrays are positional, metadata is keyword."""
    top = None
    for a in args:
        if isinstance(a, Traced):
            trace = a.by
            if top is None or trace.level > top.level:
                top = trace
    if top is None:
        return op.impl(*args, **params)
    if top.closed:
        if top.taken is None:
            raise top.leaked()
        top = top.taken
    if _modes() is not _MODES_SEEN[0]:
        renew_modes()
    return top.process(op, args, params)
