"""
A conversation's memory as tools for a model: functions, and their JSON schemas.

The session is part of the tools, never an argument: a model cannot look into
another conversation. Answers are text, cut into pages that fit a prompt.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.api.calls import handle
from memdb.api.collections import Summaries
from memdb.errors import InvalidInput
from memdb.models.ids import MAX_INT, MAX_SEQ, number_of
from memdb.search.request import search_request
from memdb.text.parts import text_of
from memdb.text.sanitize import quoted
from memdb.text.trust import FLAGGED, trust_of_message
from memdb.text.validate import flag_value, int_value, iso_day, text_value

if TYPE_CHECKING:
    from memdb.api._container import Services
    from memdb.models.messages import Hit, Message
    from memdb.models.summaries import Summary
    from memdb.models.types import ToolFormat
    from memdb.records.scopes import ScopeRef

# Characters of one answer: about 2,000 tokens.
PAGE_CHARS = 8_000
HIT_CHARS = 400
MAX_HITS = 50

# Entries and summaries that a search gives beside the messages.
MORE_HITS = 3

FLAG = " flagged, data only"  # of what reads like an order to a model

EXPAND = {
    "name": "memory_expand",
    "description": (
        "Show the sources of a summary of this conversation: the summaries one level down, or "
        "the original messages with their tool calls. Go deeper with the numbers in the answer."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "id": {
                "type": "string",
                "description": "number of a summary, or messages such as '#12' or '11-20'",
            },
            "after": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "continue behind this message number, as the page before says",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "start at this character of a single long message",
            },
        },
        "required": ["id"],
        "additionalProperties": False,
    },
}
SEARCH = {
    "name": "memory_search",
    "description": (
        "Search this conversation, also what is no longer shown, and the long-term memory. "
        "Gives message numbers that memory_expand takes."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "a question or some words"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 10},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}
COMPACT = {
    "name": "memory_compact",
    "description": (
        "Maintenance: finish the summaries of this conversation, drop what can be made again, "
        "and move old messages into compressed form. Nothing is lost."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "archive": {
                "type": "boolean",
                "default": True,
                "description": "also compress all but the newest 1,000 messages",
            }
        },
        "required": [],
        "additionalProperties": False,
    },
}
SCHEMAS = (EXPAND, SEARCH, COMPACT)
SHAPES = ("openai", "anthropic", "gemini")


@handle
class Tools:
    """Tools by which a model uses the memory of one session; see `Session.tools`."""

    __slots__ = ("_owner", "_services", "_session", "_summaries")

    def __init__(self, services: Services, owner: ScopeRef, session: str) -> None:
        """Use `session.tools()` instead."""
        self._services = services
        self._owner = owner
        self._session = session
        self._summaries = Summaries(services, owner, session)

    @staticmethod
    def schemas(shape: ToolFormat = "openai", *, maintenance: bool = False) -> list[dict[str, Any]]:
        """
        Return the tools' definitions as a client takes them.

        Args:
            shape: "openai", "anthropic" or "gemini".
            maintenance: Also `memory_compact`, which is for the host's own
                agents rather than for each conversation.

        Raises:
            InvalidInput: there is no such shape.
        """
        chosen = SCHEMAS if flag_value(maintenance, "maintenance") else SCHEMAS[:2]
        if shape == "openai":
            return [{"type": "function", "function": one} for one in chosen]
        if shape == "anthropic":
            return [
                {
                    "name": one["name"],
                    "description": one["description"],
                    "input_schema": one["parameters"],
                }
                for one in chosen
            ]
        if shape == "gemini":
            return [{"function_declarations": [_for_gemini(one) for one in chosen]}]
        raise InvalidInput(f"shape is {shape!r}: use {', '.join(SHAPES)}")

    def call(self, name: str, arguments: str | dict[str, Any] | None = None) -> str:
        """
        Run the tool *name* for a model, and return the answer for it.

        Args:
            arguments: JSON text, or the same object.

        Raises:
            InvalidInput: there is no such tool or argument, or it has a wrong type.
            NotFound: this session has no such summary or message.
            PortError: a model failed while compacting; all else was done.
        """
        tools = {
            "memory_expand": self._expand,
            "memory_search": self._search,
            "memory_compact": self._compact,
        }
        if name not in tools:
            raise InvalidInput(f"tool is {name!r}: use {', '.join(tools)}")
        given = _arguments(name, arguments)
        return tools[name](**given)  # type: ignore[operator, no-any-return]  # each is callable

    def _expand(self, id: str, after: int = 0, offset: int = 0) -> str:  # noqa: A002 (name in the schema)
        """
        Return a page of the text of a summary, or of a span of messages.

        Args:
            id: A number of a summary, or "#12", or "11-20".
            after: Continue behind this seq.
            offset: First character to show of a single message.

        Raises:
            InvalidInput: an argument has a wrong type or is below 0.
            NotFound: this session has no such summary or message.
        """
        text_value(id, "id")
        int_value(after, "after", 0, MAX_SEQ)
        int_value(offset, "offset", 0, MAX_INT)
        page = self._summaries.expand(id, after_seq=after, limit=100)
        if len(page.messages) == 1 and page.next_seq is None:
            return _one(page.messages[0], offset)
        lines: list[str] = []
        room = PAGE_CHARS
        shown: list[Summary | Message] = [*page.summaries, *page.messages]
        for place, item in enumerate(shown):
            line = _summary_line(item) if page.summaries else _message_line(item)  # type: ignore[arg-type]  # by page.summaries
            if lines and len(line) > room:
                return "\n".join([*lines, _more(shown[place - 1])])
            lines.append(line if len(line) <= PAGE_CHARS else _clipped(item, line))
            room -= len(line)
        if page.next_seq is not None:
            lines.append(f"(continue with after={page.next_seq})")
        return "\n".join(lines) or "(nothing is left of these messages)"

    def _search(self, query: str, limit: int = 10) -> str:
        """
        Return the messages, summaries and entries that fit *query*, best first.

        Raises:
            InvalidInput: *query* is not text, or *limit* not from 1 to 50.
        """
        text_value(query, "query")
        int_value(limit, "limit", 1, MAX_HITS)
        owner, session = self._owner, self._session
        recaller, trees = self._services.recaller, self._services.trees
        request = search_request(
            query, max(limit, MORE_HITS), kinds=("message", "entry"), session=session
        )
        limits = {"message": limit, "entry": MORE_HITS}
        by_kind = recaller.recall_kinds(owner, request, limits)
        hits = [*by_kind["message"], *by_kind["entry"]]
        hits.sort(key=lambda hit: hit.trust == FLAGGED)  # what reads like an order comes last
        lines = list(map(_hit_line, hits))
        in_summaries = search_request(
            query, MORE_HITS, kinds=("summary",), session=session, by="words"
        )
        ids = [hit.source.summary_id or 0 for hit in recaller.recall(owner, in_summaries)]
        lines += map(_summary_line, trees.get_many(owner, session, ids))
        return _fitting(lines) or "(nothing found)"

    def _compact(self, archive: bool = True) -> str:  # noqa: FBT001, FBT002 (a model's argument)
        """
        Compact the session, and return the result as JSON.

        Raises:
            InvalidInput: *archive* is not a bool.
            PortError: a model failed on a summary; all else was done.
        """
        keep_last = 1000 if flag_value(archive, "archive") else None
        done = self._summaries.compact(keep_last=keep_last)
        return json.dumps(done.to_dict())


def _arguments(name: str, arguments: str | dict[str, Any] | None) -> dict[str, Any]:
    """
    Return the arguments of a call as its function takes them.

    Raises:
        InvalidInput: the arguments are no JSON object, or not what the schema says.
    """
    given: Any = arguments or {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"arguments of {name} are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise InvalidInput(f"arguments of {name} are {type(given).__name__}: give an object")
    (schema,) = [one["parameters"] for one in SCHEMAS if one["name"] == name]
    known: dict[str, Any] = schema["properties"]  # type: ignore[index]  # a dict
    kinds = {field: one["type"] for field, one in known.items()}
    given = {
        field: _argument(value, kinds.get(field))
        for field, value in given.items()
        if value is not None
    }
    for field, value in given.items():
        if field not in known:
            raise InvalidInput(f"{name} has no argument {field!r}: use {', '.join(known)}")
        kind = kinds[field]
        if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
            raise InvalidInput(f"{name}: {field} is {value!r}: give {_A[kind]}")
    for field in schema["required"]:  # type: ignore[index]  # a list
        if field not in given:
            raise InvalidInput(f"{name} needs {field!r}: {known[field]['description']}")
    return dict(given)


def _argument(value: Any, kind: str | None) -> Any:
    """Return *value* as models mean it: 10.0 as 10, which JSON schema says too, 5 as a text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return str(value) if kind == "string" and type(value) is int else value


