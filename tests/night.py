"""What `make test` leaves to `make nightly`, which runs the same tests with ADJOINT_NIGHT=1: the rest of large matrices and of
random examples.

    @pytest.mark.parametrize("name", sampled(NAMES, 5))    about a fifth of them
    @settings(max_examples=examples(250))                  a third of them

A sample is the same on every run. Whoever samples sees to it that each function is tried in each mode all the same.
"""

import os
import zlib

AT_NIGHT = os.environ.get("ADJOINT_NIGHT") == "1"


def sampled(cases, every, key=None):
    """About one in `every` cases, all of them at night; with `key`, at least one for each of its values."""
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


def examples(count):
    """So many examples at night, a third of them by day."""
    return count if AT_NIGHT else max(count // 3, 2)


def asked(count):
    """How many random programs: ADJOINT_PROGRAMS, or so many, three times as many at night."""
    return int(os.environ.get("ADJOINT_PROGRAMS", 3 * count if AT_NIGHT else count))
