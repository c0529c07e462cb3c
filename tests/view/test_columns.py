"""Tables of text: widths on a terminal, and what each form escapes."""

from adjoint.view.columns import Table, TableRow, to_html, to_latex, to_markdown, to_text, width_of

TABLE = Table(("a", "b"), ((TableRow((["v̄ = 1"], ["x", "y|z"])),), (), (TableRow((["<i>"], [])),)), "a note")


def test_width():
    assert width_of("v̄₁") == 2
    assert width_of("日本") == 4
    assert width_of("") == 0


def test_text_is_aligned():
    assert to_text(TABLE).splitlines() == [
        "a     │ b",
        "──────┼────",
        "v̄ = 1 │ x",
        "      │ y|z",
        "──────┼────",
        "<i>   │",
        "a note",
    ]
    assert to_text(Table(("a",), ((TableRow((["x"],)),),)), is_ascii=True) == "a\n-\nx"


def test_markdown_escapes():
    assert to_markdown(TABLE).splitlines()[2:4] == [r"| v̄ = 1 | x<br>y\|z |", "| &lt;i&gt; |  |"]


def test_html_escapes():
    page = to_html(TABLE)
    assert "&lt;i&gt;" in page
    assert "x<br>y|z" in page
    assert page.count("<tbody") == 2


def test_latex_has_a_line_for_each_line_of_a_cell():
    lines = to_latex(TABLE).splitlines()
    assert lines[0] == r"\begin{array}{l|l}"
    assert lines.count(r"\hline") == 2
    assert lines[-1] == "% a note"
