"""
Text laid out for a screen: its width, lines of whole words, and the passage that answers.

Pure functions; `memdb.cli.output` prints.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Characters of a text that are shown whole, and of the passage of a longer one.
WHOLE_CHARS = 600
LEAD_CHARS = 80  # before the first word that is asked for
MOST_PLACES = 10_000  # of such words that are looked at
MOST_STEMS = 32  # words of a question that are looked for
LEAST_STEM = 4

# Kinsoku: marks that no line begins with, and that none ends with, beside Chinese or Japanese.
NEVER_FIRST = frozenset(
    ",.:;!?)]}%、。…‥・ー々〻〜ゝゞヽヾぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶ」』】〉》〗〙〟"
    "\u2019\u201d\u3015\uff0c\uff0e\uff1a\uff1b\uff01\uff1f\uff09\uff3d\uff5d\uff05\uff60\uff61\uff63\uff64"
)
NEVER_LAST = frozenset("([{「『【〈《〖〘〝\u2018\u201c\u3014\uff08\uff3b\uff5b\uff5f\uff62")

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?:[.!?…]\s+|[。！？]\s*|\n+)")  # noqa: RUF001 (Chinese marks)


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
    so that it can be copied, unless it is a choice like [a|b|c], which breaks behind a bar;
    Chinese and Japanese break between any two characters, but not before a mark that closes
    or ends, nor behind one that opens (kinsoku).

    Args:
        indent: Stands before each line, and counts.
        first: Before the first line in its place, and counts there; None means *indent*.
    """
    lead = indent if first is None else first
    room = max(1, width - width_of(indent))
    for paragraph in text.split("\n"):
        line, used = "", width_of(lead) - width_of(indent)
        for piece in _pieces(paragraph, room):
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


def _pieces(text: str, room: int) -> Iterator[str]:
    """Yield what a line may end behind: words with the blanks before them, wide characters."""
    for match in re.finditer(r"\s*\S+|\s+", text):
        piece = match[0]
        if piece.isascii():
            is_choice = len(piece.strip()) > room and "|" in piece
            yield from re.findall(r"[^|]*\||[^|]+", piece) if is_choice else [piece]
            continue
        part, used = "", 0
        for character in piece:
            size = _width_of_one(character)
            if _may_break(part[-1:], character, is_full=used + size > room):
                yield part
                part, used = "", 0
            part += character
            used += size
        yield part


def _may_break(last: str, character: str, *, is_full: bool) -> bool:
    """
    Return whether a line may end between two characters that no blank is between.

    Args:
        is_full: No mark is kept from the next line: a line has no room for both.
    """
    size = _width_of_one(character)
    if not last or last.isspace() or size == 0 or max(size, _width_of_one(last)) == 1:
        return False
    return is_full or (character not in NEVER_FIRST and last not in NEVER_LAST)


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
    """Return where a passage begins: with the most different words, the rarest in its middle."""
    places = _places(text, query)
    counts = dict.fromkeys((stem for _, stem in places), 0)
    inside, behind, best, first = dict(counts), 0, 0, 0
    for number, (at, stem) in enumerate(places):
        counts[stem] += 1
        while behind < len(places) and places[behind][0] < at + most - LEAD_CHARS:
            inside[places[behind][1]] += 1
            behind += 1
        different = sum(count > 0 for count in inside.values())
        if different > best:
            best, first = different, number
        inside[stem] -= 1
    if not places:
        return 0
    end = places[first][0] + most - LEAD_CHARS
    shown = [(at, stem) for at, stem in places[first:] if at < end]
    rarest = min(shown, key=lambda one: (counts[one[1]], one[0]))[0]
    begin = max(places[first][0] - LEAD_CHARS, rarest - most // 2)
    start = max(0, min(begin, len(text) - most))
    if start == 0:
        return 0
    sentence = _SENTENCE.search(text, start, rarest)
    if sentence is not None:
        return sentence.end()
    blank = text.find(" ", start, rarest)
    return start if blank < 0 else blank + 1


def _places(text: str, query: str) -> list[tuple[int, str]]:
    """Return where words of *query* stand in *text*, also with another ending."""
    words = {word.casefold() for word in _WORD.findall(query)}
    stems = {word[: max(LEAST_STEM, len(word) - 2)] for word in words if len(word) > 1}
    if not stems:
        return []
    ordered = sorted(stems, key=lambda stem: (-len(stem), stem))[:MOST_STEMS]
    forms = [rf"\b{re.escape(stem)}" if stem.isascii() else re.escape(stem) for stem in ordered]
    found: list[tuple[int, str]] = []
    for match in re.finditer("|".join(forms), text, re.IGNORECASE):
        stem = next((one for one in ordered if match[0].casefold() == one), ordered[0])
        found.append((match.start(), stem))
        if len(found) == MOST_PLACES:
            break
    return found
