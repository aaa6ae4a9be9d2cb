"""The memory of a session as tools for a model: what they show, and what they refuse."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.api.tools import PAGE_CHARS, Tools
from memdb.models.settings import Settings
from memdb.models.summaries import SourceItem, SummaryText

DEEP = Settings(summary_messages=3, summary_condense_at=3, summary_group=2, summary_max_depth=4)

ID = re.compile(r"^\[(\d+)\] summary of messages (\d+)-(\d+):", re.MULTILINE)
SEQ = re.compile(r"^#(\d+) ", re.MULTILINE)
MORE = re.compile(r"\(continue with after=(\d+)\)$")
REST = re.compile(r"continue with offset=(\d+)")


def said(number: int) -> str:
    """Return what message *number* says."""
    return f"Remark {number}: we looked at file_{number}.txt about 北京."


@pytest.fixture
def deep(open_db: Callable[..., MemDB], fill: Callable[..., None]) -> MemDB:
    """Return a file with a session of four levels."""

    def make(db: MemDB) -> None:
        chat = db.scope("ann").session("trip")
        chat.extend([{"role": "user", "text": said(n)} for n in range(1, 101)])
        db.jobs.run()

    db = open_db(":memory:", settings=DEEP, embedder=None)
    fill(db, make)
    return db


@pytest.fixture
def tools(deep: MemDB) -> Tools:
    """Return the tools of that session."""
    return deep.scope("ann").session("trip").tools()


def pages(tools: Tools, ref: int | str) -> list[str]:
    """Return all pages of an expansion, following what each says at its end."""
    found = [tools.call("memory_expand", {"id": ref})]
    while (more := MORE.search(found[-1])) is not None:
        found.append(tools.call("memory_expand", {"id": ref, "after": int(more.group(1))}))
    return found


def leaves_of(tools: Tools, ref: int | str, seen: dict[int, str], depth: int = 0) -> int:
    """Go down from *ref* by the numbers in the answers alone; fill *seen*; return the depth reached."""
    deepest = depth
    for page in pages(tools, ref):
        below = [found[0] for found in ID.findall(page)]
        for one in below:
            deepest = max(deepest, leaves_of(tools, one, seen, depth + 1))
        if not below:
            starts = [*SEQ.finditer(page)]
            ends = [one.start() for one in starts[1:]] + [len(page)]
            for start, end in zip(starts, ends, strict=True):
                seen[int(start.group(1))] = page[start.start() : end]
    return deepest


# -- schemas


def assert_schema(schema: dict[str, Any]) -> None:
    """Fail unless *schema* is what JSON schema calls an object with properties."""
    assert schema["type"] == "object"
    assert set(schema["required"]) <= set(schema["properties"])
    for name, kind in schema["properties"].items():
        assert re.fullmatch(r"[a-z_]{1,64}", name)
        assert kind["type"] in ("string", "integer", "boolean")
        known = {"type", "description", "default", "minimum", "maximum"}
        assert set(kind) <= known
        if "default" in kind:
            python = {"string": str, "integer": int, "boolean": bool}[kind["type"]]
            assert type(kind["default"]) is python
            assert kind.get("minimum", kind["default"]) <= kind["default"]
    assert json.loads(json.dumps(schema)) == schema


def test_the_schemas_in_the_shape_of_openai() -> None:
    """A list of functions, as the chat and the responses clients take them."""
    told = Tools.schemas("openai", maintenance=True)

    assert [one["type"] for one in told] == ["function"] * 3
    assert [sorted(one["function"]) for one in told] == [["description", "name", "parameters"]] * 3
    for one in told:
        assert_schema(one["function"]["parameters"])
        assert one["function"]["parameters"]["additionalProperties"] is False


def test_the_schemas_in_the_shape_of_anthropic() -> None:
    """Name, description and input_schema."""
    told = Tools.schemas("anthropic", maintenance=True)

    assert [sorted(one) for one in told] == [["description", "input_schema", "name"]] * 3
    [assert_schema(one["input_schema"]) for one in told]


def test_the_schemas_in_the_shape_of_gemini() -> None:
    """One tool with declarations, without the words its subset does not know."""
    (told,) = Tools.schemas("gemini", maintenance=True)

    declared = told["function_declarations"]
    assert [one["name"] for one in declared] == [
        "memory_expand",
        "memory_search",
        "memory_compact",
    ]
    for one in declared:
        assert_schema(one["parameters"])
        assert "additionalProperties" not in json.dumps(one)
        assert '"default"' not in json.dumps(one)


def test_maintenance_is_for_those_who_ask() -> None:
    """A conversation's model does not compact unless the host says so."""
    names = [one["function"]["name"] for one in Tools.schemas()]

    assert names == ["memory_expand", "memory_search"]


