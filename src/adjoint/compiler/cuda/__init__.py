"""The same program on a GPU: launches instead of loops, cuBLAS and cuSOLVER instead of BLAS and LAPACK, CuPy's memory.

lowering    a graph to steps: the lowering of the CPU, and `schedule`, which makes launches of its kernels
layout      how the points of a kernel are spread over threads and blocks
threads     the code of a thread, in phases
text, ptx   a module for a card
simulator   the same module on this processor
card        modules, launches and memory through CuPy
arrays      which card holds an array
replay      many launches as one CUDA graph
program     the steps as actions on a device
"""
