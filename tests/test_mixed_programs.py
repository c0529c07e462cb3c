"""Random programs of mixed dtypes (see `mixed.py`): values as NumPy's, forward and reverse mode alike, compiled and eager alike.

The same ones on every run; ADJOINT_PROGRAMS=10000 draws more, and `python -m fuzz mixed` runs any range of seeds.
"""

import warnings

import numpy as np
import pytest
from mixed import Program, copied, moderate
from night import asked

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import ConversionError, ReadOnlyError
from adjoint.core.tree import flatten

ASKED = asked(100)
CHUNK = 25


#: A traced value is written into a constant array; or an argument that is held constant is written to.
REFUSED = ConversionError, ReadOnlyError


class RefusedError(Exception):
    """What is refused by its name, as the documentation says, is no difference."""


# -- comparing -------------------------------------------------------------------------------------------------------


def unit(*arrays):
    """The rounding that the narrowest of these dtypes allows."""
    dtypes = {np.asarray(a).dtype.name for a in arrays}
    return 1e-2 if "float16" in dtypes else 3e-4 if dtypes & {"float32", "complex64"} else 1e-8


def rounding(text, *arrays):
    """The rounding of derivatives of a program that computes with these arrays, and with the dtypes that its text names."""
    names = {text, *(np.asarray(a).dtype.name for a in arrays)}
    says = lambda *dtypes: any(dtype in name for name in names for dtype in dtypes)
    return 6e-2 if says("float16") else 3e-3 if says("float32", "complex64") else 1e-8


def agree(found, wanted, what, tolerance=0.0):
    """The same structure, shapes and dtypes, and numbers but for rounding; nan and infinities in the same places."""
    (a, first), (b, second) = flatten(found), flatten(wanted)
    assert first == second, what
    tolerance = max([tolerance, *(unit(y) for y in b)])
    for i, (x, y) in enumerate(zip(map(np.asarray, a), map(np.asarray, b), strict=True)):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), f"{what}, result {i}: {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        scale = np.max(np.abs(y), initial=1.0, where=np.isfinite(y))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale, err_msg=f"{what}, result {i}")


def outcome(f, *args):
    """What a call gives, or the error that it raises."""
    try:
        return f(*args)
    except REFUSED as error:
        raise RefusedError from error
    except Exception as error:
        return error


def alike(found, wanted, what, tolerance=0.0):
    """Equal outcomes: where one raises the other does, an error of that class."""
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), f"{what}: {found!r}, not {wanted!r}"
    else:
        if isinstance(found, Exception):
            raise found
        agree(found, wanted, what, tolerance)


def total(result):
    """One smooth real number that depends on every inexact element."""
    number = 0.0
    for i, y in enumerate(flatten(result)[0]):
        if np.result_type(y).kind in "fc":
            number = number + (i + 1.3) * np.sum(np.sin(np.real(y)), dtype=float)
        if np.result_type(y).kind == "c":
            number = number + (i + 0.7) * np.sum(np.cos(np.imag(y)), dtype=float)
    return number


# -- what is asked of a program ----------------------------------------------------------------------------------------


class Asked:
    """Transforms of one instance of a program, as functions of its two arguments."""

    def __init__(self, program, instance):
        self.program, self.run = program, instance.run
        self.where = tuple(i for i, a in enumerate(program.calls[0][0]) if np.asarray(a).dtype.kind in "fc")
        self.rng = np.random.default_rng(program.seed)

    def scalar(self, x, y):
        return total(self.run(x, y)) + 0.0 * np.sum(np.real(x))  # which is traced even if no result depends on x

    def chosen(self, args):
        return tuple(args[i] for i in self.where)

    def of_chosen(self, args):
        """The program's number as a function of the inexact arguments."""
        whole = lambda xs: [xs[self.where.index(i)] if i in self.where else own(a) for i, a in enumerate(args)]
        return lambda *xs: self.scalar(*whole(xs))

    def directions(self, args):
        rng = np.random.default_rng(self.program.seed)
        made = []
        for a in self.chosen(args):
            v = np.asarray(rng.normal(size=np.shape(a)))
            v = v + 1j * rng.normal(size=np.shape(a)) if np.asarray(a).dtype.kind == "c" else v
            made.append(np.asarray(v).astype(np.asarray(a).dtype)[()])
        return tuple(made)

    def value(self, x, y):
        return self.run(x, y)

    def gradient(self, x, y):
        return ad.value_and_grad(self.scalar, self.where)(x, y)

    def tangent(self, x, y):
        return ad.jvp(self.of_chosen((x, y)), self.chosen((x, y)), self.directions((x, y)))

    def curvature(self, x, y):
        """The tangent of the gradient."""
        slope = ad.grad(self.of_chosen((x, y)), tuple(range(len(self.where))))
        return ad.jvp(slope, self.chosen((x, y)), self.directions((x, y)))

    def batch(self, x, y):
        return ad.vmap(self.run)(*rows(x, y))

    def gradient_of_batch(self, x, y):
        return ad.grad(lambda *stacks: np.sum(ad.vmap(self.scalar)(*stacks)), self.where)(*rows(x, y))


