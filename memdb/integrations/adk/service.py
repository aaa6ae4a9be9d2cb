"""
What the three services share: the file, the thread that uses it, errors of ADK.

A call runs in the worker thread of its service, so no event loop waits for the
disk. It runs to its end once it has begun: a caller that is cancelled learns it
when the call is over, and what the call wrote is known to the next one.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

import memdb
from memdb.errors import Closed, InvalidInput
from memdb.lane import Worker, over

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from memdb import MemDB, Scope

T = TypeVar("T")

SCHEME = "memdb:"
OPTIONS = ("durability", "embedder", "counter", "by_meaning")

# The app under which an app's memory stands: what was told to the memory
# service is found by it alone, and listed by no session service.
MEMORY_SUFFIX = " (memory)"

# Events made at once: others get the interpreter after so many, about 2 ms.
EVENTS_AT_ONCE = 50

_ERRORS: dict[type[Exception], type[Exception]] = {
    memdb.AlreadyExists: AlreadyExistsError,
    memdb.VersionConflict: StaleSessionError,
    memdb.NotFound: SessionNotFoundError,
    memdb.InvalidInput: InputValidationError,
}


class Service:
    """
    A service of ADK on a memdb file.

    An async context manager; leaving it closes the file, unless it was open
    before.
    """

    def __init__(
        self,
        source: MemDB | str | os.PathLike[str] | None = None,
        *,
        uri: str | None = None,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Opening takes up to half a second, so do it before the event loop serves.

        Args:
            source: A path, made where it is new; or a `memdb.MemDB`, which
                several services can share and which stays open after them.
            uri: In place of *source*, as `services.yaml` gives it:
                `memdb:///agent.db` stands in the working directory,
                `memdb:////var/agent.db` where it says. It may end in options,
                `?durability=process&embedder=none`.
            options: For `memdb.open`. ADK's loader adds `agents_dir`, which says
                nothing about a file.

        Raises:
            FileError: the file cannot be used.
            InvalidInput: the URI or an option is not one of those above.
        """
        if uri is not None:
            source, given = _parse(uri)
            options = given | options
        if source is None:
            raise InvalidInput("neither source nor uri is given: give the path of a file")
        options.pop("agents_dir", None)
        self._configure(options)
        self._owned = not isinstance(source, memdb.MemDB)
        self._db = source if isinstance(source, memdb.MemDB) else memdb.open(source, **options)
        try:
            self._db.warm()
        except BaseException:
            if self._owned:
                self._db.close()
            raise
        self._worker = Worker(self._db.path)

    def _configure(self, options: dict[str, Any]) -> None:
        """Take the options of this service out of those for `memdb.open`."""
        options.pop("by_meaning", None)  # one URI may serve all three

    def _scope(self, app_name: str, user_id: str) -> Scope:
        """Return the memory of a user of an app."""
        if isinstance(app_name, str) and app_name.endswith(MEMORY_SUFFIX):
            raise InvalidInput(f"app_name ends in {MEMORY_SUFFIX!r}: memories stand there")
        return self._db.scope(user_id, app_name)

    async def _run(self, work: Callable[[], T], then: Callable[[T], object] | None = None) -> T:
        """
        Return what *work* gives, done in the worker; *then* gets it in this thread.

        A call that is cancelled before it began does nothing. One that has
        begun is waited for, and *then* is called, before the cancelling goes
        on: what was written and what the caller holds agree.
        """
        try:
            begun = self._worker.call(work)
        except RuntimeError as error:  # the executor takes nothing after its shutdown
            raise Closed(f"{self._db.path} was closed: open it with a new service") from error
        try:
            await over(begun, to_end=True)
        finally:
            held = begun.done() and not begun.cancelled() and begun.exception() is None
            if held and then is not None:
                then(begun.result())
        try:
            return begun.result()
        except memdb.MemDBError as error:
            raise as_adk(error) from error

    async def close(self) -> None:
        """Finish the calls under way and close the file; again does nothing."""
        await asyncio.get_running_loop().run_in_executor(None, self._finish)

    def _finish(self) -> None:
        self._worker.shutdown(wait=True)
        if self._owned:
            self._db.close()

    async def __aenter__(self) -> Self:
        """Return the service itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the file."""
        await self.close()

    def __repr__(self) -> str:
        """Name the service and its file."""
        return f"<{type(self).__name__} {self._db.path}>"


def as_adk(error: Exception) -> Exception:
    """Return the error that ADK's own services raise in place of *error*, if they have one."""
    for ours, theirs in _ERRORS.items():
        if isinstance(error, ours):
            return theirs(str(error))
    return error


def in_turns(items: Iterable[T]) -> Iterator[T]:
    """Yield *items*, letting the event loop have the interpreter now and then."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % EVENTS_AT_ONCE == 0:
            time.sleep(0)


def _parse(uri: str) -> tuple[str, dict[str, Any]]:
    """
    Return the path and the options of a URI, read like ADK's `sqlite:///`.

    >>> _parse("memdb:///agent.db?durability=process&embedder=none")
    ('agent.db', {'durability': 'process', 'embedder': None})
    >>> _parse("memdb:////var/my%20agent.db")
    ('/var/my agent.db', {})
    """
    parts = urlsplit(uri)
    path = unquote(parts.path).removeprefix("/")
    if not uri.startswith(SCHEME) or parts.netloc or not path:
        raise InvalidInput(
            f"uri is {uri!r}: use memdb:///agent.db, with a fourth slash for an absolute path"
        )
    options: dict[str, Any] = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in OPTIONS:
            raise InvalidInput(f"uri has no option {key!r}: use one of {', '.join(OPTIONS)}")
        options[key] = None if (key, value) == ("embedder", "none") else value
    return path, options
