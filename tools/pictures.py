"""Make the pictures of README and docs, with the driver of the explorer's tests: python tools/pictures.py

The still ones come from `Program.svg()`. The others are screenshots of the explorer in Chromium.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import adjoint as ad

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"


def textbook(x1, x2):
    return np.log(x1) + x1 * x2 - np.sin(x2)


def loss(w, x, target):
    return np.mean((np.tanh(x @ w) - target) ** 2)


def network(x, layers):
    for w, b in layers:
        x = np.tanh(x @ w + b)
    return np.sum(x**2)


def layers(depth=50, width=6):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((width, width)) / 2, rng.standard_normal(width) / 2) for _ in range(depth)]


def still():
    """The texts of the SVG files, by name."""
    gradient = ad.graph(ad.grad(loss))(np.ones(3), np.ones((5, 3)), np.ones(5))
    return {
        "textbook.svg": ad.graph(textbook)(2.0, 5.0).svg(),
        "gradient.svg": gradient.simplify().svg(),
    }


def moving(browser, folder):
    """Drive the explorer and take pictures of it; the names of the files."""
    with tempfile.TemporaryDirectory() as place:
        page = ad.graph(textbook)(2.0, 5.0).html(Path(place) / "textbook.html", 2.0, 5.0)
        tab = browser.open(page.as_uri(), width=1180, height=800)
        tab.key("ArrowRight", 10)  # forward to the output, and back to v5
        tab.screenshot(folder / "explorer.png")
        tab.close()

        inputs = np.linspace(-1, 1, 6), layers()
        page = ad.graph(ad.grad(network, argnums=1))(*inputs).html(Path(place) / "network.html", *inputs)
        tab = browser.open(page.as_uri(), width=1180, height=800, dark=True)
        tab.click(".node.group")
        tab.screenshot(folder / "folded.png")
        tab.close()
    return ["explorer.png", "folded.png"]


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, text in still().items():
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")
    with Browser() as browser:
        moving(browser, FOLDER)
    for file in sorted(FOLDER.iterdir()):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
