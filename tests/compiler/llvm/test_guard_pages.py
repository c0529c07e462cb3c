"""Generated code touches nothing outside its arrays: each lies against a page that may be neither read nor written.

Inputs, outputs, constants and intermediate arrays all end where such a page begins, and in a second run begin where one ends.
This runs in a process of its own, which a stray access would end; the last line it printed names the program.
"""

import ctypes
import mmap
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses mmap and mprotect of Linux's C library")
PAGE, NO_ACCESS = mmap.PAGESIZE, 0


def run_apart(*arguments):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {**os.environ, "ADJOINT_CACHE_DIR": "", "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    command = [sys.executable, "-W", "error", os.path.abspath(__file__), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("side", ["end", "front"])
def test_programs_stay_inside_their_arrays(side):
    done = run_apart(side)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.stdout.count("\n") > 60


@pytest.mark.parametrize("what", ["input", "output", "intermediate"])
def test_a_stray_access_would_be_seen(what):
    assert run_apart("end", what).returncode == -signal.SIGSEGV


# -- what the other process does ----------------------------------------------------------------------------------


class Guarded:
    """Memory that ends, or begins, at a page without access."""

    def __init__(self, at_end):
        self.at_end = at_end
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.mapped = []

    def pages(self, count):
        """So many pages, between two that are closed."""
        length = (count + 2) * PAGE
        base = self.libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value)
        self.mapped.append((base, length))
        self.close(base)
        self.close(base + length - PAGE)
        return base + PAGE

    def close(self, address):
        assert self.libc.mprotect(address, PAGE, NO_ACCESS) == 0

    def memory(self, size):
        count = -(-size // PAGE)
        return self.pages(count) + (count * PAGE - size if self.at_end else 0)

    def array(self, value):
        """A copy of an array, as an address."""
        address = self.memory(value.nbytes)
        if value.nbytes:
            ctypes.memmove(address, np.ascontiguousarray(value).ctypes.data, value.nbytes)
        return address

    def free(self):
        for base, length in self.mapped:
            self.libc.munmap(base, length)
        self.mapped.clear()


def spaced(at_end):
    """A plan of the arena in which every array has pages of its own, and the page after them is closed."""

    def plan(lowered):
        _plan(lowered)
        end = 0
        for buffer in lowered.offsets:
            end += pages_of(buffer) * PAGE
            lowered.offsets[buffer] = end - buffer.nbytes if at_end else end - pages_of(buffer) * PAGE
            end += PAGE
        lowered.arena = end

    _plan = fuse.plan
    return plan


def pages_of(buffer):
    return -(-buffer.nbytes // PAGE)


def call(path, arguments, guarded, at_end, missing=""):
    """Run a compiled program on guarded memory; its results. `missing` makes something one element too short."""
    low, native = path.lowered, path.native
    arrays = [np.asarray(a) for a in (*arguments, *path.outside()[0])]
    if missing == "input":
        arrays[0] = arrays[0][:-1]
    inputs = [guarded.array(a) for a in arrays]
    sizes = [(v.type, v.buffer.nbytes - v.dtype.itemsize * (missing == "output")) for v in low.outputs]
    outputs = [guarded.memory(size) for _, size in sizes]
    end = arena = guarded.pages(low.arena // PAGE)
    for buffer in low.offsets:
        end += pages_of(buffer) * PAGE
        guarded.close(end)
        end += PAGE
    if missing == "intermediate":
        guarded.close(arena)
    table = (ctypes.c_void_p * (len(inputs) + len(outputs)))(*inputs, *outputs)
    env = (ctypes.c_void_p * len(native.env))(*native.env)
    env[0] = arena
    data = {b.data.ctypes.data: b.data for b in low.buffers if b.kind == "constant"}
    for i, address in enumerate(native.env):
        if i and address in data:
            env[i] = guarded.array(data[address])
    program = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(native.engine.get_function_address("program"))
    status = program(ctypes.addressof(table), ctypes.addressof(env))
    assert status == 0, status
    return [
        np.frombuffer(ctypes.string_at(address, size), t.dtype).reshape(t.shape)
        for address, (t, size) in zip(outputs, sizes, strict=True)
    ]


def chosen():
    """(name, function, arguments): what kernels are made of, at sizes that vectors do not divide."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 8, 17, 1001):
        x, y = rng.uniform(0.1, 1, (2, n))
        yield f"elementwise {n}", lambda x, y: np.exp(np.sin(x)) * y**1.5 + np.where(x > y, x, -y), (x, y)
        yield f"singles {n}", lambda x, y: (np.tanh(x) / y, np.sum(x)), (x.astype(np.float32), y.astype(np.float32))
        yield f"truths {n}", lambda x, y: (x > y, np.any(x > y), np.sum(x > y)), (x, y)
        yield f"stencil {n}", lambda x: x[2:] - 2 * x[1:-1] + x[:-2], (rng.normal(size=n + 2),)
        yield (
            f"stencil's gradient {n}",
            ad.grad(lambda x: np.sum(np.sin(x[2:] * x[:-2]) - x[1:-1] ** 3)),
            (rng.normal(size=n + 2),),
        )
        yield f"backwards {n}", lambda x: x[::-1] * x[::2].sum() + np.roll(x, 1), (x,)
        yield f"rows {n}", lambda x: (x.sum(0), x.sum(1), x.max(0), x.max(1)), (rng.normal(size=(n, 3)),)
        yield f"columns {n}", lambda x: (x.sum(0), x.mean(1), x.min(0), x.T @ x), (rng.normal(size=(3, n)),)
        yield f"frames {n}", ad.grad(lambda x: np.sum(x[1:, :-1] * x[:-1, 1:])), (rng.normal(size=(n, 4)),)
        yield f"steps {n}", ad.grad(lambda x: np.sum(x[::2] ** 2) + np.sum(x[::-3])), (x,)
        index = rng.integers(-n, n, 2 * n)
        yield f"gather {n}", lambda x, i: np.sin(x[i]), (x, index)
        yield f"scatter {n}", ad.grad(lambda x, i: np.sum(x[i] ** 2)), (x, index)
        yield f"joins {n}", lambda x, y: (np.concatenate([x, y[:1], x]), np.stack([x, y], axis=1)), (x, y)
        yield f"outer {n}", lambda x, y: np.sum(np.exp(x[:, None] - y[None, :]), axis=1), (x, y[:13])
        yield f"pairs {n}", lambda x: np.sum(np.tanh(x[:, None] - x[:40]), axis=(0, 1)), (rng.normal(size=(n, 3)),)
        yield f"constants {n}", lambda x, y=y: x * y + np.arange(float(len(y))), (x,)
        yield f"sorted {n}", lambda x: np.sort(x) * 2, (x,)
    for rows, inner, columns in [(1, 1, 1), (2, 3, 4), (5, 7, 3), (12, 11, 13), (33, 17, 9), (71, 20, 31)]:
        a, b = rng.normal(size=(rows, inner)), rng.normal(size=(inner, columns))
        yield f"product {rows, inner, columns}", lambda a, b: a @ b, (a, b)
        yield f"of singles {rows, inner, columns}", lambda a, b: a @ b, (a.astype(np.float32), b.astype(np.float32))
        yield f"transposed {rows, inner, columns}", lambda a, b: np.sin(b.T @ a.T), (a, b)
        yield f"its gradient {rows, inner, columns}", ad.grad(lambda a, b: np.sum(np.tanh(a @ b)), (0, 1)), (a, b)
        yield f"stacked {rows, inner, columns}", lambda a, b: np.stack([a, a + 1]) @ b, (a, b)
    large = rng.normal(size=40_001)
    yield "in pieces", lambda x: (np.exp(np.sin(x)), np.sum(np.cos(x)), np.sin(x[1:] * x[:-1])), (large,)
    yield (
        "grid in pieces",
        ad.grad(lambda x: np.sum(np.sin(x[1:] - x[:-1]) + np.cos(x[:-1] + 1))),
        (large[:40_000].reshape(200, 200),),
    )

    wide = rng.normal(size=(1003, 33))
    yield "in row tiles", lambda x: (x / np.sum(x * x, axis=1, keepdims=True), x - x.max(1, keepdims=True)), (wide,)
    yield (
        "a gradient in row tiles",
        ad.value_and_grad(lambda x: np.sum(np.tanh(x / np.sum(x * x, axis=1, keepdims=True)) ** 3)),
        (wide,),
    )


def drawn(side):
    for chunk in (0, 1) if AT_NIGHT else ({"end": 0, "front": 1}[side],):
        for number, steps, types, c in programs.drawn(chunk, programs.CHUNK, programs.SHAPES):
            arrays = programs.values(types, np.random.default_rng(number))
            f = programs.program(steps, programs.LARGEST)
            yield programs.described(number, steps, types), lambda x, y, f=f, c=c: f(x, y, c), tuple(arrays)


def main(side, missing=""):
    at_end = side == "end"
    fuse.plan = spaced(at_end)
    guarded = Guarded(at_end)
    cases = [*chosen()] if missing else rotated(chosen(), at_end, 2)  # of each kind, some sizes on each side
    for name, f, arguments in [*cases, *([] if missing else drawn(side))]:
        if missing and name != "in pieces":
            continue
        print(name, flush=True)
        path = ad.jit(f).lower(*arguments)
        assert missing != "intermediate" or path.lowered.offsets
        leaves = [np.ascontiguousarray(a) for a in arguments]
        with np.errstate(all="ignore"):
            wanted = [np.asarray(y) for y in flatten(f(*arguments))[0]]
        programs.agree(call(path, leaves, guarded, at_end, missing), wanted, name, loose=2e7)
        guarded.free()


if __name__ == "__main__":
    import test_compiled_programs as programs
    from night import AT_NIGHT, rotated

    import adjoint as ad
    from adjoint.compiler.lower import fuse
    from adjoint.core.tree import flatten

    main(*sys.argv[1:])
