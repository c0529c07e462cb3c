"""Programs in files: `ad.save(path, f, *args)` and `ad.load(path)`.

    loss.adjoint                 a zip archive without compression
      manifest.json              version, names, types, containers of arguments and results, checksums
      graph.txt                  the text of the graph
      constants/0.npy, …         the large constants that the text names

docs/format.md describes the format. Reading a file executes nothing of it: the text names ops of the table, the arrays are bytes,
and the containers are built-in ones or classes that the caller passes. Every size is checked against that of the file before
memory is taken for it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..api.arguments import name_of
from ..api.graph import Program, infer_types
from ..api.symbols import Function
from ..core.boundary import boundary
from ..core.errors import AdjointError, ArgumentError, UnsupportedError
from ..core.op import OPS
from ..core.tree import flatten
from ..core.types import Type
from ..core.version import VERSION
from ..ir import text
from ..ir.check import GraphError, check
from ..ir.edit import dead_code
from ..ir.graph import Equation, Graph, Literal, Operand
from .containers import ContainerError, describe, rebuild
from .program import staged

FORMAT, NEWEST = "adjoint program", 1
MANIFEST, TEXT = "manifest.json", "graph.txt"
_CONSTANT = re.compile(r"constants/(0|[1-9][0-9]{0,8})\.npy")
_KINDS: dict[str, type[Program]] = {"graph": Program, "function": Function}
_DAMAGED = (
    zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, TypeError, KeyError, IndexError,
    struct.error, OverflowError, MemoryError, SyntaxError,
)  # fmt: skip


class SavedProgramError(AdjointError, ValueError):
    """A file that is not a valid saved program; names the file, and the line if it is the graph's."""


# -- writing ----------------------------------------------------------------------------------------------------


@boundary
def save(path: str | os.PathLike[str], f: Callable[..., Any] | Graph, *args: Any, **kwargs: Any) -> Path:
    """Save a function, staged for the types of the arguments, or a graph.

    A function that branches on a value, or loops while a condition on one holds, is staged from its source.

    `ad.load` gives a graph with the same equations and constants, to the bit.

    To save a derivative, save the transformed function: `ad.save(path, ad.grad(f), x)`.

    >>> import tempfile
    >>> import adjoint as ad
    >>> path = ad.save(Path(tempfile.mkdtemp()) / "cube.adjoint", ad.grad(lambda x: x**3), 1.0)
    >>> ad.load(path)(2.0)
    np.float64(12.0)
    """
    if isinstance(f, Graph):
        if args or kwargs:
            raise ArgumentError(f"the graph {f.name!r} has its types; save it without arguments")
        program, source = f, f.name
    else:
        if not callable(f):
            raise ArgumentError(
                f"save expects a path, a function and its arguments, as in ad.save(path, f, x); got {type(f).__name__}"
            )
        program = dead_code(staged(f, args, kwargs))
        source = f"{getattr(f, '__module__', '')}:{getattr(f, '__qualname__', name_of(f))}"
    _refuse_custom(program)
    program = _native(program)
    files = _files(program)
    manifest = {
        "format": FORMAT,
        "version": NEWEST,
        "written_by": f"adjoint {VERSION}",
        "kind": "function" if isinstance(program, Function) else "graph",
        "name": program.name,
        "source": source,
        "inputs": [{"name": n, "type": repr(t)} for n, t in zip(program.input_names, program.input_types, strict=True)],
        "outputs": [repr(t) for t in program.output_types],
        "arguments": None if program.in_structure is None else describe(program.in_structure),
        "result": describe(program.out_structure),
        "files": {name: {"bytes": len(data), "sha256": _sum(data)} for name, data in files.items()},
    }
    return _write(Path(path), {MANIFEST: json.dumps(manifest, indent=1, ensure_ascii=False).encode(), **files})


def _refuse_custom(program: Graph) -> None:
    """Rules written in Python have no text."""
    for equation in program.equations:
        if OPS.get(equation.op.name) is not equation.op:
            raise UnsupportedError(
                f"{equation.op.name!r} has a rule written in Python, which a file does not hold; save the derivative instead, as "
                "in ad.save(path, ad.grad(f), x): there the rule is applied",
                equation.line or None,
            )
        for value in equation.params.values():
            if isinstance(value, Graph):
                _refuse_custom(value)


def _native(program: Any) -> Any:
    """The graph with constants in the machine's byte order: ops compute in it, and the text has no other."""

    def operand(o: Operand) -> Operand:
        if isinstance(o, int) or o.is_weak or o.value.dtype.isnative:
            return o
        return Literal(o.value.astype(o.value.dtype.newbyteorder("=")))

    def types(given: Iterable[Type]) -> tuple[Type, ...]:
        return tuple(t if t.dtype.isnative else Type(t.shape, t.dtype.newbyteorder("=")) for t in given)

    def equation(e: Equation) -> Equation:
        params = {key: _native(value) if isinstance(value, Graph) else value for key, value in e.params.items()}
        return replace(e, inputs=tuple(map(operand, e.inputs)), params=params, types=types(e.types))

    return replace(
        program,
        input_types=types(program.input_types),
        equations=tuple(map(equation, program.equations)),
        outputs=tuple(map(operand, program.outputs)),
    )


