"""Projects and memories of Claude's export: artifacts and entries of the user."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from memdb.formats.imports.base import left_out
from memdb.transfer.lines import Item, iso_time

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from typing import Any

    from memdb.transfer.source import Tree

SOURCE = "claude"

# Files that stand beside the conversations, and the fields that tell a project.
ABOUT = ("projects.json", "memories.json")
OF_PROJECTS = frozenset({"docs", "prompt_template", "is_starter_project"})


def is_about(tree: Tree, name: str) -> bool:
    """Return whether a file holds projects or memories."""
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
    made_ms = iso_time(project.get("created_at"), "created_at")
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
            written_ms = iso_time(document.get("created_at"), "created_at")
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
                fields: dict[str, Any] = {"text": paragraph, "source": SOURCE}
                if project is not None:
                    fields["metadata"] = {"project": project}
                yield Item(place, "entry", fields)


def _paragraph(line: str) -> str:
    """Return a line without its mark of a list; "" for a heading, which says nothing alone."""
    text = line.strip()
    is_heading = text.startswith("#") or (text.startswith("**") and text.endswith("**"))
    return "" if is_heading else text.removeprefix("- ").removeprefix("* ").strip()
