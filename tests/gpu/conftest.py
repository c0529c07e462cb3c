"""Tests on a GPU: skipped where there is none. `make test-gpu` runs them."""

import pytest

from adjoint.core.errors import DeviceError


@pytest.fixture(scope="session")
def gpu():
    from adjoint.compiler.cuda.gpu import GPU

    try:
        return GPU()
    except DeviceError as error:
        pytest.skip(str(error))
