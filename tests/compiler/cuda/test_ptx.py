"""Every kind of kernel as PTX, through `ptxas` for three generations of GPUs: it refuses what no GPU would run."""

import re

import device_ops
import numpy as np
import pytest
from night import AT_NIGHT
from on_device import program
from simulator import Simulator

import adjoint as ad
from adjoint.compiler.cuda import ptx

NAMES = ("sm_70", "sm_80", "sm_90")
PROCESSORS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not ptx.knows(name), reason=f"no ptxas for {name}: nvidia-cuda-nvcc-cu12, of the extra 'test', has it"
        ),
    )
    for name in NAMES
]
X = np.random.default_rng(0).normal(size=(300, 200))
INDICES = np.random.default_rng(0).integers(0, 300, 500)

needs_ptxas = pytest.mark.skipif(not ptx.knows("sm_90"), reason="no ptxas")


class Nowhere(Simulator):
    """Loads nothing: the program is only written."""

    def load(self, module):
        return {}


def written(f, *args):
    return program(f, args, Nowhere())[0]


def mixed(x):
    return np.sum(np.exp(x), axis=0), np.sum(x), np.max(x, axis=1), x.T + 1, np.any(x > 3, axis=1), np.prod(x, axis=0)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


PROGRAMS = {
    "elementwise": (lambda x: np.sin(x) * np.exp(-x), X),
    "wide accesses": (lambda x: np.sin(x) * np.exp(-x), np.zeros(300_001)),
    "wide accesses of singles": (lambda x: (x * 2, x > 1), np.zeros(300_001, np.float32)),
    "transposed": (lambda x: x.T * 2 + 1, X),
    "reductions": (mixed, X),
    "reductions in pieces": (mixed, np.zeros((3000, 1000))),
    "softmax": (ad.grad(lambda x: np.sum(softmax(x) ** 2)), X),
    "windows": (ad.grad(lambda x: np.sum((x[1:, 1:] - x[:-1, :-1]) ** 2)), X),
    "gather and scatter": (ad.grad(lambda x, i: np.sum(np.sin(x[i]))), X, INDICES),
    "integers and truths": (lambda i: (np.sum(i), i * 3 - 2, (i > 3) & (i < 9), np.any(i == 7)), INDICES),
    "loop of points": (ad.grad(lambda x: np.sum(ad.scan(lambda c, _: (np.sin(c), c), x, None, 9)[0])), X),
    "windows of several points, in a loop": (
        lambda x: ad.scan(lambda c, _: (c + np.pad(c[1:-1, 1:-1] * c[:-2, 1:-1] - c[1:-1, 2:], 1), None), x, None, 9)[0],
        np.zeros((1100, 1000)),
    ),
    "loop": (lambda x: ad.scan(lambda c, _: (c - np.mean(c), None), x, None, 9)[0], X),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(name, processor):
    f, *args = PROGRAMS[name]
    made = written(f, *args)
    used = ptx.assembled(ptx.ptx(made.module.for_gpu(), processor), processor)
    assert set(used) == {kernel.name for kernel in made.kernels}
    assert all(use.spilled <= 16 for use in used.values()), used


@pytest.mark.parametrize("processor", PROCESSORS)
def test_every_op(processor):
    """In make test, each op for one of the processors."""
    for dtype in (np.float64, np.float32):
        for number, (some, f, args) in enumerate(device_ops.programs(dtype, 4)):
            if number % len(NAMES) != NAMES.index(processor) and not AT_NIGHT:
                continue
            used = ptx.assembled(ptx.ptx(written(f, *args).module.for_gpu(), processor), processor)
            assert used, [op.name for op in some]


@needs_ptxas
@pytest.mark.parametrize("name", ["reductions", "loop", "windows of several points, in a loop"])
def test_parts_of_a_module_are_the_module(name, monkeypatch):
    """Each kernel is in one part, with the functions that it calls."""
    f, *args = PROGRAMS[name]
    made = written(f, *args)
    wanted = {kernel.name for kernel in made.kernels}
    for most in (1, 2, 100):
        monkeypatch.setattr("adjoint.compiler.cuda.text.MOST_PARTS", most)
        parts = [re.findall(r"\.entry (\w+)\(", ptx.ptx(text, "sm_70")) for text in made.module.parts_for_gpu()]
        assert len(parts) == min(most, len(wanted))
        assert sorted(entry for part in parts for entry in part) == sorted(wanted)


def test_ptxas_refusals_are_errors():
    with pytest.raises(RuntimeError, match="ptxas refuses the program for sm_90"):
        ptx.assembled(".version 7.8\n.target sm_90\nnonsense", "sm_90")


def test_arrays_in_order_are_read_and_written_as_vectors():
    doubles = ptx.ptx(written(lambda x: x * 2, np.zeros(300_001)).module.for_gpu(), "sm_80")
    assert re.search(r"ld\.global[.\w]*\.v2", doubles)
    assert "st.global.v2" in doubles
    singles = ptx.ptx(written(lambda x: x * 2, np.zeros(300_001, np.float32)).module.for_gpu(), "sm_80")
    assert re.search(r"ld\.global[.\w]*\.v4", singles)
    shifted = ptx.ptx(written(lambda x: x[1:] * 2, np.zeros(300_001)).module.for_gpu(), "sm_80")
    assert not re.search(r"ld\.global[.\w]*\.v2", shifted)


def test_nothing_is_fused_that_is_not_written_so():
    text = ptx.ptx(written(lambda x: x * x + x, X).module.for_gpu(), "sm_80")
    assert "fma" not in text
    assert "mul.rn.f64" in text
    assert "add.rn.f64" in text


def test_tables_hold_words_only():
    """LLVM's NVPTX target forgets the room between wider integers."""
    text = written(lambda x: np.logaddexp(x, -x), X).module.for_gpu()
    assert "adjoint_coefficients" in text
    assert not re.search(r"constant \[\d+ x i(?!64|32|8)\d+\]", text)


@needs_ptxas
def test_machine_code_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    text, made = written(lambda x: x * 2, X).module.for_gpu(), []

    def link(source):
        made.append(source)
        return ptx.linked(source, "sm_90")[0]

    code = ptx.machine_code(text, "sm_90", link, ("1",))
    assert code[:4] == b"\x7fELF"
    assert ptx.machine_code(text, "sm_90", link, ("1",)) == code
    assert len(made) == 1
    ptx.machine_code(text, "sm_90", link, ("2",))
    assert len(made) == 2
