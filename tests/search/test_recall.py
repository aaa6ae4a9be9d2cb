"""Recall through the front door: who sees what, by which limits, and from where."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import memdb
from memdb import MemDB, Source
from memdb.engine.sqlite.words import SqliteWords
from memdb.postgres.words import PostgresWords
from memdb.search import kinds
from memdb.search.rank import ORDERED
from memdb.text.terms import Term

START_MS = 1_700_000_000_000


def found(hits: list[memdb.Hit]) -> list[str]:
    """Return what the hits say."""
    return [hit.text for hit in hits]


def fill(scope: memdb.Scope) -> None:
    """Give a scope a message, an entry and an artifact about tea."""
    scope.session("trip").extend(
        [
            {"role": "user", "text": "I drink green tea.", "author": "Ann", "external_id": "m1"},
            {"role": "assistant", "text": "Noted."},
        ]
    )
    scope.remember("Ann likes tea.", category="preferences", session="trip", seq=1)
    scope.session("trip").artifacts.save("menu.md", "We have black tea and cake.")


def test_recall_finds_all_kinds_with_their_sources(db: MemDB) -> None:
    """Each hit says where it comes from, and only what applies."""
    ann = db.scope("ann")
    fill(ann)

    hits = ann.recall("tea")

    by_kind = {hit.kind: hit for hit in reversed(hits)}
    entry_id = ann.entries.list()[0].id
    assert by_kind["message"].source == Source("trip", 1, "m1", "Ann", START_MS)
    assert by_kind["entry"].source == Source(
        session="trip", seq=1, created_ms=START_MS, entry_id=entry_id, category="preferences"
    )
    assert by_kind["artifact"].source == Source(
        session="trip", created_ms=START_MS, artifact="menu.md", version=1
    )
    assert by_kind["message"].text == "I drink green tea."
    assert "tea" in by_kind["artifact"].text


def test_recall_ranks_from_one_by_falling_score(db: MemDB) -> None:
    """Ranks count up while scores do not rise."""
    ann = db.scope("ann")
    ann.session("s").extend(
        [{"role": "user", "text": f"tea number {n} " + "x " * n} for n in range(20)]
    )

    hits = ann.recall("tea number 7", limit=8)

    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) == 8


def test_the_same_question_gets_the_same_answer(db: MemDB) -> None:
    """Also when scores are equal."""
    ann = db.scope("ann")
    ann.session("s").extend([{"role": "user", "text": "tea"} for _ in range(30)])
    first = ann.recall("tea", limit=20)

    assert ann.recall("tea", limit=20) == first


@pytest.mark.parametrize("kind", ["message", "entry", "artifact"])
def test_kinds_choose_what_is_searched(db: MemDB, kind: str) -> None:
    """Only the kinds asked for are in the answer."""
    ann = db.scope("ann")
    fill(ann)

    assert {hit.kind for hit in ann.recall("tea", kinds=[kind])} == {kind}


def test_no_kinds_give_no_hits(db: MemDB) -> None:
    """An empty choice is an empty answer."""
    ann = db.scope("ann")
    fill(ann)

    assert list(ann.recall("tea", kinds=())) == []


def test_a_kind_named_twice_is_searched_once(db: MemDB) -> None:
    """No hit comes twice."""
    ann = db.scope("ann")
    ann.remember("Ann likes tea.")

    assert len(ann.recall("tea", kinds=("entry", "entry"))) == 1


def test_session_limits_messages_and_artifacts(db: MemDB) -> None:
    """Entries are of the scope, unless they are to come from that session."""
    ann = db.scope("ann")
    fill(ann)
    ann.session("work").append("user", "tea at work")
    ann.session("work").artifacts.save("work.md", "tea")

    inside = ann.recall("tea", session="trip")
    work = ann.recall("tea", session="work")
    only_work = ann.recall("tea", session="work", scope_entries=False)
    nowhere = ann.recall("tea", session="never")

    assert {hit.source.session for hit in inside} == {"trip"}
    assert sorted(found(work)) == ["Ann likes tea.", "tea", "tea at work"]
    assert sorted(found(only_work)) == ["tea", "tea at work"]
    assert found(nowhere) == ["Ann likes tea."]


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        pytest.param(None, None, {"tea 0", "tea 1", "tea 2"}, id="always"),
        pytest.param(1_000, None, {"tea 1", "tea 2"}, id="since, inclusive"),
        pytest.param(None, 2_000, {"tea 0", "tea 1"}, id="until, exclusive"),
        pytest.param(1_000, 2_000, {"tea 1"}, id="both"),
        pytest.param(2_001, None, set(), id="later"),
        pytest.param(
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
            {"tea 1"},
            id="datetimes",
        ),
    ],
)
def test_since_and_until_limit_the_time(
    db: MemDB, since: Any, until: Any, expected: set[str]
) -> None:
    """A message and an entry count by when they were said."""
    ann = db.scope("ann")
    for n in range(3):
        ann.session("s").append("user", f"tea {n}", created=n * 1_000)
        ann.remember(f"tea {n}", created=n * 1_000)

    hits = ann.recall("tea", since=since, until=until)

    assert {hit.text for hit in hits if hit.kind == "message"} == expected
    assert {hit.text for hit in hits if hit.kind == "entry"} == expected


def test_a_datetime_without_zone_is_refused(db: MemDB) -> None:
    """It could mean two moments."""
    with pytest.raises(memdb.InvalidInput, match="since"):
        db.scope("ann").recall("tea", since=datetime(2024, 1, 1))  # noqa: DTZ001 (no zone)


def test_explain_names_the_terms_of_the_score(db: MemDB) -> None:
    """Without it there is no explanation, with it every hit has one."""
    ann = db.scope("ann")
    fill(ann)

    plain, explained = ann.recall("tea"), ann.recall("tea", explain=True)

    assert {hit.explanation for hit in plain} == {None}
    assert all("relevance" in (hit.explanation or {}) for hit in explained)
    assert any("words" in (hit.explanation or {}) for hit in explained)
    assert [hit.replace(explanation=None) for hit in explained] == [*plain]


def test_another_users_rows_never_change_my_answer(db: MemDB, clock: Any) -> None:
    """Neither what I find nor its order nor its scores, whatever bob stores."""
    ann, bob = db.scope("ann"), db.scope("bob")
    fill(ann)
    ann.session("s").extend([{"role": "user", "text": f"tea and cake {n}"} for n in range(10)])
    before = ann.recall("green tea and cake", limit=50, explain=True)
    fill(bob)
    bob.session("trip").extend([{"role": "user", "text": "green tea " * 5} for _ in range(50)])
    [bob.remember("tea " * n) for n in range(1, 10)]
    db.jobs.run()

    after = ann.recall("green tea and cake", limit=50, explain=True)

    # What was found before counts as used since, which is no word of bob's.
    assert [(hit.kind, hit.text, hit.source) for hit in after] == [
        (hit.kind, hit.text, hit.source) for hit in before
    ]
    assert [hit.score for hit in after if hit.kind != "entry"] == [
        hit.score for hit in before if hit.kind != "entry"
    ]


@pytest.mark.parametrize("user", ["bob", "an", "annn", "ann%", "Ann", "ann/x"])
def test_a_scope_finds_nothing_of_another(db: MemDB, user: str) -> None:
    """Also when one name begins like the other."""
    fill(db.scope("ann"))
    db.scope(user).session("own").append("user", "coffee")

    assert [hit for hit in db.scope(user).recall("tea", limit=100) if "tea" in hit.text] == []
    assert db.scope(user).session("trip").last(5) == []


def test_an_unknown_scope_finds_nothing(db: MemDB) -> None:
    """Recall before the first write is empty and makes no scope."""
    assert list(db.scope("eve").recall("tea")) == []
    assert db.scopes() == []


def test_expired_entries_are_not_recalled(db: MemDB, clock: Any) -> None:
    """From its time on; a list of the inactive ones still has it."""
    ann = db.scope("ann")
    ann.remember("The tea is ready.", expires=START_MS + 1_000)
    before = found(ann.recall("tea"))

    clock.advance(1_000)

    assert before == ["The tea is ready."]
    assert list(ann.recall("tea")) == []
    assert len(list(ann.entries.list(inactive=True))) == 1


def test_recall_finds_by_meaning_what_shares_no_word(db: MemDB) -> None:
    """The vector arm answers where words do not: `Tea,` is one word for the embedder."""
    ann = db.scope("ann")
    ann.remember("zzz!")
    ann.remember("other things")

    (hit, *_) = ann.recall("zzz!", kinds=["entry"])

    assert hit.text == "zzz!"


@pytest.mark.parametrize(
    ("query", "seq"), [('"green tea"', 4), ("search/service.py", 10)], ids=["quotes", "file name"]
)
def test_a_phrase_is_better_than_its_words(query: str, seq: int) -> None:
    """In quotes, or joined as in a file name."""
    said = ["the tea was green"] * 3 + ["a cup of green tea please"] + ["other things"] * 5
    said += ["see memdb/search/service.py"] + ["other things"] * 5
    said += ["py search in recall of memdb"] * 3
    with memdb.open(":memory:", counter="estimate") as db:
        db.scope("ann").session("s").extend([{"role": "user", "text": text} for text in said])

        hits = db.scope("ann").recall(query)

    assert hits[0].source.seq == seq


@pytest.mark.parametrize("pause_days", [0, 400], ids=["today", "an old conversation"])
def test_relative_dates_are_counted_from_today_or_from_the_last_message(
    db: MemDB, clock: Any, pause_days: int
) -> None:
    """An old conversation is asked about as if it were going on."""
    day_ms = 86_400_000
    now_ms = db._db.clock()
    chat = db.scope("ann").session("s")
    for back in (21, 14, 7, 0):
        at_ms = now_ms - (back + pause_days) * day_ms
        chat.append("user", "we ate soup", created=at_ms)

    hits = db.scope("ann").recall("what did we eat two weeks ago? soup", kinds=["message"])

    assert hits[0].source.seq == 2


def test_similar_words_count_unless_they_are_not_wanted() -> None:
    """The words of a question look for those of about the same meaning; the explanation says so."""
    with memdb.open(":memory:", counter="estimate") as db:
        ann = db.scope("ann")
        ann.session("s").append("user", "The physician was friendly.")
        ann.session("t").append("user", "No doctor today.")

        with_them = ann.recall("doctor", explain=True)
        without = ann.recall("doctor", explain=True, rerank=False)

    assert [hit.text for hit in with_them][1] == "The physician was friendly."
    assert with_them[1].explanation["similar"] > 0
    assert all(hit.explanation.get("similar", 0) == 0 for hit in without)


def test_recall_embeds_what_was_just_said(db: MemDB) -> None:
    """No call is needed between saying and finding; afterwards nothing is due."""
    ann = db.scope("ann")
    fill(ann)

    ann.recall("tea")

    assert db.jobs.pending() == 0
    assert db.file.info().counts["vectors"] == 3


def test_recall_without_an_embedder_finds_by_words(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """A file needs no model to be searched."""
    ann = open_db(path, embedder=None).scope("ann")
    fill(ann)

    assert {hit.kind for hit in ann.recall("tea")} == {"message", "entry", "artifact"}


def test_where_the_embedder_fails_words_answer_and_say_so(db: MemDB, embedder: Any) -> None:
    """Recall does not quietly drop the vector arm."""
    ann = db.scope("ann")
    fill(ann)
    whole = ann.recall("tea")
    embedder.fail = RuntimeError("no model")

    hits = ann.recall("tea")

    assert (whole.arms, whole.missing) == (("lexical", "vector", "similar"), {})
    assert hits.arms == ("lexical",)
    assert "no model" in hits.missing["vector"]
    assert found(hits)


def test_a_failing_embedder_is_named_where_no_word_is_found(db: MemDB, embedder: Any) -> None:
    """An empty answer would say that nothing is known."""
    ann = db.scope("ann")
    fill(ann)
    embedder.fail = RuntimeError("no model")

    with pytest.raises(memdb.PortError, match="fake.*no model"):  # noqa: RUF043 (a pattern)
        ann.recall("zebra")


def test_sessions_are_found_by_all_that_they_say(db: MemDB) -> None:
    """Several messages about it are more than one; the best are shown with the session's date."""
    ann = db.scope("ann")
    for n in range(4):
        ann.session("other").append("user", f"word {n}", created=500 + n)
    ann.session("once").append("user", "tea in Kyoto", created=1_000)
    for n, text in enumerate(["a long trip", "tea in Kyoto", "more tea in Kyoto", "Kyoto again"]):
        ann.session("often").append("user", text, created=2_000 + n)

    hits = ann.recall("tea Kyoto", group="session")

    assert [hit.source.session for hit in hits[:2]] == ["often", "once"]
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    first = hits[0]
    assert (first.kind, first.source.created_ms, str(first.source)) == ("session", 2_000, "often")
    assert len(first.hits) == 3
    assert first.text == first.hits[0].text
    assert first.score == max(hit.score for hit in first.hits)


