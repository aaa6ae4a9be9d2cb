"""One table says what memdb does with each field, and every list of fields agrees with it."""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.api.pages import MessageView
from memdb.deletion import proof
from memdb.engine import text_rows
from memdb.models.entries import Entry, EntryChanges, EntryVersion, NewEntry
from memdb.models.fields import (
    ERASED,
    EXPORTED,
    FIELDS,
    GIVEN,
    HASHED,
    HIDDEN,
    NAME,
    PROVED,
    REF,
    SEARCHED,
    TEXT,
    TRAITS,
    VIEWED,
    Field,
    names_with,
)
from memdb.models.items import Item, PutItem
from memdb.models.messages import ArtifactVersion, BranchInfo, Message, NewMessage, SessionInfo
from memdb.models.record import Record
from memdb.models.reports import Secret
from memdb.models.summaries import Summary, SummaryText
from memdb.tables import copies, messages
from memdb.tables import entries as entry_rows
from memdb.tables import summaries as summary_rows
from memdb.tables.state import StateRow
from memdb.transfer import artifacts, entries, lines, others
from memdb.transfer import messages as message_lines

# By kind: its table, what memdb hands out, and what callers give.
TABLES = {
    "message": "messages",
    "session": "sessions",
    "branch": "sessions",
    "summary": "summaries",
    "entry": "entries",
    "history": "entry_history",
    "link": "entry_links",
    "item": "items",
    "artifact": "artifacts",
    "state": "state",
    "scope": "scopes",
    "tombstone": "tombstones",
}
MODELS: dict[str, type[Record]] = {
    "message": Message,
    "session": SessionInfo,
    "branch": BranchInfo,
    "summary": Summary,
    "entry": Entry,
    "history": EntryVersion,
    "item": Item,
    "artifact": ArtifactVersion,
    "state": StateRow,
}
NEW: dict[str, tuple[type[Record], ...]] = {
    "message": (NewMessage,),
    "summary": (SummaryText,),
    "entry": (NewEntry, EntryChanges),
    "item": (PutItem,),
}
# Arguments that are no fields, and those whose field has another name.
ARGUMENTS = {"shared", "expected"}
RENAMED = {
    "expires": "expires_ms",
    "valid_from": "valid_from_ms",
    "seq": "first_seq",
    "ttl": "ttl_ms",
}
CODECS = {
    "message": message_lines.MESSAGE,
    "session": message_lines.SESSION,
    "branch": message_lines.BRANCH,
    "summary": others.SUMMARY,
    "entry": entries.ENTRY,
    "history": entries.VERSION,
    "item": others.ITEM,
    "artifact": artifacts.ARTIFACT,
    "state": others.STATE,
    "scope": lines.SCOPE,
    "tombstone": others.TOMBSTONE,
}
# A field that a view calls otherwise; that of a table which has the words of the newest version.
VIEW_NAMES = {
    ("session", "name"): "session",
    ("session", "message_count"): "messages",
    ("summary", "id"): "summary",
    ("item", "data"): "size_bytes",
}
# Columns of every view, and the status of an entry, which is that of now.
OF_EVERY_VIEW = {"app", "user_name", "status"}
# Tables of memdb's own: the bytes and places of records, what is derived, work, settings.
OWN_TABLES = set(
    "archive_segments artifact_names blob_chunks blobs changes embedding_spaces item_namespaces "
    "jobs messages_fts_tail meta settings synced vector_groups vectors".split()
)
DERIVED = {"digest"}  # columns of memdb's own in every table
# Texts of a caller that need no screening: one of a few words, or a time.
CHOICES = {"role", "trust", "of"}


@pytest.fixture
def db(open_db: Callable[..., MemDB]) -> MemDB:
    """Return an empty database."""
    return open_db(":memory:", embedder=None)


def listed(db: MemDB, table: str) -> set[str]:
    """Return the columns of a table, index or view; those that SQLite generates are left out."""
    with db._db.read() as tx:
        return {row[0] for row in tx.all("SELECT name FROM pragma_table_info(:t)", {"t": table})}


def columns_of(kind: str) -> set[str]:
    """Return the columns that the table of fields names for a kind."""
    return {one.column for one in FIELDS[kind] if one.column is not None}


def test_traits_are_known_and_agree() -> None:
    """A field is screened in one way, and only what a caller gives is."""
    wrong = []
    for kind, fields in FIELDS.items():
        names = [one.name for one in fields]
        if len(set(names)) < len(names):
            wrong.append(f"{kind}: a name twice")
        for one in fields:
            screened = one.traits & {TEXT, NAME, REF}
            if not one.traits <= set(TRAITS):
                wrong.append(f"{kind}.{one.name}: {one.traits}")
            if len(screened) > 1 or (screened and GIVEN not in one.traits):
                wrong.append(f"{kind}.{one.name}: {screened}")
    assert wrong == []


