"""Declarations, checked by the compiler of TypeScript."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from adjoint.export.javascript_module import ARRAYS, names_of
from adjoint.export.program import Part

TSC = shutil.which("tsc")
_NUMBERS = {"bool": "boolean", "uint64": "bigint"}


def needed(test: Any) -> Any:
    return pytest.mark.skipif(TSC is None, reason="no tsc; on Debian: apt-get install -y node-typescript")(test)


def use(module: str, part: Part, i: int, arrays: dict[str, str] = ARRAYS) -> str:
    """A call of an exported function whose arguments and results have the types that are documented."""

    def kind(t: Any) -> str:
        return arrays[t.dtype.name] if t.shape else _NUMBERS.get(t.dtype.name, "number")

    given = ", ".join(f"null as unknown as {kind(t)}" for t in part.given)
    made = [kind(t) for t in part.made]
    whole = "{ " + "; ".join(f"{n}: {k}" for n, k in zip(names_of(part)[1], made, strict=True)) + " }"
    return f"export const r{i}_{part.name}: {whole if len(made) > 1 else made[0]} = {module}.{part.name}({given});"


def errors(folder: Path, lines: list[str]) -> dict[int, str]:
    """What the compiler says about a file, by the numbers of its lines."""
    (folder / "use.mts").write_text("\n".join(lines))
    flags = ["--noEmit", "--strict", "--skipDefaultLibCheck", "--target", "es2022", "--lib", "es2022,dom", "--module", "nodenext"]
    assert TSC is not None
    done = subprocess.run(
        [TSC, *flags, "--moduleResolution", "nodenext", "use.mts"], cwd=folder, capture_output=True, text=True, check=False
    )
    found = dict(re.findall(r"^use\.mts\((\d+),\d+\): (error TS.*)$", done.stdout, re.MULTILINE))
    assert (done.returncode != 0) == bool(found), done.stdout + done.stderr
    return {int(line): text for line, text in found.items()}


def check(folder: Path, lines: list[str]) -> None:
    found = errors(folder, lines)
    assert not found, found
