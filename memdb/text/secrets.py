"""
Find secrets in texts, and redact them.

Keys, tokens, passwords and private keys do not belong in a memory that is read
back into prompts. `find_secrets` is precise. `memdb.text.secret_rules` has the formats,
`memdb.text.screening` decides what happens to a match, and `memdb.text.redaction` also hides words
that only look like a key. Pure and linear in the text.
"""

from __future__ import annotations

import re
from math import log2
from typing import TYPE_CHECKING

from memdb.models.reports import Secret
from memdb.text.resources import compiled
from memdb.text.sanitize import INVISIBLE_CLASS, JOINERS
from memdb.text.secret_rules import PLACEHOLDER, RULES, Rule, decoded_text, is_drawn_word, is_dummy
from memdb.text.validate import flag_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.models.protocols import Detector

KINDS = (*(rule.kind for rule in RULES), "high_entropy")

# A run of base64 that may wrap a secret. A longer one is a picture, not a key.
_RUN = r"[A-Za-z0-9+/_-]{20,}={0,2}"
MIN_WRAPPED, MAX_WRAPPED = 24, 65_536

# The kind in a placeholder is no name of what stands behind it.
_KIND = rf"(?<={re.escape(PLACEHOLDER)} )\w+(?=\])"

# Characters of a key behind the word of its service; no run of more counts as drawn.
MIN_DRAWN, MAX_DRAWN = 32, 512
MIN_ENTROPY_BITS = 4.0

# What parts the characters of a secret: format characters, or a space behind each one.
_UNSEEN = f"[{INVISIBLE_CLASS}{JOINERS}]+"
_SPACED = r"\S (?<!\S\S )(?:\S ){10,}\S(?!\S)"
# A key in groups. Its first characters decide its format.
_GROUPS = r"[A-Za-z0-9_.-]{1,16}(?:[ \n][A-Za-z0-9_.-]{1,16}){1,40}"
MAX_GROUP = 16
BY_PREFIX = frozenset(
    "anthropic_key openai_key google_api_key github_token aws_access_key slack_token stripe_key "
    "service_key sendgrid_key".split()
)

SHOWN_CHARS = 4

_LONGER_IN_LOWER_CASE = "\u0130"  # the only character that `lower` turns into two


def find_secrets(
    text: str, *, entropy: bool = False, detector: Detector | None = None
) -> list[Secret]:
    """
    Return the secrets in *text*, in order; they do not overlap.

    Secrets in base64, and over several lines, are found too. The search rather finds too many than
    too few, but placeholders (`xxxx`, `<key>`, `$KEY`) are not found.

    Args:
        entropy: Also find unnamed runs of at least 20 characters with at least 4 bits per
            character, a digit, and letters of both cases. Hashes and ids are among them.
        detector: Finds additional secrets; its spans are merged with the others.

    Cost: 0.1 ms for a sentence, at most 1 s per MB of whatever text.

    >>> find_secrets("use ghp_0123456789abcdefghijABCDEFGHIJ012345 for it")
    [Secret(kind='github_token', start=4, end=44)]
    """
    found = [*_by_rules(text, is_whole=True), *_wrapped(text), *_spread(text)]
    if flag_value(entropy, "entropy"):
        found += _drawn(text)
    if detector is not None:
        found += _checked(detector(text), len(text))
    return _joined(found)


def _by_rules(text: str, *, is_whole: bool = False) -> Iterable[Secret]:
    """Yield the secrets that the rules find; if the text *is_whole*, also keys in groups."""
    if PLACEHOLDER in text:
        text = compiled(_KIND).sub(lambda match: "#" * len(match[0]), text)
    lower = text.replace(_LONGER_IN_LOWER_CASE, "i").lower()  # the places are those of the text
    for rule in RULES:
        starts = _starts(rule, text, lower)
        if not starts:
            continue
        yield from _by_rule(rule, text, starts)
        if is_whole and rule.kind in BY_PREFIX:
            yield from _in_groups(rule, text, lower)


