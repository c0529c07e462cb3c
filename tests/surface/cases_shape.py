"""Calls of NumPy's functions that make, rearrange, pick and write elements."""

import inspect

import numpy as np
from surface.calls import F, O, X, call, entry, writes

LIST = "NumPy's protocol does not look into lists"
MAKES = "NumPy makes plain arrays here, without asking its arguments"
NUMBERS = "the length of the result depends on the numbers: refused"
MEMORY = "a graph does not know the order in memory: refused"
MASK = np.array([[True, False, True], [True, True, False]])

# -- making -------------------------------------------------------------------------------------------------------

CONVERT = [
    call(F(3)),
    call(F(2, 3)),
    call(F()),
    call(F(0)),
    call([F(), F()]),
    call([F(2), F(2)]),
    call(F(2, 3), dtype=np.float64),
]
MAKING = {
    "array": entry(*CONVERT, call([[F(), 1.0], [2.0, F()]]), call(F(2), ndmin=2), call(F(2), float, copy=True), protocol=MAKES),
    "asarray": entry(*CONVERT, call(F(2), float), call(F(2), copy=True), protocol=MAKES),
    "asanyarray": entry(*CONVERT, call(F(2), float), call(F(2), copy=True), protocol=MAKES),
    "asarray_chkfinite": entry(*CONVERT, call(F(2), float), protocol=MAKES, staged="it looks at the numbers: refused"),
    "ascontiguousarray": entry(*CONVERT, call(F(2), float), protocol=MAKES),
    "asfortranarray": entry(*CONVERT, call(F(2), float), protocol=MAKES),
    "require": entry(*CONVERT, call(F(2), float, "C"), call(F(2, 3), requirements=["A", "O"]), protocol=MAKES),
    "astype": entry(call(F(3), np.float64), call(F(2, 3), np.float64, copy=False), call(F(), np.float64),
        call(F(3), np.complex128),
                    call(F(0), np.float64)),
    "copy": entry(call(F(3)), call(F(2, 3)), call(F()), call(F(0, 2)), call(F(2, 3), order="F")),
    "full": entry(call(3, F()), call((2, 3), F(3)), call((2, 2), fill_value=F(2, 1)), call(0, F()), call((), F()),
                  call(2, F(), np.float64), protocol=MAKES),
    "full_like": entry(call(F(3), F()), call(F(2, 3), F(3)), call(F(2, 3), fill_value=F(2, 1)), call(F(3), F(), np.float64),
                       call(F(3), F(), shape=(2, 2)), call(F(0), F())),
    "fromfunction": entry(
        call(lambda i, a: a * i, (3,), a=F()), call(lambda i, j, a: a * i + j, (2, 3), a=F(2, 3)),
        call(lambda i, k, a: a * i * k, (2,), k=2.0, dtype=np.float64, a=F()), call(lambda i, a: a * a * i, shape=(0,), a=F()),
        protocol=MAKES,
    ),
    "fromiter": entry(
        call([F(), F(), 2.0], float), call(F(3), dtype=float), call([F()], float, count=1), call(F(4), float, 2),
        run=lambda f, iter, *args, **kwargs: f((x for x in iter), *args, **kwargs), protocol=MAKES, complex="the dtype is given",
    ),
    "meshgrid": entry(call(F(2), F(3)), call(F(2), F(3), indexing="ij"), call(F(2), F(3), sparse=True), call(F(2)),
        call(F(), F(2)),
                      call(F(2), F(1), F(2)), call(F(2), F(3), copy=True), call(F(2, 2), F(2)), call(F(0), F(2))),
}  # fmt: skip

# -- shape --------------------------------------------------------------------------------------------------------

