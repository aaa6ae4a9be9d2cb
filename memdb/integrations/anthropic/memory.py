"""The two classes that Anthropic's tool runners call: one for sync clients, one for async."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from anthropic.lib.tools import (
    BetaAbstractMemoryTool,
    BetaAsyncAbstractMemoryTool,
    ToolError,
)

from memdb.adapters.adapter import Adapter
from memdb.integrations.anthropic.files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anthropic.lib.tools import BetaFunctionToolResultType
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    import memdb
    from memdb.adapters.adapter import Source


# What the model gives with each command, as `MemoryFiles` takes it.
FIELDS = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


class _MemoryAdapter(Adapter):
    """What both classes have: the files of a user, and ToolError for what goes wrong."""

    def __init__(
        self, source: Source, *, user: str = "default", app: str = "default", **options: Any
    ) -> None:
        super().__init__(source, **options)
        self._files = MemoryFiles(self._db, self._db.scope(user, app).items)

    def _refuse_unknown(self, given: object) -> None:
        """Raise ToolError for what is no command; Anthropic's class raises errors of Python."""
        name = given.get("command") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in FIELDS:
            raise ToolError(f"Unknown command: {name!r:.80}, use one of {', '.join(FIELDS)}")

    def _work(self, name: str, command: object) -> Callable[[], str]:
        """Return what does a command; a field that the model left out is None."""
        values = [getattr(command, field, None) for field in FIELDS[name]]
        work: Callable[[], str] = partial(getattr(self._files, name), *values)
        return work

    def _translate(self, error: memdb.MemDBError) -> Exception:
        refused: Exception = ToolError(str(error))
        return refused


class MemdbMemoryTool(_MemoryAdapter, BetaAbstractMemoryTool):
    """
    The memory tool for sync clients, on a memdb file.

    Every failure is a ToolError, which the model reads; nothing is then written.
    """

    def __init__(
        self,
        source: Source,
        *,
        user: str = "default",
        app: str = "default",
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, or a file that is open; as for every adapter.
            user, app: Whose memory it is.
            cache_control: As in Anthropic's own class.
            options: For `memdb.open`, with a path.

        Raises:
            FileError: the file cannot be used.
            InvalidInput: an argument is wrong.
        """
        BetaAbstractMemoryTool.__init__(self, cache_control=cache_control)
        super().__init__(source, user=user, app=app, **options)

    def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 (Anthropic's name)
        """Do a command as the model gave it."""
        self._refuse_unknown(input)
        return super().call(input)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a file with numbered lines, or what lies in a folder."""
        return self._call(self._work("view", command))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file; one that is there stays."""
        return self._call(self._work("create", command))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return self._call(self._work("str_replace", command))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put a text after a line of a file."""
        return self._call(self._work("insert", command))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Remove a file, or a folder with all that lies in it."""
        return self._call(self._work("delete", command))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or folder to a path that is free."""
        return self._call(self._work("rename", command))

    def clear_all_memory(self) -> str:
        """Remove everything below /memories."""
        return self._call(self._files.clear)


class MemdbAsyncMemoryTool(_MemoryAdapter, BetaAsyncAbstractMemoryTool):
    """
    The memory tool for async clients, on a memdb file; see `MemdbMemoryTool`.

    Its calls run in threads, the changes in order. One that is cancelled is done as a
    whole, or not at all.
    """

    def __init__(
        self,
        source: Source,
        *,
        user: str = "default",
        app: str = "default",
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source, user, app, cache_control, options: As for `MemdbMemoryTool`.
        """
        BetaAsyncAbstractMemoryTool.__init__(self, cache_control=cache_control)
        super().__init__(source, user=user, app=app, **options)

    async def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 (as above)
        """Do a command as the model gave it."""
        self._refuse_unknown(input)
        return await super().call(input)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a file with numbered lines, or what lies in a folder."""
        return await self._read(self._work("view", command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file; one that is there stays."""
        return await self._run(self._work("create", command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return await self._run(self._work("str_replace", command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put a text after a line of a file."""
        return await self._run(self._work("insert", command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Remove a file, or a folder with all that lies in it."""
        return await self._run(self._work("delete", command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or folder to a path that is free."""
        return await self._run(self._work("rename", command))

    async def clear_all_memory(self) -> str:
        """Remove everything below /memories."""
        return await self._run(self._files.clear)
