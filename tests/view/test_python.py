"""The Python source of a graph, run by itself, gives what the graph gives; what cannot be written is refused by name."""

import subprocess
import sys

import numpy as np
import op_samples
import pytest

import adjoint as ad
import adjoint.scipy.special as special
from adjoint import export
from adjoint.api.graph import parse
from adjoint.core.errors import UnsupportedError
from adjoint.core.op import OPS
from adjoint.export.program import parts
from adjoint.scipy.linalg import expm

X = np.linspace(0.1, 1.2, 6).reshape(2, 3)

#: Ops that are more than a function of NumPy: iterations, LAPACK with care, sub-graphs.
UNWRITTEN = {
    "add_along", "all_pole", "argpartition", "banded_solve", "beta_by_shapes", "cofactor",
    "cofactor_slope", "dct", "dst", "eig", "equal_shared", "expm", "expm_slope", "fractional_power", "gammainc_by_a", "hermitian",
    "lexsort", "logm", "lstsq", "lu", "matrix_rank", "order_statistics",
    "overlap", "pbdv", "pbdv_slope", "pbvv", "pbvv_slope", "pbwa", "pbwa_slope", "permutation", "real_argument", "root",
    "roots", "share_equal", "sqrtm", "stein", "student_by_df", "sylvester", "windows",
    "zeta",
}  # fmt: skip


def run(program, inputs):
    scope = {}
    exec(program.python(), scope)
    return scope[[name for name in scope if callable(scope[name])][-1]](*inputs)


def same(program, inputs, exact=True):
    found, expected = run(program, inputs), program.run(*inputs)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in op_samples.names() if name not in UNWRITTEN])
def test_every_op(name):
    for program, args in op_samples.programs(name):
        if name == "convolve" and any(np.ndim(x) > 1 for x in args):
            continue  # np.convolve has no stacks of rows
        same(program, args, exact=name not in ("norm", "cholesky_pullback", "triangular_solve"))


@pytest.mark.parametrize(
    "name", sorted(name for name in UNWRITTEN if name in OPS and (OPS[name].cases or name in op_samples.STRUCTURED))
)
def test_unwritable_ops_are_refused_by_name(name):
    program, _ = op_samples.programs(name)[0]
    with pytest.raises(UnsupportedError, match=rf"'{name}' cannot be written .*op_samples.py"):
        program.python()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x) * x),
        lambda x: np.log1p(np.exp(x)) ** -2.0 - 0.5 / x,
        lambda x: np.where(x > 0.5, -x, x @ x.T @ x),
        lambda x: x[:, ::-1] + x[np.array([1, 0])] + np.arange(3.0),
        lambda x: np.concatenate([x, x * -0.0, np.full((1, 3), np.nan)]),
        lambda x: (x.astype(np.float32), x.astype(complex) * (1 - 2j), x > 0.5, np.ones(100)[:3] * x),
        lambda x: special.gammaln(x) + special.erf(x),
        lambda x: np.sum(np.linalg.svd(x)[0] * np.array([[1.0, 2.0], [3.0, 4.0]])),
        lambda x: np.linalg.svd(np.diag(np.array([2.0, 2.0, 0.0])) + 0.0 * x[:1])[1] @ np.ones(3),
        lambda x: np.cumprod(x, axis=1) + np.round(x, 1),
        lambda x: np.float32(2.0) * x.astype(np.float32) + np.linalg.norm(x) + np.max(x, axis=0),
    ],
)
def test_programs_and_their_derivatives(f):
    same(ad.graph(f)(X), (X,))
    forward = ad.graph(lambda x, t: ad.jvp(lambda x: f(x)[0] if isinstance(f(x), tuple) else f(x), (x,), (t,)))(X, np.cos(X))
    same(forward, (X, np.cos(X)))
    same(forward.simplify("finite"), (X, np.cos(X)))


