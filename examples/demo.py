"""A demo: derivatives of ordinary NumPy code, in every mode, checked and applied.

make demo
"""

import pathlib

import numpy as np

import adjoint as ad


def section(title):
    print(f"\n{title}\n{'-' * len(title)}")


def main():
    section("f(x, y) = x²y + y + 2 at (3, 4): every method side by side")
    f = lambda x, y: x**2 * y + y + 2
    print(ad.compare(f, 3.0, 4.0, manual=lambda x, y: (2 * x * y, x**2 + 1)))

    section("y = ln x₁ + x₁x₂ − sin x₂ at (2, 5): the evaluation trace")

    def g(x1, x2):
        logarithm, product, sine = np.log(x1), x1 * x2, np.sin(x2)
        return logarithm + product - sine

    print(ad.trace(g)(2.0, 5.0))

    section("Dual numbers and the tape, by hand")
    print("forward: f(3 + 1ε, 4) =", f(ad.dual(3.0, 1.0), ad.dual(4.0, 0.0)))
    x, y = ad.array(3.0, requires_grad=True), ad.array(4.0, requires_grad=True)
    z = f(x, y)
    z.backward()
    print("reverse:", z.grad_fn, "of", z.grad_fn.next_functions, "gives", (float(x.grad), float(y.grad)))

    section("Higher order: the Rosenbrock function at (-1.2, 1)")
    rosenbrock = lambda p: (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
    point = np.array([-1.2, 1.0])
    print("gradient", ad.grad(rosenbrock)(point))
    print("Hessian ", ad.hessian(rosenbrock)(point).tolist())
    steps, move = 0, point
    while np.linalg.norm(move) > 1e-12:
        steps += 1
        move = np.linalg.solve(ad.hessian(rosenbrock)(point), ad.grad(rosenbrock)(point))
        point = point - move
    print(f"Newton's method finds {point} in {steps} steps")

    section("Logistic regression by gradient descent, with per-example gradients")
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((200, 3))
    labels = (inputs @ np.array([2.0, -1.0, 0.5]) + 0.3 + 0.3 * rng.standard_normal(200) > 0).astype(float)

    def loss(w, x, t):
        score = x @ w[:3] + w[3]
        return np.logaddexp(0, score) - t * score

    mean_loss = lambda w: np.mean(loss(w, inputs, labels))
    w = np.zeros(4)
    for _ in range(300):
        value, slope = ad.value_and_grad(mean_loss)(w)
        w = w - slope
    accuracy = np.mean((inputs @ w[:3] + w[3] > 0) == labels)
    print(f"loss {mean_loss(np.zeros(4)):.3f} → {value:.3f}, accuracy {accuracy:.1%}, weights {np.round(w, 2)}")
    each = ad.vmap(ad.grad(loss), in_axes=(None, 0, 0))(w, inputs, labels)
    print(
        "per-example gradients",
        each.shape,
        "- their mean is the gradient:",
        np.allclose(each.mean(axis=0), ad.grad(mean_loss)(w)),
    )

    section("In-place writes and control flow: 100 steps of the heat equation")
    import adjoint.numpy as anp

    def final_heat(start):
        u = anp.array(start)
        for _ in range(100):
            u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u[len(u) // 2]

    sensitivity = ad.grad(final_heat)(np.zeros(21))
    bars = " ▁▂▃▄▅▆▇█"
    print("sensitivity of the heat in the middle to each starting point (the ends are fixed):")
    print("".join(bars[round(float(s / sensitivity.max()) * 8)] for s in sensitivity))

    section("A derivative is a program: ∂g/∂x of g = 5 + xy, as built and pruned")
    staged = ad.graph(lambda x, y: 5 + x * y)(2.0, 3.0)
    print(staged)
    built = staged.derivative("x")
    print("∂g/∂x by hand is 0 + (y·1 + 0·x); chain is the product of the chain rule, with a strong zero:")
    print(built)
    print("pruned:")
    print(built.simplify())
    print("reverse mode leaves the zeros out:")
    print(ad.graph(ad.grad(lambda x, y: 5 + x * y))(2.0, 3.0))
    print("as a formula: ∂g/∂x =", ad.symbolic("5 + x*y", "x y").diff("x"))

    section("The explorer: step through the values and the adjoints with the arrow keys")
    page = pathlib.Path(__file__).parent.parent / "build" / "explorer.html"
    page.parent.mkdir(exist_ok=True)
    ad.graph(g)(2.0, 5.0).html(page, 2.0, 5.0)
    print(f"open it in a browser: {page}")

    section("Checking a derivative")
    ad.check_grads(lambda p: np.sum(np.tanh(p) * p**2), np.array([0.5, -1.0]), order=2)
    print("check_grads: forward and reverse agree with differences, to second order")


if __name__ == "__main__":
    main()
