"""The tests of a GPU (reductions of all shapes, linear algebra, loops, branches, errors), with the simulator in its place."""

import pytest
from gpu.test_workloads import *  # noqa: F403
from simulator import Simulator


@pytest.fixture
def gpu():
    return Simulator()