SHAPE = {
    "reshape": entry(call(F(6), (2, 3)), call(F(2, 3), 6), call(F(2, 3), -1), call(F(2, 3), (3, -1), "F"), call(F(), (1, 1)),
                     call(F(2, 3), shape=(3, 2), order="A").but(staged=MEMORY), call(F(0, 2), (2, 0)),
                     call(F(2, 3), (6,), copy=True)),
    "ravel": entry(call(F(2, 3)), call(F(3)), call(F()), call(F(2, 3), "F"), call(F(2, 3), order="K").but(staged=MEMORY),
        call(F(0, 2)),
                   call(F(2, 3), order="A").but(staged=MEMORY)),
    "transpose": entry(call(F(2, 3)), call(F(3)), call(F()), call(F(2, 1, 3), (2, 0, 1)), call(F(2, 1, 3), axes=(-1, 0, 1)),
                       call(F(0, 2)), call(F(2, 3), [1, 0]), call(F(2, 3), None)),
    "matrix_transpose": entry(call(F(2, 3)), call(F(2, 2, 3)), call(F(1, 1)), call(F(0, 2))),
    "swapaxes": entry(call(F(2, 3), 0, 1), call(F(2, 1, 3), 0, -1), call(F(2, 3), axis1=-1, axis2=-2), call(F(3), 0, 0)),
    "moveaxis": entry(call(F(2, 3), 0, 1), call(F(2, 1, 3), -1, 0), call(F(2, 1, 3), (0, 1), (-1, 0)), call(F(3), 0, 0),
                      call(F(2, 1, 3), source=[0, 2], destination=[2, 1])),
    "rollaxis": entry(call(F(2, 1, 3), 2), call(F(2, 1, 3), 0, 3), call(F(2, 1, 3), axis=-1, start=1), call(F(3), 0)),
    "expand_dims": entry(call(F(3), 0), call(F(2, 3), -1), call(F(3), (0, 2)), call(F(), axis=0), call(F(0), axis=1),
                         call(F(3), axis=(-1, 0))),
    "squeeze": entry(call(F(1, 3, 1)), call(F(1, 3, 1), 0), call(F(1, 3, 1), axis=-1), call(F(1, 3, 1), axis=(0, 2)), call(F()),
                     call(F(3)), call(F(1, 0))),
    "broadcast_to": entry(call(F(3), (2, 3)), call(F(), 3), call(F(2, 1), shape=(2, 3)), call(F(3), (3,)), call(F(1), (0,))),
    "broadcast_arrays": entry(call(F(3), F(2, 1)), call(F(), F(2)), call(F(3)), call(F(1), F(0)), call(F(2), F(1), F())),
    "atleast_1d": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(), F(2)), call(F(0))),
    "atleast_2d": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(), F(2)), call(F(0))),
    "atleast_3d": entry(call(F()), call(F(3)), call(F(2, 3)), call(F(1, 2, 2)), call(F(), F(2)), call(F(0))),
    "resize": entry(call(F(3), (2, 2)), call(F(2, 2), 3), call(F(2), new_shape=5), call(F(), (2,)), call(F(3), 0),
        call(F(2, 3), (3, 4))),
}  # fmt: skip

