"""Each op with a padded form, on arrays whose length changes from iteration to iteration."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.ops.broadcast import broadcast_to, cast, reshape, sum_, transpose
from adjoint.ops.elementwise import mul
from adjoint.ops.index import getitem, put
from adjoint.ops.linalg import matmul
from adjoint.ops.reduce import cumsum
from adjoint.ops.shape import concatenate
from adjoint.rewrite.loops.padded import padded
from adjoint.rewrite.loops.padded_ops import _FORMS, form_of
from adjoint.rewrite.loops.roles import RefusedError

M = np.random.default_rng(0).uniform(0.5, 1.5, (9, 9))

#: By op: numbers computed from slices of the matrix m and the vector c, and writes to c.
USES = {
    mul: ["np.sum(m[k:, k] * c[k:])", "np.sum(m[: k + 1] * c)", "np.sum(m[k:, k] * 2.0)", "np.sum(m[k:, k] * c[: 9 - k])"],
    cast: ["np.sum(c[k:].astype(np.float32))"],
    broadcast_to: ["np.sum(np.broadcast_to(c[k:], (3, 9 - k)) * m[:3, k:])", "np.sum(np.broadcast_to(c[k], k + 1) * c[: k + 1])"],
    sum_: ["np.sum(m[k:, k:])", "np.sum(np.sum(m[k:], axis=0))", "np.sum(np.sum(m[:, : k + 1], axis=1, keepdims=True))"],
    transpose: ["np.sum(m[k:].T * c[k:])", "np.sum(np.sum(m[k:, :3].T, axis=0) * c[k:])"],
    reshape: ["np.sum(c[k:].reshape(-1, 1) * m[k:])", "np.sum(c[k:].reshape(1, -1) * m[:, k:])"],
    matmul: ["c[k:] @ m[k:, k]", "np.sum(m[k:] @ m)", "np.sum(m[:, k:] @ c[: 9 - k])", "np.sum(m[: k + 1, k:] @ m[k:, : k + 1])"],
    getitem: ["np.sum(c[k:])", "np.sum(c[k::-1])", "np.sum(m[k:, 0][: 9 - k])", "np.sum(m[None, k:, k])"],
    put: ["c[k:] = m[k:, k]", "c[k:] = m[k, k:] * m[k, k]", "c[k::-1] = c[: k + 1]"],
    concatenate: ["np.sum(np.concatenate([c[k:], m[k]]) * 2.0)", "np.sum(np.concatenate([m[k:], m[: k + 1]], axis=0))"],
}  # fmt: skip
CASES = [(op, text) for op, texts in USES.items() for text in texts]


def test_every_form_is_tried():
    assert USES.keys() - {mul} == _FORMS.keys()


@pytest.mark.parametrize("op, text", CASES, ids=[f"{op.name}-{text}" for op, text in CASES])
def test_a_loop_with_the_op_has_the_same_results_padded(op, text):
    names = {"np": np, "anp": anp}
    line = text if op is put else f"s = np.tanh(s) + 0.01 * {text}"
    exec(f"def f(m):\n    c, s = anp.array(m[0]), 0.5\n    for k in range(9):\n        {line}\n    return s + np.sum(c)", names)
    graph = ad.graph(names["f"])(M)
    assert any(e.op is op for e in graph.equations)
    found = padded(graph, 4)
    assert found is not None
    check(found, infer_types)
    with np.errstate(all="ignore"):  # in the padding
        np.testing.assert_allclose(found.run_flat([M]), graph.run_flat([M]), rtol=1e-6 if op is cast else 1e-13)


def test_an_op_without_a_form_is_refused_by_name():
    with pytest.raises(RefusedError, match="'cumsum' of arrays whose lengths change"):
        form_of(cumsum)
