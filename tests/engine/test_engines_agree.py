"""A file and a server give the same answers: words, phrases, vectors and hits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from query_terms import match_terms

import memdb
from memdb.embeddings.static_model import table
from memdb.models.ids import SCOPE_SHIFT, scope_range
from memdb.postgres import vectors
from memdb.postgres.words import TAIL_ROWS
from memdb.tables import spaces
from memdb.text.terms import Term, begun_terms, phrase_terms, word_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

LOCOMO = sorted((Path(__file__).parents[2].parent / "shared" / "data" / "locomo").glob("*.json"))

PHRASES = [
    "green tea in Kyoto 京都市",
    "coffee and teas",
    "e-mail me: search.py is great",
    "a running runner runs",
    "Straße nach Zürich",
    "हिन्दी भाषा है",
    "ไปกินข้าว",
    "🎉 party 👍🏽",
    "caféбар привет",
    "number 42 and 3rd",
    "naïve résumé",
    "家族 ABC",
    "zoe says hi",
    "don't stop",
    "a b c a b c",
    "x" * 900,
]
QUERIES = [*PHRASES, "tea", "search.py", "teas", "北京", "京", "家", "कि", "runni", "nothing here"]
KINDS = ("message", "entry", "artifact", "item", "session")


def terms_of(text: str) -> list[Term]:
    """Return every kind of term that memdb makes of a text."""
    terms = match_terms(text)
    return [
        *terms,
        *phrase_terms([text.lower().split()[:2]]),
        *begun_terms(word_terms(text.lower().split()), text.lower()),
        *(term.replace(fields=("text",)) for term in terms),
    ]


TERMS = list(
    dict.fromkeys(
        [
            *(term for text in QUERIES for term in terms_of(text)),
            Term(("",)),
            Term(("zoe",)),
            Term(("zoe",), fields=("text",)),
            Term(("green", "te"), prefix=True),
            Term(("a", "b", "c", "a")),
            Term(("x" * 900,)),
            Term(("x" * 500,), prefix=True),
        ]
    )
)


@pytest.fixture
def both(
    postgres_databases: Any, tmp_path: Path, clock: Any, embedder: Any
) -> Iterator[dict[str, MemDB]]:
    """Return an empty file and an empty database of a server, by name."""
    path = str(tmp_path / "both.db")
    with (
        postgres_databases.bare() as address,
        memdb.open(path, embedder=embedder, clock=clock) as file,
        memdb.open(address, embedder=embedder, clock=clock) as server,
    ):
        yield {"file": file, "server": server}


ADD_SPACE = (
    "INSERT INTO embedding_spaces (model, dim, metric, created_ms) VALUES ('m', :dim, 'cosine', 1)"
)
SELECT_SPACE = "SELECT space_no FROM embedding_spaces WHERE model = 'm'"


def meanings(count: int) -> np.ndarray[Any, Any]:
    """Return vectors of sentences: means of two words of the static table."""
    rows = np.frombuffer(table().rows, np.uint8).reshape(-1, 64)
    words = np.stack([rows >> 4, rows & 15], axis=2).reshape(len(rows), -1).astype("<f4") - 8
    source = np.random.default_rng(1)
    return words[source.integers(0, len(words), (count, 2))].mean(axis=1).astype("<f4")


def talk(source: random.Random, count: int) -> list[dict[str, str]]:
    """Return some messages."""
    return [
        {
            "role": "user",
            "text": " ".join(source.sample(PHRASES, source.randint(1, 3))),
            **({"author": "Zoe tea"} if source.random() < 0.3 else {}),
        }
        for _ in range(count)
    ]


def changes(source: random.Random) -> Iterator[Callable[[Any], object]]:
    """Yield changes of a scope: long and short, of every kind, and again."""
    for number in range(4):
        some = talk(source, source.choice([1, 5, TAIL_ROWS - 1, TAIL_ROWS, 150]))
        yield lambda scope, name=f"s{number}", some=some: scope.session(name).extend(some)
    for text in PHRASES:
        yield lambda scope, text=text: scope.remember(text, keywords=["beverage"])
        yield lambda scope, text=text: scope.artifacts.save("user:tea.md", (text + " ") * 300)
        yield lambda scope, text=text: scope.items.put(("a",), text[:9], {"text": text})
    for number, message in enumerate(talk(source, 3 * TAIL_ROWS)):
        yield lambda scope, n=number, one=message: scope.session(f"s{n % 2}").append(**one)
    yield lambda scope: scope.session("s0").update(title="Green tea and 京都市")
    yield lambda scope: scope.session("s1").edit(2, {"role": "user", "text": "no animal"})
    yield lambda scope: scope.session("s1").pop()
    yield lambda scope: scope.session("s3").archive(keep_last=3)
    yield lambda scope: scope.session("s0").archive(keep_last=5)
    yield lambda scope: scope.session("s0").forget([2, 3, 9])
    yield lambda scope: scope.session("s3").unarchive()
    yield lambda scope: scope.session("s2").delete()


def postings(
    db: MemDB, user: str, kind: str, newest: int | None, share: float
) -> dict[Term, list[int]]:
    """Return the ids that hold each term in the last *share* of a scope, without the scope."""
    terms = [term for term in TERMS if kind != "session" or not term.fields]
    with db._db.read() as tx:
        row = tx.one("SELECT scope_no FROM scopes WHERE user_name = :user", {"user": user})
        assert row is not None
        low, high = scope_range(row[0])
        low += int((1 - share) * (5 << 24))
        found = tx.words.postings(kind, terms, low, high, newest=newest)
    return {
        term: sorted(one & (1 << SCOPE_SHIFT) - 1 for one in ids) for term, ids in found.items()
    }


def assert_same(both: dict[str, MemDB], user: str) -> int:
    """Compare the postings of a user; return how many there are."""
    count = 0
    for kind in KINDS:
        for newest in (None, 7) if kind in ("message", "entry") else (None,):
            for share in (1.0, 0.5):
                file, server = (postings(db, user, kind, newest, share) for db in both.values())
                assert file == server, (kind, newest)
                count += sum(map(len, file.values()))
    return count


def test_the_index_follows_every_change(both: dict[str, MemDB]) -> None:
    """Of two users, of whom only one changes at a time; also after a rebuild."""
    source = random.Random(1)
    counts = []
    for user in ("ann", "bob"):
        for number, change in enumerate(changes(source)):
            for db in both.values():
                change(db.scope(user))
            if number == 60:
                counts.append(assert_same(both, user))
    counts += [assert_same(both, user) for user in ("ann", "bob")]
    for db in both.values():
        assert db.file.check(deep=True) == []
    with both["server"]._db.write() as tx:
        tx.words.move_tail()
        assert tx.all("SELECT scope_no FROM words_tail LIMIT 1") == []
    assert assert_same(both, "ann") == counts[-2]
    both["server"].file.rebuild()
    assert assert_same(both, "ann") == counts[-2]
    assert min(counts[-2:]) > 1_000


def test_what_is_gone_leaves_no_list(both: dict[str, MemDB]) -> None:
    """Nor an empty one: tables hold nothing of a scope that was forgotten."""
    server = both["server"]
    for change in changes(random.Random(3)):
        change(server.scope("ann"))
    server.scope("ann").forget(everything=True)

    with server._db.read() as tx:
        assert tx.all("SELECT term FROM words LIMIT 5") == []
        assert tx.all("SELECT ref FROM words_tail LIMIT 5") == []
        assert tx.all("SELECT ref FROM vectors LIMIT 5") == []


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        ("DELETE FROM words WHERE term = 'tea' AND kind = 0", {"messages_fts"}),
        ("DELETE FROM words_tail WHERE kind = 0", {"messages_fts"}),
        ("UPDATE words SET refs = refs || refs WHERE term = 'coffe'", {"messages_fts"}),
        (
            "UPDATE words_tail SET terms = array_append(terms, 'new') WHERE kind = 2",
            {"entries_fts"},
        ),
        ("UPDATE words SET term = 'new' WHERE term = 'tea' AND kind = 1", {"archived_fts"}),
        ("DELETE FROM words WHERE kind = 1", {"archived_fts"}),
    ],
)
def test_check_finds_lists_that_differ_from_their_rows(
    both: dict[str, MemDB], damage: str, names: set[str]
) -> None:
    """A list that lacks an id, has one twice, or of a word that no row has; rebuild mends it."""
    server = both["server"]
    chat = server.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"coffee and tea {n}"} for n in range(2 * TAIL_ROWS)])
    chat.append("user", "green tea")
    server.scope("ann").remember("likes tea")
    chat.archive(keep_last=TAIL_ROWS)
    assert server.file.check(deep=True) == []

    with server._db.write() as tx:
        assert tx.all(f"{damage} RETURNING kind")

    findings = server.file.check(deep=True)
    assert {one.code for one in findings} == names
    server.file.rebuild()
    assert server.file.check(deep=True) == []


@pytest.mark.parametrize("kind", ["message", "entry"])
@pytest.mark.parametrize("dim", [3, 128])
def test_cosines_are_the_same(both: dict[str, MemDB], kind: str, dim: int) -> None:
    """To 1e-6, with and without a choice of refs; a vector comes back as a file gives it."""
    source = np.random.default_rng(dim)
    rows = source.standard_normal((700, dim)).astype("<f4")
    low = 3 << SCOPE_SHIFT
    asked = source.standard_normal(dim).astype("<f4").tobytes()
    answers = []
    for db in both.values():
        with db._db.write() as tx:
            tx.run(ADD_SPACE, {"dim": dim})
            ((space,),) = tx.all(SELECT_SPACE)
            tx.vectors.put(space, kind, [(low + n, row.tobytes()) for n, row in enumerate(rows)])
            tx.vectors.drop(kind, low + 600, low + 609)
            span = low + 10, low + 650
            answers.append(
                (
                    tx.vectors.nearest(space, kind, asked, span, limit=50, exact=True),
                    tx.vectors.nearest(
                        space,
                        kind,
                        asked,
                        span,
                        limit=50,
                        allowed=set(range(low, low + 300)),
                        exact=True,
                    ),
                    tx.vectors.measure(space, kind, asked, [low + 3, low + 605, low + 699]),
                    tx.vectors.list_page(space, kind, low + 598, low + 699, 20),
                    tx.vectors.find(space, kind, [low + 1]).get(low + 1),
                    tx.vectors.find(space, kind, [low + 601]).get(low + 601),
                    tx.vectors.present(space, kind, [low, low + 605, low + 700]),
                    tx.vectors.count(space),
                )
            )

    for file, server in zip(*(answer[:3] for answer in answers), strict=True):
        assert [ref for ref, _ in file] == [ref for ref, _ in server]
        assert [one for _, one in file] == pytest.approx([one for _, one in server], abs=1e-6)
    assert answers[0][3:] == answers[1][3:]
    assert [len(found) for found in answers[0][:4]] == [50, 50, 2, 20]


def test_the_index_of_a_dropped_space_is_dropped(
    both: dict[str, MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next upkeep; that of another space stays, and so do indexes that are not memdb's."""
    monkeypatch.setattr(vectors, "LEAST_INDEXED", 20)
    server = both["server"]
    numbers = meanings(30)
    low = 3 << SCOPE_SHIFT
    models = ("first", "second")

    def indexes() -> list[str]:
        with server._db.read() as tx:
            names = (
                "SELECT CAST(indexname AS TEXT) FROM pg_indexes WHERE indexname ~ '^vectors_hnsw'"
            )
            return [name for (name,) in tx.all(f"{names} ORDER BY indexname")]

    with server._db.write() as tx:
        numbered = [spaces.add_space(tx, model, numbers.shape[1]) for model in models]
        for space in numbered:
            rows = [(low + n, one.tobytes()) for n, one in enumerate(numbers)]
            tx.vectors.put(space, "entry", rows)
    assert server._db.maintenance.merge() == 2
    server._db.run_apart("CREATE INDEX vectors_hnsw_mine ON sessions (name)")
    assert len(indexes()) == 3

    server.file.delete_space("first")
    assert server._db.maintenance.merge() == 0

    kept = [name for name in indexes() if name != "vectors_hnsw_mine"]
    assert [name.split("_")[2] for name in kept] == [str(numbered[1])]
    server._db.run_apart("DROP INDEX vectors_hnsw_mine")