def test_special_values_and_exact_zeros():
    f = lambda x: np.sum(np.where(x < 1, x, np.sqrt(x)))
    gradient = ad.graph(ad.grad(f))(X)
    point = np.array([[0.0, -0.0, np.inf], [np.nan, 1.0, 2.0]])
    same(gradient, (point,))
    assert run(gradient, (point,))[0, 0] == 1.0


def test_it_runs_by_itself(tmp_path):
    program = ad.graph(ad.grad(lambda x: np.sum(np.tanh(x) * 3.0)))(X)
    path = tmp_path / "gradient.py"
    path.write_text(program.python() + "\n\nif __name__ == '__main__':\n    print(lambda_([[0.0] * 3] * 2).tolist())\n")
    result = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str([[3.0] * 3] * 2)
    assert "adjoint" not in program.python()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_bits_and_python_numbers(dtype):
    n = np.array([0, 1, 3]).astype(dtype)
    same(ad.graph(lambda n: (n & 1, 1 | n, n ^ n, ~n, n << 2, 5 >> n))(n), (n,))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(4, 9), (0, 3)])
def test_recurrences_of_every_dtype(shape, dtype, rng):
    a, b = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    same(ad.graph(lambda a, b: OPS["recurrence"](a, b, axis=0))(a, b), (a, b))


def test_names_of_functions_written_out():
    program = parse("""graph _combined(_negligible: float64[3]) {
  v1: bool[3,3] = negligible _negligible {sign=-1}
  return v1
}""")
    same(program, (np.array([1.0, 1.0, 2.0]),))


def test_names_that_python_would_not_take():
    program = parse("""graph np(lambda: float64[], special: float64[], a.b: float64[]) {
  v3: float64[] = add lambda, special
  v4: float64[] = mul v3, a.b
  return v4, v3, 2.0
}""")
    assert "def np_(lambda_, special_, a_b):" in program.python()
    assert run(program, (1.0, 2.0, 3.0)) == (9.0, 3.0, 2.0)


# -- the readable form ------------------------------------------------------------------------------------------


def model(x, w, b):
    h = np.tanh(x @ w + b)
    return np.mean(np.where(h > 0.5, h, np.sqrt(np.abs(h))) ** 2)


def loops(x):
    c, ys = ad.scan(lambda c, v: (np.sin(c) * v, c), x, np.linspace(0, 1, 5), reverse=True)
    u = ad.while_loop(lambda u: u < 5.0, lambda u: u * 1.5 + x, c)
    return u + np.sum(ys) + ad.cond(x > 1.0, lambda u: u + 2.0, lambda u: u * 3.0, x) + ad.checkpoint(np.sin)(x)


def nested_loops(x):
    def body(c, v):
        return ad.fori_loop(0, 3, lambda i, d: d * 0.5 + c, v) * x, (c, ad.cond(v > c, np.sin, np.cos, v))

    c, (a, b) = ad.scan(body, x, np.linspace(0, 2, 4))
    return c + np.sum(a) * np.sum(b)


def swap(x):
    """The carries change places: they must be assigned at once."""
    a, b = ad.fori_loop(0, 3, lambda i, ab: (ab[1], ab[0] + 1.0), (x, 2 * x))
    return a - 3.0 * b


POINTS = [
    (model, (X.T, X[:, :2], np.array([0.1, 0.2])), (1, 2)),
    (loops, (0.7,), 0),
    (nested_loops, (0.7,), 0),
    (swap, (0.7,), 0),
    (lambda x: np.sum(np.sin(x) * x) / np.prod(x), (X,), 0),
    (lambda x: np.sum(np.max(x, axis=1)) + np.min(x) * np.float64(2.0), (X,), 0),
    (lambda x: np.sum(x.astype(np.float32) * np.float64(2)), (X,), 0),
    (lambda x: np.sum(np.cumsum(x, axis=1)[:, ::-1] * x), (X,), 0),
]


