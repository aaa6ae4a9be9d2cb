"""
Routes of the JSON API, made from the table of verbs.

A request is read by the schemas of its verb, and the call runs in a thread. The answer is the
`to_dict` of the value that the Python call returns. Lists are sent page by page, versions as
ETags, and iterators as JSON lines.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import Response, StreamingResponse

from memdb.adapters.schemas import check_value
from memdb.api.pages import BackupCopy, OpenBytes, owner_of
from memdb.api.verbs import VERBS
from memdb.errors import InvalidInput, MemDBError, NotFound, VersionConflict
from memdb.models.record import plain
from memdb.models.reports import SessionHead
from memdb.web.bytes import OCTETS, Chunks, Download, download_headers
from memdb.web.errors import Refused, from_error
from memdb.web.formats import lines_of
from memdb.web.parameters import KINDS, owner_kind, parameters_of, read_json, read_query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from memdb.api.database import MemDB
    from memdb.api.verbs import Verb
    from memdb.web.parameters import Parameter

READ_THREADS = 4
PAGE_LIMIT = 50
MAX_PAGE_LIMIT = 500
MAX_KEPT_ANSWERS = 1_000
MAX_KEY_CHARS = 200
FIRST_FAILURE = 400
MAX_STREAMS = 4
CHUNK_BYTES = 1 << 16
CHUNK_S = 0.05


class Route:
    """One row of the table, and the data derived from it."""

    def __init__(
        self, verb: Verb, current: Verb | None = None, kind_of_text: str | None = None
    ) -> None:
        """
        Serve *verb*.

        Args:
            current: The verb that reads what it changes.
            kind_of_text: The type of the texts that it yields; None means JSON lines.
        """
        self.verb = verb
        self.kind = owner_kind(verb)
        self.parameters = parameters_of(verb)
        self.kind_of_text = kind_of_text
        self.names = {one.name: one for one in self.parameters}
        self.answers = str(inspect.signature(verb.call).return_annotation)
        self.current = None if current is None else Route(current)

    def read(self, query: str, body: bytes) -> dict[str, Any]:
        """
        Return the arguments of a request.

        Raises:
            InvalidInput: a parameter is unknown, missing, or of a wrong type.
        """
        try:
            pairs = parse_qsl(
                query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
            )
        except ValueError as error:
            raise InvalidInput(f"the query cannot be read: {error}") from error
        given: dict[str, list[str]] = {}
        for name, value in pairs:
            given.setdefault(name, []).append(value)
        arguments = {
            name: read_query(self._parameter(name, "query"), values)
            for name, values in given.items()
        }
        for name, value in self._fields(body).items():
            parameter = self._parameter(name, "body")
            if value is None and not _takes_null(parameter):
                continue
            arguments[name] = check_value(value, parameter.schema, name)
        for parameter in self.parameters:
            if parameter.required and parameter.name not in arguments:
                raise InvalidInput(f"{parameter.name} is missing: {parameter.text or 'give it'}")
        return arguments

    def _fields(self, body: bytes) -> dict[str, Any]:
        if not body:
            return {}
        fields = read_json(body)
        if not isinstance(fields, dict):
            raise InvalidInput("the body is not a JSON object")
        return fields

    def _parameter(self, name: str, place: str) -> Parameter:
        found = self.names.get(name)
        if found is None or found.place != place:
            allowed = [one.name for one in self.parameters if one.place == place]
            advice = f"use {', '.join(allowed) or 'none'}"
            if found is not None:
                advice = f"it belongs in the {found.place}"
            error = InvalidInput(f"{name} is not a parameter in the {place} here: {advice}")
            vars(error)["field"] = name  # no parameter, so that its sentence does not tell
            raise error
        return found

    def kept_within(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the arguments that keep the call within the scope that it is asked of.

        Raises:
            Refused: one that leaves it is given.
        """
        within = self.verb.leaves
        for name, value in within.items():
            if arguments.get(name, value) not in (value, None):
                raise Refused("shared", f"{name} writes for all users of the app")
        return dict(within)

    def call(self, db: MemDB, arguments: Mapping[str, Any], **more: Any) -> Any:
        """Call the function of the verb; parameters of other verbs are skipped."""
        given = {
            self.names[name].argument: value
            for name, value in arguments.items()
            if name in self.names
        }
        owner = owner_of(db, self.kind, given)
        return self.verb.call(owner, **given, **self.verb.fixed, **more)


def _takes_null(parameter: Parameter) -> bool:
    schemas = parameter.schema.get("anyOf", [parameter.schema])
    return any(one.get("type", "null") == "null" for one in schemas)


