"""Peers in environments of their own, never installed beside adjoint's tests: they run what was exported for them.

The interpreter of JAX is the one that ADJOINT_JAX_PYTHON names, or that of `.venv-jax`, which `make test-jax` makes.
Numba has the same two.
"""

import os
import pathlib
import pickle
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]


class Environment:
    def __init__(self, name):
        self.variable, self.folder = f"ADJOINT_{name.upper()}_PYTHON", f".venv-{name.lower()}"
        self.missing = f"no interpreter with {name}: run `make test-{name.lower()}`, or name one in {self.variable}"

    def interpreter(self):
        own = ROOT / self.folder / "bin" / "python"
        return os.environ.get(self.variable) or (str(own) if own.exists() else None)

    def needed(self, test):
        """Skip a test if there is no such environment."""
        return pytest.mark.skipif(self.interpreter() is None, reason=self.missing)(test)

    def run(self, cases):
        """The results of cases (language, text, name, inputs); the text of an error where there is one."""
        with tempfile.TemporaryDirectory() as folder:
            given, made = (os.path.join(folder, name) for name in ("cases", "results"))
            with open(given, "wb") as file:
                pickle.dump(cases, file)
            script = pathlib.Path(__file__).parent / "in_environment.py"
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"JAX_PLATFORMS": "cpu"}
            subprocess.run([self.interpreter(), str(script), given, made], check=True, env=environment, capture_output=True)
            with open(made, "rb") as file:
                return pickle.load(file)


JAX, NUMBA = Environment("JAX"), Environment("Numba")
