import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "adjoint",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # the same examples for everyone there; new ones on each run elsewhere
)
settings.load_profile("adjoint")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
