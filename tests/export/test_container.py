"""Saved programs: exact to the bit, refused if they are not valid, and readable in later versions."""

import collections
import dataclasses
import io
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from export import reader

import adjoint as ad
from adjoint.core.errors import ArgumentError, UnsupportedError
from adjoint.core.tree import flatten
from adjoint.export.container import SavedProgramError

X = np.array([0.3, -0.0, 1.5])
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Params:
    w: object
    b: object


def energy(x):
    return np.sum(np.sin(x) * np.arange(3.0))


def step(params, x, y, rate=0.1):
    """One step of training."""

    def loss(p):
        return np.mean((np.tanh(x @ p["w"] + p["b"]) - y) ** 2)

    value, slopes = ad.value_and_grad(loss)(params)
    return {"w": params["w"] - rate * slopes["w"], "b": params["b"] - rate * slopes["b"]}, value


def loop(x):
    return ad.scan(lambda c, v: (np.sin(c) * v, c), x, np.linspace(0, 1, 200))


def branches(x, n):
    def body(u):
        return ad.cond(u > 1.0, lambda u: u + 2, lambda u: u * 3 + x, u)

    return ad.while_loop(lambda u: u < 5.0, body, x), ad.fori_loop(0, n, lambda i, c: c + i, 0)


def nan(bits, dtype):
    return np.array([bits], {8: np.uint64, 4: np.uint32}[np.dtype(dtype).itemsize]).view(dtype)


def specials(x):
    """Constants of every dtype, with the bits of special values."""
    kinds = [np.float16, np.float32, np.float64, np.complex64, np.complex128]
    values = [np.array([np.nan, -np.nan, np.inf, -0.0, 0.1, 5e-324]).astype(d) for d in kinds]
    values += [nan(0xFFF8000000000001, float), nan(0x7FC00123, np.float32), np.array([True, False]), np.arange(3, dtype=np.uint8)]
    values += [np.full((2, 0, 3), 1.0), np.arange(200, dtype=np.int64), np.asfortranarray(np.ones((20, 30)).cumsum(0))]
    scalars = [np.float32(-np.nan), np.float64("inf"), np.int8(-3), np.bool_(True), np.complex64(1 - 0j), -np.float64("nan")]
    return [x, *values, *scalars, float("-nan"), -0.0, 3, True, complex(-0.0, np.nan)]


def tree(p, q):
    return {"z": Pair(p.w * 2, None), "a": [q["k"], ()], 3: collections.OrderedDict(u=np.sum(p.w), t=1.0)}


CASES = {
    "function": (energy, (X,)),
    "gradient": (ad.grad(energy), (X,)),
    "jacobian": (ad.jacobian(lambda x: np.outer(x, x) @ np.ones((3, 100))), (X,)),
    "hessian": (ad.hessian(energy), (X,)),
    "step": (step, ({"w": np.ones((3, 2)), "b": np.zeros(2)}, np.ones((5, 3)), np.ones((5, 2)))),
    "loop": (loop, (0.5,)),
    "gradient of a loop": (ad.grad(lambda x: np.sum(loop(x)[1])), (0.5,)),
    "branches": (branches, (0.7, 4)),
    "specials": (specials, (1.0,)),
    "float32": (lambda x: x * np.float32(2) + 1.5, (X.astype(np.float32),)),
    "jit": (ad.jit(energy), (X,)),
    "matrix": (lambda a: (np.linalg.inv(a), np.linalg.svd(a), np.linalg.cholesky(a @ a.T)), (np.eye(3) + 0.1,)),
    "nothing to do": (lambda x, y: (y, x), (X, 2.0)),
    "empty": (lambda x: x * 2.0, (np.zeros((0, 3)),)),
}


def bits(values):
    return [(type(x), np.asarray(x).dtype, np.shape(x), np.asarray(x).tobytes()) for x in flatten(values)[0]]


def same(a, b, *args, **kwargs):
    one, other = a(*args, **kwargs), b(*args, **kwargs)
    assert flatten(one)[1] == flatten(other)[1]
    assert bits(one) == bits(other)


