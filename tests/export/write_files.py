"""Write the files that later versions must still read: PYTHONPATH=src:tests python tests/export/write_files.py

Run once for each released version. `every_op.adjoint` holds each op of the table, so that an op cannot be renamed, or change its
parameters, without notice.
"""

import importlib.util
import pathlib

import numpy as np
import op_samples

import adjoint as ad
from adjoint.api.graph import Program
from adjoint.core.tree import flatten
from adjoint.ir.graph import Equation, Literal

HERE = pathlib.Path(__file__).parent


def every_op():
    """One graph with the equations of a program for each op, on constants."""
    equations, number = [], 0
    for name in op_samples.names():
        program, args = op_samples.programs(name)[0]
        values = dict(enumerate(Literal(np.asarray(a)) for a in args))
        for equation in program.equations:
            outputs = tuple(range(number, number + len(equation.outputs)))
            inputs = tuple(values[o] if isinstance(o, int) else o for o in equation.inputs)
            equations.append(Equation(equation.op, inputs, equation.params, outputs, equation.types))
            values |= dict(zip(equation.outputs, outputs, strict=True))
            number += len(equation.outputs)
    return Program("every_op", (), (), tuple(equations), (0,))


def cases():
    spec = importlib.util.spec_from_file_location("test_container", HERE / "test_container.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


def main():
    folder = HERE / "files" / ad.__version__
    folder.mkdir(parents=True, exist_ok=True)
    ad.save(folder / "every_op.adjoint", every_op())
    for name, (f, args) in cases().items():
        path = ad.save(folder / f"{name.replace(' ', '_')}.adjoint", f, *args)
        if name == "matrix":  # singular vectors have a sign of their own on each machine
            continue
        inputs = flatten(args)[0]
        found = ad.load(path).run(*inputs)
        kept = {f"input{i}": x for i, x in enumerate(inputs)}
        kept |= {f"output{i}": y for i, y in enumerate(found if isinstance(found, tuple) else (found,))}
        np.savez(path.with_suffix(".npz"), **kept)


if __name__ == "__main__":
    main()
