"""Names that C does not leave to exported functions."""

import re
import subprocess

import pytest
from export.c_compiler import COMPILERS

from adjoint import export
from adjoint.core.errors import ArgumentError
from adjoint.export.c_names import LIBRARY

HEADERS = [
    "assert",
    "complex",
    "ctype",
    "errno",
    "fenv",
    "float",
    "inttypes",
    "iso646",
    "limits",
    "locale",
    "math",
    "setjmp",
    "signal",
    "stdarg",
    "stdbool",
    "stddef",
    "stdint",
    "stdio",
    "stdlib",
    "string",
    "tgmath",
    "time",
    "wchar",
    "wctype",
]


@pytest.mark.skipif(not COMPILERS, reason="no C compiler; on Debian: apt-get install -y gcc")
def test_every_function_of_the_library_is_known(tmp_path):
    (tmp_path / "all.c").write_text("".join(f"#include <{name}.h>\n" for name in HEADERS))
    command = [COMPILERS[0], "-std=c99", "-E", "-P", "all.c"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    declared = {
        found[1] for line in text.replace("\n", " ").split(";") if (found := re.search(r"extern [^(]*?\b([a-z]\w*) ?\(", line))
    }
    assert len(declared) > 400
    assert declared <= LIBRARY


@pytest.mark.parametrize(
    "name", ["scanf", "time", "signal", "expf", "double", "wchar_t", "errno", "main", "kernel2", "adjoint_x"]
)
@pytest.mark.parametrize("exporter", [export.c, export.object], ids=["c", "object"])
def test_functions_of_such_names_are_refused(exporter, name, tmp_path):
    path = tmp_path / ("f.c" if exporter is export.c else "f.o")
    with pytest.raises(ArgumentError, match=f"cannot name a function '{name}'"):
        exporter(lambda x: x * 2, 1.0, name=name, path=path)
    assert not path.exists()
