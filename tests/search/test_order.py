"""The order of an answer: newest of what answers alike, equal texts once, no echoes, no operators."""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.facts import pairs
from memdb.models.messages import Hit, Source
from memdb.search.order import Ties, put_in_order
from memdb.search.parse import parse_query
from memdb.text.terms import query_words

if TYPE_CHECKING:
    from collections.abc import Callable

OTHERS = [
    "The tomatoes need water.",
    "We fly to Oslo in May.",
    "The cat is called Miso.",
    "The gate squeaks when it rains.",
]
# Two statements of the same thing, and what asks for it.
CHANGES = [
    ("Our vet is Dr. Lund.", "Our vet is Dr. Falk.", "Who is our vet?"),
    ("The rent is 900 euros a month.", "The rent is 950 euros a month.", "How much is the rent?"),
    ("My gym is in Harbour Street.", "My gym is in Mill Lane.", "Where is my gym?"),
    ("The car is parked on level 2.", "The car is parked on level 5.", "Where is the car parked?"),
    (
        "our dentist is Dr Kessel",
        "Kessel stopped, the new dentist is Dr Braun",
        "who is our dentist?",
    ),
    ("Nils sleeps at eight", "Nils stays up now, he goes to bed at nine", "when does Nils sleep?"),
    (
        "My sister works at the bank",
        "my sister quit, she works for a publisher",
        "where does my sister work?",
    ),
    (
        "Je travaille chez Airbus.",
        "Je ne travaille plus chez Airbus mais chez Thales.",
        "Où je travaille ?",
    ),
]
# Both stay true: the older one answers, and the newer one must not pass it.
APART = [
    ("Order TX-4471 was paid in May.", "Order TX-4472 is now paid as well.", "TX-4471"),
    ("Error E42 means no paper.", "Error E43 no longer means no ink.", "What does error E42 mean?"),
    (
        "The blue boat needs a new sail.",
        "The boat race begins in June.",
        "What does the blue boat need?",
    ),
    (
        "My brother Erik works as a baker.",
        "My brother's son plays the tuba.",
        "What is my brother's job?",
    ),
    ("Server 3 runs Debian.", "Server 4 now runs Alpine.", "What does server 3 run?"),
    (
        "I am allergic to peanuts.",
        "Do I tell the school about the peanuts?",
        "What am I allergic to?",
    ),
]
COMMANDS = {
    "rm -rf": "Never run rm -rf on the build host.",
    "ssh -p 49222": "Connect with ssh -p 49222 to the old server.",
    "git commit -m": "Write git commit -m with a subject of 60 characters.",
    "pytest -k slow": "Run pytest -k slow before a release.",
    "the -v flag": "The -v flag of the importer prints each row.",
    "tar -xzf": "Unpack backups by tar -xzf only.",
}


@pytest.fixture
def ann(open_db: Callable[..., memdb.MemDB]) -> memdb.Scope:
    """Return a scope with other messages."""
    scope = open_db(":memory:", embedder="static").scope("ann")
    scope.session("other").extend([{"role": "user", "text": text} for text in OTHERS])
    return scope


# What was told, what asks for it, and other questions about it, which were asked before.
ASKED = [
    (
        "Anna's flight lands at 16:40.",
        "When does Anna's flight land?",
        ["Should I pick up Anna? When does her flight land?", "when does anna land"],
    ),
    (
        "The backup runs at 3 am.",
        "When does the backup run?",
        ["when does the backup run", "what time is the backup", "Is the backup at night?"],
    ),
    (
        "Mr. Haas bought the old mill.",
        "Who bought the old mill?",
        ["Was the old mill sold, and who bought it?", "Did someone buy the old mill?"],
    ),
    (
        "The standup moved to the small room.",
        "Where is the standup?",
        ["In which room is the standup?", "Is the standup still in the big room?"],
    ),
    (
        "Der Schlüssel liegt unter der Matte.",
        "Wo ist der Schlüssel?",
        ["Wo liegt der Schlüssel?", "Weißt du, wo der Schlüssel liegt?"],
    ),
    (
        "El coche está en el taller de Paco.",
        "¿Dónde está el coche?",
        ["¿Sabes dónde está mi coche?", "¿En qué taller está el coche?"],
    ),
    (
        "私の歯医者は田中先生です。",
        "私の歯医者は誰ですか？",
        ["歯医者の名前は何ですか？", "歯医者を覚えていますか？"],
    ),
    (
        "我的护照在蓝色的盒子里。",
        "我的护照在哪里？",
        ["你知道我的护照在哪儿吗？", "护照放在哪个盒子里？"],
    ),
]


