"""
agno: its database in a memdb file (extra `agno`).

    agent = Agent(model=model, db=MemdbDb("agent.db"), add_history_to_context=True)

agno's `JsonDb` has the rules of each table, and reads and writes a table as a list of rows.
Here a row is an item. A call reads the rows that it needs, and writes those that it changed, in
one transaction. So any number of processes may use the file.

`MemdbAsyncDb` has the same tables for agno's asynchronous agents. Each call runs in a thread of the
file. One that is cancelled after it began is finished first.

`docs/agno.md` has the mapping.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from copy import deepcopy
from functools import partial, wraps
from inspect import signature
from threading import local
from typing import TYPE_CHECKING

from memdb.adapters.adapter import ScopedAdapter, extra
from memdb.adapters.host import mirror
from memdb.adapters.json_forms import pack_value, unpack_value
from memdb.models.items import DeleteItem, PutItem

with extra("agno"):
    from agno.db.base import AsyncBaseDb
    from agno.db.json import JsonDb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from memdb import Item
    from memdb.adapters.adapter import Source

    Row = dict[str, Any]
    Place = tuple[tuple[str, ...], str]  # of an item
    # The id of a session, and a table with the ids of its rows; None means all.
    About = tuple[object, tuple[str, tuple[object, ...]] | None]


SPACE = "agno"
PAGE = 10_000
PART = 5_000

# The fields that name a row of a table, and those that `recall` finds it by.
KEYS = {
    "session": (
        ("session_id", "agent_id", "team_id", "workflow_id"),
        ["session_data.session_name"],
    ),
    "runs": (("run_id",), ["run_data.input.input_content", "run_data.content"]),
    "memory": (("memory_id",), ["memory", "topics[*]"]),
    "metrics": (("id",), None),
    "eval": (("run_id",), None),
    "knowledge": (("id",), ["name", "description"]),
    "trace": (("trace_id",), None),
    "span": (("span_id",), None),
    "versions": (("table_name",), None),
}

# What of a message of agno is the provider's, and whose words are the same in each run.
MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
INSTRUCTIONS = ("system", "developer")

# Tables whose rows are in a namespace of their session.
OF_SESSIONS = ("session", "runs")

# What changes something, and so is one transaction from its first read on.
WRITES = (
    "upsert_schema_version", "upsert_run", "cleanup_legacy_runs_field", "delete_run",
    "delete_runs", "delete_session", "delete_sessions", "rename_session", "upsert_session",
    "upsert_sessions", "delete_user_memory", "delete_user_memories", "upsert_user_memory",
    "upsert_memories", "clear_memories", "calculate_metrics", "delete_knowledge_content",
    "upsert_knowledge_content", "create_eval_run", "delete_eval_run", "delete_eval_runs",
    "rename_eval_run", "update_eval_run_user_id", "upsert_trace", "create_span", "create_spans",
)  # fmt: skip


# Calls that only read. Learnings are not stored: their calls raise.
READS = (
    "table_exists", "get_latest_schema_version", "get_run", "get_runs", "get_session",
    "get_sessions", "get_all_memory_topics", "get_user_memory", "get_user_memories",
    "get_user_memory_stats", "get_metrics", "get_knowledge_content", "get_knowledge_contents",
    "get_eval_run", "get_eval_runs", "get_trace", "get_traces", "get_trace_stats", "get_span",
    "get_spans", "get_learning", "upsert_learning", "delete_learning", "get_learnings",
)  # fmt: skip

# Calls that read the row of their first argument only, by the field that names it.
ONE_ROW = {
    "upsert_user_memory": ("memory", "memory_id"),
    "upsert_trace": ("trace", "trace_id"),
    "create_span": ("span", "span_id"),
    "create_eval_run": ("eval", "run_id"),
    "upsert_knowledge_content": ("knowledge", "id"),
}


class _Call(local):
    """The rows that a thread's call has read, as JSON by table and key, and what it is about."""

    depth = 0
    without_runs = False
    session_id: str | None = None
    only: tuple[str, tuple[object, ...]] | None = None  # a table, and ids of its rows

    noted: Exception | None = None  # the first that a table raised: `JsonDb` hides some

    def __init__(self) -> None:
        self.read: dict[str, dict[Place, str]] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note an error on its way."""
        try:
            yield
        except Exception as error:
            self.noted = self.noted or error
            raise

    def raise_noted(self) -> None:
        """Raise what was noted: nothing is written then."""
        if self.noted is not None:
            raise self.noted


class MemdbDb(ScopedAdapter, JsonDb):
    """
    A `BaseDb` of agno on a memdb file: sessions, runs, memories, metrics, evals, knowledge, traces.

    Learnings, components, schedules and the tables of agno's own server are not stored: their
    calls raise NotImplementedError, as those of `JsonDb` do.
    """

    def __init__(
        self,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        id: str | None = None,  # noqa: A002 (agno's word)
        sessions: bool = True,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, made if it is absent; or a `memdb.MemDB` that is open.
            user: The scope of memdb that contains the tables; agno's users are fields of its rows.
            app: The program it belongs to.
            id: What agno calls the database. None means one made of the path.
            sessions: Also keep the messages of runs in the session of memdb with the id of
                agno's, where `recall` and every other client find them.
            options: `session_table`, `memory_table` and others name agno's tables; the rest
                is for `memdb.open`, with a path.
        """
        tables = {name: options.pop(name) for name in [*options] if name.endswith("_table")}
        ScopedAdapter.__init__(self, source, user=user, app=app, **options)
        JsonDb.__init__(self, db_path=self._db.path, id=id, **tables)
        self._now = _Call()
        self._has_sessions = sessions
        self._kinds = {
            self.session_table_name: "session",
            self.runs_table_name: "runs",
            self.memory_table_name: "memory",
            self.metrics_table_name: "metrics",
            self.eval_table_name: "eval",
            self.knowledge_table_name: "knowledge",
            self.trace_table_name: "trace",
            self.span_table_name: "span",
            self.versions_table_name: "versions",
        }

    def _read_json_file(
        self,
        filename: str,
        create_table_if_not_found: bool | None = True,  # noqa: ARG002, FBT001, FBT002 (agno's)
    ) -> list[Row]:
        """Return the rows of a table in the order in which they came: all, or a session's."""
        with self._now.noting():
            items = [item for item in self._items(filename) if isinstance(item.value, dict)]
            rows: list[Row] = [unpack_value(item.value) for item in items]
        if self._now.depth:
            self._now.read[filename] = {
                (item.namespace, item.key): json.dumps(row)
                for item, row in zip(items, rows, strict=True)
            }
        return rows

    def _items(self, table: str) -> Iterator[Item]:
        session_id = self._now.session_id
        prefix: tuple[str, ...] = (SPACE, table)
        kind, ids = self._now.only or ("", ())
        if kind and kind == self._kinds.get(table):
            place = (*prefix, session_id) if kind == "runs" and session_id else prefix
            found = (self._scope.items.find(place, _key([one])) for one in ids if one is not None)
            yield from (item for item in found if item is not None)
            return
        if session_id is not None and self._kinds.get(table) in OF_SESSIONS:
            prefix = (*prefix, session_id)
        last: Item | None = None
        while True:
            page = self._scope.items.list(
                prefix, after=last, limit=PAGE, order="created", descending=False
            )
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1]

    def _write_json_file(self, filename: str, data: list[Row]) -> None:
        """Store what a call changed of the rows it read, inside its transaction."""
        with self._now.noting():
            self._write(filename, data)

    def _write(self, filename: str, data: list[Row]) -> None:
        kind = self._kinds.get(filename, "")
        fields, index = KEYS[kind]
        if filename not in self._now.read:  # it replaces what it did not read
            self._read_json_file(filename)
        before = self._now.read[filename]
        after: dict[Place, str] = {}
        for row in data:
            namespace: tuple[str, ...] = (SPACE, filename)
            if kind in OF_SESSIONS:
                namespace = (*namespace, row["session_id"])
            key = _key([row.get(name) for name in fields])
            after[namespace, key] = json.dumps(row)
        is_mirrored = self._has_sessions and kind in OF_SESSIONS
        if is_mirrored and kind == "runs":
            index = None  # `recall` finds the messages
        gone = [place for place in before if place not in after]
        changed = {place: text for place, text in after.items() if before.get(place) != text}
        operations: list[PutItem | DeleteItem] = [DeleteItem(*place) for place in gone]
        operations += [
            PutItem(*place, pack_value(json.loads(text), "row"), index=index or False)
            for place, text in changed.items()
        ]
        if is_mirrored:
            self._mirror(kind, [before[place] for place in gone], [*changed.values()])
        for start in range(0, len(operations), PART):
            self._scope.items.batch(operations[start : start + PART])
        self._now.read[filename] = after

    def _mirror(self, kind: str, gone: list[str], changed: list[str]) -> None:
        """Keep the messages of runs in the sessions of memdb, where every client finds them."""
        for row in map(json.loads, gone):
            chat = self._scope.session(row["session_id"])
            if kind == "session":
                chat.delete()
                continue
            told = (chat.find(message_id) for _, message_id in _said(row) if message_id)
            seqs = [message.seq for message in told if message is not None]
            if seqs:
                chat.delete(seqs)
        for row in map(json.loads, changed) if kind == "runs" else ():
            if said := _said(row):
                mirror(self._scope.session(row["session_id"]), said)()

    def get_session(self, session_id: str, *args: Any, **options: Any) -> Any:
        """Return a session as `JsonDb` does, reading its rows only."""
        with _About(self._now, (session_id, None)):
            return JsonDb.get_session(self, session_id, *args, **options)

    def get_sessions(self, *args: Any, include_runs: bool = True, **options: Any) -> Any:
        """Return sessions as `JsonDb` does; *include_runs* is as of agno's SQL tables."""
        if include_runs:
            return JsonDb.get_sessions(self, *args, **options)
        now = self._now
        now.without_runs = True
        try:
            return JsonDb.get_sessions(self, *args, **options)
        finally:
            now.without_runs = False

    def _get_sessions_runs_data(self, session_ids: list[str]) -> Any:
        """Return the runs of several sessions; none where a list of sessions is without them."""
        return {} if self._now.without_runs else super()._get_sessions_runs_data(session_ids)

    def close(self) -> None:
        """Close the file; again does nothing."""
        ScopedAdapter.close(self)


