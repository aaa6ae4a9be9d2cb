"""
Two files that differ by other users only, and what a call shows in each.

Ann's memory is the same in both, with the same ids. In one file she is alone. In the other
stand bob of her app and an ann of another app: they hold what she holds, word by word, and
things of their own, whose every field has a word that stands nowhere else (`SECRETS`).
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import logging
import random
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from counters import count
from writes import POLICY, Summarizer, prepare

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.api import _resolve
from memdb.api._container import Ports, Services
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NOW_MS = 1_700_000_000_000
_random = random.Random(12)


def _word() -> str:
    """Return a word that no stemmer changes and no other text holds."""
    pairs = (_random.choice("bdfgjklmnprtvz") + _random.choice("aiou") for _ in range(5))
    return "".join(pairs) + "qzx"


# Field -> the word that it holds in the memory of the others, and nothing else does.
SECRETS = {
    field: _word()
    for field in (
        *("user", "app", "session", "title", "session_metadata", "session_metadata_key"),
        *("text", "author", "external_id", "metadata", "metadata_key", "parts"),
        *("deleted_text", "deleted_session", "forgotten_text", "archived", "archived_session"),
        *("summarised", "summarised_session", "forked_session"),
        *("entry", "entry_before", "entry_key", "keyword", "entry_source", "entry_metadata"),
        *("entry_deleted", "entry_replaced", "entry_shared", "entry_session_only", "entry_moved"),
        *("artifact", "artifact_text", "artifact_mime", "artifact_metadata", "artifact_deleted"),
        *("artifact_user", "session_state", "session_state_key", "user_state", "user_state_key"),
        *("app_state", "app_state_key", "failure", "token", "pending", "graph"),
        *("item_label", "item_key", "item_value", "item_field", "item_metadata"),
    )
}
S = SECRETS
THEIR_USER = S["user"]
# The last is where the memory service of ADK keeps the events of the app "default".
OTHERS = ((THEIR_USER, "default"), ("ann", S["app"]), (THEIR_USER, "default (memory)"))


class Ids:
    """Gives uids that are counted, with a prefix that no other source of them has."""

    def __init__(self, owner: int) -> None:
        """Count from 1 for the *owner*."""
        self._numbers = itertools.count(1)
        self._owner = owner

    def __call__(self, _now_ms: int) -> str:
        """Return the next uid."""
        return f"00000000-0000-7000-{0x8000 + self._owner:04x}-{next(self._numbers):012x}"


class Embedder:
    """Points each text somewhere by its letters; raises what it was given."""

    name = "letters"
    dim = 8

    def __init__(self, failure: Exception | None = None) -> None:
        """Raise *failure*; None: embed."""
        self._failure = failure

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector per text."""
        if self._failure is not None:
            raise self._failure
        return [[float(text.count(letter)) + 0.1 for letter in "aeioutns"] for text in texts]


def open_as(path: Path | str, owner: int, **ports: Any) -> MemDB:
    """Open a file whose new uids are those of an *owner*: 0 for ann's calls in a test."""
    options = {"durability": "process", "clock": lambda: NOW_MS, "ids": Ids(owner)}
    engine = _resolve.open_engine(str(path), **options)
    given = {
        "embedder": Embedder(),
        "counter": "estimate",
        "summarizer": Summarizer(),
        **ports,
    }
    return MemDB(engine, Services(engine, Ports(**given), POLICY))


