"""A function made by a transform: an object, so that it pickles, prints and keeps the name of the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.bind import is_tracking
from ..core.boundary import boundary
from ..eager.on_gpu import are_plain, follows_gpu
from .arguments import name_of


class NotCompiledError(Exception):
    """There is no program for this call: the function itself runs, and `give_up` then warns and records the reason."""

    def __init__(self, give_up: Callable[[], None] | None = None) -> None:
        super().__init__("not compiled")
        self.give_up = give_up


class Transformed:
    """`run(f, args, kwargs, transform=…, **options)` with f and the options fixed.

    If f is a compiled function, or a transform of one, this is one program as well: grad(jit(f)) runs as jit(grad(f)).
    """

    _key: tuple[Any, ...] | None = None

    def __init__(self, transform: str, run: Callable[..., Any], f: Callable[..., Any], **options: Any) -> None:
        self.transform = transform
        self.run = run
        self.f = f
        self.options = options
        self.innermost: Callable[..., Any] = f.innermost if type(f) is Transformed else f
        self.__wrapped__ = f
        self.__name__ = name_of(f)
        self.__qualname__ = getattr(f, "__qualname__", self.__name__)
        self.__module__ = getattr(f, "__module__", __name__)
        self.__doc__ = getattr(f, "__doc__", None)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    @follows_gpu
    def of_other_arguments(self, *args: Any) -> Any:
        """A call with arguments that are not those of f, as its primals and tangents: static ones have other places there."""
        if self._has_static_arguments():
            return self.run(self.f, args, {}, transform=self.transform, **self.options)
        return self._compiled(*args)

    def linear_map(self, args: tuple[Any, ...]) -> Any:
        """The result of a transform that returns a linear map, by compiled programs; None if f is not compiled."""
        found = getattr(type(self.innermost), "compiled_linear_map", None)
        if found is None or is_tracking() or not are_plain(args) or self._has_static_arguments():
            return None
        return found(self.innermost, self, args)

    def _has_static_arguments(self) -> bool:
        f = self.innermost
        return bool(getattr(f, "static_argnums", ()) or getattr(f, "static_argnames", ()))

    @follows_gpu
    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def _compiled(self, *args: Any, **kwargs: Any) -> Any:
        """A transform of a compiled function: as one compiled program, or on the compiled derivatives of the function."""
        f = self.innermost
        whole = getattr(type(f), "compiled_transform", None)
        program = None if whole is None or is_tracking() else whole(f, self)
        give_up = None
        if program is not None:
            try:
                return program(*args, **kwargs)
            except NotCompiledError as error:
                give_up = error.give_up
        # Eagerly, on compiled derivatives of f. If the function fails too, its own error is raised.
        result = self.run(self.f, args, kwargs, transform=self.transform, **self.options)
        if give_up is not None:
            give_up()
        return result

    def key(self) -> tuple[Any, ...]:
        """What tells this transform, and those inside it, from others of the same function."""
        if self._key is None:
            options = [(name, type(value), value) for name, value in self.options.items()]
            inner = self.f.key() if type(self.f) is Transformed else ()
            self._key = (self.transform, self.run, *options), *inner
        return self._key

    def around(self, f: Callable[..., Any], run: Callable[..., Any] | None = None) -> Transformed:
        """The same transforms of another function; with `run`, the outermost does that."""
        inner = self.f.around(f) if type(self.f) is Transformed else f
        return Transformed(self.transform, run or self.run, inner, **self.options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A transform as a method: `self` becomes the first argument."""
        return self if instance is None else _Bound(self, instance)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self.options.items() if value not in (None, False))
        return f"<{self.transform} of {self.__name__}{', ' + shown if shown else ''}>"

    def __reduce__(self) -> Any:
        return _rebuild, (self.transform, self.run, self.f, self.options)


class _Bound:
    def __init__(self, function: Transformed, instance: Any) -> None:
        self.function = function
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)


def _rebuild(transform: str, run: Callable[..., Any], f: Callable[..., Any], options: dict[str, Any]) -> Transformed:
    return Transformed(transform, run, f, **options)