def own(a):
    """A copy of an argument that the program may write to."""
    return np.copy(a) if isinstance(a, np.ndarray) else a


def rows(*args):
    """Two rows of each: the argument itself, and a part of it."""
    return [np.stack([a, a * 0.75 if np.result_type(a).kind in "fc" else a]) for a in args]


COMPILED = ("value", "value", "gradient", "gradient", "tangent", "curvature", "batch", "gradient_of_batch")


# -- eager -------------------------------------------------------------------------------------------------------------


class Eager(Asked):
    """A program under every transform, against NumPy's own run."""

    def __init__(self, program):
        self.plain, self.ours = program.under(np), program.under(anp)
        super().__init__(program, self.ours)
        self.seen = None

    def scalar(self, x, y):
        result = self.run(x, y)
        self.seen = [ad.stop_gradient(np.copy(y)) for y in flatten(result)[0]]
        return total(result) + 0.0 * np.sum(np.real(x))

    def check(self, call):
        args, wanted = self.ours.prepare(call), outcome(self.plain.run, *self.plain.prepare(call))
        before = [copied(a) for a in args]
        found = outcome(self.gradient, *args)
        if isinstance(wanted, Exception):
            alike(found, wanted, "grad")
            return
        if isinstance(found, Exception):
            raise found
        wanted = flatten(wanted)[0]
        agree(self.seen, [np.copy(y) for y in wanted], "values under grad")
        agree(args, before, "arguments")
        _, slope = found
        for g, a in zip(slope, self.chosen(args), strict=True):
            assert (np.shape(g), np.asarray(g).dtype) == (np.shape(a), np.asarray(a).dtype), "gradient's type"
        _, tangent = self.tangent(*args)
        agree(self.seen, [np.copy(y) for y in wanted], "values under jvp")
        if not all(moderate(y) for y in wanted):
            return
        self.pairing(slope, tangent, args)
        if self.program.seed % 5 == 0:
            self.differences(call, tangent)
        if self.program.seed % 4 == 0:
            self.second_order(args)

    def tolerance(self):
        return rounding(self.program.text, *self.seen)

    def pairing(self, slope, tangent, args):
        products = [np.asarray(g) * v for g, v in zip(slope, self.directions(args), strict=True)]
        scale = 1.0 + sum(float(np.sum(np.abs(p))) for p in products)
        pairing = sum(float(np.sum(np.real(p))) for p in products)
        np.testing.assert_allclose(pairing, tangent, rtol=0, atol=self.tolerance() * scale, err_msg="reverse and forward mode")

    def differences(self, call, tangent):
        """Central differences of NumPy's own run."""
        if "stop_gradient" in self.program.text or self.tolerance() > 1e-6 or not np.isfinite(tangent):
            return
        directions = iter(self.directions(call[0]))
        moves = [next(directions) if i in self.where else None for i in (0, 1)]

        def at(h):
            args = self.plain.prepare(call)
            args = [moved(a, h, v) for a, v in zip(args, moves, strict=True)]
            return float(total(self.plain.run(*args)))

        slopes = [(at(h) - at(-h)) / (2 * h) for h in (1e-6, 1e-7)]  # a kink may lie within the first
        if not any(np.isclose(slope, tangent, rtol=1e-3, atol=1e-3) for slope in slopes):
            raise AssertionError(f"central differences {slopes}, tangent {tangent}")

    def second_order(self, args):
        if any(np.asarray(a).dtype.kind == "c" for a in self.chosen(args)):
            return
        f, vs = self.of_chosen(args), self.directions(args)
        every = tuple(range(len(vs)))
        _, one = self.curvature(*args)
        paired = lambda *xs: sum(np.sum(g * v) for g, v in zip(ad.grad(f, every)(*xs), vs, strict=True))
        found = ad.grad(paired, every)(*self.chosen(args))
        # At a kink, as norm(x - x), a partial is infinite, and only in forward mode is its factor known to be zero.
        one = tuple(np.where(np.isnan(a), a, b)[()] if np.shape(a) == np.shape(b) else b for a, b in zip(found, one, strict=True))
        agree(found, one, "second derivative", 10 * self.tolerance())

    def batched(self, call):
        args = self.ours.prepare(call)
        stacks = rows(*args)
        each = [outcome(self.plain.run, *(copied(s[i]) for s in stacks)) for i in (0, 1)]
        if any(isinstance(y, Exception) for y in each):
            return
        try:
            found = self.batch(*args)
            slope = self.gradient_of_batch(*args)
        except ad.AdjointError as error:
            if any(word in str(error) for word in ("vmap", "batch", "branches of cond")):  # a branch on its values, say
                raise RefusedError from error
            raise
        (a, first), (b, second) = flatten(each[0]), flatten(each[1])
        if first != second or any(np.shape(p) != np.shape(q) for p, q in zip(a, b, strict=True)):
            raise AssertionError("vmap of what differs between rows")
        agree(flatten(found)[0], [np.stack([p, q]) for p, q in zip(a, b, strict=True)], "vmap")
        if all(moderate(y) for y in (*a, *b)):
            both = [ad.grad(self.scalar, self.where)(*(copied(s[i]) for s in stacks)) for i in (0, 1)]
            wanted = tuple(np.stack([p, q]) for p, q in zip(*both, strict=True))
            agree(slope, wanted, "gradient of vmap", self.tolerance())


