"""
Compare two statements in any of six languages: equal, corrected, or different.

Only what is certain decides. Two statements are equal if they differ in spelling, in words
that add nothing, or in synonyms (`normal_forms`). The newer one ends the older one if it gives
another value of a slot that holds one ("my phone number is ..."), names another state of the
same subject ("married"), denies it, says that it is over or was given up, or corrects it in so
many words and differs from it in one place. Everything else is different: both stay.
Words come from `languages`. Deterministic and pure; 0.4 ms for a new pair.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from memdb.facts.canonical import MAX_CHARS, is_value
from memdb.facts.equality import COMMON, MAX_CHANGED, has_same_words, is_equal, one_change
from memdb.facts.languages import LANGUAGES, fold
from memdb.facts.normal_forms import is_reordered, is_time, normal_form, states_of
from memdb.facts.readings import (
    CAPITAL,
    Reading,
    language_of,
    names_of,
    read,
    read_clauses,
    read_correction,
    read_leaving,
    read_timeless,
)

SAME, ENDS, OTHER = "same", "ends", "other"

# Words by which a corrected value may be longer than one word, and what must be left in common.
_MAX_MORE = 2
_MAX_ENDING = 4

# Words that add nothing before a date or a number: "on 5 May" is "5 May".

_ARTICLES = frozenset("the der die el la l le les".split())
_DID_NOT = frozenset(("didn't", "did not"))
_GAINS = frozenset("bought adopted acquired".split())
_WISHES = frozenset("prefer want wanted ordered booked".split())
_WITH = frozenset("with without mit ohne con sin avec sans".split())

_NOTHING = OTHER, "nothing that it repeats or ends"
_CONTRAST = re.compile(r",|\b(?:but|sondern|sino|mais)\b")
_MOVED = re.compile(r"\b(?:moved|relocated|transferred|switched|changed) to\b")
_WORD = re.compile(r"[^\W\d_]+")


def compare(new: str, old: str, language: str | None = None) -> tuple[str, str]:
    """
    Return what *new* does to *old* ("same", "ends", "other"), and why.

    Args:
        language: Code of the language of both; None means that the words tell.

    >>> compare("Mi cumpleaños es el 5/3.", "mi cumpleanos es el 5 de marzo")
    ('same', 'the same in another spelling')
    >>> compare("Ich wohne nicht mehr in Köln.", "Ich wohne in Köln.")
    ('ends', 'it is over')
    >>> compare("Invoice 12 is paid.", "Invoice 13 is paid.")[0]
    'other'
    """
    if len(new) > MAX_CHARS or len(old) > MAX_CHARS:
        return OTHER, "too long to compare"
    language = language or language_of(new, old)
    mine, theirs = read(new, language), read(old, language)
    if is_equal(mine, theirs):
        return SAME, "the same in another spelling"
    if has_same_words(mine, theirs):
        return SAME, "the same in other words"
    if _is_plain(new, language) and not theirs.negative:
        return _NOTHING
    for rule in _RULES:
        kind, reason = rule(mine, theirs)
        if kind != OTHER:
            return kind, reason
    return _NOTHING


def _by_denial(mine: Reading, theirs: Reading) -> tuple[str, str]:
    """Return "ends" if a statement, or a part of it, denies the older one or says it is over."""
    parts = (mine, *read_clauses(mine.text, mine.language))
    if any(_denies(one, theirs) or _ends_form(one, theirs, mine) for one in parts):
        return ENDS, "it is over"
    if theirs.negative and not (mine.negative or mine.ended or theirs.ended):
        gained = tuple(one for one in mine.form if one not in _GAINS)
        is_again = is_reordered(gained, theirs.form) and not theirs.past
        return (ENDS, "it is so again") if is_again else _NOTHING
    return _NOTHING


def _ends_form(  # noqa: PLR0911 (a rule each)
    part: Reading, theirs: Reading, mine: Reading
) -> bool:
    """Return whether a part denies the older statement or says in other words that it is over."""
    if theirs.negative or theirs.ended or theirs.past or not (part.negative or part.ended):
        return False
    words = LANGUAGES[mine.language]
    # "I hate Paris in August" does not deny "I love Paris"; an end may say when it was.
    ended = read_timeless(part.text, mine.language).form if part.ended else part.form
    whole = theirs.form
    if is_reordered(ended, whole):
        return part.ended or not part.past
    if not part.ended:
        return False
    verbs = [{*one} & words.holds for one in (ended, whole)]
    if all(verbs) and not verbs[0] & verbs[1]:
        return False
    is_cjk = mine.language in ("zh", "ja")
    skipped = words.holds | words.often if is_cjk else words.holds
    over, old = ([one for one in each if one not in skipped] for each in (ended, whole))
    if part is not mine:
        over = [one for one in over if one not in words.pronouns]
    if not is_cjk and ended and ended[-1] in words.holds:
        return False
    if not over or not all(any(_is_form(one, other, 5) for other in old) for one in over):
        return False
    if is_cjk:
        return over == old
    last = max(place for place, one in enumerate(old) if any(_is_form(one, x, 5) for x in over))
    more = [one for one in old[:last] if not any(_is_form(one, x) for x in (*over, *mine.form))]
    return not more and len(old) - last <= _MAX_MORE + 1


def _by_correction(mine: Reading, theirs: Reading) -> tuple[str, str]:
    """Return "ends" if a statement says "not x but y", and the older one says x."""
    found = read_correction(mine.text, mine.language)
    if found is None:
        return _NOTHING
    x, affirmed, denied, has_subject = found
    change = one_change(affirmed.tokens, theirs.tokens, mine.language)
    replaces = change is not None and bool(x) and ({*x} <= {*change[0]} or {*change[0]} <= {*x})
    if (
        (has_subject and denied.key == theirs.key)
        or replaces
        or _names_mistake(x, affirmed, mine, theirs)
    ):
        return ENDS, "it says that this was a mistake"
    return _NOTHING


def _names_mistake(x: tuple[str, ...], affirmed: Reading, mine: Reading, theirs: Reading) -> bool:
    """Return whether the older statement says the mistake *x*, of what is affirmed now."""
    words = LANGUAGES[theirs.language]
    wrong = {*normal_form("", x, theirs.language)}
    if not wrong or theirs.language in ("zh", "ja") or theirs.negative or theirs.past:
        return False
    plain = fold(mine.text)
    if mine.negative and not _CONTRAST.search(plain):
        return False  # "Tom does not work at Acme"
    is_mine = bool(words.subjects.intersection(plain.split()[:1])) or mine.corrects
    if not is_mine and affirmed.form[:1] != theirs.form[:1]:
        return False
    rest = {*theirs.form} - wrong - {*affirmed.form}
    verbs = words.holds | (_WISHES if mine.corrects else frozenset())
    is_said = wrong <= {*theirs.form} and not wrong <= {*affirmed.form}
    return is_said and rest <= verbs and len(rest) <= 1


def _by_slot(mine: Reading, theirs: Reading) -> tuple[str, str]:
    """Return what becomes of two values of one slot of one owner."""
    # Who is meant is left out in a later part of a Chinese or Japanese sentence.
    is_cjk = mine.language in ("zh", "ja")
    for one in (mine, *(() if is_cjk else read_clauses(mine.text, mine.language))):
        if not one.slot or not theirs.slot or one.slot[:2] != theirs.slot[:2]:
            continue
        if one.negative or theirs.negative or one.also:
            continue
        if one.slot[2] == theirs.slot[2]:
            return (SAME, f"the same {one.slot[0]}") if one is mine else _NOTHING
        return ENDS, f"another {one.slot[0]}"
    return _NOTHING


def _by_change(mine: Reading, theirs: Reading) -> tuple[str, str]:
    """Return "ends" if a statement says that something changed, and differs in one place."""
    parts = (mine, *read_clauses(mine.text, mine.language))
    if not any(one.corrects or one.now for one in parts):
        return _NOTHING
    for one in parts:
        if one.also or (one.negative, one.ended) != (theirs.negative, theirs.ended):
            continue
        if (one.corrects or one.now) and _changes_amount(one, theirs):
            return ENDS, "it says that this amount changed"
        change = _change(one, theirs)
        if change is None:
            continue
        if one.corrects or mine.corrects:
            return ENDS, "it says that this changed"
        if one.now and _is_state(change, one, theirs):
            return ENDS, "it says what is so now"
    return _NOTHING


def _change(mine: Reading, theirs: Reading) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the one place in which two statements of one subject differ; None if none or more."""
    if mine.language not in ("zh", "ja"):
        change = one_change(mine.tokens, theirs.tokens, mine.language)
        if change is not None and _is_of_value(change, mine, theirs):
            return change
        if mine.now and not mine.corrects:
            return None
    timeless = read_timeless(mine.text, mine.language)
    verbs = [LANGUAGES[mine.language].holds.intersection(one.form) for one in (timeless, theirs)]
    if all(verbs) and not verbs[0] & verbs[1]:
        return None
    new, old = _without_verbs(timeless), _without_verbs(theirs)
    change = one_change(new, old, mine.language)
    if change is None or not _is_of_value(change, mine, theirs):
        return None
    kinds = {is_value(word) for each in change for word in each}
    return change if len(kinds) == 1 or _is_one_word(change[0], theirs.text) else None