def fill_with_secrets(db: MemDB, user: str, app: str) -> None:
    """Give a user something of every kind, with a secret word in each field."""
    scope = db.scope(user, app)
    chat = scope.session(S["session"])
    Host(chat).create(
        title=S["title"],
        metadata={S["session_metadata_key"]: S["session_metadata"]},
        state={S["session_state_key"]: S["session_state"]},
        user_state={S["user_state_key"]: S["user_state"]},
    )
    for number in range(4):
        chat.append(
            "user",
            f"my {S['text']} number {number} is in Oslo with the red lamp",
            author=S["author"],
            external_id=f"{S['external_id']}-{number}",
            metadata={S["metadata_key"]: S["metadata"]},
        )
    chat.append("assistant", parts=[{"type": "text", "text": f"{S['parts']} and soup"}])
    chat.append("user", f"sk-proj-{S['token']}0123456789abcdefABCDEF0123456789abcdefABCDEF")
    chat.delete([chat.append("user", S["deleted_text"]).seq])
    chat.forget([chat.append("user", S["forgotten_text"]).seq])
    scope.session(S["deleted_session"]).append("user", S["deleted_text"])
    scope.session(S["deleted_session"]).delete()
    cold = scope.session(S["archived_session"])
    cold.extend([{"role": "user", "text": f"{S['archived']} tea {n}"} for n in range(6)])
    cold.archive(keep_last=1)
    cold.fork(S["forked_session"])
    long = scope.session(S["summarised_session"])
    long.extend([{"role": "user", "text": f"{S['summarised']} cake {n}"} for n in range(12)])
    home = scope.remember(
        f"The {S['entry_before']} lives in Oslo.",
        key=S["entry_key"],
        keywords=[S["keyword"]],
        writer=S["entry_source"],
        metadata={"m": S["entry_metadata"]},
        session=S["session"],
        seq=1,
        pinned=True,
    ).entry
    scope.entries.update(home.id, text=f"The {S['entry']} lives in Oslo.")
    old = scope.remember(f"A {S['entry_replaced']} stands there.").entry
    scope.entries.supersede(old.id, home.id)
    gone = scope.remember(f"A {S['entry_deleted']} lies there.").entry
    scope.entries.delete(gone.id)
    for said in ("lives in Rome", "has moved to Bergen"):  # the second one takes a decision
        scope.remember(f"{S['entry_moved'].title()} {said}.")
    scope.remember(
        f"The {S['entry_session_only']} is red.", session=S["session"], session_only=True
    )
    metadata = {"m": S["artifact_metadata"]}
    for name in (S["artifact"], f"user:{S['artifact_user']}", S["artifact_deleted"]):
        chat.artifacts.save(
            name, f"{S['artifact_text']} soup", mime=f"text/{S['artifact_mime']}", metadata=metadata
        )
    chat.artifacts.delete(S["artifact_deleted"])
    place, said = (S["item_label"],), {S["item_field"]: f"{S['item_value']} red lamp"}
    scope.items.put(place, S["item_key"], said, metadata={"m": S["item_metadata"]}, ttl="30d")
    scope.items.put(place, "near", 1, vectors=[[1.0, 0.1], [0.9, 0.0]])
    graph = f'{{"type":"entity","name":"{S["graph"]}","entityType":"lamp","observations":[]}}'
    scope.artifacts.save("user:knowledge-graph.jsonl", graph)


def fill_others(db: MemDB) -> None:
    """Add the other users: first as ann is, then with what is theirs alone."""
    for user, app in OTHERS:
        prepare(db, user, app)
        fill_with_secrets(db, user, app)
    db.shared(S["app"]).remember(f"The {S['entry_shared']} is cold.", key="house")
    db.shared(S["app"]).state.update({S["app_state_key"]: S["app_state"]})
    db.jobs.run()


def log_contexts(db: MemDB, user: str, app: str, *sessions: str, query: str | None = None) -> None:
    """Let the file keep what a context of each session gave."""
    db.settings.update(context_log_days=30)
    for name in sessions:
        db.scope(user, app).session(name).context(300, query)
    db.settings.update(context_log_days=0)


def leave_work(db: MemDB) -> None:
    """Leave to the others what is due: texts to embed, sessions to summarise."""
    for user, app in OTHERS:
        scope = db.scope(user, app)
        scope.session("due").extend([{"role": "user", "text": f"tea {n}"} for n in range(12)])
        scope.session(S["summarised_session"]).append("user", f"{S['pending']} lamp")


def leave_failures(db: MemDB) -> None:
    """Let the embedder fail at what the others have to embed."""
    for user, app in OTHERS:
        with contextlib.suppress(memdb.PortError):
            db.scope(user, app).recall("lamp")


