"""The places that a staged function reads, recorded while it runs.

    data, lam = np.ones(3), 0.5
    f = jit(lambda w: lam * np.sum(w * data))

Staging runs a copy of the function in which every read of a closure cell, a global or a default is intercepted: the copy has new
globals (`Names`) and new cells. Attributes of outside objects are intercepted by a hook on their class while the function is
staged. The result of a read depends on the value:

- an array becomes an input of the program, read again at each call (`Check.INPUT`);
- a number is a constant, and each call checks that it has not changed; one that has changed is an input of the next program;
- user functions are copied in the same way, containers are copied item by item, objects are watched;
- anything that cannot be checked is refused: iterators, the clock, the environment, random generators (see `purity.py`).

A function that writes to an outside object (a counter, a cache) is refused as well: the write would happen only once. Code that
cannot be copied, such as `__init__` of a class that the function uses, is analysed by name (`uncopied.py`): the objects that
its names refer to must stay the same.
"""

from __future__ import annotations

import copy
import decimal
import enum
import functools
import operator
import threading
import types
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.bind import FRESH, Traced
from ..core.code import describe, names_in, strings_in
from ..core.counterparts import counterpart
from ..core.errors import LABELLED, UnsupportedError
from ..core.home import OWN, package_of
from ..core.places import Check, Contents, DecimalContext, Equal, Labelled, Load, Place, items_of
from ..core.quick import Quick
from ..device import gpu
from ..device.arrays import gpu_of
from ..eager.mutation import is_immutable
from .classify import (
    CONTAINERS,
    EMPTY,
    EQUAL,
    FIXED,
    MEMO,
    NUMBERS,
    PLAIN,
    advice,
    cell_contents,
    empty_like,
    fill,
    fits,
    hides_changes,
    is_function,
    load_of,
    never_changes,
)
from .lazy import Elsewhere
from .memo import Memo
from .modules import Modules
from .objects import Objects
from .packages import PackageState
from .purity import is_alone, refused
from .reach import is_of_library, is_ours, is_users
from .stage import Stage
from .stand_ins import is_static, stand_in
from .uncopied import ASKS_FOR_ANY, MOST_BYTES, At, Uncopied
from .watch import HOOKS, reading, same_items

MOST_PLACES = 4000  # per program; each takes some ten nanoseconds of a call
MOST_ITEMS = 16  # of a container of numbers checked one by one; a longer one is compared as a whole
_ASKS_FOR_CLASS = frozenset({"type", "__class__"})
_ASKS_FOR_ATTRIBUTES = frozenset({"hasattr", "getattr", "AttributeError"})


