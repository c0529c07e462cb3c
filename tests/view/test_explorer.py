"""The explorer in a real Chromium."""

import json
import random
import re

import numpy as np
import pytest
from drawings import HOSTILE, hostile, mixed, network, several, small_graphs, textbook, weights

import adjoint as ad
from adjoint.api.evaluation import evaluate, evaluate_graph
from adjoint.core.errors import DtypeError, ShapeError, UnsupportedError
from adjoint.view.explorer import embed, page
from adjoint.view.layout import Edge, place

SCRIPT_END = "</script"
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture
def visit(browser, tmp_path):
    """Opens the text of a page; afterwards it must have complained of nothing and asked for nothing but itself."""
    opened = []

    def open_page(text, **options):
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(text, encoding="utf-8")
        opened.append((browser.open(file.as_uri(), **options), file.as_uri()))
        return opened[-1][0]

    yield open_page
    for tab, address in opened:
        tab.evaluate("1")  # what was under way has been reported
        assert tab.complaints == []
        assert tab.requests == [address]
        tab.close()


def textbook_page():
    graph = ad.graph(textbook)(2.0, 5.0)
    return page(evaluate_graph(graph, [2.0, 5.0]))


def network_page(depth=50):
    layers = weights(depth)
    graph = ad.graph(network)(np.ones(3), layers)
    inputs = [np.ones(3), *[part for layer in layers for part in layer]]
    return page(evaluate_graph(graph, inputs), evaluate_graph(graph.simplify(), inputs))


def boxes(tab, condition=""):
    """How many boxes there are of a kind, in sight or not: each has a row in the program."""
    return tab.evaluate(f"document.querySelectorAll('#rows .row{condition}').length")


def drawn(tab, selector):
    return tab.evaluate(f"document.querySelectorAll('#picture {selector}').length")


def shown(tab, what):
    """The numbers of a kind that can be seen in the picture, by the names of their boxes."""
    return tab.evaluate(
        f"""Object.fromEntries([...document.querySelectorAll('#picture .node .{what}')]
        .filter(text => getComputedStyle(text).visibility === 'visible')
        .map(text => [text.parentNode.querySelector('text').textContent, text.textContent.replace(/^(= |adj )/, '')]))"""
    )


def at_box(name):
    """The selector of the box whose heading is a name."""
    return f".node[aria-label^={json.dumps(name)}]"


# -- what it shows ------------------------------------------------------------------------------------------------


def test_load(visit):
    tab = visit(textbook_page())
    assert tab.evaluate("document.title") == "textbook · adjoint explorer"
    assert boxes(tab) == 8
    assert tab.text("#size") == "5 equations"
    assert shown(tab, "value") == {
        "x1": "2", "x2": "5", "v2 log": "0.6931", "v3 mul": "10", "v4 add": "10.69", "v5 sin": "-0.9589", "v6 sub": "11.65",
        "output": "11.65",
    }  # fmt: skip
    assert shown(tab, "adjoint") == {
        "x1": "5.5", "x2": "1.716", "v2 log": "1", "v3 mul": "1", "v4 add": "1", "v5 sin": "-1", "v6 sub": "1", "output": "1"
    }  # fmt: skip


def test_structure_only(visit):
    tab = visit(page(ad.graph(textbook)(2.0, 5.0)))
    assert boxes(tab) == 8
    assert drawn(tab, ".value") == drawn(tab, ".adjoint") == 0
    assert drawn(tab, ".node") == 8
    tab.key("End")
    assert tab.text("#status") == "6 of 6 · forward: output"


@pytest.mark.parametrize("name", small_graphs())
def test_small_graphs(visit, name):
    graph = small_graphs()[name]
    values = [np.full(t.shape, 0.5, t.dtype)[()] for t in graph.input_types]
    tab = visit(page(evaluate_graph(graph, values), evaluate_graph(graph.simplify(), values)))
    tab.key("ArrowRight", 3)
    tab.key("r")
    tab.key("End")


# -- steps --------------------------------------------------------------------------------------------------------


