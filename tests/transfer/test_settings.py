"""An export of a file has its settings; only a file without anything takes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

import memdb
from memdb import Category, MemDB


@pytest.fixture
def export(open_db: Callable[..., MemDB], tmp_path: Path) -> Path:
    """Return the export of a file with settings of its own."""
    path = tmp_path / "a.jsonl"
    with open_db(":memory:") as db:
        db.settings.update(entry_quota=77, categories=[Category("recipes", half_life_days=3)])
        db.scope("ann").remember("Ann bakes rye bread.", category="recipes")
        db.export(path)
        db.export(tmp_path / "ann.jsonl", user="ann")
    return path


def test_an_empty_file_takes_them(export: Path, open_db: Callable[..., MemDB]) -> None:
    """At once, and for good; its export is the same, byte for byte."""
    with open_db(":memory:") as db:
        report = db.import_file(export)

        assert report.settings_added == 2
        assert "2 settings" in str(report)
        assert db.settings.get().entry_quota == 77
        assert "recipes" in [one.name for one in db.settings.categories()]
        db.scope("ann").remember("Ann bakes carrot cake.", category="recipes")
        assert db.import_file(export).settings_added == 0
    with open_db(":memory:") as db:
        db.import_file(export)
        assert "\n".join(db.export_lines()) + "\n" == export.read_text(encoding="utf-8")


def test_others_keep_their_own(export: Path, open_db: Callable[..., MemDB]) -> None:
    """One with settings, one that holds something, and a scope that is filled."""
    with open_db(":memory:", settings={"entry_quota": 5}) as db:
        assert db.import_file(export).settings_added == 0
        assert db.settings.get().entry_quota == 5
    for user in ("bob", None):
        with open_db(":memory:") as db:
            if user is None:
                db.scope("eve").remember("Eve likes tea.")
            usual = db.settings.get()
            assert db.import_file(export, user=user).settings_added == 0
            assert db.settings.get() == usual


def test_the_export_of_a_user_has_none(export: Path) -> None:
    """They are of the file, not theirs."""
    assert '{"kind":"settings"' in export.read_text(encoding="utf-8")
    assert '{"kind":"settings"' not in (export.parent / "ann.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", ['"zork":1', '"entry_quota":-1', '"categories":[{"a":1}]'])
def test_what_is_no_setting_is_refused_with_its_line(
    field: str, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """Also where it would not be taken."""
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"kind":"memdb","export":1}}\n{{"kind":"settings",{field}}}\n')
    with open_db(":memory:") as db:
        with pytest.raises(memdb.InvalidInput, match="line 2"):
            db.import_file(path)
        assert db.settings.get() == memdb.Settings()


def test_plain_tables_have_no_settings(
    export: Path, open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """They are for other programs."""
    with open_db(":memory:") as db:
        db.import_file(export)
        db.export(tmp_path / "plain.db", format="sqlite")
