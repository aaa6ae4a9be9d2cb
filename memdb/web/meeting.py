"""
A sync folder for `memdb sync` over HTTP, which devices read and write.

The server stores sealed files and opens none. Only a token for everything gives access to them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response
from starlette.routing import Route as Path

from memdb.engine.files import PARTIAL, open_private, publish
from memdb.errors import InvalidInput
from memdb.sync.folder import FILE, files_of
from memdb.transfer.lines import bytes_value
from memdb.web.errors import Refused
from memdb.web.guard import API
from memdb.web.parameters import read_json
from memdb.web.routes import encode

if TYPE_CHECKING:
    from starlette.requests import Request


class Meeting:
    """A folder through which devices sync."""

    def __init__(self, folder: str) -> None:
        """Serve the files of *folder*."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._folder = folder
        self.routes = [
            Path(f"/{API}/sync", self._list),
            Path(f"/{API}/sync/{{name:path}}", self._take, methods=["PUT"]),
            Path(f"/{API}/sync/{{name:path}}", self._give, methods=["GET", "DELETE"]),
        ]

    def _list(self, request: Request) -> Response:
        """Return the size of each file by its name."""
        _require_whole(request)
        return encode({"files": files_of(self._folder)})

    def _give(self, request: Request) -> Response:
        """Return or remove a file."""
        path = self._path(request)
        if not os.path.exists(path):
            raise Refused("no_route", "there is no such file: list what there is")
        if request.method == "DELETE":
            os.remove(path)
            return Response(status_code=204)
        if path.endswith(".json"):  # another one may replace it while it is sent
            with open(path, "rb") as file:
                return Response(file.read(), media_type="application/json")
        return FileResponse(path)

    async def _take(self, request: Request) -> Response:
        """Accept a part of a file; after the last part (`whole`) the file exists."""
        path, part = self._path(request), read_json(await request.body())
        if not isinstance(part, dict) or part.keys() != {"at", "data", "whole"}:
            raise InvalidInput(
                "the body is not an object with exactly the fields at, data and whole: send these"
            )
        await run_in_threadpool(_write, path, part["at"], bytes_value(part["data"], "data"))
        if part["whole"]:
            await run_in_threadpool(publish, path)
        return Response(status_code=204)

    def _path(self, request: Request) -> str:
        _require_whole(request)
        name = request.path_params["name"]
        if not FILE.fullmatch(name):
            raise InvalidInput(f"name is {name[:200]!r}: a sync folder has no such file")
        return os.path.join(self._folder, name)


def _require_whole(request: Request) -> None:
    if request.scope["memdb.grant"].user is not None:
        raise Refused("whole_memory", "the token is for one user, and a sync is about all")


def _write(path: str, at: object, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    size = os.path.getsize(path + PARTIAL) if at and os.path.exists(path + PARTIAL) else 0
    if at != size:
        raise InvalidInput(f"at is {at!r}, but {size} bytes have arrived: send it from 0")
    with open(path + PARTIAL, "ab" if size else "wb", opener=open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