def make_files(folder: Path, make_kept: Callable[..., Any]) -> tuple[Any, Any]:
    """Return what the database holds in which ann is alone, and the one with others."""

    def fill(path: str, *, with_others: bool) -> None:
        with open_as(path, 1) as db:  # the first scopes have the same numbers in both
            db.scope("ann").session("first").append("user", "hello")
            db.shared().remember("The house is old.")
        if with_others:
            with open_as(path, 2) as db:
                fill_others(db)
                for user, app in OTHERS[:2]:  # without a query: shared entries count their uses
                    log_contexts(db, user, app, "trip", S["archived_session"])
        with open_as(path, 3) as db:
            prepare(db)
            log_contexts(db, "ann", "default", "trip", "cold", query="lamp")
        if with_others:
            with open_as(path, 4) as db:
                leave_work(db)
            with open_as(path, 5, embedder=Embedder(RuntimeError(S["failure"]))) as db:
                leave_failures(db)

    alone, beside = (
        make_kept(folder / f"{number}.db", functools.partial(fill, with_others=with_others))
        for number, with_others in enumerate((False, True))
    )
    return alone, beside


def warm_as_others(db: MemDB) -> None:
    """
    Do as the others what fills caches of an open file, with ann's names and words.

    Entries are left out: those that all users of an app share count the uses of all.
    """
    for user, app in OTHERS:
        scope = db.scope(user, app)
        for name in ("trip", S["session"]):
            chat = scope.session(name)
            chat.last(3)
            chat.recall("lamp tea", limit=3)
            chat.context(300)
        scope.recall("Oslo red lamp", limit=3, kinds=["message", "artifact", "summary", "item"])


# The scopes of the others, in the order in which `make_files` makes them.
THEIRS = "BETWEEN 3 AND 8"
# Table -> which rows are others'. "" is a table of the file: nothing in it is anybody's.
ROWS_OF_OTHERS = {
    "meta": "",
    "changes": "",
    "synced": "",  # of files that are synced
    "settings": "",
    "embedding_spaces": "",
    "scopes": f"scope_no {THEIRS}",
    "sessions": f"scope_no {THEIRS}",
    "messages": f"id >> 44 {THEIRS}",
    "summaries": f"id >> 44 {THEIRS}",
    "archive_segments": f"session_id >> 44 {THEIRS}",
    "entries": f"scope_no {THEIRS}",
    "entry_history": f"entry_id >> 44 {THEIRS}",
    "entry_links": f"newer_id >> 44 {THEIRS}",
    "vectors": f"id >> 44 {THEIRS}",
    "vector_groups": f"id >> 44 {THEIRS}",
    "item_namespaces": f"scope_no {THEIRS}",
    "items": f"id >> 44 {THEIRS}",
    "blobs": f"blob_no IN (SELECT blob_no FROM artifacts WHERE scope_no {THEIRS})",
    "blob_chunks": f"blob_no IN (SELECT blob_no FROM artifacts WHERE scope_no {THEIRS})",
    "artifact_names": f"scope_no {THEIRS}",
    "artifacts": f"scope_no {THEIRS}",
    "jobs": f"subject <> 'file' AND ref >> 44 {THEIRS}",
    "state": "app <> 'default' OR user_name NOT IN ('ann', 'bob', 'eve', '')",
    "tombstones": f"scope_no {THEIRS}",
}

# What the others' own recalls leave, and any later write of the file stores.
NOT_COMPARED = ("use_count", "last_used_ms")


# Columns that say in whose scope a row is, of tables without `scope_no`: a packed id.
PACKED = {"entry_history": "entry_id", "archive_segments": "session_id", "vectors": "ref"}