def moved(a, h, v):
    if v is None:
        return a
    if isinstance(a, np.ndarray):
        a[...] = a + h * v
        return a
    return a + h * v


def statements(seed):
    return 3 + seed % 6


def noted(error, program):
    error.add_note(repr(program))
    return error


def check_eager(seed, make=Program, asks=Eager):
    program = make(seed, statements(seed))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for part, call in ((asks.check, 0), (asks.check, 1 + seed % 4), (asks.batched, 0)):
            eager = asks(program)
            for instance in (eager.ours, eager.plain):
                instance.prepare(program.calls[0])
            try:
                part(eager, program.calls[call])
            except (RefusedError, *REFUSED):
                pass
            except Exception as error:
                raise noted(error, program) from None


# -- compiled ----------------------------------------------------------------------------------------------------------


def check_compiled(seed, make=Program, asks=Asked, names=COMPILED):
    """One transform, compiled once, for all calls of the program."""
    program = make(seed, statements(seed))
    ours, plain = program.under(anp), program.under(np)
    name = names[seed % len(names)]
    eager, compiled = getattr(asks(program, ours), name), ad.jit(getattr(asks(program, ours), name))
    values = [x for arguments, outside, _ in program.calls for x in (*arguments, *outside.values())]
    narrow = max(rounding(program.text, *values), 1e-7)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for call in (*program.calls, program.calls[0]):
                wanted = outcome(eager, *ours.prepare(call))
                if name == "value":
                    alike(wanted, outcome(plain.run, *plain.prepare(call)), f"eager {name}, {call[2]}")
                elif call[2] == "another shape" and isinstance(wanted, Exception):
                    continue
                found = outcome(compiled, *ours.prepare(call))
                alike(found, wanted, f"{name}, {call[2]}", narrow if name != "value" else 0.0)
    except (RefusedError, *REFUSED):
        pass
    except Exception as error:
        raise noted(error, program) from None


@pytest.mark.parametrize("start", range(0, ASKED, CHUNK))
def test_programs(start):
    for seed in range(start, start + CHUNK):
        check_eager(seed)


@pytest.mark.parametrize("start", range(0, ASKED // 6, CHUNK))
def test_compiled_programs(start):
    for seed in range(start, start + CHUNK):
        check_compiled(seed)
