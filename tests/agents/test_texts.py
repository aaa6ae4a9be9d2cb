"""Settings edited as text: what stands there keeps its bytes."""

from __future__ import annotations

import json
import tomllib

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.agents import json_text, toml_text
from memdb.errors import InvalidInput

SERVER = {"command": "memdb", "args": ["agent", "mcp"]}
TEXTS = [
    "",
    "   \n",
    "{}",
    "{ }",
    "{\n}\n",
    '{"a":1}',
    '{"a": 1, "mcpServers": {}}',
    '{\n  "a": 1,\n  "mcpServers": {\n    "x": {"command": "y"}\n  }\n}\n',
    '{\r\n\t"a": [1,2],\r\n\t"mcpServers": {\r\n\t\t"x": {}\r\n\t}\r\n}',
    '\ufeff{"a":1}',
    "{/* c */}",
    "{\n  // only\n}",
    '{"mcpServers": {"x": {"b": "}"}}}',
    '// c\n{\n    "a": 1, // after\n    "mcpServers": {\n        "x": 1 // x\n    },\n}\n',
    '{\n "mcpServers": {\n  "x": 1,\n }\n}',
    '{"a":"// no","mcpServers":{}}',
    '{"mcpServers": {}, "mcpServers": {"x": 2}}',
    '{"a": [1e5, -2, true, null, "\\u00e9\\""]}',
]


def applied(text: str, pieces: list[json_text.Piece]) -> str:
    """Return *text* with the pieces."""
    for piece in sorted(pieces, key=lambda one: one.offset, reverse=True):
        text = text[: piece.offset] + piece.text + text[piece.offset :]
    return text


def value_of(text: str) -> object:
    """Return what a text says."""
    node = json_text.parse(text)
    return {} if node is None else node.value


@each("text", TEXTS)
def test_a_member_is_added_and_all_else_stays(text: str) -> None:
    """The file says what it said, and the member; taking it out gives the same value."""
    added = applied(text, json_text.add(text, ("mcpServers",), "memdb", SERVER))
    expected = dict(value_of(text))
    expected["mcpServers"] = {**expected.get("mcpServers", {}), "memdb": SERVER}
    assert value_of(added) == expected
    removed = json_text.remove(added, ("mcpServers", "memdb"))
    assert value_of(removed) == {"mcpServers": {}, **dict(value_of(text))}


@each("text", TEXTS)
def test_elements_are_added_to_a_list(text: str) -> None:
    """A list is made if it is missing, and grows at its end; each can be taken out."""
    once = applied(text, json_text.add(text, ("hooks", "Stop"), None, {"a": 1}))
    twice = applied(once, json_text.add(once, ("hooks", "Stop"), None, {"b": 2}))
    assert value_of(twice)["hooks"]["Stop"] == [{"a": 1}, {"b": 2}]
    assert value_of(json_text.remove(twice, ("hooks", "Stop", 1))) == value_of(once)
    first = json_text.remove(twice, ("hooks", "Stop", 0))
    assert value_of(first)["hooks"]["Stop"] == [{"b": 2}]
    assert json_text.remove(twice, ("hooks", "Start", 0)) == twice


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "x y", "é"]), JSON, max_size=3),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.booleans(),
)
def test_any_object_in_any_layout(value: dict[str, object], indent: int, lines: bool) -> None:
    """Reading gives the value; the text between the pieces is the text from before."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = text.replace("\n", "\r\n") if lines else text
    assert value_of(text) == value
    pieces = json_text.add(text, ("m", "n"), "k", [1])
    added = applied(text, pieces)
    assert value_of(added) == {**value, "m": {"n": {"k": [1]}}}
    assert value_of(json_text.remove(added, ("m",))) == value


@each(
    "text",
    [
        "[]",
        "5",
        '{"mcpServers":[]}',
        '{"mcpServers":null}',
        '{"a"}',
        '{"a":1 "b":2}',
        "{,}",
        '{"a":}',
        "[[[[",
        '{"a":"x\n"}',
        '{"a":01}',
        "{'a':1}",
        '{"a":1}}',
        "{" * 500,
        "[" * 5000,
        "nul",
    ],
)
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    """It is left alone."""
    with pytest.raises(InvalidInput, match=r"correct|flatter"):
        json_text.add(text, ("mcpServers",), "memdb", SERVER)


TABLES = [
    "",
    "\n",
    "a=1",
    'a = 1\n[mcp_servers.x]\ncommand = "y"\n# end\n',
    "[a]\r\nb = 1\r\n",
    "[[h]]\nx = 1\n",
    "[mcp_servers]\nother = {a = 1}\n",
    "# only",
    '["a.b".c]\nd = """\n[x]\n"""\n',
]


@pytest.mark.parametrize("text", TABLES)
def test_a_table_is_added_behind_the_others(text: str) -> None:
    """The file says what it said, and the table; it can be taken out, also from the middle."""
    added = applied(text, toml_text.add(text, ("mcp_servers", "memdb"), SERVER))
    assert added.startswith(text)
    assert tomllib.loads(added.replace("\r\n", "\n"))["mcp_servers"]["memdb"] == SERVER
    assert toml_text.remove(added, ("mcp_servers", "memdb")).rstrip() == text.rstrip()
    more = added + "[mcp_servers.memdb.env]\nA = '1'\n[z]\nq = 1\n"
    assert toml_text.parse(toml_text.remove(more, ("mcp_servers", "memdb")))["z"] == {"q": 1}
    assert toml_text.remove(text, ("mcp_servers", "memdb")) == text


@pytest.mark.parametrize(
    "text", ["mcp_servers = {}", "mcp_servers = 1", "a =", "mcp_servers = {x = {a = 1}}"]
)
def test_what_no_table_can_follow_is_refused(text: str) -> None:
    """It says what to do."""
    with pytest.raises(InvalidInput, match=r"correct|write it as"):
        toml_text.add(text, ("mcp_servers", "memdb"), SERVER)
