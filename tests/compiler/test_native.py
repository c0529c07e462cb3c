"""Programs as machine code: loaded, timed, and called back into Python."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import native
from adjoint.core.places import Check, Load, Place

X = np.linspace(0, 1, 7)


def made(f, *args):
    return ad.jit(f).lower(*args).native


def test_code_has_a_size_and_two_texts():
    program = made(lambda x: np.sum(np.sin(x) * x), X)
    assert program.size > 0
    assert "define i32 @program" in program.text
    assert program.assembly()
    assert len(program.optimised()) > 0


def test_equal_modules_are_compiled_once():
    text = "define i64 @twice(i64 %x) {\n  %y = mul i64 %x, 2\n  ret i64 %y\n}"
    name, code, _ = native.object_code(text)
    again, cached, was_cached = native.object_code(text)
    assert (again, cached, was_cached) == (name, code, True)


def test_places_are_checked_natively():
    box = {"a": 1.0}
    place = Place(Load.ENTRY, box, "a", Check.EQUAL, 1.0, "a")
    check = native.places_check([place])
    assert check() == ()
    box["a"] = 2.0
    assert check() != ()
    del box["a"]
    assert check() != ()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_calls_back_into_numpy(shape):
    x = np.random.default_rng(0).normal(size=(*shape, 4))
    np.testing.assert_array_equal(ad.jit(lambda x: np.nextafter(x, 9.0) * 2)(x), np.nextafter(x, 9.0) * 2)


def test_threads():
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(1)
        assert native.pool().threads == ad.get_num_threads() == 1
    finally:
        ad.set_num_threads(before)
    with native.one_thread_of_blas():
        np.testing.assert_allclose(np.eye(3) @ np.eye(3), np.eye(3))
