"""
Text laid out for a screen: its width, lines of whole words, and the passage that answers.

Pure functions; `memdb.cli.output` prints.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Characters of a text that are shown whole, and of the passage of a longer one.
WHOLE_CHARS = 600
LEAD_CHARS = 80  # before the first word that is asked for
MOST_PLACES = 1000  # of such words that are looked at
MOST_STEMS = 32  # words of a question that are looked for
LEAST_STEM = 4

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[.!?…]\s+|[。！？]|\n+")  # noqa: RUF001 (Chinese marks)


def width_of(text: str) -> int:
    """Return how many columns *text* takes: two for a Chinese character."""
    if text.isascii():
        return len(text)
    return sum(map(_width_of_one, text))


@cache
def _width_of_one(character: str) -> int:
    from unicodedata import category, east_asian_width

    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> Iterator[str]:
    """
    Yield *text* in lines of at most *width* columns, broken between words.

    Line breaks of the text stay. A word that is wider than a line gets one of its own, whole,
    so that it can be copied; Chinese and Japanese break between any two characters.

    Args:
        indent: Stands before each line, and counts.
        first: Before the first line in its place, and counts there; None means *indent*.
    """
    lead = indent if first is None else first
    room = max(1, width - width_of(indent))
    for paragraph in text.split("\n"):
        line, used = "", width_of(lead) - width_of(indent)
        for piece in _pieces(paragraph):
            size = width_of(piece)
            if line and used + width_of(piece.rstrip()) > room:
                yield f"{lead}{line.rstrip()}"
                lead, line, used = indent, "", 0
                piece = piece.lstrip()  # noqa: PLW2901 (the rest of it)
                size = width_of(piece)
            line += piece
            used += size
        yield f"{lead}{line}".rstrip()
        lead = indent


def _pieces(text: str) -> Iterator[str]:
    """Yield what a line may end behind: words with the blanks before them, wide characters."""
    for match in re.finditer(r"\s*\S+|\s+", text):
        part = ""
        for character in match[0]:
            is_wide = _width_of_one(character) > 1 or (part and _width_of_one(part[-1]) > 1)
            if part and is_wide and not part[-1].isspace() and _width_of_one(character):
                yield part
                part = ""
            part += character
        yield part


def passage(text: str, query: str, most: int = WHOLE_CHARS) -> tuple[str, int]:
    """
    Return the passage of *text* that holds most words of *query*, and the characters left out.

    A text of at most *most* characters is returned whole. A passage begins with a sentence if
    one begins shortly before, and else with a word.
    """
    if len(text) <= most:
        return text, 0
    start = _start(text, query, most)
    end = start + most
    if end < len(text):
        blank = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
        end = blank if blank > start + most // 2 else end
    piece = text[start:end].strip()
    return piece, len(text) - len(piece)


def _start(text: str, query: str, most: int) -> int:
    """Return where the passage begins that contains the most different words of *query*."""
    words = {word.casefold() for word in _WORD.findall(query) if len(word) > 1}
    stems = sorted({word[: max(LEAST_STEM, len(word) - 2)] for word in words})[:MOST_STEMS]
    if not stems:
        return 0
    found = islice(re.finditer("|".join(map(re.escape, stems)), text, re.IGNORECASE), MOST_PLACES)
    places = [match.start() for match in found]
    windows = [text[at : at + most - LEAD_CHARS].casefold() for at in places]
    counts = [sum(one in window for one in stems) for window in windows]
    first = max(zip(counts, places, strict=True), default=(0, 0))[1]
    start = max(0, min(first - LEAD_CHARS, len(text) - most))
    sentence = _SENTENCE.search(text, start, first) if start else None
    if sentence is not None:
        return sentence.end()
    blank = text.find(" ", start, first) if start else -1
    return start if blank < 0 else blank + 1
