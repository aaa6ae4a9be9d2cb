"""
Background work: what is asked of it, and the policies of what it archives and removes.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Kinds of work, in the order in which they are done.
WORK = ("embed", "summarize", "extract")


class WorkRequest(Record):
    """
    How much work to do, and who is called meanwhile.

    Attributes:
        limit: Stop after about this many pieces; None means all of them.
        progress: Called after each batch with its number of pieces.
        status: Called with ("active", what is done) before a model is asked.
        early: Also what failed and waits to be tried again, and sessions that
            still get messages.
        cancelled: Called between pieces, and while a model answers.
    """

    limit: int | None = None
    progress: Callable[[int], object] | None = None
    status: Callable[[str, str], object] | None = None
    early: bool = True
    cancelled: Callable[[], bool] | None = None

    @property
    def stopped(self) -> bool:
        """Whether the caller has cancelled."""
        return self.cancelled is not None and self.cancelled()


class SessionPolicy(Record):
    """
    Limits of a session, and what happens to one that exceeds them.

    Attributes:
        max_age_ms: Milliseconds since it was created; None means no limit.
        max_idle_ms: Milliseconds since a message was last added or removed;
            None means no limit.
        max_count: Sessions per scope; those longest without a message exceed
            it first. None means no limit.
        action: "archive" keeps every word, compressed; "delete" does what
            `Session.delete` does, and "forget" what `Scope.forget` does.
    """

    max_age_ms: int | None = None
    max_idle_ms: int | None = None
    max_count: int | None = None
    action: str = "archive"


class UpkeepPolicy(Record):
    """
    What a worker removes; the default is nothing.

    Attributes:
        inactive_ms: Entries that have been inactive for longer are removed
            with their history; None means never. A year is usual.
        sessions: Which sessions are archived or removed; None means none.
    """

    inactive_ms: int | None = None
    sessions: SessionPolicy | None = None


def checked_upkeep(policy: object) -> UpkeepPolicy:
    """
    Return *policy* if it is valid.

    Raises:
        InvalidInput: it is no UpkeepPolicy, or a field is out of its range.
    """
    from memdb.models.ids import MAX_INT
    from memdb.text.validate import int_value

    if not isinstance(policy, UpkeepPolicy):
        raise InvalidInput(f"upkeep is {policy!r}: give an UpkeepPolicy, or None")
    if policy.inactive_ms is not None:
        int_value(policy.inactive_ms, "upkeep.inactive_ms", 0, MAX_INT)
    if policy.sessions is not None and not isinstance(policy.sessions, SessionPolicy):
        raise InvalidInput(f"upkeep.sessions is {policy.sessions!r}: give a SessionPolicy, or None")
    return policy
