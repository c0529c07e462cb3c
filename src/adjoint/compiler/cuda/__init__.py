"""The same program on a GPU: launches instead of loops, cuBLAS and cuSOLVER instead of BLAS and LAPACK, CuPy's memory.

lowering    a graph to steps: the lowering of the CPU, and `schedule`, which makes launches of its kernels
layout      how the points of a kernel are spread over threads and blocks
threads     the code of a thread, in phases
text, ptx   a module for a GPU; or for this processor, on which tests simulate one
gpu         modules, launches and memory through CuPy
libraries   products and linear algebra by cuBLAS and cuSOLVER; `handles` and `c_api` are how they are called
foreign     ops without a kernel, by CuPy; `exact` has those for which CuPy's functions differ from NumPy's
graph       launches, library calls, loops and branches recorded as a CUDA graph; `replay` keeps those of a program
program     a program on a device; `routine` and `control` make its actions, over a `table` of addresses
"""
