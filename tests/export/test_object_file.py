"""Exported object files, linked natively and for other machines, which QEMU runs."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import scipy.special
from export.c_compiler import Library
from export.samples import LOOSE, X, agree, sample, share
from export.test_c_source import main_of
from night import AT_NIGHT, rotated

import adjoint as ad
from adjoint import export
from adjoint.export.c_source import header
from adjoint.export.object_file import compiled, program

HAS_GCC = shutil.which("gcc") is not None
#: triple: compiler, what runs its programs, and the package of both on Debian
MACHINES = {
    "x86_64-linux-gnu": ("gcc", "", "gcc"),
    "aarch64-linux-gnu": ("aarch64-linux-gnu-gcc", "qemu-aarch64", "gcc-aarch64-linux-gnu qemu-user"),
    "armv7-linux-gnueabihf": ("arm-linux-gnueabihf-gcc", "qemu-arm", "gcc-arm-linux-gnueabihf qemu-user"),
    "riscv64-linux-gnu": ("riscv64-linux-gnu-gcc", "qemu-riscv64", "gcc-riscv64-linux-gnu qemu-user"),
}


class ObjectLibrary(Library):
    """Functions of an object file, called through ctypes."""

    def __init__(self, made, folder):
        text, arena = program(made, "export.object")
        (folder / "sample.o").write_bytes(compiled(text))
        subprocess.run(["gcc", "-shared", "-o", "sample.so", "sample.o", "-lm"], cwd=folder, check=True)
        self.library = ctypes.CDLL(str(folder / "sample.so"))
        self.work = np.zeros(arena + 64, np.uint8)


@pytest.mark.skipif(not HAS_GCC, reason="no linker; on Debian: apt-get install -y gcc")
@pytest.mark.parametrize("name", share("object"))
def test_samples(name, tmp_path):
    samples = sample(name)
    library = ObjectLibrary([part for part, _, _ in samples], tmp_path)
    for part, inputs, wanted in samples:
        agree(library(part, inputs), wanted, f"{name}: {part.name}", LOOSE.get(name, 1e-11))


PROGRAMS = ["network", "inverse", "row tiles", "fori", *(["scalars", "shifted", "cholesky", "integers"] if AT_NIGHT else [])]


@pytest.mark.parametrize("triple", MACHINES)
def test_machines(triple, tmp_path):
    compiler, runner, packages = MACHINES[triple]
    if not shutil.which(compiler) or (runner and not shutil.which(runner)):
        pytest.skip(f"no tools for {triple}; on Debian: apt-get install -y {packages}")
    for name in rotated(PROGRAMS, list(MACHINES).index(triple), 2):
        samples = sample(name)
        made = [part for part, _, _ in samples]
        text, arena = program(made, "export.object")
        (tmp_path / "sample.o").write_bytes(compiled(text, triple))
        (tmp_path / "sample.h").write_text(header(made, [f"double f64[{max(1, -(-arena // 8))}]"]))
        (tmp_path / "main.c").write_text(main_of(samples))
        subprocess.run([compiler, "-std=c99", "-static", "main.c", "sample.o", "-o", "main", "-lm"], cwd=tmp_path, check=True)
        command = [*filter(None, [runner]), str(tmp_path / "main")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        wanted = np.concatenate([y.astype(float).ravel() for _, _, ys in samples for y in ys])
        np.testing.assert_allclose(np.array(done.stdout.split(), float), wanted, 1e-10, 1e-12, err_msg=name)


def test_files(tmp_path):
    result = export.object(lambda x: np.sum(x**2), X, path=tmp_path / "energy.o", name="energy", derivatives="gradient")
    assert (tmp_path / "energy.o").read_bytes() == result.code
    assert "int energy_gradient(" in (tmp_path / "energy.h").read_text()
    wasm = export.object(lambda x: np.sum(x**2), X, name="energy", triple="wasm32-unknown-unknown")
    assert wasm.code[:4] == b"\0asm"


def test_refusals(tmp_path):
    with pytest.raises(ad.AdjointError, match=r"triple of export\.object begins with"):
        export.object(lambda x: x, X, name="f", triple="vax-dec-vms")
    with pytest.raises(ad.AdjointError, match=r"ends in \.o"):
        export.object(lambda x: x, X, name="f", path=tmp_path / "f.c")
    with pytest.raises(ad.AdjointError, match=r"export\.object has no code for 'hyperu'"):
        export.object(lambda x: scipy.special.hyperu(0.5, 1.5, x), X, name="f")
    with pytest.raises(ad.AdjointError, match="LLVM has no processor 'nonsense'"):
        export.object(lambda x: x, X, name="f", cpu="nonsense")


def test_a_microcontroller():
    made = export.object(lambda x: np.sum(np.exp(x)), X, name="f", triple="thumbv7em-none-eabihf", cpu="cortex-m7")
    assert made.code[:4] == b"\x7fELF"
