"""Scores are on one scale: an answer is sure, unsure or none."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from scores import score_of

import memdb
from memdb import aio
from memdb.integrations.mcp.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FACTS = [
    "Ann prefers window seats.",
    "The office is in Oslo.",
    "The printer is on floor 2.",
    "Lunch is at noon.",
    "Ann plays the cello on Tuesdays.",
    "The wifi password is on the fridge.",
    "The car is parked in garage B.",
]
KNOWN = "where is the office?"
# Each asks about a name that no fact holds.
NAMED = ["which glacier is the longest in Alaska?", "When does Zoe play the cello?"]
UNKNOWN = [
    "who won the world cup in 1998?",
    "what is the boiling point of tungsten?",
    "which glacier is the longest in Alaska?",
    "Wie viele Einwohner hat Luxemburg?",
    "自転車",
    "велосипед",
    "فيل",
]


def fill(scope: memdb.Scope) -> memdb.Scope:
    """Give *scope* the facts, as entries and as messages of the session "s"."""
    for text in FACTS:
        scope.remember(text)
        scope.session("s").append("user", text)
    return scope


@pytest.fixture
def ann(path: str, open_db: Any) -> memdb.Scope:
    """Return a scope that knows the facts."""
    return fill(open_db(path, embedder="static").scope("ann"))


def by_scope(ann: memdb.Scope, query: str, **more: Any) -> list[str]:
    return [hit.text for hit in ann.recall(query, **more)]


def by_session(ann: memdb.Scope, query: str, **more: Any) -> list[str]:
    return [hit.text for hit in ann.session("s").recall(query, **more)]


def by_aio(ann: memdb.Scope, query: str, **more: Any) -> list[str]:
    async def ask() -> list[str]:
        async with aio.open(ann._services.db.path) as db:
            return [hit.text for hit in await db.scope("ann").recall(query, **more)]

    return asyncio.run(ask())


def by_group(ann: memdb.Scope, query: str, **more: Any) -> list[str]:
    return [hit.text for hit in ann.recall(query, group="session", **more)]


def by_mcp(ann: memdb.Scope, query: str, **more: Any) -> list[str]:
    (tool,) = (tool for tool in TOOLS if tool.name == "recall")
    return [hit["text"] for hit in tool.run(ann, {"query": query, **more})["hits"]]


WAYS = {
    "Scope.recall": by_scope,
    "Session.recall": by_session,
    "aio": by_aio,
    "group": by_group,
    "MCP": by_mcp,
}


def test_an_answer_is_sure_unsure_or_none(ann: memdb.Scope) -> None:
    """By its best match; `only_sure` keeps what is, and `missing` says what was left out."""
    sure, unsure = ann.recall(KNOWN), ann.recall("what colour are the curtains of the office?")
    nothing = ann.recall("Where does Zoe live?")

    assert (sure.certainty, unsure.certainty, nothing.certainty) == ("sure", "unsure", "none")
    assert sure[0].is_sure
    assert not any(hit.is_sure for hit in unsure)
    assert unsure
    assert not nothing
    for hits in (sure, unsure, nothing):
        kept = ann.recall(KNOWN if hits is sure else "what colour are the curtains of the office?")
        assert kept[:1].certainty == kept.certainty
    only = ann.recall("what colour are the curtains of the office?", only_sure=True)
    assert (len(only), only.certainty) == (0, "unsure")
    assert "only_sure=False" in only.missing["hits"]
    assert all(hit.is_sure for hit in ann.recall(KNOWN, only_sure=True))
    assert "zoe" in nothing.missing["hits"]
    assert ann.recall("Where does Zoe live?", min_score=0).certainty == "none"
    assert ann.recall(KNOWN, by="vector").certainty == "unsure"
    assert memdb.Hits().certainty == "none"


def test_a_cut_keeps_what_stands_out(ann: memdb.Scope) -> None:
    """What follows far behind the best hit is left out, and counted."""
    whole, cut = ann.recall(KNOWN, 50), ann.recall(KNOWN, 50, cut="auto")

    assert cut.hits == whole.hits[: len(cut)]
    assert 0 < len(cut) < len(whole)
    assert f"{len(whole) - len(cut)} match" in cut.missing["hits"]
    with pytest.raises(memdb.InvalidInput, match="cut"):
        ann.recall(KNOWN, cut="all")


def test_a_name_that_no_text_holds_has_no_answer(path: str, open_db: Any) -> None:
    """Proper names and identifiers of a question; a date, the user and an author are none."""
    scope = open_db(path, embedder="static").scope("ann")
    scope.remember("Birger repairs boats in Bergen.")
    scope.remember("Build 1501 of RX2290SE failed in March 2024.")
    scope.session("s").append("user", "My boat is repaired.", author="Mia")
    unknown = {
        "What does Zoe repair?": ("zoe",),
        "Who repairs boats in Oslo?": ("oslo",),
        "What happened to build 1500?": ("1500",),
        "Did RX2291SE fail?": ("rx2291se",),
    }
    for query, words in unknown.items():
        hits = scope.recall(query)
        assert (len(hits), hits.certainty) == (0, "none"), query
        assert all(word in hits.missing["hits"] for word in words), query
    known = [
        "What does Birger repair?",
        "Did build 1501 fail in May?",
        "Which boat did Mia repair?",
    ]
    known += [
        "Does Ann know who repairs boats?",
        "boats in Oslo",
        "Somebody in Oslo repairs boats.",
    ]
    # Who is known beside what is not: there may be an answer, and none is sure.
    for query in ("Does Birger repair boats in Oslo?", "Did build 1501 of RX9999SE fail?"):
        assert scope.recall(query).certainty == "unsure", query
    for query in known:
        assert scope.recall(query).certainty != "none", query


@pytest.mark.parametrize("way", WAYS)
def test_every_way_returns_nothing_where_nothing_is_known(ann: memdb.Scope, way: str) -> None:
    """What is known is found, what is not is not; `min_score` is the same in each."""
    ask = WAYS[way]

    assert "The office is in Oslo." in ask(ann, KNOWN)
    assert [query for query in NAMED if ask(ann, query)] == []
    assert [query for query in UNKNOWN if ask(ann, query, only_sure=True)] == []
    assert ask(ann, NAMED[0], min_score=0)
    assert ask(ann, KNOWN, min_score=1) == []


def test_prompts_hold_nothing_where_nothing_is_known(ann: memdb.Scope) -> None:
    """No excerpt and no profile is about something else; entries are there, whatever is asked."""
    chat = ann.session("new")
    chat.append("user", "hello")
    for query in NAMED:
        pieces = chat.context(2_000, query).pieces
        assert [piece for piece in pieces if piece.kind == "recalled"] == []
        assert ann.profile(500, [query]).text == ""
    assert "Oslo" in ann.profile(500, [KNOWN]).text


@pytest.mark.parametrize("count", [1, 20])
def test_of_two_kinds_that_say_as_much_the_nearer_is_first(ann: memdb.Scope, count: int) -> None:
    """An entry in other words stands above messages that are farther away, however many."""
    ann.remember("The vet is Dr. Falk.")
    chat = ann.session("garden")
    for number in range(count):
        chat.append("user", f"The garden looks fine this spring, bed {number} too.")

    assert ann.recall("Which doctor treats my animals?", min_score=0)[0].kind == "entry"


@pytest.mark.parametrize("size", [1, 10, 60])
def test_grammar_alone_is_an_unsure_answer_to_a_question_about_oneself(size: int) -> None:
    """Without vectors no other word may be shared; the world is not asked for in those words."""
    told = ["I am allergic to peanuts.", *(f"We saw {n} herons at the lake." for n in range(size))]
    with memdb.open(":memory:", embedder=None) as db:
        scope = db.scope("ann")
        scope.session("s").extend([{"role": "user", "text": text} for text in told[:size]])
        own = scope.recall("What am I not supposed to eat?")
        world = scope.recall("What does an octopus weigh?")

        assert (own.certainty, own[0].text, own[0].is_sure) == ("unsure", told[0], False)
        assert world.certainty == "none"


def test_the_answer_says_that_nothing_is_known(ann: memdb.Scope) -> None:
    """With the best score there was, and the one it had to have."""
    hits = ann.recall(NAMED[0])
    assert "no text names" in hits.missing["hits"]
    assert "min_score=0" in hits.missing["hits"]
    assert "0.9 leaves" in ann.recall(NAMED[0], min_score=0.9).missing["hits"]
    assert "hits" not in ann.recall(KNOWN).missing
    why = ann.why(NAMED[0], "s", 2)
    assert why.rank is None or "no text names" in why.reason


def test_a_language_that_the_table_cannot_read_is_named(ann: memdb.Scope) -> None:
    """Its vectors bring nothing that no letter agrees with."""
    for query in UNKNOWN[3:]:
        hits = ann.recall(query)
        assert hits.certainty != "sure"
        assert "does not know these words" in hits.missing["vector"]


@each("value", [math.nan, -0.1, 1.1, math.inf, True, "0.5", b"1", [1]])
@each("user", ["ann", "nobody"])
def test_a_score_that_cannot_be_is_refused(ann: memdb.Scope, value: Any, user: str) -> None:
    """The error names the field, also in an empty scope."""
    scope = memdb.Scope(ann._services, type(ann._owner)(ann._services.db, "default", user))
    with pytest.raises(memdb.InvalidInput, match="min_score"):
        scope.recall("tea", min_score=value)
    with pytest.raises(memdb.InvalidInput, match="min_score"):
        scope.session("s").recall("tea", min_score=value)


def test_scores_are_from_0_to_1_and_hits_keep_to_the_least(ann: memdb.Scope) -> None:
    """Of every kind; by vector they are cosines."""
    for query in (KNOWN, "Ann", "window seats", *UNKNOWN):
        scores = [hit.score for hit in ann.recall(query, 50, min_score=0)]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        for least in (0.2, 0.6, 0.9):
            kept = [hit.score for hit in ann.recall(query, 50, min_score=least)]
            assert kept == [score for score in scores if score >= least]
    cosines = [hit.score for hit in ann.recall(KNOWN, by="vector")]
    assert cosines == [hit.score for hit in ann.recall(KNOWN, by="vector", min_score=0)]


def test_an_explanation_gives_the_score_again(ann: memdb.Scope) -> None:
    """Relevance by its terms, and the place of the row beside the best one."""
    for hit in ann.recall(KNOWN, kinds=["entry", "message"], explain=True):
        terms = hit.explanation or {}
        own = [value for name, value in terms.items() if name.startswith("relevance.")]
        relevance = 1 / (1 + math.exp(-sum(own)))
        assert terms["relevance"] == pytest.approx(relevance)
        assert hit.score == pytest.approx(relevance * score_of(hit.kind, terms) / terms["best"])


def test_others_change_no_score(path: str, open_db: Any) -> None:
    """The same in a file of one user and in one of many."""
    db = open_db(path, embedder="static")
    ann = fill(db.scope("ann"))
    before = [hit.score for hit in ann.recall(KNOWN, kinds=["message"], min_score=0)]
    for user in ("bob", "eve"):
        fill(db.scope(user)).session("s").append("user", "The office is in Rome.")

    assert [hit.score for hit in ann.recall(KNOWN, kinds=["message"], min_score=0)] == before


def test_unrelated_texts_change_a_score_by_little(path: str, open_db: Any) -> None:
    """Ten times as many texts cost at most 0.15 of it, and make nothing known."""
    ann = fill(open_db(path, embedder="static").scope("ann"))
    before = ann.recall(KNOWN, kinds=["message"])[0].score
    nothing = [ann.recall(query, 1, min_score=0) for query in UNKNOWN]
    lines = [f"Order {n} of bricks and mortar was paid by invoice." for n in range(70)]
    ann.session("t").extend([{"role": "user", "text": line} for line in lines])

    assert before - 0.15 <= ann.recall(KNOWN, kinds=["message"])[0].score <= before + 0.02
    for query, hits in zip(UNKNOWN, nothing, strict=True):
        now = ann.recall(query, 1, min_score=0)
        assert not now or now[0].score < max(0.5, hits[0].score if hits else 0.0)


def test_a_message_is_counted_once(path: str, open_db: Any) -> None:
    """Asked of messages alone or of every kind, also in a scope of few, the score is the same."""
    texts = [*FACTS, *(f"Parcel {number} came by post." for number in range(20))]
    db = open_db(path, embedder="static")
    for run in range(2):
        chat = db.scope("ann").session(f"s{run}")
        chat.extend([{"role": "user", "text": text} for text in texts[run::2]])
    for question in (KNOWN, "when does Ann play?", "seats", "I lost my wifi password again."):
        every = db.scope("ann").recall(question, min_score=0.0)[0]
        alone = db.scope("ann").recall(question, min_score=0.0, kinds=("message",))[0]

        assert every.text == alone.text
        assert every.score == pytest.approx(alone.score, abs=0.02)


def test_keywords_are_sure_of_a_topic_that_a_question_is_not(ann: memdb.Scope) -> None:
    """A question that lacks a word is a near miss; keywords name a topic and ask nothing."""
    found = {
        query: ann.recall(query).certainty
        for query in ("printer level", "office town", "cello days", "who repairs the printer?")
    }

    assert found == {
        "printer level": "sure",
        "office town": "sure",
        "cello days": "sure",
        "who repairs the printer?": "unsure",
    }


def test_a_question_about_oneself_is_sure_only_of_a_text_that_holds_some_of_it(
    path: str, open_db: Any
) -> None:
    """What was never told is asked for in the words of what was: how one asks is no evidence."""
    facts = ("Ann lives in Bergen.", "My sister Clara lives in Graz.", "We are moving in spring.")
    scope = open_db(path, embedder="static").scope("user")
    for text in (*facts, "I work at the harbour office."):
        scope.remember(text)
    untold = (
        "where do I send the bills of my trip?",
        "Which mattress did I settle on?",
        "Which printer do I have at home?",
        "What's on my shopping list?",
        "Where did my parents meet?",
    )

    assert [ask for ask in untold if scope.recall(ask).certainty == "sure"] == []
    assert scope.recall("Where do I work?")[0].is_sure


def test_more_of_the_question_scores_more(path: str, open_db: Any) -> None:
    """Each further word of it that a text holds."""
    scores = []
    texts = ("Lunch is at noon.", "The office has a roof.", "The office printer is broken.")
    for place, text in enumerate(texts):
        scope = open_db(f"{path}{place}", embedder=None).scope("x")
        scope.remember(text)
        hits = scope.recall("office printer broken", min_score=0)
        scores.append(hits[0].score if hits else 0.0)

    assert scores == sorted(scores)
    assert len(set(scores)) == 3


@pytest.mark.parametrize("others", [1, 3, 9])
def test_the_users_own_name_does_not_beat_the_topic(path: str, open_db: Any, others: int) -> None:
    """It is in every entry but the one that is asked for."""
    named = [f"Ann {what}." for what in (
        "prefers window seats", "works in Oslo", "plays the cello", "has a sister called Mia",
        "was born on 4 March", "drives a blue Volvo", "lives on the third floor",
        "likes short answers", "reads crime novels",
    )]  # fmt: skip
    ann = open_db(path, embedder="static").scope("ann")
    for text in named[:others]:
        ann.remember(text)
    ann.remember("Allergic to peanuts.")

    for query in ("what must Ann not eat?", "what is Ann allergic to?"):
        assert ann.recall(query, min_score=0)[0].text == "Allergic to peanuts."
    assert ann.recall("what is Ann allergic to?")
    assert "window" in ann.recall("which seats does Ann prefer?")[0].text
    assert ann.recall("Ann")


def test_the_command_line_takes_a_score(tmp_path: Path, address_of: Callable[[str], str]) -> None:
    """0 shows all; what is out of range is refused."""
    import click.testing

    from memdb.cli import cli

    path = address_of(str(tmp_path / "cli.db"))
    with memdb.open(path) as db:
        fill(db.scope("ann"))
    run = click.testing.CliRunner().invoke
    ask = ["recall", path, "When does Zoe play the cello?", "--user", "ann"]

    assert "Nothing found" in run(cli, ask).output
    assert "cello" in run(cli, [*ask, "--min-score", "0"]).output
    assert run(cli, [*ask, "--min-score", "2"]).exit_code != 0


class OneDirection:
    """Gives every text the same vector."""

    name, dim = "one", 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector per text."""
        return [[1.0, 0.0] for _ in texts]


