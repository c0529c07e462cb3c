"""Sampling of long tests: `make test` runs a part of large matrices and of random examples, `make nightly` (ADJOINT_NIGHT=1) all.

    @pytest.mark.parametrize("name", sampled(NAMES, 5))    about a fifth of them
    @settings(max_examples=examples(250))                  a third of them

    @pytest.mark.sampled(3)                                about a third of the combinations of several parametrize

A sample is the same on every run. A sampled test must still cover each function in each mode (`key=`); one with the mark still
has every value of each parameter.
"""

import os
import zlib

AT_NIGHT = os.environ.get("ADJOINT_NIGHT") == "1"


def sampled(cases, every, key=None):
    """About one in `every` cases, all of them in `make nightly`; with `key`, at least one for each of its values."""
    cases, seen = list(cases), set()
    if AT_NIGHT:
        return cases
    found = []
    for i, case in enumerate(cases):
        if zlib.crc32(b"%d" % i) % every == 0 or (key is not None and key(case) not in seen):
            found.append(case)
            if key is not None:
                seen.add(key(case))
    return found


def combined(combinations, every):
    """About one in `every` combinations of values: the positions of those that are run. Every value is in one of them at least.

    >>> combined([(a, b) for a in "xyz" for b in "12"], 1000)
    [0, 1, 2, 4]
    """
    found, numbers, seen = [], {}, set()
    for i, values in enumerate(combinations):
        at = [(axis, numbers.setdefault((axis, value), len(numbers))) for axis, value in enumerate(values)]
        if zlib.crc32(repr(at).encode()) % every == 0 or not seen.issuperset(at):
            found.append(i)
            seen.update(at)
    return found


def rotated(cases, part, parts):
    """One of so many parts of the cases, for a test that is run once for each part; all of them in `make nightly`."""
    return list(cases) if AT_NIGHT else list(cases)[part % parts :: parts]


def examples(count, every=3):
    """All examples in `make nightly`, one in `every` of them in `make test`."""
    return count if AT_NIGHT else max(count // every, 2)


def asked(count, at_night=None):
    """How many random programs: ADJOINT_PROGRAMS, or `count`; in `make nightly` `at_night`, or three times as many."""
    return int(os.environ.get("ADJOINT_PROGRAMS", (at_night or 3 * count) if AT_NIGHT else count))
