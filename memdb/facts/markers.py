"""
Markers: the words that show what a sentence does, from `markers.toml`.

They are the only list of words in this package. A language without a table works by the other
features of the models. Two texts that differ in an order to remember only say the same.
"""

from __future__ import annotations

from functools import cache, lru_cache

from memdb.errors import InvalidInput
from memdb.facts.wording import LETTER, MAX_CHARS, fold, recognise, words_and_signs
from memdb.text.resources import compiled, read_text

KINDS = (
    "change", "correction", "negation", "question", "condition", "hedge", "report", "temporary",
    "retraction", "forget", "remember", "pronoun",
)  # fmt: skip
AT_HEAD = ("pronoun",)
"""Kinds whose markers count at the head of a sentence only."""

LANGUAGES = (
    "en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ru", "ar", "hi", "zh", "ja", "ko",
)  # fmt: skip
MOST_ENTRIES = 60
_UNSPACED = ("zh", "ja")


def parse(text: str) -> dict[str, dict[str, str]]:
    """
    Return the pattern of each kind by language; to compile all of them takes 100 ms.

    Raises:
        InvalidInput: a language or kind is unknown, or a language has more than
            `MOST_ENTRIES`; it names the line.
    """
    import tomllib  # noqa: PLC0415 (five modules, for the first statement that is compared)

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"markers.toml is not TOML: correct it ({error})") from error
    found: dict[str, dict[str, str]] = {}
    for code, kinds in tables.items():
        where = _line_of(text, f"[{code}]")
        if code not in LANGUAGES or not isinstance(kinds, dict):
            known = ", ".join(LANGUAGES)
            raise InvalidInput(
                f"markers.toml, line {where}: {code!r} is not a language: use one of {known}"
            )
        if sum(map(len, kinds.values())) > MOST_ENTRIES:
            raise InvalidInput(
                f"markers.toml, line {where}: [{code}] has more than {MOST_ENTRIES} entries:"
                " remove some"
            )
        found[code] = {
            kind: _pattern(text, code, kind, patterns) for kind, patterns in kinds.items()
        }
    return found


def _pattern(text: str, code: str, kind: str, patterns: object) -> str:
    """Return one pattern for all entries of a kind."""
    if kind not in KINDS:
        raise InvalidInput(
            f"{_place(text, code, kind)}: {kind!r} is not a kind: use one of {', '.join(KINDS)}"
        )
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise InvalidInput(
            f"{_place(text, code, kind)}: {kind} is not a list of patterns: write a list"
        )
    whole = "|".join(f"(?:{pattern})" for pattern in patterns)
    if code not in _UNSPACED:
        # Without "_" a run of word characters begins at an edge only, so that each is read once.
        whole = rf"(?<!{_EDGE})(?:{whole})(?!{_EDGE})".replace(r"\w", r"[^\W_]")
    return whole


def _place(text: str, code: str, kind: str) -> str:
    """Return where a kind of a language stands."""
    start = text[: text.index(f"[{code}]")].count("\n")
    return f"markers.toml, line {start + _line_of(text[text.index(f'[{code}]') :], f'{kind} ')}"


_EDGE = f"(?:{LETTER})"


def _line_of(text: str, start: str) -> int:
    """Return the number of the first line that begins with *start*."""
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.startswith(start)), 1)


@cache
def markers() -> dict[str, dict[str, str]]:
    """Return the patterns of the markers of all languages."""
    return parse(read_text(__file__, "markers.toml"))


@lru_cache(maxsize=4_096)
def marks(text: str) -> frozenset[str]:
    """
    Return the kinds with a marker in *text*: of its language, and orders of any language.

    Its first `MAX_CHARS` are read, and how it ends: a marker may look at the rest of its line
    from each word.

    >>> sorted(marks("Maybe we no longer live there."))
    ['hedge', 'negation', 'retraction']
    """
    folded = fold(text[:MAX_CHARS])
    tables = markers()
    found = {
        "retraction" if kind == "forget" else kind
        for kind, source in tables.get(recognise(text), {}).items()
        for pattern in [compiled(source)]
        if (pattern.match if kind in AT_HEAD else pattern.search)(folded)
    }
    if order_end(folded):
        found.add("remember")
    if text.rstrip(" \"')\u300d\u201d").endswith(("?", "\uff1f", "\u061f")):
        found.add("question")
    return frozenset(found)


def orders_to_forget(text: str) -> bool:
    """Return whether *text* has a marker of an order to take something back."""
    pattern = markers().get(recognise(text), {}).get("forget")
    return pattern is not None and compiled(pattern).search(fold(text[:MAX_CHARS])) is not None


def order_end(folded: str) -> int:
    """Return where an order to remember ends that stands at the head of a folded text; else 0."""
    start = len(folded) - len(folded.lstrip())
    ends = (
        match.end()
        for kinds in markers().values()
        if "remember" in kinds and (match := compiled(kinds["remember"]).match(folded, start))
    )
    return max(ends, default=0)


def says_the_same(newer: str, older: str) -> bool:
    """
    Return whether both say the same, word by word, but for spelling and an order to remember it.

    Letter case, accents on Latin letters, punctuation and the format of numbers make no difference.
    A lone letter, a sign of a unit and a question mark do.

    >>> says_the_same("Please remember that I drink oat milk!", "i drink oat milk")
    True
    >>> says_the_same("I take vitamin C.", "I take vitamin D.")
    False
    """
    return _bare(newer) == _bare(older)


@lru_cache(maxsize=2_048)
def _bare(text: str) -> tuple[str, ...]:
    """Return all words and signs of a text without an order to remember it at its head."""
    folded = fold(text)
    if (end := order_end(folded)) and folded[end:].strip(" .:,"):
        text = folded[end:].lstrip(" :,")
    return words_and_signs(text)