def test_steps_with_the_keyboard(visit):
    tab = visit(textbook_page())
    tab.key("ArrowRight")
    assert tab.text("#status") == "0 of 13 · start: the inputs are known"
    assert shown(tab, "value") == {"x1": "2", "x2": "5"}
    assert shown(tab, "adjoint") == {}
    tab.key("ArrowRight", 2)
    assert list(shown(tab, "value")) == ["x1", "x2", "v2 log", "v3 mul"]
    assert tab.text("#status") == "2 of 13 · forward: value of v3"
    assert tab.text(".node.chosen text") == "v3 mul"
    assert boxes(tab, ".waiting") == 4
    tab.key("ArrowDown", 4)
    assert len(shown(tab, "value")) == 8
    assert shown(tab, "adjoint") == {}
    tab.key("ArrowRight")
    assert shown(tab, "adjoint") == {"output": "1"}
    tab.key("ArrowRight", 2)
    assert list(shown(tab, "adjoint")) == ["v5 sin", "v6 sub", "output"]
    assert tab.text("#status") == "9 of 13 · backward: adjoint of v5"
    tab.key("ArrowLeft")
    assert list(shown(tab, "adjoint")) == ["v6 sub", "output"]
    tab.key("ArrowUp")
    assert list(shown(tab, "adjoint")) == ["output"]
    tab.key("End")
    assert tab.text("#status").startswith("13 of 13 · done")
    assert len(shown(tab, "adjoint")) == 8
    tab.key("ArrowRight", 3)
    assert tab.text("#status").startswith("13 of 13 · done")
    tab.key("Home")
    assert shown(tab, "adjoint") == {}
    tab.key("ArrowLeft", 2)
    assert tab.text("#status").startswith("0 of 13")
    tab.key("Escape")
    assert tab.text("#status") == "Overview: all values and adjoints"
    assert len(shown(tab, "adjoint")) == 8


def test_steps_with_buttons_and_slider(visit):
    tab = visit(textbook_page())
    tab.click("#next")
    tab.click("#next")
    assert tab.text("#status") == "1 of 13 · forward: value of v2"
    tab.click("#previous")
    assert tab.text("#status").startswith("0 of 13")
    assert tab.evaluate("document.getElementById('previous').disabled && !document.getElementById('next').disabled")
    tab.click("#end")
    assert tab.text("#status").startswith("13 of 13")
    tab.click("#first")
    assert tab.text("#status").startswith("0 of 13")
    tab.evaluate("document.getElementById('slider').focus()")
    tab.key("ArrowRight", 5)
    assert tab.text("#status").startswith("5 of 13")


def test_the_step_is_highlighted_with_what_it_reads(visit):
    tab = visit(textbook_page())
    tab.key("ArrowRight", 4)
    assert drawn(tab, ".edge.live") == 2
    tab.key("ArrowRight", 5)
    assert drawn(tab, ".edge.back") == 2
    assert drawn(tab, ".edge.live") == 0


def test_the_step_is_in_sight(visit):
    tab = visit(page(mixed(150)))
    for key in ("End", "Home", "ArrowRight"):
        tab.key(key)
    inside = """(r => r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth)
        (document.querySelector('.node.chosen').getBoundingClientRect())"""
    for _ in range(10):
        tab.key("ArrowRight", 7)
        assert tab.evaluate(inside)


# -- a node -------------------------------------------------------------------------------------------------------


def test_click_shows_value_adjoint_rule_and_source(visit):
    tab = visit(textbook_page())
    tab.click(at_box("v3"))
    text = tab.text("#details")
    assert "v3: float64[] = mul x1, x2" in text
    assert "Value10.0" in text
    assert "Adjoint1.0" in text
    assert "∂v3/∂x1 = x2" in text
    assert "∂v3/∂x2 = x1" in text
    assert tab.text(".source") == f"drawings.py:{textbook.__code__.co_firstlineno + 1}\nreturn np.log(x1) + x1 * x2 - np.sin(x2)"
    tab.click(at_box("x1"))
    assert "Adjoint5.5" in tab.text("#details")
    tab.click(".links button")  # read by v2
    assert tab.text("#details h2") == "v2 log"


def test_rows_of_the_program(visit):
    tab = visit(textbook_page())
    tab.click("#rows li:nth-child(6) button")
    assert tab.text("#details h2") == "v5 sin"
    assert tab.text("#rows .chosen") == "v5 = sin x2-0.9589-1"


def test_arrays_and_several_results(visit):
    graph = ad.graph(several)(np.eye(2))
    tab = visit(page(evaluate_graph(graph, [np.array([[2.0, 1.0], [1.0, 3.0]])])))
    tab.click(".node.opaque")
    text = tab.text("#details")
    assert re.search(r"Value of v\d", text)
    assert "[1.381966 3.618034]" in text
    assert tab.evaluate("document.querySelectorAll('#details .map').length") > 0


def test_large_arrays_are_summarised(visit):
    x = np.linspace(0, 1, 1_000_000)
    text = page(evaluate_graph(ad.graph(lambda x: np.sum(np.sin(x) * x))(x), [x]))
    assert len(text) < 80_000
    tab = visit(text)
    tab.click(".node.input")
    assert "min 0   mean 0.5   max 1" in tab.text("#details")