JOIN = [call([F(2), F(3)]), call((F(2), F(3))), call([F(2), F(0)]), call([F(2)])]
STACK = [call([F(2), F(2)]), call((F(2, 3), F(2, 3))), call([F(3)]), call([F(), F()])]
JOINING = {
    "concatenate": entry(*JOIN, call([F(2, 3), F(1, 3)], 0), call([F(2, 3), F(2, 1)], axis=-1), call([F(2, 3), F(2)], axis=None),
                         call([F(2), np.ones(1)], axis=0), call([F(2), F(1)], out=O(3)), call([F(2), F(1)], dtype=np.float64)),
    "stack": entry(*STACK, call([F(2, 3), F(2, 3)], 1), call([F(2), F(2)], axis=-1), call([F(2), F(2)], out=O(2, 2)),
                   call([F(2), np.ones(2)], dtype=np.float64), call([F(0), F(0)])),
    "vstack": entry(*STACK, call([F(2, 3), F(1, 3)]), call([F(2), F(2)], dtype=np.float64)),
    "row_stack": entry(*STACK, call([F(2, 3), F(1, 3)]), call([F(2), F(2)], dtype=np.float64)),
    "hstack": entry(*STACK, call([F(2, 3), F(2, 1)]), call([F(2), F(3)], dtype=np.float64)),
    "dstack": entry(*STACK, call([F(2, 3), F(2, 3)]), call([F(1, 2, 2), F(1, 2, 1)])),
    "column_stack": entry(*STACK, call([F(2), F(2, 3)])),
    "append": entry(call(F(3), F(2)), call(F(2, 3), F(2)), call(F(2, 3), F(1, 3), 0), call(F(2, 3), F(2, 1), axis=-1),
        call(F(3), 1.0),
                    call(F(), F()), call(F(0), F(2))),
    "block": entry(call([F(2), F(3)]), call([[F(2, 2), F(2, 1)], [F(1, 2), F(1, 1)]]), call([F(), F()]), call(F(2)),
                   call([[F(2)], [F(2)]])),
    "unstack": entry(call(F(3)), call(F(2, 3)), call(F(2, 3), axis=1), call(F(2, 3), axis=-1)),
    "split": entry(call(F(4), 2), call(F(4), [1, 3]), call(F(2, 4), 2, 1), call(F(2, 4), indices_or_sections=[1], axis=-1),
                   call(F(4), [0, 2])),
    "array_split": entry(call(F(5), 2), call(F(5), [1, 3]), call(F(2, 5), 2, 1), call(F(2, 5), indices_or_sections=3, axis=-1)),
    "hsplit": entry(call(F(4), 2), call(F(2, 4), 2), call(F(2, 4), [1]), call(F(1, 2, 2), 2)),
    "vsplit": entry(call(F(2, 2), 2), call(F(4, 1), [1, 3]), call(F(2, 1, 2), indices_or_sections=2), call(F(1, 1), 1)),
    "dsplit": entry(call(F(1, 2, 2), 2), call(F(1, 1, 4), [1, 3]), call(F(2, 1, 2), indices_or_sections=2),
                    call(F(1, 1, 1), 1)),
    "tile": entry(call(F(3), 2), call(F(2, 2), (2, 1)), call(F(2), (2, 2)), call(F(), 3), call(F(2), reps=(1, 2)), call(F(3), 0)),
    "repeat": entry(call(F(3), 2), call(F(2, 3), 2), call(F(2, 3), 2, 0), call(F(2, 3), [1, 0, 2], axis=-1), call(F(), 3),
                    call(F(3), repeats=np.array([1, 2, 0])), call(F(0), 2)),
}  # fmt: skip


def _fill(vector, width, axis, options):
    """A mode of np.pad: twice the first element in front, a number behind."""
    vector[: width[0]] = vector[width[0]] * options.get("by", 2.0)
    vector[len(vector) - width[1] :] = 1.0


