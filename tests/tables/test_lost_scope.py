"""What a lost row of `scopes` does."""

import contextlib
from collections.abc import Callable

import pytest

import memdb
from memdb import MemDB
from memdb.tables import scopes


def test_a_scope_that_is_lost_is_said(open_db: Callable[..., MemDB]) -> None:
    """A damaged file names what to run; it is no AssertionError."""
    db = open_db(":memory:", embedder=None)
    with contextlib.ExitStack() as stack:
        tx = stack.enter_context(db._db.write())
        for read in (scopes.identity, scopes.next_id):
            with pytest.raises(memdb.Corrupt, match="scope 7 is lost"):
                read(tx, 7)
