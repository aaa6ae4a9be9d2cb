"""
Compacting a session: everything that was said stays readable.

Its summaries are finished, what can be made again is dropped, what is cold is
compressed.
"""

from __future__ import annotations

from memdb.conversations.reader import find_session
from memdb.models.ids import MAX_SEQ
from memdb.models.summaries import Compacted
from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.conversations.archive import Archivist
    from memdb.engine.sqlite.database import Database
    from memdb.records.scopes import Owner
    from memdb.summaries.builder import Summaries


def compact(
    db: Database,
    summaries: Summaries,
    archivist: Callable[[], Archivist],
    owner: Owner,
    session: str,
    *,
    keep_last: int | None,
    progress: Callable[[str, str], object] | None,
) -> Compacted:
    """
    Compact a session; see `Session.compact`.

    Raises:
        PortError: a model failed on a summary. All else was done.
    """
    if keep_last is not None:
        int_value(keep_last, "keep_last", 0, MAX_SEQ)
    tell = progress or (lambda _status, _message: None)
    with db.read() as tx:
        target = find_session(tx, owner, session)
    if target is None:
        return Compacted(0, 0, 0)
    tell("active", f"Summarising {session}")
    summarized, run = summaries.catch_up(target, progress)
    tell("active", f"Dropping what can be made again in {session}")
    pruned = summaries.prune(target)
    archived = 0
    if keep_last is not None:
        tell("active", f"Archiving {session}")
        archived = archivist().archive(owner, session, keep_last).messages
    if run.first is not None:
        tell("error", str(run.first))
        raise run.first
    tell("done", f"{session} is compact")
    return Compacted(summarized, pruned, archived)
