"""What a GPU does through CuPy, with a stand-in for CuPy's memory and streams."""

from types import SimpleNamespace

import numpy as np
import pytest

from adjoint.compiler.cuda.gpu import GPU
from adjoint.core.types import Type


class Pointer:
    def __init__(self, ptr):
        self.ptr = ptr

    def __add__(self, offset):
        return Pointer(self.ptr + offset)


class Card:
    """Notes what is allocated, and on which stream."""

    def __init__(self):
        self.stream, self.allocated, self.is_full = 7, [], False
        self.gpu = object.__new__(GPU)
        self.gpu.xp = SimpleNamespace(cuda=SimpleNamespace(alloc=self.alloc))
        self.gpu._ndarray = lambda shape, dtype, memory: (shape, dtype, memory.ptr)
        self.gpu._stream = lambda: SimpleNamespace(ptr=self.stream)

    def alloc(self, size):
        if self.is_full:
            raise MemoryError("full")
        self.allocated.append((self.stream, size))
        return Pointer(1000 * len(self.allocated))


SMALL, LARGE = Type((3,), np.dtype(float)), Type((1 << 20,), np.dtype(float))


def test_small_results_and_their_arena_are_one_allocation():
    card = Card()
    allocate, arrays = card.gpu.results([SMALL, SMALL], 100)
    memory, addresses, arena = allocate()
    assert card.allocated == [(7, 612)]
    assert (addresses, arena) == ([1000, 1256], 1512)
    assert arrays(memory) == (((3,), float, 1000), ((3,), float, 1256))
    assert len(card.allocated) == 1  # nothing ahead: graphs of the program hold the addresses


def test_large_results_are_allocated_apart():
    card = Card()
    allocate, arrays = card.gpu.results([SMALL, LARGE], 100)
    memory, addresses, arena = allocate()
    assert [size for _, size in card.allocated] == [24, 8 << 20, 100]
    assert (addresses, arena) == ([1000, 2000], 3000)
    assert [ptr for _, _, ptr in arrays(memory)] == [1000, 2000]
    assert card.gpu.results([LARGE], 0).allocate()[1:] == ([4000], 0)


def test_memory_for_the_next_call_is_of_the_same_stream():
    card = Card()
    allocate, arrays = card.gpu.results([SMALL], 0)
    memory, addresses, _ = allocate()
    arrays(memory)
    assert addresses == [1000]
    assert allocate()[1] == [2000]  # allocated ahead
    assert allocate()[1] == [3000]
    arrays(memory)  # 4000 is allocated ahead
    card.stream = 8
    assert allocate()[1] == [5000]
    assert card.allocated[-1] == (8, 256)
    arrays(memory)
    assert allocate()[1] == [6000]
    card.stream = 2  # a different one for each thread
    arrays(memory)
    assert len(card.allocated) == 6


def test_no_memory_for_the_next_call():
    card = Card()
    allocate, arrays = card.gpu.results([SMALL], 0)
    memory, _, _ = allocate()
    card.is_full = True
    assert arrays(memory) == (((3,), float, 1000),)
    with pytest.raises(MemoryError):
        allocate()
    card.is_full = False
    assert allocate()[1] == [2000]
