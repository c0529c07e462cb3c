"""The digits that are left where a sum of exponentials is nearly 1: more than samples of the result can show."""

import ctypes
import math

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np
import pytest

from adjoint.compiler.llvm.vecmath import fixed, near_one
from adjoint.compiler.llvm.vecmath.scalar import DOUBLE, FunctionCode, Scalar


def compiled(base_two):
    """(most, least) → the difference and its unit, as integers."""
    body = FunctionCode()
    found = near_one.terms(*(Scalar(body, f"%x{i}", DOUBLE) for i in (0, 1)), base_two)
    for value, place in ((found.difference, "%difference"), (found.unit, "%unit")):
        body.do(f"store {value.kind} {value.name}, ptr {place}")
    head = "define void @terms(double %x0, double %x1, ptr %difference, ptr %unit) {"
    text = "\n".join([*body.needed.values(), *sorted(body.declared), head, *body.lines, "  ret void", "}"])
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    kinds = [ctypes.c_double, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p]
    native = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address("terms"))

    def run(most, least, _engine=engine):
        words, unit = (ctypes.c_uint64 * 4)(), ctypes.c_double()
        native(most, least, ctypes.addressof(words), ctypes.addressof(unit))
        number = sum(words[i] << (64 * i) for i in range(3))
        return number - ((number >> 191) << 192), int(unit.value)

    return run


@pytest.mark.parametrize("base_two", [False, True], ids=["natural", "binary"])
def test_the_difference_has_180_bits(base_two):
    run = compiled(base_two)
    half = 1.0 if base_two else math.log(2)
    sizes = np.concatenate([np.linspace(0.01, 1, 24), np.logspace(-322, -2, 24), [5e-324, 2.0**-1022, 2.0**-192, 2.0**-191]])
    with mp.workprec(2600):
        scale = mp.log(2) if base_two else mp.mpf(1)
        for most in (-half * sizes).tolist():
            nearest = float(mp.log(-mp.expm1(scale * mp.mpf(most))) / scale)
            for least in {min(number, most) for number in (nearest, nearest * (1 + 1e-15), nearest * (1 - 1e-9))}:
                got, unit = run(most, least)
                exact = mp.exp(scale * (mp.mpf(least) - mp.mpf(most))) - mp.expm1(-scale * mp.mpf(most))
                assert abs(got - mp.ldexp(exact, fixed.BITS - unit)) < 2**12, (most, least)