def test_nonfinite_values_are_marked(visit):
    graph = ad.graph(lambda x: np.log(x) + x)(np.ones(2))
    tab = visit(page(evaluate_graph(graph, [np.array([0.0, 1.0])])))
    assert drawn(tab, ".mark") >= 2
    assert "with nan or inf" in tab.text("#details")


def test_without_adjoints_it_says_why(visit):
    graph = ad.graph(lambda x: np.floor(x))(1.5)
    tab = visit(page(evaluate_graph(graph, [1.5])))
    tab.click(at_box("x"))
    assert "none: no output depends on it" in tab.text("#details")


def test_evaluations_of_functions_with_branches(visit):
    run = evaluate(lambda x: x * x if x > 0 else -x, (3.0,))
    tab = visit(page(run))
    assert shown(tab, "adjoint")["x"] == "6"


# -- search -------------------------------------------------------------------------------------------------------


def test_search(visit):
    tab = visit(network_page(6))
    tab.key("/")
    tab.write("TANH")
    assert tab.text("#matches") == "6 found"
    assert boxes(tab, ".found") == 6
    tab.key("Enter")
    first = tab.text("#details h2")
    tab.key("Enter")
    assert tab.text("#matches") == "2 of 6"
    assert tab.text("#details h2") != first
    tab.key("Enter", modifiers=8)  # with shift, back
    assert tab.text("#details h2") == first
    tab.write("zzz")
    assert tab.text("#matches") == "none"
    tab.key("Escape")
    assert tab.text("#matches") == ""
    assert boxes(tab, ".found") == 0
    tab.key("/")
    tab.write("drawings.py")  # source lines are searched too
    assert tab.text("#matches") == "20 found"


def test_letters_in_the_search_are_no_commands(visit):
    tab = visit(network_page(6))
    tab.key("/")
    tab.write("frt0+-")
    assert tab.evaluate("document.getElementById('search').value") == "frt0+-"
    assert tab.evaluate("document.documentElement.dataset.theme") is None


# -- light and dark -----------------------------------------------------------------------------------------------


def luminance(tab, selector="body"):
    rgb = tab.evaluate(f"getComputedStyle(document.querySelector('{selector}')).backgroundColor")
    return sum(map(int, re.findall(r"\d+", rgb)[:3]))


def test_light_and_dark(visit):
    tab = visit(textbook_page())
    assert luminance(tab) > 700
    tab.prefer(dark=True)
    assert luminance(tab) < 150
    fill = "getComputedStyle(document.querySelector('.node.input rect')).fill"
    dark = tab.evaluate(fill)
    tab.click("#theme")
    assert luminance(tab) > 700
    assert tab.evaluate(fill) != dark
    tab.prefer(dark=False)
    assert luminance(tab) > 700
    tab.key("t")
    assert luminance(tab) < 150
    assert tab.evaluate(fill) == dark


# -- repeated structure -------------------------------------------------------------------------------------------


def test_fold_and_unfold(visit):
    tab = visit(network_page(50))
    assert boxes(tab) == 5
    assert tab.text("#size") == "152 equations, 5 boxes shown"
    assert tab.text(".node.group text") == "50 × (matmul, add, tanh)"
    tab.click(".node.group")
    assert "with 100 boxes" in tab.text("#details")
    tab.click("#open")
    assert boxes(tab) == 54
    assert tab.text(".node.chosen text") == "#1  matmul, add, tanh"
    tab.key("f")  # opens the first layer
    assert boxes(tab) == 58
    assert tab.text(".node.chosen text") == "v101 matmul"
    tab.key("f")  # and folds it
    assert boxes(tab) == 54
    tab.click("#unfold")
    assert boxes(tab) == 1 + 100 + 152 + 1
    assert tab.text("#size") == "152 equations"
    tab.click("#fold")
    assert boxes(tab) == 5


def test_steps_pass_a_fold_at_once(visit):
    tab = visit(network_page(50))
    tab.key("ArrowRight", 2)
    assert tab.text("#status") == "1 of 9 · forward: value of 50 × (matmul, add, tanh)"
    assert tab.text(".node.chosen .value").startswith("= ")
    tab.key("f")
    assert tab.text("#status").startswith("1 of 107 · forward")
    tab.key("End")
    tab.click("#fold")
    assert tab.text("#status").startswith("9 of 9 · done")


