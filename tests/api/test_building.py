"""Graphs under construction: `with ad.Graph():`."""

import gc
import threading
import weakref

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import parse


def test_feeds_and_fetches():
    with ad.Graph() as g:
        x, y = ad.symbols("x y")
        z = x * y
        dz = ad.gradients(z, [x, y])
    assert g.run(z, {x: 2.0, y: 3.0}) == g.run(z, {"x": 2.0, y: 3}) == 6.0
    assert g.run([z, *dz], {"x": 2.0, "y": 3.0}) == [6.0, 3.0, 2.0]
    assert g.run((z, "x"), {"x": 2.0, "y": 3.0}) == (6.0, 2.0)
    assert g.run({"z": z, "dz": dz}, {"x": 2.0, "y": 3.0}, workers=2) == {"z": 6.0, "dz": [3.0, 2.0]}
    assert g.run("v2", {"x": 2.0, "y": 3.0}) == 6.0
    assert g.run(dz[0], {"y": 3.0}) == 3.0  # only what is needed
    assert g.run(z * 2.0, {z: 5.0}) == 10.0  # any node can be fed
    assert len(g._programs) < 8


def test_bad_feeds_and_fetches_are_refused_by_name():
    with ad.Graph() as g:
        x, y = ad.symbols("x y")
        v = ad.symbols("v", shape=3)
        z = x * y
    other = ad.symbols("other")
    for call, message in (
        (lambda: g.run(z, {"x": 2.0}), r"depends on 'y' \(declared in .*\), which is not among the feeds: these are x"),
        (lambda: g.run(z), "depends on 'x' and 'y'"),
        (lambda: g.run(z, {"x": 2.0, "w": 3.0}), "the graph has no symbol 'w'; it has x, y, v"),
        (lambda: g.run(z, {"x": 2.0, x: 2.0}), "'x' is fed twice"),
        (lambda: g.run(z, {"x": 2.0, other: 2.0}), "<symbol other: .*another graph"),
        (lambda: g.run(z, {"x": 2.0, 3: 2.0}), "the feed 3 is int 3, not a symbol"),
        (lambda: g.run(z, {"x": 2.0, "y": np.ones(2)}), r"the feed of 'y' has shape \(2,\), expected \(\)"),
        (lambda: g.run(v, {"v": np.arange(3)}), "the feed of 'v' has dtype int64, expected float64"),
        (lambda: g.run(v, {"v": "abc"}), "the feed of 'v' is str"),
        (lambda: g.run(z, [2.0, 3.0]), "feeds is a dict .* not list"),
        (lambda: g.run([z, 3.0], {}), r"fetches\[1\] is float 3.0, not a symbol"),
        (lambda: g.run(other, {}), "fetches is <symbol other: .*another graph"),
        (lambda: g.run("w", {}), "no symbol 'w'"),
        (lambda: g.run("v99", {}), "no symbol 'v99'"),
        (lambda: g.symbols("x"), "already has a symbol 'x', declared in test_building.py"),
        (lambda: ad.Graph("two words"), "name of a graph"),
    ):
        with pytest.raises(ad.AdjointError, match=message):
            call()


def test_nested_graphs_and_entering_again():
    with ad.Graph() as outer:
        x = ad.symbols("x")
        with ad.Graph() as inner:
            y = ad.symbols("x")
        with outer:
            w = ad.symbols("w")
        z = x * w
    assert outer.run(z, {"x": 2.0, "w": 3.0}) == 6.0
    assert inner.run(y * 2.0, {"x": 2.0}) == 4.0
    with outer:
        u = ad.symbols("u")
    assert outer.run(u + z, {"u": 1.0, "x": 2.0, "w": 3.0}) == 7.0
    with pytest.raises(ZeroDivisionError), outer:
        1 / 0
    assert ad.symbols("fine").by is not outer._trace


def test_programs():
    with ad.Graph("loss") as g:
        x = ad.symbols("x", shape=2)
        b = np.sum(x)
        w = ad.symbols("w")
        z = b * w
    p = g.program([w, x], [z, b])
    assert p(2.0, np.ones(2)) == [4.0, 2.0]
    assert p.input_names == ("w", "x")
    assert g.program(None, z).input_names == ("x", "w")
    assert g.program(None, z, name="other").name == "other"
    assert parse(str(p)) == p
    assert str(g).splitlines()[0] == "graph loss(x: float64[2], w: float64[]) {"
    assert "v1: float64[] = sum x" in str(g)
    assert "v3: float64[] = mul v1, w" in str(g)  # numbered as repr(z) says
    assert "return v3" in str(g)
    assert repr(g) == "<Graph: 2 symbols, 2 nodes>"
    with pytest.raises(ad.AdjointError, match="depends on 'w'"):
        g.program([x], z)


def test_the_default_graph_keeps_nothing():
    x = ad.symbols("x")
    node = np.sin(x)
    kept = weakref.ref(node.aux.node)
    del node
    gc.collect()
    assert kept() is None
    assert repr(x.by.owner) == str(x.by.owner) == "<Graph: the default one>"


def test_symbols_of_several_threads():
    results = []

    def work(k):
        x = ad.symbols("x")
        z = x
        for _ in range(50):
            z = np.sin(z) + k
        results.append((k, ad.function(x, [z, ad.gradients(z, x)])(0.5)))

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, (value, slope) in results:

        def f(x, k=k):
            for _ in range(50):
                x = np.sin(x) + k
            return x

        assert value == f(0.5)
        np.testing.assert_allclose(slope, ad.grad(f)(0.5))


def test_deep_graphs():
    x = ad.symbols("x")
    z = x
    for _ in range(5_000):  # several times the limit of recursion
        z = np.sin(z) + 0.1
    f = ad.function(x, [z, ad.gradients(z, x)])
    assert len(f) > 15_000
    value, slope = f(0.3)
    assert np.isfinite(value)
    assert np.isfinite(slope)
    del z, f
    gc.collect()


def test_a_cycle_is_refused():
    """No operation makes one; a node whose insides were written to is found out all the same."""
    x = ad.symbols("x")
    z = x * 2.0
    w = z + 1.0
    object.__setattr__(z.aux.node, "inputs", (w.aux, z.aux.node.inputs[1]))
    for call in (lambda: ad.gradients(w, x), lambda: ad.function([x], w)):
        with pytest.raises(ad.AdjointError, match=r"<node v\d+ = mul: .* depends on <node v\d+ = add: .* cycle"):
            call()


def test_derivatives_run_one_way():
    x = ad.symbols("x")
    z = np.sin(x)
    for call in (lambda: ad.gradients(x, z), lambda: ad.gradients(z, z * 2.0)):
        with pytest.raises(ad.AdjointError, match="does not depend on <node"):
            call()
