"""
Reading what a model answers about facts: lenient in form, strict in content.

Models wrap JSON in prose, fences and objects, give one object per line, and
invent ids and categories. Every form that can be understood is; what cannot
be stored, or points at what was not offered, is left out.
"""

from __future__ import annotations

import re

from memdb.errors import InvalidInput, PortError
from memdb.models.extraction import CONFLICTS, DECISIONS, Candidate
from memdb.models.record import Record
from memdb.text.validate import name_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Fits = Callable[[Any], bool]

MAX_FACT_CHARS = 500
MAX_KEYWORDS = 16
MAX_KEYWORD_CHARS = 80
DEFAULT_IMPORTANCE = 5
MAX_IMPORTANCE = 10
PREVIEW_CHARS = 200
MAX_ANSWER_CHARS = 1 << 20
MAX_EXPIRY_DAYS = 365
UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}

_EXPIRES = re.compile(r"([0-9]{1,9})([dhm])")
_DAY = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")


class Unreadable(PortError):
    """A model answered, and the answer is of no form that facts could have."""


class Verdict(Record):
    """
    What a model wants done with a candidate.

    Attributes:
        action: One of `DECISIONS`.
        target: Label of an entry as it was offered; None: none named.
        text: Of a merged entry; "" to take the candidate's.
        conflict: One of `CONFLICTS`, None if none is named.
    """

    action: str
    target: str | None = None
    text: str = ""
    conflict: str | None = None


def read_candidates(
    answer: str,
    name: str,
    *,
    categories: Sequence[str],
    span: tuple[int, int],
    said_ms: int,
    most: int,
) -> list[Candidate]:
    """
    Return the facts of an answer, the most important *most* of them, in order.

    Args:
        answer: Of the model called *name*.
        categories: Those it may use; facts of others are left out.
        span: First and last seq of the messages it read.
        said_ms: When the newest of them was said.

    Raises:
        Unreadable: it cannot be understood at all.
    """
    rows = _rows(answer, name, lambda item: "category" in item)
    found = [_candidate(row, set(categories), span, said_ms) for row in rows]
    kept = [one for one in found if one is not None]
    best = sorted(range(len(kept)), key=lambda n: (-(kept[n].importance or 0), n))[:most]
    return [kept[n] for n in sorted(best)]


def read_verdicts(answer: str, name: str, count: int) -> list[Verdict]:
    """
    Return a verdict per candidate, "create" for those that the answer leaves out.

    Indexes out of range are ignored; of two for one candidate the last counts.

    Raises:
        Unreadable: it cannot be understood at all.
    """
    verdicts = [Verdict("create")] * count
    for row in _rows(answer, name, lambda item: "index" in item or "action" in item):
        place = row.get("index")
        if isinstance(place, str) and place.strip().isdecimal():
            place = int(place)
        if not isinstance(place, int) or isinstance(place, bool) or not 1 <= place <= count:
            continue
        action, conflict = _word(row, "action"), _word(row, "conflict_type")
        target = row.get("target_id")
        verdicts[place - 1] = Verdict(
            action if action in DECISIONS else "create",
            str(target).strip() or None if isinstance(target, (str, int)) else None,
            _line(row.get("merged_content")),
            conflict if conflict in CONFLICTS else None,
        )
    return verdicts


def expiry_ms(text: object, now_ms: int) -> int | None:
    """
    Return the time that "7d", "24h" or "60m" after *now_ms* is, a year at most.

    None for anything else: what is not said as it was asked for is not known.

    >>> expiry_ms("7d", 0), expiry_ms("400d", 0), expiry_ms("1.5d", 0)
    (604800000, 31536000000, None)
    """
    match = _EXPIRES.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) == 0:
        return None
    return now_ms + min(int(match[1]) * UNIT_MS[match[2]], MAX_EXPIRY_DAYS * UNIT_MS["d"])


