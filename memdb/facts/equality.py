"""
Equality: whether two readings of statements say the same, or differ in one place.

They do if they differ in spelling, in words that add nothing, in synonyms, or in the place of
a part, and if names, numbers, roles, negation and tense agree. Pure.
"""

from __future__ import annotations

import re
from collections import Counter

from memdb.facts.canonical import canonical, is_value
from memdb.facts.languages import LANGUAGES, fold
from memdb.facts.normal_forms import has_same_roles, is_reordered, is_time, normal_form
from memdb.facts.readings import CAPITAL, Reading, umlaut_key

# Words of a statement of which one part may stand elsewhere.
_MIN_MOVED, _MAX_MOVED = 3, 30

# Words, or characters, by which a changed value may be longer than one word.
MAX_CHANGED = 4
_MAX_CHANGED_CJK = 12

# Words that no language takes for a name.
COMMON = frozenset().union(*[one.common for one in LANGUAGES.values()])


def is_equal(mine: Reading, theirs: Reading) -> bool:  # noqa: PLR0911 (a rule each)
    """Return whether two statements differ in spelling, fillers or the place of one part only."""
    if (mine.negative, mine.ended, mine.also) != (theirs.negative, theirs.ended, theirs.also):
        return False
    if mine.past != theirs.past:
        return False
    if mine.key == theirs.key:
        return bool(mine.tokens)
    language, new, old = mine.language, mine.text, theirs.text
    if language in ("zh", "ja"):
        return False
    is_ascii = new.isascii() and old.isascii()
    if not is_ascii and umlaut_key(new, language) == umlaut_key(old, language):
        return True
    if len(mine.bare) != len(theirs.bare):
        return False
    moved = _is_moved(mine.bare, theirs.bare) and _order(new, old) == _order(old, new)
    return moved or mine.bare == theirs.bare != ()


def has_same_words(mine: Reading, theirs: Reading) -> bool:
    """Return whether two statements have the same words with content, in the same roles."""
    if (mine.negative, mine.ended, mine.also) != (theirs.negative, theirs.ended, theirs.also):
        return False
    if mine.past != theirs.past or not _has_same_form(mine, theirs):
        return False
    if mine.language == "ja":
        return has_same_roles(*(canonical(one.text, "ja") for one in (mine, theirs)))
    if mine.language == "zh":
        return True
    if _are_forms_of_names(mine, theirs):
        return False
    return _common_names(mine, theirs) == _common_names(theirs, mine) or _is_turned(mine, theirs)


def _has_same_form(mine: Reading, theirs: Reading) -> bool:
    """Return whether two readings have the same words; when something is may stand anywhere."""
    forms = [_without_kind(*pair) for pair in ((mine, theirs), (theirs, mine))]
    if mine.language == "en" and {"our"} & {*mine.tokens, *theirs.tokens}:
        # "we meet" is "our meeting"
        forms = [tuple(word for word in form if word != "we") for form in forms]
    if is_reordered(*forms):
        return True
    times = [sorted(word for word in form if is_time(word, mine.language)) for form in forms]
    if len(times[0]) != 1 or times[0] != times[1]:
        return False
    rest = [tuple(word for word in form if word not in times[0]) for form in forms]
    return is_reordered(*rest)


def _without_kind(one: Reading, other: Reading) -> tuple[str, ...]:
    """Return the form of a reading without the kind of what the other one names alone."""
    kinds = LANGUAGES[one.language].kinds
    more = {*one.form} - {*other.form}
    if len(more) != 1 or not more <= kinds or {*other.form} - {*one.form}:
        return one.form
    (kind,) = more
    at = one.form.index(kind)
    before = one.form[at - 1 : at] if len(one.form) >= _MIN_MOVED else ()
    is_after_it = bool(before) and before[0] not in LANGUAGES[one.language].holds
    return one.form[:at] + one.form[at + 1 :] if is_after_it else one.form