@pytest.mark.parametrize("kind", ["message", "entry"])
def test_an_index_finds_nearly_all(
    both: dict[str, MemDB], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of real words and their neighbours: 0.95 of the ten nearest, and nothing of another scope."""
    monkeypatch.setattr(vectors, "LEAST_INDEXED", 2_000)
    server = both["server"]
    numbers = meanings(6_000)
    low = 3 << SCOPE_SHIFT
    with server._db.write() as tx:
        tx.run(ADD_SPACE, {"dim": numbers.shape[1]})
        ((space,),) = tx.all(SELECT_SPACE)
        rows = [(low * (1 + n % 3) + n, one.tobytes()) for n, one in enumerate(numbers)]
        tx.vectors.put(space, kind, rows)
    with server._db.read() as tx:
        assert tx.vectors._indexed_dim(space, kind, scope_range(3)) == 0
    assert server._db.maintenance.merge() == 1
    assert server._db.maintenance.merge() == 0

    shares = []
    with server._db.read() as tx:
        tx.vectors._dims.clear()  # what it believes for a minute
        for asked in numbers[::90]:
            found = [
                tx.vectors.nearest(
                    space, kind, asked.tobytes(), scope_range(3), limit=10, exact=exact
                )
                for exact in (False, True)
            ]
            assert {ref >> SCOPE_SHIFT for ref, _ in found[0]} == {3}
            assert [one for _, one in found[0]] == sorted(
                (one for _, one in found[0]), reverse=True
            )
            shares.append(len({ref for ref, _ in found[0]} & {ref for ref, _ in found[1]}) / 10)
        assert tx.vectors._indexed_dim(space, kind, scope_range(3)) == numbers.shape[1]
        tx.many(vectors.PREPARE_INDEX, [{"candidates": 100}])
        sql = vectors.SELECT_BY_INDEX[kind == "message"]
        sql = sql.format(space_no=space, kind=kind, dim=numbers.shape[1])
        values = {
            "vector": vectors._stored(kind, asked.tobytes()),
            "low": low,
            "high": low + 6_000,
            "candidates": 20,
            "limit": 10,
        }
        plan = str(tx.all(f"EXPLAIN {sql}", values))
    assert sum(shares) / len(shares) >= 0.95
    assert f"vectors_hnsw_{space}_{kind}_" in plan


@pytest.mark.skipif(not LOCOMO, reason="the data set is not there: see CONTRIBUTING")
@pytest.mark.parametrize("embedder", [None, "static"], indirect=False)
def test_questions_have_the_same_hits(
    postgres_databases: Any, tmp_path: Path, clock: Any, embedder: str | None
) -> None:
    """In the same order, with the same scores: to 1e-12 by words, 1e-6 with vectors."""
    answers = []
    with postgres_databases.bare() as bare:
        for address in (str(tmp_path / "a.db"), bare):
            with memdb.open(address, embedder=embedder, clock=clock) as db:
                db.import_file(LOCOMO[0], user="ann")
                db.jobs.run()
                asked = [
                    hit.text.split(". ")[0]
                    for hit in db.scope("ann").recall("What do they like?", limit=40, min_score=0)
                ]
                answers.append(
                    [
                        [(hit.source.session, hit.source.seq, hit.score) for hit in found]
                        for text in asked
                        for found in [db.scope("ann").recall(text, min_score=0)]
                    ]
                )

    assert [[hit[:2] for hit in hits] for hits in answers[0]] == [
        [hit[:2] for hit in hits] for hits in answers[1]
    ]
    scores = [[hit[2] for hits in answer for hit in hits] for answer in answers]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6 if embedder else 1e-12)
    assert len(scores[0]) > 200
