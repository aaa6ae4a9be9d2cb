"""
Finding out what an import is given: the first format that claims some of its files.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.text.validate import choice_value

if TYPE_CHECKING:
    from memdb.transfer.formats.base import Format
    from memdb.transfer.tree import Tree

# The modules of `memdb.transfer.formats` in the order in which they are asked: what is
# known by its own files first, then what is known by its first line.
MODULES = {
    "memdb": "jsonl",
    "chatgpt": "chatgpt",
    "claude": "claude",
    "grok": "grok",
    "gemini": "gemini",
    "mem0": "mem0",
    "mcp-memory": "mcp_memory",
    "locomo": "locomo",
    "llm": "llm",
    "lossless-claw": "lossless_claw",
    "langgraph": "langgraph",
    "sqlite": "sqlite",
    "claude-code": "transcripts",
    "codex": "transcripts",
    "gemini-cli": "transcripts",
    "cursor": "transcripts",
    "openai": "openai",
    "jsonl": "jsonl",
    "markdown": "notes",
    "csv": "csv",
    "text": "notes",
}
NAMES = tuple(MODULES)
DATABASES = ("llm", "lossless-claw", "langgraph", "sqlite")

# Records of a file that are asked for its format, and files of which more than one is.
PEEKS = 4
FEW_FILES = 200

# Names of files that an error lists.
SHOWN = 5
TABLES = 20


def load_format(name: str) -> Format:
    """
    Return a format by its name.

    Raises:
        InvalidInput: there is none of that name.
    """
    module = import_module(f"memdb.transfer.formats.{MODULES[choice_value(name, 'format', NAMES)]}")
    formats: dict[str, Format] = module.FORMATS
    return formats[name]


def detect(tree: Tree) -> tuple[Format, list[str]]:
    """
    Return the format of a tree, and which of its files are of it.

    Raises:
        FileError: a file cannot be read.
        InvalidInput: no format claims any of them; the error says what there is.
    """
    if not tree.names:
        raise InvalidInput(f"{tree.name} holds no files: there is nothing to import")
    # A record that is broken may be the first one.
    for skipped in range(PEEKS if len(tree.names) <= FEW_FILES else 1):
        tree.skip_records(skipped)
        for name in NAMES:
            chosen = load_format(name)
            if claimed := chosen.claim(tree):
                return chosen, claimed
        if tree.is_database:
            break
    tree.skip_records(0)
    if tree.is_alone and not tree.is_database:
        head = tree.first_character(tree.names[0])
        if head in (b"", b"{", b"["):
            tree.first(tree.names[0])  # raises, if it is no JSON
        raise _unknown(f"{tree.name}, {'element' if head == b'[' else 'line'} 1")
    if tree.is_database:
        from memdb.transfer.sqlite_files import list_tables

        tables = ", ".join(sorted(list_tables(tree.path))[:TABLES]) or "no table"
        raise InvalidInput(
            f"{tree.name} is the database of a program that memdb does not know: say which table "
            f"holds messages, with --table and --text-column. It has {tables}"
        )
    shown = ", ".join(tree.names[:SHOWN]) + (", ..." if len(tree.names) > SHOWN else "")
    raise _unknown(f"{tree.name} (it holds {shown})" if not tree.is_alone else tree.name)


def _unknown(place: str) -> InvalidInput:
    return InvalidInput(
        f"{place}: this is no format that can be imported: give a memdb export, JSON lines "
        'like {"role": "user", "text": "..."}, or one of '
        + ", ".join(load_format(name).label for name in NAMES if name not in ("memdb", "jsonl"))
    )
