"""
What hosts hand in by mistake or malice: each works, or gets an error naming the field.

After a refusal the file holds row for row what it held before.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cases import each

import memdb
from memdb import MemDB
from memdb.adapters.host import Host

SURROGATE = "lone \ud800 surrogate"
NUL = "a\0b"
LONG = "n" * 1_025
DEEP: Any = []
for _ in range(20_000):
    DEEP = [DEEP]

Call = Callable[[memdb.Scope], object]


def chat(ann: memdb.Scope) -> memdb.Session:
    """Return the session that the calls use."""
    return ann.session("trip")


def entry(ann: memdb.Scope) -> int:
    """Return the id of the scope's entry."""
    return ann.entries.list()[0].id


REFUSED: list[tuple[str, str, Call]] = [
    # (what is wrong, the field the error names, the call)
    (
        "a text of 64 MB and one byte",
        "text",
        lambda ann: chat(ann).append("user", "x" * ((64 << 20) + 1)),
    ),
    ("a text that is a number", "text", lambda ann: chat(ann).append("user", 5)),
    ("a text that is bytes", "text", lambda ann: chat(ann).append("user", b"x")),
    ("a text that is None", "text", lambda ann: chat(ann).append("user", None)),
    ("a role alone", "text", lambda ann: chat(ann).append("user")),
    ("a message of a role alone", "text", lambda ann: chat(ann).append({"role": "user"})),
    ("such a message of several", "text", lambda ann: chat(ann).extend([{"role": "user"}])),
    ("an author who says nothing", "text", lambda ann: chat(ann).append("user", author="Ida")),
    ("a change to nothing", "text", lambda ann: chat(ann).edit(1, {"role": "user"})),
    ("unknown role", "role", lambda ann: chat(ann).append("robot", "x")),
    ("no role", "role", lambda ann: chat(ann).append("", "x")),
    ("a role in capitals", "role", lambda ann: chat(ann).append("User", "x")),
    ("a role that is None", "role", lambda ann: chat(ann).append(None, "x")),
    ("a role that cannot be hashed", "role", lambda ann: chat(ann).append(["user"], "x")),
    ("empty author", "author", lambda ann: chat(ann).append("user", "x", author="")),
    ("NUL in an author", "author", lambda ann: chat(ann).append("user", "x", author=NUL)),
    ("long author", "author", lambda ann: chat(ann).append("user", "x", author=LONG)),
    ("empty external id", "external_id", lambda ann: chat(ann).append("user", "x", external_id="")),
    (
        "long external id",
        "external_id",
        lambda ann: chat(ann).append("user", "x", external_id=LONG),
    ),
    (
        "surrogate in an external id",
        "external_id",
        lambda ann: chat(ann).append("user", "x", external_id=SURROGATE),
    ),
    ("a time of 2^63", "created", lambda ann: chat(ann).append("user", "x", created=2**63)),
    (
        "a time in seconds as float",
        "created",
        lambda ann: chat(ann).append("user", "x", created=1.5),
    ),
    (
        "a time before year 1",
        "created",
        lambda ann: chat(ann).append("user", "x", created=-(2**62)),
    ),
    (
        "a time that is True",
        "created",
        lambda ann: chat(ann).append("user", "x", created=True),
    ),
    (
        "metadata that is a list",
        "metadata",
        lambda ann: chat(ann).append("user", "x", metadata=[1]),
    ),
    (
        "metadata with a set",
        "metadata",
        lambda ann: chat(ann).append("user", "x", metadata={"a": {1}}),
    ),
    (
        "metadata with number keys",
        "metadata",
        lambda ann: chat(ann).append("user", "x", metadata={1: "a"}),
    ),
    (
        "metadata without a bottom",
        "metadata",
        lambda ann: chat(ann).append("user", "x", metadata={"a": DEEP}),
    ),
    (
        "parts that are a dict",
        "parts",
        lambda ann: chat(ann).append("user", "x", parts={"type": "text"}),
    ),
    ("parts that are a text", "parts", lambda ann: chat(ann).append("user", "x", parts="hello")),
    ("parts with bytes", "parts", lambda ann: chat(ann).append("user", "x", parts=[b"x"])),
    (
        "expected of 2^63",
        "expected",
        lambda ann: chat(ann).append("user", "x", expected=2**63),
    ),
    (
        "expected below 0",
        "expected",
        lambda ann: chat(ann).append("user", "x", expected=-1),
    ),
    ("empty session name", "session", lambda ann: ann.session("")),
    ("blank session name", "session", lambda ann: ann.session(" \t")),
    ("NUL in a session name", "session", lambda ann: ann.session(NUL)),
    ("surrogate in a session name", "session", lambda ann: ann.session(SURROGATE)),
    ("long session name", "session", lambda ann: ann.session(LONG)),
    ("a session name that is a number", "session", lambda ann: ann.session(5)),
    ("get of seq 0", "seq", lambda ann: chat(ann).get(0)),
    ("get of seq 2^63", "seq", lambda ann: chat(ann).get(2**63)),
    ("get of a text", "seq", lambda ann: chat(ann).get("1")),
    ("messages after 2^63", "after", lambda ann: chat(ann).messages(2**63)),
    ("messages with a negative limit", "limit", lambda ann: chat(ann).messages(0, -1)),
    ("last of -1", "n", lambda ann: chat(ann).last(-1)),
    ("last of 2^63", "n", lambda ann: chat(ann).last(2**63)),
    ("find of an empty id", "external_id", lambda ann: chat(ann).find("")),
    ("an entry of nothing", "text", lambda ann: ann.remember("")),
    ("an entry of blanks", "text", lambda ann: ann.remember(" \n")),
    ("empty category", "category", lambda ann: ann.remember("x", category="")),
    ("long category", "category", lambda ann: ann.remember("x", category=LONG)),
    ("empty key", "key", lambda ann: ann.remember("x", key="")),
    ("long key", "key", lambda ann: ann.remember("x", key=LONG)),
    ("keywords that are a text", "keywords", lambda ann: ann.remember("x", keywords="tea")),
    ("keywords that are None", "keywords", lambda ann: ann.remember("x", keywords=None)),
    ("keywords that are a number", "keywords", lambda ann: ann.remember("x", keywords=5)),
    ("keywords with a number", "keywords", lambda ann: ann.remember("x", keywords=[5])),
    ("importance 0", "importance", lambda ann: ann.remember("x", importance=0)),
    ("importance 11", "importance", lambda ann: ann.remember("x", importance=11)),
    ("importance 5.0", "importance", lambda ann: ann.remember("x", importance=5.0)),
    ("importance of 2^63", "importance", lambda ann: ann.remember("x", importance=2**63)),
    ("expires in 2^63", "expires", lambda ann: ann.remember("x", expires=2**63)),
    ("valid from a text", "valid_from", lambda ann: ann.remember("x", valid_from="now")),
    ("told at seq 0", "seq", lambda ann: ann.remember("x", session="trip", seq=0)),
    ("told at seq 2^63", "seq", lambda ann: ann.remember("x", session="trip", seq=2**63)),
    ("entry id of 2^63", "entry_id", lambda ann: ann.entries.get(2**63)),
    ("entry id below 0", "entry_id", lambda ann: ann.entries.delete(-1)),
    ("entry id as text", "entry_id", lambda ann: ann.entries.get("1")),
    ("update to nothing", "text", lambda ann: ann.entries.update(entry(ann), text="")),
    ("update to None", "text", lambda ann: ann.entries.update(entry(ann), text=None)),
    (
        "update of keywords to None",
        "keywords",
        lambda ann: ann.entries.update(entry(ann), keywords=None),
    ),
    ("list of an empty category", "category", lambda ann: list(ann.entries.list(category=""))),
    ("empty artifact name", "name", lambda ann: ann.artifacts.save("", b"x")),
    ("long artifact name", "name", lambda ann: ann.artifacts.save(LONG, b"x")),
    ("NUL in an artifact name", "name", lambda ann: ann.artifacts.save(NUL, b"x")),
    ("surrogate in an artifact name", "name", lambda ann: ann.artifacts.save(SURROGATE, b"x")),
    ("user: alone", "name", lambda ann: ann.artifacts.save("user:", b"x")),
    ("empty mime", "mime", lambda ann: ann.artifacts.save("a", b"x", mime="")),
    ("version 0", "version", lambda ann: ann.artifacts.load("a", 0)),
    ("version of 2^63", "version", lambda ann: ann.artifacts.load("a", 2**63)),
    ("delete of version -1", "version", lambda ann: ann.artifacts.delete("a", -1)),
    (
        "message_seq of 2^63",
        "message_seq",
        lambda ann: chat(ann).artifacts.save("a", b"x", message_seq=2**63),
    ),
    *(
        (f"{name} of {value!r:.12}", field, partial(call, value=value))
        for value in (5, 1.5, True, object())
        for name, field, call in (
            ("extend", "messages", lambda ann, value: chat(ann).extend(value)),
            ("prepare", "messages", lambda ann, value: Host(chat(ann)).prepare(value)),
            ("replace", "seqs", lambda ann, value: chat(ann).replace(value)),
            ("replace by", "messages", lambda ann, value: chat(ann).replace([], value)),
            ("delete", "seqs", lambda ann, value: chat(ann).delete([value, "x"])),
            ("update if", "expected", lambda ann, value: chat(ann).update(expected=value)),
            ("batch", "operations", lambda ann, value: ann.items.batch(value)),
            ("export to", "path", lambda ann, value: ann.artifacts.export("a", value)),
        )
    ),
    ("delete of half a seq", "seqs", lambda ann: chat(ann).delete(1.5)),
    ("forget of half a seq", "seqs", lambda ann: ann.forget(session="trip", seqs=1.5)),
    ("delete of a text", "seqs", lambda ann: chat(ann).delete("12")),
    ("extend by a text", "messages", lambda ann: chat(ann).extend("hello")),
    ("batch of a text", "operations", lambda ann: ann.items.batch("hello")),
    ("recall of no text", "query", lambda ann: ann.recall(None)),
    ("recall of a million and one characters", "query", lambda ann: ann.recall("x" * 1_000_001)),
    ("recall limit -1", "limit", lambda ann: ann.recall("x", limit=-1)),
    ("recall limit 1,001", "limit", lambda ann: ann.recall("x", limit=1_001)),
    ("recall limit 2^63", "limit", lambda ann: ann.recall("x", limit=2**63)),
    ("unknown kind", "kinds", lambda ann: ann.recall("x", kinds=["nothing"])),
    ("kinds as a text", "kinds", lambda ann: ann.recall("x", kinds="message")),
    ("kinds as None", "kinds", lambda ann: ann.recall("x", kinds=None)),
    ("since 2^63", "since", lambda ann: ann.recall("x", since=2**63)),
    ("since a text", "since", lambda ann: ann.recall("x", since="one day")),
    ("until without zone", "until", lambda ann: ann.recall("x", until=datetime(2024, 1, 1))),  # noqa: DTZ001 (no zone)
    ("recall in an empty session", "session", lambda ann: ann.recall("x", session="")),
    (
        "search limit -1",
        "limit",
        lambda ann: chat(ann).recall("x", -1, kinds=("message",), by="words"),
    ),
]

