"""
The base of the three services: the address of a file, ADK's errors, and taking turns.

A write runs to its end once it has begun. A cancelled caller gets the cancellation when the write
has ended, and the next call sees the written rows. A caller that only reads is cancelled at once.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

import memdb
from memdb.adapters.adapter import Adapter
from memdb.adapters.host import HostFile
from memdb.errors import InvalidInput
from memdb.records.scopes import part_of
from memdb.text.validate import json_object, name_value, parse_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from memdb import Scope
    from memdb.adapters.adapter import Source

T = TypeVar("T")

SCHEME = "memdb:"
OPTIONS = ("durability", "embedder", "counter", "by_meaning")


# Events made at once: others get the interpreter after so many, about 1 ms.
EVENTS_AT_ONCE = 20

_ERRORS: dict[type[Exception], type[Exception]] = {
    memdb.AlreadyExists: AlreadyExistsError,
    memdb.VersionConflict: StaleSessionError,
    memdb.NotFound: SessionNotFoundError,
    memdb.InvalidInput: InputValidationError,
}

# What ADK's callers call the fields that an error of memdb begins with.
_FIELDS = {
    "app": "app_name",
    "user": "user_id",
    "session": "session_id",
    "name": "filename",
    "message": "event",
    "external_id": "event id",
    "key": "memory id",
    "last": "num_recent_events",
    "metadata": "custom_metadata",
}
_FIELD = re.compile(r"^((?:the number of characters in |the UTF-8 size of )?)(\w+)")

_YES = {"1": True, "true": True, "0": False, "false": False}


class Service(Adapter):
    """
    A service of ADK on a memdb file.

    A context manager, async too; leaving it closes the file, unless it was open before. ADK
    awaits `close`; a program without an event loop uses `with`, or calls `close_sync`.
    """

    def __init__(
        self, source: Source | None = None, *, uri: str | None = None, **options: Any
    ) -> None:
        """
        Use a memdb file.

        A given embedder or counter is tried immediately. The built-in ones are loaded by the first
        write, in a thread. Loading takes 0.15 s, and during parts of it no other thread runs. To
        avoid that, a server passes a `memdb.MemDB` that it has warmed by `HostFile(db).warm()`.

        Args:
            source: A path, made if it is absent; or a `memdb.MemDB` or `memdb.aio.MemDB`, which
                several services can share and which stays open after them.
            uri: In place of *source*, as in `services.yaml`: `memdb:///agent.db` is in the working
                directory, `memdb:////var/agent.db` is an absolute path. The address may end in
                options, `?durability=process&embedder=none`.
            options: For `memdb.open`, and `by_meaning` for the memory service. ADK's loader adds
                `agents_dir`, which is ignored.

        Raises:
            FileError: the file cannot be used.
            PortError: the embedder or counter failed.
            InvalidInput: the URI or an option is not one of those above.
        """
        if uri is not None:
            source, given = _parse(uri)
            options = given | options
        if source is None:
            raise InvalidInput("neither source nor uri is given: give the path of a file")
        options.pop("agents_dir", None)
        # One URI may serve all three, so each reads what only the memory service uses.
        self._by_meaning = _yes_or_no(options.pop("by_meaning", False), "by_meaning")
        super().__init__(source, **options)
        if options.get("embedder") or options.get("counter"):
            try:
                HostFile(self._db).warm()  # what was chosen fails now or never
            except BaseException:
                self.close_sync()
                raise

    def _translate(self, error: memdb.MemDBError) -> Exception:
        """Return the error that ADK's own services raise in place of *error*."""
        return as_adk(error)

    def close_sync(self) -> None:
        """Finish the calls under way and close the file; again does nothing."""
        super().close()

    async def close(self) -> None:  # type: ignore[override] # ADK awaits it
        """Close it as `close_sync` does, without blocking the event loop."""
        await self.aclose()

    def _scope(self, app_name: str, user_id: str) -> Scope:
        """Return the memory of a user of an app."""
        if isinstance(app_name, str) and part_of(app_name):
            raise InvalidInput(
                f"app_name is {app_name!r}, which is already the name of a part of another app: "
                "choose another name"
            )
        return self._db.scope(user_id, app_name)


def as_adk(error: Exception) -> Exception:
    """Return the error that ADK's own services raise for *error*, if they have one."""
    for ours, theirs in _ERRORS.items():
        if isinstance(error, ours):
            return theirs(_FIELD.sub(_in_adks_words, str(error), count=1))
    return error


def _in_adks_words(found: re.Match[str]) -> str:
    return found[1] + _FIELDS.get(found[2], found[2])


def can_name(*names: object) -> bool:
    """Return whether anything can have these names; other names find nothing."""
    try:
        for name in names:
            name_value(name, "name")
    except InvalidInput:
        return False
    return True


def frozen(custom_metadata: Mapping[str, object] | None) -> dict[str, Any]:
    """
    Return a copy of a caller's *custom_metadata*, which the caller may change later.

    Raises:
        InputValidationError: *custom_metadata* is not a mapping, or has no JSON form.
    """
    given: Any = custom_metadata
    try:
        text = json_object(dict(given) if isinstance(given, Mapping) else given, "custom_metadata")
    except InvalidInput as error:
        raise as_adk(error) from error
    return parse_json(text) or {}


async def taken(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield *items*; after the first ones, other tasks of the loop get a turn now and then."""
    for number, item in enumerate(list(items)):
        if number and number % EVENTS_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield item


def in_turns(items: Iterable[T]) -> Iterator[T]:
    """Yield *items*, and let the event loop run now and then."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % EVENTS_AT_ONCE == 0:
            time.sleep(0)


def _parse(uri: str) -> tuple[str, dict[str, Any]]:
    """
    Return the path and the options of a URI, which has the form of ADK's `sqlite:///`.

    >>> _parse("memdb:///agent.db?durability=process&embedder=none")
    ('agent.db', {'durability': 'process', 'embedder': None})
    >>> _parse("memdb:////var/my%20agent.db")
    ('/var/my agent.db', {})
    """
    if not isinstance(uri, str):
        raise InvalidInput(f"uri is {type(uri).__name__}: give a str such as memdb:///agent.db")
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


def _yes_or_no(value: object, option: str) -> bool:
    """Return True or False for true, false, 1 or 0 in a URI."""
    known = _YES.get(str(value).lower())
    if known is None:
        raise InvalidInput(f"{option} is {value!r}: use true or false")
    return known