def test_texts_whose_cosine_is_exactly_one_are_no_error(
    path: str, open_db: Callable[..., memdb.MemDB]
) -> None:
    """None is nearer than the others, so their words alone say which is an answer."""
    db = open_db(path, embedder=OneDirection())
    talk = [{"role": "user", "text": f"tea {n % 2}"} for n in range(30)]
    db.scope("ann").session("s").extend(talk)
    db.jobs.run()

    hits = db.scope("ann").recall("tea 1", min_score=0)

    assert hits[0].text == "tea 1"
    assert {hit.text for hit in hits} == {"tea 1"}


def test_what_is_shown_of_what_was_found(tmp_path: Path) -> None:
    """At 0 every match, else those of that score; without `min_score` none where none answers."""
    arms = {
        "words": ("lexical",),
        "vector": ("vector",),
        "meaning": ("lexical", "vector", "similar"),
    }
    questions = [KNOWN, "who is Zoltan?", "does Ann skate?", "quantum chromodynamics", "hobby"]
    wrong, answers = [], set()
    with memdb.open(tmp_path / "a.db") as db:
        ann = db.scope("bob")
        for fact in FACTS:
            ann.remember(fact)
        for by in memdb.SearchBy.__args__:
            for question in questions:
                every, plain, best = (
                    ann.recall(question, by=by, min_score=least) for least in (0, None, 0.3)
                )
                answers.add((by, every.certainty, bool(every)))
                if not (
                    {every.arms, plain.arms, best.arms} == {arms[by]}
                    and "hits" not in every.missing
                    and (plain.certainty == "none") == (not plain)
                    and [hit.text for hit in best]
                    == [hit.text for hit in every if hit.score >= 0.3]
                    and {hit.text for hit in plain} <= {hit.text for hit in every}
                    and ("hits" in best.missing) == (len(best) < len(every))
                ):
                    wrong.append((by, question, every, plain, best))

    assert wrong == []
    assert {("meaning", "none", True), ("vector", "unsure", True)} <= answers