@pytest.mark.parametrize("f, args, argnums", POINTS)
@pytest.mark.parametrize("kind", ["value", "gradient", "value_and_gradient", "jacobian", "hvp", "jvp", "vjp"])
def test_readable_programs(f, args, argnums, kind):
    found = [p for p in parts(f, args, derivatives=() if kind == "value" else kind, argnums=argnums) if p.kind == kind]
    graph = found[0].graph
    asked = {"derivatives": () if kind == "value" else kind, "argnums": argnums}
    text = export.python(f, *args, **asked)
    scope = {}
    exec(text, scope)
    rng = np.random.default_rng(0)
    inputs = [*map(np.asarray, args), *(rng.uniform(0.5, 1, t.shape) for t in graph.input_types[len(args) :])]
    results = scope[[name for name in scope if callable(scope[name])][-1]](*inputs)
    expected = graph.run(*[x[()] for x in inputs])
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, expected)], strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_variables_with_the_names_of_builtins():
    """Renamed only where the source calls the builtin."""

    def f(range, sum, zip, abs):
        len = np.exp(range)
        total = ad.fori_loop(0, 3, lambda i, c: c * np.sin(sum), len)
        return np.sum(total * zip) + np.sum(np.abs(abs))

    args = tuple(np.linspace(0.1 * k, 1, 4) for k in (1, 2, 3, 4))
    text = export.python(f, *args, derivatives="gradient")
    assert "def f(range_, sum, zip, abs):" in text
    scope = {}
    exec(text, scope)
    np.testing.assert_allclose(scope["f"](*args), f(*args), rtol=1e-12)
    np.testing.assert_allclose(scope["f_gradient"](*args), ad.grad(f)(*args), rtol=1e-12)


def test_it_reads_as_a_person_writes_it():
    text = export.python(model, np.ones((4, 3)), np.ones((3, 2)), np.ones(2), derivatives="gradient", argnums=(1, 2))
    assert "np.tanh(x @ w + b)  # test_python.py:" in text
    assert "return w_bar, b_bar" in text
    assert "b_bar = np.sum(" in text
    assert "product_" not in text  # every factor is finite
    assert "keepdims" not in text
    assert "adjoint" not in text
    comments = [line.partition("# ")[2] for line in text.split("def ")[1].splitlines() if "# " in line]
    assert comments == list(dict.fromkeys(comments))


def test_names_of_values_are_not_those_of_constants():
    """The carry c of two loops, beside arrays that are constants."""

    def f(x, xs):
        c, ys = ad.scan(lambda c, c1: (np.tanh(c * c1 + 0.1), c * 2), x, xs)
        return np.sum(ys) + np.sum(c)

    args = np.ones(3), np.linspace(0, 1, 18).reshape(6, 3)
    text = export.python(f, *args, derivatives="hvp")
    scope = {}
    exec(text, scope)
    np.testing.assert_allclose(scope["f_hvp"](*args, np.ones(3)), ad.hvp(f)(*args, np.ones(3)), rtol=1e-12)


def test_rows_and_constants_that_nothing_reads_are_left_out():
    def f(x, xs):
        return np.sum(ad.scan(lambda c, z: (np.tanh(c * z), c * 2), x, xs)[1])

    text = export.python(f, np.ones(3), np.ones((6, 3)), derivatives="gradient")
    assert "live" not in text
    assert "bool" not in text


def test_ops_that_numpy_lacks_are_written_in_others():
    def f(a):
        rows = np.sort(a, axis=0)[0] + np.convolve(a[0], a[1], "full")[:3]
        return np.sum(rows) + np.linalg.det(a) + np.trace(expm(a))

    a = np.linspace(0, 1, 9).reshape(3, 3) ** 2
    text = export.python(f, a, derivatives="gradient")
    assert "np.convolve(a[0], a[1], 'full')" in text
    scope = {}
    exec(text, scope)
    np.testing.assert_allclose(scope["f"](a), f(a), rtol=1e-12)
    np.testing.assert_allclose(scope["f_gradient"](a), ad.grad(f)(a), rtol=1e-10)