def test_an_unknown_shape_is_refused() -> None:
    """The known ones are named."""
    with pytest.raises(memdb.InvalidInput, match="openai, anthropic, gemini"):
        Tools.schemas("cohere")


@pytest.mark.parametrize("name", ["memory_expand", "memory_search", "memory_compact"])
def test_the_functions_take_what_the_schemas_say(name: str, tools: Tools) -> None:
    """Names and defaults of arguments are the same in both."""
    import inspect

    (schema,) = [
        one["function"]["parameters"]
        for one in Tools.schemas(maintenance=True)
        if one["function"]["name"] == name
    ]
    taken = inspect.signature(getattr(tools, name.removeprefix("memory"))).parameters

    assert list(taken) == list(schema["properties"])
    for field, parameter in taken.items():
        given = schema["properties"][field].get("default", inspect.Parameter.empty)
        assert parameter.default == given


# -- memory_expand


def test_ids_in_the_answers_lead_down_to_every_message(tools: Tools, deep: MemDB) -> None:
    """From the index of the system prompt, over four levels, every word of each."""
    chat = deep.scope("ann").session("trip")
    tree = chat.summaries.tree()
    seen: dict[int, str] = {}
    deepest = max(leaves_of(tools, summary.id, seen) for summary in tree.frontier)

    assert deepest == 4
    assert sorted(seen) == list(range(1, tree.first_raw_seq))
    for seq, line in seen.items():
        assert said(seq) in line


def test_the_same_when_texts_were_pruned_and_archived(tools: Tools, deep: MemDB) -> None:
    """Compacting changes no answer."""
    before = {
        one.id: pages(tools, one.id)
        for one in deep.scope("ann").session("trip").summaries.tree().summaries
    }
    tools.call("memory_compact", {})
    deep.scope("ann").session("trip").archive(keep_last=0)

    assert {ref: pages(tools, ref) for ref in before} == before


def test_a_span_and_a_single_message(tools: Tools) -> None:
    """As contexts and searches name them."""
    page = tools.call("memory_expand", {"id": "98-100"})

    assert [int(seq) for seq in SEQ.findall(page)] == [98, 99, 100]
    assert tools.call("memory_expand", {"id": "#7"}).endswith(said(7))


def test_many_messages_come_in_pages(db: MemDB) -> None:
    """No page is over the limit but by its last line; together they are all, once."""
    chat = db.scope("ann").session("long")
    chat.extend([{"role": "user", "text": f"{n} " + "word " * 50} for n in range(1, 101)])
    found = pages(chat.tools(), "1-100")

    assert len(found) > 1
    assert [int(seq) for page in found for seq in SEQ.findall(page)] == list(range(1, 101))
    assert max(map(len, found)) <= PAGE_CHARS + 100


def test_a_long_message_comes_in_pieces(db: MemDB) -> None:
    """Each says where the next begins; joined they are the whole."""
    chat = db.scope("ann").session("long")
    text = "".join(f"{n:05} 北京 " for n in range(4_000))
    chat.append("user", "short")
    chat.append("user", text)
    tools = chat.tools()
    both = tools.call("memory_expand", {"id": "1-2"})
    assert "continue with after=1" in both
    first = tools.call("memory_expand", {"id": "1-2", "after": 1})
    pieces = [first]
    while (more := REST.search(pieces[-1][-100:])) is not None:
        offset = int(more.group(1))
        pieces.append(tools.call("memory_expand", {"id": "#2", "offset": offset}))

    whole = "".join(re.sub(r"\n\(continue with offset=.*\)$", "", one) for one in pieces)

    assert whole == f"#2 user 2023-11-14: {text}"
    assert "ends before" in tools.call("memory_expand", {"id": "#2", "offset": 10**9})


def test_a_long_message_between_others_says_how_to_see_the_rest(db: MemDB) -> None:
    """It does not hide those after it."""
    chat = db.scope("ann").session("long")
    chat.extend([{"role": "user", "text": text} for text in ("first", "x" * 20_000, "third")])
    found = pages(chat.tools(), "1-3")

    assert [int(seq) for page in found for seq in SEQ.findall(page)] == [1, 2, 3]
    assert f"memory_expand('#2', offset={PAGE_CHARS})" in "".join(found)


