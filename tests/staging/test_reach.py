"""The objects that a function can reach, and the names and strings in its code."""

from adjoint.core.code import names_in, strings_in
from adjoint.staging.reach import reached

TABLE = {"inner": [object()]}


def outer():
    def inner(x):
        return getattr(TABLE, "keys") if x else "not a name"  # noqa: B009

    return inner


def test_names_and_strings_of_inner_functions():
    assert {"getattr", "TABLE"} <= set(names_in(outer.__code__))
    assert "keys" in set(strings_in(outer.__code__))
    assert "not a name" not in set(strings_in(outer.__code__))


def test_what_globals_and_containers_hold_is_reached():
    found = list(reached(outer()))
    assert any(x is TABLE["inner"][0] for x in found)