def _starts(rule: Rule, text: str, lower: str) -> list[int]:
    """Return the places, in order, at which a match of *rule* in *text* can begin."""
    found = []
    for hint in rule.hints:
        at = lower.find(hint)
        while at >= 0:
            found.append(at)
            at = lower.find(hint, at + 1)
    if rule.sign:
        found += [one.start() for one in compiled(rule.sign).finditer(text)]
    if rule.reach and found:
        found = [one for at in found for one in range(max(0, at - rule.reach), at + 1)]
    return sorted({*found, 0}) if rule.sign else sorted({*found})


def _by_rule(rule: Rule, text: str, starts: Iterable[int] | None = None) -> Iterable[Secret]:
    """Yield the matches of a rule in *text*; None for *starts* means anywhere."""
    pattern = compiled(("(?a)" if rule.exact else "(?ai)") + rule.pattern)
    for match in pattern.finditer(text) if starts is None else _matches(pattern, text, starts):
        if rule.check is None or rule.check(match):
            yield Secret(rule.kind, *_span(match))


def _matches(pattern: re.Pattern[str], text: str, starts: Iterable[int]) -> Iterable[re.Match[str]]:
    """Yield the matches that begin at *starts* and do not overlap, as `finditer` does."""
    end = 0
    for start in starts:
        match = pattern.match(text, start) if start >= end else None
        if match is not None:
            end = match.end()
            yield match


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of the secret alone, without a name before it or a full stop after it."""
    for group in ("v", "w", "x", "bare"):
        if match.re.groupindex.get(group) and match[group] is not None:
            start, end = match.span(group)
            return start, end - (match[group][-1] == ".")
    if "quoted" in match.re.groupindex:
        start, end = match.span("quoted")
        return start + 1, end - 1
    return match.start(), match.end() - (match[0][-1] == ".")


def _wrapped(text: str) -> Iterable[Secret]:
    """Yield runs of base64 that contain a secret once decoded, and keys of unknown services."""
    match = None
    for match in compiled(_RUN).finditer(text):
        if _is_service_key(text, match):
            yield Secret("service_key", *match.span())
        decoded = decoded_text(match[0]) if MIN_WRAPPED <= len(match[0]) <= MAX_WRAPPED else None
        inner = next(iter(_by_rules(decoded)), None) if decoded else None
        if inner is not None:
            yield Secret(inner.kind, *match.span())
    for rule in RULES if match is not None else ():
        if not rule.hints and not rule.sign:
            yield from _by_rule(rule, text)


def _is_service_key(text: str, match: re.Match[str]) -> bool:
    """Return whether a run is a word, a line, and a drawn string: how services form their keys."""
    prefix, line, value = match[0].partition("_")
    is_path = "/" in match[0] or text[max(0, match.start() - 1) : match.start()] in ("/", "@", "#")
    return (
        bool(line)
        and prefix.isalpha()
        and prefix.islower()
        and MIN_DRAWN <= len(value) <= MAX_DRAWN
        and not is_path
        and max(map(len, re.split("[-_+]", value))) >= MIN_WRAPPED
        and is_drawn_word(value, 5, 5)
    )


def _spread(text: str) -> Iterable[Secret]:
    """Yield secrets whose characters are separated by spaces or by invisible characters."""
    if not text.isascii():
        yield from _without(text, 0, [match.span() for match in compiled(_UNSEEN).finditer(text)])
    for match in compiled(_SPACED).finditer(text):
        spaces = [(at, at + 1) for at in range(match.start() + 1, match.end(), 2)]
        yield from _without(text[: match.end()], match.start(), spaces)


def _in_groups(rule: Rule, text: str, lower: str) -> Iterable[Secret]:
    """Yield a key in groups separated by spaces; the first group begins as matches of *rule* do."""
    for hint in rule.hints:
        at = lower.find(hint)
        groups = compiled(_GROUPS).match(text, at) if at >= 0 else None
        if groups is None:
            continue
        spaces = [(at + one.start(), at + one.end()) for one in re.finditer(r"\s", groups[0])]
        for one in _without(text[: groups.end()], at, spaces):
            value = text[one.start : one.end].split()
            # Words follow the name of a format too: "ghp_ tokens are for GitHub".
            if is_drawn_word("".join(value), 4, 3) and max(map(len, value)) <= MAX_GROUP:
                yield one


def _without(text: str, start: int, cut: list[tuple[int, int]]) -> Iterable[Secret]:
    """Yield the secrets of *text* from *start* on without the spans *cut*, where they stand."""
    if not cut:
        return
    kept: list[str] = []
    places: list[int] = []
    after = start
    for first, last in [*cut, (len(text), len(text))]:
        kept.append(text[after:first])
        places += range(after, first)
        after = last
    for one in _by_rules("".join(kept)):
        yield Secret(one.kind, places[one.start], places[one.end - 1] + 1)


def _drawn(text: str) -> Iterable[Secret]:
    sorts = (str.isdigit, str.isupper, str.islower)
    for match in compiled(_RUN).finditer(text):
        run = match[0]
        if len(run) > MAX_DRAWN or not all(any(map(sort, run)) for sort in sorts):
            continue
        if entropy_bits(run) >= MIN_ENTROPY_BITS:
            yield Secret("high_entropy", *match.span())


def entropy_bits(text: str) -> float:
    """
    Return Shannon's entropy of the characters of *text*, in bits per character.

    >>> entropy_bits("aaaa"), entropy_bits("abcd")
    (0.0, 2.0)
    """
    size = len(text)
    shares = [text.count(one) / size for one in set(text)]
    return sum(share * log2(1 / share) for share in shares)


def _checked(spans: Iterable[Secret], size: int) -> Iterable[Secret]:
    """Yield the matches of a host's detector, cut to the text."""
    for span in spans:
        low, high = max(0, span.start), min(size, span.end)
        if low < high:
            yield Secret(span.kind, low, high)