def test_columns(db: MemDB) -> None:
    """Each column of schema.sql is that of a field, and the other way round."""
    wrong = []
    for kind, table in TABLES.items():
        columns = listed(db, table) - DERIVED
        named = columns_of(kind)
        if kind == "branch":
            columns &= named  # the rest is that of a session
        if named != columns:
            wrong.append((kind, sorted(named ^ columns)))
    assert wrong == []


def test_tables(db: MemDB) -> None:
    """Each table of schema.sql is that of a kind, or holds nothing that a caller gave."""
    with db._db.read() as tx:
        rows = tx.all("SELECT name FROM pragma_table_list WHERE type = 'table'")
    tables = {name for (name,) in rows if not name.startswith("sqlite_")}

    assert tables == {*TABLES.values(), *OWN_TABLES}


def test_the_cut_view_of_a_message() -> None:
    """It has the fields of a message but those that name its place, and the length of its text."""
    shown = {one.name for one in FIELDS["message"] if HIDDEN not in one.traits}
    view = set(MessageView._fields)

    assert (view - shown, shown - view) == ({"text_chars"}, {"row_id", "counter"})


def test_models() -> None:
    """What memdb hands out has every field that is not hidden; what it takes is given."""
    wrong: list[Any] = []
    for kind, model in MODELS.items():
        shown = {one.name for one in FIELDS[kind] if HIDDEN not in one.traits}
        if shown != set(model._fields):
            wrong.append((kind, sorted(shown ^ set(model._fields))))
    for kind, classes in NEW.items():
        given = set(names_with(FIELDS[kind], GIVEN))
        for model in classes:
            taken = {RENAMED.get(name, name) for name in model._fields} - ARGUMENTS
            if not taken <= given:
                wrong.append((model.__name__, sorted(taken - given)))
    assert wrong == []


def test_every_text_that_a_caller_gives_is_screened() -> None:
    """A field whose annotation admits words has a trait that says how."""
    wrong = []
    for kind, model in MODELS.items():
        for one in FIELDS[kind]:
            words = model.__annotations__.get(one.name, "")
            is_text = re.search(r"\bstr\b|\bAny\b|bytes", str(words)) is not None
            if GIVEN in one.traits and is_text and one.name not in CHOICES:
                wrong += [] if one.is_one_of(TEXT, NAME, REF) else [f"{kind}.{one.name}"]
    assert wrong == []


def test_codecs() -> None:
    """A line of an export has the fields that say so, in their order."""
    wrong = [
        (kind, names_with(FIELDS[kind], EXPORTED), codec.fields)
        for kind, codec in CODECS.items()
        if set(names_with(FIELDS[kind], EXPORTED)) != set(codec.fields)
    ]
    assert wrong == []


def test_message_hash_erasing_and_copies() -> None:
    """The hash, what erasing empties, and the copy of another engine follow the table."""
    message = FIELDS["message"]
    copied = next(table for table in copies.TABLES if table.name == "messages")

    for kind, table in {"message": messages, "entry": entry_rows, "summary": summary_rows}.items():
        named = {
            one.column if kind == "summary" else one.name
            for one in FIELDS[kind]
            if HASHED in one.traits
        }
        assert set(table.HASHED) == named, kind
    assert set(messages.ERASED) == set(names_with(message, ERASED))
    assert set(copied.columns) == columns_of("message")


def test_full_text(db: MemDB) -> None:
    """The columns of each index are the fields that are searched."""
    wrong = []
    for kind, table in TABLES.items():
        words = set() if kind == "branch" else listed(db, f"{table}_fts")
        searched = {one.column or one.name for one in FIELDS[kind] if SEARCHED in one.traits}
        if words != searched:
            wrong.append((kind, sorted(words ^ searched)))
    assert wrong == []


def test_views(db: MemDB) -> None:
    """A view for people has each field that says so, times without their unit."""
    wrong = []
    for kind, table in TABLES.items():
        named = {
            VIEW_NAMES.get((kind, one.name), one.name.removesuffix("_ms"))
            for one in FIELDS[kind]
            if VIEWED in one.traits
        }
        shown = set() if kind == "branch" else listed(db, f"{table}_view") - OF_EVERY_VIEW
        if shown != named:
            wrong.append((kind, sorted(shown ^ named)))
    assert wrong == []