def _is_of_value(  # noqa: PLR0911 (a rule each)
    change: tuple[tuple[str, ...], tuple[str, ...]], mine: Reading, theirs: Reading
) -> bool:
    """Return whether what differs is what is said, not of whom or in which case."""
    gone, added = change
    is_cjk = mine.language in ("zh", "ja")
    is_other = _is_about(gone, theirs) or (
        not (is_cjk or is_value(added[0])) and _is_about(added, mine)
    )
    if is_other and not _is_kind_of_one(change, mine, theirs):
        return False
    are_times = _are_times(gone, mine.language)
    if are_times != _are_times(added, mine.language):
        return False  # "at the gym on Mondays" is no other gym
    if len(gone) > 1 and _has_gerund(gone) != _has_gerund(added) and mine.language == "en":
        return False
    prepositions = LANGUAGES[mine.language].prepositions
    before = [_word_before(words, one) for words, one in ((gone, theirs), (added, mine))]
    # "on Monday", "moved to Tuesday": the mark of a change has taken the preposition.
    is_moved = bool(_MOVED.search(mine.text)) and mine.tokens[-len(added) :] == added
    is_free = is_value(gone[0]) or are_times or is_moved
    if before[0] in prepositions and before[1] not in prepositions and not is_free:
        return False
    if gone[0] in prepositions and added[0] not in prepositions:
        return False
    if (gone[0] in _WITH) != (added[0] in _WITH) and {gone[0], added[0]} <= prepositions:
        return False
    new, old = (mine.tokens, theirs.tokens)
    if old[-len(gone) :] != gone and new[-len(added) :] != added:
        new, old = (mine.form, theirs.form)
    is_last = old[-len(gone) :] == gone, new[-len(added) :] == added
    return len(gone) == len(added) or is_last[0] == is_last[1]