@pytest.mark.parametrize(
    "options",
    [
        {"group": "user"},
        {"group": "session", "session": "s"},
        {"group": "session", "explain": True},
    ],
    ids=["unknown", "one session", "explained"],
)
def test_grouping_refuses_what_does_not_apply(db: MemDB, options: Any) -> None:
    """The error says what does."""
    with pytest.raises(memdb.InvalidInput, match="group is"):
        db.scope("ann").recall("tea", **options)


def test_why_tells_the_place_of_a_message(db: MemDB) -> None:
    """In the answer, behind it, or no candidate at all, each with its reason."""
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": text} for text in ("green tea", "tea", "x y", "q -w")])
    ann = db.scope("ann")

    first, behind = ann.why("green tea", "s", 1), ann.why("green tea", "s", 2, 1)
    outside = ann.why("green tea", "s", 1, until=5)

    assert (first.rank, first.reason) == (1, "It is number 1 of the answer.")
    assert first.explanation is not None
    assert behind.rank == 2
    assert "words" in behind.reason
    assert behind.last == first.explanation
    assert (outside.rank, outside.reason[:19]) == (None, "It was said outside")
    with pytest.raises(memdb.NotFound):
        ann.why("tea", "s", 99)
    with pytest.raises(memdb.NotFound):
        db.scope("bob").why("tea", "s", 1)


