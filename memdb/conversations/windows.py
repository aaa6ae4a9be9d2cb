"""
Windows: the newest messages that fit. Reads rows, never changes any.
"""

from __future__ import annotations

from memdb.errors import TooLarge
from memdb.models.messages import ContextWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.models.messages import Message
    from memdb.text.tokens import Counting

# What a chat format adds to each message: role and separators.
# Source: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
MESSAGE_OVERHEAD_TOKENS = 4

# What to do where a budget cannot hold what it must.
LARGER = "give a larger budget_tokens"

FIRST_PAGE = 32


def cost_tokens(message: Message, counting: Counting) -> int:
    """Return what *message* costs in a window, by the file's counter."""
    tokens = message.tokens
    if message.counter != counting.name:
        (tokens,) = counting.count_many([said_by(message)])
    return tokens + MESSAGE_OVERHEAD_TOKENS


def said_by(message: Message) -> str:
    """Return what is counted of *message*: its text, and what its tools were told and gave."""
    if not message.body:
        return message.text
    from memdb.text.derived import payload_of  # only for such messages

    extra = payload_of(message.body)
    return message.text if extra in ("", message.text) else f"{message.text}\n{extra}"


def newest_within(
    read: Callable[[int, int | None], list[Message]],
    counting: Counting,
    *,
    last: int | None,
    budget_tokens: int | None,
) -> ContextWindow:
    """
    Return the newest messages that keep to both limits, oldest of them first.

    A tool result whose call lies before the window is left out: models refuse
    it. Nothing else is skipped, so the window has no hole.

    Args:
        read: Gives the newest *n* messages before a seq (None: the end).
        last: Most messages; None: all that fit.
        budget_tokens: Most tokens, `MESSAGE_OVERHEAD_TOKENS` per message
            included; None: no limit.

    Raises:
        TooLarge: the newest message alone is over *budget_tokens*.

    Cost: reads pages of growing size from the end, no more than needed.
    """
    kept: list[Message] = []
    tokens = 0
    page_size = FIRST_PAGE
    before: int | None = None
    full = last == 0
    while not full:
        page = read(page_size, before)
        for message in reversed(page):
            cost = cost_tokens(message, counting)
            if budget_tokens is not None and tokens + cost > budget_tokens:
                if not kept:
                    raise TooLarge("tokens of the newest message", budget_tokens, cost, LARGER)
                full = True
                break
            kept.append(message)
            tokens += cost
            if len(kept) == last:
                full = True
                break
        full = full or len(page) < page_size
        before = page[0].seq if page else before
        page_size = min(page_size * 2, 512)
    while kept and kept[-1].role == "tool":
        tokens -= cost_tokens(kept.pop(), counting)
    return ContextWindow(tuple(reversed(kept)), tokens, budget_tokens)
