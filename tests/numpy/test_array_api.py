"""adjoint.numpy meets the Array API standard 2024.12, on plain arrays and on traced values."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys

import array_api_extra as xpx
import array_api_strict as strict
import numpy as np
import pytest
from harness import check

import adjoint as ad
import adjoint.numpy as xp
from adjoint.core.tree import flatten

ARRAY, DTYPE = type(strict.asarray(0)), type(strict.float64)
rng = np.random.default_rng(0)
FLOATS = {
    "x": rng.uniform(0.5, 2, (3, 4)),
    "v": np.array([0.5, 1.0, 1.5, 2.0]),
    "A": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]),
    "z": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
}
OTHERS = {
    "i": np.array([0, 1, 2, 3]),
    "k": np.array([[0, 1, 1, 0]] * 3),
    "b": np.array([[True, False, True, True]] * 3),
}

# Every function of the standard, called in the standard's ways.
CALLS = {
    # creation
    "arange": ["arange(3)", "arange(1, 7, 2)", "arange(0, stop=3, step=1, dtype=xp.float32, device='cpu')"],
    "asarray": [
        "asarray(x)",
        "asarray([1, 2])",
        "asarray(x, dtype=xp.float32, device='cpu', copy=True)",
        "asarray(1.5)",
        "asarray(x, copy=False)",
    ],
    "empty": ["empty((2, 3), dtype=xp.float32, device='cpu')", "empty(2)"],
    "empty_like": ["empty_like(x, dtype=xp.float32, device='cpu')"],
    "eye": ["eye(3)", "eye(2, 3, k=1, dtype=xp.float32, device='cpu')", "eye(2, None, k=-1)"],
    "full": ["full((2, 3), 1.5, dtype=xp.float32, device='cpu')", "full(2, fill_value=True)"],
    "full_like": ["full_like(x, 1.5, dtype=xp.float32, device='cpu')", "full_like(x, fill_value=2)"],
    "linspace": ["linspace(0.0, 1.0, 5, dtype=xp.float32, device='cpu', endpoint=False)", "linspace(0, 1, num=5)"],
    "meshgrid": ["meshgrid(v, v)", "meshgrid(v, v, indexing='ij')"],
    "ones": ["ones((2, 3), dtype=xp.float32, device='cpu')"],
    "ones_like": ["ones_like(x, dtype=xp.float32, device='cpu')"],
    "tril": ["tril(x)", "tril(x, k=1)"],
    "triu": ["triu(x)", "triu(x, k=-1)"],
    "zeros": ["zeros((2, 3), dtype=xp.float32, device='cpu')", "zeros(2)"],
    "zeros_like": ["zeros_like(x, dtype=xp.float32, device='cpu')"],
    # dtypes
    "astype": [
        "astype(x, xp.float32)",
        "astype(x, xp.float64, copy=False)",
        "astype(x, xp.complex128, copy=True, device='cpu')",
        "astype(x, xp.int64)",
    ],
    "can_cast": ["can_cast(xp.float32, xp.float64)", "can_cast(x, xp.float64)"],
    "finfo": ["finfo(xp.float32).eps", "finfo(x).bits", "finfo(z).dtype"],
    "iinfo": ["iinfo(xp.int32).max", "iinfo(i).bits"],
    "isdtype": ["isdtype(x.dtype, 'real floating')", "isdtype(x.dtype, (xp.float32, 'complex floating'))"],
    "result_type": ["result_type(x, xp.float32)", "result_type(x, 1j)", "result_type(i, 1.0)"],
    # elementwise, unary
    **{
        n: [f"{n}(x / 5)"]
        for n in (
            *(
                "abs",
                "acos",
                "asin",
                "atan",
                "atanh",
                "ceil",
                "cos",
                "cosh",
                "exp",
                "expm1",
                "floor",
                "isfinite",
            ),
            *(
                "isinf",
                "isnan",
                "log",
                "log1p",
                "log2",
                "log10",
                "negative",
                "positive",
                "reciprocal",
                "round",
            ),
            *(
                "sign",
                "signbit",
                "sin",
                "sinh",
                "square",
                "sqrt",
                "tan",
                "tanh",
                "trunc",
                "asinh",
                "conj",
                "real",
            ),
            *("imag",),
        )
    },
    "acosh": ["acosh(1 + x)"],
    "imag": ["imag(z)"],
    "real": ["real(z)", "real(x)"],
    "conj": ["conj(z)", "conj(x)"],
    **{
        n: [f"{n}(x, x + 1)", f"{n}(x, 2.0)", f"{n}(2.0, x)"]
        for n in (
            *(
                "add",
                "atan2",
                "copysign",
                "divide",
                "equal",
                "floor_divide",
                "greater",
                "greater_equal",
                "hypot",
            ),
            *(
                "less",
                "less_equal",
                "logaddexp",
                "maximum",
                "minimum",
                "multiply",
                "nextafter",
                "not_equal",
                "pow",
            ),
            *(
                "remainder",
                "subtract",
            ),
        )
    },
    **{n: [f"{n}(b, b)"] for n in ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"]},
    "logical_not": ["logical_not(b)"],
    "bitwise_invert": ["bitwise_invert(i)"],
    "bitwise_left_shift": ["bitwise_left_shift(i, 1)"],
    "bitwise_right_shift": ["bitwise_right_shift(i, 1)"],
    "clip": ["clip(x)", "clip(x, 0.5, 1.0)", "clip(x, min=0.5)", "clip(x, max=x / 2)", "clip(x, min=0.5, max=None)"],
    # indexing
    "take": ["take(x, i, axis=1)", "take(v, i)"],
    "take_along_axis": ["take_along_axis(x, k)", "take_along_axis(x, k, axis=0)"],
    # linear algebra
    "matmul": ["matmul(A, x)"],
    "matrix_transpose": ["matrix_transpose(x)"],
    "tensordot": ["tensordot(A, x, axes=1)", "tensordot(A, x, axes=((0,), (0,)))", "tensordot(x, x)"],
    "vecdot": ["vecdot(x, x)", "vecdot(x, x, axis=0)", "vecdot(z, z)"],
    # manipulation
    "broadcast_arrays": ["broadcast_arrays(x, v)"],
    "broadcast_to": ["broadcast_to(v, (2, 4))", "broadcast_to(v, shape=(2, 4))"],
    "concat": ["concat([x, x])", "concat((x, x), axis=1)", "concat([x, x], axis=None)"],
    "expand_dims": ["expand_dims(x, axis=1)", "expand_dims(x)", "expand_dims(x, axis=-1)"],
    "flip": ["flip(x)", "flip(x, axis=0)", "flip(x, axis=(0, 1))"],
    "moveaxis": ["moveaxis(x, 0, 1)", "moveaxis(x, (0, 1), (1, 0))"],
    "permute_dims": ["permute_dims(x, (1, 0))", "permute_dims(x, axes=(1, 0))"],
    "repeat": ["repeat(x, 2)", "repeat(x, 2, axis=1)", "repeat(v, i)"],
    "reshape": [
        "reshape(x, (4, 3))",
        "reshape(x, shape=(2, -1))",
        "reshape(x, (12,), copy=True)",
        "reshape(x, (12,), copy=None)",
    ],
    "roll": ["roll(x, 1)", "roll(x, shift=(1, 2), axis=(0, 1))"],
    "squeeze": ["squeeze(x[None], 0)", "squeeze(x[None], axis=(0,))"],
    "stack": ["stack([x, x])", "stack((x, x), axis=1)"],
    "tile": ["tile(x, (2, 1))", "tile(x, (2, 1, 1))"],
    "unstack": ["unstack(x)", "unstack(x, axis=1)"],
    # searching
    "argmax": ["argmax(x)", "argmax(x, axis=1, keepdims=True)"],
    "argmin": ["argmin(x)", "argmin(x, axis=1, keepdims=True)"],
    "count_nonzero": ["count_nonzero(x)", "count_nonzero(x, axis=(0, 1), keepdims=True)"],
    "nonzero": ["nonzero(x)"],
    "searchsorted": ["searchsorted(v, x)", "searchsorted(v, v, side='right', sorter=i)"],
    "where": ["where(b, x, 0.0)", "where(x > 1, x, -x)"],
    # sets
    "unique_all": ["unique_all(x)"],
    "unique_counts": ["unique_counts(x)"],
    "unique_inverse": ["unique_inverse(x)"],
    "unique_values": ["unique_values(x)"],
    # sorting
    "argsort": ["argsort(x)", "argsort(x, axis=0, descending=True, stable=True)", "argsort(x, descending=True, stable=False)"],
    "sort": ["sort(x)", "sort(x, axis=0, descending=True, stable=True)", "sort(x, stable=False)"],
    # statistics
    "cumulative_prod": [
        "cumulative_prod(v)",
        "cumulative_prod(x, axis=1, include_initial=True)",
        "cumulative_prod(x, axis=0, dtype=xp.float32)",
    ],
    "cumulative_sum": [
        "cumulative_sum(v)",
        "cumulative_sum(x, axis=1, include_initial=True)",
        "cumulative_sum(x, axis=0, dtype=xp.float32)",
    ],
    "max": ["max(x)", "max(x, axis=(0, 1), keepdims=True)"],
    "min": ["min(x)", "min(x, axis=0, keepdims=True)"],
    "mean": ["mean(x)", "mean(x, axis=0, keepdims=True)"],
    "prod": ["prod(x)", "prod(x, axis=0, dtype=xp.float32, keepdims=True)"],
    "sum": ["sum(x)", "sum(x, axis=(0, 1), dtype=xp.float32, keepdims=True)"],
    "std": ["std(x)", "std(x, axis=0, correction=1, keepdims=True)", "std(x, correction=0.5)"],
    "var": ["var(x)", "var(x, axis=0, correction=1.0, keepdims=True)"],
    # utilities
    "all": ["all(x)", "all(x, axis=(0,), keepdims=True)"],
    "any": ["any(x)", "any(x, axis=(0, 1), keepdims=True)"],
    "diff": ["diff(x)", "diff(x, axis=0, n=2)", "diff(x, prepend=x[:, :1], append=x[:, :1])"],
    # linalg
    "linalg.cholesky": ["linalg.cholesky((A + A.mT) / 2)", "linalg.cholesky((A + A.mT) / 2, upper=True)"],
    "linalg.cross": ["linalg.cross(A, A + 1)", "linalg.cross(A, A[0], axis=-1)"],
    "linalg.det": ["linalg.det(A)"],
    "linalg.diagonal": ["linalg.diagonal(x)", "linalg.diagonal(x, offset=1)"],
    "linalg.eigh": ["linalg.eigh((A + A.mT) / 2)", "linalg.eigh((A + A.mT) / 2).eigenvalues"],
    "linalg.eigvalsh": ["linalg.eigvalsh((A + A.mT) / 2)"],
    "linalg.inv": ["linalg.inv(A)"],
    "linalg.matmul": ["linalg.matmul(A, x)"],
    "linalg.matrix_norm": [
        "linalg.matrix_norm(x)",
        "linalg.matrix_norm(x, keepdims=True, ord=1)",
        "linalg.matrix_norm(x, ord='nuc')",
    ],
    "linalg.matrix_power": ["linalg.matrix_power(A, 3)", "linalg.matrix_power(A, -1)"],
    "linalg.matrix_rank": ["linalg.matrix_rank(x)", "linalg.matrix_rank(x, rtol=1e-3)"],
    "linalg.matrix_transpose": ["linalg.matrix_transpose(x)"],
    "linalg.outer": ["linalg.outer(v, v)"],
    "linalg.pinv": ["linalg.pinv(x)", "linalg.pinv(x, rtol=1e-9)"],
    "linalg.qr": ["linalg.qr(A)", "linalg.qr(A, mode='complete').R"],
    "linalg.slogdet": ["linalg.slogdet(A)", "linalg.slogdet(A).logabsdet"],
    "linalg.solve": ["linalg.solve(A, x)", "linalg.solve(A, A[0])"],
    "linalg.svd": ["linalg.svd(x, full_matrices=False)", "linalg.svd(x, full_matrices=False).S"],
    "linalg.svdvals": ["linalg.svdvals(x)"],
    "linalg.tensordot": ["linalg.tensordot(A, x, axes=1)"],
    "linalg.trace": ["linalg.trace(A)", "linalg.trace(A, offset=1, dtype=xp.float32)"],
    "linalg.vecdot": ["linalg.vecdot(x, x)", "linalg.vecdot(x, x, axis=0)"],
    "linalg.vector_norm": [
        "linalg.vector_norm(x)",
        "linalg.vector_norm(x, axis=(0,), keepdims=True, ord=1)",
        "linalg.vector_norm(x, axis=1, ord=xp.inf)",
        "linalg.vector_norm(x, ord=3.5)",
    ],
    # fft
    **{f"fft.{n}": [f"fft.{n}(z)", f"fft.{n}(z, n=5, axis=0, norm='ortho')"] for n in ("fft", "ifft", "irfft", "hfft")},
    **{f"fft.{n}": [f"fft.{n}(x)", f"fft.{n}(x, n=5, axis=0, norm='forward')"] for n in ("rfft", "ihfft")},
    **{f"fft.{n}": [f"fft.{n}(z)", f"fft.{n}(z, s=(5, 3), axes=(0, 1), norm='backward')"] for n in ("fftn", "ifftn", "irfftn")},
    "fft.rfftn": ["fft.rfftn(x)", "fft.rfftn(x, s=(5, 3), axes=(0, 1), norm='ortho')"],
    "fft.fftfreq": ["fft.fftfreq(5)", "fft.fftfreq(5, d=0.5, dtype=xp.float32, device='cpu')"],
    "fft.rfftfreq": ["fft.rfftfreq(5)", "fft.rfftfreq(5, d=0.5, dtype=xp.float32, device='cpu')"],
    "fft.fftshift": ["fft.fftshift(x)", "fft.fftshift(x, axes=(0,))"],
    "fft.ifftshift": ["fft.ifftshift(x)", "fft.ifftshift(x, axes=0)"],
}

EXPRESSIONS = [expression for group in CALLS.values() for expression in group]


def evaluate(expression, values):
    return eval(f"xp.{expression}", {"xp": xp, **OTHERS, **values})


def used(expression):
    return {name: value for name, value in FLOATS.items() if re.search(rf"\b{name}\b", expression)}


def arrays(result):
    return [y for y in flatten(result)[0] if isinstance(getattr(y, "dtype", None), np.dtype) and not isinstance(y, np.dtype)]


#: What array_api_strict has beside the standard, and what came with 2025.12.
OTHER_NAMES = {
    *(
        "ArrayAPIStrictFlags",
        "Device",
        "get_array_api_strict_flags",
        "reset_array_api_strict_flags",
        "set_array_api_strict_flags",
    ),
    *("__array_namespace_info__", "from_dlpack", "broadcast_shapes", "isin"),
}


def member(namespace, name):
    space, _, function = name.rpartition(".")
    return getattr(getattr(namespace, space) if space else namespace, function)


def test_the_list_is_the_standards():
    names = {name for name in strict.__all__ if callable(getattr(strict, name)) and not isinstance(getattr(strict, name), DTYPE)}
    names |= {f"linalg.{name}" for name in strict.linalg.__all__} | {f"fft.{name}" for name in strict.fft.__all__}
    assert names - OTHER_NAMES == set(CALLS)
    for name in names - {n for n in OTHER_NAMES if "trict" in n or n == "Device"}:
        assert callable(member(xp, name)), name
    for name in set(strict.__all__) - names:
        assert hasattr(xp, name), name


@pytest.mark.parametrize("name", CALLS)
def test_signature(name):
    """Every argument that the standard lets be given by name is taken by name."""
    parameters = list(inspect.signature(member(strict, name)).parameters.values())
    function, calls = member(xp, name), []

    def spy(*args, **kwargs):
        calls.append((args, kwargs))
        return function(*args, **kwargs)

    eval(f"spy{CALLS[name][0].removeprefix(name)}", {"xp": xp, "spy": spy, **OTHERS, **FLOATS})
    ((args, kwargs),) = calls
    for p in parameters[len(args) :]:
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is not p.empty and p.name not in kwargs:
            default = "cpu" if p.name == "device" else p.default
            function(*args, **kwargs, **{p.name: default})
    named = [p.name for p in parameters[: len(args)] if p.kind is p.POSITIONAL_OR_KEYWORD]
    if named:
        first = len(args) - len(named)
        function(*args[:first], **dict(zip(named, args[first:], strict=True)), **kwargs)


#: Ways to call that NumPy has beside the standard's.
WIDER = ("result_type(i, 1.0)", "vecdot(x, x, axis=0)", "linalg.vecdot(x, x, axis=0)", "expand_dims(x)", "empty")


def portable(expression):
    """The expression without what strict arrays refuse: other names of devices, indices for some axes only."""
    return re.sub(r"(, )?device='cpu'", "", expression).replace("A[0]", "A[0, :]").replace("x[None]", "x[None, :, :]")


@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS if not e.startswith(WIDER)])
def test_value_of_the_standard(expression):
    """The same numbers, shape and dtype as the reference implementation gives."""
    inputs = {name: strict.asarray(value) for name, value in (FLOATS | OTHERS).items()}
    expected = eval(f"xp.{portable(expression)}", {"xp": strict, **inputs})
    found = evaluate(expression, FLOATS)
    pairs = zip(parts(found), parts(expected), strict=True)
    for ours, theirs in pairs:
        if isinstance(theirs, ARRAY):
            theirs = np.asarray(theirs)
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12 if theirs.dtype.itemsize > 4 else 1e-6)
        elif not isinstance(theirs, DTYPE):
            assert ours == theirs
        else:
            assert ours == theirs._np_dtype


def parts(result):
    return [part for item in result for part in parts(item)] if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_call(expression):
    """The call is accepted, on plain arrays and on traced values, with the same result."""
    plain = evaluate(expression, FLOATS)
    inputs = used(expression)
    if not inputs:
        return
    seen = []

    def f(*args):
        result = evaluate(expression, dict(zip(inputs, args, strict=True)))
        seen.append(result)
        return [*[y for y in arrays(result) if y.dtype.kind in "fc"], args[0].sum()]

    for outputs in (
        ad.jvp(f, tuple(inputs.values()), tuple(map(np.ones_like, inputs.values())))[0],
        ad.vjp(f, *inputs.values())[0],
    ):
        assert type(seen[-1]) is type(plain) or isinstance(plain, (np.ndarray, np.generic))
        for y, wanted in zip(arrays(seen[-1]), arrays(plain), strict=True):
            assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
        floats = [y for y in arrays(plain) if y.dtype.kind in "fc"]
        for y, wanted in zip(outputs[:-1], floats, strict=True):
            if not expression.startswith("empty"):
                np.testing.assert_allclose(y, wanted, rtol=1e-6)


CONSTANT = ("ones_like", "zeros_like", "empty_like", "full_like", "finfo", "nextafter", "unique", "broadcast_arrays(")
SMOOTH = [
    e
    for e in EXPRESSIONS
    if used(e)
    and "float32" not in e
    and not e.startswith(CONSTANT)
    and any(y.dtype.kind in "fc" for y in arrays(evaluate(e, FLOATS)))
]


@pytest.mark.parametrize("expression", SMOOTH)
def test_derivative(expression):
    inputs = used(expression)
    check(lambda *args: evaluate(expression, dict(zip(inputs, args, strict=True))), *inputs.values(), order=1, vmap=False)


# -- the rest of the namespace ----------------------------------------------------------------------------------------


def test_constants_and_dtypes():
    assert xp.__array_api_version__ == "2024.12"
    assert (xp.e, xp.pi, xp.newaxis) == (np.e, np.pi, None)
    assert xp.inf > 1e308
    assert xp.isnan(xp.nan)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    ):
        assert xp.zeros(2, dtype=getattr(xp, name)).dtype == name


def test_namespace_info():
    info = xp.__array_namespace_info__()
    assert {"boolean indexing", "data-dependent shapes"} <= set(info.capabilities())
    assert info.default_device() == "cpu"
    assert list(info.devices()) == ["cpu"]
    assert info.default_dtypes()["real floating"] == xp.float64
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}


def test_sort_descending():
    a = np.array([[2.0, 1.0, 2.0, 3.0], [0.0, 0.0, -1.0, 5.0]])
    assert xp.sort(a, descending=True).tolist() == [[3, 2, 2, 1], [5, 0, 0, -1]]
    assert xp.argsort(a, descending=True).tolist() == [[3, 0, 2, 1], [3, 0, 1, 2]]
    assert xp.argsort(a, axis=0, descending=True).tolist() == [[0, 0, 0, 1], [1, 1, 1, 0]]
    assert xp.sort(a, axis=None, descending=True).tolist() == sorted(a.ravel().tolist(), reverse=True)
    assert xp.argsort(a, axis=None, descending=True)[:3].tolist() == [7, 3, 0]
    many = np.tile([1.0, 0.0], 40)
    assert xp.argsort(many).tolist() == [*range(1, 80, 2), *range(0, 80, 2)]  # stable unless asked otherwise
    weights = np.arange(4.0)
    assert ad.grad(lambda x: xp.sum(xp.sort(x, descending=True) * weights))(np.array([1.0, 4.0, 2.0, 3.0])).tolist() == [
        3,
        0,
        2,
        1,
    ]


def test_widened_functions():
    assert xp.expand_dims(np.ones(3)).shape == (1, 3)
    assert xp.finfo(np.ones(2, "f")).bits == 32
    assert xp.finfo(float).eps == np.finfo(float).eps
    assert xp.iinfo(np.int8).max == xp.iinfo(np.ones(2, np.int8)).max == 127
    assert xp.fft.fftfreq(4, d=0.5, dtype=xp.float32).dtype == np.float32
    np.testing.assert_array_equal(xp.fft.rfftfreq(5, 0.5), np.fft.rfftfreq(5, 0.5))
    with pytest.raises(ValueError, match="real"):
        xp.fft.fftfreq(4, dtype=xp.int64)


# -- traced values as arrays of the standard --------------------------------------------------------------------------


def test_attributes_of_traced_values():
    def f(x):
        assert x.__array_namespace__() is xp
        assert x.__array_namespace__(api_version="2024.12") is xp
        with pytest.raises(ValueError, match="1999"):
            x.__array_namespace__(api_version="1999.01")
        assert x.device == "cpu"
        assert x.to_device("cpu") is x
        with pytest.raises(ValueError, match="cpu"):
            x.to_device("gpu")
        assert (x.ndim, x.size, x.shape, x.dtype) == (2, 6, (2, 3), np.float64)
        assert x.T.shape == x.mT.shape == (3, 2)
        assert x.__dlpack_device__() == (1, 0)
        try:
            np.from_dlpack(x)
        except ad.AdjointError as error:
            refused.append(str(error))
        return xp.sum(x.mT @ x)

    x, refused = np.ones((2, 3)), []
    assert ad.grad(f)(x).shape == (2, 3)
    assert ["derivative" in message for message in refused] == [True]


def logsumexp(x, /, *, axis=-1):
    """As a library would write it: no array library is named."""
    xp = x.__array_namespace__()
    top = xp.max(x, axis=axis, keepdims=True)
    shifted = xp.exp(x - top)
    return xp.squeeze(top, axis=axis) + xp.log(xp.sum(shifted, axis=axis))


def mahalanobis(x, mean, covariance):
    xp = x.__array_namespace__()
    d = x - mean
    solved = xp.linalg.solve(covariance, xp.expand_dims(d, axis=-1))[..., 0]
    return xp.sqrt(xp.linalg.vecdot(d, solved))


def spectrum(x):
    xp = x.__array_namespace__()
    power = xp.abs(xp.fft.rfft(x)) ** 2
    window = xp.where(xp.arange(power.shape[0]) > 1, xp.asarray(1.0), xp.asarray(0.5))
    return xp.concat([power * window, xp.cumulative_sum(x)])


@pytest.mark.parametrize(
    "f, args",
    [
        (logsumexp, (FLOATS["x"],)),
        (mahalanobis, (FLOATS["A"], np.zeros(3), FLOATS["A"])),
        (spectrum, (FLOATS["v"],)),
    ],
)
def test_programs_in_the_standard(f, args):
    check(f, *args)


def test_asarray_of_new_memory_can_be_written_to():
    def f(x):
        a = xp.asarray([0.0, 0.0])
        a[0] = x
        return xp.sum(a * a)

    assert ad.grad(f)(3.0) == 6.0
    shared = np.zeros(2)

    def g(x):
        xp.asarray(shared)[0] = 5.0
        return x

    ad.grad(g)(3.0)
    assert shared[0] == 5.0


def test_a_single_bool_as_index():
    x = np.array([1.0, 2.0])
    assert ad.grad(lambda x: 2 * x[True].sum())(x).tolist() == [2, 2]
    assert ad.grad(lambda x: x[False].sum() + x[0])(x).tolist() == [1, 0]
    assert ad.vjp(lambda x: (x[np.True_], x[np.array(False)]), x)[0][1].shape == (0, 2)

    def f(x, truth):
        y = 2 * x
        y[truth] = 3 * x
        return y.sum()

    assert ad.grad(f)(x, True).tolist() == [3, 3]
    assert ad.grad(f)(x, np.False_).tolist() == [2, 2]


# -- other libraries --------------------------------------------------------------------------------------------------


def compat():
    """array_api_compat: the package, or the copy that SciPy carries."""
    for name in ("array_api_compat", "scipy._lib.array_api_compat"):
        try:
            if importlib.util.find_spec(name):
                return importlib.import_module(name)
        except ModuleNotFoundError:
            pass
    pytest.skip("array_api_compat is not installed")


def test_array_api_compat():
    module = compat()

    def f(x):
        namespace = module.array_namespace(x)
        assert namespace is xp
        assert module.is_array_api_obj(x)
        assert module.device(x) == "cpu"
        assert module.size(x) == 3
        return namespace.mean(module.to_device(x, "cpu") ** 2)

    np.testing.assert_allclose(ad.grad(f)(np.array([1.0, 2.0, 3.0])), [2 / 3, 4 / 3, 2.0])


EXTRA = {  # functions of array_api_extra, a library written to the standard
    "atleast_nd": lambda x: xpx.atleast_nd(x, ndim=3) ** 2,
    "cov": lambda x: xpx.cov(xp.reshape(x, (2, 3))),
    "create_diagonal": lambda x: xpx.create_diagonal(x) @ x,
    "isclose": lambda x: xp.where(xpx.isclose(x, x), x, 0.0),
    "isin": lambda x: xp.where(xpx.isin(x, x[:2]), x, 0.0),
    "kron": lambda x: xpx.kron(x, x),
    "nan_to_num": lambda x: xpx.nan_to_num(x) ** 2,
    "one_hot": lambda x: xpx.one_hot(xp.asarray([0, 2, 1]), 6) @ x,
    "pad": lambda x: xpx.pad(x, (1, 2), constant_values=3.0) ** 2,
    "partition": lambda x: xpx.partition(x, 2)[2],
    "argpartition": lambda x: x[xpx.argpartition(x, 2)[2]] ** 2,
    "setdiff1d": lambda x: xpx.setdiff1d(x, x[:2]) ** 2,
    "sinc": xpx.sinc,
    "at.set": lambda x: xpx.at(x * 2, 0).set(5.0) * x,
    "at.add": lambda x: xpx.at(x * 2)[1:3].add(x[3]) * x,
    "at.multiply": lambda x: xpx.at(x * 2)[[True, False, True, True, False, False]].multiply(x[0]) * x,
    "at.divide": lambda x: xpx.at(x * 2)[:3].divide(x[4]),
    "at.power": lambda x: xpx.at(x * 2)[:3].power(2),
    "at.max": lambda x: xpx.at(x * 2)[:3].max(1.5),
}


@pytest.mark.parametrize("name", EXTRA)
def test_array_api_extra(name):
    unbatched = ("setdiff1d", "argpartition", "isclose", "isin", "nan_to_num")  # their shapes, or masks, depend on the numbers
    check(EXTRA[name], np.array([0.5, 1.1, 2.0, 1.7, 0.3, 0.9]), order=1, vmap=name not in unbatched)


SCIPY = """
import numpy as np
import scipy.cluster.vq, scipy.differentiate, scipy.fft, scipy.integrate, scipy.linalg, scipy.optimize, scipy.signal
import scipy.special, scipy.stats
from scipy.spatial.transform import RigidTransform, Rotation
import adjoint as ad
import adjoint.numpy as xp
import adjoint.scipy.special

