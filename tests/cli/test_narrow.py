"""A terminal of 80 columns: nothing breaks inside a word, in any command that prints a table."""

from __future__ import annotations

import shlex

import pytest
from cases import each

import memdb

LINES = """
recall FILE umbrella
recall FILE umbrella --group session
recall FILE umbrella --explain
recall FILE umbrella --why holidays#1
entry list FILE
entry show FILE 1
chat list FILE
chat show FILE last
chat tree FILE last
chat expand FILE last 1-4
chat context FILE last --budget 600
chat branches FILE last
artifact list FILE
artifact versions FILE 'list of things.md' --session last
artifact diff FILE 'list of things.md' --session last
item list FILE
item namespaces FILE
info FILE
stats FILE
settings FILE
space list FILE
check FILE
forget FILE --query umbrella --dry-run
secrets scan FILE
query FILE 'SELECT name, title FROM sessions_view'
""".strip().splitlines()


@pytest.fixture
def wordy(path: str, frozen: None) -> str:
    """Return the path of a file with long texts in every kind of thing."""
    with memdb.open(path) as db:
        ann = db.scope("ann")
        chat = ann.session("holidays")
        for number in range(8):
            text = f"Number {number}: we pack the umbrella for the holidays in Bergen. " * 4
            chat.append("user" if number % 2 else "assistant", text, author="Annabelle")
        chat.update(title="A conversation about the holidays in Bergen with a long title")
        chat.branch("another way of going there", 4, create=True)
        for number in range(3):
            told = f"Ann packs {number} umbrellas for the holidays in Bergen every year."
            ann.remember(told, category="preferences", key=f"umbrella_{number}")
        ann.remember("Ann packs no umbrella at all.", key="umbrella_0")
        ann.entries.update(ann.entries.list(order="created")[0].id, text="Ann packs a parasol " * 5)
        for text in ("umbrella\nboots\n", "an umbrella of a long description, and more\nboots\n"):
            chat.artifacts.save("list of things.md", text)
        ann.items.put(("notes", "trip"), "tent", {"text": "Pack the tent with the long poles."})
    return path


@each("line", LINES)
def test_no_line_is_wider_than_the_terminal(run, wordy, terminal, line):
    """But for one word that is wider, on a line of its own behind what leads it."""
    words = [wordy if word == "FILE" else word for word in shlex.split(line)]
    done = run(*words, env={"COLUMNS": "80"})

    assert done.exit_code in (0, 5, 7), done.output
    wide = [one for one in done.stdout.splitlines() if len(one) > 80]
    assert [one for one in wide if len(one.split()) > 2] == []
