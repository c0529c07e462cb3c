"""Tests on a card: skipped where there is none. `make test-gpu` runs them."""

import pytest

from adjoint.core.errors import DeviceError


@pytest.fixture(scope="session")
def card():
    from adjoint.compiler.cuda.card import Card

    try:
        return Card()
    except DeviceError as error:
        pytest.skip(str(error))
