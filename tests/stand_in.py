"""A stand-in for CuPy, and a GPU that is the simulator: `ad.jit` with arrays "on a GPU", where there is none.

Arrays of the stand-in answer as CuPy's do: they say that they are on a GPU, and refuse to become NumPy's arrays unless they are
copied by `get`. Their memory is the host's, so that the simulator can read it.
"""

from types import ModuleType, SimpleNamespace

import numpy as np
import scipy.special
from simulator import Simulator

from adjoint.compiler.cuda import gpu as programs
from adjoint.core.errors import DeviceError
from adjoint.core.tree import map_leaves
from adjoint.device import gpu

COUNT = 2  # GPUs


class ndarray:  # noqa: N801  # as CuPy's
    def __init__(self, value, number=0):
        self._value, self._number = value, number

    shape = property(lambda self: self._value.shape)
    dtype = property(lambda self: self._value.dtype)
    ndim = property(lambda self: self._value.ndim)
    size = property(lambda self: self._value.size)
    nbytes = property(lambda self: self._value.nbytes)
    flags = property(lambda self: self._value.flags)
    data = property(lambda self: SimpleNamespace(ptr=self._value.ctypes.data, device_id=self._number))

    def __dlpack_device__(self):
        return 2, self._number

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def get(self):
        return self._value.copy()

    # As CuPy's arrays, these take NumPy's functions, and no array of NumPy next to them.

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or ufunc.__name__ in MISSING:
            return NotImplemented
        out = {"out": _unwrapped(kwargs.pop("out"))} if "out" in kwargs else {}
        with np.errstate(all="ignore"):  # a GPU warns of nothing
            return _wrapped(ufunc(*_unwrapped(inputs), **out, **kwargs), self._number)

    def __array_function__(self, function, types, args, kwargs):
        if function.__name__ in MISSING:
            return NotImplemented
        return _wrapped(function(*_unwrapped(args), **_unwrapped(kwargs)), self._number)

    def __getitem__(self, key):
        return ndarray(np.asarray(self._value[_unwrapped(key)]), self._number)

    def __setitem__(self, key, value):
        self._value[_unwrapped(key)] = _unwrapped(value)

    def __len__(self):
        return len(self._value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __abs__(self):
        return ndarray(np.asarray(abs(self._value)), self._number)

    def __bool__(self):
        return bool(self._value)

    def __float__(self):
        return float(self._value)

    def __getattr__(self, name):
        if name.startswith("_") or name in MISSING:
            raise AttributeError(name)
        found = getattr(self._value, name)
        if not callable(found):
            return _wrapped(found, self._number)
        return lambda *args, **kwargs: _wrapped(found(*_unwrapped(args), **_unwrapped(kwargs)), self._number)

    def __repr__(self):
        return f"on GPU {self._number}: {self._value!r}"


MISSING = {"frompyfunc", "eig", "eigvals", "spacing"}  # what CuPy does not have


def _unwrapped(x):
    if isinstance(x, ndarray):
        return x._value
    if isinstance(x, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(x, (tuple, list)):
        return type(x)(map(_unwrapped, x))
    return {k: _unwrapped(v) for k, v in x.items()} if isinstance(x, dict) else x


def _wrapped(y, number):
    if isinstance(y, tuple):
        return (
            type(y)(*(_wrapped(part, number) for part in y))
            if hasattr(y, "_fields")
            else tuple(_wrapped(part, number) for part in y)
        )
    return ndarray(np.asarray(y), number) if isinstance(y, (np.ndarray, np.generic)) else y


def _operator(ufunc, flipped=False):
    def run(self, *others):
        if any(getattr(other, "__array_priority__", 0) > 100 for other in others):
            return NotImplemented
        inputs = (*others, self) if flipped else (self, *others)
        return self.__array_ufunc__(ufunc, "__call__", *inputs)

    return run


_OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
for _name, _ufunc in _OPERATORS.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
    setattr(ndarray, f"__r{_name}__", _operator(_ufunc, flipped=True))
for _name, _ufunc in {
    "neg": np.negative,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "invert": np.invert,
}.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))


