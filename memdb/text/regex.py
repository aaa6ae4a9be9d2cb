"""
`re` with patterns that were compiled when memdb was packed, not when a process starts.

Owns `data/patterns.*.bin`, made by `data/pack_patterns.py`: one file per version of
Python, because what a pattern compiles to belongs to it. A pattern or a Python that is in
no file is compiled by `re`, to the same result. Compiling those of a first search takes 60 ms
and loading them 1; `re` itself takes 4 with all that it imports. ADR-0026 has the numbers.
"""

from __future__ import annotations

import _sre  # type: ignore[import-not-found] # what `re` itself calls
import sys
from _blake2 import blake2b  # `hashlib` loads OpenSSL
from marshal import loads
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from re import Match as Match  # noqa: PLC0414 (exported)
    from re import Pattern as Pattern  # noqa: PLC0414 (exported)

# The values of `re`.
IGNORECASE = 2
MULTILINE = 8
UNICODE = 32
VERBOSE = 64
ASCII = 256

# A flag of `digest`: the pattern is text, not bytes.
_IS_TEXT = 1 << 30

_ESCAPED = {ord(sign): f"\\{sign}" for sign in "()[]{}?*+-|^$\\.&~# \t\n\r\v\f"}


def compile(pattern: str, flags: int = 0) -> Pattern[str]:  # noqa: A001 (as `re` calls it)
    """Return the compiled *pattern*; one object per pattern of memdb's own."""
    return _compile(pattern, flags)


def compile_bytes(pattern: bytes) -> Pattern[bytes]:
    """Return the compiled *pattern* of bytes."""
    return _compile(pattern, 0)


def escape(text: str) -> str:
    """Return the pattern that matches *text* only."""
    return text.translate(_ESCAPED)


def match(pattern: str, text: str) -> Match[str] | None:
    """Return the match of *pattern* where *text* begins."""
    return _compile(pattern, 0).match(text)


def fullmatch(pattern: str, text: str) -> Match[str] | None:
    """Return the match of *pattern* with all of *text*."""
    return _compile(pattern, 0).fullmatch(text)


def search(pattern: str, text: str) -> Match[str] | None:
    """Return the first match of *pattern* in *text*."""
    return _compile(pattern, 0).search(text)


def findall(pattern: str, text: str) -> list[Any]:
    """Return what *pattern* matches in *text*."""
    return _compile(pattern, 0).findall(text)


def finditer(pattern: str, text: str) -> Iterator[Match[str]]:
    """Return the matches of *pattern* in *text*."""
    return _compile(pattern, 0).finditer(text)


def split(pattern: str, text: str) -> list[str | Any]:
    """Return *text* cut at each match of *pattern*."""
    return _compile(pattern, 0).split(text)


def sub(pattern: str, new: str | Callable[[Match[str]], str], text: str, flags: int = 0) -> str:
    """Return *text* with *new* for each match of *pattern*."""
    return _compile(pattern, flags).sub(new, text)


def _compile(pattern: Any, flags: int) -> Pattern[Any]:
    key = pattern, flags
    compiled = _compiled.get(key)
    if compiled is None:
        packed = _packed.get(digest(pattern, flags))
        if packed is None:
            return _compile_anew(pattern, flags)
        flags, code, size, groups, names, names_by_group = loads(packed)  # noqa: S302
        if len(code) < size:
            from zlib import decompress

            code = decompress(code)
        words = list(memoryview(code).cast("I"))
        compiled = _compiled[key] = _sre.compile(
            pattern, flags, words, groups, names, names_by_group
        )
    return compiled


def _compile_anew(pattern: Any, flags: int) -> Pattern[Any]:
    import re  # 4 ms

    return re.compile(pattern, flags)


def needs(pattern: Pattern[str]) -> tuple[str, ...]:
    """
    Return texts of which one stands in whatever *pattern* matches; ("",) if none are known.

    `any(need in text for need in needs(pattern))` takes a tenth of a search, and most texts that a
    pattern is tried on hold none. They were packed with the patterns; see `data/needs.json`.
    """
    if not _needs:
        from memdb.text.data_files import read_json

        _needs.update(read_json(__file__, "data/needs.json"))
    found = _needs.get(digest(pattern.pattern, pattern.flags & ~UNICODE).hex())
    return tuple(found) if found else ("",)


class Sparse:
    """
    A pattern that is tried only on texts in which it may match; see `needs`.

    Attributes:
        compiled: The pattern.
    """

    __slots__ = ("_needs", "compiled")

    def __init__(self, pattern: Pattern[str]) -> None:
        """Try *pattern*."""
        self.compiled = pattern
        self._needs = needs(pattern)

    def may_match(self, text: str) -> bool:
        """Return whether the pattern is worth a search in *text*."""
        for need in self._needs:  # noqa: SIM110 (half the time of `any`)
            if need in text:
                return True
        return False

    def is_in(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in *text*."""
        return self.may_match(text) and self.compiled.search(text) is not None

    def findall(self, text: str) -> list[Any]:
        """Return what the pattern matches in *text*."""
        return self.compiled.findall(text) if self.may_match(text) else []

    def subn(self, new: str | Callable[[Match[str]], str], text: str) -> tuple[str, int]:
        """Return *text* with *new* for each match, and how many there were."""
        return self.compiled.subn(new, text) if self.may_match(text) else (text, 0)

    def sub(self, new: str | Callable[[Match[str]], str], text: str) -> str:
        """Return *text* with *new* for each match."""
        return self.compiled.sub(new, text) if self.may_match(text) else text


class Replacements:
    """Patterns with what stands for their matches, applied one after the other."""

    __slots__ = ("_all",)

    def __init__(
        self, pairs: Iterable[tuple[Pattern[str], str | Callable[[Match[str]], str]]]
    ) -> None:
        """Replace the matches of each pattern of *pairs*, in order."""
        self._all = [(pattern, new, needs(pattern)) for pattern, new in pairs]

    def pairs(self) -> list[tuple[Pattern[str], str | Callable[[Match[str]], str]]]:
        """Return the patterns with what stands for them."""
        return [(pattern, new) for pattern, new, _ in self._all]

    def apply(self, text: str) -> str:
        """Return *text* with all replacements; a pattern is tried where it may match."""
        for pattern, new, needed in self._all:
            for need in needed:
                if need in text:
                    text = pattern.sub(new, text)
                    break
        return text


def packed_path() -> str:
    """Return the path of the patterns for this version of Python."""
    return f"{__file__.rpartition('regex.py')[0]}data/patterns.{sys.implementation.cache_tag}.bin"


def digest(pattern: str | bytes, flags: int) -> bytes:
    """Return the key of a pattern with its flags in the packed files."""
    if isinstance(pattern, str):
        pattern, flags = pattern.encode("utf-8", "surrogatepass"), flags | _IS_TEXT
    found: bytes = blake2b(pattern, digest_size=16, salt=flags.to_bytes(4, "little")).digest()
    return found


def _load() -> dict[bytes, bytes]:
    """Return what is packed for this Python by digest, nothing if nothing is."""
    try:
        with open(packed_path(), "rb") as file:  # noqa: PTH123 (pathlib is slow to load)
            made_by, packed = loads(file.read())  # noqa: S302 (memdb's own, like its bytecode)
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    is_same = made_by == (_sre.MAGIC, _sre.CODESIZE, sys.byteorder)
    return packed if is_same else {}


_packed = _load()
_compiled: dict[tuple[str | bytes, int], Pattern[Any]] = {}
_needs: dict[str, list[str]] = {}