def test_why_gives_the_place_that_recall_gave() -> None:
    """Among hundreds of messages that score nearly alike, for each hit."""
    words = "Kyoto temple flight Oslo peanuts sister bicycle garden piano doctor guitar".split()
    source = random.Random(1)
    with memdb.open(":memory:", counter="estimate") as db:
        ann = db.scope("ann")
        for part in range(5):
            said = [f"We saw {' '.join(source.choices(words, k=3))}." for _ in range(60)]
            ann.session(f"s{part}").extend(
                [{"role": "user", "text": one, "author": "AB"[n % 2]} for n, one in enumerate(said)]
            )
        db.jobs.run()
        asked = "Oslo garden sister"
        for limit in (1, 10, 150):
            hits = ann.recall(asked, limit, kinds=["message"], min_score=0)
            places = [
                ann.why(asked, hit.source.session or "", hit.source.seq or 0, limit).rank
                for hit in hits[:12:2]
            ]

            # Of what answers alike the newest goes first, which its place by score does not tell.
            assert len(set(places)) == len(places)
            assert all(place is not None and place <= limit + ORDERED for place in places)


def test_why_says_where_nothing_is_shared() -> None:
    """Neither a word nor a meaning."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("s")
        chat.extend([{"role": "user", "text": text} for text in ("tea", *"abcdef", "coffee")])

        assert "shares no word" in db.scope("ann").why("tea", "s", 8).reason


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_message_without_words_beside_a_hit_is_no_hit(db: MemDB, text: str) -> None:
    """It answers nothing, however near it stands to the words of the question."""
    chat = db.scope("ann").session("trip")
    chat.append("user", text)
    chat.append("user", "We fly to Oslo on 3 May.")
    chat.append("user", text)

    hits = db.scope("ann").recall("when do we fly to Oslo?", kinds=["message"])

    assert [hit.source.seq for hit in hits] == [2]
    assert db.scope("ann").why("when do we fly to Oslo?", "trip", 1).reason == "It has no text."


def test_a_misspelt_name_finds_what_the_person_said(db: MemDB) -> None:
    """The author counts, and a name that the scope talks about is nobody's misspelt name."""
    session = db.scope("ann").session("s")
    for author, text in (("Bob", "The boat is red."), ("Melanie", "My boat is blue.")):
        session.append("user", text, author=author)

    assert found(db.scope("ann").recall("What boat has Melonie?"))[0] == "My boat is blue."
    assert found(db.scope("ann").recall("Melonie", by="words")) == ["My boat is blue."]
    session.append("user", "Melonie sails.", author="Bob")
    assert found(db.scope("ann").recall("Melonie", by="words")) == ["Melonie sails."]