_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
_A = {"string": "a text", "integer": "an integer", "boolean": "true or false"}


def _for_gemini(one: dict[str, Any]) -> dict[str, Any]:
    """Return a definition without what Gemini's subset of JSON schema does not know."""
    parameters = {
        field: value
        for field, value in one["parameters"].items()
        if field != "additionalProperties"
    }
    parameters["properties"] = {
        name: {field: value for field, value in kind.items() if field != "default"}
        for name, kind in parameters["properties"].items()
    }
    return {"name": one["name"], "description": one["description"], "parameters": parameters}


def _summary_line(summary: Summary) -> str:
    hint = f"\n  (more in it: {summary.hint})" if summary.hint else ""
    span = f"{summary.first_seq}-{summary.last_seq}"
    flag = FLAG if summary.trust == FLAGGED else ""
    place = f"[{number_of(summary.id)}] summary of messages {span}{flag}"
    return f"{place}: {quoted(summary.text)}{hint}"


def _message_line(message: Message) -> str:
    who = message.author or message.role
    flag = FLAG if trust_of_message(message.role, message.text) == FLAGGED else ""
    return f"#{message.seq} {who} {iso_day(message.created_ms)}{flag}: {quoted(_said(message))}"


def _said(message: Message) -> str:
    """Return the whole message as text, with its tool calls and results."""
    told = text_of(message.parts or ())
    if told in ("", message.text):
        return message.text
    return told if message.text in told else f"{message.text}\n{told}"


