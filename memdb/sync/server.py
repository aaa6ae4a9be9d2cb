"""
A sync over a server instead of a folder: `memdb serve --sync-folder` stores the same files.

A folder beside the file is a copy of the server's folder. Before a sync missing files are
downloaded, and after it new files are uploaded. So a sync that was interrupted anywhere is
continued by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
from base64 import b64encode
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from memdb.engine.files import private_file
from memdb.engine.sqlite.connection import MEMORY
from memdb.errors import Busy, FileError, InvalidInput
from memdb.sync.folder import FILE, MARK, STATUS, files_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN_VARIABLE = "MEMDB_SYNC_TOKEN"  # noqa: S105 (the name of a variable)
PART_BYTES = 700_000  # in base64 under the megabyte that a server takes
TIMEOUT_S = 60
NOT_FOUND = 404


class Server:
    """
    A server with a sync folder.

    Attributes:
        replica: The folder that is a copy of the server's.
    """

    def __init__(self, url: str, db_path: str) -> None:
        """Use the server at *url*, with the token in MEMDB_SYNC_TOKEN."""
        if db_path == MEMORY:
            raise InvalidInput("a memory without a file cannot sync with a server: give it a file")
        self._url = f"{url.rstrip('/').removesuffix('/api/v1')}/api/v1/sync"
        self.replica = f"{db_path}-sync"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """
        Use the replica in a `with` block; where the system locks folders, no other sync can.

        Raises:
            Busy: another sync of the file is running.
        """
        os.makedirs(self.replica, mode=0o700, exist_ok=True)
        with ExitStack() as stack:
            if os.name == "posix":  # Windows opens no folder
                from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415 (Windows has none)

                handle = os.open(self.replica, os.O_RDONLY)
                stack.callback(os.close, handle)
                try:
                    flock(handle, LOCK_EX | LOCK_NB)
                except BlockingIOError as error:
                    raise Busy(
                        "another sync of this file is running: try again when it is done"
                    ) from error
            yield

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Use a temporary copy of the replica in a `with` block, so that nothing is written."""
        with TemporaryDirectory(prefix="memdb-sync-") as place:
            copy, kept = os.path.join(place, "sync"), os.path.abspath(self.replica)
            if os.path.exists(kept):
                shutil.copytree(kept, copy, copy_function=os.symlink)
            os.makedirs(copy, exist_ok=True)
            self.replica = copy
            yield

    def get(self, own: str) -> None:
        """
        Read new files from the server, and remove those that other devices removed.

        Raises:
            FileError: the server cannot be reached, or refuses.
        """
        there, here = self.list(), files_of(self.replica)
        for name in here.keys() - there.keys():
            if not name.startswith(own or "/") and name != MARK:
                os.remove(os.path.join(self.replica, name))
        for name, size in there.items():
            is_own = bool(own) and name.startswith(own)
            is_news = name not in here or (not is_own and (size != here[name] or STATUS in name))
            if is_news and not (is_own and _is_stale(name, here)):
                path = os.path.join(self.replica, name)
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                try:
                    data = self._ask("GET", name)
                except FileError as error:
                    if getattr(error.__cause__, "code", None) != NOT_FOUND:
                        raise
                    continue  # its device replaced it meanwhile
                with private_file(path) as file:
                    file.write(data)

    def put(self, *own: str) -> None:
        """Send the files that the device wrote, and remove those that it removed."""
        there, here = self.list(), files_of(self.replica)
        for name in sorted(here, key=lambda one: (STATUS in one, one)):
            is_news = there.get(name) != here[name] or STATUS in name
            if is_news and name.startswith((MARK, own[0])):
                self._put_file(name)
        for name in there.keys() - here.keys():
            if name.startswith(own):
                self._ask("DELETE", name)

    def _put_file(self, name: str) -> None:
        with open(os.path.join(self.replica, name), "rb") as file:
            at, part = 0, file.read(PART_BYTES)
            while True:
                after = file.read(PART_BYTES)
                data = b64encode(part).decode()
                self._ask("PUT", name, {"at": at, "data": data, "whole": not after})
                if not after:
                    return
                at, part = at + len(part), after

    def list(self) -> dict[str, int]:
        """Return the size of each file on the server."""
        answer = self._ask("GET", "")
        try:
            files: dict[str, int] = json.loads(answer)["files"]
            return {name: size for name, size in files.items() if FILE.fullmatch(name)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileError(
                f"{self._url} is not the address of a `memdb serve`: give another one", self._url
            ) from error

    def _ask(self, method: str, name: str, body: dict[str, Any] | None = None) -> bytes:
        address = f"{self._url}/{name}" if name else self._url
        headers = {"Authorization": f"Bearer {os.environ.get(TOKEN_VARIABLE, '')}"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = Request(address, data, headers, method=method)  # noqa: S310 (http or https)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 (http or https)
                found: bytes = answer.read()
                return found
        except HTTPError as error:
            said = ""
            with error, suppress(HTTPException, OSError):
                said = error.read(2000).decode("utf-8", "replace")
            raise FileError(
                f"{self._url} refused ({error.code} {said}): set {TOKEN_VARIABLE} to a token of "
                "`memdb token add --everything`, and see its --sync-folder",
                self._url,
            ) from error
        except (OSError, HTTPException) as error:
            raise FileError(
                f"{self._url} cannot be reached ({error}): try again", self._url
            ) from error


def list_files(place: str, db_path: str) -> dict[str, int]:
    """
    Return the size of each file of a sync folder, or of a server's.

    Raises:
        FileError: the server cannot be reached, or refuses.
    """
    return Server(place, db_path).list() if is_url(place) else files_of(place)


def is_url(place: object) -> bool:
    """Return whether a place to sync is a server."""
    return isinstance(place, str) and place.startswith(("http://", "https://"))


def _is_stale(name: str, here: dict[str, int]) -> bool:
    """Return whether a full segment that is here replaces another one."""
    device = name.partition("/")[0]
    full = [one for one in here if one.startswith(device) and ".full." in one]
    return bool(full) and name < max(full) and STATUS not in name
