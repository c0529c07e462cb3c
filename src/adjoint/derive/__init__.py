"""From an op's one declaration to its JVP, VJP, batched form and type rule. The only place that does.

    sin = elementwise("sin", np.sin, partials=lambda y, x: (cos(x),))

    jvp   t ↦ t · cos(x)             push(sin, y, (x,), (t,), {})
    vjp   g ↦ g · cos(x)             plan(sin, 1, 0b1).pull(g, saved, types, {})
    saves x, and not y               plan(sin, 1, 0b1).keep == (DROP, VALUE)

`partials` is traced once per op and split into one function per partial, so that only the partials that are needed are computed
and the values that each one reads are known. A tape saves only those.
"""

from .batching import batched, type_rule
from .coupling import any_along, coupled, coupled_all, coupled_forward, is_declared
from .forward import push
from .partials import Partial, define, split
from .products import Decay, decays, doubted, for_finite_numbers, has_zeros, product_of_tangents
from .reverse import DROP, TYPE, VALUE, ReversePlan, plan, transposes, watched

__all__ = [
    "DROP",
    "TYPE",
    "VALUE",
    "Decay",
    "Partial",
    "ReversePlan",
    "any_along",
    "batched",
    "coupled",
    "coupled_all",
    "coupled_forward",
    "decays",
    "define",
    "doubted",
    "for_finite_numbers",
    "has_zeros",
    "is_declared",
    "plan",
    "product_of_tangents",
    "push",
    "split",
    "transposes",
    "type_rule",
    "watched",
]