HOSTILE = [
    '"', '""', '"""', "'", "''", "`", '" OR "', 'a" OR text:*', "*", "a*", "**", "^", "^a", "a^2",
    "(", ")", "((", "()", "(a", "a)", "NEAR(", "NEAR(a b)", "NEAR(a, 3)", "NEAR", "NEAR/2", "AND",
    "OR", "NOT", "a AND", "AND a", "a OR OR b", "NOT a", "a NOT", "text:", "text:a", "bigrams: a",
    "{text author}: a", "- text : a", "rowid:1", "-a", "--", "a -- b", "; DROP TABLE messages",
    "'; DELETE FROM messages; --", "a:b", "gpt-4o", "C++", "c#", "a.b.c", "x=y", "50%", "%", "_",
    "\\", '\\"', "/* x */", "?1", ":term", "@x", "$x", "#", "~", "\0", "a\0b", "\ud800", "a \udfff b",
    "\u200b", "\ufeff", "\u202e", "e\u0301", "🙂", "👩‍👩‍👧", "京", "ก", "\n\t\r", "0x00", "NaN", "null",
    "+a +b", "a + b", "[a]", "<a>", "|a|", "a" * 5_000, '" ' * 500, "( " * 300, "é" * 100,
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemDB]:
    """Return one file for all calls that change nothing, checked at the end."""
    path = tmp_path_factory.mktemp("shared") / "agent.db"
    with memdb.open(path, counter="estimate", durability="process") as db:
        ann = db.scope("ann")
        ann.session("trip").append("user", "hello", external_id="m1")
        ann.session("trip").append("user", "ordinary words")
        ann.remember("Ann likes tea.")
        ann.artifacts.save("a", b"x")
        db.jobs.run()
        yield db
        assert db.file.check(deep=True) == []