@pytest.mark.parametrize("arguments", ['{"path": "a/b.py"}', {"path": "a/b.py"}], ids=repr)
@pytest.mark.parametrize(
    "content", ["def main(): pass", [{"type": "text", "text": "def main(): pass"}]], ids=repr
)
def test_tool_calls_and_results_are_shown(db: MemDB, arguments: Any, content: Any) -> None:
    """With their names, arguments and what they gave, as text or as JSON."""
    chat = db.scope("ann").session("work")
    call = {"type": "tool_call", "id": "c1", "name": "read_file", "arguments": arguments}
    chat.append("assistant", "Let me look.", parts=[call])
    result = {"type": "tool_result", "tool_call_id": "c1", "content": content}
    chat.append("tool", "", parts=[result])

    shown = chat.tools().call("memory_expand", {"id": "1-2"})

    for told in ("Let me look.", "read_file", "a/b.py", "def main(): pass"):
        assert told in shown


@pytest.mark.parametrize(
    "ref",
    ["999", "nothing", "", "#101", "200-300", "9" * 5000, "1-" + "9" * 5000, "\0"],
    ids=lambda ref: ref[:20] or "empty",
)
def test_an_unknown_id_is_not_found(tools: Tools, ref: str) -> None:
    """Said so that a model can do better; never another answer."""
    with pytest.raises((memdb.NotFound, memdb.InvalidInput)):
        tools.call("memory_expand", {"id": ref})


@pytest.mark.parametrize("ref", ["0", "5-3", "99999999-99999999", "\ud800"], ids=ascii)
def test_an_id_that_cannot_be_is_invalid(tools: Tools, ref: str) -> None:
    """A span begins at 1 and does not end before it begins."""
    with pytest.raises(memdb.InvalidInput):
        tools.call("memory_expand", {"id": ref})


def test_the_id_of_another_session_is_not_found(tools: Tools, deep: MemDB) -> None:
    """Of the same person, of another, and of one whose session has the same name."""
    (summary, *_) = deep.scope("ann").session("trip").summaries.tree().summaries
    others = [deep.scope("ann").session("other"), deep.scope("bob").session("trip")]
    [one.append("user", "hi") for one in others]

    for one in others:
        with pytest.raises(memdb.NotFound):
            one.tools().call("memory_expand", {"id": summary.id})
    assert summary.text[:5] in tools.call(
        "memory_expand", {"id": f"{summary.first_seq}-{summary.last_seq}"}
    )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "id"),
        ({"id": None}, "id"),
        ({"id": ["7"]}, "id"),
        ({"id": "7", "after": -1}, "after"),
        ({"id": "7", "after": 1 << 40}, "after"),
        ({"id": "7", "after": "1"}, "after"),
        ({"id": "7", "after": 1.5}, "after"),
        ({"id": "7", "after": True}, "after"),
        ({"id": "7", "offset": -1}, "offset"),
        ({"id": "7", "offset": -(10**30)}, "offset"),
        ({"id": "7", "offset": False}, "offset"),
        ({"id": "7", "offset": float("nan")}, "offset"),
        ({"id": "7", "session": "other"}, "session"),
    ],
    ids=repr,
)
def test_bad_arguments_of_expand_are_refused(
    tools: Tools, arguments: dict[str, Any], field: str
) -> None:
    """With the name of the argument."""
    with pytest.raises(memdb.InvalidInput, match=field):
        tools.call("memory_expand", arguments)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "object"),
        ("null", "object"),
        ('"7"', "object"),
        ("7", "object"),
        (7, "object"),
        ([("id", "7")], "object"),
    ],
    ids=lambda one: repr(one)[:20],
)
def test_arguments_that_are_no_object_are_refused(
    tools: Tools, arguments: Any, problem: str
) -> None:
    """Whatever a model writes there."""
    with pytest.raises(memdb.InvalidInput, match=problem):
        tools.call("memory_expand", arguments)


def test_arguments_as_json_text(tools: Tools) -> None:
    """As clients hand them over; null is as if it were not there, 0.0 is an integer."""
    told = tools.call("memory_expand", '{"id": "#7", "after": null, "offset": 0.0}')

    assert told == tools.call("memory_expand", {"id": "#7"})


@pytest.mark.parametrize("arguments", [None, "", {}], ids=repr)
def test_no_arguments_where_none_are_needed(tools: Tools, arguments: Any) -> None:
    """Each way in which a client says so."""
    assert json.loads(tools.call("memory_compact", arguments))["archived"] == 0


def test_an_unknown_tool_is_refused(tools: Tools) -> None:
    """The known ones are named; nothing else of the object can be called."""
    for name in ("memory_forget", "schemas", "call", "__init__", ""):
        with pytest.raises(memdb.InvalidInput, match="memory_expand, memory_search"):
            tools.call(name, {})


