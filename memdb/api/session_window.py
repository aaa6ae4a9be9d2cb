"""
Which of the newest messages a model is handed: the ways of `Session.window`.
"""

from __future__ import annotations

from memdb.text.validate import int_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.api._container import Rooms
    from memdb.models.messages import ContextWindow
    from memdb.records.scopes import Owner

MAX_COUNT = (1 << 24) - 1


def window(
    rooms: Rooms, owner: Owner, session: str, strategy: str | None, **options: Any
) -> ContextWindow:
    """Return the window of a session by *strategy*; see `Session.window`."""
    from memdb.conversations.windows import Source, newest_within, refuse_others, window_by

    given = {name: value for name, value in options.items() if value is not None}
    conversations = rooms.conversations
    source = Source(
        lambda count, before: conversations.last(owner, session, count, before),
        rooms.counting,
        lambda budget, tell: rooms.contexts.summary_buffer(owner, session, budget, tell),
    )
    if strategy is not None:
        return window_by(strategy, source, given)
    refuse_others("a window without a strategy", ("last", "budget_tokens"), given)
    last, budget_tokens = given.get("last"), given.get("budget_tokens")
    if last is not None:
        int_value(last, "last", 0, MAX_COUNT)
    if budget_tokens is not None:
        int_value(budget_tokens, "budget_tokens", 1, 1 << 62)
    return newest_within(source.read, source.counting, last=last, budget_tokens=budget_tokens)