def test_the_newer_of_two_that_answer_alike_goes_first(ann: memdb.Scope) -> None:
    """Messages, and an entry and a message."""
    chat = ann.session("s")
    wrong = []
    for place, (older, newer, question) in enumerate(CHANGES):
        if place % 3 == 2:
            ann.remember(older, created="2025-01-01")
        else:
            chat.append("user", older, created="2025-01-01")
        chat.append("user", newer, created="2026-01-01")
        hits = ann.recall(question)
        if hits[0].text != newer:
            wrong.append((question, hits[0].text, hits[0].why))
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
    assert wrong == []


@pytest.mark.parametrize(
    "said",
    ["{}", "{} Is that all right?", "Good morning! {} Which form do I need?", "{}, is that ok?"],
)
def test_what_ends_the_best_hit_goes_before_it_from_far_behind(said: str) -> None:
    """The newer of two may share fewer words with the question, and ask something as well."""
    older, newer, *between = (
        *(
            said.format(one).replace(".,", ",")
            for one in ("I live in Lisbon.", "We moved from Lisbon to Porto.")
        ),
        *(f"{name} likes the quiet room." for name in ("Ida", "Tim", "Lea", "Max", "Eva")),
    )
    told = [older, *between, newer]
    hits = [
        Hit("message", text, 0.9 - 0.1 * at, at, Source("s", at, created_ms=1), role="user")
        for at, text in enumerate(told)
    ]
    hits[-1] = hits[-1].replace(source=Source("s", 9, created_ms=2))
    words_of = {text: query_words(text) for text in told}

    for question, first in (("Where do I live?", newer), ("Did I live in 12 towns?", older)):
        assert put_in_order(parse_query(question), hits, words_of)[0].text == first


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("I have one cat, Miro.", "We fetched a second cat, Luzi.", "How many pets are there?"),
        ("I take the bus to work.", "The bus got too slow, I cycle now.", "How do I commute?"),
        (
            "The terrace is wooden.",
            "The terrace rotted away, it's stone now.",
            "What do we sit on?",
        ),
    ],
)
def test_a_likely_change_of_the_best_hit_goes_before_it_from_far_behind(
    older: str, newer: str, question: str
) -> None:
    """The pair shares no word of the question, and other texts stand between."""
    names = ("Ida", "Tim", "Lea", "Max", "Eva")
    told = [older, *(f"{name} likes the quiet room." for name in names), newer]
    hits = [
        Hit("message", text, 0.9 - 0.08 * at, at, Source("s", at, created_ms=1), role="user")
        for at, text in enumerate(told)
    ]
    hits[-1] = hits[-1].replace(source=Source("s", 9, created_ms=2))
    words_of = {text: query_words(text) for text in told}

    assert put_in_order(parse_query(question), hits, words_of)[0].text == newer


def test_a_newer_entry_counts_its_place_among_entries() -> None:
    """Beside many messages the one entry that ends the best hit stands behind them all."""
    told = ["My gym is the YMCA on Dixie.", *(f"We paid the bill of room {n}." for n in range(9))]
    hits = [
        Hit("message", text, 0.9 - 0.05 * at, at, Source("s", at, created_ms=1), role="user")
        for at, text in enumerate(told)
    ]
    newer = "I go to Planet Fitness these days."
    hits.append(Hit("entry", newer, 0.3, 10, Source(created_ms=2, entry_id=7)))
    words_of = {hit.text: query_words(hit.text) for hit in hits}

    found = put_in_order(parse_query("Which gym do I go to?"), hits, words_of)

    assert [hit.text for hit in found[:2]] == [newer, told[0]]


