"""Calls of numpy.fft: lengths cut and padded, all norms, axes in every form."""

from surface.calls import F, O, call, entry

COMPLEX = complex
_NORMS = ("backward", "ortho", "forward")


IGNORED = "NumPy ignores out= here, and keeps single precision; ours writes to it"


def one(f=F, out=None, **without):
    """A transform of one axis."""
    calls = [
        call(f(4)), call(f(5)), call(f(2, 3)), call(f(4), 3), call(f(4), 6), call(f(4, 2), None, 0), call(f(2, 4), n=5, axis=-1),
        call(f(4, 2), axis=-2), *(call(f(4), norm=norm) for norm in _NORMS), call(f(2, 4), 3, 1, "ortho"),
        call(f(0, 3), axis=1), call(f(2)),
    ]  # fmt: skip
    return entry(*calls, call(f(4), 4, out=out).but(**without))


def many(f=F, out=None, **without):
    """A transform of several axes."""
    calls = [
        call(f(2, 3)), call(f(2, 2, 3)), call(f(3, 2), (2, 4), (0, 1)), call(f(2, 3), axes=(0, 1)),
        call(f(2, 2, 3), axes=(0, -1)),
        *(call(f(2, 3), norm=norm) for norm in _NORMS), call(f(2, 4), s=(3, 3), axes=(-2, -1), norm="ortho"),
        call(f(1, 2)), call(f(1, 1), s=(2, 2), axes=(0, 1)),
    ]  # fmt: skip
    return entry(*calls, call(f(2, 4), out=out).but(**without))


def single_axis(calls, f=F):
    return calls + entry(call(f(4), axes=(0,)), call(f(2, 3), axes=(1,)), call(f(2, 3), s=(4,), axes=(-1,)))


def shift():
    return entry(call(F(4)), call(F(5)), call(F(2, 3)), call(F(2, 3), 0), call(F(2, 3), axes=-1), call(F(2, 3), axes=(0, 1)),
                 call(F(1)), call(F(0)))  # fmt: skip


C4 = O(4, dtype=COMPLEX)
CASES = {
    "fft": one(out=C4),
    "ifft": one(out=C4),
    "rfft": one(out=O(3, dtype=COMPLEX)),
    "irfft": one(out=O(4, dtype=float)),
    "hfft": one(out=O(4, dtype=float), single=IGNORED, empty=IGNORED),
    "ihfft": one(out=O(3, dtype=COMPLEX)),
    "fft2": many(out=O(2, 4, dtype=COMPLEX)),
    "ifft2": many(out=O(2, 4, dtype=COMPLEX), single=IGNORED),
    "rfft2": many(out=O(2, 3, dtype=COMPLEX)),
    "irfft2": many(out=O(2, 6, dtype=float), single=IGNORED),
    "fftn": single_axis(many(out=O(2, 4, dtype=COMPLEX))),
    "ifftn": single_axis(many(out=O(2, 4, dtype=COMPLEX))),
    "rfftn": single_axis(many(out=O(2, 3, dtype=COMPLEX))),
    "irfftn": single_axis(many(out=O(2, 6, dtype=float))),
    "fftshift": shift(),
    "ifftshift": shift(),
}
