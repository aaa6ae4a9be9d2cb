"""
Parser of a model's answers about facts: lenient in form, strict in content.

Models wrap JSON in prose, fences and objects, give one object per line, and
invent ids and categories. Every readable form is accepted. A fact that cannot
be stored, or an entry that was not offered, is left out.
"""

from __future__ import annotations

import re

from memdb.errors import InvalidInput, Unreadable
from memdb.models.extraction import CONFLICTS, Candidate
from memdb.models.protocols import ACTIONS, ADD, DELETE, NOOP, UPDATE, Verdict
from memdb.text.times import UNITS_MS
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

_EXPIRES = re.compile(r"([0-9]{1,9})([dhm])")
_DAY = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")


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
    Return the *most* most important facts of an answer, in order.

    Args:
        answer: Of the model called *name*.
        categories: Allowed ones; facts of others are left out.
        span: First and last seq of the messages that it read.
        said_ms: Time of the newest of them.

    Raises:
        Unreadable: the answer has no known form.
    """
    rows = _rows(answer, name, lambda item: "category" in item)
    found = [_candidate(row, set(categories), span, said_ms) for row in rows]
    kept = [candidate for candidate in found if candidate is not None]
    best = sorted(range(len(kept)), key=lambda n: (-(kept[n].importance or 0), n))[:most]
    return [kept[n] for n in sorted(best)]


def read_verdicts(answer: str, name: str, offered: Sequence[Sequence[str]]) -> list[Verdict]:
    """
    Return a verdict per candidate, "add" for those that the answer leaves out.

    Indexes out of range are ignored; of two for one candidate the last counts.
    A label that was not offered for the candidate is no target.

    Args:
        answer: Of the model called *name*.
        offered: For each candidate the labels of the entries that it was shown.

    Raises:
        Unreadable: the answer has no known form.
    """
    verdicts = [Verdict(ADD, reason="the model: add")] * len(offered)
    for row in _rows(answer, name, lambda item: "index" in item or "action" in item):
        place = row.get("index")
        if isinstance(place, str) and place.strip().isdecimal():
            place = int(place)
        if type(place) is int and 1 <= place <= len(offered):
            verdicts[place - 1] = _verdict(row, offered[place - 1])
    return verdicts


def _verdict(row: dict[str, Any], labels: Sequence[str]) -> Verdict:
    """Return what an answer says of one candidate."""
    action, conflict = _word(row, "action"), _word(row, "conflict")
    if action not in ACTIONS:
        action = ADD
    known = conflict if conflict in CONFLICTS else None
    verdict = Verdict(ADD, reason=f"the model: {known or action}", conflict=known)
    target, text = row.get("target"), _line(row.get("text")) or None
    label = str(target).strip() if isinstance(target, (str, int)) else ""
    places = (labels.index(label),) if label in labels else ()
    if action == NOOP:
        # Without a target it repeats an earlier candidate, which the rules see too.
        return verdict.replace(action=NOOP, targets=places or (0,))
    if places and action == UPDATE and text is not None:
        return verdict.replace(action=UPDATE, targets=places, text=text)
    if not places or action != DELETE or known == "context_dependent":
        return verdict
    if known == "preference_change":  # the same fact with another value: its history stays
        return verdict.replace(action=UPDATE, targets=places, text=text)
    return verdict.replace(action=DELETE, targets=places)


def expiry_ms(text: object, now_ms: int) -> int | None:
    """
    Return the time "7d", "24h" or "60m" after *now_ms*, a year at most; else None.

    >>> expiry_ms("7d", 0), expiry_ms("400d", 0), expiry_ms("1.5d", 0)
    (604800000, 31536000000, None)
    """
    match = _EXPIRES.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) == 0:
        return None
    return now_ms + min(int(match[1]) * UNITS_MS[match[2]], MAX_EXPIRY_DAYS * UNITS_MS["d"])


def _rows(answer: str, name: str, fits: Fits) -> list[dict[str, Any]]:
    """Return the objects of an answer for which *fits* holds, from the first form that has some."""
    text = answer.strip()
    if len(text) > MAX_ANSWER_CHARS:
        raise Unreadable(name, f"its answer has {len(text):,} characters: too many to be facts")
    bare = _unfenced(text)
    whole = _parsed(bare)
    rows = _from_value(whole, fits)
    if rows is not None:
        return rows
    rows = [row for line in bare.splitlines() if (row := _of_line(line, fits)) is not None]
    if rows:
        return rows
    start, end = text.find("["), text.rfind("]")
    rows = _from_value(_parsed(text[start : end + 1]), fits) if 0 <= start < end else None
    if rows is None:
        from memdb.text.secrets import redact  # only where it goes wrong

        preview = redact(" ".join(text[: PREVIEW_CHARS * 4].split()))[:PREVIEW_CHARS]
        raise Unreadable(name, f"cannot parse its answer as facts: {preview!r}")
    return rows


def _from_value(value: Any, fits: Fits) -> list[dict[str, Any]] | None:
    """Return the objects of a list, of a list in an object, or the object; else None."""
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, dict)]
        return rows if rows or not value else None
    if not isinstance(value, dict):
        return None
    if fits(value):
        return [value]
    lists = [item for item in value.values() if isinstance(item, list)]
    for items in lists:
        rows = [row for row in items if isinstance(row, dict) and fits(row)]
        if rows:
            return rows
    return [] if any(not items for items in lists) else None


def _unfenced(text: str) -> str:
    """Return the content of a code fence at the start of *text*, else *text*."""
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
    """Return a row as a candidate; None if it cannot be stored."""
    text, category = _line(row.get("content")), _word(row, "category")
    if category not in categories or not text or len(text) > MAX_FACT_CHARS:
        return None
    try:
        text_value(text, "content")
    except InvalidInput:
        return None
    seq = row.get("message")
    seqs = (seq, seq) if isinstance(seq, int) and span[0] <= seq <= span[1] else span
    return Candidate(
        category=category,
        text=text,
        key=_key(row.get("key")),
        keywords=_keywords(row.get("keywords")),
        importance=_importance(row.get("importance")),
        valid_from_ms=_moment(row.get("since"), said_ms),
        expires_ms=expiry_ms(row.get("expires_in"), said_ms),
        first_seq=seqs[0],
        last_seq=seqs[1],
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
    """Return the day that *value* names if it is not after *said_ms*; else None."""
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
