"""
Session retention: archive, delete or forget sessions by age, idle time and count.

Off unless a policy is given, because nothing stored is lost without being asked.
"""

from __future__ import annotations

from memdb.deletion.selectors import select
from memdb.models.ids import MAX_INT
from memdb.records.scopes import Owner
from memdb.tables import scopes
from memdb.text.validate import choice_value, int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.conversations.archive import Archivist
    from memdb.conversations.reader import Conversations
    from memdb.deletion.service import DeletionService
    from memdb.engine.base import Engine
    from memdb.models.jobs import SessionPolicy
    from memdb.models.messages import SessionInfo

ACTIONS = ("archive", "delete", "forget")


def retain_sessions(
    db: Engine,
    reader: Conversations,
    archivist: Archivist,
    deletion: DeletionService,
    policy: SessionPolicy,
) -> list[tuple[str, str, str]]:
    """
    Archive, delete or forget the sessions that *policy* does not keep, in all scopes.

    Returns:
        (app, user, session) of each that changed, least recently used first.

    Raises:
        InvalidInput: a limit is below 0, or the action is none.
    """
    choice_value(policy.action, "action", ACTIONS)
    for field in ("max_age_ms", "max_idle_ms", "max_count"):
        value = getattr(policy, field)
        if value is not None:
            int_value(value, field, 0, MAX_INT)
    with db.read() as tx:
        owners = [Owner(db, app, user) for _, app, user in scopes.list_all(tx)]
    found = [
        (owner, info.name)
        for owner in owners
        for info in due(reader.sessions(owner), policy, db.clock())
    ]
    changed = []
    for owner, name in found:
        if policy.action == "archive":
            done = archivist.archive(owner, name, keep_last=0).messages
        elif policy.action == "delete":
            done = deletion.delete(owner, select(session=name)).removed["sessions"]
        else:
            done = deletion.forget(owner, select(session=name)).removed["sessions"]
        if done:
            changed.append((owner.app, owner.user, name))
    return changed


def due(infos: list[SessionInfo], policy: SessionPolicy, now_ms: int) -> list[SessionInfo]:
    """Return the sessions of a scope that *policy* does not keep, least recently used first."""
    by_use = sorted(infos, key=lambda info: (info.updated_ms, info.name))
    over = 0 if policy.max_count is None else max(0, len(by_use) - policy.max_count)
    return [
        info
        for place, info in enumerate(by_use)
        if place < over
        or (policy.max_age_ms is not None and now_ms - info.created_ms > policy.max_age_ms)
        or (policy.max_idle_ms is not None and now_ms - info.updated_ms > policy.max_idle_ms)
    ]
