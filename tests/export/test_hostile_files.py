"""Damaged and hostile files: each is refused by name, in little time and memory, and nothing is written.

ADJOINT_MUTATIONS says how many are tried (a few hundred; nightly 10,000), ADJOINT_SEED from which seed on.
"""

import hashlib
import io
import json
import os
import pathlib
import random
import re
import resource
import time
import zipfile

import pytest

import adjoint as ad
from adjoint.export.container import SavedProgramError

MUTATIONS = int(os.environ.get("ADJOINT_MUTATIONS", "300"))
SEED = int(os.environ.get("ADJOINT_SEED", "0"))
FILES = sorted((pathlib.Path(__file__).parent / "files").glob("*/*.adjoint"))
BATCHES = 6
SLOWEST = 10.0  # seconds for a file of some kilobytes, on a busy machine
WORDS = [
    "float64[]", "float64[999999999999]", "float32[3]", "int64[0,4]", "bool[]", "complex128[2]", "v0", "v1", "v99999999999", "c0",
    "x", "-1", "10000000000000000000000", "nan", "inf", "None", "True", "()", "(0,)", "(-1, 5)", "(1000000, 1000000, 1000000)",
    "1e308", "...", "slice(None, None, -1)", "slice(0, 10000000000000, 1)", "dtype('O')", "dtype('float64')", "''", "'->'", "'L'",
    "axis=(99,)", "shape=(1000000000000,)", "length=1000000000000", "graph", "return", "{", "}", "body", "const", "file", "hex",
    "=", "#", ",", "lambda: 0", "constants/0.npy", "scan", "while", "cond", "einsum", "reshape", "broadcast_to", "getitem",
    "scatter_add", "concatenate", "windows", "sort", "fft", "svd", "expm", "roots", "convolve", "checkpoint", "root", "cast",
    "shape=(0,)", "n=1000000000",
]  # fmt: skip
JSON = [None, True, -1, 1e300, "", "*", "x" * 10000, [], {}, ["*"]]
JSON += [{"tuple": []}, {"list": ["*"]}, {"dict": [["1", "*"]]}, {"class": "a:b"}]


def unpacked(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def sealed(parts, manifest):
    """With the checksums that fit: what is wrong is not the damage but the contents."""
    sums = {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in parts.items() if n != "manifest.json"}
    whole = {**manifest, "files": sums} if isinstance(manifest, dict) else manifest
    return packed({**parts, "manifest.json": json.dumps(whole).encode()})


def bytes_changed(draw, data):
    """Flipped, cut, repeated, exchanged."""
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        at = draw.randrange(len(data) + 1)
        length = draw.choice([1, 2, 4, 8, draw.randrange(64)])
        kind = draw.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = draw.randrange(256)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = bytes(draw.choice([0, 255, draw.randrange(256)]) for _ in range(length))
        elif kind == 3:
            data[at : at + length] = draw.choice([b"\xff", b"\0"]) * length
        else:
            data[at:at] = data[draw.randrange(len(data) + 1) :][:length]
    return bytes(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.1 else data)


def text_changed(draw, text):
    lines = text.split("\n")
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(lines))
        kind = draw.randrange(6)
        if kind == 0:
            lines.insert(at, draw.choice(lines))
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        elif kind == 2:
            other = draw.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            tokens = re.split(r"(\w[\w.]*(?:\[[0-9,]*\])?|[(){}\[\],=#])", lines[at])
            place = draw.randrange(len(tokens))
            tokens[place] = draw.choice([draw.choice(WORDS), draw.choice(tokens), "", draw.choice(WORDS) * 20])
            lines[at] = "".join(tokens)
    return "\n".join(lines)


def json_changed(draw, value):
    """A JSON value with one part replaced."""
    if draw.random() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return draw.choice(JSON)
    copied = value.copy()
    place = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if draw.random() < 0.1:
        del copied[place]
    else:
        copied[place] = json_changed(draw, value[place])
    return copied


def mutated(draw, data, other):
    kind = draw.randrange(6)
    if kind == 0:
        return bytes_changed(draw, data)
    parts = unpacked(data)
    manifest = json.loads(parts["manifest.json"])
    if kind == 1:
        return sealed(parts, json_changed(draw, manifest))
    if kind == 2:
        name = draw.choice(list(parts))
        return sealed({**parts, name: bytes_changed(draw, parts[name])}, manifest)
    if kind == 3:
        return sealed({**parts, "graph.txt": unpacked(other)["graph.txt"]}, manifest)
    return sealed({**parts, "graph.txt": text_changed(draw, parts["graph.txt"].decode()).encode()}, manifest)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutations_are_refused_or_valid(batch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    originals = [path.read_bytes() for path in FILES]
    originals = [data for data in originals if len(data) < 30_000] + [data for data in originals if len(data) >= 30_000]
    loaded, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(batch, MUTATIONS, BATCHES):
        draw = random.Random(f"{SEED} {i}")
        path = tmp_path / "mutated"
        path.write_bytes(mutated(draw, draw.choice(originals), draw.choice(originals)))
        started = time.process_time()
        try:
            ad.load(path).check()
            loaded += 1
        except SavedProgramError:
            pass
        except BaseException as error:
            error.add_note(f"seed {SEED}, mutation {i}")
            raise
        assert time.process_time() - started < SLOWEST, f"seed {SEED}, mutation {i}"
        assert [p.name for p in tmp_path.iterdir()] == ["mutated"]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 1500, f"{grown:.0f} MB"
    assert loaded < MUTATIONS / BATCHES
