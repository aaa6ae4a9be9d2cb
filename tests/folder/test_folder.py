"""A folder of files: which file is whose, which are open, and what is left of a user."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

import memdb
from memdb.adapters.host import HostFile
from memdb.cli import cli
from memdb.folder.folder import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OWNER = """
import sys, memdb
folder = memdb.open_folder(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""

# Names that a file system would change, take for others, or refuse.
NAMES = ["ann", "Ann", "aNN", "京都", "a/b", "..", ".", "con", "a%2fb", "x.db", "\u00e9"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[memdb.Folder]:
    """Return an open folder that keeps three files open."""
    with memdb.open_folder(tmp_path, max_open=3) as opened:
        yield opened


def files_of(path: Path) -> list[str]:
    """Return every file below a folder but its own two."""
    found = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
    return [
        one for one in found if not os.path.basename(one).startswith(("due.sqlite", "shared.db"))
    ]


def open_below(path: Path) -> set[str]:
    """Return the files below a folder that this process has open."""
    place = "/proc/self/fd"
    targets = (os.path.join(place, one) for one in os.listdir(place))
    links = [os.readlink(one) for one in targets if os.path.lexists(one)]
    return {one for one in links if one.startswith(str(path)) and "due.sqlite" not in one}


def use(scope: memdb.Scope, word: str) -> list[Any]:
    """Call what a program calls, and return what it answers."""
    chat = scope.session("trip")
    chat.append("user", f"We fly to {word} on 3 May.")
    scope.remember(f"The hotel is in {word}.", key="hotel")
    chat.artifacts.save("plan.md", f"Day 1: {word}")
    scope.items.put(("notes",), "k1", {"text": word})
    chat.state.put("city", word)
    return [
        [(one.seq, one.role, one.text) for one in chat.last(9)],
        [(one.text, one.key) for one in scope.entries.list()],
        [one.text for one in scope.recall(word)],
        chat.context(500, query=word).to("openai"),
        scope.items.get(("notes",), "k1").value,
        chat.state.get("city"),
        scope.forget(query=word, dry_run=True).removed,
    ]


def test_a_user_of_a_folder_is_as_one_of_a_file(folder: memdb.Folder) -> None:
    """The same calls give the same answers."""
    with memdb.open(":memory:") as db:
        for user in NAMES:
            assert use(folder.user(user), "Oslo") == use(db.scope(user), "Oslo"), user


def test_an_empty_file_is_small(folder: memdb.Folder, tmp_path: Path) -> None:
    """At most 200 KB; so is what a process left that ended before it made the tables."""
    folder.user("ann").session("s").append("user", "hello")
    begun = tmp_path / place_of("bob")
    begun.parent.mkdir(parents=True)
    HostFile.begin(str(begun), "")
    folder.user("bob").session("s").append("user", "hello")
    folder.close()

    for name in ("ann", "bob"):
        path = tmp_path / place_of(name)
        assert path.stat().st_size <= 200 << 10
        with memdb.open(path, embedder=None) as db:
            assert db.scope(name).session("s").last_seq == 1
            assert db.file.check(deep=True) == []


def test_names_come_back(folder: memdb.Folder, tmp_path: Path) -> None:
    """Each name has a file of its own, a listing opens none, and pages of it are complete."""
    for name in NAMES:
        folder.user(name)

    assert sorted(folder.list()) == sorted(NAMES)
    assert len({one.lower() for one in files_of(tmp_path) if one.endswith(".db")}) == len(NAMES)
    paged: list[str] = []
    while page := folder.list(after=paged[-1] if paged else None, limit=4):
        paged += page
    assert paged == folder.list()
    assert "e\u0301" in folder  # it looks the same, so it is the same
    assert folder.user("e\u0301").user == "\u00e9"
    with pytest.raises(memdb.TooLarge, match="shorten the user"):
        folder.user("京" * 30)


def test_only_files_that_nobody_uses_are_closed(folder: memdb.Folder, tmp_path: Path) -> None:
    """A scope, a session of it, or a lease keeps a file open; of the others three stay so."""
    kept = folder.user("kept").session("trip")
    lease = folder.open("leased")
    for number in range(10):
        folder.user(f"user {number}").session("trip").append("user", "hello")
    opened = {one for one in open_below(tmp_path) if one.endswith(".db")}

    assert len(opened) == 3
    assert kept.append("user", "still open").seq == 1
    assert lease.db.scope("leased").sessions() == []
    names = {os.path.basename(one) for one in opened}
    assert {"kept.db", "leased.db"} <= names
    assert folder.stats().open == 3
    assert folder.stats().users == 12


def test_a_file_is_open_once(folder: memdb.Folder) -> None:
    """One connection writes and reads, which keeps memory small; while it reads it cannot write."""
    use(folder.user("ann"), "Oslo")
    with folder.open("ann") as db:
        pool = db._db.pool  # type: ignore[attr-defined] # of a file
        assert len(pool._readers) + len(pool._writers) == 1
        with db._db.read() as tx, pytest.raises(memdb.MemDBError):
            tx.run("DELETE FROM messages")
        with db._db.read():
            thread = threading.Thread(
                target=db.scope("ann").session("s").append, args=("user", "hi")
            )
            thread.start()
            thread.join()
        assert db.scope("ann").session("s").append("user", "there").seq == 2


def calls_of(action: Callable[[], object]) -> int:
    """Return how many calls of Python functions *action* makes in this thread."""
    made = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return made


def test_a_file_is_opened_as_fast_among_many_as_among_few(tmp_path: Path) -> None:
    """Whatever is open beside it, whether one of those is closed for it or not."""
    made: dict[tuple[int, int], int] = {}
    for open_before in (4, 60):
        for spare in (0, 1):
            place = tmp_path / f"{open_before} {spare}"
            place.mkdir()
            with memdb.open_folder(place, max_open=open_before + spare) as folder:
                for number in range(open_before):
                    folder.user(f"u{number}").session("s").append("user", "hello")
                counts = [
                    calls_of(lambda name=f"new {number}": folder.user(name)) for number in range(3)
                ]
            made[open_before, spare] = min(counts)

    for spare in (0, 1):
        assert made[60, spare] <= made[4, spare] + 20


def test_many_threads_on_few_handles(folder: memdb.Folder) -> None:
    """Whatever thread asks for whom while files open and close, all that was stored is there."""
    failures: list[Exception] = []

    def append(seed: int) -> None:
        order = random.Random(seed)
        try:
            for _ in range(60):
                folder.user(f"u{order.randrange(9)}").session("s").append("user", f"hello {seed}")
        except Exception as error:  # noqa: BLE001 (told by the test)
            failures.append(error)

    threads = [threading.Thread(target=append, args=(seed,)) for seed in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert failures == []
    counts = [len(folder.user(name).session("s").last(400)) for name in folder.list()]
    assert sum(counts) == 360


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    """A second process is refused, one that only reads is not, and a killed one leaves no lock."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    try:
        owner.stdout.readline()
        with pytest.raises(memdb.Busy, match="open for writing in another program"):
            memdb.open_folder(tmp_path)
        with memdb.open_folder(tmp_path, mode="read") as reader:
            assert reader.list() == []
            with pytest.raises(memdb.NotFound):
                reader.user("ann")
            with pytest.raises(memdb.ReadOnly):
                reader.delete("ann")
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    with memdb.open_folder(tmp_path) as folder:
        folder.user("ann").remember("Ann has a dog.")


def test_a_file_holds_one_user(folder: memdb.Folder) -> None:
    """What is another's, or everybody's, is stored in no user's file, by any way in."""
    ann = folder.user("ann")
    lease = folder.open("ann")
    ways: list[Callable[[], object]] = [
        lambda: ann.remember("Lunch is at noon.", shared=True),
        lambda: lease.db.shared().remember("Lunch is at noon."),
        lambda: lease.db.scope("bob").session("trip").append("user", "hello"),
        lambda: lease.db.scope("bob").state.put("city", "Oslo"),
        lambda: lease.db.scope("bob").items.put(("notes",), "k1", {}),
        lambda: lease.db.scope("bob").session("trip").artifacts.save("plan.md", "Day 1"),
        lambda: folder.shared().remember("Lunch is at noon.", shared=False) and 1 / 0,
    ]
    for way in ways[:-1]:
        with pytest.raises(memdb.Unsupported, match="write it with the folder's"):
            way()
    assert lease.db.scopes() == []
    with pytest.raises(ZeroDivisionError):
        ways[-1]()


def test_due_work_is_found_again(tmp_path: Path) -> None:
    """Work of files that were closed, also by a kill, is done later; then nobody is named."""
    with memdb.open_folder(tmp_path, max_open=1) as folder:
        for number in range(5):
            folder.user(f"u{number}").session("s").append("user", "We fly to Oslo.")
    with memdb.open_folder(tmp_path) as folder:
        folder.user("reader").sessions()
        assert folder.stats().due == 6

        assert folder.work() == 10  # five to embed, five to learn from
        assert folder.stats().due == 0
        assert folder.work() == 0
        scope = folder.user("u1")
        assert folder.stats().due == 1
        folder.work()
        assert folder.stats().due == 1  # somebody may still write by the scope
        scope.session("s").append("user", "We sail to Bergen.")
        del scope
        assert folder.work() == 2
        assert folder.stats().due == 0


def test_what_fails_in_one_file_stops_no_other(tmp_path: Path) -> None:
    """A damaged file is named as failed, and the work of the others is done."""
    with memdb.open_folder(tmp_path, max_open=1) as folder:
        for number in range(3):
            folder.user(f"u{number}").session("s").append("user", "We fly to Oslo.")
        folder.user("last")
        [broken] = [one for one in files_of(tmp_path) if one.endswith("u1.db")]
        with open(broken, "r+b") as file:
            file.write(b"damaged " * 100)
        with pytest.raises(memdb.FileError):
            folder.work()
        assert [*folder.failures] == ["u1"]
        assert folder.stats().due == 1


def test_nothing_is_left_of_a_user(folder: memdb.Folder, tmp_path: Path) -> None:
    """After moving and deleting, no file and no descriptor is left, and a held scope is closed."""
    there = tmp_path / "there"
    there.mkdir()
    for number in range(40):
        use(folder.user(f"u{number}"), "Oslo")
    held = folder.user("u0")

    for number in range(20):
        assert folder.delete(f"u{number}")
        assert not folder.delete(f"u{number}")
    for number in range(20, 40):
        folder.move(f"u{number}", there)

    with pytest.raises(memdb.Closed):
        held.sessions()
    assert folder.list() == []
    assert folder.stats().due == 0
    assert [one for one in files_of(tmp_path) if not one.startswith(str(there))] == []
    assert open_below(tmp_path) == set()
    with memdb.open_folder(there) as moved:
        assert len(moved.list()) == 20
        assert use(moved.user("u20"), "Bergen")[0][0] == (1, "user", "We fly to Oslo on 3 May.")
        with moved.open("u21") as db:
            assert db.file.check(deep=True) == []
        folder.user("u21")
        with pytest.raises(memdb.AlreadyExists):
            folder.move("u21", there)
        assert "u21" in folder


def recalled(ann: memdb.Scope, shared: memdb.Scope) -> list[Any]:
    """Share facts, tell ann's own, and return what she is answered."""
    shared.remember("Lunch is at noon in the canteen.", key="lunch")
    closing = shared.remember("The office closes at six.", pinned=True).entry
    ann.remember("Ann lives in Oslo.")
    ann.remember("Ann eats lunch at one.", key="lunch")
    chat = ann.session("s")
    question = "When does the office close?"
    chat.append("user", question)

    def ask(query: str, **given: Any) -> list[tuple[str, bool, bool]]:
        hits = ann.recall(query, **given)  # scores of one file differ in the second place
        return sorted((hit.text, hit.source.shared, hit.is_sure) for hit in hits)

    answers: list[Any] = [
        *(ask(one) for one in (question, "Where does Ann live?", "lunch", "When is lunch?")),
        *(ask("office", partition=one) for one in ("own", "shared", "both")),
        ask("office", kinds=["message"]),
        ann.recall(question).certainty,
        ann.profile(500, ["When is lunch?"]).text,
        chat.context(800, query=question).to("openai"),
        chat.context(800).to("openai"),
    ]
    shared.forget(entry=closing.id)
    return [*answers, ask(question), chat.context(800, query=question).to("openai")]


def test_reads_join_what_all_users_share(tmp_path: Path) -> None:
    """As in one file: hits, contexts and profiles; an own key stands for the shared one's."""
    with memdb.open(":memory:") as db:
        expected = recalled(db.scope("ann"), db.shared())
    with memdb.open_folder(tmp_path, max_open=1) as folder:
        assert folder.user("eve").recall("office").hits == ()
        assert not os.path.exists(tmp_path / "shared.db")
        assert recalled(folder.user("ann"), folder.shared()) == expected
        assert [hit.text for hit in folder.user("bob").recall("lunch")] == [
            "Lunch is at noon in the canteen."
        ]
        assert folder.user("bob").recall("lunch")[0].source.shared
        folder.shared("other app").remember("The shop opens at nine.")
        assert folder.user("bob").recall("shop").hits == ()
        assert [hit.text for hit in folder.user("bob", "other app").recall("shop")] == [
            "The shop opens at nine."
        ]
        assert sorted(folder.list()) == ["ann", "bob", "eve"]
    with memdb.open_folder(tmp_path, mode="read") as folder:
        assert folder.user("bob").recall("lunch")[0].source.shared


def test_commands_of_a_folder(tmp_path: Path) -> None:
    """A command on a folder is about the file of --user; users are listed, moved and deleted."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, [*words])
        return done.exit_code, done.output

    def use(user: str, *words: str) -> tuple[int, str]:
        return run(*words, "--user", user)

    assert use("ann", "chat", "append", str(here), "trip", "We fly to Oslo.")[0] == 0
    assert use("bob", "remember", str(here), "Bob sails to Bergen.")[0] == 0
    assert "Oslo" in use("ann", "recall", str(here), "where do we fly?")[1]
    assert "Bergen" not in use("ann", "recall", str(here), "Bergen")[1]
    assert use("eve", "recall", str(here), "Bergen")[0] == 6
    assert "choose the user with --user" in run("recall", str(here), "Bergen")[1]
    assert sorted(run("users", "list", str(here))[1].split()) == ["ann", "bob"]
    assert run("users", "move", str(here), "ann", str(there))[0] == 0
    assert run("users", "move", str(here), "ann", str(there))[0] == 3
    assert run("users", "delete", str(here), "bob", "--yes")[0] == 0
    assert run("users", "list", str(here)) == (0, "")
    assert "Oslo" in use("ann", "recall", str(there), "where do we fly?")[1]


def test_options_that_cannot_be(tmp_path: Path) -> None:
    """A wrong option is named before anything is made."""
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (memdb.FileError, {"path": tmp_path / "absent"}),
        (memdb.InvalidInput, {"path": tmp_path, "mode": "append"}),
        (memdb.InvalidInput, {"path": tmp_path, "max_open": 0}),
        (memdb.InvalidInput, {"path": tmp_path, "embedder": "minilm"}),
    ]
    for error, given in cases:
        with pytest.raises(error):
            memdb.open_folder(given.pop("path"), **given)
    assert os.listdir(tmp_path) == []
    folder = memdb.open_folder(tmp_path)
    folder.close()
    folder.close()
    with pytest.raises(memdb.Closed, match="open_folder"):
        folder.user("ann")


def test_work_is_done_in_every_file_of_a_folder(tmp_path: Path) -> None:
    """Once, or until it is stopped; no second process may."""
    with memdb.open_folder(tmp_path) as folder:
        for user in ("ann", "bob"):
            folder.user(user).session("s").append("user", "We fly to Oslo.")
        busy = CliRunner().invoke(cli, ["work", str(tmp_path)])
    first = CliRunner().invoke(cli, ["work", str(tmp_path), "--json"])
    second = CliRunner().invoke(cli, ["work", str(tmp_path)])

    assert "open for writing in another program" in busy.output
    assert json.loads(first.output) == {"status": "done", "done": 4, "pending": 0}
    assert second.output == "0 done, nothing is left.\n"


def commands_of(group: click.Group, *words: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yield the words and the parameters of each command whose only argument is FILE."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, *words, name)
        elif command is not None:
            arguments = [one.name for one in command.params if isinstance(one, click.Argument)]
            if arguments == ["file"]:
                yield (*words, name), {str(one.name) for one in command.params}


def test_no_command_names_an_option_that_it_has_not(tmp_path: Path) -> None:
    """A command on a folder asks for --user if it has it, and else for one of the files."""
    found = dict(commands_of(cli))
    for words in (("work",), ("serve",), ("web",), ("demo",)):
        found.pop(words, None)  # those serve a folder
    said = {
        words: CliRunner().invoke(cli, [*words, str(tmp_path)], input="").output for words in found
    }
    sync = CliRunner().invoke(cli, ["sync", str(tmp_path), str(tmp_path / "there")])

    wrong = [
        words for words in found if "with --user" in said[words] and "user" not in found[words]
    ]
    assert wrong == []
    assert sum("give the path of one of them" in one for one in said.values()) > 5
    assert "give the path of one of them" in sync.output