@pytest.fixture
def ann(shared: MemDB) -> memdb.Scope:
    """Return a scope that holds one of everything."""
    return shared.scope("ann")


@each("field, call", [row[1:] for row in REFUSED])
def test_what_cannot_be_stored_is_refused(
    ann: memdb.Scope, shared: MemDB, rows_now: Any, field: str, call: Call
) -> None:
    """The error is an InvalidInput that names the field, and no row changed."""
    before = rows_now(shared.path)

    with pytest.raises(memdb.InvalidInput) as caught:
        call(ann)

    assert field in str(caught.value)
    assert rows_now(shared.path) == before


@pytest.mark.parametrize(
    ("user", "app", "field"),
    [
        ("", "default", "user"),
        (" ", "default", "user"),
        (NUL, "default", "user"),
        (SURROGATE, "default", "user"),
        (LONG, "default", "user"),
        (None, "default", "user"),
        ("ann", "", "app"),
        ("ann", LONG, "app"),
        ("ann", 7, "app"),
    ],
    ids=[
        "empty",
        "blank",
        "NUL",
        "surrogate",
        "long",
        "None",
        "empty app",
        "long app",
        "number app",
    ],
)
def test_a_scope_needs_names(shared: MemDB, user: Any, app: Any, field: str) -> None:
    """A scope with a name that cannot be stored is refused at once."""
    with pytest.raises(memdb.InvalidInput, match=field):
        shared.scope(user, app)


