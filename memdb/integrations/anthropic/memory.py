"""The two classes that Anthropic's tool runners call: one for sync clients, one for async."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from memdb.adapters.adapter import ScopedAdapter, in_thread
from memdb.integrations.anthropic.files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from anthropic.lib.tools import BetaFunctionToolResultType
    from anthropic.types.beta import BetaCacheControlEphemeralParam

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


class _MemoryAdapter(ScopedAdapter):
    """The base of both classes: the files of a user, and ToolError for a failure."""

    _tool: Any  # the class of Anthropic's

    def __init__(
        self,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, or a file that is open; as for every adapter.
            user, app: Whose memory it is. None means MEMDB_USER and MEMDB_APP, or "default".
            cache_control: As in Anthropic's own class.
            options: For `memdb.open`, with a path.

        Raises:
            FileError: the file cannot be used.
            InvalidInput: an argument is wrong.
        """
        self._tool.__init__(self, cache_control=cache_control)
        super().__init__(source, user=user, app=app, **options)
        self._files = MemoryFiles(self._db, self._scope.items)

    def _refuse_unknown(self, given: object) -> None:
        """Raise ToolError for what is not a command; Anthropic's class raises errors of Python."""
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


def _command(name: str) -> Any:
    """Return the method that does the command *name* as the model gave it."""

    def call(self: _MemoryAdapter, command: object) -> str:
        return self._call(self._work(name, command))

    call.__doc__ = f"Do as `MemoryFiles.{name}`."
    return call


class MemdbMemoryTool(_MemoryAdapter, BetaAbstractMemoryTool):
    """
    The memory tool for sync clients, on a memdb file.

    Every failure is a ToolError, which the model reads; nothing is then written.
    """

    _tool: Any = BetaAbstractMemoryTool

    def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 (Anthropic's name)
        """Do a command as the model gave it."""
        self._refuse_unknown(input)
        return super().call(input)

    view = _command("view")
    create = _command("create")
    str_replace = _command("str_replace")
    insert = _command("insert")
    delete = _command("delete")
    rename = _command("rename")

    def clear_all_memory(self) -> str:
        """Remove everything below /memories."""
        return self._call(self._files.clear)


class MemdbAsyncMemoryTool(_MemoryAdapter, BetaAsyncAbstractMemoryTool):
    """
    The memory tool for async clients, on a memdb file; see `MemdbMemoryTool`.

    Its calls run in threads, the changes in order. One that is cancelled is done as a
    whole, or not at all.
    """

    _tool: Any = BetaAsyncAbstractMemoryTool

    async def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 (as above)
        """Do a command as the model gave it."""
        self._refuse_unknown(input)
        return await super().call(input)

    view = in_thread(MemdbMemoryTool.view, "read")
    create = in_thread(MemdbMemoryTool.create)
    str_replace = in_thread(MemdbMemoryTool.str_replace)
    insert = in_thread(MemdbMemoryTool.insert)
    delete = in_thread(MemdbMemoryTool.delete)
    rename = in_thread(MemdbMemoryTool.rename)
    clear_all_memory = in_thread(MemdbMemoryTool.clear_all_memory)
