"""`diff` of versions, and `edit` in an editor."""

from __future__ import annotations

import sys

import pytest

import memdb


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Return a function that lets EDITOR be a program which runs a line of Python on *text*."""

    def use(line: str) -> None:
        program = tmp_path / "editor.py"
        program.write_text(
            "import os, sys\n"
            "path = sys.argv[1]\n"
            "text = open(path, encoding='utf-8').read()\n"
            f"{line}\n"
            "open(path, 'w', encoding='utf-8').write(text)\n"
            "os.utime(path, (1, 1))\n"
        )
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"{sys.executable} {program}")

    return use


def test_diff_of_an_artifact(run, run_json, trip):
    """The newest version beside the one before, in the form of `diff -u`."""
    done = run("artifact", "diff", trip, "menu.md", "--session", "trip")
    of = ("--version", 2, "--against", 1, "--session", "trip")
    told = run_json("artifact", "diff", trip, "menu.md", *of)

    assert done.stdout == (
        "--- 1\n+++ 2\n@@ -1 +1 @@\n-soup\n\\ No newline at end of file\n"
        "+fish\n\\ No newline at end of file\n"
    )
    assert (told["old"], told["new"]) == (1, 2)


def test_bytes_are_not_compared(run, trip):
    """The error says how to get them."""
    with memdb.open(trip) as db:
        db.scope("ann").artifacts.save("user:x", b"\xff")
        db.scope("ann").artifacts.save("user:x", b"\xfe")
    done = run("artifact", "diff", trip, "user:x")
    assert done.exit_code == 5
    assert "user:x@1 is not text: load it to get its bytes" in done.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("entry", "edit", "FILE", "1"), ("entry", "show", "FILE", "1")),
        (("chat", "edit", "FILE", "trip", "2"), ("chat", "show", "FILE", "trip")),
        (
            ("artifact", "edit", "FILE", "menu.md", "--session", "trip"),
            ("artifact", "load", "FILE", "menu.md", "--session", "trip"),
        ),
    ],
    ids=["entry", "message", "artifact"],
)
def test_edit_in_an_editor(run, trip, editor, words, shown):
    """What the editor leaves is stored; if it leaves everything as it was, nothing is."""

    def ran(line):
        return run(*[trip if word == "FILE" else word for word in line])

    editor("pass")
    before = ran(shown).stdout
    same = ran(words)
    assert (same.exit_code, same.stdout, same.stderr) == (0, "", "Nothing changed.\n")
    assert ran(shown).stdout == before
    editor("text = 'Bergen, after all.\\n'")
    assert ran(words).exit_code == 0
    assert "Bergen, after all." in ran(shown).stdout
    assert "after all.\n\n\n" not in ran(shown).stdout


@pytest.mark.parametrize("noun", ["entry", "artifact", "chat"])
def test_an_edit_meanwhile_is_not_overwritten(run, trip, editor, noun):
    """What another program stored while the editor was open stays."""
    change = {
        "entry": "db.scope('ann').entries.update(1, text='theirs')",
        "artifact": "db.scope('ann').session('trip').artifacts.save('menu.md', 'theirs')",
        "chat": "db.scope('ann').session('trip').edit(2, {'role': 'user', 'text': 'theirs'})",
    }[noun]
    editor(f"text = 'mine'\nimport memdb\nwith memdb.open({trip!r}) as db: {change}")
    words = {
        "entry": ("entry", "edit", trip, "1"),
        "artifact": ("artifact", "edit", trip, "menu.md", "--session", "trip"),
        "chat": ("chat", "edit", trip, "trip", "2"),
    }[noun]
    assert run(*words).exit_code == 4
    with memdb.open(trip) as db:
        ann = db.scope("ann")
        stored = [
            ann.entries.get(1).text,
            ann.session("trip").artifacts.load("menu.md").data.decode(),
            ann.session("trip").get(2).text,
        ]
    assert "theirs" in stored
    assert "mine" not in stored


def test_without_an_editor_and_a_terminal(run, trip, monkeypatch):
    """The error says what to give instead."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    for words in (
        ("entry", "edit", trip, "1"),
        ("chat", "edit", trip, "trip", "2"),
        ("artifact", "edit", trip, "menu.md", "--session", "trip"),
    ):
        done = run(*words)
        assert done.exit_code == 2
        assert "or set EDITOR" in done.stderr


EDITS = {
    "entry": ("entry", "edit", "FILE", "home_city"),
    "message": ("chat", "edit", "FILE", "trip", "1"),
    "artifact": ("artifact", "edit", "FILE", "menu.md", "--session", "trip"),
}
# What cannot be stored, by what the editor does; and what the error says.
UNSTORABLE = {
    "a secret": ("text = 'typed words AKIAIOSFODNN7EXAMPLE'", "holds a secret"),
    "latin-1": (
        "open(path, 'wb').write(b'typed words Caf\\xe9'); os.utime(path, (1, 1)); os._exit(0)",
        "another encoding than UTF-8",
    ),
}


@pytest.mark.parametrize("fault", UNSTORABLE)
@pytest.mark.parametrize("name", EDITS)
def test_what_was_typed_is_kept(run, editor, trip, monkeypatch, tmp_path, name, fault):
    """In a file that the error names, and that holds it word for word."""
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(kept))
    run("settings", trip, "--set", "secrets_in_messages=refuse")
    change, message = UNSTORABLE[fault]
    editor(change)
    done = run(*[trip if word == "FILE" else word for word in EDITS[name]])

    assert done.exit_code == 5, done.stderr
    (file,) = kept.iterdir()
    assert message in done.stderr
    assert f"What you typed is in {file}" in done.stderr.replace("\n", " ")
    assert "This is a bug" not in done.stderr
    assert file.read_bytes().startswith(b"typed words")


@pytest.mark.parametrize("name", EDITS)
def test_nothing_is_left_of_an_edit(run, editor, trip, monkeypatch, tmp_path, name):
    """The file that the editor saw is gone once the text is stored, or did not change."""
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(kept))
    for change in ("text = text", "text = 'Ann lives in Molde.'"):
        editor(change)
        run(*[trip if word == "FILE" else word for word in EDITS[name]])

    assert [*kept.iterdir()] == []


@pytest.mark.parametrize("name", ["entry", "message"])
def test_an_emptied_text_is_no_change(run, editor, trip, name):
    """As elsewhere an empty text stops the edit."""
    editor("text = '\\n'")
    done = run(*[trip if word == "FILE" else word for word in EDITS[name]])

    assert "Nothing changed" in done.stderr
