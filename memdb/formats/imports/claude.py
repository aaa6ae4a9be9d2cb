"""
Claude's export: conversations, and the projects and memories beside them.

The session is the branch on the screen, else the newest one. Edited prompts and repeated answers
are branches of it. Blocks that are not text become parts, results of tools messages of their own.
Attachments are searched with their message; what Claude wrote as an artifact becomes its versions.
Documents of projects become artifacts, and memories entries, of the user.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import CIRCULAR, EMPTY, Format, elements, groups
from memdb.formats.imports.threads import in_order, message_before, newest_last, parents_of, way_to
from memdb.models.messages import role_of
from memdb.transfer.lines import Item, any_time, left_out

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree


SOURCE = "claude"

# Files that stand beside the conversations, and the fields that tell a project.
ABOUT = ("projects.json", "memories.json")
OF_PROJECTS = frozenset({"docs", "prompt_template", "is_starter_project"})


def is_about(tree: Tree, name: str) -> bool:
    """Return whether a file contains projects or memories."""
    fields = tree.peek(name)
    is_project = "uuid" in fields and "name" in fields and not fields.keys().isdisjoint(OF_PROJECTS)
    return "conversations_memory" in fields or is_project


def shared_names(values: Iterable[Any]) -> set[str]:
    """Return the names that more than one project has."""
    ids: dict[str, set[str]] = {}
    for value in values:
        if isinstance(value, dict):
            ids.setdefault(_plain_name(value), set()).add(str(value.get("uuid")))
    return {name for name, those in ids.items() if len(those) > 1}


def _plain_name(thing: dict[str, Any], field: str = "name") -> str:
    return str(thing.get(field) or thing.get("uuid") or "unnamed")


def _own_name(name: str, thing: dict[str, Any], shared: Container[str]) -> str:
    """Return a name, with the id of what has it if others have it too."""
    return f"{name} ({thing.get('uuid')})" if name in shared else name


def project_of(place: str, project: dict[str, Any], shared: set[str]) -> Iterator[Item]:
    """Yield a project's instructions and documents as artifacts of the user."""
    plain = _plain_name(project)
    name = _own_name(plain, project, shared)
    made_ms = any_time(project.get("created_at"), "created_at")
    about = {"project": plain}
    documents = project.get("docs")
    if not isinstance(documents, list):
        documents = []
        yield left_out(place, "projects", "they have no list of documents in the export")
    files = Counter(_plain_name(one, "filename") for one in documents if isinstance(one, dict))
    doubled = {file for file, count in files.items() if count > 1}
    for title in ("description", "prompt_template"):
        if isinstance(project.get(title), str) and project[title].strip():
            fields = {"name": f"user:projects/{name}/{title}.md", "text": project[title]}
            fields |= {"mime": "text/markdown", "created_ms": made_ms, "metadata": about}
            yield Item(place, "artifact", fields)
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("content"), str):
            file = _own_name(_plain_name(document, "filename"), document, doubled)
            fields = {"name": f"user:projects/{name}/{file}", "text": document["content"]}
            written_ms = any_time(document.get("created_at"), "created_at")
            fields |= {"mime": "text/plain", "created_ms": written_ms, "metadata": about}
            yield Item(place, "artifact", fields)
        else:
            yield left_out(place, "documents of projects", "they have no text in the export")


def memories_of(place: str, memories: dict[str, Any]) -> Iterator[Item]:
    """Yield an entry for each paragraph of what Claude remembers."""
    found = [(None, memories["conversations_memory"])]
    of_projects = memories.get("project_memories")
    found += [*of_projects.items()] if isinstance(of_projects, dict) else []
    for project, text in found:
        if not isinstance(text, str):
            continue
        for paragraph in map(_paragraph, text.splitlines()):
            if paragraph:
                fields: dict[str, Any] = {"text": paragraph, "writer": SOURCE}
                if project is not None:
                    fields["metadata"] = {"project": project}
                yield Item(place, "entry", fields)


def _paragraph(line: str) -> str:
    """Return a line without its mark of a list; "" for a heading, which says nothing alone."""
    text = line.strip()
    is_heading = text.startswith("#") or (text.startswith("**") and text.endswith("**"))
    return "" if is_heading else text.removeprefix("- ").removeprefix("* ").strip()


# What the types of Claude's artifacts are called elsewhere; others are plain text.
MIMES = {
    "text/markdown": ("text/markdown", ".md"),
    "text/html": ("text/html", ".html"),
    "image/svg+xml": ("image/svg+xml", ".svg"),
    "application/vnd.ant.mermaid": ("text/vnd.mermaid", ".mmd"),
    "application/vnd.ant.react": ("text/jsx", ".jsx"),
    "application/vnd.ant.code": ("text/plain", ""),
}
PLAIN = ("text/plain", ".txt")
NOT_SAID = ("token_budget",)  # blocks that hold nothing that was said
OF_ARTIFACTS = ("type", "title", "language")

