"""docs/coverage.md is what the tables say, says enough, and is true of what is tested."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from adjoint.core.op import Op
from adjoint.numpy.table import UFUNCS

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(ROOT / "tools"))
    import coverage

    return coverage


def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools" / "coverage.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_at_least_350_functions_are_differentiable(page):
    tables = page.table()
    assert page.distinct_differentiable(tables) >= 350
    assert all(row.note for rows in tables.values() for row in rows if row.standing == "refused")


def test_every_differentiable_function_is_named_in_a_test(page):
    """A ufunc that is an op has generated tests; of every other function this only sees that a test names it."""
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    missing = []
    for module, rows in page.table().items():
        for row in rows:
            function = getattr(dict(page.MODULES)[module], row.name)
            if row.standing != "differentiable" or (isinstance(function, np.ufunc) and isinstance(UFUNCS.get(function), Op)):
                continue
            names = "|".join(map(re.escape, {row.name, function.__name__}))
            if not re.search(rf'(\.|")({names})\b', text):
                missing.append(f"{module}.{row.name}")
    assert not missing
