import gc
import os
import shutil
import tempfile

# Before NumPy is loaded: processes that share the cores have one thread of BLAS each. Otherwise most calls wait for threads that
# are not scheduled: `logm` of a 3 by 3 matrix takes 50 ms of processor time instead of 2.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from night import AT_NIGHT, combined, examples

settings.register_profile(
    "adjoint",
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # the same examples for everyone there; new ones on each run elsewhere
)
settings.load_profile("adjoint")

# Compiled code is kept between the tests of one run, and not in the user's own folder.
OWN_CACHE = None
if "ADJOINT_CACHE_DIR" not in os.environ:
    OWN_CACHE = os.environ["ADJOINT_CACHE_DIR"] = tempfile.mkdtemp(prefix="adjoint-tests-")


def pytest_unconfigure():
    if OWN_CACHE is not None:  # in the process that started the others, which inherit the variable
        shutil.rmtree(OWN_CACHE, ignore_errors=True)


def pytest_configure(config):
    config.addinivalue_line("markers", "sampled(every): about one in `every` combinations of parameters, all in `make nightly`")


def pytest_collection_modifyitems(config, items):
    """Leave out combinations of parameters of tests with the mark `sampled`, except on a GPU (tests/gpu)."""
    groups = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and not AT_NIGHT and item.path.parent.name != "gpu":
            groups.setdefault((item.path, item.originalname, *mark.args), []).append(item)
    left_out = set()
    for (*_, every), tests in groups.items():
        left_out.update({*tests} - {tests[i] for i in combined([*map(values_of, tests)], every)})
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish():
    """Collected tests are never freed: leave them out of every later garbage collection, which takes 0.4 s otherwise."""
    gc.collect()
    gc.freeze()


def values_of(test):
    """The values of a test's parameters, one for each `parametrize`, told apart by identity."""
    names = [mark.args[0] for mark in test.iter_markers("parametrize")]
    names = [name.replace(",", " ").split() if isinstance(name, str) else name for name in names]
    return [tuple(id(test.callspec.params[name]) for name in some) for some in names]


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all pages. Without one these tests are skipped, unless ADJOINT_REQUIRE_CHROMIUM is set, as in CI."""
    from browser import INSTALL, Browser, executable  # which needs Unix

    if executable() is None:
        (pytest.fail if os.environ.get("ADJOINT_REQUIRE_CHROMIUM") else pytest.skip)(INSTALL)
    with Browser() as running:
        yield running


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _numpy_reports_as_before():
    """No test, and nothing in the library, leaves NumPy with another handler of floating-point errors."""
    before = np.geterrcall()
    yield
    assert np.geterrcall() is before
