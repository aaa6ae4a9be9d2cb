"""
Detection of the format of an import: the first format that claims some of its files.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from memdb.errors import FileError, InvalidInput
from memdb.formats.sqlite_files import list_tables
from memdb.models.record import Record
from memdb.text.validate import choice_value, optional_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.formats.imports.base import Format
    from memdb.formats.source import Tree
    from memdb.models.reports import TableColumns


class Known(Record):
    """
    Signs of a format, known without loading its module; a file without any sign has another format.

    Attributes:
        module: Of `memdb.formats.imports`.
        fields: Fields; a record of the format has at least one of them.
        in_array: The same for a file that is an array.
        files: Patterns of its file names, if the name is enough.
        is_database: Whether it is a SQLite file.
    """

    module: str
    fields: tuple[str, ...] = ()
    in_array: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_database: bool = False


# In the order in which they are asked: what is known by its own files first, then what is
# known by its first line.
FORMATS = {
    "memdb": Known("jsonl", ("kind",)),
    "deepseek": Known("chats", ("inserted_at", "fragments")),
    "pi": Known("chats", ("cwd",)),
    "copilot-cli": Known("chats", ("data",)),
    "vscode-copilot": Known("chats", ("requests",)),
    "open-webui": Known("chats", ("chat",)),
    "librechat": Known("chats", ("conversationId",)),
    "ai-studio": Known("chats", ("chunkedPrompt",)),
    "slack": Known("chats", ("ts",)),
    "telegram": Known("chats", ("chats", "messages")),
    "agent-chat": Known("chats", ("conversation",)),
    "kiro": Known("chats", ("conversation_id",)),
    "whatsapp": Known("chats", files=("*.txt",)),
    "aider": Known("chats", files=("*.md",)),
    "chatgpt": Known("chatgpt", ("mapping",), files=("conversations-*.json",)),
    "claude": Known(
        "claude",
        ("chat_messages", "conversations_memory", "docs", "prompt_template", "is_starter_project"),
    ),
    "grok": Known("chats", ("responses",)),
    "gemini": Known("gemini", ("header",)),
    "mem0": Known("memories", ("memory",)),
    "mcp-memory": Known("memories", ("entityType", "relationType")),
    "locomo": Known("locomo", ("speaker_a",)),
    "llm": Known("databases", is_database=True),
    "lossless-claw": Known("databases", is_database=True),
    "langgraph": Known("databases", is_database=True),
    "hermes": Known("databases", is_database=True),
    "opencode": Known("databases", is_database=True),
    "cpersona": Known("databases", is_database=True),
    "engrava": Known("databases", is_database=True),
    "memware": Known("databases", is_database=True),
    "sqlite": Known("databases", is_database=True),
    "claude-code": Known("transcripts", ("sessionId", "leafUuid", "parentUuid", "messageId")),
    "codex": Known("transcripts", ("payload",)),
    "gemini-cli": Known("transcripts", ("projectHash",)),
    "cursor": Known("transcripts", ("message",)),
    "openai": Known("openai", ("messages",), ("role",)),
    "jsonl": Known("jsonl", ("kind", "role", "category")),
    "markdown": Known("notes", files=("*.md", "*.markdown")),
    "csv": Known("csv", files=("*.csv", "*.tsv")),
    "text": Known("notes", files=("*.txt", "*.text")),
}
NAMES = tuple(FORMATS)
DATABASES = tuple(name for name, known in FORMATS.items() if known.is_database)

# Records of a file that its format is detected from; of more than so many files only the first.
PEEKS = 4
FEW_FILES = 200

NOTHING = "Nothing is stored"
JSON_FILES = (".json", ".jsonl")

# Names of files that an error lists.
SHOWN = 5
TABLES = 20


def load_format(name: str) -> Format:
    """
    Return a format by its name.

    Raises:
        InvalidInput: no format has that name.
    """
    known = FORMATS[choice_value(name, "format", NAMES)]
    module = import_module(f"memdb.formats.imports.{known.module}")
    formats: dict[str, Format] = module.FORMATS
    return formats[name]


def may_claim(format: str, tree: Tree) -> bool:  # noqa: A002 (the word that users of files use)
    """
    Return whether a format could claim a tree, without loading its module; False is certain.

    Every format is tried on a folder or an archive, because neighbouring files are signs too.
    """
    known = FORMATS[format]
    if known.is_database or tree.is_database:
        return known.is_database and tree.is_database
    if not tree.is_alone or tree.named(*known.files):
        return True
    name = tree.names[0]
    in_array = known.in_array if known.in_array and tree.is_array(name) else ()
    return tree.has_field(name, known.fields + in_array)


def detect(tree: Tree) -> tuple[Format, list[str]]:
    """
    Return the format of a tree, and the files in that format.

    Raises:
        FileError: a file cannot be read.
        InvalidInput: no format claims any of them; the error describes them.
    """
    unread = tree.unreadable | tree.refused
    if not tree.names:
        why = next((f"{one}: {why}" for one, why in unread.items()), "there is nothing to import")
        raise InvalidInput(f"{tree.name} contains no files: {why}")
    # A record that is broken may be the first one.
    for skipped in range(PEEKS if len(tree.names) <= FEW_FILES else 1):
        tree.skip_records(skipped)
        try:
            for name in NAMES:
                if may_claim(name, tree) and (claimed := load_format(name).claim(tree)):
                    return load_format(name), claimed
        except FileError as error:
            raise FileError(f"{error}. {NOTHING}", error.path) from error
        if tree.is_database:
            break
    tree.skip_records(0)
    raise _refusal(tree)


def _refusal(tree: Tree) -> InvalidInput | FileError:
    """Return the error about a tree if no format claims one of its files."""
    if tree.is_alone and tree.named("*.html", "*.htm"):
        return InvalidInput(
            f"{tree.name} is a page for people, which is not read: where `memdb export` made it, "
            "export JSON lines (or .md, .csv) instead"
        )
    if tree.is_alone and not tree.is_database:
        head, found = tree.first_character(tree.names[0]), {*tree.peek(tree.names[0])}
        if head in (b"", b"{", b"["):
            try:
                first = tree.first(tree.names[0])
            except InvalidInput as error:
                return InvalidInput(f"{error}. {NOTHING}")
            if not first:
                return InvalidInput(
                    f"{tree.name} is an empty list or object: there is nothing to import"
                )
        return _unknown(f"{tree.name}, {'element' if head == b'[' else 'line'} 1", found)
    if tree.is_database:
        found = {*list_tables(tree.path)}
        tables = ", ".join(sorted(found)[:TABLES]) or "no table"
        return InvalidInput(
            f"{tree.name} is the database of a program that memdb does not know: say which table "
            f"holds messages, with --table and --text-column. It has {tables}"
            f"{_nearest(found, is_database=True)}. Read are {', '.join(DATABASES)}; of mem0 "
            "the JSON that its get_all() gives, not its database"
        )
    return _refusal_of_several(tree)


def _refusal_of_several(tree: Tree) -> InvalidInput | FileError:
    """Return the error for a folder or an archive."""
    problems = [why for name, why in tree.problems.items() if name.lower().endswith(JSON_FILES)]
    if problems:
        first, said = problems[0], f"{problems[0]}. {NOTHING}"
        return FileError(said, first.path) if isinstance(first, FileError) else InvalidInput(said)
    if any("takeout" in name.lower() and name.lower().endswith(".html") for name in tree.names):
        return InvalidInput(
            f"{tree.name} is Google's Takeout as HTML, which is not read: at takeout.google.com "
            "choose JSON for My Activity (under Multiple formats)"
        )
    archives = [name for name in tree.names if name.lower().endswith(".zip")]
    if archives:
        return InvalidInput(
            f"{tree.name} holds archives ({', '.join(archives[:SHOWN])}): "
            f"{'unpack it, and ' if tree.is_archive else ''}import each of them by itself"
        )
    shown = ", ".join(tree.names[:SHOWN]) + (", ..." if len(tree.names) > SHOWN else "")
    return _unknown(f"{tree.name} (it holds {shown})" if not tree.is_alone else tree.name)


def formats_for(tree: Tree) -> Iterator[tuple[str, list[str]]]:
    """Yield each format that claims files of a tree, by its label, and these files."""
    for name in filter(lambda name: may_claim(name, tree), NAMES):
        chosen = load_format(name)
        if claimed := chosen.claim(tree):
            yield chosen.label, claimed


def _unknown(place: str, found: set[str] | None = None) -> InvalidInput:
    return InvalidInput(
        f"{place}: this is not a format that can be imported{_nearest(found or set())}: give a "
        'memdb export, JSON lines like {"role": "user", "text": "..."}, or one that docs/import.md '
        "lists: " + ", ".join(name for name in NAMES if name not in ("memdb", "jsonl"))
    )


def _nearest(found: set[str], *, is_database: bool = False) -> str:
    """Return words that name the format nearest to something; "" if none is near."""
    signs = {
        name: {*known.fields, *known.in_array, *load_format(name).signs}
        for name, known in FORMATS.items()
        if known.is_database == is_database and found
    }
    shared = {name: len(one & found) / len(one) for name, one in signs.items() if one & found}
    if not shared:
        return ""
    name = max(shared, key=lambda name: shared[name])
    lacks = ", ".join(sorted(signs[name] - found)) or "nothing, but its values are others"
    return f" (nearest is {name}: it has {', '.join(sorted(signs[name] & found))}, lacks {lacks})"


def choose_format(
    tree: Tree,
    *,
    has_owner: bool,
    session: str | None,
    format: str | None,  # noqa: A002 (the word that users of files use)
    columns: TableColumns | None,
) -> tuple[Format, list[str]]:
    """
    Return the format of a tree and its files, and refuse arguments that do not fit.

    Raises:
        InvalidInput: the format is unknown, or does not fit the other arguments.
    """
    optional_name(session, "session")
    if format is None and columns is not None:
        format = "sqlite"  # noqa: A001 (as the option)
    if format is None:
        chosen, names = detect(tree)
    else:
        chosen = load_format(format)
        names = chosen.claim(tree) or _without_claim(tree, chosen)
        if tree.is_database and chosen.name not in DATABASES:
            raise InvalidInput(f"{tree.name} is a database: export it first with `memdb export`")
        needs_database = columns is not None or chosen.name in DATABASES
        if needs_database and not tree.is_database:
            raise InvalidInput(
                f"{tree.path} is not a SQLite file of another program, because it has no table"
            )
    if session is not None and not chosen.takes_session:
        raise InvalidInput(
            f"session is given, but a {chosen.name} file has its own session names: leave session "
            "out"
        )
    if not has_owner and not chosen.names_owner(tree, names):
        raise InvalidInput(
            f"a {chosen.name} file does not contain the name of its user: give a user (--user NAME)"
        )
    return chosen, names


def _without_claim(tree: Tree, chosen: Format) -> list[str]:
    """Return the files to read if no format was recognised; InvalidInput for another format."""
    others = [] if tree.is_alone else [*formats_for(tree)]
    if others:
        raise InvalidInput(
            f"{tree.name} contains no {chosen.name} file: it is {others[0][0]}, so leave --format "
            "out"
        )
    return list(tree.names)