REARRANGING = {
    "flip": entry(call(F(3)), call(F(2, 3)), call(F(2, 3), 0), call(F(2, 3), axis=-1), call(F(2, 3), axis=(0, 1)),
        call(F()), call(F(0))),
    "fliplr": entry(call(F(2, 3)), call(F(2, 2, 2)), call(F(1, 1)), call(F(0, 2))),
    "flipud": entry(call(F(2, 3)), call(F(3)), call(F(1, 1)), call(F(0, 2))),
    "rot90": entry(call(F(2, 3)), call(F(2, 3), 2), call(F(2, 3), k=-1), call(F(2, 1, 3), 1, (0, 2)),
        call(F(2, 1, 3), axes=(-1, 0)),
                   call(F(2, 2), 4), call(F(1, 1))),
    "roll": entry(call(F(3), 1), call(F(2, 3), -1), call(F(2, 3), 1, 0), call(F(2, 3), 2, axis=-1),
        call(F(2, 3), (1, 2), axis=(0, 1)),
                  call(F(2, 3), shift=1, axis=(0, 1)), call(F(0), 1), call(F(), 1), call(F(3), 5)),
    "tril": entry(call(F(3, 3)), call(F(2, 3), 1), call(F(2, 2, 2), k=-1), call(F(3)), call(F(1, 1)), call(F(0, 0))),
    "triu": entry(call(F(3, 3)), call(F(2, 3), 1), call(F(2, 2, 2), k=-1), call(F(3)), call(F(1, 1)), call(F(0, 0))),
    "diag": entry(call(F(3)), call(F(2, 3)), call(F(2), 1), call(F(3, 3), k=-1), call(F(1)), call(F(0)), call(F(2, 2), 2)),
    "diagflat": entry(call(F(3)), call(F(2, 2)), call(F(2), 1), call(F(2), k=-1), call(F())),
    "diagonal": entry(call(F(3, 3)), call(F(2, 3), 1), call(F(2, 3), offset=-1), call(F(2, 2, 3), 0, 1, 2),
                      call(F(2, 2, 3), axis1=-1, axis2=0), call(F(0, 2)), call(F(1, 1))),
    "trace": entry(call(F(3, 3)), call(F(2, 3), 1), call(F(2, 3), offset=-1), call(F(2, 2, 3), 0, 1, 2),
                   call(F(2, 2, 3), axis1=-1, axis2=0), call(F(2, 2), dtype=np.float64), call(F(2, 2, 3), out=O(3)),
                   call(F(0, 2)), call(F(1, 1))),
    "pad": entry(
        call(F(3), 1), call(F(3), (1, 2)), call(F(2, 3), ((1, 0), (0, 2))), call(F(3), 2, "constant", constant_values=F()),
        call(F(3), 1, constant_values=(1.0, 2.0)), call(F(2, 3), 1, mode="constant", constant_values=((1.0, 2.0), (3.0, 4.0))),
        call(F(3), 2, "edge"), call(F(2, 3), 1, "edge"), call(F(3), 2, "linear_ramp", end_values=F()),
        call(F(2, 3), 1, "linear_ramp"),
        call(F(4), 2, "maximum"), call(F(4), 2, "maximum", stat_length=2), call(F(2, 3), 1, "minimum"),
        call(F(4), 1, "minimum", stat_length=((2, 3),)), call(F(4), 2, "mean"), call(F(2, 3), 1, "mean", stat_length=2),
        call(F(4), 2, "median"), call(F(2, 3), 1, "median"), call(F(4), 3, "reflect"), call(F(4), 6, "reflect"),
        call(F(4), 2, "reflect", reflect_type="odd"), call(F(2, 3), 1, "reflect"), call(F(3), 2, "symmetric"),
        call(F(3), 5, "symmetric"),
        call(F(3), 2, "symmetric", reflect_type="odd"), call(F(3), 4, "wrap"), call(F(2, 3), 1, "wrap"), call(F(1), 1, "edge"),
        call(F(0), 2), call(F(), 0), call(F(3), {0: (1, 2)}), call(F(3), 0, "edge"), call(F(1), 2, "reflect"),
        call(F(3), 1, _fill), call(F(2, 2), ((1, 0), (1, 1)), _fill, by=3.0),
    ),
}  # fmt: skip


# -- picking ------------------------------------------------------------------------------------------------------

