"""Random programs over all dtypes: keywords of NumPy's functions, `out=`, transforms and loops inside, odd shapes.

They are made as those of `mixed.py` are, of other expressions and statements. Arguments have any float or complex dtype, and any
dtype at all where they are not differentiated; some have no elements, or no axes.
"""

import mixed
from inplace import table

DTYPES = ("float64", "float64", "float32", "float16", "complex64", "complex128", "longdouble", "clongdouble")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")

# a and b: values, mask: of a's shape, axes: some axes of a, or None, keep: a bool, dtype: any, casting: a rule, t: a number.
VALUES = table("""
    np.sum({a}, axis={axes}, keepdims={keep}) | np.mean({a}, axis={axes}, keepdims={keep})
    np.max({a}, axis={axes}, keepdims={keep}) | np.min({a}, axis={axes}, initial=2, where={mask})
    np.prod({a}, axis={axes}, where={mask}, initial=2, keepdims={keep}) | np.std({a}, axis={axes}, where={mask})
    np.var({a}, axis={axes}, correction=0.5, keepdims={keep}) | np.var({a}, ddof=1, axis={axis}) | np.mean({a}, where={mask})
    np.any({mask}, axis={axes}, keepdims={keep}) | np.all({a}, axis={axes}) | {a}.max(axis={axes})
    np.sum({a}, dtype=np.{dtype}) | np.sum({a}, axis={axes}, dtype=np.{dtype}, where={mask}) | np.prod({a}, dtype=np.{dtype})
    np.cumsum({a}, axis={axis}, dtype=np.{dtype}) | np.cumprod({a}, dtype=np.{dtype})
    np.mean({a}, dtype=np.{dtype}, axis={axes}) | np.std({a}, dtype=np.{dtype}) | {a}.sum(axis={axes}, dtype=np.{dtype})
    np.nansum({a}, axis={axes}) | np.nanmean({a}, axis={axes}) | np.nanmax({a}, axis={axis}) | np.nanvar({a}, axis={axis})
    np.nancumsum({a}) | np.count_nonzero({a}, axis={axes}, keepdims={keep}) | np.linalg.norm({a}, axis={axis})
    np.linalg.norm({a}, 1, axis={axis}) | np.linalg.norm({a}, np.inf, axis={axis}, keepdims={keep})
    np.median({a}, axis={axes}) | np.quantile({a}, [0.3, 0.5], axis={axis})
    np.percentile({a}, 40, axis={axes}, keepdims={keep}) | np.average({a}, axis={axis}, weights=np.abs({a}) + 1)
    np.ptp({a}, axis={axis}) | np.logaddexp.reduce({a}, axis={axis}) | np.add.reduce({a}, axis={axes})
    np.multiply.reduce({a}, axis={axis}) | np.multiply.accumulate({a}, axis=0) | np.add.outer({a}, {b})
    np.maximum.reduce({a}, axis={axis}, keepdims={keep}) | np.add.reduceat({a}, [0, 1, 0]) | np.maximum.accumulate({a})
    np.add({a}, {b}, dtype=np.{dtype}, casting={casting}) | np.multiply({a}, {b}, dtype=np.{dtype})
    np.sin({a}, dtype=np.{dtype}) | np.subtract({a}, {t}, casting={casting}) | np.sin({a}, where={mask}, out=np.ones_like({a}))
    np.divide({a}, 3, where={mask}, out=np.zeros({a}.shape))
    np.exp(-np.abs({a}), out=np.zeros({a}.shape, np.{dtype}), casting={casting}) | {a}.astype(np.{dtype})
    {a}.astype(np.{dtype}, casting={casting}) | np.asarray({a}, np.{dtype}) | np.array({a}, np.{dtype}, copy=None)
    np.zeros_like({a}, dtype=np.{dtype}) + {b} | np.full_like({a}, {t}) * {a} | np.{dtype}(2) * {a} | {a} ** np.{dtype}(2)
    np.ones_like({a}, dtype=np.{dtype}) * {a} | np.full({a}.shape, {b}.sum(), np.{dtype}) | np.where({mask}, {a}, np.{dtype}(1))
    np.concatenate([{a}, {b}], dtype=np.{dtype}, casting={casting}) | np.stack([{a}, {b}], axis=-1)
    np.concatenate([{a}, {b}], axis={axis}) | np.concatenate([{a}, {b}], axis=None) | np.stack([{a}, {a}.astype(np.{dtype})])
    np.maximum({a}, np.{dtype}(1)) | {a} + True | {a} // 2 | {a} % 3 | np.fmod({a}, 3) | {a} & 3 | np.bitwise_or({a}, 1)
    {a} ^ 5 | ~{a} | {a} << 1 | {a} >> 1 | divmod({a}, 3)[1] | np.gcd({a}, 4) | np.power({a}, 2) | np.float_power({a}, 2)
    np.square({a}) | {a} ** 3 | np.bincount({a}, minlength=3) | np.clip({a}, 0, 1) | np.clip({a}, None, {t})
    np.heaviside({a}, 0.5) | np.copysign({a}, {b}) | np.ldexp({a}, 1) | np.nextafter({a}, 9) | np.trunc({a}) | np.round({a})
    np.round({a}, 1) | np.rint({a}) | np.isnan({a}) | np.signbit({a}) | np.logical_xor({a}, {b}) | np.equal({a}, {b})
    np.sign({a}) | np.absolute({a}) | np.angle({a} + 2) | np.real_if_close({a}) | np.conjugate({a}) * 1j | {a}.imag | {a}.real
    np.fft.fft({a}) | np.fft.ifft({a}) | np.fft.rfft({a}) | np.fft.irfft({a}) | np.fft.fft({a}, n=5, axis=0)
    np.fft.rfft({a}, n=2) | np.fft.fft({a}, norm='ortho') | np.fft.fft2({a}) | np.fft.fftn({a}) | np.fft.fftshift({a})
    np.fft.hfft({a}) | np.fft.irfft({a}, n=5) | np.fft.ihfft({a}) | np.fft.rfftn({a}) | np.fft.irfftn({a})
    np.real(np.fft.ifft(np.fft.fft({a}) * 0.5)) | np.fft.fftfreq({a}.size) * {t} | {a}[::-1].reshape(-1) | {a}.T.reshape(-1)
    np.broadcast_to({a}[None], (2, *{a}.shape)) | np.swapaxes({a}, 0, -1) | {a}.T @ {a}
    np.lib.stride_tricks.sliding_window_view({a}, 2, axis=-1) | {a}[..., None] | {a}.swapaxes(0, -1).ravel('F')
    {a}.T[::-1].ravel() | {a}.reshape({a}.shape[::-1], order='F') | np.broadcast_to({a}.sum(axis=0), {a}.shape)[::-1]
    {a}[..., ::-2] | np.moveaxis({a}, 0, -1) | np.flip({a}, axis={axis})[:1] | np.rot90({a}) | {a}.reshape(-1, 1)[::-1].T
    np.expand_dims({a}, (0, -1)) | np.squeeze({a}) | {a}[:0] | {a}[..., :0].sum(axis=-1) | np.concatenate([{a}[:0], {a}])
    np.sum({a}[:0]) | {a}[np.array([], int)] | np.prod({a}[1:1]) | {a}[:0].mean(axis=-1) | np.cumsum({a}[:0])
    {a}[:0] @ {a}[:0].T | {a}[:0].T @ {a}[:0] | np.sort({a}[..., :0]) | np.split({a}, [0])[0] | np.max({a}[:0], initial=1)
    np.outer({a}[:0], {b}) | np.pad({a}[:0], 1) | np.zeros((0, 2)) @ np.ones((2, 3)) * {a}.sum() | {a}[{a} > 99]
    np.array({a}.sum()) | {a}.sum()[()] | {a}.sum()[None] | {a}.sum()[...] | {a}.sum(keepdims=True) | {a}.sum().reshape(1, 1)
    np.atleast_2d({a}.max()) | np.asarray({a}.mean()) * 2 | np.array({a}.sum()) @ np.ones(()) if 0 else np.sum({a})
    np.array(2.0) * {a} | np.array(3, np.{dtype}) + {a} | np.ravel({a}.min()) | np.transpose({a}.sum())
    np.broadcast_to({a}.sum(), (2, 0)) | np.cumsum({a}.sum()) | np.linalg.inv(3 * np.eye(2) + 0.1 * np.outer({a}[:2], {b}[:2]))
    np.linalg.solve(3 * np.eye(2) + np.tanh(np.outer({a}[:2], {b}[:2])), {a}[:2])
    np.linalg.det({a} @ {a}.T + np.eye(len({a}))) | np.linalg.cholesky({a} @ {a}.T + np.eye(len({a})))
    np.linalg.slogdet({a} @ {a}.T + np.eye(len({a})))[1] | np.linalg.eigvalsh({a} @ {a}.T + np.diag(np.arange(len({a})) * 3))
    np.linalg.svd({a}, compute_uv=False) | np.linalg.matrix_power({a}, 2) | np.linalg.qr({a} + 3 * np.eye(3))[1]
    np.linalg.pinv({a} + 3 * np.eye(3)) | np.kron({a}, {b}) | np.cross({a}, {b} + 1) | np.linalg.multi_dot([{a}, {a}.T, {a}])
    np.einsum('...i,...i->...', {a}, {b}) | np.einsum('ij,kj->ik', {a}, {a}) | np.einsum('ii', {a})
    np.tensordot({a}, {b}, axes=0) | np.vecdot({a}, {a}) | np.matvec({a}, {a}[..., 0, :]) | np.convolve({a}, {b})
    np.correlate({a}, {b}, mode='same') | np.trapezoid({a}) | np.gradient({a}) | np.vander({a}, 3)
    np.polyval([0.5, 0.2, 1], {a}) | np.cov({a}) | np.unwrap({a}) | np.diff({a}, n=2) | np.diff({a}, prepend=0)
    np.ediff1d({a}) | np.delete({a}, 0, axis=0) | np.insert({a}, 1, {t}, axis=0) | np.tril({a}, -1)
    np.roll({a}, (1, 2), axis=(0, -1)) | np.choose({mask} * 1, [{a}, {b}]) | np.take({a}, [0, 5, -1], mode='wrap')
    np.take({a}, [[0], [9]], mode='clip') | np.take_along_axis({a}, np.argsort({a}, axis=-1), -1) | np.partition({a}, 1)[..., 1]
    np.sort({a}, axis=None) | np.unique({a}) | np.piecewise({a}, [{mask}], [lambda v: v * 2, 0.5]) | np.nan_to_num({a})
    np.extract({mask}, {a}) | np.lexsort(({a},)) | np.repeat({a}, [1, 2, 0], axis=0) | np.meshgrid({a}, {b})[0]
    np.apply_along_axis(np.sum, 0, {a}) | np.linspace({a}, {a} + 1, 3) | np.interp({t}, np.arange(3.0), {a}) | np.sinc({a})
    np.i0({a}) | np.fix({a}) | np.digitize({a}, [0.1, 0.9]) | ad.grad(lambda u: np.sum(np.sin(np.real(u)) * {t}))({a})
    ad.jvp(lambda u: np.tanh(u) * {b}, ({a},), ({a} * np.{dtype}(1),))[1]
    ad.jvp(lambda u: np.tanh(u) * {b}, ({a},), ({a},))[1] | ad.vjp(lambda u: np.sin(u) * {lam}, {a})[1](np.cos({a}))[0]
    ad.vmap(lambda u: np.sum(u * u))({a}) | ad.vmap(lambda u: u * {lam}, in_axes=-1)({a})
    ad.vmap(ad.grad(lambda u: np.sum(u ** 3)))({a})
    ad.vmap(lambda u, w: np.outer(u, w), in_axes=(0, None), out_axes=1)({a}, {b})
    ad.grad(lambda u: np.sum(ad.vmap(lambda r: np.sum(r) ** 2)(u)))({a}) | ad.hvp(lambda u: np.sum(np.sin(u) * u))({a}, {a})
    ad.jacobian(lambda u: np.cumsum(u * u))({a}) | ad.jacfwd(lambda u: np.sin(u) * {lam})({a})
    ad.hessian(lambda u: np.sum(np.sin(u) * u))({a}) | ad.grad(ad.grad(lambda u: np.sin(u) * {lam}))({a}.sum())
    ad.jit(lambda u: np.tanh(u) * {lam})({a}) | ad.jit(ad.grad(lambda u: np.sum(np.sin(u) ** 2)))({a})
    ad.checkpoint(lambda u: np.sin(u) * {lam})({a}) | ad.linearize(lambda u: np.sin(u) * {lam}, {a})[1]({a})
    ad.elementwise_grad(np.sin)({a}) | ad.value_and_grad(lambda u: np.sum(np.cos(u)))({a})[1]
    ad.derivative(lambda u: np.sin(u) * {a})({t}) | ad.jvp(ad.grad(lambda u: np.sum(u ** 3)), ({a},), ({b},))[1]
    ad.map(lambda u: u * u, {a}) | doubled({a}) | squared({a}) | doubled(squared({a}))
    ad.grad(lambda u: np.sum(doubled(u) * u))({a}) | ad.vmap(squared)({a}) | ad.jit(doubled)({a})
    ad.scan(lambda c, r: (c * 0.9 + r, c), {a}[0], {a})[1]
    ad.scan(lambda c, r: (c * 0.5 + np.sum(r), r * c), np.sum({a}), {a})[0]
    ad.scan(lambda c, r: (np.tanh(c + r), c), {a}[0], {a}, reverse=True)[0]
    ad.cond(np.sum(np.real({a})) > {t}, np.sin, lambda u: u * 2.0, {a})
    ad.fori_loop(0, {n}, lambda i, u: np.sin(u) * 0.9 + i * {lam}, {a})
    ad.while_loop(lambda c: c[0] < {n}, lambda c: (c[0] + 1, np.tanh(c[1])), (0, {a}))[1]
    ad.cond({lam} > 1, lambda u: u * {lam}, np.cos, {a}) | ad.vmap(lambda u: ad.cond(np.sum(u) > 0.1, np.sin, np.cos, u))({a})
    ad.grad(lambda u: np.sum(ad.fori_loop(0, 3, lambda i, w: np.sin(w) * u, u)))({a})
    ad.checkpoint(lambda u, w: np.tanh(u * w))({a}, {b})
""")