def _common_names(mine: Reading, theirs: Reading) -> list[str]:
    """Return the capitalised words of a statement, in order, that the other has too."""
    others = {*map(fold, CAPITAL.findall(theirs.text))} - COMMON
    names = [name for name in map(fold, CAPITAL.findall(mine.text)) if name in others]
    stem = LANGUAGES[mine.language].stem
    return [name for name in names if not is_time(stem(name), mine.language)]


def _are_forms_of_names(mine: Reading, theirs: Reading) -> bool:
    """Return whether two names have one stem: Martin is not Martine."""
    stem = LANGUAGES[mine.language].stem
    names = [{fold(name) for name in CAPITAL.findall(one.text)} for one in (mine, theirs)]
    own = names[0].difference(names[1], theirs.tokens), names[1].difference(names[0], mine.tokens)
    common = {*map(stem, own[0])} & {*map(stem, own[1])}
    return not all(is_time(one, mine.language) for one in common)


def _is_turned(mine: Reading, theirs: Reading) -> bool:
    """Return whether "x is y" is "y is x"."""
    copula = LANGUAGES[mine.language].copula

    def sides(one: Reading) -> list[tuple[str, ...]]:
        places = [place for place, word in enumerate(one.tokens) if word in copula]
        parts = [one.tokens[: places[0]], one.tokens[places[0] + 1 :]] if places else []
        return [normal_form("", part, one.language) for part in parts]

    return bool(sides(mine)) and sides(mine)[::-1] == sides(theirs)


def _order(text: str, other: str) -> list[str]:
    """Return the capitalised words of a text in order, without those that are not so in *other*."""
    plain = {*re.findall(r"[^\W\d_]+", other)}
    return [
        fold(word)
        for word in CAPITAL.findall(text)
        if word.lower() not in plain and fold(word) not in COMMON
    ]


def _is_moved(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Return whether one part of two words or more, or a date, stands elsewhere."""
    if not _MIN_MOVED <= len(first) <= _MAX_MOVED or sorted(first) != sorted(second):
        return False
    count = len(first)
    for start in range(count):
        for end in range(start + 1, count + 1):
            part, rest = first[start:end], first[:start] + first[end:]
            if second in (rest + part, part + rest):
                return True
    return False


def one_change(
    new: tuple[str, ...], old: tuple[str, ...], language: str
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """
    Return the words that were replaced and those in their place, if it is one place only.

    None if nothing or more than one place differs, or too little is in common.
    """
    if language == "zh":
        return _one_change_of_characters(new, old)
    copula = LANGUAGES[language].copula
    news, olds = ([one for one in each if one not in copula] for each in (new, old))
    gone, added = _run(old, Counter(olds) - Counter(news)), _run(new, Counter(news) - Counter(olds))
    common = len(olds) - len(gone)
    if not gone or not added or max(len(gone), len(added)) > MAX_CHANGED or not common:
        return None
    kinds = [{word[0] for word in each if word[0] in "ND"} for each in (gone, added)]
    if any(map(is_value, gone)) != any(map(is_value, added)) or kinds[0] != kinds[1]:
        return None
    if all(map(is_value, gone)) != all(map(is_value, added)):
        return None
    of_one = len(gone) == len(added) and all(map(is_value, gone[1:] + added[1:]))
    return (gone, added) if common > 1 or of_one else None


def _one_change_of_characters(
    new: tuple[str, ...], old: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return what was replaced behind a common beginning, if it is no more than the rest."""
    start = end = 0
    shorter = min(len(new), len(old))
    while start < shorter and new[start] == old[start]:
        start += 1
    while end < shorter - start and new[-1 - end] == old[-1 - end]:
        end += 1
    gone, added = old[start : len(old) - end], new[start : len(new) - end]
    if not gone or not added or start + end < max(2, len(gone)):
        return None
    if len(added) > _MAX_CHANGED_CJK or any(map(is_value, gone)) != any(map(is_value, added)):
        return None
    return gone, added


def _run(tokens: tuple[str, ...], words: Counter[str]) -> tuple[str, ...]:
    """Return *words* in order if they stand side by side in *tokens*, else ()."""
    count = words.total()
    for start in range(len(tokens) - count + 1):
        part = tokens[start : start + count]
        if Counter(part) == words:
            return part
    return ()