def _files(program: Graph) -> dict[str, bytes]:
    """The text of a graph and its large constants; the text is parsed again as a check."""
    arrays, known = dict[str, Any](), dict[int, str]()

    def store(array: Any) -> str:
        name = known.setdefault(id(array), f"constants/{len(arrays)}.npy")
        arrays[name] = array
        return name

    shown = text.show(program, store=store)
    try:
        is_same = text.parse(shown, files=arrays) == Graph(
            program.name, program.input_names, program.input_types, tuple(program.equations), program.outputs
        )
    except GraphError as error:
        raise UnsupportedError(f"the graph {program.name!r} has no text that can be read back: {_bare(error)}") from error
    if not is_same:
        raise UnsupportedError(f"the graph {program.name!r} has a parameter or a constant whose text is not exact")
    return {TEXT: f"{shown}\n".encode()} | {name: _npy(array) for name, array in arrays.items()}


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    little = array.dtype.newbyteorder("<")
    np.lib.format.write_array(out, np.ascontiguousarray(array, little).reshape(array.shape), (1, 0), allow_pickle=False)
    return out.getvalue()


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, files: dict[str, bytes]) -> Path:
    """All or nothing: another process never sees half a file. The same program gives the same bytes."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            for name, data in files.items():
                archive.writestr(zipfile.ZipInfo(name), data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


# -- reading ----------------------------------------------------------------------------------------------------


@boundary
def load(path: str | os.PathLike[str], *, containers: type | Iterable[type] = ()) -> Program:
    """The program in a file, checked. Nothing in the file is executed.

    `containers` are the named tuples, dataclasses and other classes in its arguments and results; a file names classes, and
    loading imports none.

    >>> import tempfile
    >>> import adjoint as ad
    >>> path = ad.save(Path(tempfile.mkdtemp()) / "sine.adjoint", np.sin, np.zeros(2))
    >>> ad.load(path)
    <graph sin: 1 inputs, 1 equations, 1 outputs>
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"load expects the path of a file, got {type(path).__name__}")
    classes = [containers] if isinstance(containers, type) else list(containers)
    if wrong := next((c for c in classes if not isinstance(c, type)), None):
        raise ArgumentError(f"containers of load are classes, as in containers=[Params]; got {type(wrong).__name__}")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its other end
            raise SavedProgramError("it is not a regular file")
        with open(path, "rb") as file:
            return _read(file, classes)
    except (SavedProgramError, ContainerError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _bare(error)
        raise SavedProgramError(f"{os.fspath(path)!r} is not a program that can be loaded: {reason}") from error.__cause__


def _bare(error: AdjointError) -> str:
    """The message of an error without the line of the call, to be raised again."""
    return str(error).removesuffix(f" ({error.line})")


def _read(file: BinaryIO, containers: list[type]) -> Program:
    files = _unpacked(file)
    manifest = _manifest(files.pop(MANIFEST, b""))
    _verify(files, manifest)
    arrays = {name: _array(name, data) for name, data in files.items() if name != TEXT}
    found = _parsed(files[TEXT], arrays)
    inputs = [{"name": n, "type": repr(t)} for n, t in zip(found.input_names, found.input_types, strict=True)]
    if [found.name, inputs, list(map(repr, found.output_types))] != [manifest[k] for k in ("name", "inputs", "outputs")]:
        raise SavedProgramError(f"{MANIFEST} and {TEXT} differ in the name, the inputs or the types of the results")
    given = None if manifest["arguments"] is None else flatten(rebuild(manifest["arguments"], containers, "arguments"))[1]
    result = flatten(rebuild(manifest["result"], containers, "result"))[1]
    if given is not None and (given.count != len(inputs) or not _is_call(manifest["arguments"])):
        raise SavedProgramError(f"'arguments' in {MANIFEST} does not hold the {len(inputs)} inputs of the graph")
    if result.count != len(found.outputs):
        raise SavedProgramError(f"'result' in {MANIFEST} does not hold the {len(found.outputs)} results of the graph")
    make = _KINDS[manifest["kind"]]
    return make(found.name, found.input_names, found.input_types, found.equations, found.outputs, given, result)


def _unpacked(file: BinaryIO) -> dict[str, bytes]:
    """The contents of the archive; their total length is at most that of the file."""
    size = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            for entry in entries:
                if entry.filename not in (MANIFEST, TEXT) and not _CONSTANT.fullmatch(entry.filename):
                    raise SavedProgramError(f"it has an entry {entry.filename!r:.80}, which is no part of the format")
                if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
                    raise SavedProgramError(f"{entry.filename!r} is compressed or encrypted; the format stores plain bytes")
            if len(set(names)) != len(names):
                raise SavedProgramError("two entries have the same name")
            if sum(entry.file_size for entry in entries) > size:
                raise SavedProgramError("its entries are longer than the file")
            return {entry.filename: archive.read(entry) for entry in entries}
    except SavedProgramError:
        raise
    except _DAMAGED as error:
        raise SavedProgramError(f"the archive is damaged ({_reason(error)})") from error


def _reason(error: BaseException) -> str:
    return f"{str(error) or type(error).__name__:.200}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


_SHAPE: dict[str, Any] = {
    "format": str, "version": int, "kind": str, "name": str, "inputs": list, "outputs": list,
    "arguments": (dict, type(None)), "result": (dict, str, type(None)), "files": dict,
}  # fmt: skip


def _manifest(data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise SavedProgramError(f"{MANIFEST} is missing or damaged ({_reason(error)})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or type(manifest.get("version")) is not int:
        raise SavedProgramError(f"{MANIFEST} does not say that it is an {FORMAT!r}")
    if not 1 <= manifest["version"] <= NEWEST:
        raise SavedProgramError(
            f"it has version {manifest['version']} of the format, and this is adjoint {VERSION}, which reads up to {NEWEST}; "
            "install a later one"
        )
    for key, kind in _SHAPE.items():
        if key not in manifest or not isinstance(manifest[key], kind):
            raise SavedProgramError(f"{key!r} is missing in {MANIFEST}, or is of the wrong type")
    if manifest["kind"] not in _KINDS:
        raise SavedProgramError(f"'kind' in {MANIFEST} is {' or '.join(_KINDS)}, not {manifest['kind']!r:.80}")
    return manifest


def _verify(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
    listed = manifest["files"]
    if set(listed) != set(files) or TEXT not in files:
        odd = min(set(listed) ^ set(files), default=TEXT)
        raise SavedProgramError(f"{odd!r:.80} is in the archive or in {MANIFEST}, but not in both")
    for name, data in files.items():
        if listed[name] != {"bytes": len(data), "sha256": _sum(data)}:
            raise SavedProgramError(f"{name} does not have the length and the checksum that {MANIFEST} gives")


def _array(name: str, data: bytes) -> Any:
    """An array from the bytes of a .npy file. Memory is allocated for the bytes present, not for the size in the header."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_columns, dtype = header(file)
    except Exception as error:  # of the tokenizer, the parser or NumPy: in any case, this is not a valid header
        raise SavedProgramError(f"{name} is not a .npy file ({_reason(error)})") from error
    if dtype.kind not in "biufc" or dtype.fields is not None:
        raise SavedProgramError(f"{name} holds {dtype}, not numbers")
    if any(type(n) is not int or not 0 <= n < 1 << 60 for n in shape) or len(shape) > 64:
        raise SavedProgramError(f"{name} has the shape {shape!r:.80}, which no array has")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise SavedProgramError(f"{name} has {len(data) - file.tell()} bytes for an array {dtype}{list(shape)!r:.80}")
    if not math.prod(shape):
        return np.empty(shape, dtype.newbyteorder("="))
    flat = np.frombuffer(data, dtype, offset=file.tell())
    if dtype.kind == "b" and np.any(flat.view(np.uint8) > 1):
        raise SavedProgramError(f"{name} has bytes that are neither true nor false")
    return flat.reshape(shape, order="F" if by_columns else "C").astype(dtype.newbyteorder("="))


def _parsed(data: bytes, arrays: dict[str, Any]) -> Graph:
    try:
        source = data.decode()
    except UnicodeDecodeError as error:
        raise SavedProgramError(f"{TEXT} is not UTF-8 ({_reason(error)})") from error
    odd = re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", source)
    if odd:
        raise SavedProgramError(f"{TEXT}, line {source.count(chr(10), 0, odd.start()) + 1}: a control character")
    try:
        return text.parse(source, lambda found: check(found, infer_types), arrays)
    except AdjointError as error:
        raise SavedProgramError(f"{TEXT}, {_bare(error)}") from error


def _is_call(tree: Any) -> bool:
    """Whether a tree is that of a call: positional arguments, and others by name."""
    parts = tree.get("tuple")
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, dict) for part in parts):
        return False
    keys = [row[0] for row in parts[1].get("dict", [])]
    return isinstance(parts[0].get("tuple"), list) and "dict" in parts[1] and all(re.fullmatch(r"'\w+'", key) for key in keys)


__all__ = ["SavedProgramError", "load", "save"]
