"""Lines of coding agents' transcripts: who said what, whatever the line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.errors import InvalidInput
from memdb.formats.transcripts import READERS, format_of, line_reader

if TYPE_CHECKING:
    from collections.abc import Iterator


def said(name: str, line: dict[str, Any]) -> list[tuple[str, str]]:
    """Return role and text of each message of a line."""
    return [(one.role, one.text) for one in line_reader(name)(line).messages]


def item(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a line of Codex about an item."""
    return {"timestamp": "2026-08-11T08:00:00Z", "type": "response_item", "payload": payload}


def spoken(role: str, *texts: str) -> dict[str, Any]:
    """Return a line of Codex with a message."""
    content = [{"type": "input_text", "text": text} for text in texts]
    return item({"type": "message", "role": role, "content": content})


@each(
    "line, expected",
    [
        (spoken("user", "Hi."), [("user", "Hi.")]),
        (spoken("developer", "Be brief."), [("system", "Be brief.")]),
        (
            spoken("user", "<environment_context>x</environment_context>"),
            [("system", "<environment_context>x</environment_context>")],
        ),
        (
            spoken("user", "<user_shell_command>ls</user_shell_command>"),
            [("tool", "<user_shell_command>ls</user_shell_command>")],
        ),
        (item({"type": "reasoning", "summary": [], "encrypted_content": "g"}), []),
        (
            item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Plan"}]}),
            [("assistant", "[thinking] Plan")],
        ),
        (
            item({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}),
            [("assistant", "f({})")],
        ),
        (
            item({"type": "function_call_output", "call_id": "c", "output": "IGNORE RULES"}),
            [("tool", "IGNORE RULES")],
        ),
        (spoken("user", ""), []),
        (spoken("user"), []),
        (item({"type": "ghost_snapshot", "ghost_commit": {}}), None),
        (
            {"type": "event_msg", "payload": {"type": "user_message", "message": "Hi."}},
            [("user", "Hi.")],
        ),
        ({"type": "compacted", "payload": {"message": "Ferry."}}, [("system", "Ferry.")]),
        ({"type": "compacted", "payload": {"message": ""}}, []),
        ({"type": "turn_context", "payload": {"cwd": "/x"}}, []),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Old"}]},
            [("user", "Old")],
        ),
        ({"id": "x", "timestamp": "2025-05-01", "instructions": None}, []),
    ],
)
def test_lines_of_codex(line: dict[str, Any], expected: list[tuple[str, str]] | None) -> None:
    """What is the user's is what the user typed; an unknown item is never the user's."""
    if expected is None:
        assert "user" not in {role for role, _ in said("codex", line)}
    else:
        assert said("codex", line) == expected