def test_work_grows_with_the_hits_and_not_with_their_pairs() -> None:
    """Four times as many hits take at most five times as many calls of functions."""

    def functions(count: int) -> int:
        told = [f"The plan of {name} is about the garden." for name in map(chr, range(97, 113))]
        hits = [
            Hit(
                "message",
                told[n % 16],
                1 - n / 999,
                n + 1,
                Source("s", n, created_ms=n),
                role="user",
            )
            for n in range(count)
        ]
        words_of = {hit.text: query_words(hit.text) for hit in hits}
        query, seen = parse_query("Which book does Ann like?"), Counter[str]()
        put_in_order(query, hits, words_of)
        sys.setprofile(lambda _, event, __: seen.update((event,)))
        put_in_order(query, hits, words_of)
        sys.setprofile(None)
        return seen["call"]

    assert functions(200) < 5 * functions(50)


def test_two_things_are_not_put_in_order_by_time(ann: memdb.Scope) -> None:
    """What answers the question stays first, however old, if the newer one does not end it."""
    wrong = []
    for place, (older, newer, question) in enumerate(APART):
        chat = ann.session(f"apart {place}")
        chat.append("user", older, created="2025-01-01")
        chat.append("user", newer, created="2026-01-01")
        if (first := ann.recall(question)[0].text) != older:
            wrong.append((question, first))
    assert wrong == []


@pytest.mark.parametrize("said", ["{}", "{} Is that all right?", "Good morning! {} Why so?"])
def test_another_thing_does_not_pass_an_answer(said: str) -> None:
    """Nor does a sentence beside it."""
    wrong = []
    for older, newer, question in APART:
        told = older, said.format(newer)
        hits = [
            Hit("message", text, 0.9 - 0.1 * at, at, Source("s", at, created_ms=at), role="user")
            for at, text in enumerate(told, 1)
        ]
        words_of = {text: query_words(text) for text in told}
        if put_in_order(parse_query(question), hits, words_of)[0].text != told[0]:
            wrong.append(question)
    assert wrong == []


def test_what_has_none_of_the_asked_words_does_not_pass_an_answer() -> None:
    """The numbers and names of another topic look like new values: a guess is not enough."""
    others = ("Rain number {} in Rome.", "See page {} tomorrow.", "The tomatoes need {} liters.")
    answers = [(older, question) for older, _, question in CHANGES] + [
        ("Okay, I wrote down that the flight leaves at 7:40 from gate B12.", "flight gate"),
        ("CHECKED 14 RECORDS, the parking code is 5521", "parking code"),
        ("Result of lookup: Bob's birthday is on 3 May (source: calendar)", "Bob's birthday"),
    ]
    wrong = []
    for number, (answer, question) in enumerate(answers):
        old = Hit("message", answer, 0.9, 1, Source("s", 1, created_ms=1), role="user")
        for text in [other.format(each) for other in others for each in (1, 4, 8, 10, 11, 42)]:
            new = Hit("message", text, 0.5, 2, Source("s", number, created_ms=2), role="user")
            words_of = {each: query_words(each) for each in (answer, text)}
            if put_in_order(parse_query(question), [old, new], words_of)[0].text != answer:
                wrong.append((question, text))
    assert wrong == []


@pytest.mark.parametrize(
    ("older", "newer", "question", "is_first"),
    [
        pytest.param(
            "My phone is a Nokia.",
            "The Nokia is gone, I have a Fairphone now.",
            "Which phone is mine?",
            True,
            id="sure",
        ),
        pytest.param(
            "I drive a Saab.",
            "The Saab was sold, I drive a Kia now.",
            "What do I drive?",
            True,
            id="guessed and found",
        ),
        pytest.param(
            "I drive a Volvo.",
            "I sold the Volvo and bought a Kia.",
            "What do I drive?",
            True,
            id="taken back, and another instead",
        ),
        pytest.param(
            "I live in Turku.", "I moved to Tampere.", "Where do I live?", False, id="guessed"
        ),
    ],
)
@pytest.mark.parametrize("others", [0, 1, 20])
def test_links_mark_the_older_and_put_the_newer_first(
    ann: memdb.Scope, older: str, newer: str, question: str, is_first: bool, others: int
) -> None:
    """What only a guess brings, and no word and no vector, goes first if nothing else is found."""
    old = ann.remember(older, created="2025-01-01").entry.id
    new = ann.remember(newer, created="2026-01-01").entry.id
    for number in range(others):
        ann.remember(f"The sauna of house {number} is heated on Fridays.")
    hits = ann.recall(question, kinds=["entry"])
    by_id = {hit.source.entry_id: hit for hit in hits}

    assert by_id[old].outdated_by == new
    assert "is newer" in by_id[old].why
    assert (hits[0].source.entry_id == new) is (is_first or by_id.keys() == {old, new})


