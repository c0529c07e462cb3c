"""docs/coverage.md is what the tables say, and says enough. That every function on it is tested: tests/surface."""

import pathlib
import subprocess
import sys

import pytest

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
