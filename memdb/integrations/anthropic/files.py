"""
Files and folders below /memories, as items of a scope.

A file is an item with its text, in the namespace of its folder. A folder is an item without a
value, so that it stays when its last file goes. A folder with files needs no item. Each change is
one transaction.

The texts that a model reads are those of the tool's documentation:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anthropic.lib.tools import ToolError

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import Item, MemDB
    from memdb.api.items import Items

    # Labels of a path, the root's first.
    Place = tuple[str, ...]

ROOT = "/memories"
ROOT_LABEL = "memories"
MAX_LINES = 999_999
NUMBER_WIDTH = 6
LISTED_LEVELS = 2
CONTEXT_LINES = 2
PAGE = 1_000

# What a folder's own entry takes on most file systems.
FOLDER_BYTES = 4096

_ABSENT = "The path {} does not exist. Please provide a valid path."


def parse_path(path: object) -> Place:
    """
    Return the labels of a path, the root's first; ".." and "." are resolved.

    Raises:
        ToolError: *path* does not begin with /memories, or leaves it.
    """
    if not isinstance(path, str) or not path.startswith(ROOT):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    labels: list[str] = []
    depth = 0
    for label in path[len(ROOT) :].split("/"):
        if label == "..":
            depth -= 1
            if depth < 0:
                raise ToolError(f"Path {path} would escape {ROOT} directory")
            labels.pop()
        elif label not in ("", "."):
            depth += 1
            labels.append(label)
    return (ROOT_LABEL, *labels)


class MemoryFiles:
    """The commands of the memory tool; each returns the text for the model."""

    def __init__(self, db: MemDB, items: Items) -> None:
        """Keep files among *items*, in transactions of *db*."""
        self._db = db
        self._items = items

    def view(self, path: str, view_range: list[int] | None) -> str:
        """Return a file with numbered lines, or what lies in a folder, two levels deep."""
        place = parse_path(path)
        item = self._find(place)
        if item is not None and item.value is not None:
            return _numbered_text(path, _text_of(item), view_range)
        if item is None and not self._is_folder(place):
            raise ToolError(_ABSENT.format(path))
        head = (
            f"Here're the files and directories up to {LISTED_LEVELS} levels deep in {path}, "
            "excluding hidden items:"
        )
        lines = [f"{_size(FOLDER_BYTES)}\t{path}"]
        lines += [f"{_size(size)}\t{path}/{name}" for size, name in self._listed(place, "", 1)]
        return "\n".join([head, *lines])

    def create(self, path: str, text: str) -> str:
        """Make a file, and the folders above it; a file that is there stays."""
        place = parse_path(path)
        _require_text(text, "file_text")

        def work() -> str:
            if self._exists(place):
                raise ToolError(f"File {path} already exists")
            blocking = self._make_folders(place[:-1])
            if blocking:
                raise ToolError(f"Cannot create {path}: {blocking} is a file")
            self._items.put(place[:-1], place[-1], _value_of(text), expected=0)
            return f"File created successfully at: {path}"

        return self._changed(work)

    def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace the only occurrence of *old* in a file."""
        _require_text(old, "old_str")
        _require_text(new, "new_str")

        def edit(text: str) -> tuple[str, str]:
            count = text.count(old)
            if count == 0:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim "
                    f"in {path}."
                )
            if count > 1:
                lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in _places(text, old))
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` "
                    f"in lines: {lines}. Please ensure it is unique"
                )
            changed = text.replace(old, new)
            line = text.count("\n", 0, text.find(old))
            shown = changed.split("\n")
            first = max(0, line - CONTEXT_LINES)
            snippet = _numbered(shown[first : line + CONTEXT_LINES + 1], first + 1)
            head = (
                "The memory file has been edited. Here is the snippet showing the change "
                "(with line numbers):"
            )
            return changed, f"{head}\n{snippet}"

        return self._edit(path, edit)

    def insert(self, path: str, line: int, inserted: str) -> str:
        """Put a text after line *line* of a file, 0 for its beginning."""
        _require(line, int, "insert_line")
        _require_text(inserted, "insert_text")

        def edit(text: str) -> tuple[str, str]:
            lines = text.split("\n")
            if lines[-1] == "":
                del lines[-1]  # what follows the last line's end is no line
            if not 0 <= line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {line}. It should be within the range "
                    f"[0, {len(lines)}]."
                )
            lines.insert(line, inserted.rstrip("\n"))
            changed = "\n".join(lines)
            if not changed.endswith("\n"):
                changed += "\n"
            return changed, f"The file {path} has been edited."

        return self._edit(path, edit)

    def delete(self, path: str) -> str:
        """Remove a file, or a folder with all that lies in it."""
        place = parse_path(path)
        if len(place) == 1:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")

        def work() -> str:
            item = self._find(place)
            if item is None and not self._is_folder(place):
                raise ToolError(f"The path {path} does not exist")
            if item is not None:
                self._items.delete(place[:-1], place[-1])
            if item is None or item.value is None:
                self._clear(place)
            return f"Successfully deleted {path}"

        return self._changed(work)

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or folder to a path that is free."""
        old, new = parse_path(old_path), parse_path(new_path)
        if len(old) == 1:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")

        def work() -> str | ToolError:
            if self._exists(new):
                raise ToolError(f"The destination {new_path} already exists")
            item = self._find(old)
            is_absent = item is None and not self._is_folder(old)
            blocking = self._make_folders(new[:-1])
            if is_absent:  # the folders that were made stay, as in Anthropic's own tool
                return ToolError(f"The path {old_path} does not exist")
            if blocking:
                raise ToolError(f"Cannot create {new_path}: {blocking} is a file")
            if new[: len(old)] == old:
                return ToolError(f"Cannot move {old_path} into itself: {new_path}")
            if item is not None:
                self._move(item, new[:-1], new[-1])
            if item is None or item.value is None:
                for below in [*self._below(old)]:
                    self._move(below, (*new, *below.namespace[len(old) :]), below.key)
            return f"Successfully renamed {old_path} to {new_path}"

        return self._changed(work)

    def clear(self) -> str:
        """Remove everything below /memories."""

        def work() -> str:
            self._clear((ROOT_LABEL,))
            return "All memory cleared"

        return self._changed(work)

    def _changed(self, work: Callable[[], str | ToolError]) -> str:
        """Return what *work* gives, done in one transaction."""
        with self._db.transaction():
            done = work()
        if isinstance(done, ToolError):
            raise done
        return done

    def _edit(self, path: str, edit: Callable[[str], tuple[str, str]]) -> str:
        """Change a file by *edit*, which takes its text and returns the new one and an answer."""
        place = parse_path(path)

        def work() -> str:
            item = self._find(place)
            if item is None and not self._is_folder(place):
                raise ToolError(_ABSENT.format(path))
            if item is None or item.value is None:
                raise ToolError(f"The path {path} is not a file.")
            text, answer = edit(_text_of(item))
            version = item.version
            self._items.put(
                place[:-1],
                place[-1],
                _value_of(text),
                metadata=item.metadata,
                expected=version,
                ttl=_ttl_of(item),
            )
            return answer

        return self._changed(work)

    def _find(self, place: Place) -> Item | None:
        """Return the item of a file or folder; None if there is none, as for the root."""
        try:
            return self._items.find(place[:-1], place[-1]) if len(place) > 1 else None
        except InvalidInput:  # nothing can have such a name
            return None

    def _is_folder(self, place: Place) -> bool:
        """Return whether something lies below a path without an item of its own."""
        try:
            return len(place) == 1 or bool(self._items.list(place, limit=1))
        except InvalidInput:
            return False

    def _exists(self, place: Place) -> bool:
        return self._find(place) is not None or self._is_folder(place)

    def _make_folders(self, place: Place) -> str:
        """Make the folders down to *place*; return the path of a file that is in the way, or ""."""
        for depth in range(2, len(place) + 1):
            folder = place[:depth]
            item = self._find(folder)
            if item is not None and item.value is not None:
                return f"/{'/'.join(folder)}"
            if item is None:
                self._items.put(folder[:-1], folder[-1], None, index=False)
        return ""

    def _move(self, item: Item, namespace: Place, key: str) -> None:
        index = item.value is not None
        ttl = _ttl_of(item)
        self._items.put(namespace, key, item.value, metadata=item.metadata, index=index, ttl=ttl)
        self._items.delete(item.namespace, item.key)

    def _clear(self, place: Place) -> None:
        for item in [*self._below(place)]:
            self._items.delete(item.namespace, item.key)

    def _below(self, place: Place, *, exact: bool = False) -> Iterator[Item]:
        """Yield the items in a folder, and below it unless *exact*."""
        after = None
        while page := self._items.list(place, exact=exact, after=after, limit=PAGE):
            yield from page
            after = page[-1]

    def _listed(self, place: Place, above: str, level: int) -> Iterator[tuple[int, str]]:
        """Yield size and path of what lies in a folder, by name; hidden names are left out."""
        sizes = {
            item.key: None if item.value is None else len(_text_of(item).encode())
            for item in self._below(place, exact=True)
        }
        for namespace in self._items.namespaces(place, max_depth=len(place) + 1):
            if len(namespace) > len(place):
                sizes.setdefault(namespace[-1], None)
        for name in sorted(sizes):
            size = sizes[name]
            if name.startswith("."):
                continue
            if size is not None:
                yield size, above + name
                continue
            yield FOLDER_BYTES, f"{above}{name}/"
            if level < LISTED_LEVELS:
                yield from self._listed((*place, name), f"{above}{name}/", level + 1)


def _require(value: object, kind: type, field: str) -> None:
    """Refuse what a model gives in place of a text, a number or a list."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ToolError(f"{field} is {type(value).__name__}: give {kind.__name__}")


def _require_text(text: str, field: str) -> None:
    """Refuse what is not text, or holds half a character, which has no UTF-8 form."""
    _require(text, str, field)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{field} contains a lone surrogate at position {error.start}: remove it"
        ) from error


def _value_of(text: str) -> str | bytes:
    """Return what an item keeps of a text; bytes where JSON cannot contain it."""
    return text.encode() if "\0" in text else text


def _ttl_of(item: Item) -> float | None:
    """Return how many seconds an item lives from a change on; another client may have said it."""
    return None if item.ttl_ms is None else item.ttl_ms / 1_000


def _text_of(item: Item) -> str:
    """Return the text of a file; another client may have put any value there."""
    if isinstance(item.value, bytes):
        return item.value.decode(errors="replace")
    if isinstance(item.value, str):
        return item.value
    return json.dumps(item.value, ensure_ascii=False, indent=1)


def _places(text: str, part: str) -> Iterator[int]:
    """Yield where *part* begins in *text*, overlapping occurrences too."""
    at = text.find(part)
    while at != -1:
        yield at
        at = text.find(part, at + 1)


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(
        f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first)
    )


def _numbered_text(path: str, text: str, view_range: list[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
    first, last = 1, len(lines)
    if view_range is not None:
        _require(view_range, list, "view_range")
        for one in view_range:
            _require(one, int, "view_range")
    if view_range and len(view_range) == len(("first", "last")):
        first = max(1, view_range[0])
        last = len(lines) if view_range[1] == -1 else view_range[1]
    shown = _numbered(lines[first - 1 : last], first)
    return f"Here's the content of {path} with line numbers:\n{shown}"


def _size(size: int) -> str:
    """Return a number of bytes as `ls -h` would: "0B", "512B", "1.5K"."""
    unit = min(max(size.bit_length() - 1, 0) // 10, 3)
    value = size / 1024**unit
    shown = f"{value:.0f}" if value == int(value) else f"{value:.1f}"
    return shown + "BKMG"[unit]