def find_routes(verbs: Sequence[Verb] = VERBS, *, read_only: bool) -> dict[str, dict[str, Route]]:
    """Return the routes of *verbs* by path and method; with *read_only* none that writes."""
    reads = {verb.noun: verb for verb in verbs if verb.method == "GET"}
    found: dict[str, dict[str, Route]] = {}
    for verb in verbs:
        if verb.writes and read_only:
            continue
        current = None
        if verb.swaps:
            current = reads.get(verb.noun) or reads[verb.noun.split("/")[0]]
        found.setdefault(verb.noun, {})[verb.method] = Route(verb, current)
    return found


class Cursors:
    """Opaque cursors of the next page, signed and bound to the filter of the list."""

    def __init__(self) -> None:
        """Sign with a key of this server: a cursor ends with it."""
        self._key = secrets.token_bytes(32)

    def seal(self, place: Any, noun: str, arguments: Mapping[str, Any]) -> str:
        """Return the name of the page behind *place*."""
        data = json.dumps(place).encode()
        return urlsafe_b64encode(self._sign(data, noun, arguments) + data).decode().rstrip("=")

    def unseal(self, cursor: str, noun: str, arguments: Mapping[str, Any]) -> Any:
        """
        Return the place that a cursor names.

        Raises:
            InvalidInput: *cursor* is not of this list, of this filter or of this server.
        """
        try:
            raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except ValueError:
            raw = b""
        data = raw[16:]
        if not hmac.compare_digest(raw[:16], self._sign(data, noun, arguments)):
            raise InvalidInput(
                "after does not belong to this list and filter: begin at the first page"
            )
        return json.loads(data)

    def _sign(self, data: bytes, noun: str, arguments: Mapping[str, Any]) -> bytes:
        text = json.dumps([noun, arguments], sort_keys=True, default=str).encode()
        return hmac.new(self._key, text + b"\0" + data, hashlib.sha256).digest()[:16]