def _others_of(tables: dict[str, tuple[list[str], list[Any]]]) -> dict[str, list[str]]:
    """Return the same of the tables of a server."""
    known = {table for table, theirs in ROWS_OF_OTHERS.items() if theirs}
    numbers = range(3, 9)
    columns, artifacts = tables["artifacts"]
    rows_of = [dict(zip(columns, row, strict=True)) for row in artifacts]
    blobs = {row["blob_no"] for row in rows_of if row["scope_no"] in numbers}

    def is_theirs(table: str, row: dict[str, Any]) -> bool:
        if "blob_no" in row and "scope_no" not in row:
            return row["blob_no"] in blobs
        if table == "state":
            return row["app"] != "default" or row["user_name"] not in ("ann", "bob", "eve", "")
        if table == "jobs":
            return row["subject"] != "file" and row["ref"] >> 44 in numbers
        packed = PACKED.get(table, "newer_id" if table == "entry_links" else "id")
        return (row["scope_no"] if "scope_no" in row else row[packed] >> 44) in numbers

    found = {}
    for table in sorted(known & tables.keys()):
        columns, rows = tables[table]
        named = (dict(zip(columns, row, strict=True)) for row in rows)
        found[table] = sorted(
            repr([value for name, value in row.items() if name not in NOT_COMPARED])
            for row in named
            if is_theirs(table, row)
        )
    return found


def dump_others(path: str, tables: Any = None) -> dict[str, list[str]]:
    """Return every row of the others, by table; *tables*: those of a server."""
    if tables is not None:
        return _others_of(tables)
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            " AND name NOT GLOB '*_fts_*' AND name NOT GLOB 'sqlite_*'"
        )
    }
    assert tables == ROWS_OF_OTHERS.keys()
    rows = {}
    for table, condition in ROWS_OF_OTHERS.items():
        if condition:
            columns = [
                name
                for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", [table])
                if name not in NOT_COMPARED
            ]
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE {condition}"
            rows[table] = sorted(map(repr, connection.execute(query)))
    connection.close()
    return rows


# What a damaged row of a table says; the others get a wrong digest only.
DAMAGE = {
    "sessions": "metadata = '{'",
    "messages": "metadata = '{'",
    "archive_segments": "data = x'00'",
    "blob_chunks": "data = x'00'",
    "vectors": "vector = zeroblob(4)",
    "vector_groups": "planes = slots",
    "items": "value = '{'",
    "state": "value = '{'",
}