def _are_times(words: tuple[str, ...], language: str) -> bool:
    """Return whether one of some words is a day, a time of the day or a date."""
    return any(is_time(one, language) for one in words)


def _has_gerund(words: tuple[str, ...]) -> bool:
    """Return whether English words say what is being done."""
    return any(one.endswith("ing") and LANGUAGES["en"].stem(one) != one for one in words)


def _word_before(words: tuple[str, ...], one: Reading) -> str:
    """Return the word before the first of some words of a statement; "" if it is unknown."""
    if one.form[-len(words) :] == words and len(one.tokens) > len(words):
        return one.tokens[-len(words) - 1]
    written = _WORD.findall(fold(one.text))
    return next((a for a, b in pairwise(written) if b == words[0]), "")


def _is_about(words: tuple[str, ...], one: Reading) -> bool:
    """Return whether words are the beginning of a statement: mostly what it is about."""
    light = LANGUAGES[one.language].light
    start = next((n for n, word in enumerate(one.tokens) if word not in light), 0)
    count = len(words)
    return words in (one.form[:count], one.tokens[:count], one.tokens[start : start + count])


def _is_kind_of_one(
    change: tuple[tuple[str, ...], tuple[str, ...]], mine: Reading, theirs: Reading
) -> bool:
    """Return whether the speaker has another of a kind: "I work the night shift"."""
    words = LANGUAGES[theirs.language]
    for one in (mine, theirs):
        first = [word for word in _WORD.findall(fold(one.text)) if word not in _ARTICLES][:1]
        if not words.subjects.intersection(first):
            return False
    is_state = bool(words.copula.union(("am", "m")).intersection(_WORD.findall(fold(theirs.text))))
    if not is_state and theirs.form[0] not in words.holds:
        return False
    new, old = _without_verbs(mine), _without_verbs(theirs)
    kind = old[len(change[0]) : len(change[0]) + 1]
    return bool(kind) and kind == new[len(change[1]) :][:1] and kind[0] not in words.often