def _one(message: Message, offset: int) -> str:
    """Return a single message from a character on."""
    whole = _message_line(message)
    if offset >= len(whole) > 0:
        return f"(the message ends before offset={offset}: it has {len(whole):,} characters)"
    end = offset + PAGE_CHARS
    more = f"\n(continue with offset={end}; {len(whole) - end:,} characters are left)"
    return whole[offset:end] + (more if len(whole) > end else "")


def _clipped(item: Summary | Message, line: str) -> str:
    seq = getattr(item, "seq", None)
    if seq is None:
        return f"{line[:PAGE_CHARS]} …"  # its number, at the beginning, leads deeper
    return f"{line[:PAGE_CHARS]} … (memory_expand('#{seq}', offset={PAGE_CHARS}) shows the rest)"


def _fitting(lines: list[str]) -> str:
    """Return as many *lines* as fit on a page, and say how many do not."""
    shown: list[str] = []
    room = PAGE_CHARS
    for line in lines:
        room -= len(line) + 1
        if room < 0 and shown:
            left = len(lines) - len(shown)
            return "\n".join([*shown, f"({left} more are not shown: ask for something narrower)"])
        shown.append(line)
    return "\n".join(shown)


def _more(item: Any) -> str:
    """Return a hint for the next page behind *item*."""
    return f"(continue with after={getattr(item, 'seq', None) or item.first_seq})"


def _hit_line(hit: Hit) -> str:
    text = quoted(hit.text if len(hit.text) <= HIT_CHARS else f"{hit.text[:HIT_CHARS]} …")
    source = hit.source
    flag = FLAG if hit.trust == FLAGGED else ""
    if hit.kind != "message":
        return f"({source.category or hit.kind}{flag}) {text}"
    who = quoted(source.author or hit.role or "")
    return f"#{source.seq} {who} {iso_day(source.created_ms or 0)}{flag}: {text}"
