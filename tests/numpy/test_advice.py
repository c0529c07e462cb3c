"""Advice in the errors of plain NumPy code: both alternatives, and none that the code already follows."""

import concurrent.futures
from typing import Any

import numpy as np
import pytest
from builds import with_gil

import adjoint as ad
import adjoint.scipy.linalg
import adjoint.scipy.stats

IMPORT, ADOPT = "`import adjoint.numpy as np`", "ad.adopt"
PROGRAM = """
import math
{imports}

def zeros(x):
    a = np.zeros(3)
    a[0] = x            # line 7
    return a.sum()

def array(x):
    return np.array([x, 1.0]).sum()     # line 11

def number(x):
    return float(x) * 2.0               # line 14

def sine(x):
    return math.sin(x)                  # line 17

class Model:
    buffer = np.zeros(3)

    def __init__(self):
        self.mine = np.zeros(3)

    def instance(self, x):
        self.mine[0] = x                # line 26
        return self.mine.sum()

    def shared(self, x):
        self.buffer[1] = x              # line 30
        return self.buffer.sum()

def default(x, a=np.zeros(3)):
    a[2] = x                            # line 34
    return a.sum()

def whole(x):
    a = np.arange(3)
    a[0] = x                            # line 39
    return a.sum()
"""
LINES = {"zeros": 7, "array": 11, "number": 14, "sine": 17, "instance": 26, "shared": 30, "default": 34, "whole": 39}
IMPORTS = {
    "plain": "import numpy as np",
    "plain, by another name": "import numpy\nnp = numpy",
    "ours": "import adjoint.numpy as np",
    "both": "import numpy as np; import adjoint.numpy as anp",
}
TRANSFORMS = {
    "grad": lambda f: ad.grad(f)(2.0),
    "jvp": lambda f: ad.jvp(f, (2.0,), (1.0,)),
    "vmap": lambda f: ad.vmap(f)(np.ones(2)),
    "hessian": lambda f: ad.hessian(f)(2.0),
}


def program(imports):
    """The functions of a module with these imports."""
    names = {"__name__": "users_module"}
    text = IMPORTS[imports].replace("\n", ";")
    exec(compile(PROGRAM.format(imports=text), "users_module.py", "exec"), names)
    model = names["Model"]()
    return names | {"instance": model.instance, "shared": model.shared}


def message(f, run=TRANSFORMS["grad"]):
    with pytest.raises(ad.AdjointError) as caught:
        run(f)
    return str(caught.value)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("imports", ["plain", "plain, by another name", "both"])
@pytest.mark.parametrize("name", LINES)
def test_advice_for_plain_code_has_two_alternatives(name, imports, transform):
    text = message(program(imports)[name], TRANSFORMS[transform])
    assert IMPORT in text
    assert ADOPT in text
    assert text.endswith(f"(users_module.py:{LINES[name]})")


@pytest.mark.parametrize("name", ["zeros", "array", "number", "sine"])
def test_both_ways_work(name):
    plain = program("plain")[name]
    assert ad.grad(ad.adopt(plain))(2.0) == ad.grad(plain, adopt=True)(2.0) == pytest.approx(ad.finite_difference(plain, 2.0))
    if name in ("zeros", "array"):
        assert ad.grad(program("ours")[name])(2.0) == 1.0


@pytest.mark.parametrize("name", ["number", "sine", "instance", "shared", "default", "whole"])
def test_code_that_imports_adjoint_numpy_is_not_told_to(name):
    text = message(program("ours")[name])
    assert "import adjoint.numpy" not in text
    assert text.endswith(f"(users_module.py:{LINES[name]})")
    if name in ("instance", "shared", "default"):
        assert "it was made before grad began" in text
        assert "write a = np.array(a) first, inside the function" in text
        assert ADOPT not in text  # which would not help
    if name == "whole":
        assert "np.array(a, float)" in text


def test_what_is_told_of_an_early_array_helps():
    names = program("ours")
    model, np_ = names["Model"](), names["np"]

    def f(x):
        a = np_.array(model.mine)
        a[0] = x
        return a.sum()

    assert ad.grad(f)(2.0) == 1.0


@with_gil
def test_a_worker_thread():
    names = program("ours")

    def f(x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(names["zeros"], x).result()

    with pytest.raises((ad.AdjointError, ValueError)) as caught:
        ad.grad(f)(2.0)
    text = str(caught.value if isinstance(caught.value, ad.AdjointError) else caught.value.__cause__)
    assert "this thread is not that of grad" in text
    assert "copy_context" in text
    assert "import adjoint.numpy" not in text
    assert ADOPT not in text


def test_the_imperative_style():
    early = program("ours")["Model"]()
    w = ad.array([1.0, 2.0], requires_grad=True)
    with pytest.raises((ad.AdjointError, ValueError)) as caught:
        early.instance(w[0])
    text = str(caught.value if isinstance(caught.value, ad.AdjointError) else caught.value.__cause__)
    assert "before the first array with requires_grad was made" in text
    assert "import adjoint.numpy" not in text
    assert program("ours")["zeros"](w[0]).requires_grad


def test_advice_does_not_name_our_own_function():
    fit = adjoint.scipy.stats.norm.fit
    for f in (lambda x: fit(x * np.arange(3.0))[0], lambda x: adjoint.scipy.stats.norm.fit(x * np.arange(3.0))[0]):
        text = message(f)
        assert "use adjoint.scipy" not in text
        assert "ad.extend.numerical" in text


def test_advised_functions_exist():
    text = message(lambda x: np.sum(adjoint.scipy.linalg.solve_continuous_are(x * np.eye(2), np.eye(2), np.eye(2), np.eye(2))))
    assert "Riccati" in text
    assert "ad.implicit" not in text


def test_an_installed_package_is_to_be_adopted(tmp_path, monkeypatch):
    (tmp_path / "somebodys.py").write_text("import math\n\ndef area(r):\n    return math.pi * float(r)**2\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("adjoint.numpy.advice._INSTALLED", (str(tmp_path),))
    import somebodys

    text = message(somebodys.area)
    assert "adopt that with ad.adopt('somebodys')" in text
    assert "(somebodys.py:4)" in text
    assert ad.grad(ad.adopt("somebodys").area)(2.0) == pytest.approx(4 * np.pi)


def test_models_that_validate_their_fields():
    """pydantic is compiled: the error names the caller's line, and what makes a model of traced values."""
    pydantic = pytest.importorskip("pydantic")
    Model = pydantic.create_model("Model", a=(float, ...), b=(list[float], [1.0]))
    Free = pydantic.create_model("Free", a=(Any, ...))
    for f in (lambda x: Model(a=x).a, lambda x: Model.model_validate({"a": x}).a, lambda x: Model(a=1.0, b=[x]).b[0]):
        text = message(f)
        assert "declare it as Any, or make the object with model_construct" in text
        assert "test_advice.py:" in text
        assert "ad.adopt" not in text
    assert ad.grad(lambda x: Free(a=x).a ** 2)(3.0) == 6.0
    assert ad.grad(lambda x: Model.model_construct(a=x).a ** 2)(3.0) == 6.0


def test_lines_in_methods_that_attrs_writes():
    attrs = pytest.importorskip("attrs")
    Model = attrs.make_class("Model", {"a": attrs.field(converter=float)})
    text = message(lambda x: Model(x).a)
    assert "test_advice.py:" in text
    assert "generated" not in text
