"""
The files of the page: read once at start, served under the hash of all of them.

The hash stands in the path, so that a module imports its neighbours by a relative name and
every file is immutable for the browser. `index.html` names its files by `{{static}}`.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from starlette.responses import Response

from memdb.web.errors import problem
from memdb.web.guard import STATIC

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
MARK = b"{{static}}"
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
HASH_CHARS = 16


class StaticFiles:
    """The files below memdb/web/static, in memory: plain and compressed."""

    def __init__(self, folder: Traversable | None = None) -> None:
        """Read every file of *folder*; None means those of the package."""
        folder = folder or resources.files("memdb.web") / "static"
        files = dict(_walk(folder, ""))
        whole = hashlib.sha256()
        for name, data in sorted(files.items()):
            whole.update(name.encode() + b"\0" + data + b"\0")
        self.prefix = f"{STATIC}{whole.hexdigest()[:HASH_CHARS]}"
        index = files.pop(INDEX, b"").replace(MARK, self.prefix.encode())
        self._index = index, gzip.compress(index, mtime=0)
        self._files = {name: (data, gzip.compress(data, mtime=0)) for name, data in files.items()}

    def names(self) -> list[str]:
        """Return the names of the files but the index."""
        return sorted(self._files)

    async def index(self, request: Request) -> Response:
        """Return the shell of the page; it holds no data."""
        return _answer(request, self._index, TYPES["html"], {"Cache-Control": "no-cache"})

    async def file(self, request: Request) -> Response:
        """Return a file by the hash of all and its name."""
        path = request.path_params["path"]
        name = path.removeprefix(self.prefix.removeprefix(STATIC)).removeprefix("/")
        kind = TYPES.get(name.rpartition(".")[2])
        if name == path or name not in self._files or kind is None:
            return problem("no_route", "there is no such file: open the page again")
        return _answer(request, self._files[name], kind, FOREVER)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walk(one, f"{prefix}{one.name}/")
        elif one.name.rpartition(".")[2] in TYPES:
            yield f"{prefix}{one.name}", one.read_bytes()


def _answer(
    request: Request, content: tuple[bytes, bytes], kind: str, headers: dict[str, str]
) -> Response:
    headers = {**headers, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(content[1], 200, {**headers, "Content-Encoding": "gzip"}, kind)
    return Response(content[0], 200, headers, kind)
