"""
Truncation of messages that are too large for a context: beginning, marked gap, end.

Stored messages do not change. The mark says how to read the whole message.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from memdb.conversations.tool_calls import answer_ids, call_ids
from memdb.conversations.windows import LARGER, MESSAGE_OVERHEAD_TOKENS, cost_tokens
from memdb.errors import TooLarge
from memdb.search.words import terms_of
from memdb.text.parts import (
    content_text,
    json_text,
    kind_of,
    part_text,
    text_of,
    text_value,
    whole_text,
    without_media,
    without_original,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.models.messages import Hit, Message
    from memdb.text.tokens import Counting

# A message is never shortened to fewer tokens than this, its overhead included.
LEAST_TOKENS = 12

# Thirds of the kept characters that come from the beginning, which names the subject.
HEAD_THIRDS = 2

GAP = " […] "
# It names no tool: hosts choose the names of theirs.
GAP_NAMED = " [… expand {seq} to read all …] "

# From this many tokens on, the gap names the message to expand.
NAMED_FROM_TOKENS = 48


# A message of more characters than a budget has tokens would take a quarter of it. Characters of
# a third of the passage that is shown of it, and of a text that are looked at.
THIRD = 120
MOST_CHARS = 100_000


def in_part(hit: Hit, asked: Sequence[str], budget_tokens: int) -> Hit:
    """Return a hit with the passage of a very long text that has most of the words *asked*."""
    if len(hit.text) <= max(budget_tokens, 6 * THIRD):
        return hit
    text, held = f" {hit.text[:MOST_CHARS]} ", dict[int, set[str]]()
    lowered = text.lower()
    for part in {part for word in asked for part in (word, *terms_of(word))}:
        for found in re.finditer(re.escape(part), lowered):
            held.setdefault(found.start() // THIRD, set()).add(part)
    both = {third: len(some | held.get(third + 1, set())) for third, some in held.items()}
    start = THIRD * max(sorted(both), key=lambda third: both[third], default=0)
    passage = text[max(start - THIRD, 0) : start + 2 * THIRD]
    # No word is cut in two, if spaces tell.
    whole = passage[passage.find(" ", 0, THIRD) + 1 : passage.rfind(" ", THIRD)]
    return hit.replace(text=f"{GAP}{whole}{GAP}".strip())


def shorten(
    unit: Sequence[Message], room: int, counting: Counting, budget_tokens: int
) -> list[Message]:
    """
    Return views of *unit* that cost *room* tokens at most, overheads included.

    The largest are cut first, down to a common size; the others stay unchanged.
    A tool call without room is removed together with its results.

    Args:
        budget_tokens: The whole budget; the rest of the context leaves *room* of it.

    Raises:
        TooLarge: not even views of `LEAST_TOKENS` fit; the error names a sufficient budget.
    """
    costs = [cost_tokens(message, counting) for message in unit]
    cap = _cap(costs, room)
    if cap < LEAST_TOKENS and any(cost > cap for cost in costs):
        least = sum(min(cost, LEAST_TOKENS) for cost in costs)
        what = "tokens of the newest message with its tool calls and what names the others"
        raise TooLarge(what, budget_tokens, budget_tokens - room + least, LARGER)
    views = [
        message if cost <= cap else _view(message, cap - MESSAGE_OVERHEAD_TOKENS, counting)
        for message, cost in zip(unit, costs, strict=True)
    ]
    gone = {tool_id for one in unit for tool_id in _tool_ids(one)}
    gone -= {tool_id for one in views for tool_id in _tool_ids(one)}
    gone |= {tool_id for one, view in zip(unit, views, strict=True) for tool_id in _tool_ids(one)
             if view.parts is None}  # fmt: skip
    return views if not gone else _without_tools(views, gone, counting)


def _tool_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls in a message, and of the calls that it answers."""
    return [*call_ids(message), *answer_ids(message)]


def _without_tools(views: list[Message], gone: set[str], counting: Counting) -> list[Message]:
    """Return *views* without the calls in *gone* and their results, which belong together."""
    kept = []
    for view in views:
        if not gone.intersection(_tool_ids(view)):
            if view.role != "tool" or view.parts is not None:
                kept.append(view)
            continue
        parts = [part for part in view.parts or () if not _is_of(part, gone)]
        if view.role != "tool" or any(map(kind_of, parts)):
            told = view.text if view.role != "tool" else text_of(parts)
            kept.append(_counted(view.replace(text=told, parts=parts or None), counting))
    return kept


