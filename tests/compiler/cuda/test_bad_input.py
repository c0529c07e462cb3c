"""Bad input, with the simulator in place of a GPU."""

import pytest
import stand_in
from gpu.test_bad_input import *  # noqa: F403


@pytest.fixture
def gpu(monkeypatch):
    return stand_in.StandIn(stand_in.install(monkeypatch))