@pytest.mark.parametrize(
    "name",
    [
        "n" * 1_000,
        "n" * 1_024,
        "名" * 1_024,
        "a/b",
        "../x",
        "it's",
        '"x"',
        "100%",
        "_",
        "user:x",
        "a\nb",
        "🙂",
        "; --",
        "e\u0301",
    ],
    ids=lambda name: ascii(name)[:16],
)
def test_every_name_that_can_be_stored_names_its_own(file_db: MemDB, name: str) -> None:
    """As user, app, session, external id, author, category, key and keyword."""
    scope = file_db.scope(name, app=name)
    stored = scope.session(name).append("user", "x", external_id=name, author=name)
    file_db.settings.update(categories=[memdb.Category(name)])
    kept = scope.remember("fact", category=name, key=name).entry
    file_db.scope("other").session("other").append("user", "x")

    assert scope.session(name).find(name) == stored
    assert scope.entries.find(name) == kept
    assert list(scope.entries.list(category=name)) == [kept]
    assert (stored.session, stored.author) == (name, name)
    assert [one.name for one in scope.sessions()] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\x01\x02\x1b[31m",
        "é" * 1_000,
        "e\u0301",
        "🙂👩‍👩‍👧",
        "\u202egnirts",
        "\ufeffbom",
        "\r\n\r",
        "'; DROP TABLE messages; --",
        "\uffff",
        "\U0010ffff",
    ],
    ids=lambda text: ascii(text)[:16] or "empty",
)
def test_every_text_that_can_be_stored_comes_back(file_db: MemDB, text: str) -> None:
    """Character for character, unnormalised, with its index sound."""
    chat = file_db.scope("ann").session("trip")

    chat.append("user", text)

    assert chat.get(1).text == text


def test_ten_megabytes_are_a_message(file_db: MemDB) -> None:
    """They are stored, found and given back."""
    chat = file_db.scope("ann").session("trip")
    text = "green tea and more " * 550_000

    chat.append("user", text + "needle")

    assert chat.get(1).text == text + "needle"
    assert [hit.source.seq for hit in chat.recall("needle", kinds=("message",), by="words")] == [1]


def test_extreme_numbers_that_fit_are_stored(file_db: MemDB) -> None:
    """The first and last millisecond of the years 1 to 9999, and large numbers in JSON."""
    chat = file_db.scope("ann").session("trip")
    times = [-62_135_596_800_000, 253_402_300_799_999]

    stored = [chat.append("user", "x", created=ms, metadata={"n": 2**70}) for ms in times]

    assert [message.created_ms for message in chat.messages()] == times
    assert stored[0].metadata == {"n": 2**70}