def test_search_in_a_session_goes_by_words_alone(db: MemDB, embedder: Any) -> None:
    """It asks no model and finds only messages of the session that hold a word."""
    ann = db.scope("ann")
    fill(ann)
    ann.session("work").append("user", "tea at work")
    embedder.fail = RuntimeError("not to be asked")

    hits = ann.session("trip").recall("tea", kinds=("message",), by="words")

    assert found(hits) == ["I drink green tea."]


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        pytest.param("use gpt-4o-mini", "gpt-4o", id="hyphen and digit"),
        pytest.param("ratio a:b", "a:b", id="colon"),
        pytest.param('He said "stop"', '"stop"', id="quotes"),
        pytest.param("Café au lait", "cafe", id="accent"),
        pytest.param("running shoes", "run", id="stem"),
        pytest.param("我爱北京烤鸭", "北京", id="Chinese"),
        pytest.param("東京タワーに行く", "タワー", id="Japanese"),
        pytest.param("ฉันชอบชาเขียว", "ชาเขียว", id="Thai"),
        pytest.param("UPPER CASE", "upper", id="case"),
        pytest.param("snake_case_name", "snake", id="underscore"),
    ],
)
def test_words_are_found_in_every_writing(db: MemDB, stored: str, query: str) -> None:
    """A query in the words of a text finds it, as message and as entry."""
    ann = db.scope("ann")
    ann.session("s").append("user", "something else entirely")
    ann.session("s").append("user", stored)
    ann.remember(stored)

    assert stored in found(ann.session("s").recall(query, kinds=("message",), by="words"))
    assert stored in found(ann.recall(query, kinds=["entry"]))


