"""A newer memdb migrates a file or database that an older one has open: the older one writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from writes import WRITES

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB

# Writes of other files than the one that is open.
ELSEWHERE = ("backup", "create a file", "migrate", "restore", "recover")


def test_no_public_write_reaches_a_file_that_a_newer_program_migrated(
    opened: Callable[[str], MemDB], dump: Any, set_format: Callable[[MemDB, int], None]
) -> None:
    """Each call that would change a row raises SchemaTooNew; afterwards the file is as it was."""
    db = opened("agent.db")
    db.scope("ann").session("trip").append("user", "this handle has written")
    before = dump(db.path)
    set_format(db, 99)
    not_refused = set()
    for name in [name for name in WRITES if name not in ELSEWHERE]:
        try:
            WRITES[name].act(db)
            not_refused.add(name)
        except memdb.SchemaTooNew:
            continue

    assert not_refused <= {name for name, write in WRITES.items() if write.optional}
    assert dump(db.path) == before
    set_format(db, 1)
    assert db.scope("ann").session("trip").append("user", "the old format again").seq