def test_a_fold_opens_with_enter_and_with_two_clicks(visit):
    tab = visit(network_page(30))
    tab.click(".node.group")
    tab.key("Enter")
    assert boxes(tab) == 34
    tab.click(".node.group", count=2)
    assert boxes(tab) == 38


def test_the_loop_of_a_gradient_folds(visit):
    layers = weights(50)
    graph = ad.graph(ad.grad(network, argnums=1))(np.ones(3), layers)
    tab = visit(page(graph))
    assert len(graph) > 400
    assert boxes(tab) < 30
    labels = tab.evaluate("[...document.querySelectorAll('.node.group .op')].map(e => e.textContent)")
    assert labels[0] == "50 × (matmul, add, tanh)"
    assert labels[1].startswith("49 × (")


def test_small_graphs_start_unfolded(visit):
    tab = visit(network_page(6))
    assert boxes(tab, ".group") == 0
    tab.click("#fold")
    assert boxes(tab, ".group") == 1


# -- raw and simplified -------------------------------------------------------------------------------------------


def test_raw_and_simplified(visit, tmp_path):
    f = ad.grad(lambda x, y: 5 + x * y)
    graph = ad.graph(f)(2.0, 3.0)
    tab = visit(graph.html(tmp_path / "out.html", 2.0, 3.0).read_text(encoding="utf-8"))
    raw = boxes(tab)
    assert tab.evaluate("document.getElementById('raw').getAttribute('aria-pressed')") == "true"
    tab.click("#simplified")
    assert boxes(tab) == 3
    assert tab.text("#size") == "0 equations"
    assert tab.evaluate("document.getElementById('simplified').getAttribute('aria-pressed')") == "true"
    assert shown(tab, "value") == {"x": "2", "y": "3", "output": "3"}
    tab.key("r")
    assert boxes(tab) == raw


def test_nothing_to_simplify(visit):
    graph = ad.graph(textbook)(2.0, 5.0)
    tab = visit(page(graph, graph.simplify()))
    assert tab.evaluate("document.getElementById('simplified').disabled")
    tab.key("r")
    assert boxes(tab) == 8


# -- access by keyboard -------------------------------------------------------------------------------------------


def test_everything_has_a_name_and_the_keyboard_gets_everywhere(visit):
    tab = visit(network_page(6))
    nameless = """[...document.querySelectorAll('button, input, [role=button]')].filter(e =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.title)).length"""
    assert tab.evaluate(nameless) == 0
    reached = set()
    for _ in range(24):
        tab.key("Tab")
        reached.add(tab.evaluate("document.activeElement.id || document.activeElement.getAttribute('class') || ''"))
    assert {"raw", "fold", "search", "fit", "theme", "next", "slider"} <= reached
    assert any(name.startswith("node") for name in reached)
    assert any(name.startswith("row") for name in reached)