# What a message stands behind, and what first messages have there. Older exports do not say it.
PARENT = "parent_message_uuid"
FIRST = "00000000-0000-4000-8000-000000000000"
UNSAID = ""


def _claim(tree: Tree) -> list[str]:
    """Claim conversations with chat_messages, and the projects and memories beside them."""
    found = [name for name in tree.named("conversations.json") if _is_of(tree, name)]
    if not found and tree.is_alone:
        return [name for name in tree.names if _is_of(tree, name) or is_about(tree, name)]
    about = [name for name in tree.named("*.json") if name not in found and is_about(tree, name)]
    return found + about


def _is_of(tree: Tree, name: str) -> bool:
    is_empty = not tree.is_alone and bool(tree.named("users.json", *ABOUT))
    fields = tree.peek(name)
    return "chat_messages" in fields or (not fields and is_empty)


def _read(request: Request) -> Read:
    about = [name for name in request.names if is_about(request.tree, name)]
    shared = shared_names(value for _, value in elements(request, about, "project", is_whole=False))
    found = elements(request, request.names, "conversation")
    yield from groups(found, partial(_element, shared=shared))


def _element(place: str, value: Any, shared: set[str]) -> Iterator[Item]:
    if not isinstance(value, dict):
        raise InvalidInput(
            'this is not a Claude conversation, because it has no "chat_messages": export the '
            "data again"
        )
    if "conversations_memory" in value:
        return memories_of(place, value)
    if "chat_messages" not in value and not value.keys().isdisjoint(OF_PROJECTS):
        return project_of(place, value, shared)
    return _conversation(place, value)


def _conversation(place: str, conversation: dict[str, Any]) -> Iterator[Item]:
    messages = conversation.get("chat_messages")
    if not isinstance(messages, list):
        raise InvalidInput(
            "this is no Claude conversation, because it has no chat_messages: export it again"
        )
    name = conversation.get("uuid")
    if not isinstance(name, str):
        raise InvalidInput("the conversation has no uuid: export it again")
    if not messages:
        yield left_out(place, *EMPTY)
        return
    about: dict[str, Any] = {
        "name": name,
        "title": conversation.get("name") or None,
        "created_ms": any_time(conversation.get("created_at"), "created_at"),
    }
    project = conversation.get("project")
    if isinstance(project, dict) and project.get("name"):
        about["metadata"] = {"project": project["name"]}
    yield Item(place, "session", about)
    yield from _said(place, name, conversation)


def _said(place: str, session: str, conversation: dict[str, Any]) -> Iterator[Item]:
    """Yield the messages, those on the screen first, and the versions of artifacts by time."""
    given: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for number, message in enumerate(conversation["chat_messages"], start=1):
        if not isinstance(message, dict) or not isinstance(message.get("uuid"), str):
            raise InvalidInput(f"message {number} has no uuid: export it again")
        given.setdefault(message["uuid"], []).append((number, message))
    messages = conversation["chat_messages"]
    is_tree = any(isinstance(one.get(PARENT), str) for one in messages)
    parents = parents_of((one["uuid"], _before(one)) for one in messages)
    current = _current(conversation, parents)
    shown, ordered = set(way_to(parents, current)), in_order(parents, current)
    if circular := sum(len(given[one]) for one in given.keys() - set(ordered)):
        yield left_out(place, *CIRCULAR, circular)
    ends: dict[str, str | None] = {}
    calls: dict[str | None, dict[str, dict[str, Any]]] = {}  # the artifacts behind each message
    made: list[tuple[bool, Item]] = []
    for uuid, number, message in [(one, *two) for one in ordered for two in given[one]]:
        where = f"{place}, message {number}"
        about = {"session": session, "created_ms": _time_of(message)}
        after = message_before(parents, uuid, ends)
        blocks = _blocks(message)
        for part, fields in enumerate(_messages(message, blocks), start=1):
            one = uuid if part == 1 else f"{uuid}#{part}"
            placed = {"after": after} if is_tree else {}
            yield Item(where, "message", {**fields, **about, **placed, "external_id": one})
            ends[uuid] = after = one
        calls[uuid] = {**calls.get(parents[uuid], {})}
        for block in blocks:
            if block.get("type") == "tool_use" and block.get("name") == "artifacts":
                about_it = {**about, "message": uuid}
                version = _artifact(where, block.get("input"), about_it, calls[uuid])
                made.append((uuid in shown, version))
    yield from _by_time(made) if is_tree else [item for _, item in made]


