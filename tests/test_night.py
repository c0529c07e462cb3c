"""The sampling of long tests: the same on every run, with every value of each parameter."""

import itertools

import pytest
from night import AT_NIGHT, combined, sampled


@pytest.mark.parametrize("every", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("lengths", [(1,), (5,), (2, 3), (7, 2, 4), (1, 1, 1), (20, 30)])
def test_every_value_is_in_a_combination(lengths, every):
    cases = list(itertools.product(*(map(str, range(n)) for n in lengths)))
    chosen = combined(cases, every)
    assert chosen == sorted(set(chosen))
    for axis, n in enumerate(lengths):
        assert len({cases[i][axis] for i in chosen}) == n
    if every == 1 or len(lengths) == 1:
        assert chosen == [*range(len(cases))]
    assert len(chosen) <= sum(lengths) + 2 * len(cases) / every


def test_a_sample_does_not_depend_on_the_objects():
    names = combined([(a, b) for a in "abcdefgh" for b in "uvwxyz"], 3)
    numbers = combined([(a, b) for a in range(8) for b in range(10, 16)], 3)
    assert names == numbers
    assert len(names) < 30


@pytest.mark.sampled(1000)
@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("a", [1, 2, 3])
def test_the_mark_leaves_out_combinations(a, b, request):
    items = [
        item for item in request.session.items if getattr(item, "originalname", "") == "test_the_mark_leaves_out_combinations"
    ]
    found = {(item.callspec.params["a"], item.callspec.params["b"]) for item in items}
    assert (a, b) in found
    assert len(found) == (6 if AT_NIGHT else 4) or len(items) < 4  # some were asked for by name


def test_sampled_keeps_one_for_each_key():
    cases = [(name, i) for name in "abc" for i in range(50)]
    found = sampled(cases, 1000, key=lambda case: case[0])
    assert {name for name, _ in found} == set("abc")
    assert AT_NIGHT or len(found) < 10