def damage(path: Path, scopes: str) -> None:
    """Damage every row of some scopes: none agrees with its digest, much cannot be read."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for table, theirs in ROWS_OF_OTHERS.items():
        condition = theirs.replace(THEIRS, scopes)
        if table in ("blobs", "blob_chunks"):  # bytes that somebody else has too stay
            users = f"SELECT blob_no FROM artifacts WHERE NOT scope_no {scopes}"
            condition += f" AND blob_no NOT IN ({users})"
        column = connection.execute(
            "SELECT name FROM pragma_table_info(?) WHERE pk = 0 LIMIT 1", [table]
        ).fetchone()[0]
        change = DAMAGE.get(table, f"{column} = {column}")
        if theirs and table != "scopes":
            connection.execute(f"UPDATE {table} SET {change} WHERE {condition}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


# How long work took is not what it found.
_DURATION = re.compile(r"(after) \d+\.\d+ s")


class Listener(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__(level=1)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record with its traceback, but for how long each call took."""
        if " took %" not in str(record.msg):
            line = _DURATION.sub(r"\1 ...", self.format(record))
            self.lines.append(f"{record.name} {record.levelname} {line}")


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Give the list of what is logged, warned and printed in the block."""
    listener, root = Listener(), logging.getLogger()
    level = root.level
    printed = io.StringIO()
    root.addHandler(listener)
    root.setLevel(1)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ResourceWarning)  # of whatever is collected just now
            yield listener.lines
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
    listener.lines += [f"{one.category.__name__} {one.message}" for one in warned]
    listener.lines += [printed.getvalue()] if printed.getvalue() else []


# The number of a scope is part of the ids in it: a new scope gets another one.
IDS = re.compile(r"(?<![\d.])\d{14,19}(?![\d.])")


def without_scope(text: str) -> str:
    """Return *text* with each packed id as it would be in the first scope."""
    return IDS.sub(lambda found: str(int(found[0]) & (1 << 44) - 1), text)


def show(value: object, depth: int = 0) -> str:  # noqa: PLR0911 (a kind of value per line)
    """Return all that a caller can see of a value, as text."""
    assert depth < 20
    if isinstance(value, BaseException):
        seen = {**vars(value), "args": value.args, "notes": getattr(value, "__notes__", [])}
        cause = value.__cause__ or value.__context__
        return f"{type(value).__name__}: {value} {show(seen, depth + 1)} from {cause!r}"
    if isinstance(value, Record):
        fields = {name: getattr(value, name) for name in value._fields}
        shown = f"{type(value).__name__}{show(fields, depth + 1)}"
        return shown if type(value).__str__ is object.__str__ else f"{shown} {value}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {show(v, depth + 1)}" for k, v in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(show(item, depth + 1) for item in value)) + "}"
    if isinstance(value, io.IOBase):
        with value:
            return repr(value.read())
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        return "[" + ", ".join(show(item, depth + 1) for item in value) + "]"
    if hasattr(value, "model_dump"):
        return f"{type(value).__name__} {show(value.model_dump(), depth + 1)}"
    if callable(value):
        return f"a {type(value).__name__}"
    shown = repr(value)
    if " at 0x" in shown or hasattr(value, "__dataclass_fields__"):
        fields = getattr(value, "__dict__", {})
        public = {name: one for name, one in fields.items() if not name.startswith("_")}
        return f"{type(value).__name__} {show(public, depth + 1)}"
    return shown


def outcome(call: Callable[[], object]) -> str:
    """Return what a call gives, raises, logs and prints, as text."""
    with listening() as logged:
        try:
            seen = show(call())
        except Exception as error:  # noqa: BLE001 (an error of another library is seen too)
            seen = f"raised {show(error)}"
    return "\n".join([seen, *logged])


def leaked(text: str) -> list[str]:
    """Return the fields of others that *text* shows."""
    folded = text.casefold()
    return [field for field, word in SECRETS.items() if word in folded]


class Files:
    """Both files, open, and what they show of each call."""

    def __init__(self, folder: Path, prepared: tuple[Any, Any], **ports: Any) -> None:
        """Open copies of the databases in folders of their own."""
        self.folders = [folder / "alone", folder / "beside"]
        self._beside = prepared[1]
        for place, kept in zip(self.folders, prepared, strict=True):
            place.mkdir(parents=True)
            kept.put(place / "agent.db")
        self.paths = [place / "agent.db" for place in self.folders]
        self.alone, self.beside = self.opened = [open_as(path, 0, **ports) for path in self.paths]
        self.others = self.dump_others()
        assert all(self.others.values()), "a table without their rows proves nothing"

    def close(self) -> None:
        """Close both."""
        for db in (self.alone, self.beside):
            db.close()

    def compare(self, call: Callable[[MemDB], object]) -> tuple[str, str]:
        """Return what a call shows in each file, without the paths of the folders."""
        return self._compare(call, self.opened)

    def compare_paths(self, call: Callable[[Path], object]) -> tuple[str, str]:
        """Return the same for a call that opens the file itself."""
        return self._compare(call, self.paths)

    def _compare(self, call: Callable[[Any], object], files: Iterable[Any]) -> tuple[str, str]:
        alone, beside = (
            without_scope(outcome(lambda file=file: call(file)).replace(str(place), "FOLDER"))
            for file, place in zip(files, self.folders, strict=True)
        )
        return alone, beside

    def dump_others(self) -> dict[str, list[str]]:
        """Return every row of the others, by table."""
        return dump_others(str(self.paths[1]), self._beside.rows_of(self.paths[1]))

    def changed(self) -> list[str]:
        """Return the tables in which a row of the others is not as it was."""
        now = self.dump_others()
        return [table for table, rows in now.items() if rows != self.others[table]]


def assert_apart(files: Files, name: object, shown: tuple[str, str]) -> None:
    """Fail if a call differs beside others, or changed a row of theirs."""
    alone, beside = shown
    assert alone == beside, name
    assert files.changed() == [], name
    count("isolation")
