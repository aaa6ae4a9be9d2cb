"""
The JSON API of a folder of files: the verbs of a file, for the file of a user.

A verb about a whole file needs a user too. `FOLDER_VERBS` are about the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.api.signatures import STRING
from memdb.api.verbs import VERBS, Verb
from memdb.errors import InvalidInput, NotFound
from memdb.folder.folder import Folder
from memdb.web.parameters import IDENTITY_TEXTS, Parameter
from memdb.web.routes import Api

if TYPE_CHECKING:
    from memdb.web.routes import Route

FOLDER = "Folder"
USER = Parameter("user", "user", STRING, required=True, place="query", text=IDENTITY_TEXTS["user"])


FOLDER_VERBS = (
    Verb("folder", "GET", Folder.stats),
    Verb("folder/work", "POST", Folder.work, is_slow=True),
    Verb("users", "GET", Folder.list),
    Verb("users", "DELETE", Folder.delete, {"user": "bob"}, is_slow=True),
)


class FolderApi(Api):
    """Answers the requests of a folder of files."""

    def __init__(self, folder: Folder, *, read_only: bool) -> None:
        """Serve *folder*."""
        self._nobody = folder.empty()  # answers for users without a file
        super().__init__(self._nobody, read_only=read_only, verbs=(*VERBS, *FOLDER_VERBS))
        self.folder = folder
        self._whole = set()
        for methods in self.routes.values():
            for route in methods.values():
                if route.kind != FOLDER and "user" not in route.names:
                    self._whole.add(route)
                    route.parameters = (USER, *route.parameters)
                    route.names = {"user": USER, **route.names}

    def lend(self, route: Route, arguments: dict[str, Any]) -> tuple[Any, object]:
        """
        Return the requested user's file, or the folder, and what keeps it open.

        Raises:
            InvalidInput: the request names no user.
            NotFound: the request is about a whole file that does not exist.
        """
        if route.kind == FOLDER:
            return self.folder, None
        is_whole = route in self._whole
        user = arguments.pop("user") if is_whole else arguments.get("user")
        if user is None:
            raise InvalidInput(
                "user is missing: each user of a folder has a separate file, so name the user"
            )
        try:
            lease = self.folder.open(user, create=route.verb.writes and not is_whole)
        except NotFound:
            if is_whole:
                raise
            return self._nobody, None
        return lease.db, lease

    def close(self) -> None:
        """Wait for running calls, and accept no more."""
        super().close()
        self._nobody.close()