def _rows(answer: str, name: str, fits: Fits) -> list[dict[str, Any]]:
    """Return the objects of an answer that *fits*, from the first form that has some."""
    text = answer.strip()
    if len(text) > MAX_ANSWER_CHARS:
        raise Unreadable(name, f"its answer has {len(text):,} characters: too many to be facts")
    bare = _unfenced(text)
    whole = _parsed(bare)
    rows = _from_value(whole, fits)
    if rows is not None:
        return rows
    rows = [one for line in bare.splitlines() if (one := _of_line(line, fits)) is not None]
    if rows:
        return rows
    start, end = text.find("["), text.rfind("]")
    rows = _from_value(_parsed(text[start : end + 1]), fits) if 0 <= start < end else None
    if rows is None:
        from memdb.text.redact import redact  # only where it goes wrong

        preview = redact(" ".join(text[: PREVIEW_CHARS * 4].split()))[:PREVIEW_CHARS]
        raise Unreadable(name, f"cannot parse its answer as facts: {preview!r}")
    return rows


def _from_value(value: Any, fits: Fits) -> list[dict[str, Any]] | None:
    """Return the objects of a list, of a list in an object, or the object; None for no form."""
    if isinstance(value, list):
        rows = [one for one in value if isinstance(one, dict)]
        return rows if rows or not value else None
    if not isinstance(value, dict):
        return None
    if fits(value):
        return [value]
    lists = [item for item in value.values() if isinstance(item, list)]
    for items in lists:
        rows = [one for one in items if isinstance(one, dict) and fits(one)]
        if rows:
            return rows
    return [] if any(not items for items in lists) else None


def _unfenced(text: str) -> str:
    """Return what stands in the first code fence; *text* itself without one at its start."""
    if not text.startswith("```"):
        return text
    first, _, rest = text.partition("\n")
    body = rest or first.removeprefix("```").removeprefix("json")
    return body.rpartition("```")[0].strip() or body.strip()


def _of_line(line: str, fits: Fits) -> dict[str, Any] | None:
    line = line.strip().rstrip(",")
    if not (line.startswith("{") and line.endswith("}")):
        return None
    value = _parsed(line)
    return value if isinstance(value, dict) and fits(value) else None


def _parsed(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _candidate(
    row: dict[str, Any], categories: set[str], span: tuple[int, int], said_ms: int
) -> Candidate | None:
    """Return a row as a candidate, None if it is no fact that could be kept."""
    text, category = _line(row.get("content")), _word(row, "category")
    if category not in categories or not text or len(text) > MAX_FACT_CHARS:
        return None
    try:
        text_value(text, "content")
    except InvalidInput:
        return None
    seq = row.get("message")
    told = (seq, seq) if isinstance(seq, int) and span[0] <= seq <= span[1] else span
    return Candidate(
        category=category,
        text=text,
        key=_key(row.get("key")),
        keywords=_keywords(row.get("keywords")),
        importance=_importance(row.get("importance")),
        valid_from_ms=_moment(row.get("since"), said_ms),
        expires_ms=expiry_ms(row.get("expires_in"), said_ms),
        first_seq=told[0],
        last_seq=told[1],
    )


def _line(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _word(row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    return value.strip().lower() if isinstance(value, str) else ""


def _key(value: object) -> str | None:
    key = re.sub(r"\W+", "_", _line(value).lower()).strip("_")[:MAX_KEYWORD_CHARS]
    if not key or key in ("null", "none"):
        return None
    try:
        return name_value(key, "key")
    except InvalidInput:
        return None


def _keywords(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    kept = []
    for word in words:
        line = _line(word)[:MAX_KEYWORD_CHARS]
        try:
            kept.append(text_value(line, "keywords"))
        except InvalidInput:
            continue
    return tuple(dict.fromkeys(word for word in kept if word))[:MAX_KEYWORDS]


def _importance(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_IMPORTANCE:
        return value
    return DEFAULT_IMPORTANCE


def _moment(value: object, said_ms: int) -> int | None:
    """Return the day that *value* names, if it is not after *said_ms*; else None."""
    match = _DAY.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    from datetime import UTC, datetime

    try:
        day = datetime(int(match[1]), int(match[2]), int(match[3] or 1), tzinfo=UTC)
    except ValueError:
        return None
    since_ms = round(day.timestamp() * 1000)
    return since_ms if since_ms <= said_ms else None
