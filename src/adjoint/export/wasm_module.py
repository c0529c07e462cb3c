"""`export.wasm`: a function and its derivatives as a WebAssembly module, with a JavaScript loader and TypeScript declarations.

    import { load } from "./energy.js";
    const energy = await load();                            // reads energy.wasm beside it; or load(bytes), load(url)
    energy.energy_gradient(Float64Array.of(1, 2, 3));       // a Float64Array
    const { x, x_bar } = energy.arrays.energy_gradient;     // in the memory of the module: not copied
    energy.energy_gradient(x, x_bar);

The code is that of `export.object` for wasm32. LLVM's object file is nearly a module: its addresses start from 0, and everything
is in one file, so that only the exports are missing. No linker is needed.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..core.boundary import boundary
from ..core.errors import ArgumentError
from .javascript_module import ARRAYS, declaration, names_of, quoted
from .object_file import compiled, program
from .program import Part, file_named, parts, titled, write_beside
from .steps import ERRORS
from .wasm_vectors import is_only_fused

_TRIPLE = "wasm32-unknown-unknown"
_SIMD, _RELAXED = "+simd128", "+simd128,+relaxed-simd"
_PAGE = 1 << 16
_STACK = 1 << 16  # bytes, besides arrays on the stack
_LINE = 64
_TYPED = {**ARRAYS, "int64": "BigInt64Array"}  # a number of 64 bits, in memory
_MEMBERS = ("memory", "arrays", "then")  # of what load() gives; `await` calls a member "then"
_ARRAY = re.compile(r"alloca \[(\d+) x i8\]")
_ON_STACK = re.compile(r"alloca ")


class WasmModule(NamedTuple):
    """The module, its loader and the declarations of the loader."""

    code: bytes
    loader: str
    declarations: str


@boundary
def wasm(
    f: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    simd: bool = False,
    relaxed: bool = False,
    embed: bool = False,
    derivatives: str | Iterable[str] = (),
    argnums: Any = 0,
    name: str | None = None,
    **kwargs: Any,
) -> WasmModule:
    """A function, and the derivatives asked for, as WebAssembly. With `path` ("energy.wasm"), it, its loader "energy.js" and
    "energy.d.ts" are written.

    `simd` uses vectors of 128 bits; `relaxed` those of "relaxed SIMD", which fuse multiplications and additions on processors
    that can: faster, and rounded as the processor does. `embed` puts the code into the loader, which then needs no other file.

    >>> from adjoint import export
    >>> made = export.wasm(lambda x: x * x, 2.0, name="square")
    >>> made.code[1:4], "square(x: number): number" in made.declarations
    (b'asm', True)
    """
    made = parts(f, args, kwargs, derivatives=derivatives, argnums=argnums, name=name)
    where = file_named(f"{made[0].name}.wasm" if path is None else path, "export.wasm", ".wasm")
    result = write(made, where.name, simd, embed, relaxed)
    if path is not None:
        result = WasmModule(result.code, titled(result.loader, where), titled(result.declarations, where))
        write_beside(where.with_suffix(".js"), result.loader)
        write_beside(where.with_suffix(".d.ts"), result.declarations)
        where.write_bytes(result.code)
    return result


def write(made: Sequence[Part], file: str, simd: bool = False, embed: bool = False, relaxed: bool = False) -> WasmModule:
    """The files of some parts; `file` is the name of the module."""
    for part in made:
        if part.name in _MEMBERS:
            raise ArgumentError(f"export.wasm cannot name a function {part.name!r}, which the loader uses; give another name=")
    text, arena = program(made, "export.wasm")
    stack = _STACK + sum(map(int, _ARRAY.findall(text))) + _LINE * len(_ON_STACK.findall(text))
    own = [_MULTIPLY, *[_linkable(text)] * ("frem " in text)]
    features = _RELAXED if relaxed else _SIMD if simd else ""
    machine_code = compiled("\n".join([text, *own]), _TRIPLE, features=features)
    if relaxed and not all(is_only_fused(body) for kind, _, body in _sections(machine_code) if kind == _CODE):
        machine_code = compiled("\n".join([text, *own]), _TRIPLE, features=_SIMD)  # results would depend on the processor
    code, data = linked(machine_code, [part.name for part in made])
    top = _aligned(data + stack)
    return WasmModule(code, _loader(made, code, file, top, arena, embed), declarations(made))


def _linkable(text: str) -> str:
    """The remainder, without declarations that the program has already."""
    return "\n".join(line for line in _REMAINDER.splitlines() if not line.startswith("declare") or line not in text)


def _aligned(n: int) -> int:
    return -(-n // _LINE) * _LINE


# -- the module -------------------------------------------------------------------------------------------------

_CUSTOM, _IMPORT, _EXPORT, _CODE, _DATA = 0, 2, 7, 10, 11
_LATER = (8, 9, 12, 10, 11)  # sections that follow the exports
_SYMBOLS, _UNDEFINED, _NAMED = 8, 0x10, 0x40


def linked(code: bytes, names: Sequence[str]) -> tuple[bytes, int]:
    """An object file as a module that exports functions, and the end of its data in memory."""
    sections = list(_sections(code))
    functions = next(_functions(body) for kind, name, body in sections if name == "linking")
    entries = b"".join(_text(name) + b"\0" + _number(functions[name]) for name in names)
    exports = _section(_EXPORT, _number(len(names)) + entries)
    out, done, end = bytearray(code[:8]), False, 0
    for kind, _, body in sections:
        if kind == _CUSTOM:
            continue
        if kind == _IMPORT:
            _check_imports(body)
        if kind in _LATER and not done:
            out += exports
            done = True
        if kind == _DATA:
            end = _end_of_data(body)
        out += _section(kind, body)
    return bytes(out), end


def _sections(code: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Kind, name (of a custom section) and contents."""
    at = 8
    while at < len(code):
        size, start = _read(code, at + 1)
        body = code[start : start + size]
        yield code[at], _name(body, 0)[0] if code[at] == _CUSTOM else "", body
        at = start + size


