"""
The window of the newest messages within limits, and the cost of a message in one. Read only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import TooLarge
from memdb.models.messages import ContextWindow
from memdb.text.parts import bytes_of, kind_of, media_of, media_tokens, whole_text, without_media

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.models.messages import Message
    from memdb.text.tokens import Counting

# What a chat format adds to each message: role and separators.
# Source: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
MESSAGE_OVERHEAD_TOKENS = 4

# What to do where a budget cannot hold what it must.
LARGER = "give a larger budget_tokens"

FIRST_PAGE = 32


def cost_tokens(message: Message, counting: Counting) -> int:
    """Return the tokens of *message* in a window: its words, media and frame."""
    tokens = message.tokens
    if message.counter != counting.name:
        (tokens,) = counting.count_many([whole_text(message.text, message.parts)])
    return tokens + counting.extra_tokens(message.parts) + MESSAGE_OVERHEAD_TOKENS


class NewestMedia:
    """
    Keeps the newest images, sounds and files of messages within the limits of a budget.

    The others become text, `[image: name]`. Half of the budget is for media; all of it for media of
    the newest message.
    """

    def __init__(self, counting: Counting, budget_tokens: int) -> None:
        """Keep the messages that the settings of *counting* and *budget_tokens* allow."""
        self._counting = counting
        self._images = counting.settings.context_images
        self._bytes = counting.settings.context_media_bytes
        self._tokens = budget_tokens // 2
        self._newest_tokens = budget_tokens

    def views(self, page: Sequence[Message]) -> list[Message]:
        """
        Return views of the messages of a page, oldest first.

        Pages are read from the end backwards.
        """
        return [self._view(message) for message in reversed(page)][::-1]

    def _view(self, message: Message) -> Message:
        """Return *message*, or a view with labels for the media that are over a limit."""
        kept: set[int] = set()
        media = [*media_of(message.parts)] if message.parts else []
        for part in reversed(media):
            tokens = media_tokens(part, self._counting.settings, self._counting.name)
            size = len(bytes_of(part))
            is_image = kind_of(part) == "image"
            fits = tokens <= self._tokens and size <= self._bytes
            if (fits or tokens <= self._newest_tokens) and self._images >= is_image:
                kept.add(id(part))
                self._images -= is_image
                self._bytes -= size
                self._tokens -= tokens
                self._newest_tokens -= tokens
        self._newest_tokens = -1
        if len(kept) == len(media):
            return message
        return message.replace(parts=without_media(message.parts or (), kept))


def newest_within(
    read: Callable[[int, int | None], list[Message]],
    counting: Counting,
    *,
    last: int | None,
    budget_tokens: int | None,
) -> ContextWindow:
    """
    Return the newest messages within both limits, oldest first.

    A tool result whose call is before the window is left out, because models refuse it. Nothing
    else is skipped, so the window has no gap.

    Args:
        read: Returns the newest *n* messages before a seq (None means the end).
        last: Most messages; None means all that fit.
        budget_tokens: Most tokens, `MESSAGE_OVERHEAD_TOKENS` per message
            included; None means no limit.

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
