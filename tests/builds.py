"""Tests of what the free-threaded build of Python does otherwise."""

import sysconfig

import pytest

#: New threads inherit the context there, memory is given back later, and adopted code has no native dispatch.
with_gil = pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="the free-threaded build differs")
