"""What a newer statement does to an older one."""

from __future__ import annotations

import string

from cases import each

from memdb.facts.markers import says_the_same
from memdb.facts.pairs import (
    RELATIONS,
    Statement,
    is_retraction,
    relate,
    weights_used,
)

DAY_MS = 86_400_000


def relation(older: str, newer: str, **options: object) -> tuple[str, float]:
    """Return the kind and probability of a pair, thirty days apart."""
    found = relate(
        Statement(newer, 30 * DAY_MS, **options),
        Statement(older, 0),
        cosine=None,
        rarity=lambda _: 1.0,
    )
    return found.kind, found.probability


def test_a_lone_letter_or_sign_is_a_difference() -> None:
    """Whatever stands alone as a name tells two statements apart, in every frame."""
    frames = (
        "I take vitamin {}.",
        "Shelf {} is full.",
        "Je suis la classe {}.",
        "我在{}班。",
        "{}",
    )
    signs = ("\N{RIGHTWARDS ARROW}", "\N{LEFTWARDS ARROW}", "\ue000", "\ue001", "\U0009b8cc")
    marks = (*string.ascii_uppercase, "C++", "C#", "A+", "A-", "7", "12", "5%", "5", *signs)
    swallowed = [
        (frame, one, other)
        for frame in frames
        for one in marks
        for other in marks
        if one != other and says_the_same(frame.format(one), frame.format(other))
    ]

    assert swallowed == []


@each(
    "older, newer, same",
    [
        ("I drink oat milk", "i drink OAT milk!", True),
        ("I drink oat milk", "Please remember that I drink oat milk.", True),
        ("The rent is 14500 SEK", "The rent is 14 500 SEK.", True),
        ("J'habite à Évry.", "j’habite a Evry", True),
        (
            "The dose is 2 pills. Take them on Monday.",
            "The dose is 7 pills. Take them on Monday.",
            0,
        ),
        ("I wear glasses.", "I wear glasses?", False),
        ("I can swim.", "I can't swim.", False),
        ("The train goes from A to B.", "The train goes from B to A.", False),
        ("我喝茶。", "我喝茶", True),
        ("猫が好きです。", "猫が好きではないです。", False),
    ],
)
def test_says_the_same(older: str, newer: str, same: bool) -> None:
    """Only spelling, format and an order to remember are no difference."""
    assert says_the_same(newer, older) is bool(same)
    assert says_the_same(older, newer) is bool(same)


@each(
    "older, newer",
    [
        ("Server 3 runs Debian.", "Server 4 now runs Debian."),
        ("I wear glasses.", "Don't I wear glasses?"),
        ("In 2019 we left the league.", "In 2023 we left the league."),
        ("I take vitamin C every morning.", "I take vitamin D every morning."),
        ("I live in Graz.", "Suppose I lived in Rome."),
    ],
)
def test_what_ends_nothing(older: str, newer: str) -> None:
    """Numbered things, events, questions and suppositions leave the older one as it is."""
    kind, probability = relation(older, newer)

    assert kind == "none" or probability < 0.8


def test_a_correction_that_names_the_older_value() -> None:
    """A value is corrected also where the older statement holds more than it."""
    older = "The rent is 14 500 SEK a month, the deposit 29 000, from 1 May."
    newer = "Correction: the rent is 15 400 SEK a month, not 14 500."

    assert relation(older, newer)[0] == "corrects"


def test_a_statement_that_is_not_trusted_ends_nothing() -> None:
    """What came from a tool or a stranger may repeat what the user said, and no more."""
    older, newer = "The rent is 14 500.", "Correction: the rent is 15 400, not 14 500."

    assert relation(older, newer, trusted=False)[0] in ("none", "repeats")


def test_time_alone_decides_nothing() -> None:
    """Two statements give the same link, told within a second or years apart."""
    pairs = (
        ("I live in Lisbon.", "I moved to Porto."),
        ("The rent is 14 500.", "Correction: the rent is 15 400, not 14 500."),
        ("I play the piano.", "I no longer play the piano."),
        ("我住在北京。", "我搬到上海了。"),
        ("Server 3 runs Debian.", "Server 4 now runs Debian."),
    )
    told = [
        [
            relate(
                Statement(newer, days * DAY_MS),
                Statement(older, 0),
                cosine=cosine,
                rarity=lambda _: 1.0,
            )
            for days in (0, 1, 200, 2_000)
        ]
        for older, newer in pairs
        for cosine in (None, 0.3)
    ]

    assert [row for row in told if any(one != row[0] for one in row)] == []
    assert {row[0].kind for row in told} > {"none"}