def _functions(body: bytes) -> dict[str, int]:
    """The indices of functions, by their names, from the table of symbols."""
    found: dict[str, int] = {}
    _, at = _name(body, 0)
    _, at = _read(body, at)  # the version
    while at < len(body):
        kind = body[at]
        size, at = _read(body, at + 1)
        end = at + size
        if kind == _SYMBOLS:
            count, at = _read(body, at)
            for _ in range(count):
                at = _symbol(body, at, found)
        at = end
    return found


def _symbol(body: bytes, at: int, found: dict[str, int]) -> int:
    kind = body[at]
    flags, at = _read(body, at + 1)
    if kind == 1:  # data
        _, at = _name(body, at)
        for _ in range(0 if flags & _UNDEFINED else 3):
            _, at = _read(body, at)
        return at
    index, at = _read(body, at)
    if kind != 3 and (not flags & _UNDEFINED or flags & _NAMED):
        name, at = _name(body, at)
        if kind == 0:
            found[name] = index
    return at


def _check_imports(body: bytes) -> None:
    """Memory and the stack pointer are given by the loader; nothing else may be missing."""
    count, at = _read(body, 0)
    for _ in range(count):
        _, at = _name(body, at)
        name, at = _name(body, at)
        kind = body[at]
        assert name in ("__linear_memory", "__stack_pointer"), f"the module needs {name}"
        if kind == 2:
            flags, at = _read(body, at + 1)
            for _ in range(1 + (flags & 1)):
                _, at = _read(body, at)
        else:
            at += 3


def _end_of_data(body: bytes) -> int:
    count, at = _read(body, 0)
    end = 0
    for _ in range(count):
        _, at = _read(body, at)  # an active segment: i32.const address, end
        assert body[at] == 0x41, "an address is a constant"
        address, at = _read(body, at + 1, signed=True)
        size, at = _read(body, at + 1)
        end, at = max(end, address + size), at + size
    return end


