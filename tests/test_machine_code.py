"""Which tests compile with LLVM's optimiser: a part of them, and each test of the compiler in one case at least."""

import pathlib

import pytest
from machine_code import EVERY, PARTLY, WITHOUT, folder_of, is_optimised
from night import AT_NIGHT

from adjoint.compiler.switches import Switch

TESTS = pathlib.Path(__file__).parent


def test_the_folders_exist():
    assert all((TESTS / folder).is_dir() for folder in WITHOUT | PARTLY)


@pytest.mark.parametrize("case", range(2 * EVERY))
def test_the_first_case_and_one_in_several_have_the_optimiser(case, request):
    tests = [test for test in request.session.items if test.nodeid.partition("[")[0] == request.node.nodeid.partition("[")[0]]
    if len(tests) == 2 * EVERY:  # else some were asked for by name
        assert [is_optimised(test) for test in tests] == [AT_NIGHT or i % EVERY == 0 for i in range(len(tests))]
    assert is_optimised(request.node) is Switch.OPTIMISER.on


def test_one_case_is_the_first(request):
    assert folder_of(request.node) in PARTLY
    assert Switch.OPTIMISER.on
