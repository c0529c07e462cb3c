"""The pictures in README and docs are those that tools/pictures.py makes, and it still makes them."""

import importlib.util
import re
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pictures)


@pytest.mark.parametrize("name", pictures.still())
def test_still_pictures_are_up_to_date(name):
    written = (pictures.FOLDER / name).read_text(encoding="utf-8")
    assert written == pictures.still()[name] + "\n", "run python tools/pictures.py"


def test_the_explorer_has_its_picture_taken(browser, tmp_path):
    names = pictures.moving(browser, tmp_path)
    for name in names:
        for folder in (tmp_path, pictures.FOLDER):
            data = (folder / name).read_bytes()
            assert data.startswith(b"\x89PNG")
            assert struct.unpack(">II", data[16:24]) == (1180, 800)
            assert 10_000 < len(data) < 200_000


@pytest.mark.parametrize("page", ["README.md", "docs/explorer.md"])
def test_pages_show_pictures_that_exist(page):
    file = ROOT / page
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", file.read_text(encoding="utf-8"))
    assert shown
    assert all((file.parent / name).exists() for name in shown)
