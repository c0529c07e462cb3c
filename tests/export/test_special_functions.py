"""Special functions as exporters write them, against SciPy's: over their whole domain, at poles, zeros and infinities."""

import numpy as np
import pytest
import scipy.special

from adjoint.export.special_functions import EXPANSIONS

RNG = np.random.default_rng(0)
SCALES = 10 ** RNG.uniform(-12, 2.5, 300) * RNG.choice([-1, 1], 300)
LINE = np.concatenate([
    RNG.normal(size=200), RNG.normal(size=200) * 10, SCALES,
    [0.0, -0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, 1.5, 2.5, 8.0, -8.0, 12.0, 28.0, 170.0, 171.5, 172.0, np.inf, -np.inf, np.nan],
])  # fmt: skip
UNIT = np.concatenate([RNG.uniform(0, 1, 300), 10 ** RNG.uniform(-300, 0, 100), 1 - 10 ** RNG.uniform(-15, 0, 100), [0.0, 1.0]])
PAIRS = RNG.choice(LINE, 800), RNG.choice(LINE, 800)
POSITIVE = np.abs(PAIRS[0]), RNG.choice([0.0, 0.5, 1.0, -1.0, 2.0, 1e-20, -0.3], 800)
SHAPES = RNG.uniform(1e-3, 80, (2, 500))
#: Where a function is compared, if not on the line.
ARGUMENTS = {
    **dict.fromkeys(("erfinv", "ndtri", "logit"), (UNIT,)),
    "erfcinv": (2 * UNIT,),
    "zeta": (1 + 10 ** RNG.uniform(-3, 2, 500), 10 ** RNG.uniform(-3, 4, 500)),
    **dict.fromkeys(("beta", "betaln"), SHAPES),
    **dict.fromkeys(("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"), POSITIVE),
    **dict.fromkeys(("agm", "rel_entr", "kl_div", "huber"), PAIRS),
    "pseudo_huber": (np.nan_to_num(PAIRS[0], posinf=9.0), PAIRS[1]),  # SciPy's is nan for an infinite delta
    "powm1": (np.abs(PAIRS[0]), np.clip(PAIRS[1], -20, 20)),  # SciPy's is 0 where it overflows
    "radian": (*PAIRS, PAIRS[0]),
    "cotdg": (np.linspace(-400, 400, 301),),  # SciPy's is wrong near 0
    "exp10": (np.linspace(-300, 308, 301),),  # SciPy's is 0 before it underflows
}
#: Near a zero, an error relative to the terms of a difference: the size of the terms.
ABSOLUTE = {
    "gammaln": 1,
    "loggamma": 1,
    "betaln": 1,
    "psi": 1,
    "j0": 1,
    "j1": 1,
    "y0": 1,
    "y1": 1,
    "rel_entr": 1,
    "kl_div": 10,
    "cosm1": 1,
}


@pytest.mark.parametrize("op", EXPANSIONS, ids=lambda op: op.name)
@np.errstate(all="ignore")
def test_against_scipy(op):
    args = ARGUMENTS.get(op.name, (LINE,))
    found, wanted = np.asarray(EXPANSIONS[op](*args)), getattr(scipy.special, op.name)(*args)
    np.testing.assert_allclose(found, wanted, 3e-13, ABSOLUTE.get(op.name, 0) * 3e-15, err_msg=op.name)