class _About:
    """While it is entered, a call reads the rows of one session, or the rows with some ids."""

    def __init__(self, now: _Call, about: About) -> None:
        self._now = now
        session_id, self._only = about
        self._session_id = session_id if isinstance(session_id, str) else None

    def __enter__(self) -> None:
        now = self._now
        self._before = now.session_id, now.only
        now.session_id, now.only = self._session_id, self._only

    def __exit__(self, *_: object) -> None:
        self._now.session_id, self._now.only = self._before


def _said(run: Row) -> list[tuple[Row, str | None]]:
    """
    Return the messages of a run, each with its id; instructions are the same in each run.

    The run of a team's member has none, because its user is the leader of the team.
    """
    data = {} if run.get("parent_run_id") else run.get("run_data") or {}
    messages = [one for one in data.get("messages") or () if not one.get("from_history")]
    return [
        (
            {name: one[name] for name in MESSAGE_FIELDS if one.get(name) is not None},
            None if one.get("role") in INSTRUCTIONS else one.get("id"),
        )
        for one in messages
    ]


def _key(values: list[object]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _atomic(name: str) -> Callable[..., Any]:
    """Return a method of `JsonDb` as one transaction, about one session if it names it."""
    method = getattr(JsonDb, name)
    form = signature(method)

    @wraps(method)
    def call(self: MemdbDb, *args: Any, **options: Any) -> Any:
        now = self._now
        if now.depth:
            with now.noting():
                return method(self, *args, **options)
        _, *given = form.bind(self, *args, **options).arguments.values()

        def work() -> Any:
            now.depth, now.read = 1, {}
            try:
                with self._db.transaction(), _About(now, _about(name, given)):
                    done = method(self, *args, **options)
                    now.raise_noted()
                    return done
            finally:
                now.depth, now.read, now.noted = 0, {}, None

        return self._call(work)

    return call


def _reading(name: str) -> Callable[..., Any]:
    """Return a method of `JsonDb` that reads, and does not hide the errors of the file."""
    method = getattr(MemdbDb, name)

    @wraps(method)
    def call(self: MemdbDb, *args: Any, **options: Any) -> Any:
        now = self._now
        if now.depth:
            return method(self, *args, **options)

        def work() -> Any:
            try:
                done = method(self, *args, **options)
                now.raise_noted()
                return done
            finally:
                now.noted = None

        return self._call(work)

    return call


def _about(name: str, given: list[Any]) -> About:
    """Return what a call reads of its tables: a session's rows, those of ids, or all (None)."""
    first = given[0] if given else None
    if name == "upsert_session":
        return getattr(first, "session_id", None), None
    if name in ("delete_session", "rename_session"):
        return first, None
    if name == "upsert_run" and len(given) > 1:
        run_id = first.get("run_id") if isinstance(first, dict) else getattr(first, "run_id", None)
        return given[1], ("runs", (run_id,))
    if name in ONE_ROW:
        kind, field = ONE_ROW[name]
        return None, (kind, (getattr(first, field, None),))
    if name == "create_spans" and isinstance(first, list):
        return None, ("span", tuple(getattr(one, "span_id", None) for one in first))
    return None, None


for _name in WRITES:
    if hasattr(JsonDb, _name):
        setattr(MemdbDb, _name, _atomic(_name))
for _name in READS:
    if hasattr(JsonDb, _name):
        setattr(MemdbDb, _name, _reading(_name))


class MemdbAsyncDb(ScopedAdapter, AsyncBaseDb):
    """An `AsyncBaseDb` of agno on a memdb file; see `MemdbDb`."""

    def __init__(
        self,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        id: str | None = None,  # noqa: A002 (agno's word)
        sessions: bool = True,
        **options: Any,
    ) -> None:
        """Use a memdb file; see `MemdbDb`."""
        tables = {name: options.pop(name) for name in [*options] if name.endswith("_table")}
        ScopedAdapter.__init__(self, source, user=user, app=app, **options)
        self._tables = MemdbDb(self._db, user=user, app=app, id=id, sessions=sessions, **tables)
        AsyncBaseDb.__init__(self, id=self._tables.id, **tables)

    async def close(self) -> None:  # type: ignore[override]  # agno awaits it
        """Close the file; again does nothing."""
        await ScopedAdapter.aclose(self)


def _in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    method = getattr(MemdbDb, name)
    is_write = name in WRITES

    @wraps(method)
    async def call(self: MemdbAsyncDb, *args: Any, **options: Any) -> Any:
        if is_write:  # the caller may go on changing what it gave
            args, options = deepcopy((args, options))
            return await self._run(partial(method, self._tables, *args, **options))
        return await self._read(partial(method, self._tables, *args, **options))

    return call


for _name in (*WRITES, *READS):
    if hasattr(JsonDb, _name):
        setattr(MemdbAsyncDb, _name, _in_thread(_name))
MemdbAsyncDb.__abstractmethods__ = frozenset(
    name
    for name in MemdbAsyncDb.__abstractmethods__
    if getattr(getattr(MemdbAsyncDb, name), "__isabstractmethod__", False)
)
