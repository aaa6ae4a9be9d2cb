"""
Windows: the newest messages that fit limits, by name of a strategy. Read only.

Each strategy is a pure function over messages, oldest first, that returns a
suffix of them; `STRATEGIES` names them for `Host(session).window`, which reads no
more rows than the suffix needs. A window begins with a unit (see
`memdb.conversations.tool_calls`): a tool result is never first, unless its call
does not exist. All but `none` begin with a user's message if there is one.

Source of the rules: the working memory of hector 1.40.2, section 19 of its
description; sizes that it replaced silently are refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.conversations.tool_calls import unit_starts, unknown_answers
from memdb.errors import InvalidInput, TooLarge
from memdb.models.ids import MAX_SEQ
from memdb.models.messages import ContextWindow
from memdb.models.record import Record
from memdb.models.settings import DEFAULTS
from memdb.text.parts import bytes_of, kind_of, media_of, media_tokens, payload_of, without_media
from memdb.text.validate import MANY, int_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memdb.models.messages import Message
    from memdb.models.settings import Settings
    from memdb.text.tokens import Counting

# What a chat format adds to each message: role and separators.
# Source: https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
MESSAGE_OVERHEAD_TOKENS = 4

# What to do where a budget cannot hold what it must.
LARGER = "give a larger budget_tokens"

FIRST_PAGE = 32

# The strategy of the session's metadata, under this key, else of the settings.
OF_SESSION = "session"
METADATA_KEY = "window"


def cost_tokens(message: Message, counting: Counting) -> int:
    """Return the tokens of *message* in a window: its words, its media and its frame."""
    tokens = message.tokens
    if message.counter != counting.name:
        (tokens,) = counting.count_many([said_by(message)])
    return tokens + counting.extra_tokens(message.parts) + MESSAGE_OVERHEAD_TOKENS


class NewestMedia:
    """
    Keeps the newest images, sounds and files of messages within the limits of a budget.

    The others become text, `[image: name]`. Half of the budget is for media, all of it
    for those of the newest message.
    """

    def __init__(self, counting: Counting, budget_tokens: int) -> None:
        """Keep the messages that the settings of *counting* and *budget_tokens* allow."""
        self._counting = counting
        self._images = counting.settings.context_images
        self._bytes = counting.settings.context_media_bytes
        self._tokens = budget_tokens // 2
        self._newest_tokens = budget_tokens

    def views(self, page: Sequence[Message]) -> list[Message]:
        """Return views of the messages of a page, oldest first; pages come from the end back."""
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


def said_by(message: Message) -> str:
    """Return the counted text of *message*: its text, and arguments and results of its tools."""
    if not message.parts:
        return message.text
    extra = payload_of(message.parts)
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
        read: Gives the newest *n* messages before a seq (None means the end).
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


def buffer_window(
    messages: Sequence[Message], last: int = DEFAULTS.window_messages
) -> list[Message]:
    """
    Return the newest *last* messages, begun with a user's message.

    Args:
        messages: Oldest first.
        last: From 1. Each message counts, tool traffic too. The window has
            more where `user_first` goes back; all if there are no more.

    Raises:
        InvalidInput: *last* is out of range.
    """
    return list(messages[_buffer_start(messages, _last_value(last)) :])


def token_window(
    messages: Sequence[Message],
    counting: Counting,
    budget_tokens: int = DEFAULTS.window_tokens,
    keep_last: int = DEFAULTS.window_keep_last,
) -> list[Message]:
    """
    Return the longest suffix that fits the budget, begun with a user's message.

    Args:
        messages: Oldest first; those without text count too.
        counting: The file's counter, see `cost_tokens`.
        budget_tokens: From 1. A suffix that costs exactly so much fits. Going
            back to the user's message (`user_first`) may cost more.
        keep_last: From 1. If fewer fit, the newest *keep_last* are returned,
            whatever they cost, from the start of their unit; then the first
            need not be a user's. *keep_last* messages or fewer come back as
            they are.

    Raises:
        InvalidInput: a number is out of range.
    """
    _budget_value(budget_tokens)
    _keep_value(keep_last)
    return list(messages[_token_start(messages, counting, budget_tokens, keep_last) :])


def none(messages: Sequence[Message]) -> list[Message]:
    """Return all *messages*."""
    return list(messages)


def user_first(messages: Sequence[Message], start: int) -> int:
    """
    Return where a window that should begin at *start* begins with the user.

    The latest place up to *start* that has a user's message and begins a unit,
    so never one after it; 0 if there is none. A *start* behind the end counts
    as the last message.
    """
    starts = set(unit_starts(messages))
    place = min(start, len(messages) - 1)
    while place > 0 and not (messages[place].role == "user" and place in starts):
        place -= 1
    return max(place, 0)


def _buffer_start(messages: Sequence[Message], last: int) -> int:
    if len(messages) <= last:
        return 0
    return user_first(messages, len(messages) - last)


def _token_start(
    messages: Sequence[Message], counting: Counting, budget_tokens: int, keep_last: int
) -> int:
    newest = len(messages) - keep_last
    if newest <= 0:
        return 0
    start, tokens = len(messages), 0
    while start > 0:
        tokens += cost_tokens(messages[start - 1], counting)
        if tokens > budget_tokens:
            break
        start -= 1
    if start > newest:
        return max(place for place in unit_starts(messages) if place <= newest)
    return user_first(messages, start)


class Source(Record):
    """
    Where a strategy gets its rows.

    Attributes:
        read: Gives the newest *n* messages before a seq (None means the end),
            oldest of them first.
        counting: The file's counter.
        settings: The numbers of the strategies.
        own: Returns what the session says of its window in its metadata,
            None without it.
        condensed: Gives the summary buffer for a budget and a progress callback.
    """

    read: Callable[[int, int | None], list[Message]]
    counting: Counting
    settings: Settings = DEFAULTS
    own: Callable[[], object] = type(None)
    condensed: Callable[..., ContextWindow] | None = None


class Strategy(Record):
    """
    A strategy as `Host(session).window` runs it.

    Attributes:
        run: Takes a `Source` and the options by name, checks them, and
            returns the window.
        options: Names of the arguments of `Host(session).window` that apply to it.
    """

    run: Callable[..., ContextWindow]
    options: tuple[str, ...]


def window_by(strategy: str | None, source: Source, given: Mapping[str, Any]) -> ContextWindow:
    """
    Return the window of the strategy called *strategy*.

    Args:
        strategy: A key of `STRATEGIES`; None means the newest messages within `last`
            and `budget_tokens`, without tool results whose call is missing;
            "session": what the session's metadata says, else the settings.
        source: The session.
        given: The options that the caller gave, by name; the others have the
            strategy's defaults.

    Raises:
        InvalidInput: no such strategy, an option that it has not, or a value
            out of range.
    """
    if strategy == OF_SESSION:
        strategy, given = _of_session(source, given)
    if strategy is None:
        refuse_others("a window without a strategy", ("last", "budget_tokens"), given)
        return _run_plain(source, **given)
    found = STRATEGIES.get(strategy) if isinstance(strategy, str) else None
    if found is None:
        raise InvalidInput(
            f"strategy is {strategy!r}: use one of {', '.join((*STRATEGIES, OF_SESSION))}"
        )
    refuse_others(f"strategy {strategy!r}", found.options, given)
    return found.run(source, **given)


def _of_session(source: Source, given: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """
    Return the strategy that a session names in its metadata, and its options.

    What the caller gives goes before what the session says.

    Raises:
        InvalidInput: the metadata names no strategy, or an option is no number.
    """
    own = source.own()
    if own is None:
        return source.settings.window_strategy, given
    wanted = dict(own) if isinstance(own, dict) else {"strategy": own}
    strategy = wanted.pop("strategy", source.settings.window_strategy)
    if strategy == OF_SESSION or not isinstance(strategy, str | None):
        raise InvalidInput(
            f"metadata['{METADATA_KEY}'] of the session is {own!r}: give a strategy, such as "
            '{"strategy": "token_window", "budget_tokens": 4000}'
        )
    return strategy, {**wanted, **given}


def refuse_others(what: str, options: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raise InvalidInput if *given* has a name that is not in *options*, those of *what*."""
    for name in given:
        if name not in options:
            raise InvalidInput(f"{name} does not apply to {what}: use {_listed(options)}")