STATEMENTS = table("""
    {new} = np.zeros({v}.shape, {v}.dtype); np.sin({v}, out={new})
    {new} = np.zeros({v}.shape, np.{dtype}); np.add({v}, 1, out={new}, where={mask})
    {new} = np.ones({v}.shape, np.{dtype}); np.multiply({v}, 2, out={new}, casting={casting})
    {new} = np.zeros({v}.shape[1:], {v}.dtype); np.sum({v}, axis=0, out={new})
    {new} = np.zeros({v}.shape[1:], np.{dtype}); {v}.mean(axis=0, out={new})
    {new} = np.zeros_like({v}); np.cumsum({v}.ravel(), out={new}.reshape(-1))
    {new} = np.zeros_like({v}); np.clip({v}, -0.5, 0.5, out={new})
    {new} = np.zeros((2, *{v}.shape[1:]), {v}.dtype); np.take({v}, [0, 0], axis=0, out={new}, mode='clip')
    {new} = np.zeros((len({v}), len({v})), {v}.dtype); np.matmul({v}, {v}.T, out={new})
    {new} = np.zeros({v}.shape, {v}.dtype); np.round({v}, 1, out={new})
    {new} = np.zeros((2, *{v}.shape), np.{dtype}); np.stack([{v}, {a}], out={new}, casting={casting})
    {new} = np.zeros({v}.shape, np.{dtype}); np.copyto({new}, {v}, casting={casting}, where={mask})
    {new} = np.zeros({v}.shape, np.{dtype}); {new}[...] = {v} | {new} = np.zeros({v}.shape, np.{dtype}); {new} += {v}
    {new} = np.zeros(3, np.{dtype}); {new}[1:] = {v}.sum()
    {new} = np.ones((2, *{v}.shape)); {new}[0] *= {v}; {new}[1, ...] -= {v} | {new} = {v}.T.copy(); {new}.reshape(-1)[::2] = {t}
    {new} = {v} * 1; {new}[::-1][0] = {t} | {new} = {v} * 1; {new}.T[0] *= 2
    {new} = {v} * 1; part = {new}[..., ::-1]; part += 1; part[..., :1] = {lam} | {new} = {v} * 1; {new}.swapaxes(0, -1)[0] *= 2
    {new} = {v} * 1; part = {new}.T.reshape(-1); part[:1] = {t}; {new} = {new} + part.sum()
    {new} = {v} * 1; {new}.flat[0] = {lam} | {new} = {v} * 1; np.add.at({new}, [0, 0], {t})
    {new} = {v} * 1; np.multiply.at({new}, ([0, -1],), 2) | {new} = {v} * 1; np.maximum.at({new}, [0, 0], 1)
    {new} = {v} * 1; {new}[:0] = 7 | {new} = {v} * 1; {new}[np.zeros(0, int)] += 1 | {new} = {v} * 1; {new}[...] = {new}[::-1]
    {new} = {v} * 1; {new} /= 2 | {new} = {v} * 1; {new} //= 2 | {new} = {v} * 1; {new} **= 2 | {new} = {v} * 1; {new} %= 2
    {new} = {v} * 1; {new} |= 1 | {new} = {v} * 1; {new} <<= 1 | {new} = {v} * 1; {new}.real = {t}
    {new} = {v} * 1; {new}.imag = {v}.real | {new} = {v} * 1; {new}.sort() | {new} = {v} * 1; {new}[{mask}] = {v}[{mask}] * 2
    {new} = np.zeros(2, {v}.dtype); np.dot({v}, np.ones((len({v}), 2), {v}.dtype), out={new})
    {new} = np.array(0, {v}.dtype); np.add.reduce({v}, out={new}) | {new} = np.zeros(()); {new}[...] = {v}.sum()
    {new} = np.array({v}.sum()); {new} += 1 | {new} = np.array({v}.max()); {new}[()] = {t}
    loss = lambda u: np.sum(np.sin(u) * {lam}); for i in range(2):;     {v} = {v} - 0.1 * ad.grad(loss)({v})
    def inner(u):;     u = u * 1;     u[:1] = {lam};     return np.sum(u * u); {new} = ad.grad(inner)({v})
    def inner(u):;     w = np.zeros(2, u.dtype);     w[0] = u[0];     return w * {a}.sum(); {new} = ad.vmap(inner)({v})
    def twice(u):;     w = np.zeros_like(u);     np.add(u, u, out=w);     return w; {new} = ad.jvp(twice, ({v},), ({v},))[1]
    fast = ad.jit(lambda u: np.sum(u * {v})); {new} = fast({a}) + fast({a} * 2)
    rows = []; for u in {v}:;     rows.append(ad.grad(lambda w: np.sum(w ** 3))(u)); {new} = np.stack(rows)
    {new} = {v}; for i in range(3):;     {new} = ad.checkpoint(lambda u: np.sin(u) * (i + {lam}))({new})
""")

