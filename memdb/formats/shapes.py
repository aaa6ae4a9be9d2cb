"""
Convert messages to the request formats of OpenAI, Anthropic, Gemini and LangChain.

A message that was read of a provider's own goes back to it as it came, from its
original. For another provider a part that it has no type for is the part's text.

A stored conversation easily leads to requests that an API refuses. Such conversations contain a
call without its result, a result without its call, an empty text, or two messages of one role. The
formats avoid all of these:

- An answered call is a real call with its results behind it, in the order of the
  calls, wherever they were. Several results of one call are one.
- A call that nothing answers is text, `name(arguments)`. If only calls follow it, it is pending and
  stays a real call, so that the host can add the result. Beside a call that has a result, its
  result is "[no result]", an error.
- A result without a call before it gets a call of its own, because what a tool
  says must not be the user's words. Calls and results match as in
  `memdb.conversations.tool_calls`; those without an id or name never do.
- Blank texts, and messages without anything else, are left out.

Names of authors are left out: OpenAI's `name` takes few characters, the other
APIs have none. Ids and function names that an API refuses (or ids used twice)
are replaced; the last use of an id keeps it.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.formats.provider_parts import read_part
from memdb.formats.turns import (
    ANTHROPIC,
    EMPTY_RESULT,
    GEMINI,
    LANGCHAIN,
    OPENAI,
    RESPONSES,
    Turn,
    answered_calls,
    call_of,
    joined,
    one_call_turn,
    own_form,
    results_of,
    steps_of,
    turn_alone,
    turns_of,
)
from memdb.text.parts import MEDIA, kind_of, part_text, text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memdb.formats.turns import Call, FormatMessage
    from memdb.text.parts import Part

    Block = dict[str, Any]

# User text before a model that would speak first. A context built by memdb
# begins with the user already.
OPENER = "(The conversation continues.)"

MAX_CACHE_MARKS = 4  # of a request to Anthropic

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
SOUND_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


# Items of Responses that the API takes without their id, the others are refused.
# Source: https://platform.openai.com/docs/api-reference/responses/create, and openai 3.57.
BARE_ITEMS = ("message", "reasoning", "function_call", "custom_tool_call", "tool_search_call",
              "shell_call", "apply_patch_call", "compaction")  # fmt: skip


def to_shape(
    messages: Sequence[FormatMessage], shape: str, *, provider_ids: bool = True
) -> dict[str, Any]:
    """
    Return *messages* as the keyword arguments of a model's client, JSON-ready.

    Args:
        messages: Oldest first, as in a `ContextWindow`.
        shape: "openai" gives `messages` (chat completions), "openai-responses"
            `input`. "anthropic" gives `messages`, beginning with the user and
            with roles in turn, and `system` if there is any. "gemini" gives
            `contents` in the same way and `system_instruction` if there is any;
            google-genai takes the latter inside `config`. "langchain" gives
            `messages` for `langchain_core.messages.messages_from_dict`.
        provider_ids: Whether items for Responses keep the ids that OpenAI gave them. False
            is for a server that does not know them, after `store=false` or of another
            account. Reasoning is left out too, and an item that must have an id is its
            text. Ids of calls stay.

    System messages stay where they are for OpenAI and LangChain; the others get
    all of them in the system part, in order. Images, audio and files are passed
    on where the API takes them from that role, else as text, `[image: a.png]`.
    If messages before an answer of the model are left out, items for Responses have no reasoning
    and no ids. This ends at the next message of the user.

    No messages give an empty list, which every API refuses.

    Raises:
        InvalidInput: there is no such shape.
    """
    render = _SHAPES.get(shape) if isinstance(shape, str) else None
    if render is None:
        raise InvalidInput(f"shape is {shape!r}: use one of {', '.join(_SHAPES)}")
    turns = turns_of(messages, shape)
    if not provider_ids:
        for turn in turns:
            turn.is_torn = True
    return render(turns)


def without_links(items: list[Block]) -> list[Block]:
    """
    Return Responses items without reasoning and ids, for a conversation that is not whole.

    The API refuses an item whose reasoning is missing, and finds that by the ids. The
    words of an assistant without an id are a message of role and text alone.
    """
    kept = []
    for item in items:
        if item.get("type") in ("reasoning", "item_reference"):
            continue
        rest = {key: value for key, value in item.items() if key != "id"}
        content = rest.get("content")
        if rest.get("role") == "assistant" and isinstance(content, list):
            texts = [text_value(one.get("text", one.get("refusal"))) for one in content]
            rest = {"role": "assistant", "content": joined(texts)}
        if rest.get("content") != "":
            kept.append(rest)
    return kept


class _Medium:
    """Where the bytes of an image, sound or file are: base64 with its type, or a link."""

    __slots__ = ("data", "kind", "link", "mime", "name")

    def __init__(self, part: Part) -> None:
        self.kind = kind_of(part)
        self.mime = text_value(part.get("media_type")) or text_value(part.get("mime_type"))
        self.data = text_value(part.get("base64"))
        self.link = text_value(part.get("url")) or text_value(part.get("uri"))
        self.name = text_value(part.get("name"))
        if not self.data and self.link.startswith("data:"):
            head, _, self.data = self.link.partition(";base64,")
            self.mime, self.link = head.removeprefix("data:"), ""

    @property
    def data_link(self) -> str:
        """A link, made of the bytes if there is none."""
        return self.link if not self.data else f"data:{self.mime};base64,{self.data}"

    @property
    def is_known(self) -> bool:
        """Whether its bytes, if it has any, are an image that every API reads."""
        return not self.data or self.mime in IMAGE_TYPES

    @property
    def is_image(self) -> bool:
        """Whether it is an image that every API takes."""
        return self.kind == "image" and bool(self.data or self.link) and self.is_known


# Takes a part; returns the API's own block for it, None if it has none.
if TYPE_CHECKING:
    Native = Callable[[Part], Block | None]


def _blocks(parts: Iterable[Part], text_type: str, native: Native) -> list[Block]:
    """Return *parts* as blocks of an API, those it does not take as texts."""
    found = []
    for part in parts:
        block = native(part) if kind_of(part) in MEDIA else None
        text = part_text(part)
        if block is None and text.strip():
            block = {"type": text_type, "text": text} if text_type else {"text": text}
        elif block is not None:
            told = text_value(part.get("text"))  # a transcript, or the words of a document
            if not _holds(block, text_value(part.get("name"))):
                told = text
            if told.strip():
                found.append({"type": text_type, "text": told} if text_type else {"text": told})
        if block is not None:
            found.append(block)
    return found


def _holds(block: Block, name: str) -> bool:
    """Return whether a block tells the name of a file, or there is none to tell."""
    inner = [value for value in block.values() if isinstance(value, dict)]
    return not name or any(name in one.values() for one in (block, *inner))


def _taken(parts: Iterable[Part], native: Native) -> list[Part]:
    return [part for part in parts if kind_of(part) in MEDIA and native(part) is not None]


def _result_text(call: Call, native: Native) -> str:
    """Return the results of a call as text, with a label for each medium that cannot be sent."""
    left = [part_text(part) for part in call.media if native(part) is None]
    text = joined([result.text for result in call.results])
    return joined([*([text] if text else []), *left]) or EMPTY_RESULT


def _shown(call: Call, native: Native) -> list[Block]:
    """Return what the results of a call show, in the form of an API."""
    return [block for part in call.media if (block := native(part)) is not None]


def _result_content(call: Call, native: Native, text_type: str = "text") -> Any:
    """Return the results of a call as text, or as blocks where they show something."""
    text, shown = _result_text(call, native), _shown(call, native)
    return [{"type": text_type, "text": text}, *shown] if shown else text


def _no_media(_part: Part) -> Block | None:
    return None


def _openai(turns: list[Turn]) -> dict[str, Any]:
    messages: list[Block] = []
    for turn in one_call_turn(turns):
        own = _openai_own(turn.own) if turn.is_whole else None
        messages.append(own or _openai_message(turn))
        shown: list[Block] = []  # a tool's message has no images: they are a user's behind it
        for call in answered_calls([turn]):
            text = _result_text(call, _openai_image)
            own = call.own_result and _openai_own(call.own_result)
            messages.append(own or {"role": "tool", "tool_call_id": call.id, "content": text})
            if own is None:
                shown += _shown(call, _openai_image)
        if shown:
            messages.append({"role": "user", "content": shown})
    return {"messages": messages}


_OPENAI_BLOCKS = frozenset("text refusal image_url input_audio file".split())
_SAYING = ("text", "refusal")  # blocks whose text stands under their type


def _openai_own(message: Block) -> Block | None:
    """
    Return a message of OpenAI's form, which others took over, as OpenAI takes it back.

    Blank texts are left out, and what a block of another type says is text. None means that nothing
    is left of it, or it shows something in another provider's way.
    """
    content = message.get("content")
    if not isinstance(content, list):
        return None if isinstance(content, dict) else dict(message)
    blocks = []
    for block in content:
        kept = block
        if kind_of(block) not in _OPENAI_BLOCKS:
            part = read_part(block)
            if kind_of(part) in MEDIA:
                return None
            kept = {"type": "text", "text": part_text(part)}
        if kind_of(kept) not in _SAYING or text_value(kept.get(kind_of(kept))).strip():
            blocks.append(kept)
    return {**message, "content": blocks} if blocks else None


def _openai_message(turn: Turn) -> Block:
    message: Block = {"role": turn.role, "content": joined(turn.texts) or None}
    native = _openai_block if turn.role == "user" else _no_media
    if _taken(turn.items(), native):
        message["content"] = _blocks(turn.items(), "text", native)
    calls = turn.real_calls
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments.strip() or "{}"},
            }
            for call in calls
        ]
    return message


def _openai_image(part: Part) -> Block | None:
    medium = _Medium(part)
    if not medium.is_image:
        return None
    return {"type": "image_url", "image_url": {"url": medium.data_link}}


def _openai_block(part: Part) -> Block | None:
    medium = _Medium(part)
    if medium.kind == "audio" and medium.data and medium.mime in SOUND_FORMATS:
        sound = {"data": medium.data, "format": SOUND_FORMATS[medium.mime]}
        return {"type": "input_audio", "input_audio": sound}
    if medium.kind == "file" and medium.data and medium.mime:
        name = medium.name or "file"
        return {"type": "file", "file": {"filename": name, "file_data": medium.data_link}}
    return _openai_image(part)


def _responses(turns: list[Turn]) -> dict[str, Any]:
    items: list[Block] = []
    for step in steps_of(turns):
        waiting = [turn for turn in step if any(not call.results for call in turn.real_calls)]
        is_torn = any(turn.is_torn for turn in step)
        is_torn = is_torn or (bool(waiting) and step[-len(waiting) :] != waiting)
        thoughts = {id(turn) for turn in takewhile(_is_reasoning, reversed(step))}
        made: list[Block] = []
        for turn in [*(turn for turn in step if turn not in waiting), *waiting]:
            is_own = _is_sent_whole(turn, is_torn) and id(turn) not in thoughts
            own = [turn.own] if is_own else _responses_items(turn)
            has_id = not is_own or turn.own.get("id") or turn.own.get("role") != "assistant"
            made += own if has_id else without_links(own)
        for turn in step:
            is_own = not turn.is_whole or _is_sent_whole(turn, is_torn)
            for call in answered_calls([turn]):
                made.append((is_own and call.own_result) or _responses_output(call))
        items += without_links(made) if is_torn else made
    return {"input": items}


def _is_sent_whole(turn: Turn, is_torn: bool) -> bool:  # noqa: FBT001 (private)
    """Return whether an item goes back as OpenAI gave it, if *is_torn* but for its id."""
    is_bare = is_torn and turn.is_whole and "id" in turn.own and "type" in turn.own
    is_taken = not is_bare or turn.own["type"] in BARE_ITEMS
    return is_taken and turn.is_whole and _has_its_outputs(turn)


def _has_its_outputs(turn: Turn) -> bool:
    """Return whether the results of an item that calls are items of its kind, as the API wants."""
    kind = turn.own.get("type")
    made = [call.own_result or {} for call in turn.real_calls if call.results]
    return kind == "function_call" or all(one.get("type") == f"{kind}_output" for one in made)


def _is_reasoning(turn: Turn) -> bool:
    """Return whether a turn is an item that the API refuses without the one behind it."""
    return isinstance(turn.own, dict) and turn.own.get("type") == "reasoning"


def _responses_items(turn: Turn) -> list[Block]:
    items: list[Block] = []
    native = _responses_block if turn.role == "user" else _no_media
    if _taken(turn.items(), native):
        content = _blocks(turn.items(), "input_text", native)
        items.append({"role": turn.role, "content": content})
    elif turn.texts:
        items.append({"role": turn.role, "content": joined(turn.texts)})
    items += [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments.strip() or "{}",
        }
        for call in turn.real_calls
    ]
    return items


def _responses_output(call: Call) -> Block:
    output = _result_content(call, _responses_block, "input_text")
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _responses_block(part: Part) -> Block | None:
    medium = _Medium(part)
    if medium.is_image:
        return {"type": "input_image", "image_url": medium.data_link, "detail": "auto"}
    if medium.kind == "file" and medium.data and medium.mime:
        name = medium.name or "file"
        return {"type": "input_file", "filename": name, "file_data": medium.data_link}
    if medium.kind == "file" and medium.link:
        return {"type": "input_file", "file_url": medium.link}
    return None


def _anthropic(turns: list[Turn]) -> dict[str, Any]:
    system = [one for turn in turns if turn.role == "system" for one in _anthropic_blocks(turn)]
    messages: list[Block] = []
    for step in steps_of(_spoken(turns)):
        for turn in step:
            _add(messages, turn.role, "content", _anthropic_blocks(turn))
        results = [
            (call.own_result and _anthropic_own(call.own_result)) or _anthropic_result(call)
            for call in answered_calls(step)
        ]
        _add(messages, "user", "content", results)
    if messages and messages[-1]["role"] == "assistant":
        _end_with_words(messages)
    _limit_marks([*system, *(block for one in messages for block in one["content"])])
    return {"system": system, "messages": messages} if system else {"messages": messages}


def _end_with_words(messages: list[Block]) -> None:
    """Leave out a thought at the end, and blanks after the last words: the API refuses both."""
    content = messages[-1]["content"]
    while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
        content.pop()
    if not content:
        messages.pop()
    elif content[-1]["type"] == "text":
        content[-1] = {**content[-1], "text": content[-1]["text"].rstrip()}


def _limit_marks(blocks: list[Block]) -> None:
    """Keep the last `MAX_CACHE_MARKS` marks of a cache; blocks that lose theirs are copies."""
    marked = [place for place, block in enumerate(blocks) if "cache_control" in block]
    for place in marked[: max(len(marked) - MAX_CACHE_MARKS, 0)]:
        blocks[place].pop("cache_control")


def _anthropic_own(block: Block) -> Block | None:
    """Return a block that Anthropic gave as it takes it back, None for one that it does not."""
    kind = kind_of(block)
    if kind == "thinking" and not text_value(block.get("signature")):
        part = read_part(block)
        block = {"type": "text", "text": part_text(part) if part["text"] else ""}
    elif kind == "image" and not _Medium(part := read_part(block)).is_known:
        block = {"type": "text", "text": part_text(part)}
    elif kind == "tool_result" and isinstance(block.get("content"), list):
        made = [one for one in map(_anthropic_own, block["content"]) if one is not None]
        block = {**block, "content": made or EMPTY_RESULT}
    if kind_of(block) == "text" and not text_value(block.get("text")).strip():
        return None
    return dict(block)


def _anthropic_blocks(turn: Turn) -> list[Block]:
    if turn.is_whole and isinstance(turn.own["content"], list):
        own = [one for one in map(_anthropic_own, turn.own["content"]) if one is not None]
        return own if turn.role == "user" else [*map(_without_media, own)]
    native = _anthropic_block if turn.role == "user" else _no_media
    blocks = _blocks(turn.items(), "text", native)
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
        for call in turn.real_calls
    ]
    return blocks


def _without_media(block: Block) -> Block:
    """Return a block of Anthropic, as text what only a user may show."""
    part = read_part(block)
    return {"type": "text", "text": part_text(part)} if kind_of(part) in MEDIA else block


def _anthropic_block(part: Part) -> Block | None:
    medium = _Medium(part)
    if medium.is_image:
        return {"type": "image", "source": _anthropic_source(medium)}
    if medium.kind == "file" and (medium.mime == "application/pdf" or medium.link.endswith(".pdf")):
        named = {"title": medium.name} if medium.name else {}
        return {"type": "document", "source": _anthropic_source(medium), **named}
    return None


def _anthropic_source(medium: _Medium) -> Block:
    if not medium.data:
        return {"type": "url", "url": medium.link}
    return {"type": "base64", "media_type": medium.mime, "data": medium.data}


def _anthropic_result(call: Call) -> Block:
    content = _result_content(call, _anthropic_block)
    block = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return {**block, "is_error": True} if call.error else block


def _gemini(turns: list[Turn]) -> dict[str, Any]:
    system = [{"text": text} for text in _system(turns)]
    contents: list[Block] = []
    for step in steps_of(_spoken(turns)):
        for turn in step:
            role = "model" if turn.role == "assistant" else "user"
            _add(contents, role, "parts", _gemini_parts(turn))
        calls = answered_calls(step)
        results = [call.own_result or _gemini_result(call.name, call) for call in calls]
        shown = [part for call in calls if call.own_result is None for part in call.media]
        _add(contents, "user", "parts", results + _blocks(shown, "", _gemini_block))
    if system:
        return {"system_instruction": {"parts": system}, "contents": contents}
    return {"contents": contents}


def _is_blank(part: Any) -> bool:
    """Return whether a part of Gemini is a blank text without a signature."""
    is_text = isinstance(part, dict) and "text" in part and "thought_signature" not in part
    return is_text and not text_value(part["text"]).strip()


def _gemini_parts(turn: Turn) -> list[Block]:
    if turn.is_whole:
        return [part for part in turn.own["parts"] if not _is_blank(part)]
    parts = _blocks(turn.items(), "", _gemini_block)
    for call in turn.real_calls:
        part: Block = {"function_call": {"name": call.name, "args": call.input}}
        signature = text_value(call.part.get("thought_signature"))
        parts.append({**part, "thought_signature": signature} if signature else part)
    return parts


def _gemini_block(part: Part) -> Block | None:
    medium = _Medium(part)
    mime = {"mime_type": medium.mime} if medium.mime else {}
    if medium.data and mime:
        return {"inline_data": {"data": medium.data, **mime}}
    return {"file_data": {"file_uri": medium.link, **mime}} if medium.link else None


def _gemini_result(name: str, call: Call) -> Block:
    text = _result_text(call, _gemini_block)
    return {"function_response": {"name": name, "response": {_key_of(call): text}}}


def _key_of(call: Call) -> str:
    return "error" if call.error else "result"


def _langchain(turns: list[Turn]) -> dict[str, Any]:
    messages: list[Block] = []
    for turn in one_call_turn(turns):
        messages.append(turn.own if turn.is_whole else _langchain_message(turn))
        answered = answered_calls([turn])
        messages += [call.own_result or _langchain_result(call) for call in answered]
        shown = [part for call in answered if call.own_result is None for part in call.media]
        if blocks := _blocks(_taken(shown, _langchain_block), "text", _langchain_block):
            messages.append({"type": "human", "data": {"type": "human", "content": blocks}})
    # Models behind LangChain refuse a system message in the middle.
    return {"messages": sorted(messages, key=lambda one: one["type"] != "system")}


_LANGCHAIN_TYPES = {"user": "human", "assistant": "ai", "system": "system"}


def _langchain_message(turn: Turn) -> Block:
    kind = _LANGCHAIN_TYPES[turn.role]
    data: Block = {"type": kind, "content": joined(turn.texts)}
    if turn.role != "system" and _taken(turn.items(), _langchain_block):
        data["content"] = _blocks(turn.items(), "text", _langchain_block)
    if turn.real_calls:
        data["tool_calls"] = [
            {"type": "tool_call", "id": call.id, "name": call.name, "args": call.input}
            for call in turn.real_calls
        ]
    return {"type": kind, "data": data}


def _langchain_result(call: Call, *, shown: bool = False) -> Block:
    """Return a tool's message; *shown*: with its media, which not every model takes there."""
    content = (_result_content if shown else _result_text)(call, _langchain_block)
    status = "error" if call.error else "success"
    data = {"type": "tool", "content": content, "tool_call_id": call.id, "status": status}
    return {"type": "tool", "data": data}


