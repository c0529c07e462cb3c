"""Kernels in CUDA C, compiled by this machine's C++ compiler: `namespace(folder)` is NumPy with kernels as CuPy has them.

The threads of a block run one after the other, each up to the next barrier.
"""

import ctypes
import shutil
import subprocess

import numpy as np

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
HEAD = """
#include <math.h>
#include <ucontext.h>
#include <functional>
struct Index { long long x; };
static Index blockIdx, threadIdx;
static ucontext_t scheduler, threads[256];
static char stacks[256][1 << 15];
static bool is_done[256];
static int votes;
static std::function<void()> body;
static void __syncthreads() { swapcontext(&threads[threadIdx.x], &scheduler); }
static int __syncthreads_or(int vote) { votes |= vote; __syncthreads(); return votes; }
static void enter() { body(); is_done[threadIdx.x] = true; }
#define __shared__ static
#define __device__ static
#define __dadd_rn(a, b) ((a) + (b))
#define __dmul_rn(a, b) ((a) * (b))
#define __fadd_rn(a, b) ((a) + (b))
#define __fmul_rn(a, b) ((a) * (b))
"""
WITHOUT_BARRIERS = """
extern "C" void launch(long long blocks, ARGUMENTS) {
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 255; threadIdx.x >= 0; --threadIdx.x) NAME(NAMES);
}"""
WITH_BARRIERS = """
extern "C" void launch(long long blocks, ARGUMENTS) {
  body = [&] { NAME(NAMES); };
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    votes = 0;
    for (int i = 0; i < 256; ++i) {
      getcontext(&threads[i]);
      threads[i].uc_stack.ss_sp = stacks[i];
      threads[i].uc_stack.ss_size = sizeof stacks[i];
      threads[i].uc_link = &scheduler;
      is_done[i] = false;
      makecontext(&threads[i], enter, 0);
    }
    for (bool waiting = true; waiting;) {
      waiting = false;
      for (int i = 255; i >= 0; --i) if (!is_done[i]) {
        threadIdx.x = i;
        swapcontext(&scheduler, &threads[i]);
        waiting |= !is_done[i];
      }
    }
  }
}"""


def namespace(folder):
    """NumPy, with kernels as CuPy has them."""
    made = []

    class Kernel:
        def __init__(self, code, name):
            declared = code[code.index("__global__") :]
            arguments = declared[declared.index("(") + 1 : declared.index(")")]
            names = ", ".join(a.split()[-1].strip("*") for a in arguments.split(","))
            launch = WITH_BARRIERS if "__syncthreads" in code else WITHOUT_BARRIERS
            launch = launch.replace("ARGUMENTS", arguments).replace("NAMES", names).replace("NAME", name)
            made.append(name)
            source, library = folder / f"{len(made)}.cpp", folder / f"{len(made)}.so"
            source.write_text(HEAD + code.replace('extern "C" __global__', "static") + launch)
            flags = ["-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
            subprocess.run([COMPILER, *flags, source, "-o", library], check=True)
            self.launch = ctypes.CDLL(str(library)).launch

        def __call__(self, grid, block, arguments):
            assert block == (256,)
            self.launch(ctypes.c_longlong(grid[0]), *map(_as_c, arguments))

    class Namespace:
        RawKernel = Kernel

        def __getattr__(self, name):
            return getattr(np, name)

    return Namespace()


def _as_c(x):
    if isinstance(x, np.ndarray):
        return ctypes.c_void_p(x.ctypes.data)
    return {np.int64: ctypes.c_longlong, np.float64: ctypes.c_double, np.float32: ctypes.c_float}[type(x)](x)
