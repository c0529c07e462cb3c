"""The text of a traced value: shown as a number is, and never a number without its derivative."""

import pickle
import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.jit import CompileWarning
from adjoint.core.errors import AdjointError
from adjoint.numpy.text import Description, Text

WRITTEN = {"str": str, "repr": repr, "format": format, "f-string": lambda x: f"{x}", "f-string of repr": lambda x: f"{x!r}"}
READ = {
    "float": float,
    "int": lambda text: int(text) if text.isdecimal() else int(float(text)),
    "sum": lambda text: sum(map(float, [text])),
}
V = np.array([2.5, 3.5])
TRANSFORMS = {
    "grad": lambda f: lambda x: ad.grad(f)(x),
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (1.0,))[1],
    "hvp": lambda f: lambda x: ad.hvp(f)(x, 1.0),
    "vmap": lambda f: lambda x: ad.vmap(f)(x * V),
    "vmap of grad": lambda f: lambda x: ad.vmap(ad.grad(f))(x * V),
    "graph": lambda f: lambda x: ad.graph(f)(x)(x),
    "jit of grad": lambda f: lambda x: ad.jit(ad.grad(f))(x),
    "jit of vmap": lambda f: lambda x: ad.jit(ad.vmap(f))(x * V),
    "scan": lambda f: lambda x: ad.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
}


def result(transform, f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        return TRANSFORMS[transform](f)(x)


@pytest.mark.parametrize("is_caught", [False, True])
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_number_is_not_read_from_all_its_digits(transform, written, read, is_caught):
    if is_caught and "repr" in written and "vmap" in transform:
        pytest.skip(
            "an example is a NumPy scalar, from whose repr no number can be read: the function catches that error as well"
        )

    def f(x):
        if not is_caught:
            return x * READ[read](WRITTEN[written](x))
        try:
            return x * READ[read](WRITTEN[written](x))
        except (ValueError, TypeError):
            return -7.0 * x

    with pytest.raises(AdjointError, match="text"):
        result(transform, f, 2.0)


@pytest.mark.parametrize("transform", ["grad", "jvp", "hvp"])
def test_text_is_that_of_the_number(transform):
    seen = []

    def f(x):
        seen.append((str(x), f"{x}", f"{x:.3f}", f"{x} and {x:g}", "%.1f" % x, str(x) == "2.5", {str(x): 1}.get("2.5")))  # noqa: UP031
        return x * float(f"{x:.2f}")  # rounded: constant almost everywhere

    expected = ("2.5", "2.5", "2.500", "2.5 and 2.5", "2.5", True, 1)
    result(transform, f, 2.5)
    assert set(seen) == {expected}


@pytest.mark.parametrize("transform", ["vmap", "graph", "scan", "vmap of grad"])
@pytest.mark.parametrize(
    "use",
    [
        lambda x: 1.0 if str(x) == "2.5" else 2.0,
        lambda x: 1.0 if f"{x:.1f}" != "2.5" else 2.0,
        lambda x: {"2.5": 1.0}.get(str(x), 2.0),
        lambda x: 1.0 if "2" in repr(x) else 2.0,
        lambda x: float(f"{x:.1f}"),
        lambda x: float("%.1f" % x),  # noqa: UP031
    ],
)
def test_a_description_decides_nothing(transform, use):
    """In a batch or a graph there is no single number."""
    with pytest.raises(AdjointError):
        result(transform, lambda x: x * use(x), 2.5)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_text_can_be_shown(transform, capsys):
    def f(x):
        print(x, f"{x} and {x!r}", str(x).ljust(3), "%s" % x)  # noqa: UP031
        return x * x

    result(transform, f, 2.5)
    assert capsys.readouterr().out


def test_text_that_leaves_is_plain():
    kept = []
    ad.grad(lambda x: (kept.append(str(x)), x * x)[1])(2.5)
    ad.vmap(lambda x: (kept.append(str(x)), x * x)[1])(V)
    assert [type(text) for text in kept] == [Text, Description]
    assert [type(pickle.loads(pickle.dumps(text))) for text in kept] == [str, str]