class Reads:
    """The places that one staging has read, and their values."""

    stage: Stage

    def __init__(self, varying: Collection[Any] = (), by_value: bool = False, traced: Callable[[Any], Any] | None = None) -> None:
        self.varying = varying  # keys of numbers that have changed between calls
        self.by_value = by_value  # arrays are constants that are compared at each call,
        self.traced = traced  # what stands for constant arrays, and for NumPy, where they are read at traced indices
        self.places: list[Place] = []
        self.keys: list[Any] = []  # identify a place across stagings
        self.inputs: list[int] = []  # the places of the inputs that the stage has captured, in order
        self.values: list[Any] = []  # of those inputs
        self.gpus: dict[str, int] = {}  # of those that are on a GPU: its number
        self._found: dict[int, tuple[int, Any]] = {}  # by the id of an object: its first place, and what stands for it
        self.alive: list[Any] = []  # whose ids are keys here
        self.given: dict[int, Any] = {}  # by the id of an argument, what stands for it, if the function compares by identity
        self._functions: dict[int, Any] = {}
        self.objects = Objects(self)
        self.modules = Modules(self)
        self.names: set[str] = set()  # of globals and attributes in the functions it runs
        self.asked: set[str] = set()  # of attributes that may be missing
        self.uncopied = Uncopied(self)
        self.packages = PackageState()
        self._fixed: set[Any] = set()  # places whose object must stay, by key
        self._library_functions: list[types.FunctionType] = []
        self._own_class: list[tuple[Any, str]] = []  # constants of the user's own classes, enums among them
        self.unwritten: list[tuple[str, Callable[[], bool]]] = []  # name, and a check that it was not written to

    # -- the function itself --

    def again(self) -> Reads:
        """For a second staging of the same function."""
        return Reads(self.varying, self.by_value, self.traced)

    @property
    def has_numbers(self) -> bool:
        """Whether numbers that the function reads outside are inputs."""
        return any(type(x) in NUMBERS for x in self.values)

    @property
    def asks_for_tables(self) -> bool:
        """Whether the function reads plain arrays at traced indices, which needs another staging."""
        return hasattr(self, "stage") and self.stage.asks_for_tables

    @contextmanager
    def noting(self, stage: Stage) -> Iterator[None]:
        """While this is open, outside reads go to a stage, and attributes of watched objects are intercepted."""
        self.stage = stage
        stage.reserve()
        token = reading.set(self)
        try:
            with HOOKS:
                yield
        finally:
            reading.reset(token)
            if is_alone():  # else the write may be another thread's
                self.uncopied.undo_writes()

    def fixed(self, x: Any) -> Any:
        """The replacement for an object that never varies: the function itself, a static argument."""
        return self.met(x, At(Load.FIXED, x, None, getattr(x, "__name__", type(x).__name__)))

    def check(self) -> None:
        """Note what only the names of the whole function tell; raise if it has written to an outside object."""
        if self.names & _ASKS_FOR_CLASS:
            for value in [x for x in self.alive if x in self.objects]:
                self.uncopied.add(type(value))
        if self.names & _ASKS_FOR_ATTRIBUTES:
            for f in [x for x in self.alive if isinstance(x, types.FunctionType) and id(x) in self._functions]:
                self.note(At(Load.ATTRIBUTE, f, "__dict__", f"an attribute of {f.__name__}"), Check.LENGTH, (dict, len(vars(f))))
        if "Decimal" in self.names:  # whose arithmetic rounds by the context
            self.note(At(Load.FIXED, decimal, None, "the context of decimal numbers"), Check.TEST, DecimalContext())
        for f in self._library_functions:
            for name in sorted(self.names & vars(f).keys()):
                self.uncopied.constant(vars(f)[name], At(Load.ENTRY, vars(f), name, f"{f.__name__}.{name}"), self.names)
        for value, name in self._own_class:
            self.uncopied.add(type(value))
            self.uncopied.attributes_of(value, name, self.names)
        self.uncopied.finish()
        if self.packages.drop_changed():
            self.note(At(Load.FIXED, PackageState, None, "the state of installed packages"), Check.TEST, self.packages)
        for name, unwritten in self.unwritten:
            if not unwritten():
                raise self.refuse(
                    f"writes to {name}, which is outside the function: the program would not; return the new value instead"
                )

    def refuse(self, what: str) -> UnsupportedError:
        return refused(f"the function {what}")

    # -- a value that was met --

    def note(self, at: At, check: Check, expected: Any = None) -> int:
        if len(self.places) == MOST_PLACES:
            raise self.refuse(
                f"reads from more than {MOST_PLACES} outside places, {at.name} among them; pass them as an argument"
            )
        self.places.append(Place(at.load, at.owner, at.key, check, expected, at.name, at.chained))
        self.keys.append(self._key(at))
        return len(self.places) - 1

    def _key(self, at: At) -> Any:
        return at.load, self.keys[at.owner] if at.chained else id(at.owner), at.key

    def note_order(self, value: Any, place: int, name: str) -> None:
        """Require the same order of keys of a dict, which loops over it follow, or of the attributes of a namespace."""
        keys = list(items_of(value))
        if isinstance(value, (dict, types.SimpleNamespace)) and len(keys) > 1:
            at = At(Load.FIXED, place, None, f"the order of {name}", True)
            self.note(at, Check.ORDER, keys)

    def note_names(self, code: types.CodeType) -> None:
        """Collect the names in the code of a function that is run."""
        names = set(names_in(code))
        if names & _ASKS_FOR_ATTRIBUTES:
            self.asked |= set(strings_in(code)) | (names if "AttributeError" in names else set())
        self.names |= names | self.asked

    def fix(self, at: At, value: Any, seen: Any = None) -> Any:
        """Require the same object at this place."""
        if at.load is not Load.FIXED and (self._key(at), id(value)) not in self._fixed:
            self._fixed.add((self._key(at), id(value)))
            self.note(at, Check.IS, value)
        return value if seen is None else seen

    def once(self, at: At, check: Check, expected: Any) -> None:
        """Note a place, such as a name that is missing, if it has not been noted before."""
        key = check, self._key(at), at.name
        if key not in self._fixed:
            self._fixed.add(key)
            self.note(at, check, expected)

    def _input(self, at: At, value: Any) -> Any:
        self.inputs.append(self.note(at, Check.INPUT))
        self.values.append(value)
        seen = self.stage.capture(at.name, value)
        if isinstance(seen, Traced) and seen.by is FRESH:  # a constant
            same = Contents(value)
            self.unwritten.append((at.name, lambda: same(seen.underlying)))
        return seen

    def met(self, value: Any, at: At) -> Any:
        """The replacement that the function sees for the value at a place."""
        if type(value) in PLAIN:
            return self._number(value, at)
        if is_static(value) or isinstance(value, Traced):
            return self.fix(at, value, self._table(value, at))
        if isinstance(value, np.ndarray) and id(value) in self.given:
            self.note(at, Check.INPUT)  # `Specialization.identical` compares it with the argument
            return self.given[id(value)]
        known = self._found.get(id(value))
        if known is not None:
            self.note(at, Check.SAME, known[0])
            return known[1]
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(value, at)
        gpu = gpu_of(value)
        if gpu is not None:
            return self._array_on_gpu(value, at, gpu)
        if isinstance(value, types.FunctionType):
            replaced = stand_in(value, at.name)
            if replaced is value:
                ours = self.of_numpy(value)
                replaced = (counterpart(value) or self.hook(value)) if ours is None else ours
            return self.fix(at, value, replaced)
        if isinstance(value, types.ModuleType):
            return self.fix(at, value, self.modules.seen(value))
        if isinstance(value, type):
            return self.fix(at, value, counterpart(value) or self._class(value))
        if isinstance(value, EQUAL):
            if isinstance(value, decimal.Decimal):
                self.names.add("Decimal")
            self.note(at, Check.EQUAL, value)
            if not is_of_library(type(value)):
                self._own_class.append((value, at.name))
            return value
        if isinstance(value, (tuple, list, dict, set, deque, types.SimpleNamespace)):
            return self._container(value, at)
        if package_of(type(value).__module__) in LABELLED and hasattr(value, "to_numpy") and hasattr(value, "equals"):
            return self._labelled(value, at)
        return self._object(value, at)

    def _number(self, value: Any, at: At) -> Any:
        if type(value) in NUMBERS and not self.by_value and fits(value) and self._key(at) in self.varying:
            return self._input(at, value)
        self.note(at, Check.EQUAL, value)
        return value

    def _array(self, value: Any, at: At) -> Any:
        if isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap):
            raise self.refuse(f"reads {at.name}, an outside {type(value).__name__}; pass np.asarray({at.name}) as an argument")
        if value.dtype.hasobject:
            raise self.refuse(f"reads {at.name}, an outside array of objects; {advice(at.name)}")
        if isinstance(value, np.ndarray) and is_immutable(value):
            return self.fix(at, value, self._table(value, at))
        if value.dtype.kind in "biufc" and value.dtype.isnative and not self.by_value:
            seen: Any = self._input(at, value)
        else:
            if value.nbytes > MOST_BYTES:
                raise self.refuse(
                    f"reads {at.name}, an outside array that is too large to be compared at each call; {advice(at.name)}"
                )
            same = Contents(value)
            self.note(at, Check.TEST, same)
            seen = value.copy()
            self.unwritten.append((at.name, lambda: same(seen)))
        self.find(value, len(self.places) - 1, seen)
        return seen

    def _labelled(self, value: Any, at: At) -> Any:
        """A constant copy of a Series, DataFrame or DataArray, compared at each call."""
        if value.to_numpy().nbytes > MOST_BYTES:
            what = f"an outside {type(value).__name__} that is too large to be compared at each call"
            raise self.refuse(f"reads {at.name}, {what}; pass it as an argument")
        same, seen = Labelled(value), value.copy()
        self.find(value, self.note(at, Check.TEST, same), seen)
        self.unwritten.append((at.name, lambda: same(seen)))
        return seen

    def _table(self, value: Any, at: At) -> Any:
        """A constant array, as one that can be read at traced indices."""
        if self.traced is None or type(value) is not np.ndarray:
            return value
        seen = self.traced(value)
        if seen is not value:
            self.unwritten.append((at.name, lambda: seen.underlying is value))
        return seen

    def _array_on_gpu(self, value: Any, at: At, number: int) -> Any:
        if self.by_value:
            raise self.refuse(
                f"hands {at.name}, an array on a GPU outside of it, to code that takes plain arrays only; pass it as an argument"
            )
        memory = gpu.numbered(number)
        self.gpus[at.name] = number
        seen = self._input(at, Elsewhere(array := memory.imported(value), lambda: memory.host(array)))
        self.find(value, len(self.places) - 1, seen)
        return seen

    def find(self, value: Any, place: int, seen: Any) -> None:
        self.alive.append(value)
        self._found[id(value)] = place, seen

    def id_of(self, x: Any, /) -> int:
        """`id` of a value; not of an outside container, for which a copy stands."""
        if isinstance(x, CONTAINERS) and any(seen is x for _, seen in self._found.values()):
            raise self.refuse(f"asks for the id of an outside {type(x).__name__}; compare by `is`, or pass it as an argument")
        return id(x)

    def _container(self, value: Any, at: At) -> Any:
        """A copy with its items replaced likewise. A long container of plain numbers is compared as a whole."""
        cls = type(value)
        if cls not in CONTAINERS and not (isinstance(value, tuple) and hasattr(cls, "_fields")):
            raise self.refuse(f"reads {at.name}, an outside {cls.__name__} whose items cannot be read; {advice(at.name)}")
        is_plain = all(type(x) in PLAIN for x in items_of(value).values())
        if cls in (set, deque) and not is_plain:
            raise self.refuse(f"reads {at.name}, an outside {cls.__name__} of objects; {advice(at.name)}")
        if cls in (set, deque) or (is_plain and len(items_of(value)) > MOST_ITEMS):
            return self._whole(value, at)
        owner, places = self._opened(value, at)
        if isinstance(value, tuple):
            found = {key: self.met(x, places[key]) for key, x in items_of(value).items()}
            seen: Any = cls._make(found.values()) if hasattr(cls, "_make") else tuple(found.values())
            self.find(value, owner, seen)
            return seen
        seen = empty_like(cls, value)
        self.find(value, owner, seen)  # registered before its items, since it may contain itself
        self._check_keys(value, at)
        found = {key: self.met(x, places[key]) for key, x in items_of(value).items()}
        fill(seen, found)
        self.unwritten.append((at.name, lambda: same_items(items_of(seen), found)))
        return seen

    def _whole(self, value: Any, at: At) -> Any:
        """A copy of a container that each call compares as a whole."""
        same, seen = Equal(value), copy.copy(value)
        self.find(value, self.note(at, Check.TEST, same), seen)
        self.unwritten.append((at.name, lambda: same(seen)))
        return seen

    def _opened(self, value: Any, at: At) -> tuple[int, dict[Any, At]]:
        """The place of a container whose items are read one by one, and where each of them is."""
        if isinstance(value, types.SimpleNamespace):
            owner = self.note(at, Check.TYPE, type(value))
            where = At(Load.ATTRIBUTE, owner, "__dict__", f"the attributes of {at.name}", True)
            attributes = self.note(where, Check.LENGTH, (dict, len(vars(value))))
            self.note_order(value, attributes, at.name)
            return owner, {key: At(Load.ENTRY, attributes, key, f"{at.name}.{key}", True) for key in items_of(value)}
        owner = self.note(at, Check.LENGTH, (type(value), len(value)))
        self.note_order(value, owner, at.name)
        load = load_of(value)
        return owner, {key: At(load, owner, key, f"{at.name}[{key!r}]", True) for key in items_of(value)}

    def _check_keys(self, value: Any, at: At) -> None:
        """Refuse a dict with keys that may change."""
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, (*EQUAL, *FIXED, type)) and self.fixed(key) is not key:
                raise self.refuse(
                    f"reads {at.name}, an outside dict with keys of the class {type(key).__name__}; {advice(at.name)}"
                )

    def _object(self, value: Any, at: At) -> Any:
        """Anything else: replaced, returned unchanged if immutable, watched if its class is written in Python, or refused."""
        replaced = self._replaced(value, at)
        if replaced is not None:
            return self.fix(at, value, replaced)
        if isinstance(value, functools.partial):
            return self._partial(value, at)
        if isinstance(value, threading.local):
            raise self.refuse(f"reads {at.name}, which differs from thread to thread; {advice(at.name)}")
        if isinstance(value, np.ufunc) and value.__name__.endswith("(vectorized)"):
            raise self.refuse(f"calls {at.name}, whose Python function np.frompyfunc hides; call that function")
        self._note_code_of(value, at)
        if never_changes(value):
            return self.fix(at, value)
        if hasattr(type(value), "__next__"):
            raise self.refuse(f"reads {at.name}, an outside iterator, whose next item differs at each call; {advice(at.name)}")
        if hides_changes(type(value)) or not self.objects.watch(value, at):
            what = f"an outside {type(value).__name__} whose changes cannot be detected"
            raise self.refuse(f"reads {at.name}, {what}; {advice(at.name)}")
        return value

    def _replaced(self, value: Any, at: At) -> Any:
        """What stands for an object in the copy of the function; None if it is for `_object` to decide."""
        replaced = stand_in(value, at.name)
        if replaced is not value:
            return replaced
        if (ours := counterpart(value)) is not None:
            return ours
        if isinstance(value, MEMO):
            return Memo(self, value, at.name)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.fixed(value.__func__), self.fixed(value.__self__))
        if type(value) is Quick:
            return value
        if is_ours(type(value).__module__):
            return self._rewrapped(value)
        return self.of_numpy(value) if callable(value) else None

    def _partial(self, value: functools.partial[Any], at: At) -> functools.partial[Any]:
        """The partial of what stands for its function and arguments."""
        self.fix(at, value)
        parts = {name: At(Load.ATTRIBUTE, value, name, f"{at.name}.{name}") for name in ("func", "args", "keywords")}
        function, args, keywords = (self.met(getattr(value, name), part) for name, part in parts.items())
        new = functools.partial(function, *args, **keywords)
        vars(new).update({name: self._attribute_of(value, name, x) for name, x in vars(value).items()})
        return new

    def _note_code_of(self, value: Any, at: At) -> None:
        """Note what an object reads when it is called or compared, which its class does not tell."""
        if isinstance(value, np.vectorize):
            self.uncopied.constant(value.pyfunc, At(Load.ATTRIBUTE, value, "pyfunc", f"{at.name}.pyfunc"), self.names)
        if isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self.names |= ASKS_FOR_ANY
        if isinstance(value, enum.Enum):
            self._own_class.append((value, at.name))

    def _rewrapped(self, value: Any) -> Any:
        """An adjoint object that wraps user functions, such as grad(f), rebuilt around hooked functions."""
        inner = getattr(type(value), "staged_as", None)
        if inner is not None:
            return self.fixed(getattr(value, inner))
        if not is_function(value):
            return value
        if hasattr(value, "functions_inside"):  # compared by identity
            for f in value.functions_inside():
                self.uncopied.add(f)
            return value
        new = object.__new__(type(value))
        new.__dict__.update({key: self.fixed(x) if is_function(x) else x for key, x in vars(value).items()})
        return new

    # -- functions, classes --

    def hook(self, f: types.FunctionType) -> Any:
        """A copy of a function whose outside reads are intercepted. For a library function, only the functions passed to it
        are."""
        known = self._functions.get(id(f))
        if known is not None:
            return known
        is_own = is_users(f)
        if not is_own:
            self._library_functions.append(f)
        if not is_own and not any(is_function(cell_contents(cell)) for cell in f.__closure__ or ()):
            return f
        cells = tuple(types.CellType() for _ in f.__closure__ or ())
        names = self.modules.names_of(f.__globals__) if is_own else f.__globals__
        new = types.FunctionType(f.__code__, names, f.__name__, None, cells)
        describe(new, f)
        self._functions[id(f)] = self._functions[id(new)] = new  # registered before its cells, which may hold it
        self.alive.append(f)
        if is_own:
            self.note_names(f.__code__)
            self.note(At(Load.CODE, f, None, f"the code of {f.__name__}"), Check.IS, f.__code__)
        self._fill_cells(f, cells, is_own)
        for name in ("__defaults__", "__kwdefaults__"):
            given = getattr(f, name)
            if given is not None:
                where = f"the defaults of {f.__name__}"
                setattr(new, name, self.met(given, At(Load.ATTRIBUTE, f, name, where)) if is_own else given)
        found = {key: self._attribute_of(f, key, x) if is_own else x for key, x in vars(f).items()}
        new.__dict__.update(found)
        self.unwritten.append((f"an attribute of {f.__name__}", lambda: same_items(vars(new), found)))
        return new

    def _fill_cells(self, f: types.FunctionType, cells: Sequence[types.CellType], is_own: bool) -> None:
        """Give the copy of a function what its closure holds. Of a library function, functions alone are replaced."""
        for name, old, cell in zip(f.__code__.co_freevars, f.__closure__ or (), cells, strict=True):
            contents = cell_contents(old)
            if contents is EMPTY:
                continue
            seen = self.met(contents, At(Load.CELL, old, None, name)) if is_own or callable(contents) else contents
            if not is_own and isinstance(contents, dict):  # a table of functions, which are not copied
                if f.__globals__.get("__name__") == "functools":  # of singledispatch: a class may be registered later
                    self.uncopied.constant(contents, At(Load.CELL, old, None, name), set())
                self.uncopied.add(contents)
            cell.cell_contents = seen
            self.unwritten.append((name, lambda cell=cell, seen=seen: cell_contents(cell) is seen))  # type: ignore[misc]

    def _attribute_of(self, f: Any, key: str, value: Any) -> Any:
        name = getattr(f, "__name__", type(f).__name__)
        return self.met(value, At(Load.ATTRIBUTE, f, key, f"{name}.{key}"))

    def of_numpy(self, value: Any) -> Any:
        """What stands for NumPy, or for a function of NumPy, where arrays are read at traced indices; None for anything else."""
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        return self.traced(value) if self.traced is not None and name in ("numpy", f"{OWN}.numpy") else None

    def _class(self, cls: type) -> Any:
        replaced = stand_in(cls, cls.__name__)
        if issubclass(cls, decimal.Decimal):
            self.names.add("Decimal")
        if replaced is cls:
            self.uncopied.add(cls)
        return replaced