HELPERS = (
    mixed.HELPERS
    + """

@ad.custom_vjp
def doubled(u):
    return np.sin(u) * 2


doubled.defvjp(lambda u: (doubled(u), u), lambda u, g: (2 * g * np.cos(u),))


@ad.custom_jvp
def squared(u):
    return u * u


squared.defjvp(lambda primals, tangents: (squared(primals[0]), 2 * primals[0] * tangents[0]))
"""
)


class Maker(mixed.Maker):
    """Draws more dtypes, axes and keywords."""

    values, statements, helpers, family = VALUES, STATEMENTS, HELPERS, 94
    dtypes, constants = DTYPES, (*DTYPES, *WHOLE)

    def more(self, v):
        axes = [None, *range(-v.ndim, v.ndim)] if hasattr(v, "ndim") else [None]
        two = [int(i) for i in self.rng.permutation(getattr(v, "ndim", 0))[:2]]
        axes += [tuple(i - v.ndim if self.rng.random() < 0.5 else i for i in two), ()] if two else []
        return {
            "axes": self.pick(axes), "axis": self.pick([0, -1, None, 1]), "keep": self.pick([True, False]),
            "dtype": self.pick(self.constants) if self.rng.random() < 0.6 else self.dtype,
            "casting": repr(self.pick(["no", "equiv", "safe", "same_kind", "same_kind", "unsafe"])),
        }  # fmt: skip

    def statement(self):
        if self.rng.random() < 0.3:  # one of those that all programs are made of
            self.values, self.statements = mixed.VALUES, mixed.STATEMENTS
        else:
            self.values, self.statements = VALUES, STATEMENTS
        return super().statement()


class Program(mixed.Program):
    maker = Maker
