"""Long answers on a terminal: page by page, unless nobody wants that."""

from __future__ import annotations

import sys

import pytest

import memdb


@pytest.fixture
def long(path: str, frozen: None) -> str:
    """Return the path of a file with 60 entries."""
    with memdb.open(path) as db:
        for number in range(60):
            db.scope("ann").remember(f"Ann has seat {number}.")
    return path


@pytest.fixture
def pager(tmp_path) -> dict[str, str]:
    """Return an environment whose pager marks what it shows; the terminal has 24 lines."""
    program = tmp_path / "pager.py"
    program.write_text("import sys\nprint('PAGED')\nsys.stdout.write(sys.stdin.read())\n")
    return {"PAGER": f"{sys.executable} {program}", "TERM": "xterm", "LINES": "24"}


@pytest.mark.parametrize(
    ("words", "is_paged"),
    [
        (("entry", "list", "FILE"), True),
        (("entry", "list", "FILE", "--limit", "5"), False),
        (("entry", "list", "FILE", "--no-pager"), False),
        (("--no-pager", "entry", "list", "FILE"), False),
        (("entry", "list", "FILE", "--json"), False),
    ],
    ids=str,
)
def test_a_pager_for_what_is_higher_than_the_terminal(in_terminal, long, pager, words, is_paged):
    """What fits is printed at once; --json and --no-pager never wait for a key."""
    line = [long if word == "FILE" else word for word in words]
    code, said = in_terminal(*line, env=pager)

    assert code == 0
    assert ("PAGED" in said) == is_paged
    assert "Ann has seat 4." in said


def test_a_pager_that_the_config_switches_off(in_terminal, long, pager, tmp_path):
    """`pager = false` holds for every command."""
    config = tmp_path / "config.toml"
    config.write_text(f"pager = false\nfile = '{long}'\n")
    code, said = in_terminal("entry", "list", env=pager | {"MEMDB_CONFIG": str(config)})

    assert code == 0
    assert "PAGED" not in said
    assert "Ann has seat 59." in said


def test_no_pager_in_a_pipe(start, long, pager):
    """A program reads all of it."""
    out, _ = start("entry", "list", long, env=pager).communicate()

    assert out.count(b"Ann has seat") == 60
    assert b"PAGED" not in out


def test_a_pager_that_is_left_early_is_no_error(in_terminal, long, pager):
    """The exit code is that of the command."""
    env = pager | {"PAGER": f"{sys.executable} -c pass"}
    assert in_terminal("entry", "list", long, env=env)[0] == 0