def test_loops_are_loops():
    text = export.python(loops, 0.7)
    assert "for i in range(4, -1, -1):\n        v = " in text
    assert "while u < 5.0:\n        u = u * 1.5 + x\n" in text
    assert "    else:\n" in text
    assert "c = np.sin(c) * v\n" in text


def test_zeros_win_where_a_factor_can_be_infinite():
    scope = {}
    exec(export.python(lambda x: np.sqrt(x) + np.sin(x), X, derivatives="jvp"), scope)
    assert "x_dot * np.cos(x)\n" in export.python(lambda x: np.sqrt(x) + np.sin(x), X, derivatives="jvp")  # this one need not
    tangent = scope["lambda_jvp"](np.zeros((2, 3)), np.zeros((2, 3)))[1]
    np.testing.assert_array_equal(tangent, np.zeros((2, 3)))


def test_it_is_written_to_a_file(tmp_path):
    text = export.python(model, *POINTS[0][1], path=tmp_path / "model.py", derivatives=("gradient", "jvp"))
    assert (tmp_path / "model.py").read_text(encoding="utf-8") == text
    assert text.count("import numpy as np") == 1
    assert [line for line in text.splitlines() if line.startswith("def model")] == [
        "def model(x, w, b):",
        "def model_gradient(x, w, b):",
        "def model_jvp(x, w, b, x_dot):",
    ]


def test_results_do_not_share_memory_with_constants():
    scope = {}
    exec(export.python(lambda x: (np.arange(3.0), x), 1.0), scope)
    scope["lambda_"](1.0)[0][:] = 7.0
    np.testing.assert_array_equal(scope["lambda_"](1.0)[0], np.arange(3.0))

    def steps(x):
        slopes = ad.cond(x > 0, lambda x: np.arange(3.0), lambda x: -np.arange(3.0), x)
        return slopes, ad.fori_loop(0, 0, lambda i, c: c * x, np.arange(3.0))

    scope = {}
    exec(export.python(steps, 1.0), scope)
    for result in scope["steps"](1.0):
        result[:] = 7.0
    for result in scope["steps"](1.0):
        np.testing.assert_array_equal(result, np.arange(3.0))


def test_constants_that_begin_with_infinities():
    """No warning: whether such an array counts up is asked of its numbers."""
    table = np.r_[np.inf, np.inf, np.arange(100.0)]
    scope = {}
    exec(export.python(lambda i: table[i] * 2, np.array([0, 5])), scope)
    np.testing.assert_array_equal(scope["lambda_"](np.array([1, 7])), table[[1, 7]] * 2)


def descended(w, x, y):
    for _ in range(4):
        h = np.tanh(x @ w)
        error = h - y
        if np.sum(error * error) > 0.5:
            step = 0.1
        else:
            step = 0.01
        w = w - step * (x.T @ (error * (1 - h * h)))
    return np.sum(w * w)


def test_loops_branches_and_variables_of_the_source():
    args = np.ones(3) / 2, np.arange(15.0).reshape(5, 3) / 15, np.ones(5) / 3
    text = export.python(descended, *args, derivatives="gradient")
    for line in ("for i in range(4):", "h = np.tanh(x @ w)", "error = h - y", "if ", "else:", "w_bar", "= x.T "):
        assert line in text, text
    scope = {}
    exec(text, scope)
    np.testing.assert_allclose(scope["descended"](*args), descended(*args), rtol=1e-13)
    np.testing.assert_allclose(scope["descended_gradient"](*args), ad.grad(descended)(*args), rtol=1e-12)


def test_products_with_constants_are_ordinary():
    """A constant that has no zero needs no strong one, whatever the other factor is."""
    text = export.python(lambda x: np.sum(3 * np.log(x)), np.ones(3), derivatives="gradient")
    assert "strong_mul" not in text
    assert "strong_mul(" in export.python(lambda x, w: np.sum(w * np.log(x)), np.ones(3), np.ones(3), derivatives="gradient")


