"""Copies of modules: what Python's import system, pickle, inspect and the standard library make of them."""

import ast
import builtins
import dataclasses
import doctest
import enum
import importlib
import inspect
import linecache
import math
import pdb
import pickle
import subprocess
import sys
import textwrap
import traceback
import typing
import zipfile

import numpy as np
import pytest

import adjoint as ad


def test_the_original_is_untouched(write):
    write("plain_one.py", "import numpy as np\ndef f(x): return np.array([x, x**2]).sum()\n")
    copy = ad.adopt("plain_one")
    assert "plain_one" not in sys.modules
    assert ad.grad(copy.f)(3.0) == 7.0
    original = importlib.import_module("plain_one")
    assert original is not copy
    assert original.np is np
    with pytest.raises(ad.AdjointError):
        ad.grad(original.f)(3.0)
    assert ad.adopt(original) is copy is ad.adopt("plain_one")


def test_modules_are_imported_by_name_too(write):
    write("by_name/__init__.py")
    write("by_name/inner.py", "import math\ndef f(x): return math.sin(x)\n")
    from adjoint.adopted.by_name import inner

    assert inner is ad.adopt("by_name.inner") is ad.adopt("by_name").inner
    assert ad.grad(inner.f)(0.3) == np.cos(0.3)


def test_missing_modules_are_named(write):
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_package'$"):
        ad.adopt("no_such_package")
    write("half/__init__.py")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'half\.absent'$"):
        ad.adopt("half.absent")


@pytest.mark.parametrize("bad", [3, "not a name", "", b"iapws", 2.0, [], np.ones(3)])
def test_nonsense_is_refused(bad):
    with pytest.raises((ad.AdjointError, ModuleNotFoundError)):
        ad.adopt(bad)


def test_isinstance_of_adopted_classes(write):
    write("shapes_a/__init__.py", "from .base import Shape\nfrom .round import Circle\n")
    write("shapes_a/base.py", "class Shape:\n    def area(self): raise NotImplementedError\n")
    write(
        "shapes_a/round.py",
        """
        import math
        from shapes_a.base import Shape
        class Circle(Shape):
            def __init__(self, r): self.r = float(r)
            def area(self): return math.pi * self.r**2
        """,
    )
    m = ad.adopt("shapes_a")
    assert isinstance(m.Circle(1.0), m.Shape)
    assert issubclass(m.Circle, ad.adopt("shapes_a.base").Shape)
    assert ad.grad(lambda r: m.Circle(r).area())(2.0) == pytest.approx(4 * np.pi)


SOURCE = """
    import enum, dataclasses, abc, collections, functools, math
    import numpy as np

    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    @dataclasses.dataclass
    class Point:
        x: float
        y: float = 2.0
        def norm(self):
            return math.hypot(self.x, self.y)

    Pair = collections.namedtuple("Pair", "a b")

    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self, x): ...

    class Square(Base):
        def f(self, x): return np.asarray([x, x]).prod()

    def cube(x):
        '''The third power.

        >>> cube(2.0)
        8.0
        '''
        return float(x) ** 3

    def broken(x):
        y = x + 1
        raise KeyError(y)
"""


@pytest.fixture
def things(write):
    write("things_b.py", SOURCE)
    return ad.adopt("things_b")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(things, protocol):
    def through(x):
        return pickle.loads(pickle.dumps(x, protocol))

    assert through(things.cube) is things.cube
    assert through(things.Point) is things.Point
    assert through(things.Point(1.0)) == things.Point(1.0)
    assert through(things.Colour.RED) is things.Colour.RED
    assert through(things.Pair(1, 2)) == things.Pair(1, 2)
    assert through(ad.grad(things.cube))(2.0) == 12.0
    assert through(things.__builtins__["float"]) is float