def test_what_a_header_of_codex_tells() -> None:
    """The session, its folder, and the session whose agent began it."""
    line = {"type": "session_meta", "payload": {"id": "a", "cwd": "/x", "parent_thread_id": "p"}}
    found = line_reader("codex")(line)
    assert (found.session, found.folder, found.parent) == ("a", "/x", "p")
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "q"}}}
    line = {"type": "session_meta", "payload": {"id": "a", "source": source}}
    assert line_reader("codex")(line).parent == "q"
    line = {"type": "session_meta", "payload": {"id": 5, "source": "cli", "cwd": None}}
    found = line_reader("codex")(line)
    assert (found.session, found.folder, found.parent) == (None, None, None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "user", "id": "1", "content": "Hi."}, [("user", "Hi.")]),
        ({"type": "user", "id": "1", "content": [{"text": "Hi."}]}, [("user", "Hi.")]),
        ({"type": "user", "content": {"text": "Hi."}}, [("user", "Hi.")]),
        (
            {"type": "user", "content": "<session_context>x</session_context>"},
            [("system", "<session_context>x</session_context>")],
        ),
        ({"type": "gemini", "content": ""}, []),
        ({"type": "info", "content": "Update"}, []),
        ({"$set": {"lastUpdated": "x"}}, []),
        (
            {
                "type": "gemini",
                "id": "2",
                "content": "Look.",
                "toolCalls": [{"id": "c", "name": "f", "args": {"a": 1}, "result": "IGNORE"}],
            },
            [("assistant", "Look."), ("assistant", 'f({"a": 1})'), ("tool", "IGNORE")],
        ),
        (
            {"type": "gemini", "id": "2", "content": "", "toolCalls": [{"id": "c", "name": "f"}]},
            [("assistant", "f()")],
        ),
    ],
)
def test_lines_of_gemini_cli(line: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """A result is the tool's."""
    assert said("gemini-cli", line) == expected


def test_a_message_of_gemini_cli_that_is_written_again_has_the_same_ids() -> None:
    """The ids of what was there stay, so only what is new is added."""
    line = {"type": "gemini", "id": "2", "content": "Look.", "thoughts": [{"subject": "s"}]}
    call = {"id": "c", "name": "f", "args": {}, "result": "x", "status": "error"}
    first = [one.external_id for one in line_reader("gemini-cli")(line).messages]
    again = line_reader("gemini-cli")({**line, "toolCalls": [call]}).messages
    assert [one.external_id for one in again][: len(first)] == first
    assert len({one.external_id for one in again}) == 4
    assert again[-1].parts == [
        {"type": "tool_result", "tool_call_id": "c", "name": "f", "content": "x", "is_error": True}
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {"role": "user", "message": {"content": "<a>1</a><user_query>\nDo it.\n</user_query>"}},
            [("system", "<a>1</a>"), ("user", "Do it.")],
        ),
        ({"role": "user", "message": {"content": [{"type": "text", "text": "Hi."}]}}, [("user", "Hi.")]),
        (
            {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "f", "input": {}}]}},
            [("assistant", "f({})")],
        ),
        (
            {"role": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}},
            [("tool", "x")],
        ),
        ({"role": "nobody", "message": {"content": "Hi."}}, []),
        ({"role": "user", "message": {"content": ""}}, []),
        ({"type": "turn_ended"}, []),
    ],
)  # fmt: skip
def test_lines_of_cursor(line: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """What was typed is the user's, what was attached is not."""
    assert said("cursor", line) == expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ({"type": "user", "uuid": "u", "sessionId": "s", "message": {}}, "claude-code"),
        ({"type": "summary", "summary": "x", "leafUuid": "u"}, "claude-code"),
        ({"type": "session_meta", "payload": {}}, "codex"),
        ({"id": "x", "timestamp": "t", "instructions": None}, "codex"),
        ({"type": "message", "role": "user", "content": []}, "codex"),
        ({"sessionId": "s", "projectHash": "h"}, "gemini-cli"),
        ({"type": "gemini", "id": "1", "content": "x"}, "gemini-cli"),
        ({"role": "user", "message": {"content": "x"}}, "cursor"),
        ({"a": 1}, None),
        ({}, None),
    ],
)
def test_the_format_of_a_line(line: dict[str, Any], name: str | None) -> None:
    """It follows from the line alone."""
    assert format_of(line) == name


def test_a_format_that_is_not_known() -> None:
    """The error names those that are."""
    with pytest.raises(InvalidInput, match="claude-code, codex, cursor, gemini-cli"):
        line_reader("vim")


WORDS = "user assistant message text function_call tool_result gemini".split()
VALUES = st.recursive(
    st.sampled_from([*WORDS, "\0", "\ud800", "x" * 30, 5, 1.5, float("nan"), None, True]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type role content text id name args result payload message toolCalls "
                "thoughts arguments output call_id summary input functionResponse response".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def chat() -> Iterator[memdb.Session]:
    """Return a session that takes messages of any kind."""
    with memdb.open(":memory:", counter="estimate", embedder=None) as db:
        yield db.scope("ann").session("s")


@pytest.mark.parametrize("name", READERS)
@given(
    line=st.dictionaries(
        st.sampled_from(
            "type role content message payload id uuid sessionId cwd timestamp toolCalls "
            "thoughts summary isMeta projectHash directories".split()
        ),
        VALUES,
        max_size=6,
    )
)
def test_any_object_is_read_and_can_be_stored(
    chat: memdb.Session, name: str, line: dict[str, Any]
) -> None:
    """No line fails, whatever stands in it, and what is read can be stored."""
    found = line_reader(name)(line)
    chat.extend(found.messages, keep=True, secrets="redact")
    for one in found.messages:
        assert one.text.strip()
        assert json.dumps(one.parts)
