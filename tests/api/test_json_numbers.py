"""Numbers that leave memdb: small ones for entries and items, none that a browser rounds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import memdb
from memdb.adapters.host import Host
from memdb.cli import cli
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

MOST = 1 << 53
PACKED = 1 << 44  # a packed id is at least that, and a time is less until the year 2527
SNOWFLAKE = 998_877_665_544_332_211  # as chat services number messages


@pytest.fixture
def path(tmp_path: Any, address_of: Callable[[str], str], databases: Any, run_sql: Any) -> str:
    """Return a file whose scopes have numbers from 601 on."""
    path = address_of(str(tmp_path / "agent.db"))
    if databases is not None:  # the number after the greatest, of a server the next of a sequence
        run_sql(path, "SELECT setval('scope_numbers', 600)")
    with memdb.open(path) as db:
        with db._db.write() as tx:
            tx.run(
                "INSERT INTO scopes (scope_no, uid, app, user_name, created_ms) "
                "VALUES (600, 'pad', 'default', 'pad', 0)"
            )
        ann, chat = db.scope("ann"), db.scope("ann").session("trip")
        chat.extend([{"role": "user", "text": f"We go to Oslo, day {n}."} for n in range(90)])
        chat.append("user", "Hello", metadata={"discord": SNOWFLAKE})
        chat.summaries.compact(keep_last=10)
        first = ann.remember("Ann lives in Oslo.", key="home", session="trip", seq=1).entry
        ann.remember("Ann lives in Bergen.", key="home")
        ann.entries.update(first.id, importance=9)
        ann.session("trip").artifacts.save("menu.md", "Oslo soup", message_seq=1)
        ann.items.put(("n",), "k", {"Oslo": SNOWFLAKE})
        chat.state["big"] = -SNOWFLAKE
        with db._db.write() as tx:
            tx.run("DELETE FROM scopes WHERE scope_no = 600")
    return path


def ann(db: MemDB) -> Any:
    return db.scope("ann")


def entry(db: MemDB) -> Any:
    return ann(db).entries.list(inactive=True)[0]


READS: dict[str, Callable[[MemDB], Any]] = {
    "sessions": lambda db: ann(db).sessions(),
    "messages": lambda db: [*ann(db).session("trip").messages()],
    "snapshot": lambda db: Host(ann(db).session("trip")).snapshot(),
    "window": lambda db: Host(ann(db).session("trip")).window(last=5),
    "context": lambda db: ann(db).session("trip").context(900, "Oslo"),
    "tree": lambda db: ann(db).session("trip").summaries.tree(),
    "summaries": lambda db: ann(db).session("trip").summaries.list(),
    "expand": lambda db: ann(db).session("trip").summaries.expand("1-10"),
    "segments": lambda db: Host(ann(db).session("trip")).segments(),
    "branches": lambda db: ann(db).session("trip").branches(),
    "entries": lambda db: [*ann(db).entries.list(inactive=True)],
    "history": lambda db: ann(db).entries.history(entry(db).id),
    "replaced": lambda db: ann(db).entries.replaced(ann(db).entries.find("home").id),
    "links": lambda db: ann(db).entries.links(ann(db).entries.find("home").id),
    "remembered": lambda db: ann(db).remember("Ann lives in Bergen."),
    "extracted": lambda db: ann(db).session("trip").extract(dry_run=True),
    "profile": lambda db: ann(db).profile(400),
    "recall": lambda db: [
        *ann(db).recall("Oslo", 50, kinds=("message", "entry", "artifact", "summary", "item"))
    ],
    "why": lambda db: ann(db).why("Oslo", "trip", 1),
    "items": lambda db: ann(db).items.list(),
    "artifacts": lambda db: ann(db).artifacts.list(),
    "preview": lambda db: ann(db).forget(everything=True, dry_run=True),
    "receipt": lambda db: ann(db).forget(query="Oslo", dry_run=True),
    "secrets": lambda db: [*ann(db).find_secrets(entropy=True)],
    "info": lambda db: db.file.info(),
    "stats": lambda db: db.stats(),
}


def numbers(value: Any) -> Iterator[int]:
    """Yield every integer of a JSON value."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int):
        yield value


def large(text: str) -> list[int]:
    return [one for one in numbers(json.loads(text)) if abs(one) > MOST]


def test_no_packed_id_leaves_the_library(path: str) -> None:
    """Neither as a number nor inside a text, of everything that is read; values of users aside."""
    wrong = []
    with memdb.open(path) as db:
        for name, read in READS.items():
            found = read(db)
            rows = [found] if isinstance(found, Record) else [*found]
            text = json.dumps([one.to_dict() for one in rows]).replace(str(SNOWFLAKE), "")
            # Of scope 601 they have 17 digits; a uid has 16 characters, now and then all digits.
            wrong += [(name, one) for one in re.findall(r"(?<![\w.-])\d{17,19}(?![\w-])", text)]
        ids = [one.id for one in ann(db).entries.list(inactive=True)]

        assert wrong == []
        assert ids == [12, 13]
        assert [ann(db).entries.get(one).id for one in ids] == ids
        assert db.query("SELECT min(id) FROM entries").rows[0][0] > PACKED


@pytest.mark.parametrize("value", [MOST, -MOST, 0, True, None, "9" * 30, 2.5])
def test_what_is_exact_stays_as_it_is(value: object) -> None:
    """Up to 2^53, both signs; flags, texts and fractions anyway."""
    found = memdb.StateValue(value, 1, 0).to_dict()["value"]

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "command",
    [
        ("entry", "list", "{}", "--all"),
        ("entry", "show", "{}", "home"),
        ("chat", "show", "{}", "trip"),
        ("recall", "{}", "Oslo"),
        ("item", "list", "{}"),
        ("query", "{}", "SELECT * FROM entries"),
        ("forget", "{}", "--everything", "--dry-run"),
        ("info", "{}"),
    ],
    ids=lambda command: command[0],
)
def test_json_of_a_command_has_no_such_number(path: str, command: tuple[str, ...]) -> None:
    """Values of users too; an id as it was printed names the entry."""
    arguments = [path if one == "{}" else one for one in command]
    done = CliRunner().invoke(cli, [*arguments, "--json"], prog_name="memdb")

    assert done.exit_code == 0, done.output
    assert large(done.stdout) == []
    if command[:2] == ("entry", "list"):
        printed = json.loads(done.stdout)[0]["id"]
        shown = CliRunner().invoke(
            cli, ["entry", "show", path, str(printed), "--json"], prog_name="memdb"
        )
        assert json.loads(shown.stdout)["id"] == printed


def test_a_page_goes_on_behind_a_row_as_json_has_it(path: str) -> None:
    """By a dict with the number of the row."""
    with memdb.open(path) as db:
        first, second = ann(db).entries.list(inactive=True)

        assert [*ann(db).entries.list(inactive=True, after=first.to_dict())] == [second]


def test_an_export_keeps_large_numbers(path: str, tmp_path: Any) -> None:
    """They come back as numbers: lines of memdb are read by memdb."""
    with memdb.open(path) as db:
        lines = tmp_path / "a.jsonl"
        db.export(lines, user="ann")
    with memdb.open(":memory:") as other:
        other.import_file(lines, user="ann")
        chat = other.scope("ann").session("trip")

        assert chat.last(1)[0].metadata == {"discord": SNOWFLAKE}
        assert chat.state["big"] == -SNOWFLAKE
