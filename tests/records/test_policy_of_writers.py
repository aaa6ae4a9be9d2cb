"""Every way in goes by the secret policy of the open file (issue 11, H2)."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
import memdb.aio
from memdb import ImportReport, MemDB
from memdb.adapters.host import Host

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXT = f"the key is {KEY}, keep it"
UID = "00000000-0000-7000-8000-0000000000aa"


def import_lines(db: MemDB, folder: Path, *lines: dict[str, Any]) -> ImportReport:
    """Import a file of these lines."""
    file = folder / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return db.import_file(file, user="ann")


def by_append(db: MemDB, _folder: Path) -> None:
    """Add one message."""
    db.scope("ann").session("s").append("user", TEXT)


def by_extend(db: MemDB, _folder: Path) -> None:
    """Add several."""
    db.scope("ann").session("s").extend([{"role": "user", "text": TEXT}])


def by_parts(db: MemDB, _folder: Path) -> None:
    """Add one whose text stands in its parts."""
    parts = [{"type": "text", "text": TEXT}]
    db.scope("ann").session("s").append("user", parts=parts, metadata={"note": TEXT})


def by_replace(db: MemDB, _folder: Path) -> None:
    """Add one in place of nothing."""
    db.scope("ann").session("s").replace([], [{"role": "user", "text": TEXT}])


def by_commit(db: MemDB, _folder: Path) -> None:
    """Add one as hosts do."""
    chat = db.scope("ann").session("s")
    chat.create()
    Host(chat).commit({"role": "user", "text": TEXT})


def by_import_of_lines(db: MemDB, folder: Path) -> None:
    """Import a line written by hand."""
    import_lines(db, folder, {"role": "user", "text": TEXT, "session": "s"})


def by_import_of_an_export(db: MemDB, folder: Path) -> ImportReport:
    """Import a line as the export writes it, with its tokens."""
    times = {"created_ms": 5, "updated_ms": 5}
    return import_lines(
        db,
        folder,
        {"kind": "memdb", "export": 1},
        {"kind": "session", "name": "s", "last_seq": 1, "uid": UID, **times},
        {
            "kind": "message",
            "session": "s",
            "seq": 1,
            "role": "user",
            "text": TEXT,
            "tokens": 77,
            "counter": "other",
            "created_ms": 5,
            "uid": UID[:-1] + "b",
        },
    )


def by_import_of_another_program(db: MemDB, folder: Path) -> None:
    """Import a conversation of Claude."""
    message = {"uuid": "m", "sender": "human", "text": TEXT, "created_at": "2025-01-01T00:00:00Z"}
    file = folder / "conversations.json"
    file.write_text(json.dumps([{"uuid": "s", "chat_messages": [message]}]), encoding="utf-8")
    db.import_file(file, user="ann")


WRITERS = [
    by_append,
    by_extend,
    by_parts,
    by_replace,
    by_commit,
    by_import_of_lines,
    by_import_of_an_export,
    by_import_of_another_program,
]


def stored(db: MemDB) -> str:
    """Return everything that the messages of the session say."""
    return json.dumps([one.to_dict() for one in db.scope("ann").session("s").messages()])


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
class TestEveryWriter:
    """Each way in, under each action."""

    def test_refuses(
        self,
        open_db: Callable[..., MemDB],
        tmp_path: Path,
        write: Callable[[MemDB, Path], ImportReport | None],
    ) -> None:
        """The error is the one of append, and nothing with the secret is stored."""
        db = open_db(":memory:", settings=memdb.Settings(secrets_in_messages="refuse"))

        reason = ""
        try:
            report = write(db, tmp_path)
            reason = "" if report is None else str(report)  # an export comes in without the line
        except memdb.SecretFound as error:
            reason = str(error)

        assert "holds a secret" in reason
        assert KEY not in stored(db)
        assert KEY not in reason

    def test_redacts(
        self, open_db: Callable[..., MemDB], tmp_path: Path, write: Callable[[MemDB, Path], None]
    ) -> None:
        """What is stored, found and counted is the redacted text; a second time adds nothing."""
        db = open_db(":memory:", settings=memdb.Settings(secrets_in_messages="redact"))

        write(db, tmp_path)

        assert KEY not in stored(db)
        (message,) = db.scope("ann").session("s").messages()
        assert "[REDACTED" in message.text
        assert message.counter == "estimate"
        assert db.file.check(deep=True) == []

    def test_allows(
        self, open_db: Callable[..., MemDB], tmp_path: Path, write: Callable[[MemDB, Path], None]
    ) -> None:
        """Word for word."""
        db = open_db(":memory:", settings=memdb.Settings(secrets_in_messages="allow"))

        write(db, tmp_path)

        (message,) = db.scope("ann").session("s").messages()
        assert message.text == TEXT


def test_an_awaited_append_goes_by_the_policy(path: str) -> None:
    """It is prepared by the same function."""

    async def run() -> None:
        options: dict[str, Any] = {"embedder": None, "counter": "estimate"}
        db = await memdb.aio.open(
            path, settings=memdb.Settings(secrets_in_messages="refuse"), **options
        )
        try:
            with pytest.raises(memdb.SecretFound):
                await db.scope("ann").session("s").append("user", TEXT)
        finally:
            await db.close()

    asyncio.run(run())


def test_a_redacted_import_adds_nothing_the_second_time(
    open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """The stored message is compared with the redacted line."""
    db = open_db(":memory:", settings=memdb.Settings(secrets_in_messages="redact"))
    by_import_of_lines(db, tmp_path)
    by_import_of_lines(db, tmp_path)

    assert len(list(db.scope("ann").session("s").messages())) == 1


def test_a_fork_copies_what_was_let_in(open_db: Callable[..., MemDB], path: str) -> None:
    """A stricter policy since then does not change the copies."""
    by_append(open_db(path), Path())
    db = open_db(path, settings=memdb.Settings(secrets_in_messages="refuse"))

    copy = db.scope("ann").session("s").fork("copy")

    assert copy.last(1)[0].text == TEXT


ENTRY = {
    "kind": "entry",
    "category": "memories",
    "text": TEXT,
    "keywords": [],
    "importance": 5,
    "version": 1,
    "active": True,
    "use_count": 0,
    "created_ms": 5,
    "updated_ms": 5,
    "stored_ms": 5,
    "uid": UID,
}


def by_remember(db: MemDB, _folder: Path) -> None:
    """State a fact."""
    db.scope("ann").remember(TEXT)


def by_import_of_a_fact(db: MemDB, folder: Path) -> None:
    """Import a fact written by hand."""
    import_lines(db, folder, {"kind": "entry", "text": TEXT})


def by_import_of_an_exported_fact(db: MemDB, folder: Path) -> None:
    """Import a fact as the export writes it."""
    import_lines(db, folder, {"kind": "memdb", "export": 1}, ENTRY)


@pytest.mark.parametrize(
    "write",
    [by_remember, by_import_of_a_fact, by_import_of_an_exported_fact],
    ids=lambda write: write.__name__,
)
@pytest.mark.parametrize("action", ["refuse", "redact", "allow"])
def test_every_writer_of_entries_goes_by_the_policy(
    open_db: Callable[..., MemDB],
    tmp_path: Path,
    write: Callable[[MemDB, Path], None],
    action: str,
) -> None:
    """Stored as said, redacted, or not at all."""
    db = open_db(":memory:", settings=memdb.Settings(secrets_in_entries=action))
    if action == "refuse":
        with pytest.raises(memdb.SecretFound):
            write(db, tmp_path)
    else:
        write(db, tmp_path)

    texts = [one.text for one in db.scope("ann").entries.list()]
    assert (
        texts
        == {
            "refuse": [],
            "redact": ["the key is [REDACTED github_token], keep it"],
            "allow": [TEXT],
        }[action]
    )
