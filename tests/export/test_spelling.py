"""What C and JavaScript share: places, blocks of text, names and templates."""

import numpy as np
import pytest

from adjoint.export.c_source import CSpelling
from adjoint.export.javascript_module import JavaScript
from adjoint.export.spelling import IndentedText, Pointer, filled, renamed, words


def test_a_place_moves():
    assert Pointer("work").moved(0) == Pointer("work")
    assert Pointer("work").moved(3) == Pointer("work", "3")
    assert Pointer("work", "3").moved("i") == Pointer("work", "3 + i")


def test_blocks_are_indented():
    text = IndentedText()
    text.open("if (x)")
    text.add("y = 1;")
    text.close()
    assert text.lines == ["  if (x) {", "    y = 1;", "  }"]


def test_names_stay_different():
    assert renamed(["x", "for", "x", "for_"], words("for while").__contains__) == ["x", "for_", "x_", "for__"]
    assert renamed(["own_x"], lambda name: name.startswith("own")) == ["own_x_"]


def test_templates_replace_whole_words():
    assert filled("INT i = INT32 POINT;", {"INT": "let", "INT32": "x"}) == "let i = x POINT;"


@pytest.mark.parametrize("spelling", [CSpelling("f", False, False), JavaScript()], ids=["c", "javascript"])
def test_functions_of_equal_text_are_shared(spelling):
    first = spelling.shared("kernel", lambda name: f"function {name}() {{}}")
    assert spelling.shared("kernel", lambda name: f"function {name}() {{}}") == first
    assert spelling.shared("kernel", lambda name: f"function {name}(x) {{}}") != first
    assert [text.count("NAME") for text in spelling.definitions()] == [0, 0]


@pytest.mark.parametrize("spelling", [CSpelling("f", False, False), JavaScript()], ids=["c", "javascript"])
@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
def test_reductions_start_neutral(spelling, how):
    dtype = np.dtype(float)
    assert spelling.start_of(how, dtype)
    assert "t" in spelling.combine(how, dtype, "t", "x")
    assert spelling.combine("any", np.dtype(bool), "t", "x") == "(t || x)"


def test_copies_are_loops_only_if_they_have_to_be():
    lengths = []
    for size in (0, 1, 5):
        text = IndentedText()
        JavaScript().copy(text, Pointer("a"), Pointer("b"), size, np.dtype(float))
        lengths.append(len(text.lines))
    assert lengths == [0, 1, 3]


def test_constants_that_nothing_reads_are_left_out():
    for spelling in (CSpelling("f"), JavaScript()):
        spelling.constant(np.zeros(0))
        spelling.constant(np.ones(2))
        assert spelling.used_constants(["x = c1[0];"]) == spelling.constants[1:]
