"""Terminal capabilities: colour on a terminal, Unicode if the encoding supports it, plain text otherwise."""

from __future__ import annotations

import os
from typing import TextIO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
_SAMPLE = "v₋₁ v̄ ẏ ∂ │ ─ ┼ ↓ ↑ √ · − …"
_ASCII = str.maketrans(
    {"µ": "u", "…": "...", "∂": "d", "−": "-", "·": "*", "×": "x", "│": "|", "─": "-", "┼": "+", "↓": "v", "↑": "^", "√": "sqrt"}
)


class Terminal:
    """A stream that text is written to. `colour` is "auto", "always" or "never"; auto follows NO_COLOR and FORCE_COLOR."""

    def __init__(self, stream: TextIO, colour: str = "auto") -> None:
        self.stream = stream
        self.is_coloured = colour == "always" or (colour == "auto" and _wants_colour(stream))
        self.is_unicode = _can_encode(stream, _SAMPLE)

    def style(self, text: str, *styles: str) -> str:
        """Text in a style, if colours are enabled."""
        if not self.is_coloured or not text:
            return text
        codes = ";".join(_STYLES[s] for s in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def say(self, text: str = "") -> None:
        """Write a line."""
        self.stream.write(self.spelled(text) + "\n")

    def spelled(self, text: str) -> str:
        """A text as shown: characters that the encoding lacks become similar ASCII, or their code."""
        if _can_encode(self.stream, text):
            return text
        encoding = self.stream.encoding
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)


def _wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _can_encode(stream: TextIO, text: str) -> bool:
    if stream.encoding is None:  # text stays text
        return True
    try:
        text.encode(stream.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def abandon(stream: TextIO) -> None:
    """Detach from a closed pipe, so that Python does not report it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