@pytest.mark.parametrize("name", CASES)
def test_exact_to_the_bit(name, tmp_path):
    f, args = CASES[name]
    program = ad.graph(f)(*args)
    same(ad.load(ad.save(tmp_path / "f.adjoint", f, *args)), program, *args)
    loaded = ad.load(ad.save(tmp_path / "f.adjoint", program))
    assert loaded == program
    assert str(loaded) == str(program)
    same(loaded, program, *args)
    compiled, direct = ad.jit(loaded)(*args), ad.jit(program)(*args)
    assert bits(compiled) == bits(direct)
    again = ad.save(tmp_path / "g.adjoint", loaded)
    assert ad.load(again) == program


def test_constants_of_another_byte_order(tmp_path):
    def f(x):
        return ad.scan(lambda c, v: (c * v, c), x, np.arange(100, dtype=">f8"))[1] + np.arange(100, dtype=">i4")

    same(ad.load(ad.save(tmp_path / "f", f, 2.0)), ad.graph(f)(2.0), 2.0)


def test_the_same_program_gives_the_same_bytes(tmp_path):
    one, other = ad.save(tmp_path / "a", energy, X), ad.save(tmp_path / "b", energy, X)
    assert one.read_bytes() == other.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_what_was_loaded_can_be_differentiated(tmp_path):
    loaded = ad.load(ad.save(tmp_path / "f", energy, X))
    np.testing.assert_array_equal(ad.grad(loaded)(X), ad.grad(energy)(X))
    np.testing.assert_array_equal(ad.jit(ad.grad(loaded))(X), ad.jit(ad.grad(energy))(X))


def halved(x, low):
    y = x
    while np.sum(y * y) > 1.0:
        y = 0.5 * y + 0.01 * x
    if low > 0:
        return np.sum(np.sin(y)) * low
    return np.sum(y)


@pytest.mark.parametrize("f", [halved, ad.grad(halved), ad.value_and_grad(halved, 1)])
def test_functions_that_branch_on_values(f, tmp_path):
    loaded = ad.load(ad.save(tmp_path / "f", f, X, 0.5))
    for x, low in ((X, 0.5), (X * 7, -0.5), (X * 0.01, 2.0)):
        for a, b in zip(flat(loaded(x, low)), flat(f(x, low)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


def flat(result):
    return result if isinstance(result, tuple) else (result,)


def test_functions_of_symbols(tmp_path):
    x, y = ad.symbols("x y")
    f = ad.function([x, y], {"z": x * y, "dx": ad.gradients(x * y, x)}, name="product")
    loaded = ad.load(ad.save(tmp_path / "f", f))
    assert repr(loaded) == repr(f)
    same(loaded, f, 2.0, y=3.0)


def test_arguments_by_name(tmp_path):
    def f(x, *, scale):
        return {"y": x * scale}

    loaded = ad.load(ad.save(tmp_path / "f", f, X, scale=2.0))
    same(loaded, f, X, scale=3.0)
    with pytest.raises(ad.AdjointError, match="scale by name"):
        loaded(X, 2.0)


def test_classes_are_passed_not_imported(tmp_path):
    path = ad.save(tmp_path / "f", tree, Params(X, 1.0), {"k": 2.0})
    same(ad.load(path, containers=[Pair, Params]), tree, Params(X, 1.0), {"k": 5.0})
    with pytest.raises(
        SavedProgramError, match=r"holds '[a-z_.]*test_container:Params'; pass the class: .*containers=\[Params\]"
    ):
        ad.load(path)
    other = dataclasses.make_dataclass("Params", ["w", "c"])
    other.__module__ = Params.__module__
    with pytest.raises(SavedProgramError, match=r"has the fields \['w', 'c'\], and had \['w', 'b'\]"):
        ad.load(path, containers=[Pair, other])
    one = ad.save(tmp_path / "one", lambda p: p.w * p.b, Params(X, 1.0))
    same(ad.load(one, containers=Params), lambda p: p.w * p.b, Params(X, 3.0))
    with pytest.raises(ArgumentError, match=r"containers of load are classes, as in containers=\[Params\]; got Params"):
        ad.load(one, containers=[Params(X, 1.0)])
    plain = type("Params", (), {"__module__": Params.__module__})
    with pytest.raises(SavedProgramError, match="is no container"):
        ad.load(path, containers=[Pair, plain])


def test_what_cannot_be_saved(tmp_path):
    f = ad.custom_jvp(np.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), 7.0 * tangents[0]))
    with pytest.raises(UnsupportedError, match=r"'custom.sin' has a rule written in Python.*test_container.py"):
        ad.save(tmp_path / "f", lambda x: f(x), 1.0)
    assert ad.load(ad.save(tmp_path / "g", ad.grad(lambda x: f(x)), 1.0))(1.0) == 7.0
    with pytest.raises(ArgumentError, match="save it without arguments"):
        ad.save(tmp_path / "f", ad.graph(energy)(X), X)
    with pytest.raises(ArgumentError, match="save expects a path, a function"):
        ad.save(tmp_path / "f", 3.0)
    with pytest.raises(UnsupportedError, match=r"the key .* cannot be saved"):
        ad.save(tmp_path / "f", lambda x: {Pair(1, 2): x}, 1.0)
    with pytest.raises(FileNotFoundError):
        ad.save(tmp_path / "none" / "f", energy, X)
    with pytest.raises(FileNotFoundError):
        ad.load(tmp_path / "f")
    assert [p.name for p in tmp_path.iterdir()] == ["g"]


