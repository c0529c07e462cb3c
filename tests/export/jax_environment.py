"""JAX in an environment of its own: it is a peer, and never installed beside adjoint's tests.

The interpreter is the one that ADJOINT_JAX_PYTHON names, or that of `.venv-jax`, which `make test-jax` makes.
"""

import os
import pathlib
import pickle
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
NO_JAX = "no interpreter with JAX: run `make test-jax`, or name one in ADJOINT_JAX_PYTHON"


def interpreter():
    named = os.environ.get("ADJOINT_JAX_PYTHON")
    if named:
        return named
    own = ROOT / ".venv-jax" / "bin" / "python"
    return str(own) if own.exists() else None


def run(cases):
    """The results of cases (language, text, name, inputs); the text of an error where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = (os.path.join(folder, name) for name in ("cases", "results"))
        with open(given, "wb") as file:
            pickle.dump(cases, file)
        script = pathlib.Path(__file__).parent / "in_jax.py"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"JAX_PLATFORMS": "cpu"}
        subprocess.run([interpreter(), str(script), given, made], check=True, env=environment, capture_output=True)
        with open(made, "rb") as file:
            return pickle.load(file)
