"""Which tests compile their programs with LLVM's optimiser: in `make nightly` all of them, in `make test` a part.

The optimiser, and the code generator that follows it, take nine tenths of the time of compiling a small program, and a third of
the time of all tests. Without them (`Switch.OPTIMISER`) a program has the same text and gives the same results.
"""

from collections import Counter

from night import AT_NIGHT

#: Folders whose subject is not machine code: not with the optimiser, except for tests with the mark `optimised`.
WITHOUT = frozenset({
    "adopt", "algebra", "api", "check", "compat", "core", "derive", "eager", "numpy", "rewrite", "scipy", "source", "staging",
    "surface", "transform",
})  # fmt: skip
#: Folders in which the first case of each test, and one in `EVERY` of the others, are compiled with the optimiser.
PARTLY = frozenset({"", "ops", "compiler", "compiler/lower", "compiler/cuda"})
EVERY = 4


def folder_of(test):
    """The folder of a test below `tests`; None if it is a doctest of the package or of the documentation."""
    path, _, _ = test.nodeid.partition("::")
    return path.rpartition("/")[0].removeprefix("tests").lstrip("/") if path.startswith("tests/") else None


def choose(tests):
    """Mark the tests of `PARTLY` that have the optimiser."""
    cases = Counter()
    for test in tests:
        if folder_of(test) in PARTLY:
            name = test.nodeid.partition("[")[0]
            if cases[name] % EVERY == 0:
                test.add_marker("optimised")
            cases[name] += 1


def is_optimised(test):
    folder = folder_of(test)
    if AT_NIGHT or folder is None or test.get_closest_marker("optimised"):
        return True
    return folder not in PARTLY and folder.partition("/")[0] not in WITHOUT