FUNCTIONS = {
    "logsumexp": lambda x: scipy.special.logsumexp(x),
    "softmax": lambda x: xp.sum(scipy.special.softmax(x) ** 2),
    "log_softmax": lambda x: xp.sum(scipy.special.log_softmax(x) ** 2),
    "gammaln": lambda x: xp.sum(scipy.special.gammaln(x)),
    "erf": lambda x: xp.sum(scipy.special.erf(x)),
    "xlogy": lambda x: xp.sum(scipy.special.xlogy(x, x)),
    "rel_entr": lambda x: xp.sum(scipy.special.rel_entr(x, x**2)),
    "adjoint's gammaln": lambda x: xp.sum(adjoint.scipy.special.gammaln(x)),
    "gmean": lambda x: scipy.stats.gmean(x),
    "skew": lambda x: scipy.stats.skew(x),
    "kurtosis": lambda x: scipy.stats.kurtosis(x),
    "zscore": lambda x: xp.sum(scipy.stats.zscore(x) ** 3),
    "entropy": lambda x: scipy.stats.entropy(x),
    "circmean": lambda x: scipy.stats.circmean(x),
    "trapezoid": lambda x: scipy.integrate.trapezoid(x**2, dx=0.1),
    "cumulative_simpson": lambda x: xp.sum(scipy.integrate.cumulative_simpson(x**2, dx=0.1)),
    "fftconvolve": lambda x: xp.sum(scipy.signal.fftconvolve(x, x) ** 2),
    "hilbert": lambda x: xp.sum(xp.abs(scipy.signal.hilbert(x)) ** 3),
    "fft": lambda x: xp.sum(xp.abs(scipy.fft.fft(x))),
    "whiten": lambda x: xp.sum(scipy.cluster.vq.whiten(xp.reshape(x, (3, 2))) ** 3),
    "Rotation": lambda x: xp.sum(Rotation.from_rotvec(x[:3]).as_matrix()[0]),
    "rosen": lambda x: scipy.optimize.rosen(x),
    "rosen_der": lambda x: xp.sum(scipy.optimize.rosen_der(x)),
    "Rotation's product": lambda x: xp.sum((Rotation.from_rotvec(x[:3]) * Rotation.from_rotvec(x[3:])).as_rotvec()),
    "Rotation to angles": lambda x: xp.sum(Rotation.from_rotvec(x[:3] / 3).as_euler("xyz")),
    "RigidTransform": lambda x: xp.sum(RigidTransform.from_components(x[:3], Rotation.from_rotvec(x[3:])).apply(x[:3])),
    "ttest_1samp": lambda x: scipy.stats.ttest_1samp(x, 0.5).pvalue,
    "ttest_ind": lambda x: scipy.stats.ttest_ind(x, x**2).statistic,
    "f_oneway": lambda x: scipy.stats.f_oneway(x, x**2).statistic,
    "bartlett": lambda x: scipy.stats.bartlett(x, x**2).statistic,
    "describe": lambda x: scipy.stats.describe(x).variance,
    "moment": lambda x: scipy.stats.moment(x, 3),
    "pmean": lambda x: scipy.stats.pmean(x, 2.5),
    "quantile": lambda x: scipy.stats.quantile(x, 0.3),
    "iqr": lambda x: scipy.stats.iqr(x),
    "trim_mean": lambda x: scipy.stats.trim_mean(x, 0.2),
    "circvar": lambda x: scipy.stats.circvar(x),
    "boxcox_llf": lambda x: scipy.stats.boxcox_llf(0.7, x),
    "differential_entropy": lambda x: scipy.stats.differential_entropy(x),
    "median_abs_deviation": lambda x: scipy.stats.median_abs_deviation(x),
    "romb": lambda x: scipy.integrate.romb(x[:5] ** 2),
    "fixed_quad": lambda x: scipy.integrate.fixed_quad(lambda t: xp.exp(t * x[0]), 0.0, 1.0)[0],
    "cubature": lambda x: scipy.integrate.cubature(lambda t: t * x[0], xp.asarray([0.0]), xp.asarray([1.0])).estimate[0],
    "oaconvolve": lambda x: xp.sum(scipy.signal.oaconvolve(x, x[:2]) ** 2),
    "resample": lambda x: xp.sum(scipy.signal.resample(x, 9) ** 2),
    "freqz": lambda x: xp.sum(xp.abs(scipy.signal.freqz(x, worN=4)[1])),
    "hfft": lambda x: xp.sum(scipy.fft.hfft(x) ** 2),
    "derivative": lambda x: scipy.differentiate.derivative(lambda t: xp.exp(t), x[0]).df,
    "block_diag": lambda x: xp.sum(scipy.linalg.block_diag(x[:2], x[2:])),
}
x = np.array([0.5, 1.0, 2.0, 1.7, 0.3, 0.9])
h = 1e-6
for name, f in FUNCTIONS.items():
    numeric = [(float(f(x + h * e)) - float(f(x - h * e))) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(ad.grad(f)(x), numeric, rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(ad.jacfwd(f)(x), numeric, rtol=1e-4, atol=1e-6, err_msg=name)
"""


def test_scipy_with_its_array_api_switched_on():
    """SciPy's own code, written to the standard, differentiates."""
    subprocess.run([sys.executable, "-c", SCIPY], check=True, env={**os.environ, "SCIPY_ARRAY_API": "1"})