INDEX = np.array([[0, 2, 1], [1, 1, 0]])
DISTINCT = X([3.0, -1.0, 2.0, 0.5])
ZEROS = F(2, through=lambda x: np.concatenate([np.zeros(1, x.dtype), x, np.zeros(2, x.dtype)]))
DISPATCH = "NumPy's own protocol takes the argument by position only, whatever its signature says"
SETS = {"vmap": NUMBERS, "staged": NUMBERS}
PICKING = {
    "take": entry(call(F(4), [0, 2, 2]), call(F(2, 3), 4), call(F(2, 3), [0, 2], 1), call(F(2, 3), indices=INDEX, axis=-1),
                  call(F(4), np.int64(1)), call(F(4), [5, -1], mode="wrap"), call(F(4), [7, -3], mode="clip"),
                  call(F(2, 3), [0], axis=0, out=O(1, 3)), call(F(4), [])),
    "take_along_axis": entry(call(F(2, 3), INDEX, 1), call(F(2, 3), INDEX), call(F(3), np.array([0, 0, 2]), axis=0),
                             call(F(2, 3), np.array([3, 1]), None), call(F(2, 3), indices=INDEX[:1] % 2, axis=0),
                             call(F(2, 3), INDEX, axis=-1)),
    "choose": entry(call(np.array([0, 1, 1]), [F(3), F(3)]), call(INDEX, [F(2, 3), F(3), F()]), call(1, [F(), F()]),
                    call(np.array([0, 3]), [F(2), F(2)], mode="wrap"), call(np.array([-1, 3]), [F(2), F(2)], mode="clip"),
                    call(np.array([0, 1]), [F(2), F(2)], out=O(2))),
    "compress": entry(call([True, False, True], F(3)), call([False, True], F(2, 3), 0),
        call([True, False, True], F(2, 3), axis=-1),
                      call([True, False], F(2, 3)), call([True, True, False], F(2, 3), axis=1, out=O(2, 2)), call([False], F(1))),
    "extract": entry(call([True, False, True], F(3)), call(MASK, F(2, 3)), call(condition=MASK[0], arr=F(3)),
        call([False], F(1))),
    "select": entry(call([MASK[0], ~MASK[0]], [F(3), F(3)]), call([MASK], [F(2, 3)], F()),
        call([MASK, MASK[0]], [F(3), F(2, 3)], default=1.0),
                    call([np.array(True)], [F()])),
    "where": entry(call(MASK[0], F(3), F(3)), call(MASK, F(), F(3)), call(True, F(), F()), call(MASK, F(2, 3), 0.0),
                   call(np.zeros(0, bool), F(0), F(1)), call(MASK, 1.0, F(2, 1))),
    "insert": entry(call(F(3), 1, F()), call(F(2, 3), 1, F()), call(F(2, 3), 1, F(3), 0), call(F(2, 3), [0, 2], F(2, 2), axis=1),
                    call(F(3), [0, 0, 2], F(3)), call(F(3), slice(0, 2), F(2)), call(F(2, 3), obj=-1, values=F(), axis=-1),
                    call(F(3), np.array([True, False, True]), F(2)), call(F(0), 0, F())),
    "delete": entry(call(F(3), 1), call(F(2, 3), 1), call(F(2, 3), 1, 0), call(F(2, 3), [0, 2], axis=-1),
        call(F(4), slice(0, 4, 2)),
                    call(F(3), obj=np.array([True, False, False])), call(F(3), -1), call(F(3), [])),
    "sort": entry(call(F(4)), call(F(2, 3)), call(F(2, 3), 0), call(F(2, 3), axis=-2), call(F(2, 3), axis=None),
        call(F(1)), call(F(0)),
                  call(F(4), kind="stable"), call(F(4), stable=True), call(F(2, 3), -1, "heapsort"),
                  *([call(F(2, 3), descending=True)] if "descending" in inspect.signature(np.sort).parameters else [])),
    "sort_complex": entry(call(F(4)), call(F(2, 3)), call(F(1)), call(F(0))),
    "partition": entry(call(F(4), 1), call(F(2, 3), 1), call(F(2, 3), 1, 0), call(F(4), kth=(0, 2)), call(F(2, 3), 0, axis=-2),
                       call(F(2, 3), 2, axis=None), call(F(1), 0), call(F(4), -1), call(F(4), 1, -1, "introselect"),
                       take=lambda y: np.sort(y, axis=None)),
    "unique": entry(
        call(DISTINCT), call(F(2, 2)), call(F(1)), call(DISTINCT, True, True, True), call(DISTINCT, return_counts=True),
        call(DISTINCT, return_index=True, return_inverse=True), call(X([[2.0, 1.0], [0.0, 3.0]]), axis=0), call(F(0)),
        call(X([[2.0, 1.0], [0.0, 3.0]]), axis=-1), call(DISTINCT, equal_nan=False), call(DISTINCT, sorted=True), **SETS,
    ),
    **{name: entry(call(DISTINCT), call(F(2, 2)), call(F(1)), call(F(0)), **SETS, keyword=DISPATCH)
       for name in ("unique_counts", "unique_inverse", "unique_all")},
    "unique_values": entry(call(DISTINCT), call(F(2, 2)), call(F(1)), call(F(0)), take=np.sort, **SETS, keyword=DISPATCH),
    "union1d": entry(call(F(3), F(2)), call(F(2, 2), F(1)), call(F(0), F(2)), call(ar1=F(2), ar2=np.array([9.0, 7.0])), **SETS),
    "intersect1d": entry(
        call(F(4), 2), call(F(2, 2), 2, True), call(F(1), 1), call(F(4), 3, return_indices=True), call(F(3), 0),
        call(F(3), 2, assume_unique=True),
        run=lambda f, a, k, *args, **kwargs: f(a, np.ravel(a)[:k], *args, **kwargs), **SETS,  # what is common moves together
    ),
    "setdiff1d": entry(call(DISTINCT, np.array([5.0])), call(F(2, 2), np.array([9.0]), True), call(F(1), np.array([9.0])),
                       call(ar1=DISTINCT, ar2=F(2, low=5, high=6)), call(F(0), F(1)),
                       call(F(3), F(2), assume_unique=True), **SETS),
    "setxor1d": entry(call(DISTINCT, np.array([5.0])), call(F(2, 2), F(1)), call(F(1), np.array([9.0])),
        call(F(3), F(2), True), **SETS),
    "trim_zeros": entry(call(ZEROS), call(F(3)), call(ZEROS, "f"), call(ZEROS, trim="b"),
                        call(F(2, 2)), call(F(2, 3), axis=-1), call(F(2, 3), axis=0), call(F(2, 3), axis=(0, 1)), **SETS),
}  # fmt: skip