def test_long_queries_are_answered(db: MemDB) -> None:
    """Thousands of words neither fail nor hide what the first of them find."""
    ann = db.scope("ann")
    fill(ann)

    hits = ann.recall("tea " + " ".join(f"word{n}" for n in range(5_000)), min_score=0)

    assert {hit.kind for hit in hits} == {"message", "entry", "artifact"}


@pytest.mark.parametrize("query", ["", "   ", "?!", "the of and"], ids=ascii)
def test_queries_that_say_nothing_are_answered(db: MemDB, query: str) -> None:
    """No word to search for is no error."""
    ann = db.scope("ann")
    fill(ann)

    assert isinstance(ann.recall(query), memdb.Hits)
    assert isinstance(ann.session("trip").recall(query, kinds=("message",), by="words"), memdb.Hits)


def test_an_answer_is_no_longer_than_asked(db: MemDB) -> None:
    """All kinds together keep to the limit."""
    ann = db.scope("ann")
    fill(ann)

    assert len(ann.recall("tea", limit=2)) == 2


class Angles:
    """Gives "near" one direction and texts with "far" another, at the cosine it is told."""

    def __init__(self, name: str = "angles", cosine: float = 0.8, known: bool = True) -> None:
        """Be a model with this name; *known*: it knows every word."""
        self.name = name
        self.dim = 2
        self._far = [cosine, (1 - cosine**2) ** 0.5]
        self._known = known

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one of two directions per text."""
        return [self._far if "far" in text else [1.0, 0.0] for text in texts]

    def covers(self, _text: str) -> bool:
        """Say whether it is a model of this language."""
        return self._known


@pytest.mark.parametrize("crowd", ["expired", "of another session"])
def test_entries_that_do_not_count_crowd_out_none_that_does(
    path: str, open_db: Callable[..., MemDB], clock: Any, crowd: str
) -> None:
    """The vector arm looks only at live entries, and of the session only."""
    db = open_db(path, embedder=Angles())
    ann = db.scope("ann")
    for name in ("here", "there"):
        ann.session(name).append("user", "hello")
    place = {"session": "there"} if crowd != "expired" else {"expires": clock.now_ms + 1}
    with db._db.write():
        for n in range(250):
            ann.remember(f"near {n}", **place)
    ann.remember("far away", session="here")
    db.jobs.run()
    clock.advance(1)

    asked = {} if crowd == "expired" else {"session": "here", "scope_entries": False}
    hits = ann.recall("near", kinds=["entry"], **asked)

    assert found(hits) == ["far away"]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"session": "old"}, id="session"),
        pytest.param({"until": 1_000}, id="until"),
        pytest.param({"session": "old", "since": 1, "until": 1_000}, id="both"),
    ],
)
def test_old_messages_of_a_large_scope_are_found_where_asked_for(
    db: MemDB, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    """Lists that are cut to the newest are not cut where those do not count."""
    monkeypatch.setattr(kinds, "LARGE_SCOPE", 10)
    monkeypatch.setattr(kinds, "MAX_POSTINGS", 5)
    ann = db.scope("ann")
    for n in range(3):
        ann.session("old").append("user", f"tea {n}", created=100)
    ann.session("new").extend([{"role": "user", "text": "tea"} for _ in range(20)])

    hits = ann.recall("tea", kinds=["message"], explain=True, **asked)

    assert set(found(hits)) == {"tea 0", "tea 1", "tea 2"}
    assert all(hit.explanation["words"] > 0 for hit in hits if hit.explanation)


def test_a_limit_of_a_thousand_is_kept(db: MemDB) -> None:
    """Every message and entry that holds the word comes, and so for meaning alone."""
    ann = db.scope("ann")
    ann.session("s").extend([{"role": "user", "text": f"tea {n}"} for n in range(600)])
    ann.session("s").extend([{"role": "user", "text": "cake"} for _ in range(600)])
    with db._db.write():
        for n in range(600):
            ann.remember(f"tea {n}")
    db.jobs.run()

    assert len(ann.session("s").recall("tea", limit=1_000, kinds=("message",), by="words")) == 600
    assert len(ann.recall("tea", limit=1_000, kinds=["entry"])) == 600
    messages = ann.recall("tea", limit=1_000, kinds=["message"])
    assert sum(text.startswith("tea") for text in found(messages)) == 600


def test_a_limit_of_a_thousand_is_kept_by_meaning(path: str, open_db: Callable[..., MemDB]) -> None:
    """Where no word is shared the vector arm brings as many as are asked for."""
    db = open_db(path, embedder=Angles())
    ann = db.scope("ann")
    ann.session("s").extend([{"role": "user", "text": f"far {n}"} for n in range(900)])
    db.jobs.run()

    assert len(ann.recall("near", limit=800, min_score=0)) == 800


def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by each term that is looked up from now on."""
    terms: list[str] = []
    for engine in (SqliteWords, PostgresWords):

        def note(
            words: Any,
            kind: str,
            some: list[Term],
            *rest: Any,
            real: Any = engine.postings,
            **more: Any,
        ) -> Any:
            terms.extend(" ".join(term.words) for term in some)
            return real(words, kind, some, *rest, **more)

        monkeypatch.setattr(engine, "postings", note)
    return terms