def _joined(found: list[Secret]) -> list[Secret]:
    """Return *found* in order; overlapping matches become one, of the first kind."""
    ranked = sorted(enumerate(found), key=lambda item: (item[1].start, item[0]))
    joined: list[tuple[int, Secret]] = []
    for rank, one in ranked:
        if joined and one.start < joined[-1][1].end:
            known_rank, known = joined[-1]
            kind = known.kind if known_rank < rank else one.kind
            merged = Secret(kind, known.start, max(known.end, one.end))
            joined[-1] = (min(rank, known_rank), merged)
        else:
            joined.append((rank, one))
    return [one for _, one in joined]


def redact_secrets(text: str, found: Iterable[Secret] | None = None) -> str:
    """
    Return *text* with `[REDACTED kind]` in the place of each secret.

    Args:
        found: What `find_secrets` returned for it; None means that they are
            found now, without *entropy* or a detector.

    >>> redact_secrets("the password is hunter2")
    'the password is [REDACTED password]'
    """
    parts, after = [], 0
    for one in find_secrets(text) if found is None else found:
        parts += [text[after : one.start], f"{PLACEHOLDER} {one.kind}]"]
        after = one.end
    return "".join([*parts, text[after:]])


def shown(text: str, one: Secret) -> str:
    """
    Return the part of a secret that may be shown: its beginning and its length.

    >>> text = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    >>> shown(text, find_secrets(text)[0])
    'ghp_… (40 characters)'
    """
    size = one.end - one.start
    kept = SHOWN_CHARS if size >= 5 * SHOWN_CHARS else 0
    return f"{text[one.start : one.start + kept]}… ({size} characters)"


__all__ = ["KINDS", "Secret", "find_secrets", "is_dummy", "redact_secrets", "shown"]