def test_a_graph_from_text_keeps_its_names():
    program = parse("graph f(x: float64[], y: float64[]) {\n  v2: float64[] = mul x, y\n  return v2, x\n}")
    text = export.python(program, derivatives="vjp")
    assert "def f(x, y):" in text
    assert "def f_vjp(x, y, y0_bar, y1_bar):" in text


def test_a_person_would_write_it():
    """No trace of which zeros are exact, where all factors are finite; gradients of common programs are written at all."""

    def pendulum(u):
        def slope(u):
            return np.stack([u[1], -np.sin(u[0])])

        def step(u, _):
            middle = u + 0.05 * slope(u)
            return u + 0.1 * slope(middle), None

        return ad.scan(step, u, None, length=20)[0][0]

    def likelihood(theta, x, y):
        k = np.exp(theta[0]) * np.exp(-0.5 * (x[:, None] - x) ** 2) + np.exp(theta[1]) * np.eye(5)
        return 0.5 * y @ np.linalg.solve(k, y) + np.sum(np.log(np.diag(np.linalg.cholesky(k))))

    text = export.python(pendulum, np.ones(2), derivatives="gradient")
    assert "where(" not in text.replace("placed(x, where, shape)", "").replace("out[where]", "")
    assert "strong_mul" not in text
    x = np.linspace(0, 1, 5)
    for f, args in ((pendulum, (np.array([0.3, 1.2]),)), (likelihood, (np.array([0.2, -1.0]), x, np.sin(5 * x)))):
        scope = {}
        exec(export.python(f, *args, derivatives="gradient"), scope)
        np.testing.assert_allclose(scope[f"{f.__name__}_gradient"](*args), ad.grad(f)(*args), 1e-9)


def test_a_loop_in_a_branch_does_not_overwrite_the_variables_around():
    def f(x, n):
        y = 0.0
        if x < 0.5:
            for k in range(9):
                x = x + 0.1 * np.sin(x * k)
            y = x
        for k in range(n):
            y = y + np.cos(x + k)
        return y * x

    def twice(x, n):
        return x * (f(x, n) + f(2.0 * x, n))

    for function in (f, ad.grad(f), twice):
        staged = ad.graph(function, source=True)(0.3, 9)
        space = {}
        exec(staged.python(), space)
        for x, n in ((0.3, 9), (0.7, 4), (-0.2, 12)):
            np.testing.assert_allclose(space[staged.name](x, n), function(x, n), rtol=1e-12)


def test_a_backward_loop_that_computes_nothing():
    def f(x, b, n):
        for v in b:
            k = 0
            while k < n:
                k += 1
            x = x + v * k
        return x

    staged = ad.graph(ad.grad(f, (0, 1)), source=True)(0.3, np.arange(9.0), 9)
    space = {}
    exec(staged.python(), space)
    for mine, theirs in zip(space[staged.name](0.3, np.arange(9.0), 5), ad.grad(f, (0, 1))(0.3, np.arange(9.0), 5), strict=True):
        np.testing.assert_allclose(mine, theirs)


def kalman(q, zs):
    x, P, ll = 0.0, 1.0, 0.0
    for z in zs:
        P = P + q
        S = P + 0.5
        K = P / S
        r = z - x
        ll += -0.5 * (r * r / S + np.log(S))
        x += K * r
        P *= 1 - K
    return ll


def test_variables_keep_their_names():
    """Also those that are assigned inside a loop; what is saved for the backward pass is named after them."""
    text = ad.graph(ad.grad(kalman), source=True)(0.1, np.sin(np.arange(40.0))).python()
    for line in ("S = P2 + 0.5", "K = P2 / S", "r = z - x", "K_saved[i] = K", "P_bar", "q_bar"):
        assert line in text
    space = {}
    exec(text, space)
    args = 0.1, np.sin(np.arange(40.0))
    assert np.isclose(space["kalman"](*args), ad.grad(kalman)(*args))


