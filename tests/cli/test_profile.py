"""`memdb profile`: the page of what is known, and what an editor makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

import memdb
from memdb.cli.profile import changes_of, page_of, read_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = ("Ann likes tea.", "Ann lives in Oslo,\nat the harbour.", "- 7: a list", "## heading")


@pytest.fixture
def file(path: str) -> str:
    """Make a file with four facts, in two categories."""
    with memdb.open(path, durability="process") as db:
        for place, text in enumerate(TEXTS):
            db.user("ann").remember(text, category=("profile", "events")[place % 2])
    return path


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let an editor replace texts in the page, in turn."""

    def use(*pairs: tuple[str, str]) -> None:
        script = tmp_path / "edit.py"
        lines = [f"text = text.replace({old!r}, {new!r})" for old, new in pairs]
        script.write_text(
            "import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n"
            "text = path.read_text()\n" + "\n".join(lines) + "\npath.write_text(text)\n"
        )
        monkeypatch.setenv("VISUAL", f"python {script}")

    return use


def facts(path: str) -> dict[int, tuple[str, str]]:
    """Return what is known, by number."""
    with memdb.open(path) as db:
        return {one.id: (one.category, one.text) for one in db.user("ann").entries.list()}


def test_a_page_says_what_is_known(run: Any, file: str) -> None:
    """Whatever a text holds, the page read again is the same facts."""
    with memdb.open(file) as db:
        known = db.user("ann").entries.list()
    page = page_of("ann", known)

    assert run("profile", file).stdout == page
    assert {one.number: (one.category, one.text) for one in read_page(page)} == facts(file)
    assert changes_of(read_page(page), read_page(page)) == ([], [], [])
    assert [one["id"] for one in json.loads(run("profile", file, "--json").stdout)] == [1, 2, 3, 4]


def test_an_edited_page_updates_deletes_and_adds(run: Any, file: str, editor: Any) -> None:
    """After the changes were listed; a dry run stores none, and no editor none either."""
    editor(
        ("likes tea", "likes coffee"),
        ("- 3: - 7: a list\n", ""),
        ("## events", "- Ann rows.\n\n## events"),
    )
    before = facts(file)

    listed = run("profile", file, "--edit", "--dry-run").stdout
    assert listed.splitlines() == ["~ 1: Ann likes coffee.", "- 3: - 7: a list", "+ Ann rows."]
    assert facts(file) == before
    assert run("profile", file, "--edit").exit_code == 2  # there is no terminal to ask on
    assert facts(file) == before

    assert run("profile", file, "--edit", "--yes").stdout == listed
    assert facts(file) == {
        1: ("profile", "Ann likes coffee."),
        2: before[2],
        4: before[4],
        5: ("profile", "Ann rows."),
    }


@each(
    "old,new,problem",
    [
        ("- 1:", "1:", "line 7 is '1: Ann likes tea.': begin a fact with '- '"),
        ("- 1:", "- 9:", "entry 9 is not on the page"),
        ("- 1:", "- 3:", "entry 3 is not on the page, or is there twice"),
        ("- 1: Ann likes tea.", "- 1: ", "line 7 is '- 1: '"),
        ("## profile", "## hobbies", "hobbies"),
        ("Ann likes tea.", "My key is sk-proj-" + "a1B2" * 12, "key"),
    ],
)
def test_a_page_that_cannot_be_stored_changes_nothing(
    run: Any, file: str, editor: Any, old: str, new: str, problem: str
) -> None:
    """It says what is wrong, and where what was typed is."""
    editor((old, new), ("Oslo", "Bergen"))
    before = facts(file)

    result = run("profile", file, "--edit", "--yes")

    assert result.exit_code != 0
    assert problem in " ".join(result.stderr.split())
    assert "What you typed is in" in result.stderr
    assert facts(file) == before