def test_zoom_and_drag(visit):
    tab = visit(textbook_page())
    size = "document.querySelector('#picture .node').getBoundingClientRect().width"
    before = tab.evaluate(size)
    tab.key("+")
    assert tab.evaluate(size) > before
    tab.key("0")
    assert tab.evaluate(size) == pytest.approx(before)
    for kind, x in (("mousePressed", 60), ("mouseMoved", 160), ("mouseReleased", 160)):
        tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=600, button="left", buttons=1, clickCount=1)
    tab.call("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=300, deltaX=0, deltaY=100)
    assert tab.evaluate("document.querySelector('#picture').viewBox.baseVal.x") < 0


# -- size and speed -----------------------------------------------------------------------------------------------


def test_five_hundred_nodes(visit):
    graph = mixed(500)
    text = page(evaluate_graph(graph, [0.5, 0.25]), evaluate_graph(graph.simplify(), [0.5, 0.25]))
    tab = visit(text)
    if tab.evaluate("!document.getElementById('unfold').disabled"):
        tab.click("#unfold")
    assert boxes(tab) == 503
    timed = "(async () => {{ const t = performance.now(); {}; await {}; return performance.now() - t; }})()"
    load = tab.evaluate("Number(document.documentElement.dataset.ready)")
    again = tab.evaluate(timed.format("draw(); show()", FRAMES))
    step = tab.evaluate(timed.format("go(250)", FRAMES))
    for name, figure in {"script": load, "drawn, with two frames": again, "step, with two frames": step}.items():
        print(f"{name}: {figure:.0f} ms")
        assert figure < 10_000, f"{name}: {figure:.0f} ms"  # a second is usual; a machine may be busy
    tab.key("ArrowRight", 20)
    assert boxes(tab, ".chosen") == 1


def test_the_layout_is_that_of_python(visit):
    tab = visit(textbook_page())
    generator = random.Random(5)
    for count, reach in [(1, 1), (7, 3), (40, 6), (120, 120), (300, 30)]:
        sizes = [(generator.uniform(20, 140), generator.uniform(20, 70)) for _ in range(count)]
        ports = [0.5, 1 / 3, 2 / 3]
        edges = [
            Edge(generator.randrange(max(0, t - reach), t), t, generator.choice(ports)) for t in range(1, count) for _ in range(2)
        ]
        ours = place(sizes, edges)
        theirs = tab.evaluate(f"placeBoxes({json.dumps(sizes)}, {json.dumps(edges)})")
        np.testing.assert_allclose([[b[k] for k in ("x", "y", "width", "height")] for b in theirs["boxes"]], ours.boxes)
        for a, b in zip(theirs["routes"], ours.routes, strict=True):
            np.testing.assert_allclose(a, b)
        assert (theirs["width"], theirs["height"]) == pytest.approx((ours.width, ours.height))


# -- hostile text -------------------------------------------------------------------------------------------------


def test_hostile_names_do_nothing(visit):
    tab = visit(page(hostile()))
    assert tab.evaluate("typeof window.hacked") == "undefined"
    assert tab.text("#name") == HOSTILE[1]
    for _ in range(len(HOSTILE) + 2):
        tab.key("ArrowRight")
    tab.key("/")
    tab.write("<img")
    tab.key("Enter")
    assert HOSTILE[3] in tab.text("#details")
    assert tab.evaluate("document.images.length + document.querySelectorAll('main script, b').length") == 0
    assert tab.evaluate("typeof window.hacked") == "undefined"


def test_the_policy_forbids_foreign_code(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(textbook_page(), encoding="utf-8")
    tab = browser.open(file.as_uri())
    tab.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked = 1'}))")
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x onerror=\"window.hacked = 1\">')")
    tab.evaluate(FRAMES)
    assert tab.evaluate("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in text for text in tab.complaints)
    tab.close()


@pytest.mark.parametrize("text", HOSTILE)
def test_embedded_data_stay_data(text):
    data = embed({text: [text]})
    assert json.loads(data) == {text: [text]}
    assert not set("<>&\u2028\u2029") & set(data)
    assert data.isascii()


def test_the_page_is_one_file_that_names_no_address():
    text = page(hostile())
    assert text.lower().count("<script") == text.lower().count(SCRIPT_END) == 2
    assert set(re.findall(r"https?://[^\"'\s]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=[\"']?(?!x onerror)\w", text.partition('<script type="application/json"')[0])


# -- Program.html -------------------------------------------------------------------------------------------------


def test_html_writes_and_returns_the_path(tmp_path):
    graph = ad.graph(textbook)(2.0, 5.0)
    file = graph.html(str(tmp_path / "a.html"))
    assert file == tmp_path / "a.html"
    assert '"evaluated":false' in file.read_text(encoding="utf-8")
    assert '"evaluated":true' in graph.html(tmp_path / "b.html", 2.0, 5.0).read_text(encoding="utf-8")
    assert '"evaluated":true' in graph.html(tmp_path / "c.html", 2.0, 5.0).read_text(encoding="utf-8")


def test_html_takes_containers_integers_and_constants(tmp_path):
    f = lambda p, k: {"y": np.sum(p["w"]) * k, "k": k}
    graph = ad.graph(f)({"w": np.ones(3)}, 2)
    assert graph.html(tmp_path / "a.html", {"w": np.ones(3)}, 2).exists()
    assert ad.graph(lambda: np.float64(3.0))().html(tmp_path / "b.html").exists()


def test_html_refuses_what_does_not_fit(tmp_path):
    graph = ad.graph(textbook)(2.0, 5.0)
    with pytest.raises(DtypeError, match="'x1'"):
        graph.html(tmp_path / "a.html", 2, 5.0)
    with pytest.raises(ShapeError, match="'x2'"):
        graph.html(tmp_path / "a.html", 2.0, np.ones(3))
    with pytest.raises((ShapeError, TypeError)):
        graph.html(tmp_path / "a.html", 2.0)
    with pytest.raises(UnsupportedError, match="shows numbers"):
        ad.grad(lambda x: graph.html(tmp_path / "a.html", x, 5.0) or x)(2.0)
    with pytest.raises(OSError, match="missing"):
        graph.html(tmp_path / "missing" / "a.html")
    assert not (tmp_path / "a.html").exists()


def test_simplified_lines_point_to_the_source():
    graph = ad.graph(textbook)(2.0, 5.0)
    assert all(line.startswith("drawings.py:") for line in graph.simplify().sources())
