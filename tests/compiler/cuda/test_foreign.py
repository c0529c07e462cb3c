"""Which foreign steps run on a GPU, with NumPy in place of CuPy."""

import pytest
import stand_in
from gpu.test_foreign import *  # noqa: F403


@pytest.fixture
def gpu(monkeypatch):
    return stand_in.StandIn(stand_in.install(monkeypatch))