def _is_of(part: Any, ids: set[str]) -> bool:
    kind = kind_of(part)
    field = {"tool_call": "id", "tool_result": "tool_call_id"}.get(kind)
    return field is not None and part.get(field) in ids


def _cap(costs: list[int], room: int) -> int:
    """
    Return the largest cap for which the costs sum up to *room* at most.

    >>> _cap([10, 500, 100], 130)
    60
    """
    left, count = room, len(costs)
    for cost in sorted(costs):
        if cost * count > left:
            return left // count
        left -= cost
        count -= 1
    return max(costs, default=0)


def _view(message: Message, tokens: int, counting: Counting) -> Message:
    """Return *message* cut to *tokens* at most."""
    if message.parts and counting.extra_tokens(message.parts) > tokens // 2:
        message = message.replace(parts=without_media(message.parts))
        if cost_tokens(message, counting) - MESSAGE_OVERHEAD_TOKENS <= tokens:
            return message
    gap = GAP_NAMED.format(seq=message.seq) if tokens >= NAMED_FROM_TOKENS else GAP
    whole = max((len(text) for text in _texts(message)), default=0)
    least, most = 0, min(whole, 16 * tokens)
    best = _cut(message, 0, gap, counting)
    while least <= most:  # longer views cost more, but for a token here and there
        chars = (least + most) // 2
        view = _cut(message, chars, gap, counting)
        if _cost(view, counting) <= tokens:
            best, least = view, chars + 1
        else:
            most = chars - 1
    if _cost(best, counting) > tokens:  # what the parts cost besides their texts: keep words alone
        best = _cut(
            message.replace(text=whole_text(message.text, message.parts), parts=None),
            0,
            "…",
            counting,
        )
    return best


def _cost(view: Message, counting: Counting) -> int:
    return view.tokens + counting.extra_tokens(view.parts)


def _texts(message: Message) -> list[str]:
    return [message.text, *map(part_text, message.parts or ())]


def _cut(message: Message, chars: int, gap: str, counting: Counting) -> Message:
    """Return *message* with at most *chars* characters of each of its texts."""
    parts, text = message.parts, _ends(message.text, chars, gap)
    if parts is not None:
        is_derived = message.text == text_of(parts)
        parts = [_cut_part(part, chars, gap) for part in without_original(parts)]
        text = text_of(parts) if is_derived else text
    return _counted(message.replace(text=text, parts=parts), counting)


def _counted(view: Message, counting: Counting) -> Message:
    (tokens,) = counting.count_many([whole_text(view.text, view.parts)])
    return view.replace(tokens=tokens, counter=counting.name)


def _cut_part(part: Any, chars: int, gap: str) -> Any:
    kind = kind_of(part)
    if not kind:
        return part
    cut = dict(part)
    if kind not in ("tool_call", "tool_result"):
        words = text_value(part.get("text")) if "text" in part else part_text(part)
        if len(words) <= chars + len(gap):
            return cut
        words = _ends(words, chars, gap)
        return {**cut, "text": words} if "text" in part else {"type": "text", "text": words}
    if kind == "tool_result":
        content = content_text(part.get("content"))
        return cut if len(content) <= chars + len(gap) else {
            **cut, "content": _ends(content, chars, gap)}  # fmt: skip
    arguments = json_text(part.get("arguments"))
    if len(arguments) > chars + len(gap):
        left = _ends(arguments, chars, gap)
        cut["arguments"] = json.dumps({"shortened": left}) if chars else "{}"
    return cut


def _ends(text: str, chars: int, gap: str) -> str:
    """
    Return beginning and end of *text*, *chars* in all, with *gap* between.

    >>> _ends("abcdefghijkl", 6, "..")
    'abcd..kl'
    """
    if len(text) <= chars + len(gap):
        return text
    head = chars * HEAD_THIRDS // 3
    tail = text[len(text) - (chars - head) :] if chars > head else ""
    return f"{text[:head]}{gap}{tail}"