def test_an_order_to_forget_is_no_hit(ann: memdb.Scope) -> None:
    """It marks what it takes back, and answers nothing itself."""
    old = ann.remember("I drive a Volvo.").entry.id
    order = ann.remember("Forget that I drive a Volvo.")
    hits = ann.recall("What do I drive?", kinds=["entry"])

    assert order.action == "retracted"
    assert [(hit.source.entry_id, hit.outdated_by) for hit in hits] == [(old, order.entry.id)]


def test_equal_texts_are_one_hit(ann: memdb.Scope) -> None:
    """The first says where the others stand, an entry with its message; items are by themselves."""
    for run in range(12):
        ann.session(f"run{run}").append("user", "Deploy the billing service.")
    hits = ann.recall("deploy the billing service", 5)

    assert [hit.text for hit in hits].count("Deploy the billing service.") == 1
    assert len(hits[0].also) == 11
    assert {one.session for one in (hits[0].source, *hits[0].also)} == {
        f"run{run}" for run in range(12)
    }
    told = ann.session("run0").append("user", "My locker is number 12.")
    ann.remember("My locker is number 12.", session="run0", seq=told.seq)
    locker = ann.recall("Which locker is mine?")
    assert [hit.text for hit in locker].count("My locker is number 12.") == 1
    assert {one.entry_id is None for one in (locker[0].source, *locker[0].also)} == {True, False}
    assert "said" not in locker[0].why  # the entry and its message are one place
    for key in "ab":
        ann.items.put((), key, "A green lamp.")
    found = ann.recall("green lamp", kinds=["item"])
    assert {hit.source.key for hit in found} == {"a", "b"}


def test_what_a_link_folds_hides_nothing_that_was_asked_for() -> None:
    """What has more of the question, or a number of its own, stays a hit; the newer is shown."""
    told = ("My locker is number 12.", "My locker has the number 12.")
    wedding = ("妹は五月に挙式する。", "妹は五月に結婚式を挙げます。")
    twins = ("Locker 12 was mine.", "My locker was 13.")
    other = "The padlock of my locker is green."
    wrong = []
    for texts, question, shown in (
        (told, "which locker is mine?", told[1:]),
        (told[::-1], "which locker is mine?", told[:1]),
        (wedding, "妹はいつ結婚式を挙げますか？", wedding[1:]),
        (twins, "which locker was mine?", twins[::-1]),
        ((told[0], other), "is the padlock of my locker green?", (told[0], other)),
    ):
        hits = [
            Hit("entry", text, 0.9 - 0.1 * at, at, Source(entry_id=at + 1, created_ms=at))
            for at, text in enumerate(texts)
        ]
        words_of = {text: query_words(text) for text in texts}
        ties = Ties([1, 2], [None, None], same={1: 2, 2: 1})
        found = put_in_order(parse_query(question), hits, words_of, ties)
        if tuple(hit.text for hit in found) != shown or found[0].score != hits[0].score:
            wrong.append((question, found))
    assert wrong == []


def test_a_question_is_no_answer_to_itself(ann: memdb.Scope) -> None:
    """Neither its earlier copies nor the replies that say nothing, behind tools too."""
    ann.remember("The user drives a red Volvo.")
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    for name in "abc":
        chat = ann.session(name)
        chat.append("user", "what colour is my car?")
        if name != "a":
            chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
            chat.append({"role": "tool", "tool_call_id": "c", "content": "no rows of a car"})
        chat.append("assistant", "I don't know what colour your car is.")
    texts = [hit.text for hit in ann.recall("What colour is my car?")]

    assert texts[0] == "The user drives a red Volvo."
    assert "I don't know what colour your car is." not in texts
    assert "what colour is my car?" not in texts


