"""Each public call is in the list of writes, or in that of reads; each write does write."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from writes import CLASSES, PLACES, READS, WRITES, every_write, public_calls

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB


class Undone(Exception):
    """What a test ends a transaction with."""


COVERED = {name for write in WRITES.values() for name in write.covers}
KNOWN_READS = {f"{owner}.{name}" for owner, names in READS.items() for name in names.split()}


def test_every_public_call_is_a_write_or_a_read_of_the_lists() -> None:
    """A new call is in one of them, so that no write is left out of the tests of faults."""
    assert public_calls() - COVERED - KNOWN_READS == set()


def test_the_lists_name_nothing_that_is_gone() -> None:
    """And no call is in both."""
    assert (COVERED | KNOWN_READS) - public_calls() - {"Transaction"} == set()
    assert set() == COVERED & KNOWN_READS


def test_the_classes_are_all_that_a_memdb_leads_to() -> None:
    """No public class of memdb.api is left out."""
    public = {
        value
        for module in map(importlib.import_module, PLACES)
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and not issubclass(value, Exception)
        and not any(value is not one and issubclass(value, one) for one in CLASSES)
    }
    assert public - set(CLASSES) == set()


@every_write(3)
def test_a_write_changes_rows_and_leaves_the_file_sound(
    opened: Callable[[str], MemDB], dump: Any, name: str
) -> None:
    """Otherwise a test that it is whole or undone would prove nothing."""
    db = opened("agent.db")
    write = WRITES[name]
    write.arrange(db)
    before = write.visible(dump(db.path))

    write.act(db)

    assert (write.visible(dump(db.path)) == before) == write.unchanging
    assert db.file.check(deep=True) == []


@every_write(3)
def test_a_write_goes_with_the_transaction_around_it(
    opened: Callable[[str], MemDB], dump: Any, name: str
) -> None:
    """It is undone with it, or says that it has no place there."""
    db = opened("agent.db")
    write = WRITES[name]
    write.arrange(db)
    before = write.visible(dump(db.path))

    with contextlib.suppress(Undone), db.transaction():
        try:
            write.act(db)
        except memdb.InvalidInput as error:
            assert "inside a transaction: call it after" in str(error)  # noqa: PT017 (or nothing)
        raise Undone

    assert write.visible(dump(db.path)) == before
    assert db.file.check(deep=True) == []


def test_memdb_has_no_other_module_of_writes() -> None:
    """What `import memdb` gives as functions is walked too."""
    functions = {name for name in memdb.__all__ if inspect.isfunction(getattr(memdb, name))}

    assert functions - {"open"} == set()
