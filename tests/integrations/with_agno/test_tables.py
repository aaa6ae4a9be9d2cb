"""agno's tables in a memdb file, beside agno's own, and under load."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agno.agent import Agent
from agno.db.base import AsyncBaseDb, BaseDb, SessionType
from agno.db.json import JsonDb
from agno.db.schemas.evals import EvalRunRecord, EvalType
from agno.db.schemas.knowledge import KnowledgeRow
from agno.db.schemas.memory import UserMemory
from agno.db.sqlite import SqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run.agent import RunOutput
from agno.session import AgentSession, TeamSession, WorkflowSession
from agno.tracing.schemas import Span, Trace
from at_once import OPENERS, PROCESSES, WRITES, cancel_at_each_await, run_at_once
from pages import ROOT, blocks, run_block

import memdb
from memdb.integrations.agno import MemdbAsyncDb, MemdbDb

START = 1_770_000_000
MOMENT = datetime(2026, 2, 2, 3, tzinfo=UTC)


class Script(Model):
    """Tells how many messages it sees."""

    def __init__(self) -> None:
        """Need no key."""
        super().__init__(id="script")

    def invoke(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the answer."""
        seen = options.get("messages") or args[0]
        return ModelResponse(role="assistant", content=f"I see {len(seen)} messages.")

    async def ainvoke(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the answer."""
        return self.invoke(*args, **options)

    def invoke_stream(self, *args: Any, **options: Any) -> Any:
        """Yield the answer."""
        yield self.invoke(*args, **options)

    async def ainvoke_stream(self, *args: Any, **options: Any) -> Any:
        """Yield the answer."""
        yield self.invoke(*args, **options)

    def _parse_provider_response(self, response: Any, **_: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


@pytest.fixture
def db(tmp_path: Path) -> Iterator[MemdbDb]:
    with MemdbDb(str(tmp_path / "a.db")) as made:
        yield made


def agent(db: Any, session: str = "trip") -> Agent:
    return Agent(
        model=Script(),
        db=db,
        session_id=session,
        user_id="ann",
        add_history_to_context=True,
        telemetry=False,
    )


def session_of(number: int, **fields: Any) -> Any:
    told = {
        "session_id": f"s{number}",
        "user_id": f"u{number % 3}",
        "session_data": {"session_name": f"Trip {number}", "session_state": {"n": number}},
        "metadata": {"k": number},
        "created_at": START + number,
        "updated_at": START + number,
    } | fields
    kind = number % 3
    if kind == 0:
        return AgentSession(agent_id="a1", agent_data={"name": "A"}, **told)
    if kind == 1:
        return TeamSession(team_id="t1", team_data={"name": "T"}, **told)
    return WorkflowSession(workflow_id="w1", workflow_data={"name": "W"}, **told)


def run_of(number: int, session: str) -> RunOutput:
    return RunOutput(
        run_id=f"r{number}",
        agent_id="a1",
        session_id=session,
        user_id="u0",
        content=f"answer {number}",
        created_at=START + number,
    )


def trace_of(number: int) -> Trace:
    begun = MOMENT + timedelta(minutes=number)
    return Trace(
        trace_id=f"t{number}", name=f"a{number % 2}.run", status="OK", start_time=begun, end_time=begun + timedelta(seconds=2),
        duration_ms=2000, total_spans=1, error_count=0, run_id=f"r{number}", session_id=f"s{number % 3}", user_id="u0",
        agent_id="a1", team_id=None, workflow_id=None, created_at=begun,
    )  # fmt: skip


def span_of(number: int, trace: int) -> Span:
    begun = MOMENT + timedelta(minutes=number)
    return Span(
        span_id=f"p{number}", trace_id=f"t{trace}", parent_span_id=None, name="call", span_kind="INTERNAL", status_code="OK",
        status_message=None, start_time=begun, end_time=begun, duration_ms=0, attributes={"n": number}, created_at=begun,
    )  # fmt: skip


def script() -> Iterator[tuple[str, Callable[[Any], Any]]]:  # noqa: C901, PLR0915 (a line per call)
    """Yield calls of every method, with names."""
    for n in range(9):
        yield f"upsert session {n}", lambda db, n=n: db.upsert_session(session_of(n))
    yield "again", lambda db: db.upsert_session(session_of(1, metadata={"new": True}))
    yield "another's", lambda db: db.upsert_session(session_of(2, user_id="thief"))
    for n in range(6):
        yield (
            f"upsert run {n}",
            lambda db, n=n: db.upsert_run(
                run_of(n, f"s{n % 2 * 3}"), f"s{n % 2 * 3}", "u0", n // 2
            ),
        )
    yield (
        "run again",
        lambda db: db.upsert_run({**run_of(2, "s0").to_dict(), "content": "new"}, "s0", "u0", 9),
    )
    for n in range(4):
        for plain in (True, False):
            yield (
                f"get session {n}",
                lambda db, n=n, p=plain: db.get_session(f"s{n}", deserialize=p),
            )
            yield f"of user {n}", lambda db, n=n: db.get_session(f"s{n}", user_id="u1")
    yield "last runs", lambda db: db.get_session("s0", SessionType.AGENT, runs_limit=1)
    yield "no session", lambda db: db.get_session("none")
    for options in (
        {}, {"session_type": SessionType.TEAM}, {"user_id": "u1"}, {"component_id": "a1", "session_type": SessionType.AGENT},
        {"session_name": "trip 3"}, {"start_timestamp": START + 4}, {"end_timestamp": START + 4}, {"include_runs": False},
        {"limit": 2, "page": 2, "sort_by": "created_at", "sort_order": "asc"},
    ):  # fmt: skip
        options = {"sort_by": "created_at", "sort_order": "desc"} | options  # noqa: PLW2901 (defaults)
        yield f"sessions {options}", lambda db, o=options: db.get_sessions(deserialize=False, **o)
        yield f"session objects {options}", lambda db, o=options: db.get_sessions(**o)
    yield "run", lambda db: db.get_run("r2", deserialize=False)
    yield "runs", lambda db: db.get_runs(session_id="s0")
    yield "runs of user", lambda db: len(db.get_runs(user_id="u0"))
    yield "rename", lambda db: db.rename_session("s0", SessionType.AGENT, "New name")
    yield "rename none", lambda db: db.rename_session("none", SessionType.AGENT, "New name")
    yield "delete run", lambda db: db.delete_run("r4")
    yield "delete runs", lambda db: db.delete_runs(["r1", "none"])
    yield "delete session", lambda db: db.delete_session("s4")
    yield "delete another's", lambda db: db.delete_session("s5", user_id="thief")
    yield "delete sessions", lambda db: db.delete_sessions(["s6", "s7", "none"])
    yield "upsert sessions", lambda db: len(db.upsert_sessions([session_of(20), session_of(21)]))
    yield (
        "left",
        lambda db: sorted(one["session_id"] for one in db.get_sessions(deserialize=False)[0]),
    )
    for n in range(5):
        yield (
            f"memory {n}",
            lambda db, n=n: db.upsert_user_memory(
                UserMemory(
                    memory=f"likes tea {n}",
                    memory_id=f"m{n}",
                    topics=["tea", f"x{n}"],
                    user_id=f"u{n % 2}",
                    agent_id="a1",
                    updated_at=START + n,
                )
            ),
        )
    yield (
        "memories in bulk",
        lambda db: len(db.upsert_memories([UserMemory(memory="b", memory_id="m9", user_id="u0")])),
    )
    for options in (
        {},
        {"user_id": "u0"},
        {"topics": ["x1"]},
        {"search_content": "TEA 3"},
        {"agent_id": "a1"},
    ):
        yield (
            f"memories {options}",
            lambda db, o=options: sorted(
                (one.memory_id, one.memory) for one in db.get_user_memories(**o)
            ),
        )
    yield "a memory", lambda db: db.get_user_memory("m1").memory
    yield "no memory", lambda db: db.get_user_memory("none")
    yield "topics", lambda db: sorted(db.get_all_memory_topics())
    yield "stats", lambda db: sorted(one["user_id"] for one in db.get_user_memory_stats()[0])
    yield "delete memory", lambda db: db.delete_user_memory("m1")
    yield "delete memories", lambda db: db.delete_user_memories(["m2", "none"], user_id="u0")
    yield "memories left", lambda db: sorted(one.memory_id for one in db.get_user_memories())
    yield "clear", lambda db: db.clear_memories()
    yield "no memories", lambda db: db.get_user_memories()
    for n in range(3):
        yield (
            f"knowledge {n}",
            lambda db, n=n: (
                db.upsert_knowledge_content(
                    KnowledgeRow(
                        id=f"k{n}",
                        name=f"doc {n}",
                        description="d",
                        metadata={"n": n},
                        created_at=START + n,
                        updated_at=START,
                    )
                ).id
            ),
        )
    yield "a document", lambda db: db.get_knowledge_content("k1").model_dump(exclude={"updated_at"})
    yield "documents", lambda db: sorted(one.id for one in db.get_knowledge_contents()[0])
    yield (
        "a page of them",
        lambda db: [
            one.id
            for one in db.get_knowledge_contents(
                limit=1, page=2, sort_by="created_at", sort_order="asc"
            )[0]
        ],
    )
    yield "delete it", lambda db: db.delete_knowledge_content("k1")
    yield "no document", lambda db: db.get_knowledge_content("k1")
    for n in range(3):
        yield (
            f"eval {n}",
            lambda db, n=n: (
                db.create_eval_run(
                    EvalRunRecord(
                        run_id=f"e{n}",
                        eval_type=EvalType.ACCURACY,
                        eval_data={"n": n},
                        name=f"e {n}",
                        agent_id="a1",
                    )
                ).run_id
            ),
        )
    yield "an eval", lambda db: db.get_eval_run("e1").eval_data
    yield "evals", lambda db: sorted(one.run_id for one in db.get_eval_runs(agent_id="a1"))
    yield "rename eval", lambda db: db.rename_eval_run("e1", "new").name
    yield "delete evals", lambda db: db.delete_eval_runs(["e0", "none"])
    yield "evals left", lambda db: sorted(one.run_id for one in db.get_eval_runs())
    for n in range(4):
        yield f"trace {n}", lambda db, n=n: db.upsert_trace(trace_of(n))
        yield f"span {n}", lambda db, n=n: db.create_span(span_of(n, n))
    yield "spans", lambda db: db.create_spans([span_of(7, 1), span_of(8, 1)])
    yield "trace", lambda db: db.get_trace(trace_id="t1").to_dict()
    yield "traces", lambda db: [one.trace_id for one in db.get_traces(session_id="s0")[0]]
    yield "how many", lambda db: db.get_traces(session_id="s0")[1]
    yield (
        "trace stats",
        lambda db: sorted(
            (one["session_id"], one["total_traces"]) for one in db.get_trace_stats()[0]
        ),
    )
    yield "a span", lambda db: db.get_span("p7").to_dict()
    yield "spans of it", lambda db: sorted(one.span_id for one in db.get_spans(trace_id="t1"))
    yield "version", lambda db: db.upsert_schema_version("agno_sessions", "2.5.0")
    yield "stamped", lambda db: db.get_latest_schema_version("agno_sessions")
    yield "metrics", lambda db: bool(db.calculate_metrics())
    yield "days", lambda db: [str(one["date"])[:10] for one in db.get_metrics()[0]]


VOLATILE = {"updated_at", "created_at", "run_index", "completed", "id", "end_time_ns"}


def shown(value: Any) -> Any:
    """Return a result without what the moment of the call decides."""
    if hasattr(value, "to_dict") and not isinstance(value, dict):
        value = value.to_dict()
    if isinstance(value, dict):
        return {
            key: shown(one)
            for key, one in sorted(value.items())
            if one not in (None, [], {}) and key not in VOLATILE
        }
    return [shown(one) for one in value] if isinstance(value, (list, tuple)) else value


def outcome(call: Callable[[Any], Any], db: Any) -> Any:
    try:
        return shown(call(db))
    except Exception as error:  # noqa: BLE001 (both have to fail alike)
        return type(error).__name__


def test_it_answers_as_agno_s_tables_in_json_files(db: MemdbDb, tmp_path: Path) -> None:
    """Every call of the script that those can do gives the same."""
    other = JsonDb(str(tmp_path / "json"))

    calls = [one for one in script() if "include_runs" not in one[0]]
    assert [name for name, call in calls if outcome(call, db) != outcome(call, other)] == []


def test_it_answers_as_agno_s_tables_in_sqlite(db: MemdbDb, tmp_path: Path) -> None:
    """All 121 calls of the script give the same."""
    other = SqliteDb(db_file=str(tmp_path / "agno.db"))

    found = [(name, outcome(call, db), outcome(call, other)) for name, call in script()]
    assert [one for one in found if one[1] != one[2]] == []
    assert len(found) == 121


def test_they_are_agno_s_databases(db: MemdbDb) -> None:
    """By its own classes, with every abstract method."""
    assert isinstance(db, BaseDb)
    assert isinstance(MemdbAsyncDb(db._db), AsyncBaseDb)


def test_an_agent_goes_on_where_another_process_ended(tmp_path: Path) -> None:
    """History comes back, and what was said is found by other clients of the file."""
    path = str(tmp_path / "a.db")
    with MemdbDb(path) as db:
        assert agent(db).run("We fly to Oslo.").content == "I see 1 messages."
        assert agent(db).run("When?").content == "I see 3 messages."
    with MemdbDb(path) as db:
        assert agent(db).run("Where?").content == "I see 5 messages."
        assert agent(db, "other").run("Hi").content == "I see 1 messages."
        (hit,) = db._scope.recall("Oslo", 1)
        assert (hit.kind, hit.text) == ("message", "We fly to Oslo.")
        assert len(db.get_session("trip").runs) == 3


def test_an_asynchronous_agent_shares_the_file(db: MemdbDb) -> None:
    """Each sees what the other stored."""
    agent(db).run("We fly to Oslo.")

    async def main() -> tuple[str, int]:
        async with MemdbAsyncDb(db._db) as shared:
            answer = await agent(shared).arun("When?")
            return answer.content, len((await shared.get_session("trip")).runs)

    assert asyncio.run(main()) == ("I see 3 messages.", 2)
    assert agent(db).run("Where?").content == "I see 5 messages."


def test_arguments_may_be_named_in_any_order(db: MemdbDb) -> None:
    """A run that is stored again keeps its place."""
    db.upsert_session(session=session_of(0))
    for content in ("old", "new"):
        run = {**run_of(0, "s0").to_dict(), "content": content}
        db.upsert_run(run_index=3 if content == "old" else 9, session_id="s0", run=run)

    (found,), _ = db.get_runs(session_id="s0", deserialize=False)
    assert found["run_index"] == 3
    assert found.get("run_data", found)["content"] == "new"


def test_what_no_file_can_hold_comes_back(db: MemdbDb) -> None:
    """NUL, lone surrogates and NaN in the output of a tool do not end the agent."""
    db.upsert_session(session_of(0))
    odd = {**run_of(0, "s0").to_dict(), "content": "a\0b\ud800", "metadata": {"x": float("inf")}}
    db.upsert_run(odd, "s0", "u0", 0)

    row = db.get_run("r0", deserialize=False)
    found = row.get("run_data", row)
    assert (found["content"], found["metadata"]) == ("a\0b\ud800", {"x": float("inf")})
    assert db._db.file.check() == []


@pytest.mark.parametrize("name", ["../up", "%", "_", "*", "[a]", "a/b", '"', "ä ö", "x" * 900])
def test_characters_of_ids_are_literal(db: MemdbDb, name: str) -> None:
    """No id is a pattern or a path."""
    for one in (name, "abc"):
        db.upsert_session(AgentSession(session_id=one, agent_id="a", user_id=one, created_at=START))
        db.upsert_run({**run_of(1, one).to_dict(), "run_id": one}, one, one, 0)
        db.upsert_user_memory(UserMemory(memory=one, memory_id=one, user_id=one))
    db.delete_session(name)
    db.delete_user_memory(name)

    assert db.get_session(name) is None
    assert len(db.get_session("abc").runs) == 1
    assert [one.memory_id for one in db.get_user_memories()] == ["abc"]


@pytest.mark.parametrize(
    "bad",
    [
        {"session_id": "nul\0"}, {"session_id": "x" * 5_000}, {"session_id": "\ud800"}, {"session_id": ""},
        {"metadata": {"k": {1, 2}}}, {"metadata": {"k": object()}}, {"session_id": None}, {"session_id": 3},
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_an_error_of_values(db: MemdbDb, bad: dict[str, Any]) -> None:
    """And nothing of its call is written; the next call works."""
    with pytest.raises((ValueError, TypeError)):
        db.upsert_session(session_of(0, **bad))
    assert db.get_sessions() == []
    assert db.upsert_session(session_of(0)) is not None


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    """In each of the classes; closing again does nothing."""
    db = MemdbDb(str(tmp_path / "a.db"))
    db.close()
    db.close()
    for call in (lambda: db.get_session("s"), lambda: db.upsert_session(session_of(0))):
        with pytest.raises(memdb.MemDBError, match="closed"):
            call()

    async def main() -> None:
        other = MemdbAsyncDb(str(tmp_path / "a.db"))
        await other.close()
        await other.close()
        with pytest.raises(memdb.MemDBError, match="closed"):
            await other.get_session("s")

    asyncio.run(main())


def test_a_forked_process_is_refused(db: MemdbDb) -> None:
    """The file belongs to the process that opened it."""
    child = os.fork()
    if child == 0:
        try:
            db.get_session("s")
        except memdb.MemDBError:
            os._exit(0)
        os._exit(1)

    assert os.waitpid(child, 0)[1] == 0


def test_a_cancelled_call_is_whole_or_not_at_all(db: MemdbDb) -> None:
    """A session goes with all of its runs, or stays with them; the next call works."""

    async def main() -> int:
        async with MemdbAsyncDb(db._db) as shared:

            async def check() -> None:
                runs = await shared.get_runs(session_id="s0")
                session = await shared.get_session("s0")
                assert len(runs) == (0 if session is None else 2)
                if session is None:
                    fill()

            def fill() -> None:
                db.upsert_session(session_of(0))
                for n in range(2):
                    db.upsert_run(run_of(n, "s0"), "s0", "u0", n)

            fill()
            await cancel_at_each_await(lambda: shared.get_session("s0"), check)
            return await cancel_at_each_await(lambda: shared.delete_session("s0"), check)

    assert asyncio.run(main()) > 0


AT_ONCE = """
import sys
from agno.db.schemas.memory import UserMemory
from agno.session import AgentSession
from memdb.integrations.agno import MemdbDb
path, number, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with MemdbDb(path) as db:
    session = AgentSession(session_id=f"s{number}", agent_id="a", created_at=1)
    db.upsert_session(session)
    for n in range(writes):
        run = {"run_id": f"r{number}.{n}", "agent_id": "a", "content": f"{number} says {n}"}
        db.upsert_run(run, f"s{number}", "u", n)
        if n % 15 == 0:
            db.upsert_user_memory(UserMemory(memory="m", memory_id=f"m{number}.{n}", user_id="u"))
"""


@pytest.mark.slow
def test_many_processes_lose_nothing(tmp_path: Path) -> None:
    """Each process has a session, all share the memories; openers find the file in use."""
    path = tmp_path / "a.db"
    run_at_once(AT_ONCE, path)
    run_at_once(AT_ONCE, path, processes=OPENERS, writes=0)

    with MemdbDb(str(path)) as db:
        assert len(db.get_user_memories()) == PROCESSES * len(range(0, WRITES, 15))
        for number in range(PROCESSES):
            found, _ = db.get_runs(session_id=f"s{number}", deserialize=False)
            assert [one["run_id"] for one in found] == [f"r{number}.{n}" for n in range(WRITES)]
        assert db._db.file.check() == []


def test_the_example_remembers(tmp_path: Path) -> None:
    """The second run goes on with the first."""
    command = [sys.executable, str(ROOT / "examples" / "agno_agent.py"), str(tmp_path / "a.db")]
    lines = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]

    assert [line.split()[-2] for run in lines for line in run.splitlines()] == ["1", "3", "5", "7"]


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a scripted model."""
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("agno.md", "python")

    found = run_block(code, model=Script())
    assert found["answer"].content == "I see 1 messages."
    found["db"].close()