def filled(db: MemDB) -> MemDB:
    """Return *db* with a thing of every kind, each with all that a caller may give."""
    db._db.opened_by = "host"
    ann = db.scope("ann", app="notes")
    chat = ann.session("trip")
    chat.create(title="Oslo", metadata={"a": "b"})
    parts = [{"type": "text", "text": "We fly."}]
    given: dict[str, Any] = {"author": "Ann", "external_id": "x", "metadata": {"k": "v"}}
    chat.append("user", "We fly.", parts=parts, **given)
    chat.extend([{"role": "user", "text": f"Day {n}."} for n in range(9)])
    chat.summaries.compact()
    chat.branch("other").append("user", "We sail.")
    fact: dict[str, Any] = {"keywords": ["tea"], "writer": "host", "metadata": {"k": "v"}}
    ann.remember("Ann likes tea.", key="drink", session="trip", seq=1, **fact)
    ann.remember("Ann likes coffee.", key="drink", session="trip", seq=2, **fact)
    ann.items.put(("n",), "k", {"t": "x"}, metadata={"a": "b"}, index=["t"])
    ann.items.put(("n",), "bytes", b"abc")
    chat.artifacts.save("f.md", "x", metadata={"a": "b"}, message_seq=1)
    chat.artifacts.save("f.bin", b"\xff", metadata={"a": "b"}, message_seq=1)
    chat.state["k"] = "v"
    ann.session("gone").append("user", "Bye.")
    ann.delete(session="gone")
    return db


def key_of(kind: str, one: Field) -> str:
    """Return a key of its own for a field."""
    return "ghp_" + sha256(f"{kind} {one.name}".encode()).hexdigest()[:36]


def planted(value: Any, name: str, key: str) -> Any:
    """Return *value* with a key in a text of it."""
    if name == "data":
        return b64encode(key.encode()).decode()
    if isinstance(value, dict):
        first = next(iter(value))
        return {**value, first: planted(value[first], "", key)}
    if isinstance(value, list):
        return [planted(value[0], "", key), *value[1:]]
    return key


def plant(lines: list[dict[str, Any]], kind: str, one: Field) -> list[dict[str, Any]]:
    """Return lines of an export with the key of a field in it."""
    changed: list[dict[str, Any]] = json.loads(json.dumps(lines))
    rows = [line for line in changed if line["kind"] == kind]
    if kind == "history":
        rows = [old for line in changed for old in line.get("history", ())]
    row = next((row for row in rows if one.name in row), rows[-1])
    value = row.get(one.name, {"a": "b"} if one.name == "metadata" else "x")
    row[one.name] = planted(value, one.name, key_of(kind, one))
    if (kind, one.name) in (("session", "name"), ("branch", "name")):  # other lines name it too
        text = json.dumps(changed).replace(json.dumps(value), json.dumps(key_of(kind, one)))
        changed = json.loads(text)
    return changed


def imported(db: MemDB, lines: list[dict[str, Any]], file: Path) -> str:
    """Import lines, and return what is said of it."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    try:
        return str(db.import_file(file))
    except memdb.InvalidInput as error:
        return str(error)


def test_a_secret_in_any_field_is_refused_and_found(
    open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """An import brings a key in each field: refused by the policy, else found by the scan."""
    source, file, out = tmp_path / "all.jsonl", tmp_path / "changed.jsonl", tmp_path / "out.jsonl"
    filled(open_db(":memory:", embedder=None)).export(source)
    whole = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    strict = open_db(":memory:", embedder=None, settings={"secrets_in_messages": "refuse"})
    wrong, keys = [], {}
    # A summary is stored only if its messages are those that it was made of.
    of_summaries, others_ = whole, whole
    for kind, fields in FIELDS.items():
        for one in fields:
            # The user of a state is "" alone, for what is the app's own.
            is_screened = one.is_one_of(TEXT, NAME, REF) and (kind, one.name) != ("state", "user")
            if not is_screened or EXPORTED not in one.traits:
                continue
            reason = imported(strict, plant(whole, kind, one), file)
            if REF not in one.traits:
                if kind == "summary":
                    of_summaries = plant(of_summaries, kind, one)
                else:
                    others_ = plant(others_, kind, one)
                keys[key_of(kind, one)] = f"{kind}.{one.name}"
                if "holds a secret" not in reason:
                    wrong.append(f"{kind}.{one.name} passes: {reason[:200]}")
            if key_of(kind, one) in reason:
                wrong.append(f"{kind}.{one.name} is repeated: {reason[:200]}")
    strict.export(out)
    text = out.read_text("utf-8")
    wrong += [f"{name} is stored" for key, name in keys.items() if key in text]

    seen: list[str] = []

    def detect(text: str) -> list[Secret]:
        seen.append(text)
        return []

    policy = {"secrets_in_entries": "allow"}
    for changed in (of_summaries, others_):
        lax = open_db(":memory:", embedder=None, settings=policy, secret_detector=detect)
        imported(lax, changed, file)
        assert [place for scope in lax.scopes() for place in scope.find_secrets()]
    wrong += [f"{name} is not found" for key, name in keys.items() if key not in " ".join(seen)]
    assert not wrong, "\n".join(wrong)


class Recorder:
    """Notes what a proof looks for."""

    def __init__(self, probes: Any, seen: list[Any]) -> None:
        """Pass all on to *probes*."""
        self._probes, self._seen = probes, seen

    def add(self, values: Iterable[Any], **options: Any) -> None:
        """Take values to look for."""
        found = [*values]
        self._seen += found
        self._probes.add(found, **options)


def test_a_proof_of_forgetting_looks_for_every_field(
    open_db: Callable[..., MemDB], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is searched for by all that callers gave, but for what many rows share."""
    source = tmp_path / "all.jsonl"
    filled(open_db(":memory:", embedder=None)).export(source)
    lines_ = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    kinds = set(PROVED) - {"summary", "scope", "tombstone"}  # these go with the others, or stay
    planted_ = [
        (kind, one)
        for kind in sorted(kinds)
        for one in FIELDS[kind]
        if one.name in PROVED[kind] and EXPORTED in one.traits
    ]
    for kind, one in planted_:
        lines_ = plant(lines_, kind, one)
    policy = {"secrets_in_entries": "allow"}
    db = open_db(tmp_path / "a.db", embedder=None, settings=policy)
    imported(db, lines_, tmp_path / "changed.jsonl")
    seen: list[Any] = []
    collect = proof.collect
    monkeypatch.setattr(
        proof, "collect", lambda *given: collect(*given[:-1], Recorder(given[-1], seen))
    )

    for scope in db.scopes():
        scope.forget(everything=True, prove=True)

    text = repr(seen)
    columns = text_rows.SELECT_MESSAGES, text_rows.SELECT_ENTRIES, text_rows.SELECT_ITEMS
    wrong = [f"{kind}.{one.name}" for kind, one in planted_ if key_of(kind, one) not in text]
    for kind, sql in zip(("message", "entry", "item"), columns, strict=True):
        known = f"{sql} {text_rows.SELECT_NAMES}"
        wrong += [f"{kind}.{name} explains nothing" for name in PROVED[kind] if name not in known]
    assert wrong == []


