"""Programs on a device, be it a GPU or the simulator, next to the same programs on the CPU."""

import numpy as np
from simulator import Simulator

import adjoint as ad
from adjoint.compiler.cuda.lowering import lower
from adjoint.compiler.cuda.program import DeviceProgram
from adjoint.core.tree import flatten

LAGS = (1, 3)  # phases


def program(f, args, device):
    """The program that f is compiled to for these arguments, for a device, and its flat inputs."""
    with np.errstate(all="ignore"):
        path = ad.jit(f).lower(*args)
    made = DeviceProgram(lower(path.graph, path.weak, bool(path.guards), path.unread), device)
    leaves = [*flatten((args, {}))[0], *path.outside()[0]]
    return made, [device.adopt(x, t) for x, t in zip(leaves, path.graph.input_types, strict=True)]


def results(f, args, device):
    """The flat results of f on a device, as NumPy arrays."""
    made, inputs = program(f, args, device)
    return [device.host(y) for y in made(*inputs)]


def both_orders(f, args):
    """The flat results of f in the simulator; neither the order of the threads within a phase nor warps behind others matter."""
    made, inputs = program(f, args, Simulator())
    found = made(*inputs)
    made.device.flip = -1
    others = [made]
    if any(entry.parts.in_warps for entry in made.module.entries.values()):
        others += [DeviceProgram(made.lowered, Simulator(lag=lag)) for lag in LAGS]
    for other in others:
        for a, b in zip(found, other(*inputs), strict=True):
            np.testing.assert_array_equal(a, b, err_msg="the result depends on the order of the threads: a race")
    return found, made


def on_cpu(f, args):
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in flatten(ad.jit(f)(*args))[0]]


def same_bits(a, b):
    """Equal to the last bit; nan is nan."""
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        a, b = (np.where(np.isnan(x), 0, x) for x in (a, b))
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    np.testing.assert_array_equal(a, b)