def _is_one_word(parts: tuple[str, ...], text: str) -> bool:
    """Return whether words and numbers are written as one word: "tulip42"."""
    return "".join(one.removeprefix("N") for one in parts) in fold(text)


def _without_verbs(one: Reading) -> tuple[str, ...]:
    """Return the form of a statement without the verbs that only say that something is so."""
    words = LANGUAGES[one.language]
    # In "my home number is 12" nothing is a verb.
    skipped = words.pronouns if words.copula & {*one.tokens} else words.holds | words.pronouns
    return tuple(word for word in one.form if word not in skipped and word != "past")


def _changes_amount(mine: Reading, theirs: Reading) -> bool:
    """Return whether two statements give one amount each, in one unit, of the same thing."""
    values = [[one for one in each.form if is_value(one)] for each in (mine, theirs)]
    kinds = [[one[0] if one[0] != "U" else one for one in each] for each in values]
    if kinds[0] != kinds[1] or values[0] == values[1] or len(kinds[0]) > _MAX_MORE:
        return False
    has_unit = len(kinds[0]) == _MAX_MORE and kinds[0][1][0] == "U"
    if len(kinds[0]) == _MAX_MORE and not has_unit:
        return False
    words = [sorted(one for one in each.form if not is_value(one)) for each in (mine, theirs)]
    if words[0] == words[1] != []:  # "one dog" is no other age of "my dog is two"
        return is_value(mine.form[0]) == is_value(theirs.form[0])
    words = [sorted(one for one in _without_verbs(x) if not is_value(one)) for x in (mine, theirs)]
    return words[0] == words[1] and (bool(words[0]) or has_unit)


def _by_leaving(mine: Reading, theirs: Reading) -> tuple[str, str]:
    """Return "ends" if a statement gives up what the older one says of the same subject."""
    if theirs.negative or theirs.ended or theirs.past:
        return _NOTHING
    words = LANGUAGES[mine.language]
    for what, who, rest in read_leaving(mine.text, mine.language):
        gone = {*what.form}
        # "=" stands where the whole statement is said over again: "I used to take the bus".
        core = gone - (words.former if "=" in rest else words.generic | words.former) or gone
        # "^" stands where somebody else may say so: "Dana took over from Ben".
        is_theirs = "^" in rest or who - words.holds <= {*theirs.form}
        if not core or not core <= {*theirs.form} or not is_theirs:
            continue
        last = max(theirs.form.index(one) for one in core)
        more = [
            one
            for place, one in enumerate(theirs.form)
            if not (0 < place < last and theirs.form[place - 1] in rest)  # "my Honda Civic"
            and one not in gone | rest | ({*()} if "=" in rest else words.generic)
            and not ("*" in rest and place > last)
        ]
        if "^" in rest:
            # Of who left a post only the post is over, not "Ben is 35".
            is_over = not more and any(one in rest for one in theirs.form)
        else:
            is_over = all(one in mine.form or is_value(one) or one in words.often for one in more)
        if is_over:
            return ENDS, "it says that this was given up"
    return _NOTHING


def _by_state(mine: Reading, theirs: Reading) -> tuple[str, str]:
    """Return "ends" if a statement names another state of the same subject."""
    places = states_of(theirs.form)
    if len(places) != 1 or theirs.negative or theirs.past or theirs.ended:
        return _NOTHING
    place = places[0]
    family, _, state = theirs.form[place].partition(".")
    for one in (mine, *read_clauses(mine.text, mine.language)):
        if one.negative or one.ended or one.also:
            continue
        form = read_timeless(one.text, one.language).form
        for at in states_of(form):
            other, _, value = form[at].partition(".")
            if (other, form[:at]) != (family, theirs.form[:place]) or value == state:
                continue
            # What is open on Sundays may be closed on Mondays.
            more, less = form[at + 1 :], theirs.form[place + 1 :]
            if more == less or (family != "@status" and {*less} <= {*more}):
                return ENDS, f"another state: {value}"
    return _NOTHING


_RULES = (_by_denial, _by_correction, _by_slot, _by_change, _by_leaving, _by_state)


