"""A server of the mcp package with the scope's answers, for the package's transports."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from memdb import __version__
from memdb.integrations.mcp.door import INSTRUCTIONS, Door, Refused
from memdb.integrations.mcp.protocol import in_form_of
from memdb.providers.shared import missing_extra

if TYPE_CHECKING:
    from typing import Any

    from mcp.server import Server

    from memdb import aio
    from memdb.integrations.mcp.tools import Answer


def make_server(db: aio.MemDB, *, user: str, app: str = "default") -> Server[Any]:
    """
    Return a server of the mcp package for the memory of *user*.

    Args:
        db: The open file; the caller closes it.

    Raises:
        InvalidInput: the mcp package is not installed, or a name is unusable.
    """
    return server_of(Door(db.blocking, db.run, user, app))


def server_of(door: Door) -> Server[Any]:
    """Return a server that passes requests to *door*; InvalidInput without the mcp package."""
    try:
        import mcp_types as types
        from mcp.server import Server
    except ImportError as error:
        raise missing_extra("mcp", error) from error
    server: Server[Any] = Server(
        "memdb", version=__version__, title="memdb", instructions=INSTRUCTIONS
    )
    for method in door.requests:  # the package has checked the parameters
        server.add_request_handler(method, types.RequestParams, partial(_answer, door, method))
    return server


async def _answer(door: Door, method: str, context: Any, _params: Any) -> Answer:
    from mcp.shared.exceptions import MCPError

    caller = _Caller(context)
    if method == "resources/subscribe" and caller.connection not in door.subscriptions:
        with suppress(AttributeError):
            caller.connection.exit_stack.callback(door.subscriptions.leave, caller.connection)
    try:
        answered = await door.requests[method](caller, context.params or {})
    except Refused as error:
        raise MCPError(error.code, str(error), error.data) from error
    return in_form_of(context.protocol_version, method, answered)


class _Caller:
    """A client of the mcp package."""

    def __init__(self, context: Any) -> None:
        self._session = context.session
        self.connection = getattr(self._session, "_connection", self._session)
        self.request = context.request_id
        params = self._session.client_params
        self.client: str | None = None if params is None else params.client_info.name

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        import mcp_types as types

        sent = types.server_notification_adapter.validate_python(
            {"method": method, "params": params}, by_name=False
        )
        await self._session.send_notification(sent, self.request if "_meta" in params else None)
