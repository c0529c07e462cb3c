"""Guards: what Python asks of a staged value, and the calls for which the answers hold."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.staging.guard import Guarded
from adjoint.staging.questions import Asked

QUESTIONS = {
    "truth": (lambda x: bool(x > 0.5), [0.3, 0.7, 0.5]),
    "int": (lambda x: int(x), [1.2, 1.9, 2.1, -0.5]),
    "comparison": (lambda x: 2.0 if x >= 1 else 3.0, [0.0, 1.0, np.nan]),
    "index": (lambda x: [10.0, 20.0, 30.0][int(x)], [0.5, 1.5, 2.9]),
    "range": (lambda x: sum(x for _ in range(int(x))), [1.0, 2.0, 3.5]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_of_other_calls_are_other_programs(name):
    question, values = QUESTIONS[name]
    f = lambda x: question(x) * x
    compiled = ad.jit(f)
    for x in (*values, *reversed(values)):
        np.testing.assert_array_equal(compiled(x), f(x))
    (specializations,) = compiled.specializations.values()
    assert 1 < len(specializations) <= len(values)


def staged(f, *values):
    with Guarded("jit") as stage:
        result = f(*[stage.input_like(f"x{i}", v) for i, v in enumerate(values)])
        return stage, result


def test_a_question_is_asked_once():
    stage, _ = staged(lambda x: [bool(x > 0) for _ in range(3)], np.float64(1.0))
    (guard,) = stage.guards.values()
    assert guard.of is Asked.TRUTH
    assert guard.answer is True
    assert "test_guard.py" in guard.line


def test_how_many_elements_a_mask_chooses_is_an_answer():
    f = lambda x: np.sum(x[x > 0]) * 2
    compiled = ad.jit(f)
    for x in (np.array([1.0, -1.0]), np.array([2.0, -3.0]), np.array([-1.0, 1.0]), np.array([-1.0, -1.0])):
        assert compiled(x) == f(x)
    (specializations,) = compiled.specializations.values()
    assert len(specializations) == 2  # some elements, none


def test_an_answer_that_is_not_a_number():
    f = lambda x: float("nan") if x != x else x * 2
    compiled = ad.jit(f)
    assert compiled(1.0) == 2.0
    assert np.isnan(compiled(np.nan))
    assert np.isnan(compiled(np.nan))


def test_code_without_branches_has_no_guards():
    stage, _ = staged(lambda x: np.sin(x) * x.shape[0], np.ones(3))
    assert not stage.guards
    assert stage.holds() is None
