"""A folder of modules that a test writes, and adopts."""

import sys
import textwrap

import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module below a folder that is searched for modules."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(name, text=""):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    yield put
    for path in tmp_path.iterdir():
        for name in [n for n in sys.modules if n.startswith((f"adjoint.adopted.{path.stem}", path.stem))]:
            del sys.modules[name]