@each("query", HOSTILE)
def test_hostile_queries_are_answered(ann: memdb.Scope, query: str) -> None:
    """FTS syntax, quotes and broken text are words like others, or nothing."""
    assert isinstance(ann.recall(query), memdb.Hits)
    assert isinstance(ann.session("trip").recall(query, kinds=("message",), by="words"), memdb.Hits)


@each(
    "stored",
    [text for text in HOSTILE if "\0" not in text and text.isprintable()],
)
def test_hostile_texts_are_found_by_themselves(shared: MemDB, stored: str) -> None:
    """What is stored can be asked for in the same words; the index stays sound."""
    ann = shared.scope(f"user {HOSTILE.index(stored)}")
    ann.session("trip").append("user", f"{stored} needle")
    ann.remember(f"{stored} needle", keywords=[stored])
    ann.artifacts.save("x.txt", f"{stored} needle")

    assert {hit.kind for hit in ann.recall(f"{stored} needle")} == {"message", "entry", "artifact"}


class BadCounter:
    """A counter that gives what it is told to."""

    name = "bad"

    def __init__(self, answer: Any) -> None:
        """Answer with *answer* for every text."""
        self.answer = answer

    def count(self, _text: str) -> Any:
        """Return the answer."""
        return self.answer

    def count_many(self, texts: Any) -> Any:
        """Return the answer per text, or itself where it is a list."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, list) else [self.answer for _ in texts]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(-1, id="negative"),
        pytest.param(2**63, id="over 64 bits"),
        pytest.param(1.5, id="fraction"),
        pytest.param(None, id="None"),
        pytest.param([], id="too few"),
        pytest.param([1, 2], id="too many"),
        pytest.param(RuntimeError("boom"), id="raises"),
    ],
)
def test_a_counter_that_breaks_its_contract_is_named(open_db: Any, answer: Any) -> None:
    """Where counts are asked for; a message is stored with an estimate."""
    db = open_db(":memory:", counter=BadCounter(answer))

    assert db.scope("ann").session("trip").append("user", "x").counter == "estimate"
    with pytest.raises(memdb.PortError, match="bad"):
        db.file.count_tokens(["x"])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"durability": "maybe"}, id="durability"),
        pytest.param({"embedder": "gpt"}, id="embedder"),
        pytest.param({"counter": "words"}, id="counter"),
    ],
)
def test_options_that_do_not_exist_are_refused(path: str, options: Any) -> None:
    """The error names the option."""
    with pytest.raises(memdb.InvalidInput, match=next(iter(options))):
        memdb.open(path, **options)


@pytest.mark.parametrize("bad", ["", "nul\0path", "lone \ud800"], ids=ascii)
def test_paths_that_cannot_be_are_refused(bad: str) -> None:
    """Before anything is touched."""
    with pytest.raises(memdb.InvalidInput, match="path"):
        memdb.open(bad)


def nested(depth: int, kind: type) -> Any:
    """Return lists or dicts in each other, *depth* of them."""
    value: Any = "x"
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_what_is_nested_deeper_than_can_be_read_is_refused(db: MemDB, kind: type) -> None:
    """The limit is far below where Python's parser gives up, from wherever it is called."""
    chat = db.scope("ann").session("s")
    state = db.shared().state

    def at_depth(levels: int) -> Any:
        return at_depth(levels - 1) if levels else state["deep"]

    state["deep"] = nested(200, kind)
    assert at_depth(500) == nested(200, kind)
    with pytest.raises(memdb.InvalidInput, match="nested over 200 deep"):
        state["deep"] = nested(201, kind)
    with pytest.raises(memdb.InvalidInput, match="parts is nested"):
        chat.append("user", "x", parts=[nested(200, kind)])
    flat = [["x"]] * 1000
    chat.append("user", "x", parts=flat)
    assert chat.last(1)[0].parts == flat


def test_a_model_without_a_valid_name_makes_no_file(tmp_path: Path) -> None:
    """A model is found by its name before the file is opened."""
    with pytest.raises(memdb.InvalidInput, match="the model 'gpt' has no valid form"):
        memdb.open(tmp_path / "a.db", model="gpt")

    assert not (tmp_path / "a.db").exists()