TALK = [
    ("How often do I water a ZZ plant?", "Every two to three weeks, when the soil is dry."),
    ("Who is our new architect?", "That is Maren Holt, she starts in May."),
    ("Wann fährt der Bus nach Bremen?", "Um 7.40 Uhr vom Markt."),
]


@pytest.mark.parametrize("embedder", [None, "static"])
def test_a_question_asked_once_more_finds_its_reply(
    open_db: Callable[..., memdb.MemDB], embedder: str | None
) -> None:
    """Word for word: the reply is shown, unsure, and as certain if every match is asked for."""
    with open_db(":memory:", embedder=embedder) as db:
        ann = db.scope("ann")
        for place, (question, reply) in enumerate(TALK):
            chat = ann.session(str(place))
            chat.append("user", question)
            chat.append("assistant", reply)
            chat.append("user", "Thanks!")
        ann.session("open").append("user", "What is the code of the garage?")
        db.jobs.run()
        for question, reply in TALK:
            hits = ann.recall(question)
            every = ann.recall(question, min_score=0)
            assert (hits.certainty, every.certainty) == ("unsure", "unsure")
            assert hits[0].text == reply
            assert {question, reply} <= {hit.text for hit in every}
        unanswered = "What is the code of the garage?"
        assert ann.recall(unanswered).certainty == "none"
        assert ann.recall(unanswered, min_score=0).certainty == "none"