def _langchain_block(part: Part) -> Block | None:
    medium = _Medium(part)
    if medium.data and medium.mime:
        return {"type": medium.kind, "base64": medium.data, "mime_type": medium.mime}
    return {"type": medium.kind, "url": medium.link} if medium.link else None


def _system(turns: Iterable[Turn]) -> list[str]:
    return [text for turn in turns if turn.role == "system" for text in turn.texts]


def _spoken(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the turns besides the system's, a user's first."""
    first = True
    for turn in turns:
        if turn.role == "system":
            continue
        if first and turn.role != "user":
            opener = Turn("user")
            opener.content.append({"type": "text", "text": OPENER})
            yield opener
        first = False
        yield turn


def _add(into: list[Block], role: str, field: str, items: list[Block]) -> None:
    """Add *items* to the last message if it has that role, else as a new one."""
    if into and into[-1]["role"] == role:
        into[-1][field] += items
    elif items:
        into.append({"role": role, field: items})


_SHAPES = {
    OPENAI: _openai,
    RESPONSES: _responses,
    ANTHROPIC: _anthropic,
    GEMINI: _gemini,
    LANGCHAIN: _langchain,
}


def items_of(message: FormatMessage) -> list[Block]:
    """
    Return one message as items of the Responses API, whatever stands around it.

    A tool's message that names no call is a call and its output.
    """
    if not message.parts and message.role != "tool" and message.text.strip():
        return [{"role": message.role, "content": message.text}]
    own = own_form(message, RESPONSES)
    if own is not None:
        return [own]
    items = [] if message.role == "tool" else _responses_items(turn_alone(message, RESPONSES))
    for part, result in results_of(message, RESPONSES):
        call = call_of(part, result, RESPONSES)
        if not call.id:
            call.id = f"call_{getattr(message, 'seq', 0)}"
            items.append({"type": "function_call", "call_id": call.id, "name": call.name,
                          "arguments": "{}"})  # fmt: skip
        items.append(_responses_output(call))
    return items


def langchain_of(message: FormatMessage) -> list[Block]:
    """
    Return one message as messages of LangChain in their dict form, whatever stands around it.

    A tool's message that names no call is a call and its result.
    """
    own = own_form(message, LANGCHAIN)
    if own is not None:
        return [own]
    made = []
    if message.role != "tool":
        made.append(_langchain_message(turn_alone(message, LANGCHAIN)))
    for part, result in results_of(message, LANGCHAIN):
        call = call_of(part, result, LANGCHAIN)
        if not call.id:
            call.id = f"call_{getattr(message, 'seq', 0)}"
            call.real = True
            turn = Turn("assistant")
            turn.calls.append(call)
            made.append(_langchain_message(turn))
        made.append(_langchain_result(call, shown=True))
    return made


def gemini_parts_of(message: FormatMessage, names: dict[str, str]) -> list[Block]:
    """
    Return one message as parts of Gemini, whatever stands around it.

    Args:
        names: Names of the functions called so far, by the call's id; gets those called here.
    """
    turn = turn_alone(message, GEMINI)
    names |= {call.id: call.name for call in turn.real_calls}
    own = own_form(message, GEMINI)
    if own is not None:
        return list(own["parts"])
    parts = [] if message.role == "tool" else _blocks(turn.items(), "", _gemini_block)
    for call in turn.real_calls:
        told = {"id": call.id, "name": call.name, "args": call.input}
        parts.append({"function_call": told})
    for part, result in results_of(message, GEMINI):
        call = call_of(part, result, GEMINI)
        if call.id in names:
            (block,) = _gemini_result(names[call.id], call).values()
            parts.append({"function_response": {"id": call.id, **block}})
        else:
            parts.append({"text": call.result})
        parts += _blocks(call.media, "", _gemini_block)
    return parts
