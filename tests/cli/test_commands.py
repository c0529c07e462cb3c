"""The command line: what a person types, and what comes back."""

import functools
import json
import math
import os
import pathlib
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
from night import AT_NIGHT

from adjoint.cli.commands import main

MODEL = """
import numpy as np

def loss(w, x=2.0, n: int = 3):
    return np.sum(np.tanh(w * x) ** n)

def branch(x):
    if x > 0:
        return np.sin(x)
    return -x

def net(p, x):
    return np.sum(np.tanh(x @ p["w"] + p["b"]))

def wrong(x):
    return float(x) * 2

def broken(x):
    raise RuntimeError("no such luck")

def kink(x):
    return np.where(x > 1.0, x, 2 * x)

CONSTANT = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    (path / "model.py").write_text(MODEL)
    (path / "syntax.py").write_text("def f(x) return x\n")
    (path / "exits.py").write_text("import sys; sys.exit(3)\n")
    return path


def process(folder, *words, code=0, stream=None, **variables):
    """What a command prints, run as a process."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "ADJOINT_FULL_TRACEBACK")}
    environment |= {"PYTHONIOENCODING": "utf-8", **variables}
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", *words], capture_output=True, cwd=folder, env=environment, timeout=120, check=False
    )
    encoding = environment["PYTHONIOENCODING"]
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert done.returncode == code, out + err
    assert "Traceback" not in err
    return {"out": out, "err": err}[stream or ("err" if code else "out")]


@pytest.fixture
def apart(folder):
    """A command as a process of its own."""
    return functools.partial(process, folder)


