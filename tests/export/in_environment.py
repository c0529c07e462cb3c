"""Runs exported programs in an interpreter that has JAX or Numba, which need not have adjoint.

    python in_environment.py cases.pickle results.pickle

A case is (language, text, name, inputs); a result is the list of arrays, or the text of the error.
"""

import keyword
import pickle
import sys


def main(given, made):
    with open(given, "rb") as file:
        cases = pickle.load(file)
    results = []
    for language, text, name, inputs in cases:
        try:
            results.append(LANGUAGES[language](text, name, inputs))
        except Exception as error:  # the test shows it
            results.append(f"{type(error).__name__}: {error}"[:2000])
    with open(made, "wb") as file:
        pickle.dump(results, file)


def wide_jax():
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def run_stablehlo(text, name, inputs):
    from jax._src.lib import xla_client
    from jax.extend import backend

    jax = wide_jax()
    client = backend.get_backend()
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    program = client.compile_and_load(text, devices, xla_client.CompileOptions())
    return to_numpy(program.execute([jax.device_put(x) for x in inputs]))


def run_jax(text, name, inputs):
    found = wide_jax().jit(defined(text, name))(*inputs)
    return to_numpy(found if isinstance(found, tuple) else (found,))


def run_numba(text, name, inputs):
    """Arguments are arrays, or NumPy's numbers."""
    found = defined(text, name)(*(x[()] for x in inputs))
    return to_numpy(found if isinstance(found, tuple) else (found,))


def defined(text, name):
    scope = {}
    exec(text, scope)
    return scope[f"{name}_" if keyword.iskeyword(name) else name]


def to_numpy(values):
    import numpy as np

    return [np.asarray(v) for v in values]


LANGUAGES = {"stablehlo": run_stablehlo, "jax": run_jax, "numba": run_numba}

if __name__ == "__main__":
    main(*sys.argv[1:])
