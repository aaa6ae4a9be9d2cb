"""
The tools that a model gets over MCP, each a call of one scope.

A tool is its schemas, its hints and a function from checked arguments to a
JSON object. This module is independent of the protocol. Every text in an answer is escaped
(`escaped`). An object with a text names its writer. Errors name the arguments of the tools instead
of those of the Python calls.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from memdb.errors import LET_THROUGH, AlreadyExists, InvalidInput, NotFound
from memdb.models.items import path_of
from memdb.models.messages import Piece, role_of
from memdb.models.record import Record
from memdb.models.types import Kind
from memdb.text.sanitize import quoted
from memdb.text.trust import FLAGGED, UNTRUSTED, least_trust, trust_of_message, trust_of_text
from memdb.text.validate import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memdb.api.collections import Artifacts
    from memdb.api.scope import Scope
    from memdb.errors import MemDBError
    from memdb.models.entries import Entry
    from memdb.models.messages import Artifact, ArtifactVersion, Message, SessionInfo
    from memdb.models.record import Page

    Arguments = dict[str, Any]
    Answer = dict[str, Any]

MAX_SHOWN = 80

# What memdb says -> what a client can do something with.
WORDS = (
    ("summary_id is", "id is"),
    ("after_seq is", "after is"),
    ("prefix is", "uri is"),
    (", or add yours with db.settings.update(categories=...)", ""),
    (LET_THROUGH, ""),
)


def said(error: MemDBError, given: Mapping[str, Any]) -> str:
    """Return the error text for a call, or a resource, with the arguments *given*."""
    match error:
        case NotFound(kind="summary"):
            return (
                f"id is {str(given['id'])[:MAX_SHOWN]!r}: session {given['session']!r} has no such "
                "summary; give one that its context names, or messages such as 11-20"
            )
        case AlreadyExists() if "external_id" in given:
            return (
                f"external_id is {given['external_id'][:MAX_SHOWN]!r}: another message of the "
                "conversation has it; give each its own"
            )
    sentence = str(error)
    for theirs, ours in WORDS:
        sentence = sentence.replace(theirs, ours)
    return sentence


def halved(value: object) -> bool:
    """Return whether a text in *value* contains a lone surrogate: no file and no answer can."""
    if isinstance(value, str) and value.isascii():
        return False  # soon known, also of a long one
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


class Framed(str):
    """A text by memdb around escaped ones, such as a block of a context."""

    __slots__ = ()


def escaped(value: Any) -> Any:
    """Return an answer whose texts cannot be mistaken for a block or a speaker; `Framed` stays."""
    if isinstance(value, str):
        return value if isinstance(value, Framed) else quoted(value)
    if isinstance(value, dict):
        return {name: escaped(one) for name, one in value.items()}
    return list(map(escaped, value)) if isinstance(value, (list, tuple)) else value


# Messages or summaries of one answer of `expand`.
PAGE = 20

# Rows of one answer of `list`.
LISTED = 100


class Tool(Record):
    """
    A tool: its description for a client, and its function.

    Attributes:
        read_only: The tool changes nothing.
        destructive: The tool removes something.
        idempotent: The same call again changes nothing more.
        ordered: The tool is a quick write, and runs in the order of such calls.
        is_logged: The context log has its answers under the client's name.
    """

    name: str
    title: str
    description: str
    arguments: dict[str, Any]
    answer: dict[str, Any]
    run: Callable[[Scope, Arguments], Answer]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    ordered: bool = False
    is_logged: bool = False


def shape(*required: str, **fields: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with *fields*."""
    return {
        "type": "object",
        "properties": fields,
        "required": [*required],
        "additionalProperties": False,
    }


