"""Kernels in CUDA C, compiled by this machine's C++ compiler: `namespace(folder)` is NumPy with kernels as CuPy has them.

The threads of a block run one after the other, each up to the next barrier.
"""

import ctypes
import shutil
import subprocess

import numpy as np

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
# Threads change places by longjmp: swapcontext makes a system call each time. There is no std::function, since its header takes
# most of the compiler's time.
HEAD = """
#include <math.h>
#include <setjmp.h>
#include <ucontext.h>
struct Index { long long x; };
static Index blockIdx, threadIdx;
static ucontext_t beginning;
static jmp_buf scheduler, threads[256];
static char stacks[256][1 << 15];
static bool is_begun[256], is_done[256], is_waiting;
static int votes;
static void __syncthreads() { if (!_setjmp(threads[threadIdx.x])) _longjmp(scheduler, 1); }
static int __syncthreads_or(int vote) { votes |= vote; __syncthreads(); return votes; }
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
GLOBALS
static void enter() { NAME(NAMES); is_done[threadIdx.x] = true; _longjmp(scheduler, 1); }
extern "C" void launch(long long blocks, ARGUMENTS) {
  COPIES
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    votes = 0;
    for (int i = 0; i < 256; ++i) is_begun[i] = is_done[i] = false;
    do {
      is_waiting = false;
      for (threadIdx.x = 255; threadIdx.x >= 0; --threadIdx.x) {
        const int i = threadIdx.x;
        if (is_done[i]) continue;
        if (!_setjmp(scheduler)) {
          if (is_begun[i]) _longjmp(threads[i], 1);
          is_begun[i] = true;
          getcontext(&beginning);
          beginning.uc_stack.ss_sp = stacks[i];
          beginning.uc_stack.ss_size = sizeof stacks[i];
          makecontext(&beginning, enter, 0);
          setcontext(&beginning);
        }
        is_waiting |= !is_done[threadIdx.x];
      }
    } while (is_waiting);
  }
}"""


def namespace(folder):
    """NumPy, with kernels as CuPy has them."""
    made = []

    class Kernel:
        def __init__(self, code, name):
            declared = code[code.index("__global__") :]
            arguments = declared[declared.index("(") + 1 : declared.index(")")]
            names = [a.split()[-1].strip("*") for a in arguments.split(",")]
            if "__syncthreads" in code:
                declarations = [f"static {a.replace('const ', '')}_;" for a in arguments.split(",")]
                launch = WITH_BARRIERS.replace("GLOBALS", "".join(declarations))
                launch = launch.replace("COPIES", " ".join(f"{n}_ = (decltype({n}_)){n};" for n in names))
                launch = launch.replace("NAMES", ", ".join(f"{n}_" for n in names))
            else:
                launch = WITHOUT_BARRIERS.replace("NAMES", ", ".join(names))
            launch = launch.replace("ARGUMENTS", arguments).replace("NAME", name)
            made.append(name)
            source, library = folder / f"{len(made)}.cpp", folder / f"{len(made)}.so"
            source.write_text(HEAD + code.replace('extern "C" __global__', "static") + launch)
            flags = ["-O1", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
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