def differs_in_names(new: str, old: str) -> bool:
    """
    Return whether digits, names or negation tell two statements apart, in any language.

    Names are words with a capital that does not begin the sentence; one may be
    another form of the other.
    """
    language = language_of(new, old)
    mine, theirs = read(new, language), read(old, language)
    if mine.negative != theirs.negative or mine.ended != theirs.ended:
        return True
    if sorted(filter(is_value, mine.tokens)) != sorted(filter(is_value, theirs.tokens)):
        return True
    return any(
        not any(_is_form(name, word) for word in other.tokens)
        for text, other in ((new, theirs), (old, mine))
        for name in names_of(text)
    )


def names_other(new: str, old: str) -> bool:
    """
    Return whether each of two statements has a capitalised word that the other has not.

    >>> names_other("Martine speaks Greek", "Martin speaks Greek"), names_other("I run", "My run")
    (True, False)
    """
    return bool(_own_names(new, old)) and bool(_own_names(old, new))


def swaps_roles(new: str, old: str) -> bool:
    """
    Return whether two English statements have the same words, of which two changed places.

    >>> swaps_roles("I prefer tea to coffee.", "I prefer coffee to tea.")
    True
    """
    mine, theirs = read(new, "en").form, read(old, "en").form
    if "from" in mine and "from" in theirs:
        return mine != theirs and len(mine) == len(theirs)
    return sorted(mine) == sorted(theirs) and not is_reordered(mine, theirs)


def denies_an_event(new: str, old: str) -> bool:
    """Return whether only one of two English statements says that something did not happen."""
    return bool({*read(new, "en").past} & _DID_NOT) != bool({*read(old, "en").past} & _DID_NOT)


def _own_names(text: str, other: str) -> list[str]:
    """Return the capitalised words of a text that *other* has in no spelling."""
    known = {*_WORD.findall(fold(other[:MAX_CHARS]))}
    return [
        name
        for name in map(fold, CAPITAL.findall(text))
        if name not in known and name not in COMMON and name.isalpha()
    ]


@lru_cache(maxsize=1_024)
def _is_plain(text: str, language: str) -> bool:
    """Return whether nothing in a statement can end another one."""
    one = read(text, language)
    marked = one.negative or one.ended or one.corrects or one.now or one.slot is not None
    return not (
        marked
        or states_of(one.form)
        or read_clauses(text, language)
        or read_correction(text, language)
        or read_leaving(text, language)
    )


def _denies(mine: Reading, theirs: Reading) -> bool:  # noqa: PLR0911 (a rule each)
    """Return whether one is a denial or an end of the other statement."""
    if theirs.negative or theirs.ended or not (mine.negative or mine.ended):
        return False
    if mine.past and not mine.ended:
        return False
    if mine.key == theirs.key:
        return True
    cjk = mine.language in ("zh", "ja")
    first, second = mine.bare, theirs.bare
    if not first or not second:
        return False
    if cjk:
        # An end that says less: "I quit smoking".
        return (
            mine.ended
            and len(first) > 1
            and second[: len(first)] == first
            and len(second) - len(first) <= MAX_CHANGED
        )
    letters = 3 if mine.ended else 4
    more = [one for one in second if not any(_is_form(one, word, letters) for word in first)]
    if more:
        # An end that says less than what it ends: "I no longer drink coffee".
        return (
            mine.ended
            and len(first) > 1
            and len(more) <= _MAX_MORE
            and second[: len(first)] == first
        )
    news = [word for word in first if not any(_is_form(one, word, letters) for one in second)]
    return not any(map(is_value, news)) and len(news) <= (mine.ended and len(second) == 1)


def _is_form(one: str, other: str, letters: int = 4) -> bool:
    """Return whether two words are forms of one: equal, or with a common stem of some letters."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    stem = short[: max(letters, len(short) - 2)]
    return (
        len(short) >= letters
        and long.startswith(stem)
        and not is_value(one)
        and len(long) - len(stem) <= _MAX_ENDING
    )


def _is_state(
    change: tuple[tuple[str, ...], tuple[str, ...]], mine: Reading, theirs: Reading
) -> bool:
    """Return whether a change that "now" names is one of a value, not something more."""
    gone, added = change
    if all(map(is_value, (*gone, *added))):
        return True
    if mine.language in ("zh", "ja"):
        return bool({"是", "叫", "で"} & {*theirs.tokens} & {*mine.tokens})
    copula = LANGUAGES[mine.language].copula
    is_last = theirs.tokens[-len(gone) :] == gone and max(len(gone), len(added)) <= _MAX_MORE
    return is_last and bool(copula & {*mine.tokens} and copula & {*theirs.tokens})