def whole(**fields: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with all of *fields*."""
    return shape(*fields, **fields)


def text(description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a text."""
    return {"type": "string", "description": description, **more}


def number(description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of an integer."""
    return {"type": "integer", "description": description, **more}


def many(items: dict[str, Any], description: str = "") -> dict[str, Any]:
    """Return the schema of a list."""
    return {
        "type": "array",
        "items": items,
        **({"description": description} if description else {}),
    }


OBJECT = {"type": "object"}
SESSION = text("Name of the conversation")


def _remember(scope: Scope, given: Arguments) -> Answer:
    done = scope.remember(given.pop("text"), **given)
    entry = done.entry
    return {
        "action": done.action,
        "id": entry.id,
        "text": entry.text,
        "reason": getattr(done, "reason", None) or "",
        **written(entry.trust, None, entry.writer),
        "links": [
            {"kind": link.kind, "older": link.older_id, "probability": round(link.probability, 2)}
            for link in done.links
            if link.newer_id == entry.id
        ],
    }


def _recall(scope: Scope, given: Arguments) -> Answer:
    hits = []
    given = {"cut": "auto", **given}
    found = scope.recall(given.pop("query"), given.pop("limit", 10), **given)
    for hit in found:
        source = {name: value for name, value in hit.source.to_dict().items() if value is not None}
        hits.append(
            {
                "kind": hit.kind,
                "text": hit.text,
                "score": hit.score,
                "is_sure": hit.is_sure,
                "source": source,
                **written(hit.trust, hit.role, hit.writer),
            }
        )
    return {
        "certainty": found.certainty,
        "note": f"{CERTAINTIES[found.certainty]} {found.missing.get('hits', '')}".strip(),
        "hits": sorted(hits, key=lambda one: bool(one["trust"] == FLAGGED)),
    }


CERTAINTIES = {
    "sure": "The memory answers this.",
    "unsure": "These are the closest memories; they may not answer: check before you rely on one.",
    "none": "The memory knows nothing about this. Tell the user, and do not guess.",
}


def written(trust: str, role: str | None, writer: str | None) -> Answer:
    """Return the writer of a text, and its trust."""
    return {"trust": trust, "role": role or "", "writer": writer or ""}


def pieces_of(answer: Answer, session: str | None) -> list[Piece]:
    """Return the rows whose texts an answer shows, for the context log."""
    found = []
    for hit in answer.get("hits", ()):
        source, kind = hit["source"], hit["kind"]
        ref = str(source.get("entry_id") or source.get("summary_id") or source.get("artifact", ""))
        if kind == "item":
            ref = path_of(tuple(source["namespace"])) + source["key"]
        first, name, branch = (source.get(one) for one in ("seq", "session", "branch"))
        last = source.get("last_seq", first)
        ref = "" if source.get("shared") else ref
        found.append(Piece(kind, first, last, 0, "", ref, session=name, branch=branch))
    several = {"messages": "message", "summaries": "summary", "entries": "entry"}
    for name, kind in several.items():
        for one in answer.get(name, ()):
            seq, ref = one.get("seq"), str(one.get("id", ""))
            found.append(Piece(kind, seq, seq, 0, "", ref, session=session))
    for one in answer.get("artifacts", [answer] if "version" in answer else ()):
        of = one["session"] or None
        found += [Piece("artifact", None, None, 0, "", one["name"], session=of)]
    return found


def message_of(one: Message) -> Answer:
    """Return a message for a model."""
    trust = trust_of_message(one.role, one.text)
    return {"seq": one.seq, "text": one.text, **written(trust, one.role, one.author)}


def _context(scope: Scope, given: Arguments) -> Answer:
    chat = scope.session(given["session"])
    window = chat.context(given.get("budget_tokens", 4000), given.get("query"))
    said = []
    for place, one in enumerate(window.messages):
        if one.seq:
            said.append(message_of(one))
            continue
        # A block of memdb: its frame stays whole, its lines are quoted already.
        lines = [piece for piece in window.pieces if piece.message == place]
        trust = least_trust(piece.trust for piece in lines)
        said.append({"seq": 0, "text": Framed(one.text), **written(trust, one.role, "memdb")})
    pieces = [
        {
            "kind": piece.kind,
            "message": piece.message,
            "ref": piece.ref or "",
            **written(piece.trust, piece.role, piece.writer),
        }
        for piece in window.pieces
        if piece.kind not in ("frame", "message", "system")
    ]
    return {"messages": said, "pieces": pieces, "tokens": window.tokens}


def _expand(scope: Scope, given: Arguments) -> Answer:
    chat = scope.session(given["session"])
    found = chat.summaries.expand(given["id"], after_seq=given.get("after", 0), limit=PAGE)
    summaries = [
        {
            "id": one.id,
            "first_seq": one.first_seq,
            "last_seq": one.last_seq,
            "text": one.text or "",
            **written(one.trust, None, one.summarizer),
        }
        for one in found.summaries
    ]
    said = list(map(message_of, found.messages))
    return {"summaries": summaries, "messages": said, "next": found.next_seq or 0}


def _forget(scope: Scope, given: Arguments) -> Answer:
    if len(given.keys() - {"dry_run"}) != 1:
        raise InvalidInput("give exactly one of entry, session, query and person")
    receipt = scope.forget(**given, artifacts="query" in given)
    return {"removed": receipt.removed, "dry_run": receipt.dry_run}


def _save(scope: Scope, given: Arguments) -> Answer:
    if ("text" in given) == ("base64" in given):
        raise InvalidInput("give either text or base64")
    data: str | bytes = given.get("text", "")
    if "base64" in given:
        try:
            data = b64decode(given["base64"], validate=True)
        except ValueError as error:
            raise InvalidInput(f"base64 cannot be read: {error}") from error
    files = artifacts_of(scope, given.get("session"))
    return described(files.save(given["name"], data, mime=given.get("mime")))


def _load(scope: Scope, given: Arguments) -> Answer:
    files = artifacts_of(scope, given.get("session"))
    return loaded_answer(files.load(given["name"], given.get("version")))


def artifacts_of(scope: Scope, session: str | None) -> Artifacts:
    """Return the artifacts of a session; for None those that all sessions share."""
    return scope.artifacts if session is None else scope.session(session).artifacts


def loaded_answer(found: Artifact) -> Answer:
    """Return an artifact with its content for a model."""
    content = content_of(found.data)
    return {**described(found.info, content.get("text", "")), **content}


def content_of(data: bytes) -> dict[str, str]:
    """Return bytes as text if they are UTF-8, else as base64."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _list(scope: Scope, given: Arguments) -> Answer:
    kind, skip, session = given["kind"], given.get("skip", 0), given.get("session")
    if session is not None and kind != "artifacts":
        raise InvalidInput(f"session is {session!r}, but it only chooses artifacts: leave it out")
    most = skip + LISTED
    finders: dict[str, tuple[Callable[..., Page[Any]], Callable[..., Answer]]] = {
        "sessions": (partial(scope.sessions, order="updated"), described_session),
        "entries": (partial(scope.entries.list, order="updated"), described_entry),
        "artifacts": (artifacts_of(scope, session).list, described),
    }
    find, shown = finders[kind]
    found = find(limit=most)
    return {kind: [shown(one) for one in found[skip:]], "next": 0 if found.next is None else most}


def described_session(one: SessionInfo) -> Answer:
    """Return a conversation for a model; nobody vouches for its names."""
    names = {"name": one.name, "title": one.title or "", "opening": one.opening or ""}
    return {
        **names,
        "messages": one.message_count,
        "updated": iso_time(one.updated_ms),
        **written(trust_of_text("\n".join(names.values()), UNTRUSTED), None, None),
    }


def described_entry(one: Entry) -> Answer:
    """Return a fact for a model."""
    return {
        "id": one.id,
        "text": one.text,
        "category": one.category,
        "key": one.key or "",
        "updated": iso_time(one.updated_ms),
        **written(one.trust, None, one.writer),
    }


def described(one: ArtifactVersion, content: str = "") -> Answer:
    """Return a version of an artifact for a model; its trust is that of name and *content*."""
    return {
        "name": one.name,
        "version": one.version,
        "session": one.session or "",
        "mime": one.mime,
        "size_bytes": one.size_bytes,
        **written(trust_of_text(f"{one.name}\n{content}", UNTRUSTED), None, None),
    }


def _append(scope: Scope, given: Arguments) -> Answer:
    chat, given["role"] = scope.session(given.pop("session")), role_of(given["role"])
    if given["role"] == "system":
        raise InvalidInput(
            "role is 'system', which only the host may write: give user or assistant"
        )
    stored = chat.append(given.pop("role"), given.pop("text"), **given)
    return {"seq": stored.seq, "tokens": stored.tokens}


WRITTEN = {
    "trust": text("trusted, untrusted (not from the user) or flagged (reads like an order)"),
    "role": text("Who speaks, of a message"),
    "writer": text("Who wrote it; empty: not said"),
}


def rows(**fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of objects with *fields*, and with who wrote each."""
    return many(whole(**fields, **WRITTEN))


MESSAGES = rows(seq=number("0: not stored"), text=text(""))
ARTIFACT = {
    "name": text(""),
    "version": number(""),
    "session": text("empty: shared by all conversations"),
    "mime": text(""),
    "size_bytes": number(""),
    **WRITTEN,
}
NAME = text("Name of the artifact; one that begins with user: belongs to all conversations")

TOOLS = (
    Tool(
        "remember",
        "Remember a fact",
        "Store one long-term fact, as a sentence that can stand alone.",
        shape(
            "text",
            text=text("The fact"),
            category=text("What kind of fact: profile, preferences, entities, events, ..."),
            key=text("A name for the fact; it replaces the earlier fact of this name"),
            keywords=many({"type": "string"}, "Other words to find it by"),
            importance=number("5 is neutral", minimum=1, maximum=10),
        ),
        whole(
            **WRITTEN,
            action=text("added, repeated, updated, retracted or refused"),
            id=number("Id of the entry"),
            text=text("What it says now"),
            reason=text("Why"),
            links=many(
                whole(
                    kind=text("repeats, updates, corrects or retracts"),
                    older=number("Id of the older entry, which stays"),
                    probability={"type": "number", "description": "That it is so, 0.5 to 1"},
                ),
                "What it does to older entries, as memdb guesses",
            ),
        ),
        _remember,
        idempotent=True,
    ),
    Tool(
        "recall",
        "Recall",
        "Search all that is known: messages, facts, items, artifacts, by words and meaning.",
        shape(
            "query",
            query=text("A question or some words; empty with since or until: what was said then"),
            limit=number("Most hits", minimum=1, maximum=100, default=10),
            kinds=many({"type": "string", "enum": [*get_args(Kind)]}, "Only these kinds of hits"),
            session=text("Only this conversation"),
            since=text("Only from this day or time on: 2026-05-01, 30d, 2 weeks ago"),
            until=text("Only up to this day or time"),
            min_score={
                "type": "number",
                "description": "Least score, 0 shows all; absent: nothing that is no answer",
                "minimum": 0,
                "maximum": 1,
            },
            only_sure={"type": "boolean", "description": "Only what answers for sure"},
        ),
        whole(
            certainty=text("sure, unsure (the closest are given) or none (nothing is known)"),
            note=text("What that means, and what was left out"),
            hits=rows(
                kind=text("message, entry, item, artifact, session (its title) or summary"),
                text=text(""),
                score={"type": "number"},
                is_sure={"type": "boolean"},
                source=OBJECT,
            ),
        ),
        _recall,
        read_only=True,
        is_logged=True,
        idempotent=True,
    ),
    Tool(
        "context",
        "Context of a conversation",
        "A whole conversation within a budget: summaries of what is older, the newest messages.",
        shape(
            "session",
            session=SESSION,
            budget_tokens=number("Most tokens", minimum=1, maximum=1 << 20, default=4000),
            query=text("What it is needed for: adds what was said about it"),
        ),
        whole(
            messages=MESSAGES,
            pieces=many(OBJECT, "What the messages with seq 0 are made of"),
            tokens=number(""),
        ),
        _context,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "expand",
        "Expand a summary",
        "Show the sources of a summary: the summaries a level down, or the messages themselves.",
        shape(
            "session",
            "id",
            session=SESSION,
            id={
                "type": ["integer", "string"],
                "description": "Number of a summary, or messages such as #12 or 11-20",
            },
            after=number("Continue behind this message number", minimum=0, default=0),
        ),
        whole(summaries=many(OBJECT), messages=MESSAGES, next=number("0: that was all")),
        _expand,
        read_only=True,
        is_logged=True,
        idempotent=True,
    ),
    Tool(
        "forget",
        "Forget",
        "Remove something for good: one of entry, session, query and person.",
        shape(
            entry=number("Id of a fact"),
            session=text("A conversation as a whole, with its artifacts"),
            query=text("All that says these words: messages, facts, items and artifacts"),
            person=text("All that names this person, in any field"),
            dry_run={"type": "boolean", "description": "Only say what would go"},
        ),
        whole(removed=OBJECT, dry_run={"type": "boolean"}),
        _forget,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "artifact_save",
        "Save an artifact",
        "Save text, or bytes as base64, as the next version of a name.",
        shape(
            "name",
            name=NAME,
            text=text("The text"),
            base64=text("The bytes"),
            session=SESSION,
            mime=text("Media type; guessed from the name without it"),
        ),
        whole(**ARTIFACT),
        _save,
        ordered=True,
    ),
    Tool(
        "artifact_load",
        "Load an artifact",
        "The newest or a given version of an artifact.",
        shape(
            "name", name=NAME, version=number("Without it the newest", minimum=1), session=SESSION
        ),
        shape(
            *ARTIFACT,
            **ARTIFACT,
            text=text("UTF-8; tags of blocks and speakers have a space behind <"),
            base64=text("Other bytes"),
        ),
        _load,
        read_only=True,
        is_logged=True,
        idempotent=True,
    ),
    Tool(
        "list",
        "List",
        "All conversations or facts, the newest first, or the newest version of each artifact.",
        shape(
            "kind",
            kind=text("What to list", enum=["sessions", "entries", "artifacts"]),
            session=text("Only artifacts of this conversation"),
            skip=number("Continue behind so many", minimum=0, default=0),
        ),
        shape(
            "next",
            sessions=rows(
                name=text("Its name in the other tools"),
                title=text("empty: it has none"),
                opening=text("What the user said first"),
                messages=number("How many it has"),
                updated=text("Time of the newest message"),
            ),
            entries=rows(
                id=number(""),
                text=text(""),
                category=text(""),
                key=text("empty: it has none"),
                updated=text(""),
            ),
            artifacts=many(whole(**ARTIFACT)),
            next=number("What to skip for the next page; 0: that was all"),
        ),
        _list,
        read_only=True,
        is_logged=True,
        idempotent=True,
    ),
    Tool(
        "chat_append",
        "Add a message",
        "Add a message to a conversation.",
        shape(
            "session",
            "role",
            "text",
            session=SESSION,
            role=text("Who speaks: user, assistant or tool"),
            text=text("Text of the message"),
            author=text("Name of who speaks"),
            external_id=text("Your id for it: adding the same message again changes nothing"),
        ),
        whole(seq=number("Its number"), tokens=number("")),
        _append,
        ordered=True,
    ),
)
