"""
Lexicon: the tables of English words and sentence patterns in `data/grammar.txt`.

Used by `arbiter`, which parses stored entries, and `facts`, which finds facts
in messages. The file says at its head how a block is written. It is read once,
in about 2 ms; patterns are compiled by the module that uses them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memdb.facts.calendar import MONTHS, WEEKDAYS
from memdb.models.record import Record
from memdb.text.data_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRAGMENT = re.compile(r"<([A-Z]+)>")
_CONTINUED = " " * 8


class Slot(Record):
    """
    What a statement can be about, and one way to say it.

    Attributes:
        name: For example "home"; "attr" is a family of slots, one per attribute.
        is_single: Whether it holds one value at a time.
        pattern: Its groups are s (subject), a and b (attribute), v (value) and c (what
            follows it).
        related: Words that other statements about it may use.
    """

    name: str
    is_single: bool
    pattern: re.Pattern[str]
    related: tuple[str, ...]


class Rule(Record):
    """
    One way to state a fact about oneself.

    Attributes:
        pattern: Its groups are v (value), w (a second one) and t (time).
        sentence: What is stored; {who}, {whose}, {v}, {w}, {t}, {m} the whole match.
        key: May hold {w}; None if a person can have several values.
        words: Keywords besides those of the value; may hold {w}.
        flags: Of "anywhere", "once", "ahead", "verbatim", "lower"; explained in the file.
    """

    pattern: re.Pattern[str]
    sentence: str
    category: str
    importance: int
    key: str | None
    words: str
    flags: frozenset[str]


def read_words(name: str) -> frozenset[str]:
    """Return the set of words called *name*."""
    return frozenset(" ".join(_BLOCKS["words", name]).split())


def read_groups(name: str) -> list[list[str]]:
    """Return the groups of words called *name*, in order."""
    return [line.split() for line in _BLOCKS["groups", name]]


def read_pattern(name: str) -> re.Pattern[str]:
    """Return the compiled pattern called *name*."""
    (pattern,) = _BLOCKS["pattern", name]
    return re.compile(_expand(pattern))


def read_replacements(name: str) -> list[tuple[str, str]]:
    """Return the pairs (what is replaced, by what) of the list called *name*, in order."""
    pairs = (line.partition(" => ") for line in _BLOCKS["replace", name])
    return [(replaced, replacement) for replaced, _, replacement in pairs]


def read_slots() -> Iterator[Slot]:
    """Yield each way to talk about a slot, in the order in which they are tried."""
    for header, pattern in _SLOTS:
        start, _, related = header.partition(" | ")
        name, *flags = start.split()
        yield Slot(name, "one" in flags, re.compile(_expand(pattern)), tuple(related.split()))


def read_rules() -> Iterator[Rule]:
    """Yield each way to state a fact, in the order in which they are tried."""
    for header, pattern in _RULES:
        start, sentence, words = (part.strip() for part in f"{header} |".split("|")[:3])
        category, importance, key, *flags = start.split()
        yield Rule(
            re.compile(_expand(pattern), re.IGNORECASE),
            sentence,
            category,
            int(importance),
            None if key == "-" else key,
            words,
            frozenset(flags),
        )


def _expand(pattern: str) -> str:
    """Return *pattern* with its fragments in full."""
    while (expanded := _FRAGMENT.sub(_fragment_of, pattern)) != pattern:
        pattern = expanded
    return pattern


def _fragment_of(match: re.Match[str]) -> str:
    name = match[1]
    if name in _NAMES:
        return "|".join(_NAMES[name])
    (fragment,) = _BLOCKS["fragment", name]
    return fragment


def _read_blocks(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind, the rest of the header and the lines of each block of *text*."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_CONTINUED):
            lines[-1] += line.lstrip()
        elif line.startswith(" "):
            lines.append(line.strip())
        elif line and line[0] != "#":
            kind, _, header = line.partition(" ")
            lines = []
            yield kind, header, lines


_NAMES = {"MONTH": MONTHS, "WEEKDAY": WEEKDAYS}
_TEXT = read_text(__file__, "data/grammar.txt")
_ALL = list(_read_blocks(_TEXT))
_BLOCKS = {(kind, header): lines for kind, header, lines in _ALL}
_SLOTS = [(header, line) for kind, header, lines in _ALL if kind == "slot" for line in lines]
_RULES = [(header, line) for kind, header, lines in _ALL if kind == "rule" for line in lines]