def _listed(options: tuple[str, ...]) -> str:
    return " or ".join(options) or "no options"


def _run_plain(
    source: Source, last: int | None = None, budget_tokens: int | None = None
) -> ContextWindow:
    if last is not None:
        int_value(last, "last", 0, MAX_SEQ)
    if budget_tokens is not None:
        int_value(budget_tokens, "budget_tokens", 1, MANY)
    read = source.read if budget_tokens is None else _read_lean(source, budget_tokens).read
    return newest_within(read, source.counting, last=last, budget_tokens=budget_tokens)


def _read_lean(source: Source, budget_tokens: int) -> Source:
    """Return a source whose messages have no more media than a budget allows."""
    media = NewestMedia(source.counting, budget_tokens)
    return source.replace(read=lambda count, before: media.views(source.read(count, before)))


def _run_buffer(source: Source, last: int | None = None) -> ContextWindow:
    last = _last_value(source.settings.window_messages if last is None else last)
    kept = _read_back(source, lambda held: _buffer_start(held, last))
    return _window(kept, source.counting, None)


def _run_token(
    source: Source, budget_tokens: int | None = None, keep_last: int | None = None
) -> ContextWindow:
    rules, counting = source.settings, source.counting
    budget = _budget_value(rules.window_tokens if budget_tokens is None else budget_tokens)
    least = _keep_value(rules.window_keep_last if keep_last is None else keep_last)
    lean = _read_lean(source, budget)
    kept = _read_back(lean, lambda held: _token_start(held, counting, budget, least))
    return _window(kept, counting, budget)


