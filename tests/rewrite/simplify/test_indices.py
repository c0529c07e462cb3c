"""Two basic indices as one, against NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples

from adjoint.rewrite.simplify.indices import joined


@st.composite
def specs(draw, shape):
    """A basic index that fits a shape."""
    spec = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        if draw(st.integers(0, 3)) == 0:
            spec.append(None)
        if n and draw(st.booleans()):
            spec.append(draw(st.integers(-n, n - 1)))
        else:
            ends = st.none() | st.integers(-n - 1, n + 1)
            spec.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2, 3]))))
    return tuple(spec)


@settings(max_examples=examples(500))
@given(st.data())
def test_joined_reads_what_the_two_read(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    first = data.draw(specs(shape))
    second = data.draw(specs(x[first].shape))
    spec = joined(shape, first, second)
    expected = x[first][second]
    if spec is None:
        assert expected.size == 0
    else:
        np.testing.assert_array_equal(x[spec], expected)
        assert x[spec].shape == expected.shape


def test_slices_are_short():
    assert joined((6,), (slice(1, None),), (slice(None, 2),)) == (slice(1, 3),)
    assert joined((6, 2), (slice(None, None, -1),), (slice(None, None, -1),)) == ()
    assert joined((6,), (slice(2, None),), (-1,)) == (5,)
    assert joined((3,), (None,), (0, 1)) == (1,)
    assert joined((3,), (None,), (slice(1, None),)) is None