def _read(body: bytes, at: int, signed: bool = False) -> tuple[int, int]:
    """A number in LEB128, and what follows."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value - (1 << shift if signed and byte & 0x40 else 0), at


def _name(body: bytes, at: int) -> tuple[str, int]:
    size, at = _read(body, at)
    return body[at : at + size].decode(), at + size


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _text(name: str) -> bytes:
    return _number(len(name.encode())) + name.encode()


def _section(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + _number(len(body)) + body


#: The product of two integers of 128 bits, which WebAssembly has no instruction for.
_MULTIPLY = """\
define hidden void @__multi3(ptr %out, i64 %a, i64 %a.high, i64 %b, i64 %b.high) noinline optnone nounwind {
  %a.low = and i64 %a, 4294967295
  %a.top = lshr i64 %a, 32
  %b.low = and i64 %b, 4294967295
  %b.top = lshr i64 %b, 32
  %low = mul i64 %a.low, %b.low
  %low.top = lshr i64 %low, 32
  %one.product = mul i64 %a.top, %b.low
  %one = add i64 %one.product, %low.top
  %one.low = and i64 %one, 4294967295
  %one.top = lshr i64 %one, 32
  %two.product = mul i64 %a.low, %b.top
  %two = add i64 %two.product, %one.low
  %two.top = lshr i64 %two, 32
  %product.top = mul i64 %a.top, %b.top
  %carried = add i64 %product.top, %one.top
  %carry = add i64 %carried, %two.top
  %cross.a = mul i64 %a.high, %b
  %cross.b = mul i64 %a, %b.high
  %cross = add i64 %cross.a, %cross.b
  %high = add i64 %carry, %cross
  %low.bits = and i64 %low, 4294967295
  %two.bits = shl i64 %two, 32
  %word = or i64 %two.bits, %low.bits
  store i64 %word, ptr %out
  %next = getelementptr i64, ptr %out, i32 1
  store i64 %high, ptr %next
  ret void
}"""

#: The exact remainder of floats, which WebAssembly has no instruction for: y times powers of two is subtracted, from the largest.
_REMAINDER = """\
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)
define hidden double @fmod(double %x, double %y) noinline nounwind {
  %a = call double @llvm.fabs.f64(double %x)
  %b = call double @llvm.fabs.f64(double %y)
  %finite = fcmp one double %a, 0x7FF0000000000000
  %divisor = fcmp ogt double %b, 0.0
  %valid = and i1 %finite, %divisor
  br i1 %valid, label %grow, label %none
none:
  %product = fmul double %x, %y
  %nan = fdiv double %product, %product
  ret double %nan
grow:
  %t = phi double [ %b, %0 ], [ %twice, %grow ]
  %twice = fadd double %t, %t
  %more = fcmp ole double %twice, %a
  br i1 %more, label %grow, label %shrink
shrink:
  %u = phi double [ %t, %grow ], [ %half, %next ]
  %r = phi double [ %a, %grow ], [ %rest, %next ]
  %above = fcmp oge double %r, %u
  %less = fsub double %r, %u
  %rest = select i1 %above, double %less, double %r
  %last = fcmp oeq double %u, %b
  br i1 %last, label %done, label %next
next:
  %half = fmul double %u, 0.5
  br label %shrink
done:
  %signed = call double @llvm.copysign.f64(double %rest, double %x)
  ret double %signed
}
define hidden float @fmodf(float %x, float %y) noinline nounwind {
  %a = fpext float %x to double
  %b = fpext float %y to double
  %r = call double @fmod(double %a, double %b)
  %y32 = fptrunc double %r to float
  ret float %y32
}"""


# -- the loader -------------------------------------------------------------------------------------------------


def _loader(made: Sequence[Part], code: bytes, file: str, top: int, arena: int, embed: bool) -> str:
    functions, views, most = [], [], 0
    for part in made:
        text, arrays, end = _function(part, top + _aligned(arena), top)
        functions.append(text)
        views.append(f"    {part.name}: {{ {', '.join(arrays)} }},")
        most = max(most, end)
    source = (
        f"Uint8Array.from(atob({quoted(base64.b64encode(code).decode())}), (c) => c.charCodeAt(0))"
        if embed
        else f'new URL("./{file}", import.meta.url)'
    )
    errors = ", ".join(f'{status}: "{text}"' for status, text in ERRORS.items())
    return _LOADER.format(
        source=source,
        pages=-(-most // _PAGE),
        top=top,
        arrays="\n".join(views),
        functions="\n".join(functions),
        errors=errors,
    )


def _function(part: Part, base: int, work: int) -> tuple[str, list[str], int]:
    """A function of the loader, its arrays in memory, and their end. Arguments and results are copied, unless they are these.

    `$x` is the array of `x` in memory. No name of an argument has a dollar sign, or begins with an underscore and a letter.
    """
    given, made = names_of(part)
    before, inside, call, results, after, views, at = [], [], [], [], [], [], base
    for name, t in zip(given, part.given, strict=True):
        if not t.shape:
            call.append(f"BigInt({name})" if t.dtype.name in ("int64", "uint64") else name)
            continue
        kind, size = _TYPED[t.dtype.name], t.size
        before.append(f"const ${name} = _arrays.{part.name}.{name};")
        views.append(f"{name}: new {kind}(_memory.buffer, {at}, {size})")
        inside.append(f"check({name}, {kind}, {size}, {quoted(f'{part.name}: {name}')});")
        inside.append(f"if ({name} !== ${name}) ${name}.set({name});")
        call.append(str(at))
        at += _aligned(max(1, size) * t.dtype.itemsize)
    several = len(made) > 1
    arrays = False
    for name, t in zip(made, part.made, strict=True):
        kind, size = _TYPED[t.dtype.name], t.size
        view = f"new {kind}(_memory.buffer, {at}, {size})"
        before.append(f"const ${name} = {f'_arrays.{part.name}.{name}' if t.shape else view};")
        views += [f"{name}: {view}"] * bool(t.shape)
        call.append(str(at))
        at += _aligned(max(1, size) * t.dtype.itemsize)
        if not t.shape:
            read = f"${name}[0]"
            results.append({"int64": f"Number({read})", "bool": f"{read} !== 0"}.get(t.dtype.name, read))
            continue
        arrays = True
        source = f"out?.{name}" if several else "out"
        inside.append(f"const {name} = {source} ?? new {kind}({size});")
        inside.append(f"check({name}, {kind}, {size}, {quoted(f'{part.name}: {source.replace(chr(63), str())}')});")
        after.append(f"if ({name} !== ${name}) {name}.set(${name});")
        results.append(name)
    pairs = [name if name == value else f"{name}: {value}" for name, value in zip(made, results, strict=True)]
    answer = f"{{ {', '.join(pairs)} }}" if several else results[0]
    parameters = ", ".join([*given, *["out"] * arrays])
    lines = [
        *inside,
        f"const _status = _exported.{part.name}({', '.join([*call, str(work)])});",
        f"if (_status !== 0) fail({quoted(part.name)}, _status);",
        *after,
        f"return {answer};",
    ]
    body = "\n".join(f"        {line}" for line in lines)
    # A block of its own for the views of the arrays in memory.
    setup = "\n".join(f"      {line}" for line in before)
    return f"    {part.name}: (() => {{\n{setup}\n      return ({parameters}) => {{\n{body}\n      }};\n    }})(),", views, at


def declarations(made: Sequence[Part]) -> str:
    """The loader in TypeScript."""
    methods = [declaration(part, _TYPED).replace("export function ", "  ").replace("/**", "  /**") for part in made]
    views = []
    for part in made:
        arrays = zip((*names_of(part)[0], *names_of(part)[1]), (*part.given, *part.made), strict=True)
        views.append(f"    {part.name}: {{ {'; '.join(f'{n}: {_TYPED[t.dtype.name]}' for n, t in arrays if t.shape)} }};")
    about = "  /** Arguments and results in the memory of the module; one that is given as such is not copied. */"
    inside = "\n".join([*methods, "  memory: WebAssembly.Memory;", about, "  arrays: {", *views, "  };"])
    return (
        "// Written by adjoint.\n\n"
        f"export interface Functions {{\n{inside}\n}}\n\n"
        "export function load(source?: URL | string | Response | BufferSource): Promise<Functions>;\n"
    )


_LOADER = """\
// Written by adjoint.

const errors = {{ {errors} }};

function fail(name, status) {{
  throw new Error(`${{name}}: ${{errors[status]}}`);
}}

function check(array, kind, length, name) {{
  if (!(array instanceof kind) || array.length !== length) {{
    throw new TypeError(`${{name}} must be a ${{kind.name}} of length ${{length}}`);
  }}
}}

async function bytes_of(source) {{
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  if (typeof Response !== "undefined" && source instanceof Response) return source.arrayBuffer();
  const url = String(source);
  if (url.startsWith("file:") && typeof process !== "undefined") {{
    const {{ readFile }} = await import("node:fs/promises");
    return readFile(new URL(url));
  }}
  return (await fetch(url)).arrayBuffer();
}}

export async function load(source = {source}) {{
  const _memory = new WebAssembly.Memory({{ initial: {pages} }});
  const __stack_pointer = new WebAssembly.Global({{ value: "i32", mutable: true }}, {top});
  const env = {{ __linear_memory: _memory, __stack_pointer }};
  const _exported = (await WebAssembly.instantiate(await bytes_of(source), {{ env }})).instance.exports;
  const _arrays = {{
{arrays}
  }};
  return {{
{functions}
    memory: _memory,
    arrays: _arrays,
  }};
}}
"""