def test_a_summary_longer_than_a_page_is_cut(open_db: Callable[..., MemDB]) -> None:
    """Its id still leads deeper."""

    class Wide:
        name, quality = "wide", "model"

        def summarize(self, source: list[SourceItem], **_options: Any) -> SummaryText:
            return SummaryText("w" * 3_000)

    class One:
        name = "one"

        def count(self, text: str) -> int:
            return len(text) // 100

        def count_many(self, texts: list[str]) -> list[int]:
            return [len(text) // 100 for text in texts]

    db = open_db(":memory:", summarizer=Wide(), settings=DEEP, counter=One())
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": "m" * 2_000} for _ in range(60)])
    db.jobs.run()
    top = max(chat.summaries.tree().summaries, key=lambda summary: summary.depth)

    found = pages(chat.tools(), top.id)

    below = [one for one in chat.summaries.tree().summaries if one.condensed_into == top.id]
    assert [one[0] for page in found for one in ID.findall(page)] == [str(one.id) for one in below]


# -- memory_search


def test_search_finds_messages_summaries_and_entries(tools: Tools, deep: MemDB) -> None:
    """Each line names where to look; the numbers are what expand takes."""
    deep.scope("ann").remember("Ann keeps file_42.txt in Oslo.", category="profile")

    found = tools.call("memory_search", {"query": "file_42.txt"})

    assert "#42 " in found
    assert "(profile) Ann keeps file_42.txt" in found
    assert ID.search(found) is not None
    assert said(42) in tools.call("memory_expand", {"id": f"#{SEQ.findall(found)[0]}"})


def test_search_in_chinese(tools: Tools) -> None:
    """Words of scripts without spaces are found too."""
    assert SEQ.search(tools.call("memory_search", {"query": "北京", "limit": 3})) is not None


def test_search_of_another_session_finds_nothing_here(tools: Tools, deep: MemDB) -> None:
    """Messages of others are not shown."""
    deep.scope("ann").session("other").append("user", "zanzibar")
    deep.scope("bob").remember("zanzibar")

    assert tools.call("memory_search", {"query": "zanzibar"}) == "(nothing found)"


@pytest.mark.parametrize(
    "query", ["", "   ", "???", '"', "a AND (", "file_42.txt:1 OR *"], ids=repr
)
def test_a_search_for_anything_answers(tools: Tools, query: str) -> None:
    """No words, or what an index takes for its own language."""
    assert isinstance(tools.call("memory_search", {"query": query}), str)


def test_a_search_in_a_session_that_is_not_there(db: MemDB) -> None:
    """Nothing is found, nothing made."""
    tools = db.scope("ann").session("none").tools()

    assert tools.call("memory_search", {"query": "tea"}) == "(nothing found)"
    assert db.scopes() == []


def test_an_answer_of_search_fits_a_page(db: MemDB) -> None:
    """And says how much is left out."""
    chat = db.scope("ann").session("long")
    chat.extend([{"role": "user", "text": f"tea {n} " + "word " * 200} for n in range(60)])

    found = chat.tools().call("memory_search", {"query": "tea", "limit": 50})

    assert len(found) <= PAGE_CHARS + 100
    assert re.search(r"\(\d+ more are not shown", found) is not None


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "query"),
        ({"query": ["tea"]}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"query": "tea", "limit": 0}, "limit"),
        ({"query": "tea", "limit": -1}, "limit"),
        ({"query": "tea", "limit": 51}, "limit"),
        ({"query": "tea", "limit": True}, "limit"),
        ({"query": "tea", "limit": "10"}, "limit"),
    ],
    ids=ascii,
)
def test_bad_arguments_of_search_are_refused(
    tools: Tools, arguments: dict[str, Any], field: str
) -> None:
    """With the name of the argument."""
    with pytest.raises(memdb.InvalidInput, match=field):
        tools.call("memory_search", arguments)


# -- memory_compact


def test_compact_says_what_it_did(open_db: Callable[..., MemDB]) -> None:
    """Summaries, dropped texts, archived messages; the conversation is whole."""
    db = open_db(":memory:")
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": said(n)} for n in range(1, 1_101)])
    before = [message.text for message in chat.messages()]

    told = json.loads(chat.tools().call("memory_compact"))

    assert told["archived"] == 100
    assert told["summarized"] == len(chat.summaries.tree().summaries)
    assert told["pruned"] > 0
    assert [message.text for message in chat.messages()] == before
    again = json.loads(chat.tools().call("memory_compact", {"archive": False}))
    assert again == {"summarized": 0, "pruned": 0, "archived": 0, "remaining": told["remaining"]}


@pytest.mark.parametrize("archive", [1, 0, "true", 1.0], ids=repr)
def test_compact_takes_true_or_false(tools: Tools, archive: Any) -> None:
    """Nothing that is like it."""
    with pytest.raises(memdb.InvalidInput, match="archive"):
        tools.call("memory_compact", {"archive": archive})
