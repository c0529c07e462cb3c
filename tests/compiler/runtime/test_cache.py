"""Object code on disk: kept, found, checked, limited."""

import os
import stat
import subprocess
import sys
import textwrap

import pytest

from adjoint.compiler.runtime import cache


@pytest.fixture
def place(tmp_path, monkeypatch):
    folder = tmp_path / "objects"
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(folder))
    return folder


def test_written_values_are_read(place):
    name = cache.key("text", "processor")
    assert cache.read(name) is None
    cache.write(name, b"code")
    assert cache.read(name) == b"code"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_keys_tell_parts_apart():
    assert cache.key("ab", "c") != cache.key("a", "bc")


def test_the_home_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ADJOINT_CACHE_DIR", "~/objects")
    assert cache.folder() == str(tmp_path / "objects")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it gives for a user without a home
    assert cache.folder() is None


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:50] + b"x" + d[51:], lambda d: b"", lambda d: b"x" + d])
def test_a_damaged_entry_is_thrown_away(place, damage):
    name = cache.key("text")
    cache.write(name, b"code" * 20)
    path = place / f"{name}.o"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(name) is None
    assert not path.exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_an_entry_that_others_may_write_to_is_not_run(place):
    name = cache.key("text")
    cache.write(name, b"code")
    (place / f"{name}.o").chmod(0o666)
    assert cache.read(name) is None
    place.chmod(0o777)
    cache.write(cache.key("other"), b"code")
    assert cache.read(cache.key("other")) is None


def test_nothing_is_kept_if_the_folder_is_empty(monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_DIR", "")
    cache.write("name", b"code")
    assert cache.folder() is None
    assert cache.read("name") is None


def test_a_folder_that_cannot_be_made_is_not_an_error(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(file / "inside"))
    cache.write("name", b"code")
    assert cache.read("name") is None


def test_the_oldest_go_when_it_grows_too_large(place, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 3000)
    for i in range(5):
        cache.write(f"{i}", b"x" * 900)
        os.utime(place / f"{i}.o", (i, i))
    kept = sorted(p.stem for p in place.glob("*.o"))
    assert kept == ["2", "3", "4"]


PROGRAM = textwrap.dedent(
    """
    import numpy as np, adjoint as ad
    f = ad.jit(ad.grad(lambda x: np.sum(np.sin(x) * x)))
    x = np.linspace(0, 1, 100)
    np.testing.assert_allclose(f(x), np.sin(x) + x * np.cos(x))
    print(f.lower(x).native.was_cached)
    """
)


def run(folder):
    environment = {**os.environ, "ADJOINT_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment)


def test_a_second_process_compiles_nothing(tmp_path):
    assert run(tmp_path / "objects").communicate()[0].strip() == "False"
    assert run(tmp_path / "objects").communicate()[0].strip() == "True"


def test_many_processes_at_once(tmp_path):
    running = [run(tmp_path / "objects") for _ in range(4)]
    assert {p.communicate()[0].strip() for p in running} <= {"True", "False"}
    assert all(p.returncode == 0 for p in running)
    assert (
        len(list((tmp_path / "objects").iterdir())) == 4
    )  # the program and its code, the entry point and the threads that all share