# Fields that forgetting by words cannot take: names of what counted or wrote, which belong to
# no row alone, and the uid, which a tombstone keeps so that an import brings nothing back.
UNTAKEN = {"uid", "counter", "summarizer"}


@pytest.mark.slow
def test_a_word_goes_from_every_field(open_db: Callable[..., MemDB], tmp_path: Path) -> None:
    """`forget` by person takes what says it, proves it, and keeps the rest."""
    source, file = tmp_path / "all.jsonl", tmp_path / "changed.jsonl"
    filled(open_db(":memory:", embedder=None)).export(source)
    whole = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    policy = {"secrets_in_entries": "allow"}
    wrong, count = [], 0
    for kind in sorted(set(FIELDS) - {"scope"}):
        for one in FIELDS[kind]:
            if not one.is_one_of(TEXT, NAME) or EXPORTED not in one.traits or one.name in UNTAKEN:
                continue
            where, word = f"{kind}.{one.name}", key_of(kind, one)
            path = tmp_path / f"{where}.db"
            db = open_db(str(path), embedder=None, settings=policy)
            imported(db, plant(whole, kind, one), file)
            scope = next(iter(db.scopes()))
            before = sum(scope.forget(everything=True, dry_run=True).removed.values())
            if word not in exported(db, path.with_suffix(".jsonl")):
                wrong.append(f"{where} is not stored")
            rows = scope.forget(person=word, dry_run=True).rows
            receipt = scope.forget(person=word, prove=True)
            after = sum(scope.forget(everything=True, dry_run=True).removed.values())
            if not (receipt.proven and (rows or kind == "tombstone")):
                wrong.append(f"{where}: {receipt.pending} {receipt.proof} {rows}")
            if not after > before / 2 and (kind, one.name) != ("session", "name"):
                wrong.append(f"{where} takes {before - after} of {before}")
            if findings := db.file.check(deep=True):
                wrong.append(f"{where}: {findings}")
            said = b"".join(one.read_bytes() for one in tmp_path.glob(f"{where}.db*"))
            db.close()
            said += path.read_bytes()
            if word.encode() in said or word[4:].encode() in said:
                wrong.append(f"{where} is left in the file")
            count += 1
    assert not wrong, "\n".join(wrong)
    assert count >= 38


def exported(db: MemDB, file: Path) -> str:
    """Return the lines of an export, those of binary values decoded."""
    db.export(file)
    lines_ = file.read_text("utf-8")
    said = [json.loads(line).get("data", "") for line in lines_.splitlines()]
    return lines_ + "".join(b64decode(one).decode("latin-1") for one in said if one)
