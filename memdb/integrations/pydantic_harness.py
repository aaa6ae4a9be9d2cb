"""
Pydantic AI's harness: the files of its `Memory` in a memdb file (extra `pydantic-harness`).

    Memory(store=MemdbMemoryStore("agent.db", user="ann"))

A file is an item, with its version and the receipts of operations. `docs/pydantic-ai.md` has the
mapping.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from memdb.adapters.adapter import ScopedAdapter, extra
from memdb.errors import InvalidInput

with extra("pydantic-harness"):
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memdb import Item
    from memdb.adapters.adapter import Source
    from memdb.models.items import Ttl

MAX_METADATA_CHARS = 4_096
PATH = re.compile(r"[A-Za-z0-9_.-]{1,200}")
COUNTER = "generation"


class MemdbMemoryStore(ScopedAdapter):
    """
    Files of an agent's memory, found by `scope.recall` too.

    A version number is never used again, not even after a delete. Each mutation is one transaction
    with the receipt of its operation.
    """

    def __init__(
        self,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        namespace: Sequence[str] = ("pydantic-ai", "memory"),
        receipts: Ttl = "30d",
        **options: Any,
    ) -> None:
        """
        Store files in a namespace of items.

        Args:
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
            namespace: Its labels; stores with different ones share nothing.
            receipts: How long a repeated operation gets its receipt.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(source, user=user, app=app, **options)
        self._items = self._scope.items
        labels = tuple(namespace)
        self._files = (*labels, "files")
        self._operations = (*labels, "operations")
        self._counters = (*labels, "counters")
        self._receipts = receipts

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the file at a path, cut after *max_chars*; None if there is none."""
        _require_path(path)
        _require_positive(max_chars, "max_chars")
        item = await self._read(partial(self._items.find, self._files, path))
        return None if item is None else _to_file(item, max_chars)

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """
        Return the receipt of an operation, None if it was not done.

        Raises:
            MemoryOperationConflictError: the id belongs to another operation.
        """
        return await self._read(partial(self._receipt, operation))

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """
        Create or replace a file; return the receipt if the operation was done before.

        Raises:
            MemoryConflictError: the file is not at *expected_version*; None means no file.
            MemoryOperationConflictError: the id of the operation belongs to another one.
            ValueError: the path or text cannot be stored.
        """
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file as `write` does, and store *metadata* with it."""
        _require_path(path)
        if not isinstance(content, str):
            raise InvalidInput(f"content is {type(content).__name__}: give a str")
        kept = _checked_metadata(metadata)
        work = partial(self._write, path, content, kept, expected_version, operation)
        return await self._run(work)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file; raises as `write` does."""
        _require_path(path)
        return await self._run(partial(self._delete, path, expected_version, operation))

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the first *limit* paths that begin with *prefix*, in order."""
        _require_prefix(prefix)
        _require_positive(limit, "limit")
        return await self._read(partial(self._list, prefix, limit))

    async def search(
        self,
        prefix: str,
        query: str,
        *,
        limit: int,
        max_files: int,
        max_chars: int,
        max_file_chars: int,
    ) -> MemorySearchResult:
        """Return the files directly below *prefix* that contain words of *query*, best first."""
        _require_prefix(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        files, is_cut = await self._read(partial(self._texts, prefix, max_files, max_file_chars))
        return _ranked(files, query, prefix, limit, max_chars, is_cut=is_cut)

    def _list(self, prefix: str, limit: int) -> list[str]:
        found: list[str] = []
        while len(found) < limit:
            most = min(limit - len(found), 10_000)
            last = found[-1] if found else ""
            page = self._items.keys(self._files, prefix, after=last, limit=most)
            if not page:
                break
            found += page
        return found

    def _texts(
        self, prefix: str, max_files: int, max_file_chars: int
    ) -> tuple[list[tuple[str, str]], bool]:
        """Return (path, text) of the files directly below a prefix, and whether some is cut."""
        found: list[tuple[str, str]] = []
        is_cut, last = False, ""
        while page := self._items.keys(self._files, prefix, after=last, limit=1_000):
            for path in page:
                if "/" in path.removeprefix(prefix):
                    continue
                if len(found) == max_files:
                    return found, True
                item = self._items.find(self._files, path)
                if item is not None:
                    text = item.value["text"]
                    is_cut = is_cut or len(text) > max_file_chars
                    found.append((path, text[:max_file_chars]))
            last = page[-1]
        return found, is_cut

    def _write(
        self,
        path: str,
        content: str,
        metadata: dict[str, str] | None,
        expected_version: str | None,
        operation: MemoryOperation | None,
    ) -> MemoryMutation:
        with self._db.transaction():
            receipt = None if operation is None else self._receipt(operation)
            if receipt is not None:
                return receipt
            item = self._require_version(path, expected_version)
            version = self._next_version()
            value = {
                "text": content,
                "version": version,
                "operation": None if operation is None else operation.id,
                "metadata": metadata,
            }
            self._items.put(self._files, path, value, index=["text"])
            return self._done(operation, version, existed=item is not None)

    def _delete(
        self, path: str, expected_version: str | None, operation: MemoryOperation | None
    ) -> MemoryMutation:
        with self._db.transaction():
            receipt = None if operation is None else self._receipt(operation)
            if receipt is not None:
                return receipt
            existed = self._require_version(path, expected_version) is not None
            self._items.delete(self._files, path)
            return self._done(operation, None, existed=existed)

    def _require_version(self, path: str, expected_version: str | None) -> Item | None:
        item = self._items.find(self._files, path)
        if (None if item is None else item.value["version"]) != expected_version:
            raise MemoryConflictError(f"{path!r} changed since it was read: read it again")
        return item

    def _next_version(self) -> str:
        """Return the next version: a counter of the store, which outlives its files."""
        counter = self._items.find(self._counters, COUNTER)
        number = (0 if counter is None else int(counter.value)) + 1
        self._items.put(self._counters, COUNTER, number, index=False)
        return str(number)

    def _receipt(self, operation: MemoryOperation) -> MemoryMutation | None:
        item = self._items.find(self._operations, operation.id)
        if item is None:
            return None
        if item.value["fingerprint"] != operation.fingerprint:
            raise MemoryOperationConflictError(
                f"operation id {operation.id!r} was used for another operation: give each "
                "operation its own id"
            )
        version, existed = item.value["version"], item.value["existed"]
        return MemoryMutation(version=version, replayed=True, existed=existed)

    def _done(
        self, operation: MemoryOperation | None, version: str | None, *, existed: bool
    ) -> MemoryMutation:
        if operation is not None:
            value = {"fingerprint": operation.fingerprint, "version": version, "existed": existed}
            self._items.put(self._operations, operation.id, value, index=False, ttl=self._receipts)
        return MemoryMutation(version=version, replayed=False, existed=existed)


def _require_path(path: str) -> None:
    parts = path.split("/") if isinstance(path, str) else [""]
    if len(parts) > 1 and not parts[-1]:
        parts = [""]
    if not all(PATH.fullmatch(one) and ".." not in one and one != "." for one in parts):
        raise InvalidInput(
            f"{path!r:.80} is not a path of a memory: use letters, digits, _ . - and /"
        )


def _require_prefix(prefix: str) -> None:
    if prefix:
        _require_path(prefix.removesuffix("/"))


def _require_positive(number: int, field: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
        raise InvalidInput(f"{field} is {number!r}: give a positive number")


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the data that a write stores about itself; None for nothing."""
    if not metadata:
        return None
    texts = [one for pair in metadata.items() for one in pair]
    if not all(isinstance(one, str) for one in texts):
        raise TypeError("metadata has a key or value that is not text: give strings")
    if len(whole := "".join(texts)) > MAX_METADATA_CHARS or "\0" in whole:
        raise InvalidInput(
            f"metadata is longer than {MAX_METADATA_CHARS:,} characters or contains NUL: shorten "
            "it or remove NUL"
        )
    return dict(metadata)


def _to_file(item: Item, max_chars: int) -> MemoryFile:
    text, known = item.value["text"], MemoryFile.__dataclass_fields__
    more = {"metadata": item.value["metadata"]} if "metadata" in known else {}
    return MemoryFile(
        content=text[:max_chars],
        version=item.value["version"],
        operation_id=item.value["operation"],
        truncated=len(text) > max_chars,
        **more,
    )


def _ranked(
    files: list[tuple[str, str]],
    query: str,
    prefix: str,
    limit: int,
    max_chars: int,
    *,
    is_cut: bool,
) -> MemorySearchResult:
    """Rank like the harness's own stores: by how often the words occur, twice in the path."""
    terms = query.lower().split()
    scored = []
    for path, text in files:
        below, words = path.removeprefix(prefix), text.lower()
        score = sum(words.count(term) + 2 * below.lower().count(term) for term in terms)
        if score:
            scored.append((-float(score), path, text))
    scored.sort()
    matches: list[MemorySearchMatch] = []
    rest = max_chars
    for negative, path, text in scored[:limit]:
        below = path.removeprefix(prefix)
        if rest <= len(below):
            break
        snippet = _snippet(text, terms, rest - len(below))
        matches.append(MemorySearchMatch(path=path, snippet=snippet, score=-negative))
        rest -= len(below) + len(snippet)
    is_cut = is_cut or len(matches) < len(scored)
    return MemorySearchResult(matches=matches, scanned=len(files), truncated=is_cut)


def _snippet(text: str, terms: list[str], most: int) -> str:
    """Return up to *most* characters around the first matching word, with "..." at cut ends."""
    lower = text.lower()
    places = [place for term in terms if (place := lower.find(term)) >= 0]
    start = max(0, (min(places) if places else 0) - most // 3)
    end = min(len(text), start + most)
    start = max(0, end - most)
    dots = "..."[: min(most, 3)]
    shown = text[start:end]
    if start:
        shown = dots + shown[len(dots) :]
    if end < len(text):
        shown = shown[: len(shown) - len(dots)] + dots
    return shown
