"""Files that are whole or not there: one module knows how they are written."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

import pytest
from source_tree import FILES, nodes_of

from memdb.engine.files import PARTIAL, private_file, whole_path
from memdb.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path


def test_no_other_module_names_a_file_that_is_not_whole_yet() -> None:
    """It asks for the path, or for the open file; a text of help may speak of it."""
    naming = [
        file
        for file in FILES
        for node in nodes_of(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.endswith(PARTIAL)
    ]

    assert naming == ["engine/files.py"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path, fails: bool) -> None:
    """And nothing is left beside it, also of a run that was killed before."""
    target = tmp_path / "a.db"
    left = ["a.db", "a.db-wal", "a.db.partial", "a.db.partial-journal"]
    for name in left:
        (tmp_path / name).write_text("old")

    def write() -> None:
        with whole_path(target) as partial:
            assert not os.path.exists(partial)
            with open(partial, "x") as file:
                file.write("new")
            if fails:
                raise KeyError

    if fails:
        with pytest.raises(KeyError):
            write()
    else:
        write()

    assert target.read_text() == ("old" if fails else "new")
    assert sorted(os.listdir(tmp_path)) == (["a.db", "a.db-wal"] if fails else ["a.db"])


def test_a_text_file_takes_nothing_from_its_neighbours(tmp_path: Path) -> None:
    """Only what SQLite would read beside a database goes."""
    (tmp_path / "a.txt-wal").write_text("mine")
    with private_file(tmp_path / "a.txt") as file:
        file.write(b"new")

    assert sorted(os.listdir(tmp_path)) == ["a.txt", "a.txt-wal"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """By the name that was asked for."""
    with (
        pytest.raises(FileError, match=r"none/a.db cannot be written"),
        private_file(tmp_path / "none" / "a.db"),
    ):
        pass