def test_of_a_long_query_the_longest_words_are_looked_up(
    db: MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they found something the common short ones are left alone."""
    ann = db.scope("ann")
    ann.session("s").append("user", "tea with extraordinarily")
    terms = looked_up(monkeypatch)

    hits = ann.session("s").recall(
        "tea extraordinarily " + " ".join(f"w{n}" for n in range(1_500)),
        kinds=("message",),
        by="words",
        min_score=0,
    )

    assert found(hits) == ["tea with extraordinarily"]
    assert len(terms) == 64
    assert terms[0] == "extraordinarily"


@pytest.mark.parametrize("kind", ["message", "entry", "artifact"])
def test_a_shared_word_is_found_wherever_it_stands(path: str, kind: str, open_db: Any) -> None:
    """Also the shortest of many, and where an earlier one is only in what does not count."""
    ann = open_db(path, embedder=None).scope("ann")
    fill(ann)
    ann.remember("extraordinarily", expires=1)
    ann.session("other").append("user", "extraordinarily")
    ann.session("other").artifacts.save("x.md", "extraordinarily")
    words = ["extraordinarily", *(f"word{n}" for n in range(1_500)), "tea"]

    hits = ann.recall(" ".join(words), kinds=[kind], session="trip", min_score=0)

    assert len(hits) >= 1
    assert "tea" in hits[0].text


@pytest.mark.parametrize(
    ("name", "cosine", "expected"),
    [
        pytest.param("static-en-1", 0.10, [], id="noise"),
        pytest.param("static-en-1", 0.30, ["far away"], id="meaning"),
        pytest.param("other", 0.10, ["far away"], id="another scale"),
    ],
)
def test_what_shares_no_word_and_no_meaning_is_not_found(
    path: str, open_db: Callable[..., MemDB], name: str, cosine: float, expected: list[str]
) -> None:
    """The built-in model has a floor, below which a cosine says nothing; others have none."""
    ann = open_db(path, embedder=Angles(name, cosine)).scope("ann")
    ann.session("s").append("user", "far away")
    ann.remember("far away")

    assert found(ann.recall("near", kinds=["message"], min_score=0)) == expected
    assert found(ann.recall("near", kinds=["entry"], min_score=0)) == expected


@pytest.mark.parametrize(
    ("known", "query", "expected"),
    [
        pytest.param(True, "tea", {"tea", "far away"}, id="known words"),
        pytest.param(False, "tea", {"tea"}, id="found by words"),
        pytest.param(False, "cake", {"tea", "far away"}, id="found by nothing else"),
    ],
)
def test_a_model_that_does_not_know_the_words_is_asked_last(
    path: str, open_db: Callable[..., MemDB], known: bool, query: str, expected: set[str]
) -> None:
    """Its vector says little then; without it there may be nothing at all."""
    ann = open_db(path, embedder=Angles(known=known)).scope("ann")
    ann.remember("tea")
    ann.remember("far away")

    assert set(found(ann.recall(query))) == expected