class Api:
    """Answers the requests of one open file."""

    def __init__(self, db: MemDB, *, read_only: bool, verbs: Sequence[Verb] = VERBS) -> None:
        """Serve the operations in *verbs* on *db*."""
        self.db = db
        self.routes = find_routes(verbs, read_only=read_only)
        self._cursors = Cursors()
        self._readers = ThreadPoolExecutor(READ_THREADS, "memdb-read")
        self._slow = ThreadPoolExecutor(READ_THREADS, "memdb-slow")
        self._writers = ThreadPoolExecutor(2, "memdb-write")
        self._streams = 0
        self._kept: dict[tuple[str, ...], tuple[bytes, asyncio.Future[Response]]] = {}

    def close(self) -> None:
        """Wait for the calls that run, and take no more."""
        for pool in (self._readers, self._slow, self._writers):
            pool.shutdown(cancel_futures=True)

    async def run(
        self, call: Callable[[], Any], *, writes: bool = False, slow: bool = False
    ) -> Any:
        """Run *call* in a thread; a reader never waits for a writer."""
        pool = self._slow if slow else self._writers if writes else self._readers
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    async def answer(self, noun: str, request: Request) -> Response:
        """Answer a request for a noun in the table."""
        methods = self.routes[noun]
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(methods)
            raise Refused("method", f"{noun} takes {allowed}", {"Allow": allowed})
        return await self.answer_route(route, request)

    async def answer_route(self, route: Route, request: Request) -> Response:
        """Answer a request by a route."""
        body = await request.body()
        if route.verb.method == "GET" and body:
            raise InvalidInput("a GET has no body: put the parameters into the query")
        key = request.headers.get("idempotency-key")
        if key is not None and route.verb.creates:
            return await self._answer_once(key, route, request, body)
        return await self._answer(route, request, body)

    async def _answer(self, route: Route, request: Request, body: bytes) -> Response:
        query = request.scope["query_string"].decode("latin-1")
        headers = request.headers

        within_scope = request.scope.get("memdb.within_scope", False)

        def call() -> Response:
            try:
                arguments = route.read(query, body)
                if within_scope:
                    arguments |= route.kept_within(arguments)
                return self._respond_with(route, arguments, headers)
            except VersionConflict as error:
                if not route.verb.swaps:
                    return from_error(error)
                return from_error(Refused("stale", str(error)))
            except (MemDBError, Refused) as error:
                return from_error(error, route.names)

        verb = route.verb
        return await self.run(call, writes=verb.writes, slow=verb.is_slow)  # type: ignore[no-any-return]  # what `call` returns

    def _respond_with(
        self, route: Route, arguments: dict[str, Any], headers: Mapping[str, str]
    ) -> Response:
        """Answer from the borrowed file, which stays open as long as the answer."""
        db, lease = self.lend(route, arguments)
        answer = self._respond(db, route, arguments, headers)
        answer.lease = lease  # type: ignore[attr-defined]  # a stream reads as it is sent
        return answer

    def lend(self, route: Route, arguments: dict[str, Any]) -> tuple[MemDB, object]:  # noqa: ARG002 (a folder needs both)
        """Return the file of a request, and what keeps it open."""
        return self.db, None

    def _respond(
        self, db: MemDB, route: Route, arguments: dict[str, Any], headers: Mapping[str, str]
    ) -> Response:
        if route.verb.page:
            return self._page(db, route, arguments)
        if route.current is None:
            result = route.call(db, arguments)
        else:
            result = self._change(db, route, route.current, arguments, headers)
        streamed = self._streamed(route, result)
        if streamed is not None:
            return streamed
        if result is None and "| None" in route.answers:
            raise NotFound(route.verb.noun, _last(arguments))
        if isinstance(result, (list, tuple)):
            return encode(list_of(result, None))
        tag = etag_of(result)
        named = headers.get("if-none-match", "") if route.verb.method == "GET" else ""
        if tag is not None and names_tag(named, tag):
            return Response(status_code=304, headers={"ETag": tag})
        return encode(to_object(result), {} if tag is None else {"ETag": tag})

    def _streamed(self, route: Route, result: Any) -> Response | None:
        """Return an answer that is sent piece by piece; None for all others."""
        if isinstance(result, OpenBytes):
            download = Download(result)
            return self._stream(download.chunks, download.kind, download.headers)
        if isinstance(result, BackupCopy):
            headers = {**download_headers(result.name), "Content-Length": str(result.size_bytes)}
            return self._stream(Chunks(result.data, result.folder), OCTETS, headers)
        if isinstance(result, Iterator):
            if route.kind_of_text is not None:
                return self._stream(result, route.kind_of_text)
            return self._stream(_with_end(result), KINDS["jsonl"])
        return None

    def _page(self, db: MemDB, route: Route, arguments: dict[str, Any]) -> Response:
        """Return a page of a list; one more row is read, to see whether there are more."""
        noun, limit = route.verb.noun, arguments.pop("limit", PAGE_LIMIT)
        kind = arguments.pop("format", None)
        if not 1 <= limit <= MAX_PAGE_LIMIT:
            raise InvalidInput(f"limit is {limit}: use 1 to {MAX_PAGE_LIMIT}")
        after = arguments.pop("after", None)
        place = None if after is None else self._cursors.unseal(after, noun, arguments)
        if kind is not None:
            lines = lines_of(self._all_rows(db, route, arguments, place), kind)
            return self._stream(lines, KINDS[kind], download_headers(f"{noun}.{kind}"))
        found = list(route.call(db, arguments, after=place, limit=limit + 1))
        if len(found) <= limit:
            return encode(list_of(found, None))
        last = _place_of(found[limit - 1], route)
        return encode(list_of(found[:limit], self._cursors.seal(last, noun, arguments)))

    def _change(
        self,
        db: MemDB,
        route: Route,
        current: Route,
        arguments: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> Any:
        """Call a verb that changes something, if `If-Match` allows it."""
        expected = self._expected(db, current, arguments, headers)
        return route.call(db, arguments, expected=expected)

    def _expected(
        self, db: MemDB, current: Route, arguments: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Any:
        """
        Return the version that `If-Match` names, or the row if it has none; 0 for a new row.

        Raises:
            Refused: the header is absent, or names another version.
            NotFound: the row does not exist.
        """
        match = headers.get("if-match")
        if match is None:
            if headers.get("if-none-match") != "*":
                raise Refused("no_version", "this changes what you may not have seen")
            return 0
        found = current.call(db, arguments)
        if found is None:
            raise NotFound(current.verb.noun, _last(arguments))
        tag = etag_of(found)
        if not names_tag(match, tag):
            raise Refused("stale", f"it is at {tag}, not at {match[:80]}", {"ETag": str(tag)})
        return version_of(found) or found

    def _all_rows(
        self, db: MemDB, route: Route, arguments: Mapping[str, Any], place: Any
    ) -> Iterator[Any]:
        """Yield every row of a list from a place on."""
        while True:
            rows = list(route.call(db, arguments, after=place, limit=MAX_PAGE_LIMIT))
            yield from rows
            if len(rows) < MAX_PAGE_LIMIT:
                return
            place = _place_of(rows[-1], route)

    def _stream(
        self, parts: Iterator[Any], kind: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return lines, or bytes, while they are made."""
        end = getattr(parts, "close", int)
        if self._streams >= MAX_STREAMS:
            end()
            raise Refused("streams", f"{self._streams} downloads are open")
        self._streams += 1
        pool = ThreadPoolExecutor(1, "memdb-stream")

        def stop() -> None:
            self._streams -= 1
            pool.submit(end)  # in the thread that reads
            pool.shutdown(wait=False)

        return _Streamed(stop, _chunks(parts, pool), 200, dict(headers or {}), kind)

    async def _answer_once(self, key: str, route: Route, request: Request, body: bytes) -> Response:
        """
        Answer a request that creates something; the same key again gets the same answer.

        Raises:
            InvalidInput: the key is too long, or belongs to another request.
        """
        if not 1 <= len(key) <= MAX_KEY_CHARS:
            raise InvalidInput(f"Idempotency-Key has {len(key)} characters: use 1 to 200")
        query = request.scope["query_string"]
        content = hashlib.sha256(query + b"\0" + body).digest()
        place = request.scope.get("memdb.owner", ""), route.verb.noun, key
        kept = self._kept.get(place)
        if kept is not None:
            if kept[0] != content:
                raise InvalidInput(
                    "Idempotency-Key was already used for another request: use a new one"
                )
            answer = await asyncio.shield(kept[1])
            again = Response(answer.body, answer.status_code, dict(answer.headers))
            again.headers["Idempotency-Replayed"] = "true"
            return again
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._kept[place] = content, waiting
        try:
            answer = await asyncio.shield(asyncio.ensure_future(self._answer(route, request, body)))
        except BaseException as error:
            del self._kept[place]
            waiting.set_exception(error)
            waiting.exception()  # nobody else may wait for it
            raise
        waiting.set_result(answer)
        if answer.status_code >= FIRST_FAILURE:
            del self._kept[place]
        while len(self._kept) > MAX_KEPT_ANSWERS:
            del self._kept[next(iter(self._kept))]
        return answer


class _Streamed(StreamingResponse):
    """An answer in pieces that always ends, even if its client left before the first piece."""

    def __init__(self, stop: Callable[[], None], *given: Any) -> None:
        """Call *stop* at the end."""
        super().__init__(*given)
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as far as the client reads it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stop()


async def _chunks(parts: Iterator[Any], pool: ThreadPoolExecutor) -> AsyncIterator[bytes]:
    """Yield the pieces of *parts* in chunks; one thread reads all of them."""
    loop = asyncio.get_running_loop()
    while chunk := await loop.run_in_executor(pool, _next_chunk, parts):
        yield chunk


def _last(arguments: Mapping[str, Any]) -> str:
    """Return the value that identifies the row, for an error."""
    return str(list(arguments.values())[-1]) if arguments else ""


def _place_of(row: Any, route: Route) -> dict[str, Any]:
    """Return the place of a row in its list."""
    return {name: getattr(row, name) for name in route.verb.page}


def _next_chunk(parts: Iterator[Any]) -> bytes:
    """Return the next lines or bytes, up to 64 kB or for 50 ms; b"" at the end."""
    found: list[bytes] = []
    size, end_s = 0, monotonic() + CHUNK_S
    for part in parts:
        found.append(part if isinstance(part, bytes) else f"{part}\n".encode("utf-8", "replace"))
        size += len(found[-1])
        if size >= CHUNK_BYTES or monotonic() >= end_s:
            break
    return b"".join(found)


def _with_end(lines: Iterator[Any]) -> Iterator[str]:
    """Yield JSON lines, and a last one that marks them as complete."""
    count = 0
    for line in lines:
        count += 1
        yield line if isinstance(line, str) else to_json(line.to_dict()).decode()
    yield json.dumps({"kind": "end", "complete": True, "lines": count})


def list_of(items: Sequence[Any], cursor: str | None) -> dict[str, Any]:
    """Return the JSON of a list: its items, and the cursor of the next page."""
    return {"items": [plain(one) for one in items], "next": cursor, "complete": cursor is None}


def to_object(value: Any) -> dict[str, Any]:
    """Return what a call returned as a JSON object; what is none stands under "value"."""
    found = plain(value)
    return found if isinstance(found, dict) else {"value": found}


def version_of(value: Any) -> int | None:
    """Return the version of a record, None if it has none."""
    found = getattr(value, "version", None)
    return found if isinstance(found, int) else None


def names_tag(header: str, tag: str | None) -> bool:
    """Return whether `If-Match` or `If-None-Match` names an ETag; "*" names any."""
    return bool({"*", tag} & {one.strip() for one in header.split(",")})


def etag_of(value: Any) -> str | None:
    """Return the ETag of a record: its uid and its version; None if it has none."""
    if isinstance(value, SessionHead):  # what a request may change of it
        said = to_json([value.title, value.metadata])
        return f'"{value.uid}-{hashlib.sha256(said).hexdigest()[:16]}"'
    version = version_of(value)
    if version is None:
        return None
    # What has no uid is known by all of it: a key that was deleted begins with version 1 again.
    identity = getattr(value, "uid", "") or hashlib.sha256(to_json(plain(value))).hexdigest()[:16]
    return f'"{identity}-{version}"'


def to_json(value: Any) -> bytes:
    """Return *value* as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()


def encode(value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with *value* as JSON."""
    return Response(to_json(value), 200, dict(headers or {}), "application/json")