# -- writing ------------------------------------------------------------------------------------------------------

WRITING = {
    "copyto": entry(call(F(3), F(3)), call(F(2, 3), F(3)), call(F(2, 3), F(), where=MASK), call(F(), F()), call(F(3), src=F(1))),
    "put": entry(call(F(4), [0, 2], F(2)), call(F(2, 3), [0, 5], F()), call(F(4), [5], F(1), mode="wrap"),
        call(F(4), [9], F(1), "clip"),
                 call(F(4), [0, 1, 3], F(2)), call(F(4), ind=2, v=F())),
    "put_along_axis": entry(call(F(2, 3), np.array([[0], [2]]), F(2, 1), 1), call(F(3), np.array([1]), F(1), 0),
                            call(F(2, 3), np.array([4]), F(), None), call(F(2, 3), np.array([[1, 0, 1]]), F(3), axis=0),
                            call(F(2, 3), np.array([[0], [2]]), values=F(), axis=-1)),
    "putmask": entry(call(F(3), MASK[0], F(3)), call(F(2, 3), MASK, F()), call(F(2, 3), MASK, F(2)), call(F(1), [True], F(1))),
    "place": entry(call(F(3), MASK[0], F(2)), call(F(2, 3), MASK, F(3)), call(F(2, 3), mask=MASK, vals=F(1)),
        call(F(1), [True], F(1))),
    "fill_diagonal": entry(call(F(3, 3), F()), call(F(2, 3), F(2)), call(F(4, 2), F(), True), call(F(4, 2), val=F(), wrap=True),
                           call(F(2, 2, 2), F()), call(F(1, 1), 1.0)),
}  # fmt: skip
WRITING = {name: [c.but(run=writes) for c in calls] for name, calls in WRITING.items()}

CASES = MAKING | SHAPE | JOINING | REARRANGING | PICKING | WRITING
