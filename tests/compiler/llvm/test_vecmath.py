"""The elementary functions of the compiler: exact to 2 units in the last place, IEEE at the edges, and vectorised."""

import itertools
import math
import pathlib
import re
import sys

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np
import pytest

import adjoint.ops.elementwise
import adjoint.ops.gamma
import adjoint.ops.special  # noqa: F401 - enters its ops in the table
from adjoint.compiler.llvm import vecmath
from adjoint.core.op import OPS

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent.parent / "tools"))
import accuracy

DTYPES = [np.float64, np.float32]
BOUND = 2.0
_loops: dict[tuple[str, str], accuracy.Loop] = {}


def loop(name, dtype):
    key = name, np.dtype(dtype).name
    if key not in _loops:
        _loops[key] = accuracy.compiled(name, dtype)
    return _loops[key]


def value(name, *numbers, dtype=np.float64):
    return loop(name, dtype).run(*(np.array([number], dtype) for number in numbers))[0]


def same(got, expected):
    """Equal with the sign of zeros, nan equal to nan."""
    return (got == expected and math.copysign(1, got) == math.copysign(1, expected)) or (got != got and expected != expected)


def test_every_function_is_measured_and_is_an_op():
    assert set(accuracy.CASES) == set(vecmath.NAMES)
    assert set(OPS) >= vecmath.NAMES


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_errors_stay_below_two_units_in_the_last_place(name, dtype):
    found = accuracy.greatest_error(name, dtype, 1200, loop=loop(name, dtype))
    assert found.count > 600
    assert found.worst <= BOUND, f"{name}{found.at} is {found.worst:.2f} units off"


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_zeros_infinities_and_nan_are_those_of_numpy(name, dtype):
    case = accuracy.CASES[name]
    numbers = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, -2.5, 1e30, -1e30]
    for point in itertools.product(numbers, repeat=case.arity):
        with np.errstate(all="ignore"):
            expected = case.numpy(*(np.full(2, number, dtype) for number in point))[0]
        got = value(name, *point, dtype=dtype)
        exceptional = expected == 0 or not np.isfinite(expected)
        assert same(got, expected) if exceptional else np.isclose(got, expected, rtol=4 * np.finfo(dtype).eps), (
            point,
            got,
            expected,
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_loops_are_vectorised(name, dtype):
    kind = "double" if dtype == np.float64 else "float"
    widths = [width for width in (2, 4, 8, 16) if f"<{width} x {kind}>" in loop(name, dtype).optimised]
    assert widths, "the loop stayed scalar"


@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_no_library_is_called(name):
    declared = [
        function.name
        for function in llvm.parse_assembly(loop(name, np.float64).optimised).functions
        if function.is_declaration and not function.name.startswith("llvm.") and ".vector." not in function.name
    ]
    assert not declared


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("name", ["exp", "log", "tan", "tanh", "power", "erfc", "logaddexp", "arctan2"])
def test_targets_without_fused_multiply_add(name, dtype):
    soft = accuracy.compiled(name, dtype, soft=True)
    assert "@llvm.fma." not in soft.optimised
    found = accuracy.greatest_error(name, dtype, 400, loop=soft)
    assert found.worst <= BOUND, f"{name}{found.at} is {found.worst:.2f} units off"


# -- one number at a time --

ALONE = ["cos", "exp", "log", "sin"]


def test_the_functions_of_one_number():
    assert [name for name in sorted(vecmath.NAMES) if vecmath.alone_name(name, "double") != name] == ALONE
    assert all(vecmath.alone_name(name, "float") == name for name in vecmath.NAMES)


@pytest.mark.parametrize("soft", [False, True], ids=["fma", "without fma"])
@pytest.mark.parametrize("name", ALONE)
def test_errors_of_functions_of_one_number(name, soft):
    form = vecmath.alone_name(name, "double")
    found = accuracy.greatest_error(name, np.float64, 1200, loop=accuracy.compiled(form, np.float64, soft=soft))
    assert found.count > 600
    assert found.worst <= (1.0 if name in ("exp", "log") else BOUND), f"{name}{found.at} is {found.worst:.2f} units off"


@pytest.mark.parametrize("name", ["exp", "log"])
def test_edges_of_functions_of_one_number(name):
    """Both sides of each place where another formula begins: there, and at special values, it is the vectorized function."""
    edges = {"exp": [708.0, -708.0, -746.0, 709.782712893384, -745.1332191019411], "log": [0.6875, 1.0, 1.375, 2.0**-1022, 0.0]}
    steps = [edge for x in edges[name] for edge in (x, np.nextafter(x, -np.inf), np.nextafter(x, np.inf))]
    points = np.array([*steps, 0.0, -0.0, 5e-324, 1e-310, -1.0, -1e6, 1e6, math.inf, -math.inf, math.nan])
    got, expected = loop(f"{name}.alone", np.float64).run(points), loop(name, np.float64).run(points)
    exceptional = (expected == 0) | ~np.isfinite(expected)
    assert all(same(a, b) for a, b in zip(got[exceptional], expected[exceptional], strict=True))
    np.testing.assert_array_max_ulp(got[~exceptional], expected[~exceptional], 1)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_alone_are_equal_to_vectors_of_them(name):
    edge = math.pi / 4
    steps = [0.0, 5e-324, np.nextafter(edge, 0), edge, np.nextafter(edge, 1), math.pi, 1e22, math.inf, math.nan]
    points = np.concatenate([np.random.default_rng(0).normal(0, 3, 2000), steps, np.negative(steps)])
    got, expected = loop(f"{name}.alone", np.float64).run(points), loop(name, np.float64).run(points)
    assert all(same(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
def test_angles_of_every_size(name, dtype):
    # Among others the double that comes closest to a multiple of π/2 (Muller, Elementary Functions, 2006, chapter 11).
    hardest = 6381956970095103.0 * 2.0**797
    angles = [
        1e22,
        1e300,
        float(np.finfo(dtype).max),
        2.0**45,
        2.0**45 + 8,
        2.0**16 + 1,
        hardest,
        5.319372648326541e255,
        1e5,
        16367173 * 2.0**72,
    ]
    angles = [dtype(angle) for angle in angles if abs(angle) <= float(np.finfo(dtype).max)]
    for angle in [*angles, *(-angle for angle in angles)]:
        with mp.workprec(2400):
            exact = getattr(mp, name)(mp.mpf(float(angle)))
        assert accuracy.ulps(float(value(name, angle, dtype=dtype)), exact, dtype) < BOUND, angle


def test_a_huge_angle_among_small_ones_changes_none_of_them():
    angles = np.linspace(-20, 20, 1003)
    alone = loop("sin", np.float64).run(angles)
    for place in (0, 1, 2, 3, 501, 1002):
        mixed = angles.copy()
        mixed[place] = 1e22
        got = loop("sin", np.float64).run(mixed)
        assert got[place] == -0.8522008497671888
        assert np.array_equal(np.delete(got, place), np.delete(alone, place))


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
def test_results_do_not_depend_on_the_place_in_the_loop(dtype):
    """The vector body and the scalar rest are one function."""
    points = np.random.default_rng(0).uniform(0.1, 0.9, 37).astype(dtype)
    for name in sorted(vecmath.NAMES - {"arccosh"}):
        arguments = [points] * accuracy.CASES[name].arity
        whole = loop(name, dtype).run(*arguments)
        single = [value(name, *[point] * len(arguments), dtype=dtype) for point in points]
        assert np.array_equal(whole, single), name


# Of twelve million pairs on the curve of the zeros: the results are about 2⁻⁷⁶ of the larger argument.
CLOSEST = {
    "logaddexp": [
        (-3.628089879970761e-08, -17.1319744561747),
        (-0.41842964840118185, -1.0731768054501987),
        (-0.5528129581354257, -0.8564408929571429),
    ],
    "logaddexp2": [
        (-0.6822964161611864, -1.4080240212389097),
        (-0.40670910332462745, -2.0252776021363754),
        (-0.8486444754874567, -1.1691159488148593),
    ],
}
HALVES = {"logaddexp": -math.log(2), "logaddexp2": -1.0}  # where both arguments are equal, and the result is 0 or the next to it


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_where_it_crosses_zero(name, dtype):
    half = HALVES[name]
    first = np.concatenate([np.linspace(40 * half, 0.02 * half, 150), np.linspace(0.98 * half, 1.02 * half, 51)]).astype(dtype)
    with mp.workprec(200):
        scale = mp.log(2) if name == "logaddexp2" else mp.mpf(1)
        exact = [mp.log(-mp.expm1(scale * mp.mpf(float(a)))) / scale for a in first]
    second = np.array([float(b) for b in exact], dtype)
    beside = second + np.tile([-2, -1, 1], 67).astype(dtype) * np.spacing(second)
    for b in (second, beside):
        for arguments in ((first, b), (b, first)):
            got = loop(name, dtype).run(*arguments).tolist()
            errors = [accuracy.ulps(*pair, dtype) for pair in zip(got, accuracy.references(name, arguments), strict=True)]
            assert max(errors) <= BOUND, [float(x[int(np.argmax(errors))]) for x in arguments]


@pytest.mark.parametrize("soft", [False, True], ids=["fused", "soft"])
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_at_the_closest_that_are_known_to_its_zeros(name, soft):
    arguments = tuple(np.array(CLOSEST[name]).T)
    compiled = accuracy.compiled(name, np.float64, soft=True) if soft else loop(name, np.float64)
    for value, number in zip(compiled.run(*arguments).tolist(), accuracy.references(name, arguments), strict=True):
        assert accuracy.ulps(value, number, np.float64) <= BOUND


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_of_equal_numbers(name):
    numbers = np.array([HALVES[name], np.nextafter(HALVES[name], 0), np.nextafter(HALVES[name], -2), 0.0, -5e-324, -1e300, 3.0])
    got = loop(name, np.float64).run(numbers, numbers)
    with mp.workprec(200):
        exact = [mp.mpf(x) + (1 if name == "logaddexp2" else mp.log(2)) for x in numbers.tolist()]
    assert max(accuracy.ulps(*pair, np.float64) for pair in zip(got.tolist(), exact, strict=True)) <= 0.5
    assert name == "logaddexp" or got[0] == 0


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_a_cancelling_sum_among_others_changes_none_of_them(name):
    first, second = np.linspace(-3, 1, 101), np.linspace(2, -1, 101)
    alone = loop(name, np.float64).run(first, second)
    for place in (0, 3, 64, 100):
        mixed = first.copy(), second.copy()
        for array, number in zip(mixed, CLOSEST[name][0], strict=True):
            array[place] = number
        assert np.array_equal(np.delete(loop(name, np.float64).run(*mixed), place), np.delete(alone, place))


def test_exact_values():
    assert [value("log2", 2.0**k) for k in (-1074, -3, 0, 10, 1023)] == [-1074, -3, 0, 10, 1023]
    assert [value("log10", 10.0**k) for k in (0, 1, 2, 3, 15, 22)] == [0, 1, 2, 3, 15, 22]
    assert [value("exp2", k) for k in (-1074, -1, 0, 10, 1023)] == [2.0**-1074, 0.5, 1, 1024, 2.0**1023]
    assert [value("cbrt", k**3) for k in (1, 2, 3, -7, 1000)] == [1, 2, 3, -7, 1000]
    assert [value("hypot", *sides) for sides in ((3, 4), (5e-324, 0), (1e308, 1e308), (3e-320, 4e-320))] == [
        5.0,
        5e-324,
        1.4142135623730951e308,
        5e-320,
    ]
    assert [value("power", *pair) for pair in ((3, 4), (-2, 3), (2, 0.5), (10, -2), (2, -1074))] == [81, -8, 2**0.5, 0.01, 5e-324]


def test_functions_on_one_argument_share_their_work():
    """The reduction and the polynomials of sin are those of cos."""
    alone, both = (
        len(re.findall(r"@llvm\.fm\w+\.v", accuracy.compiled("sin", np.float64, also=also).optimised)) for also in ((), ("cos",))
    )
    assert both < 1.2 * alone


def test_each_function_is_defined_once_in_a_program():
    text = "\n".join(vecmath.definitions([("sin", "double", 1), ("tan", "double", 1), ("sin", "double", 1)]))
    llvm.parse_assembly(text).verify()
    assert text.count("define internal double @adjoint.sin.f64(") == text.count("@adjoint.huge(double %a)") == 1


def test_functions_of_other_types_are_refused():
    with pytest.raises(TypeError, match="hypot is a function of doubles or floats, not of i32"):
        vecmath.definitions([("hypot", "i32", 2)])


def test_the_page_is_about_every_function():
    page = (pathlib.Path(__file__).parent.parent.parent.parent / "docs" / "accuracy.md").read_text()
    worst = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1] in ("float64", "float32"):
            worst[cells[0], cells[1]] = float(cells[2])
    assert set(worst) == {(name, np.dtype(dtype).name) for name in vecmath.NAMES for dtype in DTYPES}
    assert max(worst.values()) <= BOUND