def test_a_word_or_two_are_linked_to_nothing_that_shares_none() -> None:
    """They say too little: what they do to others is not guessed."""
    texts = ("zzz!", "other things", "tea", "far away", "Oslo.", "I moved to Porto.", "你好")
    linked = [
        (newer, older)
        for newer in texts
        for older in texts
        if newer != older
        and relate(Statement(newer, 0), Statement(older, 0), cosine=0.9, rarity=lambda _: 1.0).kind
        != "none"
    ]

    assert linked == []


def test_two_languages_that_share_no_word_are_not_linked() -> None:
    """Letters, names and numbers do not tell that one replaces the other."""
    texts = (
        *("The shed code is 9143.", "Our boat is called Pelican.", "My aunt teaches the cello."),
        *("倉庫の暗証番号は8820です。", "Der Gärtner kommt freitags.", "Брат работает в порту."),
    )
    linked = [
        (newer, older)
        for at, newer in enumerate(texts)
        for older in (texts[3:] if at < len(texts) // 2 else texts[:3])
        if relate(Statement(newer, 0), Statement(older, 0), cosine=0.3, rarity=lambda _: 1.0).kind
        != "none"
    ]

    assert linked == []


def test_statements_that_share_their_subject_only_are_not_linked() -> None:
    """What one person does and has stands side by side; a word of change is another matter."""
    for subject in ("Ann", "The user", "My sister"):
        said = [f"{subject} {what}." for what in (
            "prefers window seats", "works in Oslo", "plays the cello", "drives a blue Volvo",
            "lives on the third floor", "reads crime novels",
        )]  # fmt: skip
        linked = [
            (newer, older)
            for newer in said
            for older in said
            if newer != older
            and relate(
                Statement(newer, 0), Statement(older, 0), cosine=0.3, rarity=lambda _: 0.5
            ).kind
            != "none"
        ]

        assert linked == []


def test_words_of_change_end_nothing_that_they_do_not_name() -> None:
    """A correction, an update or a retraction leaves unrelated and numbered statements alone."""
    changes = (
        "Correction: the membership is 260 euros a year, not 240; the treasurer had an old list.",
        "I moved to Tampere last week.",
        "I no longer eat meat.",
        "Korrektur: Die Miete ist 950, nicht 900 Euro.",
    )
    others = (
        *(f"Pump {number} now burns biogas." for number in range(1, 13)),
        "My sister plays the oboe.",
        "The boat lies in the third row.",
        "Bus 14 stops at the mill.",
    )
    ended = [
        (older, newer, found)
        for newer in changes
        for older in others
        for cosine in (None, 0.1, 0.25, 0.4)
        if (
            found := relate(
                Statement(newer, 0), Statement(older, 0), cosine=cosine, rarity=lambda _: 1.0
            )
        ).kind
        != "none"
        and found.probability >= 0.8
    ]

    assert ended == []


def test_a_relation_tells_its_reasons() -> None:
    """The reasons are features of the model, the largest first."""
    found = relate(
        Statement("We moved to Porto.", DAY_MS),
        Statement("I live in Lisbon.", 0),
        cosine=0.4,
        rarity=lambda _: 0.5,
    )
    parts = [abs(part) for _, part in found.reasons]

    assert found.kind in RELATIONS
    assert 0 < found.probability <= 1
    assert parts == sorted(parts, reverse=True)
    assert parts
    assert weights_used().hash


@each(
    "text, retracts",
    [
        ("Forget what I said about the piano.", True),
        ("Scratch that, the dinner thing.", True),
        ("Oublie ce que j'ai dit sur le piano.", True),
        ("忘掉我说的钢琴的事。", True),
        ("I no longer play the piano.", False),
        ("Ich spiele nicht mehr Klavier.", False),
        ("J'ai arrêté le piano.", False),
        ("我不再弹钢琴了。", False),
        ("ピアノはもうやめました。", False),
        ("I play the piano.", False),
        ("Do I no longer play the piano?", False),
    ],
)
def test_is_retraction(text: str, retracts: bool) -> None:
    """An order to forget is none of the facts that end something, and no question."""
    assert is_retraction(text) is retracts