def _run_none(source: Source) -> ContextWindow:
    return _window(source.read(MAX_SEQ, None), source.counting, None)


def _run_summary_buffer(
    source: Source,
    budget_tokens: int | None = None,
    progress: Callable[[str, str], object] | None = None,
) -> ContextWindow:
    assert source.condensed is not None
    budget = source.settings.window_tokens if budget_tokens is None else budget_tokens
    return source.condensed(_budget_value(budget), progress)


def _window(kept: list[Message], counting: Counting, budget_tokens: int | None) -> ContextWindow:
    tokens = sum(cost_tokens(message, counting) for message in kept)
    return ContextWindow(tuple(kept), tokens, budget_tokens)


def _read_back(source: Source, start_of: Callable[[list[Message]], int]) -> list[Message]:
    """
    Return the newest messages from where *start_of* begins in all of them.

    The newest rows decide alone once the start is not their first row and the
    call of each tool result behind it is among them. Until then the number of rows is doubled, so a
    result without a call makes it read back to the first message.
    """
    held: list[Message] = []
    size = FIRST_PAGE
    while True:
        page = source.read(size, held[0].seq if held else None)
        held = page + held
        start = start_of(held)
        known = start > 0 and all(place < start for place in unknown_answers(held))
        if known or len(page) < size:
            return held[start:]
        size = len(held)


def _last_value(last: int) -> int:
    return int_value(last, "last", 1, MAX_SEQ)


def _budget_value(budget_tokens: int) -> int:
    return int_value(budget_tokens, "budget_tokens", 1, MANY)


def _keep_value(keep_last: int) -> int:
    return int_value(keep_last, "keep_last", 1, MAX_SEQ)


# By the name that `Host(session).window` takes. A new strategy is a line here.
STRATEGIES = {
    "none": Strategy(_run_none, ()),
    "buffer_window": Strategy(_run_buffer, ("last",)),
    "token_window": Strategy(_run_token, ("budget_tokens", "keep_last")),
    "summary_buffer": Strategy(_run_summary_buffer, ("budget_tokens", "progress")),
}