def test_a_fresh_process_loads_it(tmp_path):
    path = ad.save(tmp_path / "f", lambda x: ad.scipy.special.jv(1.0, x) + np.linalg.det(np.outer(x, x)), X)
    code = "import sys, numpy as np, adjoint as ad; print(ad.load(sys.argv[1])(np.array([0.3, -0.0, 1.5])).tolist())"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(ad.load(path)(X).tolist())


# -- files of earlier versions ----------------------------------------------------------------------------------

FILES = pathlib.Path(__file__).parent / "files"


@pytest.mark.parametrize("path", sorted(FILES.glob("*/*.adjoint")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_files_of_every_version_still_load(path):
    loaded = ad.load(path)
    results = path.with_suffix(".npz")
    if results.exists():
        with np.load(results, allow_pickle=False) as kept:
            inputs = [kept[f"input{i}"] for i in range(len(loaded.input_types))]
            found = loaded.run(*[x if x.ndim else x[()] for x in inputs])
            for i, y in enumerate(found if isinstance(found, tuple) else (found,)):
                np.testing.assert_allclose(y, kept[f"output{i}"], rtol=1e-10, atol=1e-12)


def test_there_are_files_of_this_version_of_the_format():
    assert {json.loads(zipfile.ZipFile(p).read("manifest.json"))["version"] for p in FILES.glob("*/*.adjoint")} == {1}


# -- files that are not valid -----------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path):
    path = ad.save(tmp_path / "f", lambda x: np.linspace(0, 1, 100) * x, 2.0)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, compression=zipfile.ZIP_STORED, manifest=None, sums=True):
    """An archive of these parts, with their checksums put right."""
    import hashlib

    parts = dict(parts)
    data = json.loads(parts["manifest.json"]) | (manifest or {})
    if sums:
        data["files"] = {
            n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in parts.items() if n != "manifest.json"
        }
    parts["manifest.json"] = json.dumps(data).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return out.getvalue()


def refused(tmp_path, data, message):
    path = tmp_path / "bad"
    path.write_bytes(data)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SavedProgramError, match=message):
        ad.load(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_line_that_does_not_verify_is_named(parts, tmp_path):
    text = parts["graph.txt"].decode()
    for old, new, message in [
        ("mul", "mull", r"graph.txt, line 3, column .*there is no op named 'mull'"),
        ("v1: float64[100]", "v1: float64[99]", r"graph.txt, line 3, .*declares float64\[99\], the op gives float64\[100\]"),
        ("return v1", "return v2", r"graph.txt, line 4, .*'v2' is not defined here"),
        ("mul c0, x", "mul v1, x", r"graph.txt, line 3, .*'v1' is not defined here"),
        ("constants/0.npy", "constants/1.npy", r"graph.txt, line 2, .*there is no file 'constants/1.npy'"),
        ("constants/0.npy", "../../etc/passwd", r"graph.txt, line 2"),
        ("c0 = float64[100]", "c0 = float64[10,10]", r"holds float64\[100\], not float64\[10,10\]"),
        ("c0 = float64[100]", "c0 = float32[100]", r"holds float64\[100\], not float32\[100\]"),
        ("x: float64[]", "x: float64[9999999999,9999999999]", "not the type of an array that can exist"),
        ("x: float64[]", f"x: float64[{'9' * 5000}]", "not the type of an array that can exist"),
        ("x: float64[]", "x: object[]", "not a dtype"),
        ("graph ", "graph \x1b[31m", "line 1: a control character"),
        ("mul c0, x", f"mul c0, {'(' * 10000}1{')' * 10000}", "line 3"),
        ("mul c0, x", f"mul c0, {'-' * 100000}1", "line 3"),
        ("mul c0, x", "mul c0, __import__('os').getpid()", "only literals"),
        ("mul c0, x", "mul c0, x {a=9**9**9}", "only literals"),
        (text[-3:], "\n}" * 100, "line"),
    ]:
        assert old in text, old
        refused(tmp_path, packed(parts | {"graph.txt": text.replace(old, new, 1).encode()}), message)


def test_deep_nesting_is_refused(parts, tmp_path):
    depth = 5000
    head = (
        "graph f(x: float64[]) {\n v1: float64[] = checkpoint x\n"
        + "body = graph f(x: float64[]) {\n v1: float64[] = sin x\n" * depth
    )
    refused(tmp_path, packed(parts | {"graph.txt": head.encode()}), "line .*more than 64 graphs|expected")
    tree = "*"
    for _ in range(200):
        tree = {"list": [tree]}
    refused(tmp_path, packed(parts, manifest={"result": tree}), "more than 64 containers")
    deep = parts["manifest.json"].replace(b'"result": "*"', b'"result": ' + b"[" * 100000 + b"]" * 100000)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("manifest.json", deep)
        archive.writestr("graph.txt", parts["graph.txt"])
    refused(tmp_path, out.getvalue(), "manifest.json is missing or damaged|nested too deeply")


def test_lines_that_could_take_quadratic_time(parts, tmp_path):
    for line in (
        " = a" * 20000,
        " = a {" * 20000,
        "v1: float64[] = mul " + "x, " * 20000,
        "v1: " * 20000,
        "a" * 100000,
        "{" * 100000,
    ):
        refused(
            tmp_path, packed(parts | {"graph.txt": f"graph f(x: float64[]) {{\n  {line}\n  return x\n}}\n".encode()}), "line 2"
        )


def test_archives_with_tricks(parts, tmp_path):
    for name in (
        "../evil",
        "/tmp/evil",
        "constants/../0.npy",
        "constants/00.npy",
        "C:\\evil",
        "graph.txt/",
        "constants/1.npy\0x",
        "é",
    ):
        out = io.BytesIO(packed(parts))
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr(zipfile.ZipInfo(name), b"x")
        refused(tmp_path, out.getvalue(), "no part of the format|damaged|not in both")
    out = io.BytesIO(packed(parts))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("graph.txt", b"x")
    refused(tmp_path, out.getvalue(), "same name")
    refused(tmp_path, packed(parts, zipfile.ZIP_DEFLATED), "compressed or encrypted")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", parts["manifest.json"])
        archive.writestr("graph.txt", b"\0" * 10**8)
    refused(tmp_path, bomb.getvalue(), "compressed or encrypted")
    refused(tmp_path, b"", "damaged")
    refused(tmp_path, packed({k: v for k, v in parts.items() if k != "constants/0.npy"}, sums=False), "not in both")
    refused(tmp_path, packed({k: v for k, v in parts.items() if k != "graph.txt"}), "not in both")
    refused(tmp_path, packed(parts | {"graph.txt": parts["graph.txt"] + b"\n"}, sums=False), "checksum")


def test_entries_that_overlap_are_not_read_many_times(parts, tmp_path):
    """The directory lists one stored entry under many names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("manifest.json", parts["manifest.json"])
        archive.writestr("constants/0.npy", b"\0" * 100000)
        first = archive.infolist()[1]
        for i in range(1, 1000):
            copy = zipfile.ZipInfo(f"constants/{i}.npy")
            copy.header_offset, copy.CRC, copy.file_size, copy.compress_size = first.header_offset, first.CRC, 100000, 100000
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
    refused(tmp_path, out.getvalue(), "longer than the file")


def npy(header):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "not a .npy file"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"), "0 bytes for an array"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }") + b"\0" * 8, "which no array has"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (True,), }") + b"\0" * 8, "not a .npy file|which no array has"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"\0" * 8, "not numbers"),
        (npy("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }") + b"\0" * 8, "not numbers"),
        (npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }") + b"\0" * 8, "not numbers"),
        (npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }") + b"\2", "neither true nor false"),
        (npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,), }"), "not a .npy file"),
        (npy("(" * 5000), "not a .npy file"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999999), }"), "no array has|not a .npy"),
    ],
)
def test_arrays_that_are_none(data, message, parts, tmp_path):
    refused(tmp_path, packed(parts | {"constants/0.npy": data}), message)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"version": 2}, "has version 2 of the format.*install a later one"),
        ({"version": 0}, "version 0"),
        ({"version": True}, "does not say"),
        ({"version": "1"}, "does not say"),
        ({"format": "other"}, "does not say"),
        ({"kind": "module"}, "'kind' in manifest.json is graph or function"),
        ({"name": "g"}, "differ in the name"),
        ({"inputs": []}, "differ in the name"),
        ({"inputs": {}}, "'inputs' is missing in manifest.json, or is of the wrong type"),
        ({"outputs": ["float64[]"]}, "differ in the name"),
        ({"result": {"list": ["*", "*"]}}, "does not hold the 1 results"),
        ({"result": {"list": "*"}}, "describes no container"),
        ({"result": {"dict": [["f()", "*"]]}}, "key that cannot be read"),
        ({"result": {"dict": [["'a'", "*"], ["'a'", "*"]]}}, "key twice"),
        ({"result": {"class": "os:system", "fields": ["a"], "parts": ["*"]}}, "pass the class"),
        ({"result": 3}, "wrong type"),
        ({"arguments": {"tuple": [{"tuple": ["*"]}]}}, "does not hold the 1 inputs"),
        ({"arguments": {"list": ["*"]}}, "does not hold the 1 inputs"),
        ({"arguments": {"tuple": [{"tuple": []}, {"dict": [["3", "*"]]}]}}, "does not hold the 1 inputs"),
        ({"arguments": {"tuple": [{"tuple": []}, {"dict": [3]}]}}, "describes no container|does not hold"),
        ({"files": {}}, "not in both"),
    ],
)
def test_manifests_that_do_not_fit(change, message, parts, tmp_path):
    refused(tmp_path, packed(parts, manifest=change, sums="files" not in change), message)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = "import os, sys, adjoint as ad\ntry: ad.load(sys.argv[1])\nexcept ad.AdjointError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "pipe"], capture_output=True, text=True, timeout=60, check=True)
    assert "not a regular file" in done.stdout


@dataclasses.dataclass
class Options:
    rate: float
    mode: str = "fast"
    n: int = 2
    f: object = None


def test_static_fields_are_saved_as_literals(tmp_path):
    program = ad.graph(lambda o: o.rate**o.n if o.mode == "fast" else o.rate)(Options(3.0))
    ad.save(tmp_path / "options.adjoint", program)
    loaded = ad.load(tmp_path / "options.adjoint", containers=[Options])
    assert loaded(Options(4.0)) == 16.0
    with pytest.raises(ad.AdjointError, match="structure"):
        loaded(Options(4.0, n=3))
    with pytest.raises(ad.AdjointError, match="cannot be saved"):
        ad.save(tmp_path / "function.adjoint", ad.graph(lambda o: o.f(o.rate))(Options(3.0, f=np.sin)))


def test_the_format_is_described_well_enough_to_write_a_reader(tmp_path):
    weights = np.random.default_rng(3).normal(size=(80, 2))

    def loss(p, x):
        hidden = np.tanh(x @ p["w"] + p["b"])
        carry, rows = ad.scan(lambda c, z: (np.tanh(c * 0.5 + z), c), np.zeros(2), hidden)
        last = ad.while_loop(lambda s: np.sum(s * s) > 0.1, lambda s: s / 2, carry)
        chosen = ad.cond(last[0] > 0, lambda s: s[::-1], lambda s: s * 3, last)
        return np.mean((weights @ chosen) ** 2) + np.sum(rows[[1, 0]]), carry[0] > 0

    rng = np.random.default_rng(4)
    args = {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}, rng.normal(size=(4, 3))
    straight = ad.grad(lambda p, x: np.sum(np.tanh(x @ p["w"] + p["b"])[1:] ** 2))
    for f in (loss, straight):
        path = ad.save(tmp_path / "program", f, *args)
        names, program = reader.load(path)
        assert names == ["p_b", "p_w", "x"]
        results = reader.run(program, [args[0]["b"], args[0]["w"], args[1]])
        expected = flatten(ad.load(path)(*args))[0]
        assert [np.asarray(a).tobytes() for a in results] == [np.asarray(b).tobytes() for b in expected]