def test_a_tangent_does_not_have_the_name_of_its_variable():
    def f(x):
        total = 0.0
        for k in range(10):
            h = x * k
            total = total + np.sin(h)
        return total

    def slope(x):
        return ad.jvp(f, (x,), (1.0,))[1]

    text = ad.graph(slope, source=True)(0.3).python()
    assert text.count("h = ") <= 1
    space = {}
    exec(text, space)
    assert np.isclose(space["slope"](0.3), ad.derivative(f)(0.3))


def test_items_of_a_container_are_named_by_their_keys():
    def f(x, n):
        state = {"pos": x, "vel": 1.0}
        for _ in range(n):
            state["vel"] -= 0.01 * state["pos"]
            state["pos"] += 0.01 * state["vel"]
        return state["pos"]

    text = ad.graph(f, source=True)(0.3, 20).python()
    assert "state_pos" in text
    assert "else" not in text


def test_a_graph_that_cannot_be_staged_says_which_loop_and_why():
    def f(x):
        k, terms = 0, [1.0]
        while abs(terms[-1]) > 1e-16:
            k += 1
            terms.append(terms[-1] * x / k)
        return sum(terms)

    with pytest.raises(ad.AdjointError) as error:
        ad.graph(f, source=True)(2.0)
    assert "the while at test_python.py" in "".join(error.value.__notes__)
    assert "runs in Python" in "".join(error.value.__notes__)


def clamped(x, c):
    if c > 0:
        d = np.where(np.abs(x) < c, 0.5 * x**2, c * (np.abs(x) - 0.5 * c))
    elif c < -1:
        d = np.maximum(x, 0.0) ** 3
    else:
        d = np.log1p(x**2)
    return np.sum(d)


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def exchanged(x):
    """Results of a branch have the names of variables that it reads."""
    a, b, last = x, 2.0 * x, x
    for _ in range(6):
        if a > b:
            a, b = b, a + 1.0
        else:
            last = np.sin(a)
            b = a * last + b
            if b > 3.0:
                a = b - a
                b = a * a - last
    return a * b + last


@pytest.mark.parametrize("derivatives", ["value", "gradient"])
@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (clamped, [(X.ravel() * 2 - 1, c) for c in (0.7, -0.5, -2.0)]),
        (newton, [(2.0,), (0.3,)]),
        (exchanged, [(x,) for x in (-2.0, -0.3, 0.1, 0.9, 2.5, 7.0)]),
    ],
)
def test_conditions_and_branches_are_those_of_the_source(f, calls, derivatives):
    kinds = () if derivatives == "value" else (derivatives,)
    text, scope = export.python(f, *calls[0], derivatives=kinds), {}
    exec(text, scope)
    for args in calls:
        expected = f(*args) if derivatives == "value" else ad.grad(f)(*args)
        made = scope[f.__name__ if derivatives == "value" else f"{f.__name__}_gradient"]
        np.testing.assert_allclose(made(*args), expected, rtol=1e-12, atol=1e-14)


def test_branches_and_loops_read_as_those_of_the_source():
    text = export.python(clamped, X.ravel(), 0.5, derivatives="gradient")
    assert "    if c > 0:" in text
    assert "    elif c < -1:" in text
    assert text.count("d = ") == 3
    assert "strong_mul" not in text  # a test for nan of a finite number is False
    assert "    while np.abs(y * y - a) > 1e-12:\n        y = 0.5 * (y + a / y)" in export.python(newton, 2.0)


def test_small_constants_are_listed():
    text = export.python(lambda x, m: np.where(m, 1.0, x) @ np.array([[1.0, 1.0], [0.0, 1.0]]), np.ones(2), np.ones(2, bool))
    assert "np.array([[1.0, 1.0], [0.0, 1.0]], " in text
    branches = export.python(clamped, X.ravel(), 0.5, derivatives="gradient")
    assert "np.where(v3, 1.0, 0.0)" in branches


def test_a_helper_that_nothing_calls_is_left_out():
    assert "def _inv" not in export.python(lambda a: np.linalg.inv(a) @ a, np.eye(3))