@pytest.mark.parametrize("is_entry", [False, True])
@pytest.mark.parametrize(("told", "asked", "before"), ASKED)
def test_a_question_in_other_words_stands_below_its_answer(
    ann: memdb.Scope, told: str, asked: str, before: list[str], is_entry: bool
) -> None:
    """What was asked before without an answer tells nothing, in any words and language."""
    chat = ann.session("trip")
    if is_entry:
        ann.remember(told)
    else:
        chat.append("user", told)
    for text in before:
        chat.append("user", text)
        for hours in (2, 3, 4):
            chat.append("user", f"We walked along the canal for {hours} hours.")

    assert ann.recall(asked)[0].text == told


def test_what_answered_the_question_before_is_found(ann: memdb.Scope) -> None:
    """It may share no word with it; what stands beside a question without an answer is not sure."""
    chat = ann.session("a")
    chat.append("user", "Where did we put the tent?")
    chat.append("assistant", "In the cellar, behind the skis.")
    chat.append("user", "Do you know where the ladder is?")
    chat.append("user", "The soup was too salty again.")
    hits = {text: ann.recall(text) for text in ("Where is the tent?", "where is the ladder")}
    every = ann.recall("Where is the tent?", min_score=0)

    assert hits["Where is the tent?"][0].text == "In the cellar, behind the skis."
    assert hits["where is the ladder"].certainty != "sure"
    assert "Where did we put the tent?" in [hit.text for hit in every]


def test_a_statement_of_the_one_who_asked_is_evidence(ann: memdb.Scope) -> None:
    """It may hold no word but those of the question."""
    chat = ann.session("a")
    chat.append("user", "is my car red?")
    chat.append("user", "My car is red.")

    assert ann.recall("is my car red?")[0].text == "My car is red."


def test_a_dash_excludes_nothing(ann: memdb.Scope) -> None:
    """Commands and flags are found, bare and in a sentence."""
    chat = ann.session("s")
    chat.extend([{"role": "user", "text": text} for text in COMMANDS.values()])
    wrong = [
        query
        for words, text in COMMANDS.items()
        for query in (words, f"what did I say about {words}?", f"`{words}`")
        if ann.recall(query)[0].text != text
    ]
    assert wrong == []


def test_what_is_excluded_is_no_hit(ann: memdb.Scope) -> None:
    """By every kind, and named if it is no word."""
    for text in ("cake with cream", "cake with nuts"):
        ann.session("s").append("user", text)
        ann.remember(f"Ann bakes {text}.")
    for given in ({}, {"by": "vector"}, {"by": "words"}, {"group": "session"}):
        hits = ann.recall("cake", exclude=["nuts"], min_score=0, **given)
        shown = [one.text for hit in hits for one in (hit, *hit.hits)]
        assert shown
        assert not any("nuts" in text for text in shown), given
    assert not any("cake" in hit.text for hit in ann.recall("cake", exclude=["cake"]))
    for wrong in (["!"], "nuts", [1]):
        with pytest.raises(memdb.InvalidInput, match="exclude"):
            ann.recall("cake", exclude=wrong)


def test_what_excludes_everything_is_named(db: memdb.MemDB) -> None:
    """In each way to ask, and only where something else was found."""
    bob = db.scope("bob")
    bob.session("s").append("user", "Bob bakes cake.")
    bob.remember("Bob likes cake.")
    for given in ({}, {"by": "vector"}, {"by": "words"}, {"group": "session"}):
        hits = bob.recall("cake", exclude=["cake"], **given)
        assert (list(hits), hits.certainty) == ([], "none"), given
        assert "exclude leaves out all" in hits.missing["hits"], given
    assert (
        not bob.recall("zeppelin", exclude=["moon"]).missing.get("hits", "").startswith("exclude")
    )


