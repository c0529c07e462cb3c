"""The pool: every piece runs once, for any number of threads and pieces, from several threads, and in the child of a fork."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, os, sys, threading
from adjoint.compiler.native import pool

made = pool()
made.threads = int(sys.argv[1])
PIECE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
run = ctypes.CFUNCTYPE(None, PIECE, ctypes.c_void_p, ctypes.c_int64)(made.address)

def check(times):
    for count in [1, 2, 3, 7, 64] * times:
        seen = []
        run(PIECE(lambda table, i: seen.append(i)), None, count)
        assert sorted(seen) == list(range(count)), (count, seen)

check(100)
others = [threading.Thread(target=check, args=(20,)) for _ in range(3)]
for thread in others:
    thread.start()
check(20)
for thread in others:
    thread.join()
child = os.fork()
if child == 0:
    check(20)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
made.threads = 2
check(20)
made.threads = int(sys.argv[1]) + 3
check(20)
print("done")
"""


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 64])
def test_every_piece_runs_once(threads):
    result = subprocess.run([sys.executable, "-c", PROGRAM, str(threads)], capture_output=True, text=True, timeout=120)
    assert result.stdout == "done\n", result.stderr
