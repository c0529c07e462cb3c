"""The examples that take a derivative out of Python: a C program, and a page in Chromium."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.skipif(
    not shutil.which("make") or not shutil.which("cc"), reason="no C compiler; on Debian: apt-get install -y gcc make"
)
def test_a_model_fitted_in_c(tmp_path):
    for name in ("Makefile", "main.c", "model.py"):
        shutil.copy(EXAMPLES / "fit_in_c" / name, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = ["make", "run", f"PYTHON={sys.executable}", "CFLAGS=-O2 -Werror"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "amplitude 1.49" in done.stdout
    assert "frequency 3.00" in done.stdout


@pytest.mark.skipif(
    not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"),
    reason="no tools for Cortex-M; on Debian: apt-get install -y gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_the_same_on_a_microcontroller(tmp_path):
    for path in (EXAMPLES / "fit_in_c").iterdir():
        shutil.copy(path, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = ["make", "run-cortex-m", f"PYTHON={sys.executable}", "CFLAGS=-O2 -Werror"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "amplitude 1.49" in done.stdout
    assert "frequency 3.00" in done.stdout


def test_the_page(browser, tmp_path):
    spec = importlib.util.spec_from_file_location("descent_page", EXAMPLES / "descent_page" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    page = build.build(tmp_path)
    tab = browser.open(page.as_uri())
    tab.evaluate("ready.then(() => {})")
    assert "from (-1.000, -1.000) to (-3.779, -3.283)" in tab.evaluate("document.getElementById('state').textContent")
    drag = """(() => {
      const box = canvas.getBoundingClientRect();
      const across = (x) => box.left + (x + 5) / 10 * box.width, down = (y) => box.top + (5 - y) / 10 * box.height;
      const at = (x, y) => ({ clientX: across(x), clientY: down(y), buttons: 1 });
      canvas.dispatchEvent(new PointerEvent("pointerdown", at(0, 0)));
      canvas.dispatchEvent(new PointerEvent("pointermove", at(-3, 3.5)));
      return document.getElementById("state").textContent;
    })()"""
    assert "to (-2.805, 3.131)" in tab.evaluate(drag)