@pytest.fixture
def here(folder, capsys, monkeypatch):
    """A command in this process, which is quicker."""
    for name in ("NO_COLOR", "FORCE_COLOR", "ADJOINT_FULL_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)

    def run(*words, code=0, stream=None):
        monkeypatch.chdir(folder)
        try:
            found = main(words)
        except SystemExit as end:  # argparse's own
            found = end.code or 0
        out, err = capsys.readouterr()
        assert found == code, out + err
        return {"out": out, "err": err}[stream or ("err" if code else "out")]

    return run


@pytest.fixture
def adjoint(request):
    """A command: here, and at night as a process."""
    return request.getfixturevalue("apart" if AT_NIGHT else "here")


# -- each command -----------------------------------------------------------------------------------------------


def test_grad(adjoint):
    assert adjoint("grad", "x**2*y + y + 2", "x=3", "y=4") == "f = 42\n∂f/∂x = 24\n∂f/∂y = 10\n"
    assert adjoint("grad", "-x**2", "x=-3", "--wrt", "x") == "f = -9\n∂f/∂x = 6\n"
    assert json.loads(adjoint("grad", "sum(x**2)", "x=[1, 2, 3]", "--json")) == {
        "value": 14.0,
        "gradient": {"x": [2.0, 4.0, 6.0]},
    }
    assert adjoint("grad", "x // 0 + x % 0 + 1/(x - x)", "x=1").startswith("f = nan\n")
    assert json.loads(adjoint("grad", "log(x)", "x=0", "--json")) == {"value": "-inf", "gradient": {"x": "inf"}}


def test_grad_of_a_file(adjoint):
    assert adjoint("grad", "model.py:loss", "w=pi/4", "n=2", "--wrt", "w").startswith("f = 0.84")
    out = adjoint("grad", "model.py:net", "--args", "{'w': [[1, 2], [3, 4]], 'b': [0, 0]}", "[1, 2]")
    assert "∂f/∂p['b'] = [" in out
    assert "∂f/∂x = [" in out


def test_trace(adjoint):
    out = adjoint("trace", "log(x1) + x1*x2 - sin(x2)", "x1=2", "x2=5")
    assert "v₁ = ln v₋₁ = 0.693    │ v̄₋₁ = v̄₋₁ + v̄₁·∂v₁/∂v₋₁ = v̄₋₁ + v̄₁/v₋₁ = 5.5\n" in out
    assert "Forward tangent trace" in out
    assert "\x1b" not in out


def test_trace_in_other_forms(adjoint):
    words = ("trace", "sin(x)*y", "x=1", "y=2")
    assert "| --- | --- |" in adjoint(*words, "--markdown")
    assert r"\begin{array}" in adjoint(*words, "--latex")
    assert "</table>" in adjoint(*words, "--html")
    assert "tangent" not in adjoint(*words, "--mode", "reverse")
    assert "ż = v̇₂ = 0.841" in adjoint(*words, "--wrt", "y")
    data = json.loads(adjoint(*words, "--json"))
    assert [e["op"] for e in data["equations"]] == ["sin", "mul"]
    assert math.isclose(data["inputs"][0]["adjoint"], 2 * math.cos(1))
    assert data["equations"][0]["partials"] == ["∂v2/∂x = cos(x)"]


def test_trace_follows_the_branch_and_names_lines(adjoint):
    out = adjoint("trace", "model.py:branch", "x=1", "--lines")
    assert "sin v₀" in out
    assert re.search(r"model\.py:\d+", out)
    assert "−v₀" in adjoint("trace", "model.py:branch", "--args", "-1")


def test_trace_of_a_long_formula_is_cut(adjoint):
    out = adjoint("trace", "x" + " + x" * 100, "x=1", "--limit", "10")
    assert "90 of 100 equations are left out" in out
    assert "left out" not in adjoint("trace", "x" + " + x" * 100, "x=1", "--all")


def test_compare(adjoint):
    out = adjoint("compare", "x**2*y + y + 2", "x=3", "y=4")
    assert re.search(r"reverse +24, 10 +0 ", out)
    rows = json.loads(adjoint("compare", "sin(x)", "x=1", "--json"))["rows"]
    assert {"forward", "reverse", "complex-step"} <= {row["method"] for row in rows}


def test_symbolic(adjoint):
    assert adjoint("symbolic", "x**2*y + y + 2", "--wrt", "x") == "2*x*y\n"
    assert adjoint("symbolic", "x**2*y + y + 2", "--wrt", "x", "--latex") == "2 x y\n"
    assert adjoint("symbolic", "x**2*y + y + 2") == "∂f/∂x = 2*x*y\n∂f/∂y = x**2 + 1\n"
    assert adjoint("symbolic", "x**3", "--order", "2") == "6*x\n"
    assert adjoint("symbolic", "e**(2*x) + pi", "--python") == "lambda x: 2*np.exp(2*x)\n"
    assert adjoint("symbolic", "x*y", "--wrt", "z") == "0\n"
    assert json.loads(adjoint("symbolic", "x**2", "--json"))["derivatives"] == {"x": "2*x"}


def test_graph(adjoint, folder):
    out = adjoint("graph", "sin(x)*y + 0*x", "x=1", "y=2")
    assert "v2: float64[] = sin x\n" in out
    assert r"\sin x" in adjoint("graph", "sin(x)*y", "x=1", "y=2", "--latex")
    assert "    v2 = np.sin(x)\n" in adjoint("graph", "sin(x)*y", "x=1", "y=2", "--python")
    assert json.loads(adjoint("graph", "x*y", "x=1", "y=2", "--json"))["equations"][0]["op"] == "mul"
    assert "mul" not in adjoint("graph", "x*1 + y", "x=1", "y=2", "--simplify")
    out = adjoint("graph", "model.py:loss", "--args", "[1, 2]", "--html", "page.html", "--svg", "picture.svg")
    assert out == "wrote page.html\nwrote picture.svg\n"
    assert "<svg" in (folder / "picture.svg").read_text(encoding="utf-8")
    assert "<html" in (folder / "page.html").read_text(encoding="utf-8")


def test_export(adjoint, folder):
    out = adjoint("export", "x**2*y + sin(y)", "x=3", "y=4", "--grad", "--to", "python")
    assert "def f(x, y):" in out
    assert "def f_gradient(x, y):" in out
    assert "return x_bar, y_bar" in out
    assert "<frozen" not in out
    one = adjoint("export", "x**2*y", "x=3", "y=4", "--grad", "--wrt", "y", "--hvp", "--to", "py")
    assert "return y_bar\n" in one
    assert "def f_hvp(x, y, y_dot):" in one
    words = [
        "export",
        "model.py:loss",
        "--args",
        "[1, 2]",
        "--grad",
        "--jacobian",
        "--wrt",
        "w",
        "--to",
        "python",
        "-o",
        "loss.py",
    ]
    assert adjoint(*words).strip() == "wrote loss.py"
    scope = {}
    exec((folder / "loss.py").read_text(), scope)
    assert scope["loss_gradient"]([0.0, 0.0], 2.0, 3).tolist() == [0.0, 0.0]
    assert scope["loss_jacobian"]([0.0, 0.0], 2.0, 3).tolist() == [0.0, 0.0]
    assert r"\begin{aligned}" in json.loads(adjoint("export", "x*y", "x=1", "y=2", "--to", "latex", "--json"))["text"]
    assert "jnp.sin(x)" in adjoint("export", "sin(x)", "x=3", "--grad", "--to", "jax")
    assert "stablehlo.sine %x" in adjoint("export", "sin(x)", "x=3", "--to", "stablehlo")


def test_export_with_the_options_of_an_exporter(adjoint, folder):
    words = ["export", "exp(x)*y", "x=3", "y=[1,2]", "--jacobian", "--wrt", "x"]
    text = adjoint(*words, "--to", "c", "--math", "exact", "--name", "growth", "--dtype", "float32")
    assert "int growth_jacobian(float x, const float *restrict y, float *restrict dy_dx, growth_work" in text
    assert "expf(" not in text
    adjoint(*words, "--to", "object", "--triple", "aarch64-linux-gnu", "-o", "f.o")
    assert (folder / "f.o").read_bytes()[18:20] == b"\xb7\0"  # EM_AARCH64
    adjoint(*words, "--to", "wasm", "--simd", "--embed", "-o", "f.wasm")
    assert "atob(" in (folder / "f.js").read_text()
    assert r"\documentclass" in adjoint(*words, "--to", "tex", "--document")


def test_export_to_onnx(adjoint, folder):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx onnxruntime")
    assert adjoint("export", "sin(x)*y", "x=3", "y=2", "--grad", "--to", "onnx", "-o", "f.onnx").strip() == "wrote f.onnx"
    assert [o.name for o in onnx.load(folder / "f.onnx").graph.output] == ["y_", "x_bar", "y_bar"]


def test_check(adjoint):
    assert adjoint("check", "model.py:loss").startswith("ok: model.py:loss at w = ")
    assert "(drawn at random)" in adjoint("check", "sin(x)*y")
    assert json.loads(adjoint("check", "sin(x)", "x=1", "--order", "1", "--json"))["ok"] is True
    err = adjoint("check", "model.py:kink", "x=1", code=1)
    assert "adjoint: error:" in err
    assert json.loads(adjoint("check", "model.py:kink", "x=1", "--json", code=1, stream="out"))["ok"] is False


def test_demo(adjoint):
    out = adjoint("demo")
    assert "y = v₅ = 11.652" in out
    assert "complex-step" in out
    assert out.count("$ adjoint ") == 4


def test_the_command_is_installed_under_its_name():
    project = tomllib.loads((pathlib.Path(__file__).parent.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"adjoint": "adjoint.cli.commands:main"}


def test_version_and_help(apart):
    assert re.fullmatch(r"adjoint \d+\.\d+\.\d+\n", apart("--version"))
    assert "symbolic" in apart("--help")
    assert "--wrt" in apart("grad", "--help")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(adjoint, shell, tmp_path):
    script = adjoint("completion", shell)
    for word in ("grad", "trace", "symbolic", "simplify"):
        assert word in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script, encoding="utf-8")
        subprocess.run([shell, "-n", tmp_path / "script"], check=True, timeout=60)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_completion_completes(adjoint):
    script = adjoint("completion", "bash")
    ask = script + '\nCOMP_WORDS=(adjoint tr); COMP_CWORD=1; _adjoint; echo "${COMPREPLY[@]}"'
    ask += '\nCOMP_WORDS=(adjoint symbolic --la); COMP_CWORD=2; _adjoint; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["trace", "--latex"]


# -- mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("grad", "sni(x)", "x=1"), "'sni' is not a known function; did you mean 'sin'?\n    sni(x)\n    ^^^\n"),
        (("grad", "x + y*omega", "x=1", "y=2"), "no value is given for omega; add omega=…\n    x + y*omega\n          ^^^^^\n"),
        (("grad", "x + ", "x=1"), "the formula ends too early\n    x +\n       ^\n"),
        (("grad", "alpha*2", "alhpa=1"), "'alhpa' does not occur in alpha*2; did you mean 'alpha'?"),
        (("grad", "x", "x=1", "x=2"), "given twice"),
        (("grad", "x", "x"), "'x' is not a value of the form name=number"),
        (("grad", "x", "x=1+"), "the value of x cannot be read: the formula ends too early\n    1+\n      ^"),
        (("grad", "x", "x=oops"), "'oops' has no value here"),
        (("grad", "x", "x=[[1,2],[3]]"), "same length"),
        (("grad", "x*2", "x=[1,2]"), "an array of shape (2,)"),
        (("grad", "x", "x=1", "--wrt", "y"), "--wrt names 'y'"),
        (("grad", "2", "--wrt", ""), "--wrt"),
        (("grad", "2 + 2"), "no float argument"),
        (("grad", "__import__('os')", "x=1"), "not a known function"),
        (("grad", "nofile.py:f"), "there is no file 'nofile.py'"),
        (("grad", "model.py:los", "x=1"), "has no function 'los'; did you mean 'loss'?"),
        (("grad", "model.py:CONSTANT"), "is int, not a function"),
        (("grad", "model.py:loss"), "no value is given for w"),
        (("grad", "model.py:loss", "--args", "1", "2", "3", "4"), "takes 3 arguments, --args has 4"),
        (("grad", "model.py:loss", "--args", "1", "w=2"), "'w' is given twice"),
        (("grad", "model.py:loss", "v=2"), "'v' is not a parameter"),
        (("grad", "syntax.py:f", "x=1"), "does not load"),
        (("grad", "exits.py:f", "x=1"), "does not load"),
        (("grad", "x", "--args", "1"), "write x=3 y=4"),
        (("symbolic", "x", "--order", "0"), "--order is from 1 to 12"),
        (("symbolic", "2 + 2"), "give one with --wrt"),
        (("symbolic", "2*sum(x)"), "'sum' is not a known function\n    2 * sum(x)\n        ^\n"),
        (("check", "2 + 2"), "no float argument"),
        (("graph", "x*y", "x=1", "y=2", "--html", "nowhere/a.html"), "nowhere/a.html cannot be written"),
        (("export", "x*y", "x=1", "y=2", "--to", "python", "-o", "nowhere/a.py"), "nowhere/a.py cannot be written"),
        (("export", "x*y", "x=1", "y=2", "--to", "python", "--wrt", "x"), "--wrt chooses the arguments of a derivative"),
        (("export", "x*y", "x=1", "y=2", "--to", "cobol"), "invalid choice: 'cobol'"),
        (("export", "x*y", "x=1", "y=2"), "the following arguments are required: --to"),
        (("export", "x*y", "x=1", "y=2", "--to", "c", "--simd"), "--simd is an option of --to wasm, not of --to c"),
        (("export", "x*y", "x=1", "y=2", "--to", "c", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("export", "x*y", "x=1", "y=2", "--to", "c", "--math", "fast"), "argument --math: invalid choice: 'fast'"),
        (("export", "x*y", "x=1", "y=2", "--to", "onnx", "--batch", "x"), "argument --batch: invalid"),
        (("trace", "x", "x=1", "--limit", "1"), "at least 2"),
        (("trace", "x", "x=1", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("frobnicate",), "invalid choice"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2(here, words, message):
    assert message in here(*words, code=2)


def test_mistakes_in_a_process(apart):
    assert "    sni(x)\n    ^^^\n" in apart("grad", "sni(x)", "x=1", code=2)
    err = apart("grad", "model.py:wrong", "x=1", code=1)
    assert "would lose its derivative" in err
    assert "runpy" not in err
    assert "usage: adjoint" in apart(code=2, stream="out")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("grad", "model.py:wrong", "x=1"), "would lose its derivative"),
        (("grad", "model.py:broken", "x=1"), "RuntimeError: no such luck (model.py:"),
        (("graph", "model.py:branch", "x=1"), "the truth of a value inside graph is not known"),
        (("check", "model.py:net"), "drawn at random"),
        (("grad", "x[5]", "x=[1,2]"), "IndexError"),
        (("grad", "dot(x, y)", "x=[1,2]", "y=[1,2,3]"), "mismatch"),
    ],
)
def test_a_computation_that_fails_ends_with_1(here, words, message):
    err = here(*words, code=1)
    assert message in err
    assert "runpy" not in err


# -- terminals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"] if AT_NIGHT else ["ascii"])
def test_terminals_without_unicode(apart, encoding):
    out = apart("trace", "log(x1) + x1*x2 - sin(x2)", "x1=2", "x2=5", PYTHONIOENCODING=encoding)
    assert "v[-1] = x1 = 2" in out
    assert "v[1]_bar" in out
    assert apart("grad", "x*y", "x=3", "y=4", PYTHONIOENCODING=encoding) == "f = 12\ndf/dx = 4\ndf/dy = 3\n"
    apart("compare", "x*2", "x=3", PYTHONIOENCODING=encoding)
    apart("demo", PYTHONIOENCODING=encoding)
    assert "^^^" in apart("grad", "sni(α)", "α=1", code=2, PYTHONIOENCODING=encoding)


def test_colour_follows_the_environment(apart):
    words = ("grad", "x*y", "x=3", "y=4")
    assert "\x1b[" in apart(*words, FORCE_COLOR="1")
    assert "\x1b[" not in apart(*words, FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b[" in apart(*words, "--color", "always")
    assert "\x1b[" not in apart(*words, "--color", "never", FORCE_COLOR="1")


def test_a_terminal_gets_colour():
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {"TERM": "xterm"}
    subprocess.run(
        [sys.executable, "-m", "adjoint", "grad", "x*y", "x=3", "y=4"], stdout=theirs, env=environment, check=True, timeout=120
    )
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert "\x1b[1m12\x1b[0m" in shown


def test_a_broken_pipe_is_quiet():
    """As in `adjoint trace … | head -1`: the reader goes away before all is written."""
    formula = "x" + " + sin(x)" * 900
    process = subprocess.Popen(
        [sys.executable, "-m", "adjoint", "trace", formula, "x=1", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline().startswith(b"Forward")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=120) == 141
    assert err == b""
    process.stderr.close()


def test_a_reader_that_is_gone_from_the_start():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "grad", "x*y", "x=3", "y=4"],
        stdout=write, stderr=subprocess.PIPE, check=False, timeout=120,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_is_closed(stream):
    words = ["grad", "x*y", "x=3", *(["y=4"] if stream == "stdout" else [])]
    number = {"stdout": 1, "stderr": 2}[stream]
    command = shlex.join([sys.executable, "-m", "adjoint", *words]) + f" {number}>&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=120)
    assert done.returncode == (0 if stream == "stdout" else 2)
    assert done.stdout == done.stderr == b""


def test_words_in_a_locale_without_them(folder):
    """Python hands on what it cannot decode as it is; the words are UTF-8 all the same, and the caret stays where it was."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LANG", "LC_CTYPE", "PYTHONIOENCODING")}
    environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def run(*words):
        command = [sys.executable, "-m", "adjoint", *words]
        return subprocess.run(command, capture_output=True, env=environment, check=False, timeout=120)

    assert run("grad", "α**2", "α=3").stdout == b"f = 9\ndf/d\\u03b1 = 6\n"
    assert run("grad", "α*sni(α)", "α=3").stderr.decode().splitlines()[1:] == ["    \\u03b1*sni(\\u03b1)", "           ^^^"]
