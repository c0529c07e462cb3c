"""State that the code of installed packages keeps: a compiled function sees that it changes."""

import sys
import textwrap

import mpmath
import numpy as np
import pytest

import adjoint as ad
from adjoint.core import home
from adjoint.staging import classify

SOURCE = {
    "__init__": """
        from . import settings
        from .model import Model, model, scaled, deep, cached, counted, made, OPTIONS, Config
        RATE = 2.0
        def by_global(x): return RATE * x
        def by_settings(x): return settings.scale * x
        def by_default(x, k=3.0): return k * x
        def nested(x): return by_global(x) + by_settings(x)
        def set_rate(value):
            global RATE
            RATE = value
    """,
    "settings": "scale = 3.0\nlimits = [1.0, 2.0]\nmode = 'sum'\n",
    "model": """
        import functools
        from . import settings
        OPTIONS = {"shift": 1.0}
        class Config:
            rate = 5.0
            def __init__(self): self.own, self.limits = 2.0, [1.0, 3.0]
            @property
            def doubled(self): return 2 * self.own
        class Model:
            def __init__(self): self.config = Config()
            def run(self, x): return x * self.config.own + self.config.rate + self.config.limits[1]
            def doubled(self, x): return x * self.config.doubled
        model = Model()
        def scaled(x): return model.run(x) if settings.mode == "sum" else x
        def deep(x): return x * settings.limits[0] + OPTIONS["shift"]
        _cache = {}
        def cached(x):
            _cache.setdefault(len(_cache) % 5, len(_cache))
            return x * settings.scale
        calls = 0
        def counted(x):
            global calls
            calls += 1
            return x * settings.scale
        def _make(config):
            def inner(x): return x * config.own
            return inner
        made = _make(model.config)
    """,
}

# How a function calls the package, and what changes in it between calls.
WAYS = {
    "a global": ("p.by_global(x)", ["p.RATE = 5.0", "p.set_rate(-1.0)", "p.RATE = 2", "p.RATE = 2.0"]),
    "a module of settings": ("p.by_settings(x)", ["p.settings.scale = 4.0", "p.settings.scale = np.float32(2)"]),
    "a function of functions": ("p.nested(x)", ["p.RATE = 0.5", "p.settings.scale = 0.25"]),
    "an object": ("p.scaled(x)", ["p.model.config.own = 7.0", "p.model.config.limits[1] = 0.0", "p.settings.mode = 'mean'"]),
    "a class": ("p.scaled(x)", ["p.Config.rate = 1.0", "p.model.config.rate = 2.0", "del p.model.config.rate"]),
    "a method": ("p.model.run(x)", ["p.model.config.own = 7.0", "p.Config.rate = 0.0"]),
    "a bound method": ("run(x)", ["p.model.config.own = 7.0"]),
    "a property": ("p.model.doubled(x)", ["p.model.config.own = 7.0"]),
    "an attribute of an object": ("x * p.model.config.own", ["p.model.config.own = 7.0"]),
    "a list and a dict": ("p.deep(x)", ["p.settings.limits[0] = 9.0", "p.OPTIONS['shift'] = 2.0", "p.settings.limits = [0.0]"]),
    "a closure": ("p.made(x)", ["p.model.config.own = 7.0"]),
    "a class that is called": ("p.Model().run(x)", ["p.Config.rate = 1.0"]),
    "a package that fills a cache": ("p.cached(x)", ["p.settings.scale = 4.0"]),
    "a package that counts": ("p.counted(x)", ["p.settings.scale = 4.0"]),
    "plain numbers": ("x * p.scaled(2.0)", ["p.model.config.own = 7.0", "p.Config.rate = 0.0"]),
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "installed_state"
    folder.mkdir()
    for name, text in SOURCE.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(classify, "_INSTALLED", (str(tmp_path),))
    monkeypatch.setattr(home, "INSTALLED", (str(tmp_path),))
    import installed_state

    yield installed_state
    for name in [name for name in sys.modules if name.partition(".")[0] == "installed_state"]:
        del sys.modules[name]


MODES = {"value": lambda f: f, "grad": ad.grad, "vmap": lambda f: lambda x: ad.vmap(f)(x * np.arange(1.0, 3.0))}


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_changes_are_seen(package, way, mode):
    text, changes = WAYS[way]
    space = {"p": package, "np": np, "run": package.model.run}
    f = MODES[mode](eval(f"lambda x: {text}", space))
    compiled = ad.jit(f)
    for change in ["", *changes]:
        exec(change, space)
        for x in (1.5, 2.5):
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14, err_msg=change)


def test_what_a_package_writes_itself_is_not_compared(package):
    for f in (lambda x: package.cached(x), lambda x: package.counted(x)):
        compiled = ad.jit(f)
        for _ in range(6):
            compiled(2.0)
        (programs,) = compiled.specializations.values()
        assert len(programs) == 1


@pytest.mark.filterwarnings("ignore:.*compiled again for the third time")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * mpmath.mp.dps,
        lambda x: x * len(mpmath.nstr(mpmath.pi, 1000)),
        lambda x: x * float(mpmath.sqrt(2) * 10**20 - int(mpmath.sqrt(2) * 10**20)),
        lambda x: x * len(str(mpmath.mpf(1) / 3)),
    ],
)
def test_the_precision_of_mpmath(f):
    compiled = ad.jit(f)
    for digits in (15, 30, 15, 50):
        with mpmath.workdps(digits):
            assert compiled(2.0) == f(2.0)