def asarray(x, number=0):
    """A copy of an array of the host, on a GPU; in order at an address as CuPy's pool has them."""
    x = np.asarray(x)
    whole = np.empty(x.nbytes + 512, np.uint8)
    start = -whole.ctypes.data % 512
    made = whole[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    made[...] = x
    return ndarray(made, number)


class Namespace:
    """The stand-in for the module: NumPy's functions, of the stand-in's arrays only."""

    ndarray = ndarray
    __name__ = "stand_in"

    def __init__(self, module=np):
        self._module = module

    @property
    def special(self):
        return Namespace(scipy.special)

    def __getattr__(self, name):
        if name in MISSING:
            raise AttributeError(name)
        found = getattr(self._module, name)
        if isinstance(found, ModuleType):
            return Namespace(found)
        if isinstance(found, type) or not callable(found):
            return found

        @np.errstate(all="ignore")  # a GPU warns of nothing
        def call(*args, **kwargs):
            return _wrapped(found(*_unwrapped(args), **_unwrapped(kwargs)), 0)

        return call


class Functions:
    """The functions of a GPU for the arrays inside of programs, which the simulator has as NumPy's."""

    __name__ = "stand_in"

    def __init__(self, module=np):
        self._module = module

    def __getattr__(self, name):
        if name in MISSING:
            raise AttributeError(name)
        found = getattr(self._module, name)
        return Functions(found) if isinstance(found, ModuleType) else found


class Foreign:
    """An array of a library that is not CuPy."""

    def __init__(self, array):
        self.array = array


class ByInterface(Foreign):
    @property
    def __cuda_array_interface__(self):
        value = self.array._value
        return {"data": (value.ctypes.data, False), "shape": value.shape, "typestr": value.dtype.str, "version": 3}


class ByDlpack(Foreign):
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class SimulatedGPU(Simulator):
    """The simulator, with arrays of the stand-in where a program begins and ends. It counts what is copied, and what captured."""

    namespace = Namespace()
    functions = Functions()

    def __init__(self, number=0):
        super().__init__()
        self.number = number
        self.fetches = self.copies = self.captures = self.allocated = 0
        self.memory = None  # bytes that there are

    def empty(self, t):
        self.allocated += 1
        self.take(t.size * t.dtype.itemsize)
        return ndarray(asarray(super().empty(t))._value, self.number)

    def bytes(self, size):
        self.take(size)
        return super().bytes(size)

    def take(self, size):
        if self.memory is not None and size > self.memory:
            raise MemoryError(f"Out of memory allocating {size} bytes")

    def again(self, array, t):
        return ndarray(array._value.reshape(t.shape), self.number)

    def address(self, array):
        return super().address(array._value if isinstance(array, ndarray) else array)

    def taken(self, x, t):
        if type(x) is not ndarray or x._number != self.number:
            return 0
        return super().taken(x._value, t)

    def imported(self, x):
        return x.array if isinstance(x, Foreign) else x

    def adopt(self, x, t):
        self.copies += 1
        return asarray(super().adopt(x._value if isinstance(x, ndarray) else x, t), self.number)

    def host(self, array):
        self.fetches += isinstance(array, ndarray)
        return super().host(array._value if isinstance(array, ndarray) else array)

    def captured(self, run):
        self.captures += 1
        return super().captured(run)


class StandIn:
    """As `gpu.test_jit.OnGPU`, with arrays of the stand-in."""

    def __init__(self, gpus):
        self.gpus = gpus

    def put(self, x, number=0):
        return map_leaves(lambda a: asarray(a, number) if isinstance(a, np.ndarray) else a, x)

    def is_on_gpu(self, y):
        return type(y) is ndarray

    def get(self, y):
        return y.get()

    def view(self, x, index):
        return ndarray(asarray(x)._value[index])


def install(monkeypatch):
    """Put simulated GPUs in place of real ones; gives them."""
    gpus = [SimulatedGPU(number) for number in range(COUNT)]

    def numbered(number):
        if not 0 <= number < COUNT:
            raise DeviceError(f"there is no GPU {number}; CuPy finds {COUNT}, numbered from 0")
        return gpus[number]

    monkeypatch.setattr(gpu, "numbered", numbered)
    monkeypatch.setattr(programs, "numbered", numbered)
    monkeypatch.setattr(programs, "current", lambda: gpus[0])
    monkeypatch.setattr(gpu, "holding", lambda address: 0)
    return gpus