def test_every_hit_says_why(ann: memdb.Scope) -> None:
    """In a sentence, by what it has."""
    ann.session("s").append("user", "The rent rises in July.", author="Mia")
    reasons: list[Any] = [hit.why for hit in ann.recall("When does Mia's rent rise?")]

    assert "*rent*" in reasons[0]
    assert "Mia said it" in reasons[0]
    assert all(reason.endswith(".") and reason[0].isupper() for reason in reasons)


def test_a_guess_takes_no_hit_but_the_third_out_of_the_first(
    open_db: Callable[..., memdb.MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random links of every kind: the first two without them are among the first three."""
    chance = random.Random(4)
    kinds = {"linked": (pairs.RELATIONS, 3), "alone": (("none",), 2)}
    found: dict[str, list[set[str]]] = {}
    texts = [
        f"The {what} of {who} is {how}."
        for what in ("boat", "kitchen", "garden", "bicycle")
        for who in ("Ana", "Bo", "Cleo")
        for how in ("blue", "large")
    ]
    for name, (some, most) in kinds.items():

        def guess(*_: object, some: tuple[str, ...] = some, **__: object) -> pairs.Relation:
            return pairs.Relation(chance.choice(some), chance.choice((0.6, 0.9)))

        monkeypatch.setattr(pairs, "relate", guess)
        scope = open_db(":memory:").scope(name)
        told = {scope.remember(text).entry.id: text for text in texts}
        found[name] = [
            {
                told[source.entry_id or 0]
                for hit in scope.recall(text, 5).hits[:most]
                for source in (hit.source, *hit.also)
            }
            for text in texts
        ]

    assert [now >= then for now, then in zip(found["linked"], found["alone"], strict=True)] == [
        True
    ] * len(texts)


def test_messages_follow_the_links_of_what_was_learnt_from_them(
    open_db: Callable[..., memdb.MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message that tells the older fact stands behind the newer one, and is marked."""

    def relate(newer: pairs.Statement, older: pairs.Statement, **_: object) -> pairs.Relation:
        kind = "updates" if "Mill" in newer.text and "Harbour" in older.text else "none"
        return pairs.Relation(kind, 0.9)

    monkeypatch.setattr(pairs, "relate", relate)
    scope = open_db(":memory:").scope("ann")
    told = ("My gym is in Harbour Street.", "I train in Mill Lane these days.")
    for day, text in enumerate(told, start=1):
        chat = scope.session(f"chat {day}")
        chat.append("user", text, created=f"2026-01-0{day}")
        [seq] = [message.seq for message in chat.messages()]
        scope.remember(text, session=chat.name, seq=seq, created=f"2026-01-0{day}")
    hits = scope.recall("Where is my gym?", min_score=0)

    found = [(hit.text, hit.kind, hit.outdated_by is not None) for hit in hits]
    assert found[0][0] == told[1]
    assert {(kind, is_marked) for text, kind, is_marked in found if text == told[0]} == {
        ("entry", True),
        ("message", True),
    }


def test_a_newer_one_without_what_is_asked_for_goes_before_nothing(
    open_db: Callable[..., memdb.MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a message follow what was learnt of its other words."""
    monkeypatch.setattr(pairs, "relate", lambda *_, **__: pairs.Relation("updates", 0.9))
    scope = open_db(":memory:").scope("ann")
    for day, name in enumerate(("AX-17", "BX-20"), start=1):
        scope.remember(f"The ticket {name} waits for Bo.", created=f"2026-01-0{day}")
    other = open_db(":memory:").scope("ann")
    other.session("trip").append("user", "We fly to Oslo.", created="2026-01-01")
    other.remember("Ann lives in Oslo.", session="trip", seq=1, created="2026-01-01")
    other.remember("Ann lives in Bergen.", created="2026-01-02")

    first = scope.recall("Who has ticket AX-17?")[0]
    assert (first.text, first.outdated_by is None) == ("The ticket AX-17 waits for Bo.", False)
    first = other.recall("fly to Oslo")[0]
    assert (first.text, first.outdated_by) == ("We fly to Oslo.", None)
