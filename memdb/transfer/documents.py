"""
Exports for people: Markdown, one HTML page, and a table as CSV.

A writer yields the text of a file from the lines of an export, one line at a time. The file
gets its name when it is whole.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from memdb.text.validate import choice_value, path_value
from memdb.transfer.export import PROGRESS_LINES, list_lines
from memdb.transfer.files import whole_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from memdb.engine.base import Engine
    from memdb.records.scopes import ScopeRef

    Writer = Callable[[Iterable[dict[str, Any]]], Iterator[str]]

# The modules of `memdb.formats.writers` with a function `write`.
WRITERS = ("markdown", "html", "csv")

# Lines that say nothing to a reader.
UNSHOWN = frozenset({"memdb", "settings", "artifact_part", "artifact_name", "tombstone", "end"})


def write_document(
    db: Engine,
    owners: Sequence[ScopeRef],
    path: str | os.PathLike[str],
    format: str,  # noqa: A002 (the word that users of files use)
    *,
    replace: bool = False,
    progress: Callable[[int], object] | None = None,
) -> int:
    """
    Write everything of *owners* to *path* for people to read; return how many records.

    Args:
        format: One of `WRITERS`.
        replace: Overwrite a file that is there.
        progress: Called with the number of records so far, every 1,000.

    Raises:
        InvalidInput: there is no such format.
        AlreadyExists: something is at *path*, and *replace* is False.
        FileError: *path* cannot be written, or is a database.
    """
    name = choice_value(format, "format", WRITERS)
    write: Writer = import_module(f"memdb.formats.writers.{name}").write
    count = 0

    def counted(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        nonlocal count
        for line in lines:
            if line["kind"] not in UNSHOWN:
                count += line["kind"] != "scope"
                yield line
                if progress is not None and count % PROGRESS_LINES == 0:
                    progress(count)

    with whole_file(db, path_value(path), replace=replace) as file, db.read() as tx:
        lines = list_lines(tx, owners, embeddings=False, with_settings=False)
        for text in write(counted(lines)):
            file.write(text.encode())
    return count
