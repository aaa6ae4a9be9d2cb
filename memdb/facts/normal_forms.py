"""
Normal forms: one sequence of words for statements that say the same in other words.

Words without content are left out, endings are cut, and each word or phrase becomes the
head of its group of synonyms in `data/languages.txt`. Chinese is taken by the character,
Japanese by what stands between its particles. Used by `statements`. Pure; about 20 µs for a
sentence.
"""

from __future__ import annotations

import re

from memdb.facts.canonical import is_value
from memdb.facts.languages import LANGUAGES, STATE

# Words of a normal form that are compared in another order.
MAX_REORDERED = 16

_JA_RUN = re.compile(r"[NDU][^\s]*|[a-z@][a-zA-Z0-9.@_+-]*|[一-龠々ァ-ヶー]+|\d+|[\u3041-\u3096]+")
_ZH_ONE = re.compile(" N1 (?=[名位家])")
_ZH_TOKEN = re.compile(r"@[a-z.]+|[NDU][^\s]*|[a-z]+|[^\W_]")
_JA_PARTICLE = re.compile("(?:に|で|と|から|まで)?(?:は|も)|から|まで|より|を|が|に|で|と|へ|の")
# What the Hiragana after a word say beside its inflection.
_JA_MOOD = re.compile("たい|られ|させ|たら|れば|なら|より|だけ|まで|から|ほど|そう|らしい")
_JA_PAST = re.compile("(?:ました|でした|だった|かった|った|いた|んだ|した)(?=$|[^ぁ-ん])")
_TOPIC = frozenset({"は", "も", ""})


def normal_form(plain: str, tokens: tuple[str, ...], language: str) -> tuple[str, ...]:
    """
    Return the words with content of a canonical text, each as the head of its synonyms.

    Args:
        tokens: The words of *plain* without fillers.

    >>> normal_form("", ("resides", "in", "vienna"), "en")
    ('home', 'wien')
    """
    if language == "ja":
        return tuple(run for run, _ in _japanese_runs(plain))
    words = LANGUAGES[language]
    if language == "zh":
        text = words.with_synonyms(_ZH_ONE.sub(" ", _joined(tokens)))
        return tuple(one for one in _ZH_TOKEN.findall(text) if one not in words.light)
    stems = tuple(one if is_value(one) else words.stem(one) for one in tokens)
    form = _heads(stems, tokens, language)
    # What was left out may have stood in a phrase: "ride my bike".
    form = _heads(form, form, language)
    # Said twice: "I don't eat meat, I'm vegetarian".
    return tuple(one for place, one in enumerate(form) if not place or form[place - 1] != one)


def _heads(stems: tuple[str, ...], tokens: tuple[str, ...], language: str) -> tuple[str, ...]:
    """Return the heads of the phrases of a text, and the words that are in none."""
    words = LANGUAGES[language]
    form: list[str] = []
    place = 0
    while place < len(tokens):
        head, count = words.head(stems, place)
        if head is not None:
            form += head.split()
        elif tokens[place] not in words.light and tokens[place] not in words.fillers:
            form.append(stems[place])
        place += count
    return tuple(form)


def _joined(tokens: tuple[str, ...]) -> str:
    return "".join(f" {one} " if one.isascii() else one for one in tokens)


def _japanese_runs(plain: str) -> list[tuple[str, str]]:
    """Return the words of a Japanese text, each with the particle that follows it."""
    words = LANGUAGES["ja"]
    runs: list[tuple[str, str]] = []
    for one in _JA_RUN.findall(words.with_synonyms(plain)):
        if not "ぁ" <= one[0] <= "ゖ":
            if one not in words.light:
                runs.append((one, ""))
            continue
        if runs and not runs[-1][1] and (particle := _JA_PARTICLE.fullmatch(one)):
            runs[-1] = runs[-1][0], particle[0]
        runs += [(mood, "") for mood in _JA_MOOD.findall(one) if not _JA_PARTICLE.fullmatch(one)]
    if _JA_PAST.search(plain):
        runs.append(("past", ""))
    return runs


def is_reordered(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """
    Return whether two forms have the same words, and no two parts changed their roles.

    >>> is_reordered(("dog", "chase", "cat"), ("cat", "chase", "dog"))
    False
    >>> is_reordered(("monday", "swim"), ("swim", "monday"))
    True
    """
    if first == second:
        return bool(first)
    if sorted(first) != sorted(second) or len(first) > MAX_REORDERED:
        return False
    start = next(n for n, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])
    end = len(first)
    while first[end - 1] == second[end - 1]:
        end -= 1
    one, other = first[start:end], second[start:end]
    count = end - start
    return not any(
        other == one[count - right :] + one[left : count - right] + one[:left]
        for left in range(1, count - 1)
        for right in range(1, count - left)
    )


def is_time(word: str, language: str) -> bool:
    """Return whether a word is a date, a month, a day of the week or a time of the day."""
    words = LANGUAGES[language]
    return word[0] == "D" or word in words.often or word in words.months


def has_same_roles(first: str, second: str) -> bool:
    """
    Return whether the words of two Japanese texts have the same particles.

    One may have another, and any may be the topic; but two do not change places as topic.
    """
    roles = [dict(_japanese_runs(one)) for one in (first, second)]
    common = roles[0].keys() & roles[1].keys()
    pairs = [(roles[0][one], roles[1][one]) for one in common if roles[0][one] != roles[1][one]]
    topics = [
        {*pair} & {"は", "も"} and pair.index("は" if "は" in pair else "も") for pair in pairs
    ]
    changed = [pair for pair in pairs if not {*pair} & {*_TOPIC, "の"}]
    return len(changed) <= 1 and not (0 in topics and 1 in topics)


def states_of(form: tuple[str, ...]) -> list[int]:
    """Return the places of the words that name a state, as "@marital.single"."""
    return [place for place, one in enumerate(form) if one[0] == STATE]
