"""What the command line prints: tables, times, sizes and colours."""

from __future__ import annotations

import pytest

from memdb.cli import output
from memdb.cli.output import Column


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, ""),
        (0, "1970-01-01 00:00"),
        (1_741_598_099_999, "2025-03-10 09:14"),
        (-1, "1969-12-31 23:59"),
        (-62_135_596_800_000, "0001-01-01 00:00"),
        (253_402_300_799_999, "9999-12-31 23:59"),
    ],
)
def test_times_are_utc_minutes(ms, shown):
    """Every time that can be stored is shown as UTC, cut to the minute."""
    assert output.when(ms) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (71_117, "71.1 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_for_a_person(count, shown):
    """Bytes are shown in powers of a thousand."""
    assert output.size(count) == shown


@pytest.mark.parametrize(
    ("text", "width"),
    [("tea", 3), ("绿茶", 4), ("é", 1), ("e\u0301", 1), ("a\u200bb", 2), ("🍵", 2)],
)
def test_width_on_the_screen(text, width):
    """Wide characters take two columns, combining ones none."""
    assert output.width_of(text) == width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("green tea", 9, "green tea"),
        ("green tea", 8, "green…"),
        ("greentea", 7, "greent…"),
        ("green tea", 7, "green…"),
        ("绿茶很好喝", 10, "绿茶很好喝"),
        ("绿茶很好喝", 9, "绿茶很好…"),
        ("绿茶很好喝", 8, "绿茶很…"),
    ],
)
def test_shortened_texts_fit(text, width, shown):
    """A text that is too wide ends in one mark behind a word, and never exceeds the width."""
    assert output.shorten(text, width) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo\tthree", "one two three"),
        ("a\r\n\u2028b", "a b"),
        ("\x1b[31mred\x07", "�[31mred�"),
        ("left\u202eright", "left�right"),
        ("non\u00a0breaking  两个", "non breaking 两个"),
    ],
)
def test_a_cell_is_one_clean_line(text, shown):
    """Line ends and tabs become spaces, control characters a mark."""
    assert output.one_line(text) == shown


def test_piped_tables_cut_nothing(capsys, monkeypatch):
    """Without a terminal a long cell stays whole and does not push the others away."""
    rows = [("a" * 50, "x"), ("b", "y")]
    output.print_table([Column("ONE"), Column("TWO")], rows)

    assert capsys.readouterr().out == f"{'a' * 50}  x\nb{' ' * 39}  y\n"


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (80, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  bbbbbbbbbbbb"),
        (60, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…  bbbbbbbbbbbb"),
        (40, "aaaaaaaaaaaaaaaaaaaaaaaaa…  bbbbbbbbbbbb"),
    ],
)
def test_terminal_tables_fit(capsys, monkeypatch, columns, line):
    """On a terminal the widest column that may be cut is cut first."""
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    cut = [Column("ONE"), Column("TWO")]
    output.print_table(cut, [("a" * 60, "b" * 12)], titles=False)

    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize(
    ("environment", "heading"),
    [
        ({"TERM": "xterm"}, "\x1b[1mSESSION  MESSAGES  CREATED           CHANGED\x1b[0m\n"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "SESSION  MESSAGES  CREATED           CHANGED\n"),
        ({"TERM": "dumb"}, "SESSION  MESSAGES  CREATED           CHANGED\n"),
    ],
    ids=["colour", "NO_COLOR", "dumb"],
)
def test_colours_only_where_they_are_wanted(in_terminal, trip, environment, heading):
    """A terminal gets a bold heading, unless NO_COLOR or TERM=dumb says not to."""
    code, said = in_terminal("chat", "list", trip, env=environment)

    assert code == 0
    assert said.startswith(heading)


def test_no_colours_in_a_pipe(start, trip):
    """Piped output has no escape sequence, even from a terminal program."""
    out, _ = start("entry", "show", trip, "home_city", env={"TERM": "xterm"}).communicate()

    assert b"\x1b" not in out