def _before(message: dict[str, Any]) -> str | None:
    """Return the parent that a message names; None for a first message."""
    parent = message.get(PARENT, UNSAID)
    return None if parent == FIRST else parent


def _current(conversation: dict[str, Any], parents: dict[str, str | None]) -> str | None:
    """Return the last message on the screen, else the newest without an answer."""
    given = conversation.get("current_leaf_message_uuid")
    if isinstance(given, str) and given in parents:
        return given
    return newest_last(
        parents, {one["uuid"]: _time_of(one) for one in conversation["chat_messages"]}
    )


def _by_time(made: list[tuple[bool, Item]]) -> list[Item]:
    """Return the versions of artifacts by time; what is on the screen is the newest of each."""
    ends: dict[Any, int] = {}
    for is_shown, item in made:
        if is_shown:
            name, at = item.fields.get("name"), item.fields.get("created_ms") or 0
            ends[name] = max(at, ends.get(name, 0))

    def place(one: tuple[bool, Item]) -> tuple[int, bool]:
        at = one[1].fields.get("created_ms") or 0
        return min(at, ends.get(one[1].fields.get("name"), at)), one[0]

    return [item for _, item in sorted(made, key=place)]


def _time_of(message: dict[str, Any]) -> int | None:
    return any_time(message.get("created_at"), "created_at")


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    given = content if isinstance(content, list) else []
    return [
        block for block in given if isinstance(block, dict) and block.get("type") not in NOT_SAID
    ]


def _messages(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield role, text and parts: results of tools are messages between the others."""
    role = role_of(message.get("sender"))
    runs: list[tuple[str, list[dict[str, Any]]]] = []
    for block in blocks:
        kind = "tool" if block.get("type") == "tool_result" else role
        if not runs or runs[-1][0] != kind:
            runs.append((kind, []))
        runs[-1][1].append(block)
    files = _files(message)
    if files or not runs:
        if not runs or runs[-1][0] != role:
            runs.append((role, []))
        runs[-1][1].extend(files)
    for kind, run in runs:
        if kind == "tool":
            yield {"role": kind, "parts": run}
            continue
        texts = [block["text"] for block in run if _is_text(block)]
        texts += [_words(block) for block in run if block.get("type") == "file"]
        fields: dict[str, Any] = {"role": kind, "text": "\n".join(filter(None, texts))}
        if not all(map(_is_text, run)):
            fields["parts"] = run
        elif not fields["text"]:
            fields["text"] = message.get("text") or ""
        yield fields


def _is_text(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _files(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was attached: with its words, as far as Claude read them."""
    found = []
    for field in ("attachments", "files"):
        for attached in message.get(field) or []:
            if isinstance(attached, dict):
                file = {"type": "file", "name": attached.get("file_name") or "unnamed"}
                if attached.get("extracted_content"):
                    file["text"] = attached["extracted_content"]
                if attached.get("file_uuid"):
                    file["file_id"] = attached["file_uuid"]
                found.append(file)
    return found


def _words(file: dict[str, Any]) -> str:
    return f"[file: {file['name']}] {file.get('text', '')}".rstrip()


def _artifact(
    where: str, given: Any, about: dict[str, Any], calls: dict[str, dict[str, Any]]
) -> Item:
    """
    Return the version of an artifact that a call made, from those before it in *calls*.

    Type, title and language stand in the call that made the artifact; one that changes it
    has only what changes.
    """
    call = given if isinstance(given, dict) else {}
    name, command = call.get("id"), call.get("command")
    if not isinstance(name, str) or not name.strip():
        return left_out(where, "artifacts", "their calls have no id")
    whole = calls.get(name, {})
    before, old, new = whole.get("content"), call.get("old_str"), call.get("new_str")
    if isinstance(call.get("content"), str) and command != "update":
        text = call["content"]
    elif before is not None and isinstance(old, str) and old and before.count(old) == 1:
        text = before.replace(old, str(new or ""))
    else:
        why = "the text that they change is not in the version before"
        return left_out(where, "changes of artifacts", why)
    given_again = {key: call[key] for key in OF_ARTIFACTS if isinstance(call.get(key), str)}
    whole = calls[name] = {**whole, **given_again, "content": text}
    mime, suffix = MIMES.get(str(whole.get("type")), PLAIN)
    about_it = {key: whole[key] for key in ("title", "language") if key in whole}
    fields = {**about, "name": name + suffix, "mime": mime, "text": text}
    return Item(where, "artifact", {**fields, "metadata": about_it or None})


FORMATS = {"claude": Format("claude", "an export of Claude", _claim, _read)}