def test_pickled_functions_load_in_another_process(things, tmp_path):
    data = pickle.dumps((things.cube, things.Point(3.0)))
    code = f"import pickle; f, p = pickle.loads({data!r}); print(f(2.0), p.norm() ** 2)"
    env = {"PYTHONPATH": ":".join([str(tmp_path), *map(str, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split()[0] == "8.0"


def test_source_and_files(things, tmp_path):
    assert inspect.getsource(things.cube).startswith("def cube(x):")
    assert inspect.getsource(things.Point).startswith("@dataclasses.dataclass")
    assert inspect.getsourcefile(things.cube) == str(tmp_path / "things_b.py")
    assert inspect.getmodule(things.cube) is things
    assert things.__file__ == str(tmp_path / "things_b.py")
    assert str(inspect.signature(things.Point)) == "(x: float, y: float = 2.0) -> None"


def test_tracebacks_name_file_and_line(things, tmp_path):
    with pytest.raises(KeyError) as info:
        ad.grad(things.broken)(1.0)
    last = traceback.extract_tb(info.value.__traceback__)[-1]
    assert (last.filename, last.line) == (str(tmp_path / "things_b.py"), "raise KeyError(y)")
    assert linecache.getline(last.filename, last.lineno).strip() == "raise KeyError(y)"


def test_debuggers_stop_in_it(things, tmp_path, capsys):
    number = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if "float(x) ** 3" in text)
    stops = []

    class Debugger(pdb.Pdb):
        def user_line(self, frame):
            if frame.f_code.co_name == "cube":
                stops.append((frame.f_lineno, frame.f_locals["x"]))
            self.set_continue()

    debugger = Debugger(readrc=False)
    assert debugger.set_break(str(tmp_path / "things_b.py"), number) is None
    trace = sys.gettrace()
    debugger.runcall(things.cube, 2.0)
    sys.settrace(trace)
    assert stops[-1] == (number, 2.0)


def test_doctests(things):
    assert doctest.testmod(things) == (0, 1)
    (found,) = [t for t in doctest.DocTestFinder().find(things) if t.examples]
    assert found.name == "adjoint.adopted.things_b.cube"


def test_dataclasses(things, write):
    assert ad.grad(lambda x: things.Point(x).norm())(1.5) == 0.6
    assert dataclasses.is_dataclass(things.Point)
    assert [f.name for f in dataclasses.fields(things.Point(1.0))] == ["x", "y"]
    write(
        "late_c.py",
        """
        from __future__ import annotations
        import typing
        from dataclasses import dataclass, field, KW_ONLY, InitVar
        import numpy as np
        @dataclass(slots=True, frozen=True)
        class Line:
            a: float
            _: KW_ONLY
            tags: list[str] = field(default_factory=list)
            scale: typing.ClassVar[float] = 2.0
            def at(self, x: float) -> float: return self.a * x * self.scale
        """,
    )
    m = ad.adopt("late_c")
    assert ad.grad(lambda a: m.Line(a, tags=["t"]).at(3.0))(1.0) == 6.0
    assert [f.name for f in dataclasses.fields(m.Line)] == ["a", "tags"]
    assert typing.get_type_hints(m.Line.at) == {"x": m.__builtins__["float"], "return": m.__builtins__["float"]}


def test_enums(things):
    assert things.Colour(2) is things.Colour.BLUE
    assert isinstance(things.Colour.RED, enum.Enum)


def test_abstract_base_classes(things):
    assert ad.grad(things.Square().f)(3.0) == 6.0
    with pytest.raises(TypeError, match="abstract"):
        things.Base()


def test_singledispatch(write):
    write(
        "generic_d.py",
        """
        import functools, numbers
        import numpy as np
        @functools.singledispatch
        def twice(x): return "other"
        @twice.register(float)
        def _(x): return 2 * x
        @twice.register
        def _(x: np.ndarray): return 3 * x
        @twice.register
        def _(x: int): return 4 * x
        @twice.register(list)
        def _(x): return [twice(y) for y in x]
        class C:
            @functools.singledispatchmethod
            def f(self, x): return x
            @f.register
            def _(self, x: float): return 5 * x
        """,
    )
    m = ad.adopt("generic_d")
    assert (m.twice(1.5), m.twice(2), m.twice("s"), m.twice([1.0])) == (3.0, 8, "other", [2.0])
    assert ad.grad(m.twice)(1.0) == 2.0
    assert ad.grad(lambda x: m.twice(x).sum())(np.ones(2)).tolist() == [3.0, 3.0]
    assert ad.grad(m.C().f)(1.0) == 5.0


@pytest.mark.parametrize(
    "statement",
    ["from numpy import *", "from math import *", "from numpy import sin", "from math import sin", "import math; sin = math.sin",
     "import numpy.linalg as la; from numpy import sin", "import numpy as np; sin = np.sin",
     "from scipy.special import *; from cmath import sin"],
)  # fmt: skip
def test_ways_to_import(write, statement):
    name = f"ways_{abs(hash(statement))}"
    write(f"{name}.py", f"{statement}\ndef f(x): return sin(x).real * 1.0\n")
    m = ad.adopt(name)
    assert ad.grad(m.f)(0.3) == pytest.approx(np.cos(0.3), rel=1e-15)


def test_star_has_all_names(write):
    write("star_e.py", "from numpy import *\nfrom numpy.linalg import *\nfrom math import *\n")
    m = ad.adopt("star_e")
    assert set(np.__all__) | set(np.linalg.__all__) <= set(vars(m))
    assert ad.grad(lambda x: m.det(m.array([[x, 1.0], [2.0, x]])))(3.0) == pytest.approx(6.0)


def test_numpy_random(write):
    write(
        "draws_f.py",
        """
        import random
        import numpy as np
        from numpy.random import default_rng
        def f(x, seed): return x * default_rng(seed).normal() + np.random.RandomState(seed).rand()
        def g(mu): return random.gauss(mu, 2.0) + random.lognormvariate(mu, 0.1) + random.uniform(0.0, mu)
        """,
    )
    m = ad.adopt("draws_f")
    assert ad.grad(m.f)(2.0, 3) == np.random.default_rng(3).normal()
    import random

    random.seed(5)
    expected = m.g(0.3)
    random.seed(5)
    assert random.gauss(0.3, 2.0) + random.lognormvariate(0.3, 0.1) + random.uniform(0.0, 0.3) == expected
    random.seed(5)
    slope = ad.grad(m.g)(0.3)
    random.seed(5)
    random.gauss(0.3, 2.0)
    assert slope == pytest.approx(1.0 + random.lognormvariate(0.3, 0.1) + random.random())


def test_lazy_and_conditional_imports(write):
    write("later_g.py", "import math\ndef h(x): return math.cos(x)\n")
    write(
        "lazy_g.py",
        """
        try:
            import no_such_accelerator as fast
        except ImportError:
            fast = None
        if fast is None:
            import numpy as np
        def f(x):
            import math, later_g
            from later_g import h
            assert h is later_g.h
            return math.sin(x) + h(x) + np.array([x]).sum()
        """,
    )
    m = ad.adopt("lazy_g")
    assert ad.grad(m.f)(0.3) == pytest.approx(np.cos(0.3) - np.sin(0.3) + 1)
    assert ad.jit(ad.grad(m.f))(0.3) == pytest.approx(np.cos(0.3) - np.sin(0.3) + 1)


def test_import_module_and_sys_modules(write):
    write("dyn_h/__init__.py", "import sys, importlib\nhere = sys.modules[__name__]\n")
    write("dyn_h/part.py", "import numpy as np\ndef f(x): return np.array([x, x]).sum()\n")
    write(
        "dyn_h/user.py",
        """
        import importlib, sys
        from importlib import import_module
        a = importlib.import_module("dyn_h.part")
        b = import_module(".part", __package__)
        c = __import__("dyn_h.part", fromlist=["f"])
        d = sys.modules["dyn_h.part"]
        e = importlib.import_module("numpy")
        assert "dyn_h.part" in sys.modules and "dyn_h.none" not in sys.modules
        """,
    )
    m = ad.adopt("dyn_h.user")
    assert m.a is m.b is m.c is m.d is ad.adopt("dyn_h.part")
    assert ad.adopt("dyn_h").here is ad.adopt("dyn_h")
    assert m.e is not np
    assert "dyn_h" not in sys.modules


def test_a_module_that_replaces_itself(write):
    write("swap_i.py", "import sys, types\nm = types.SimpleNamespace(v=3)\nsys.modules['swap_i'] = m\n")
    assert ad.adopt("swap_i").v == 3
    assert "swap_i" not in sys.modules


def test_getattr_of_modules(write):
    write(
        "attr_j/__init__.py",
        """
        import importlib
        def __getattr__(name):
            if name == "late":
                return importlib.import_module(".late", __name__)
            raise AttributeError(name)
        def __dir__(): return ["late"]
        """,
    )
    write("attr_j/late.py", "import math\ndef f(x): return math.exp(x)\n")
    m = ad.adopt("attr_j")
    assert ad.grad(lambda x: m.late.f(x))(0.0) == 1.0
    assert dir(m) == ["late"]
    with pytest.raises(AttributeError):
        m.never


def test_circular_imports(write):
    write("ring_k/__init__.py", "from . import a, b\n")
    write("ring_k/a.py", "import numpy as np\nimport ring_k.b\ndef f(x): return ring_k.b.g(x) * 2\n")
    write(
        "ring_k/b.py",
        "import ring_k.a as a\nfrom . import a as same\ndef g(x): return a.np.array([x]).sum() if a is same else 0\n",
    )
    assert ad.grad(ad.adopt("ring_k").a.f)(1.0) == 2.0


def test_namespace_packages(write, tmp_path, monkeypatch):
    write("one/space_l/left.py", "import math\nfrom space_l.right import g\ndef f(x): return math.sin(x) * g(x)\n")
    write("two/space_l/right.py", "import numpy as np\ndef g(x): return np.asarray([x]).sum()\n")
    monkeypatch.syspath_prepend(str(tmp_path / "one"))
    monkeypatch.syspath_prepend(str(tmp_path / "two"))
    m = ad.adopt("space_l.left")
    assert ad.grad(m.f)(0.3) == pytest.approx(np.cos(0.3) * 0.3 + np.sin(0.3))


def test_zip_imports(tmp_path, monkeypatch):
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("zipped_m/__init__.py", "from .f import f\n")
        z.writestr("zipped_m/f.py", "import numpy as np\n\ndef f(x):\n    return np.array([x, x]).prod()\n")
    monkeypatch.syspath_prepend(str(archive))
    m = ad.adopt("zipped_m")
    assert ad.grad(m.f)(3.0) == 6.0
    assert inspect.getsource(m.f).startswith("def f(x):")
    assert m.__file__.startswith(str(archive))


def test_versions_by_name(write):
    write(
        "meta_n.py",
        """
        from importlib.metadata import version
        import importlib.metadata as im
        v = version('numpy')
        w = im.version('numpy')
        """,
    )
    assert ad.adopt("meta_n").v == np.__version__ == ad.adopt("meta_n").w


def test_metaclasses_and_subclasses_of_numbers(write):
    write(
        "meta_o.py",
        """
        class Meta(type):
            made = []
            def __new__(mcs, name, bases, names):
                cls = super().__new__(mcs, name, bases, names)
                mcs.made.append(name)
                return cls
            def __call__(cls, *args):
                return super().__call__(*args)
        class A(metaclass=Meta): pass
        class Angle(float):
            def deg(self): return self * 57.0
        class Z(complex): pass
        B = type("B", (A,), {"n": 1})
        kinds = [
            type(1.0) is float, type(A()) is A, type(A) is Meta, type(float) is type, type(type) is type, type(1j) is complex,
            isinstance(1.0, float), isinstance(A, type), issubclass(Angle, float), isinstance(Angle(1), Angle),
            not isinstance(1.0, Angle), type(Angle(1.0)) is Angle, {float: 1}[type(2.0)] == 1, float == type(3.0),
            type[int] is not None, float("inf") > 0, float.fromhex("0x1p1") == 2.0, float() == 0.0, complex("1j") == 1j,
            complex(1, 2) == 1 + 2j, isinstance(True, float) is False, (1.0).__class__ == float,
        ]
        def cls_of(x):
            match x:
                case float(): return "float"
                case int(): return "int"
        """,
    )
    m = ad.adopt("meta_o")
    assert all(m.kinds), m.kinds
    assert m.Meta.made == ["A", "B"]
    assert type(m.B()) is m.B
    assert m.Angle(2.0).deg() == 114.0
    assert m.cls_of(1.0) == "float"
    assert m.cls_of(2) == "int"


def test_nothing_is_parsed_again(write, monkeypatch):
    """Copies run the compiled code of the file: there is no rewriting of source."""
    write("cached_p.py", "import math\ndef f(x): return math.sin(x)\n")
    monkeypatch.setattr(ast, "parse", lambda *a, **k: pytest.fail("parsed"))
    assert ad.grad(ad.adopt("cached_p").f)(0.0) == 1.0


def test_threads_adopt_once(write):
    import threading

    write("slow_q.py", "import time\ntime.sleep(0.05)\nimport numpy\n")
    found = []
    threads = [threading.Thread(target=lambda: found.append(ad.adopt("slow_q"))) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len({id(m) for m in found}) == 1


def test_an_error_while_loading_is_the_librarys_own(write, tmp_path):
    write("bad_r.py", textwrap.dedent("x = 1\n1 / 0\n"))
    with pytest.raises(ZeroDivisionError) as info:
        ad.adopt("bad_r")
    assert traceback.extract_tb(info.value.__traceback__)[-1].lineno == 2
    assert "adjoint.adopted.bad_r" not in sys.modules


# -- functions of libraries as attributes, and what code finds out about itself ------------------------------------------

IN_CLASSES = """
import math
import numpy as np

class Arrays:
    __getitem__ = np.array
    filled, doubled = np.zeros, np.asarray
    root, exponent = math.sqrt, math.ldexp
    sine = np.sin

class Derived(Arrays):
    total = staticmethod(np.prod)
    first = np.sum  # NumPy's functions in Python are methods

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0])

    def own(self, x):
        return self.root(x) + self.sine(x) + self.exponent(x, 2)

A = Arrays()
"""


@pytest.mark.parametrize("live", [False, True], ids=["module", "class of the caller's own"])
def test_functions_of_libraries_as_attributes_of_a_class(write, live):
    """A compiled function is no method: it does not get the object."""
    write("in_classes.py", IN_CLASSES)
    original = importlib.import_module("in_classes")
    cls = ad.adopt(original.Derived) if live else ad.adopt("in_classes").Derived
    for made, theirs in ((cls(), original.Derived()), (cls.__mro__[1](), original.Arrays())):
        assert made[1.0, 2.0].tolist() == theirs[1.0, 2.0].tolist()
        assert made.filled(2).tolist() == theirs.filled(2).tolist()
        assert made.root(2.0) == math.sqrt(2.0)
        assert ad.grad(lambda x, made=made: made[x, 2.0 * x][1] * made.doubled(x))(3.0) == 12.0
    assert cls().total([2.0, 3.0]) == 6.0
    assert cls().first() == original.Derived().first() == 3.0
    x, h = 0.7, 1e-6
    expected = (original.Derived().own(x + h) - original.Derived().own(x - h)) / (2 * h)
    assert ad.grad(cls().own)(x) == pytest.approx(expected)
    assert ad.jit(ad.grad(cls().own))(x) == pytest.approx(expected)


def test_a_module_that_finds_itself_by_its_frame(write):
    write("found.py", "import inspect\nmodule = inspect.getmodule(inspect.currentframe())\nmodule.constant = 3.0")
    original, copy = importlib.import_module("found"), ad.adopt("found")
    assert copy.module is copy
    assert original.module is original
    assert copy.constant == 3.0
    assert copy.inspect.getmodule(importlib.import_module) is importlib


BROADCASTS = """
import numpy as np

def shape(a, b):
    return np.broadcast(a, b).shape

def filled(a, b):
    both = np.broadcast(a, b)
    out = np.empty(both.shape)
    out.flat = [u * v for u, v in both]
    return out, both.size, both.ndim, both.nd, both.numiter

def product(a, b):
    both = np.broadcast(a, b)
    assert isinstance(both, np.broadcast)
    return np.array([u * v for u, v in both]).reshape(both.shape)
"""


def test_names_among_the_builtins(write):
    """A package that marks its set-up there, and one that takes its builtins from the module."""
    write(
        "marks_b.py",
        """
        import builtins
        from builtins import float as number, range
        try:
            _MARK_B_
        except NameError:
            builtins._MARK_B_ = 3
        three = _MARK_B_
        def f(x):
            return sum(builtins.float(x) * number(x) for _ in range(_MARK_B_))
        def clear():
            del builtins._MARK_B_
        has = "float" in vars(builtins), hasattr(builtins, "no such name"), "float" in dir(builtins)
        """,
    )
    m = ad.adopt("marks_b")
    try:
        assert m.three == builtins._MARK_B_ == 3
        assert m.has == (True, False, True)
        assert ad.grad(m.f)(2.0) == 12.0
        assert builtins.float is float
    finally:
        m.clear()
    assert not hasattr(builtins, "_MARK_B_")
    with pytest.raises(NameError):
        m.f(2.0)


def test_broadcast(write):
    write("broadcasts.py", BROADCASTS)
    m = ad.adopt("broadcasts")
    a, b = np.arange(3.0), np.arange(2.0)[:, None] + 1.0
    assert m.shape(a, b) == (2, 3)
    assert m.filled(a, b)[1:] == (6, 2, 2, 2)
    np.testing.assert_array_equal(m.product(a, b), a * b)
    np.testing.assert_array_equal(ad.jacobian(m.product)(a, b), ad.jacobian(lambda a, b: a * b)(a, b))
    np.testing.assert_array_equal(ad.jit(m.product)(a, b), a * b)
    with pytest.raises(ValueError):
        ad.grad(lambda a: m.shape(a, np.ones(2)) and 1.0)(a)


def test_a_module_that_cannot_be_loaded_twice(write):
    write("registry.py", "names = []\n")
    write("registers.py", "import registry\nassert 'flag' not in registry.names, 'twice'\nregistry.names.append('flag')\n")
    write("uses_registers.py", "import math, registers\ndef f(x):\n    return math.sin(x)\n")
    importlib.import_module("uses_registers")
    with pytest.raises(AssertionError, match="twice") as error:
        ad.adopt("uses_registers", include=["registers"], exclude=["registry"])
    assert "exclude=['registers']" in "".join(error.value.__notes__)
    assert ad.grad(ad.adopt("uses_registers", exclude=["registers"]).f)(0.0) == 1.0
