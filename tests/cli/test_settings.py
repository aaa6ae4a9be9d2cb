"""`memdb settings`: shown, changed, written as TOML and read from it."""

import json
from pathlib import Path
from typing import Any

import pytest

import memdb


@pytest.fixture
def file(path: str) -> str:
    """Return the path of a file without settings of its own."""
    memdb.open(path, durability="process").close()
    return path


def test_each_setting_is_shown_with_its_default(run: Any, file: str) -> None:
    """In groups, each with what it means; as JSON and TOML; --changed leaves out defaults."""
    rows = [line.split(maxsplit=4) for line in run("settings", file).stdout.splitlines()]
    shown = json.loads(run("settings", file, "--json").stdout)

    assert sorted(row[1] for row in rows) == sorted(memdb.Settings._fields)
    assert len({row[0] for row in rows}) == 5
    assert all(row[4][:4] == "... " or row[4][0].isupper() for row in rows), rows
    assert ["entries", "entry_quota", "1,000", "1,000"] in [row[:4] for row in rows]
    assert shown == memdb.Settings().to_dict()
    assert run("settings", file, "--changed").stderr == "All are as by default.\n"


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ("entry_quota=1_500", "entry_quota", 1_500),
        ("extract=True", "extract", True),
        ("session_retention=forget", "session_retention", "forget"),
        ("context_categories=events, project", "context_categories", ("events", "project")),
        ("extract_categories=all", "extract_categories", None),
        ("session_max_count=never", "session_max_count", None),
        ("summary_prompt=Be brief = short.", "summary_prompt", "Be brief = short."),
        ("counter=gpt-4o", "counter", "gpt-4o"),
    ],
)
def test_a_setting_is_set_for_every_opener(
    run: Any, file: str, given: str, field: str, value: Any
) -> None:
    """What was set is shown, and kept."""
    result = run("settings", file, "--set", given)

    assert result.exit_code == 0
    assert result.stdout.split()[1] == field
    with memdb.open(file) as db:
        assert getattr(db.settings.get(), field) == value


def test_toml_goes_round(run: Any, file: str, tmp_path: Path) -> None:
    """What --toml prints, --from takes; --reset gives the default back."""
    run("settings", file, "--set", "entry_quota=7", "--set", "extract=true")
    text = run("settings", file, "--toml").stdout
    (tmp_path / "s.toml").write_text(text + '\n[[categories]]\nname = "recipes"\n')
    other = str(tmp_path / "other.db")
    memdb.open(other, durability="process").close()

    changed = run("settings", other, "--from", tmp_path / "s.toml")
    reset = run("settings", other, "--reset", "entry_quota")

    for line, row in zip(
        changed.stdout.splitlines(),
        (
            "entries categories 1 category -",
            "entries entry_quota 7 1,000",
            "extraction extract true -",
        ),
        strict=True,
    ):
        assert " ".join(line.split()).startswith(row)
    assert reset.stdout.split()[:4] == ["entries", "entry_quota", "1,000", "1,000"]
    with memdb.open(other) as db:
        assert db.settings.get() == memdb.Settings(
            extract=True, categories=(memdb.Category("recipes"),)
        )


@pytest.mark.parametrize(
    ("args", "code", "why"),
    [
        (("--set", "entry_quota"), 2, "write NAME=VALUE"),
        (("--set", "entry_quota=many"), 5, "entry_quota is 'many': give an int"),
        (("--set", "extract=perhaps"), 5, "extract is 'perhaps'"),
        (("--set", "dream=1"), 5, "no field 'dream'"),
        (("--reset", "dream"), 5, "no field 'dream'"),
        (("--set", "categories=events"), 5, "--from"),
        (("--set", "summary_group=6"), 5, "summary_condense_at"),
        (("--from", "absent.toml"), 5, "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(
    run: Any, file: str, args: tuple[str, ...], code: int, why: str
) -> None:
    """And nothing changes."""
    result = run("settings", file, *args)

    assert (result.exit_code, result.stdout) == (code, "")
    assert why in result.stderr
    with memdb.open(file) as db:
        assert db.settings.get() == memdb.Settings()


def test_toml_is_not_json(run: Any, file: str) -> None:
    """The error of asking for both is JSON, as that of any other command with --json."""
    result = run("settings", file, "--toml", "--json")

    assert (result.exit_code, result.stderr) == (2, "")
    message = json.loads(result.stdout)["error"]["message"]
    assert message == "--toml and --json cannot be used together."


def test_a_file_that_is_absent_is_not_made(run: Any, tmp_path: Path) -> None:
    """Neither by showing nor by setting."""
    for args in ((), ("--set", "extract=true")):
        assert run("settings", tmp_path / "no.db", *args).exit_code != 0
    assert [*tmp_path.iterdir()] == []
