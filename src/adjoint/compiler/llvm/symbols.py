"""The symbols of object files: which they define, and which they need.

MCJIT resolves an unknown symbol to address 0, and the program would call that. So `check` inspects all object files before an
engine gets them, whether compiled now or read from disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import llvmlite.binding as llvm

_BY_THE_LINKER = frozenset({"_GLOBAL_OFFSET_TABLE_", "__ImageBase", "_fltused"})  # never called


class Symbol(NamedTuple):
    name: str
    is_defined: bool


def check(objects: Sequence[bytes]) -> None:
    """Raise if a symbol is defined neither in one of the object files nor in the process."""
    missing = [name for name in undefined(objects) if not llvm.address_of_symbol(name)]
    if missing:
        raise RuntimeError(
            f"internal error: compiled code calls {', '.join(missing)}, which nothing defines, and is not run; please report it"
        )


def undefined(objects: Iterable[bytes]) -> list[str]:
    """The names that some of the object files use and none of them defines."""
    found = [symbol for data in objects for symbol in _symbols(data)]
    defined = {symbol.name for symbol in found if symbol.is_defined}
    return sorted({symbol.name for symbol in found} - defined - _BY_THE_LINKER)


def _symbols(data: bytes) -> Iterator[Symbol]:
    if data.startswith(b"\x7fELF\x02\x01"):
        return _of_elf(data)
    if data.startswith(b"\xcf\xfa\xed\xfe"):
        return _of_macho(data)
    if data[:2] in (b"\x64\x86", b"\x64\xaa"):
        return _of_coff(data)
    raise RuntimeError(f"internal error: an object file of an unknown format, which begins with {data[:8].hex()}")


def _of_elf(data: bytes) -> Iterator[Symbol]:
    """Linux: 64 bits, little-endian."""
    (headers,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, headers + 64 * i) for i in range(count)]
    for _, kind, _, _, offset, size, names, *_ in sections:
        if kind == 2:  # SHT_SYMTAB
            for at in range(offset + 24, offset + size, 24):  # the first is empty
                name, info, _, section = struct.unpack_from("<IBBH", data, at)
                if info >> 4:  # not local
                    yield Symbol(_text(data, sections[names][4] + name), section != 0)


def _of_macho(data: bytes) -> Iterator[Symbol]:
    """macOS: 64 bits. Names begin with an underscore, which the engine removes."""
    (commands,) = struct.unpack_from("<I", data, 16)
    at = 32
    for _ in range(commands):
        kind, size, symbols, count, names = struct.unpack_from("<IIIII", data, at)
        if kind == 2:  # LC_SYMTAB
            for i in range(count):
                name, flags = struct.unpack_from("<IB", data, symbols + 16 * i)
                if flags & 0x01:  # N_EXT
                    yield Symbol(_text(data, names + name).removeprefix("_"), bool(flags & 0x0E))  # N_TYPE
        at += size


def _of_coff(data: bytes) -> Iterator[Symbol]:
    """Windows."""
    symbols, count = struct.unpack_from("<II", data, 8)
    names, i = symbols + 18 * count, 0
    while i < count:
        at = symbols + 18 * i
        zeros, place, value, section, _, kind, more = struct.unpack_from("<IIIhHBB", data, at)
        if kind == 2:  # IMAGE_SYM_CLASS_EXTERNAL; without a section, a value is the size of common memory
            name = data[at : at + 8].rstrip(b"\0").decode() if zeros else _text(data, names + place)
            yield Symbol(name, bool(section or value))
        i += 1 + more


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
