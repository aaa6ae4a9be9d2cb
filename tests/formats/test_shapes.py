"""Shapes: windows as the clients of three model APIs take them."""

import json
from typing import Any

import pytest
from cases import each
from hypothesis import example, given
from hypothesis import strategies as st
from shape_checks import CHECKS, validators

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.formats.provider_messages import read_messages
from memdb.formats.shapes import OPENER, items_of, to_shape
from memdb.formats.turns import EMPTY_RESULT, UNKNOWN_TOOL
from memdb.models.messages import Message
from memdb.text.parts import part_text, text_of

SHAPES = ("openai", "openai-responses", "anthropic", "gemini", "langchain")
PNG = {"type": "image", "base64": "iVBORw0K", "media_type": "image/png"}
LINK = {"type": "image", "url": "https://example.org/a.png"}


def say(role: str, text: str = "", parts: list[Any] | None = None, seq: int = 1) -> Message:
    """Return a message that was never stored."""
    text = text or text_of(parts or [])
    return Message(seq, role, None, text, parts, 1, "estimate", None, 0, None, "trip", seq, "u")


def call(call_id: Any, name: Any = "read", arguments: Any = '{"path": "a"}') -> dict[str, Any]:
    """Return a tool call part."""
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: Any, content: Any = "ok", **more: Any) -> dict[str, Any]:
    """Return a tool result part."""
    return {"type": "tool_result", "tool_call_id": call_id, "content": content, **more}


TALK = [
    say("system", "Be kind."),
    say("user", "Read a and b."),
    say("assistant", "", [{"type": "text", "text": "I look."}, call("c1"), call("c2")]),
    say("tool", "", [result("c1", "A")]),
    say("tool", "", [result("c2", "no such file", is_error=True)]),
    say("assistant", "There is A. "),
]


def test_openai_gets_chat_messages() -> None:
    """System in place, calls with their arguments as text, results by id."""
    assert to_shape(TALK, "openai") == {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Read a and b."},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path": "a"}'},
                    },
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path": "a"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "A"},
            {"role": "tool", "tool_call_id": "c2", "content": "no such file"},
            {"role": "assistant", "content": "There is A. "},
        ]
    }


def test_anthropic_gets_blocks() -> None:
    """System apart, results of one call message together, no space at the very end."""
    assert to_shape(TALK, "anthropic") == {
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read a and b."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "A"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": "no such file",
                        "is_error": True,
                    },
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "There is A."}]},
        ],
    }


def test_gemini_gets_contents() -> None:
    """Roles user and model; a response carries the name of its call."""
    assert to_shape(TALK, "gemini") == {
        "system_instruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Read a and b."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look."},
                    {"function_call": {"name": "read", "args": {"path": "a"}}},
                    {"function_call": {"name": "read", "args": {"path": "a"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"function_response": {"name": "read", "response": {"result": "A"}}},
                    {"function_response": {"name": "read", "response": {"error": "no such file"}}},
                ],
            },
            {"role": "model", "parts": [{"text": "There is A. "}]},
        ],
    }


def test_a_window_has_its_shape(db: MemDB) -> None:
    """What is stored comes back as it was said."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "Hello.")
    chat.append("assistant", parts=[call("c1")])
    chat.append("tool", parts=[result("c1")])

    shape = Host(chat).window().to("anthropic")

    assert [block["type"] for one in shape["messages"] for block in one["content"]] == [
        "text",
        "tool_use",
        "tool_result",
    ]


@pytest.mark.parametrize("shape", ["", "OpenAI", "cohere", None, ["openai"]], ids=str)
def test_an_unknown_shape_is_refused(shape: Any) -> None:
    """The error names the five."""
    window = memdb.ContextWindow((), 0, None)

    with pytest.raises(
        memdb.InvalidInput, match="openai, openai-responses, anthropic, gemini, langchain"
    ):
        window.to(shape)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("openai", {"messages": []}),
        ("openai-responses", {"input": []}),
        ("anthropic", {"messages": []}),
        ("gemini", {"contents": []}),
        ("langchain", {"messages": []}),
    ],
    ids=SHAPES,
)
def test_no_messages_give_no_messages(shape: str, expected: dict[str, Any]) -> None:
    """And no system part."""
    assert to_shape([], shape) == expected


def openai(*messages: Message) -> list[dict[str, Any]]:
    """Return the messages for OpenAI."""
    return list(to_shape(messages, "openai")["messages"])


def anthropic(*messages: Message) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return roles and blocks for Anthropic."""
    return [(one["role"], one["content"]) for one in to_shape(messages, "anthropic")["messages"]]


def gemini(*messages: Message) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return roles and parts for Gemini."""
    return [(one["role"], one["parts"]) for one in to_shape(messages, "gemini")["contents"]]


def text(said: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": said}


def test_system_messages_are_gathered_or_stay() -> None:
    """Anthropic and Gemini get them first, in order; OpenAI where they were."""
    messages = [say("user", "u"), say("system", "one"), say("user", "v"), say("system", "two")]

    assert to_shape(messages, "anthropic")["system"] == [text("one"), text("two")]
    assert to_shape(messages, "gemini")["system_instruction"] == {
        "parts": [{"text": "one"}, {"text": "two"}]
    }
    assert anthropic(*messages) == [("user", [text("u"), text("v")])]
    assert [one["role"] for one in openai(*messages)] == ["user", "system", "user", "system"]


def test_messages_of_one_role_become_one() -> None:
    """With a block each; OpenAI keeps them apart."""
    messages = [say("user", "a"), say("user", "b"), say("assistant", "c"), say("assistant", "d")]

    assert anthropic(*messages) == [
        ("user", [text("a"), text("b")]),
        ("assistant", [text("c"), text("d")]),
    ]
    assert gemini(*messages) == [
        ("user", [{"text": "a"}, {"text": "b"}]),
        ("model", [{"text": "c"}, {"text": "d"}]),
    ]
    assert len(openai(*messages)) == 4


def test_the_user_begins() -> None:
    """A short message of the user is put before an assistant's."""
    assert anthropic(say("system", "s"), say("assistant", "a"))[0] == ("user", [text(OPENER)])
    assert gemini(say("assistant", "a"))[0] == ("user", [{"text": OPENER}])
    assert openai(say("assistant", "a")) == [{"role": "assistant", "content": "a"}]


def test_a_result_without_its_call_gets_one() -> None:
    """What a tool says is never the user's, and no API refuses it."""
    orphan = say("tool", "", [result("gone", "42")])

    asked, told = openai(orphan)
    assert asked["tool_calls"][0]["function"] == {"name": UNKNOWN_TOOL, "arguments": "{}"}
    assert told == {"role": "tool", "tool_call_id": "gone", "content": "42"}
    assert anthropic(orphan) == [
        ("user", [text(OPENER)]),
        ("assistant", [{"type": "tool_use", "id": "gone", "name": UNKNOWN_TOOL, "input": {}}]),
        ("user", [{"type": "tool_result", "tool_use_id": "gone", "content": "42"}]),
    ]
    assert gemini(say("user", "u"), say("tool", "42")) == [
        ("user", [{"text": "u"}]),
        ("model", [{"function_call": {"name": UNKNOWN_TOOL, "args": {}}}]),
        ("user", [{"function_response": {"name": UNKNOWN_TOOL, "response": {"result": "42"}}}]),
    ]


def test_results_of_one_message_without_calls_stand_together() -> None:
    """Parallel calls are the rule: a reader of the last message gets every result."""
    told = anthropic(say("tool", "", [result("c1"), result("c2"), result("c3")]))

    assert [block["tool_use_id"] for block in told[-1][1]] == ["c1", "c2", "c3"]
    assert [role for role, _ in told] == ["user", "assistant", "user"]


def test_a_call_without_result_is_text_if_more_follows() -> None:
    """In the words that search and counts have; beside an answered one it has no result."""
    asked = say("assistant", "", [call("c1"), call("c2", "go")])

    alone = openai(asked, say("user", "stop"))
    beside = openai(asked, say("tool", "", [result("c1")]), say("user", "stop"))

    assert alone[0] == {"role": "assistant", "content": 'read({"path": "a"})\ngo({"path": "a"})'}
    assert [one["id"] for one in beside[0]["tool_calls"]] == ["c1", "c2"]
    assert [one["content"] for one in beside] == [None, "ok", "[no result]", "stop"]


def test_a_pending_call_stays_a_call() -> None:
    """At the end, without results: the host adds them. With one, the others are errors."""
    asked = say("assistant", "", [call("c1"), call("c2")])

    assert len(openai(asked)[0]["tool_calls"]) == 2
    assert len(openai(asked, say("tool", "", [result("c2")]))[0]["tool_calls"]) == 2
    assert anthropic(asked, say("tool", "", [result("c2")]))[-1] == (
        "user",
        [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": "[no result]",
                "is_error": True,
            },
            {"type": "tool_result", "tool_use_id": "c2", "content": "ok"},
        ],
    )


@pytest.mark.parametrize("answers", [[], [say("tool", "", [result("c1")])]], ids=["open", "done"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_stays_one_beside_later_words(shape: str, answers: list[Message]) -> None:
    """Words of the assistant before the result do not close it; chat APIs get them first."""
    told = to_shape([say("assistant", "", [call("c1")]), say("assistant", "yes"), *answers], shape)

    (messages,) = (value for key, value in told.items() if key != "system")
    made = json.dumps(messages)
    assert "yes" in made
    assert "read({" not in made
    if shape in ("openai", "langchain"):
        assert made.index("yes") < made.index("tool_calls")
        assert len(messages) == 2 + len(answers)


@pytest.mark.parametrize("call_id", [None, "", 7], ids=str)
def test_a_call_without_id_is_text(call_id: Any) -> None:
    """Nothing could answer it."""
    told = openai(say("assistant", "", [call(call_id)]), say("tool", "", [result(call_id)]))

    assert [one["role"] for one in told] == ["assistant", "assistant", "tool"]
    assert told[0]["content"] == 'read({"path": "a"})'


def test_results_stand_behind_their_call() -> None:
    """In the order of the calls, what others said in between after them."""
    told = openai(
        say("assistant", "", [call("c1"), call("c2")]),
        say("user", "Quick!"),
        say("tool", "", [result("c2", "two")]),
        say("tool", "", [result("c1", "one")]),
        say("tool", "", [result("c1", "more")]),
    )

    assert [one["content"] for one in told[1:]] == ["one\nmore", "two", "Quick!"]


def test_an_id_used_again_is_another() -> None:
    """The last use keeps it, for the host may still answer it."""
    again = [say("assistant", "", [call("c1")]), say("tool", "", [result("c1")])]

    ids = [one["tool_calls"][0]["id"] for one in openai(*again, *again) if "tool_calls" in one]
    answered = [one["tool_call_id"] for one in openai(*again, *again) if one["role"] == "tool"]

    assert ids == answered == ["call_0", "c1"]


@pytest.mark.parametrize("call_id", ["a.b", "x" * 41, "é"], ids=["dot", "long", "accent"])
def test_ids_that_an_api_refuses_are_replaced(call_id: str) -> None:
    """In the call and its result."""
    told = openai(say("assistant", "", [call(call_id)]), say("tool", "", [result(call_id)]))

    assert told[0]["tool_calls"][0]["id"] == told[1]["tool_call_id"] == "call_0"


@pytest.mark.parametrize(
    ("ids", "expected"),
    [(["a.b", "call_0"], ["call_1", "call_0"]), (["call_0", "a.b"], ["call_0", "call_1"])],
    ids=str,
)
def test_a_new_id_is_never_one_in_use(ids: list[str], expected: list[str]) -> None:
    """Neither before nor after it."""
    told = openai(say("assistant", "", [call(one) for one in ids]))

    assert [one["id"] for one in told[0]["tool_calls"]] == expected


def test_function_names_keep_to_what_the_apis_take() -> None:
    """Dots only for Gemini; 64 characters; the text of a call keeps its name."""
    asked = say("assistant", "", [call("c1", "fs.read file" + "x" * 99)])

    assert openai(asked)[0]["tool_calls"][0]["function"]["name"] == "fs_read_file" + "x" * 52
    assert gemini(asked)[1][1][0]["function_call"]["name"] == "fs.read_file" + "x" * 52
    assert openai(asked, say("user", "u"))[0]["content"].startswith("fs.read file")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param('{"a": [1]}', {"a": [1]}, id="object"),
        pytest.param("", {}, id="empty"),
        pytest.param(" ", {}, id="blank"),
        pytest.param(None, {}, id="absent"),
        pytest.param({"a": 1}, {"a": 1}, id="not text"),
        pytest.param("{", {"_raw": "{"}, id="broken"),
        pytest.param("[1]", {"_raw": "[1]"}, id="a list"),
        pytest.param('{"a": NaN}', {"_raw": '{"a": NaN}'}, id="not a number"),
        pytest.param('{"a": 1e999}', {"_raw": '{"a": 1e999}'}, id="infinite"),
        pytest.param('{"a": "\\ud800"}', {"_raw": '{"a": "\\ud800"}'}, id="lone surrogate"),
        pytest.param("[" * 99_999, {"_raw": "[" * 99_999}, id="deep"),
    ],
)
def test_arguments_become_an_object(arguments: Any, expected: dict[str, Any]) -> None:
    """What is none is kept as text under a name of its own."""
    asked = say("assistant", "", [call("c1", arguments=arguments)])

    assert anthropic(asked)[1][1][0]["input"] == expected
    assert gemini(asked)[1][1][0]["function_call"]["args"] == expected


@pytest.mark.parametrize("arguments", ["", " ", None], ids=str)
def test_openai_gets_an_empty_object_for_no_arguments(arguments: Any) -> None:
    """Some servers parse them."""
    asked = openai(say("assistant", "", [call("c1", arguments=arguments)]))

    assert asked[0]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("content", "said", "expected"),
    [
        pytest.param("A", "", "A", id="text"),
        pytest.param({"a": "é"}, "", '{"a": "é"}', id="object"),
        pytest.param("", "", EMPTY_RESULT, id="empty"),
        pytest.param(" \n", "", EMPTY_RESULT, id="blank"),
        pytest.param(None, "forty-two", "forty-two", id="told in the text"),
    ],
)
def test_a_result_is_text_and_never_empty(content: Any, said: str, expected: str) -> None:
    """Objects as JSON; the message's text if the part has none."""
    asked, answered = say("assistant", "", [call("c1")]), say("tool", said, [result("c1", content)])

    assert openai(asked, answered)[1]["content"] == expected
    assert anthropic(asked, answered)[2][1][0]["content"] == expected


def test_the_text_of_two_results_is_neither_s() -> None:
    """It cannot be told which of them it is."""
    told = openai(
        say("assistant", "", [call("c1"), call("c2")]),
        say("tool", "both", [result("c1", ""), result("c2", "")]),
    )

    assert [one["content"] for one in told[1:]] == [EMPTY_RESULT, EMPTY_RESULT]


def test_the_last_of_several_results_says_whether_it_is_an_error() -> None:
    """A second try may succeed."""
    asked = say("assistant", "", [call("c1")])
    failed, done = say("tool", "", [result("c1", is_error=True)]), say("tool", "", [result("c1")])

    assert "is_error" not in anthropic(asked, failed, done)[2][1][0]
    assert anthropic(asked, done, failed)[2][1][0]["is_error"] is True


@pytest.mark.parametrize("shape", SHAPES)
def test_blank_texts_are_left_out(shape: str) -> None:
    """Messages that say nothing else too."""
    messages = [
        say("user", " "),
        say("system", "\n"),
        say("user", "u"),
        say("assistant", "", [text(""), call("c1")]),
        say("tool", "", [result("c1")]),
        say("tool", " "),
        say("assistant", "", [text(" ")]),
    ]

    assert to_shape(messages, shape) == to_shape(
        [say("user", "u"), say("assistant", "", [call("c1")]), say("tool", "", [result("c1")])],
        shape,
    )


def test_anthropic_gets_no_space_at_the_end_of_the_last_assistant_text() -> None:
    """But everywhere else what was said stays."""
    messages = [
        say("user", "u "),
        say("assistant", "a \n"),
        say("user", "v "),
        say("assistant", "b \n"),
    ]

    assert anthropic(*messages) == [
        ("user", [text("u ")]),
        ("assistant", [text("a \n")]),
        ("user", [text("v ")]),
        ("assistant", [text("b")]),
    ]
    assert anthropic(*messages[:3])[-1] == ("user", [text("v ")])


def test_images_are_passed_on() -> None:
    """By data or by link, each API in its own words."""
    seen = say("user", "Look!", [PNG, LINK])

    assert openai(seen)[0]["content"] == [
        text("Look!"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    assert anthropic(seen)[0][1][1:] == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"},
        },
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]
    assert gemini(seen)[0][1][1:] == [
        {"inline_data": {"data": "iVBORw0K", "mime_type": "image/png"}},
        {"file_data": {"file_uri": "https://example.org/a.png"}},
    ]


def test_a_data_link_is_data() -> None:
    """Anthropic takes no such links."""
    seen = say("user", "", [{"type": "image", "url": "data:image/gif;base64,R0lG"}])

    assert anthropic(seen)[0][1][0]["source"] == {
        "type": "base64",
        "media_type": "image/gif",
        "data": "R0lG",
    }


def test_data_wins_over_a_link() -> None:
    """Told once."""
    seen = say("user", "", [{**PNG, "url": "data:image/gif;base64,R0lG"}])

    assert anthropic(seen) == anthropic(say("user", "", [PNG]))


@each(
    "part",
    [
        {"type": "image"},
        {"type": "image", "base64": "AAAA"},
        {"type": "image", "base64": "AAAA", "media_type": "image/tiff"},
        {"type": "image", "url": "data:nothing"},
        {"type": "image", "url": 7},
        {"type": "audio", "base64": "AAAA", "media_type": "audio/ogg"},
        {"type": "hologram", "title": "A tea cup"},
        "words",
        None,
    ],
)
@each("shape", ["openai", "anthropic"])
def test_what_an_api_does_not_know_is_text(part: Any, shape: str) -> None:
    """`[kind]` and its words, behind the message's text."""
    said = json.dumps(to_shape([say("user", "Listen!", [part])], shape))

    assert "Listen!" in said
    assert part_text(part) in said
    assert "AAAA" not in said


def test_gemini_takes_other_media() -> None:
    """Sound, and files by their place."""
    sound = {"type": "audio", "base64": "AAAA", "media_type": "audio/wav"}
    file = {"type": "file", "uri": "gs://b/a.pdf", "mime_type": "application/pdf"}

    assert gemini(say("user", "", [sound, file])) == [
        (
            "user",
            [
                {"inline_data": {"data": "AAAA", "mime_type": "audio/wav"}},
                {"file_data": {"file_uri": "gs://b/a.pdf", "mime_type": "application/pdf"}},
            ],
        )
    ]


def test_gemini_gets_the_signature_of_a_thought_back() -> None:
    """Its newer models ask for it beside the call."""
    asked = say("assistant", "", [{**call("c1"), "thought_signature": "sig"}])

    assert gemini(asked)[1][1][0]["thought_signature"] == "sig"


def test_images_of_assistants_go_to_gemini_only() -> None:
    """The others get a label."""
    drawn = say("assistant", "Here.", [PNG])

    assert openai(drawn) == [{"role": "assistant", "content": "Here.\n[image]"}]
    assert anthropic(drawn)[1] == ("assistant", [text("Here."), text("[image]")])
    assert len(gemini(drawn)[1][1]) == 2


def test_what_a_tool_shows_is_shown_by_the_user() -> None:
    """OpenAI takes no images from tools; the words stay the tool's."""
    told = openai(
        say("assistant", "", [call("c1")]),
        say("tool", "", [text("See:"), PNG, result("c1", "done")]),
    )

    assert [one["role"] for one in told] == ["assistant", "tool", "user"]
    assert told[1]["content"] == "done\nSee:"
    assert [part["type"] for part in told[2]["content"]] == ["image_url"]


def test_a_text_beside_parts_is_told_once() -> None:
    """Before a call, unless a text part says it."""
    beside = say("assistant", "I look.", [call("c1")])
    inside = say("assistant", "I look.", [text("I look."), call("c1")])

    assert openai(beside) == openai(inside)
    assert openai(beside)[0]["content"] == "I look."


TEXTS = st.sampled_from(["", " ", "yes", "no \n"])
CALL_IDS = st.sampled_from(["a", "b", "c.d", "", None])
PARTS = st.one_of(
    TEXTS.map(text),
    st.builds(call, CALL_IDS, st.sampled_from(["f", "g.h", ""]), st.sampled_from(["{}", "", "{"])),
    st.builds(result, CALL_IDS, TEXTS),
    st.sampled_from([PNG, LINK, {"type": "hologram"}, None]),
)
MESSAGES = st.lists(
    st.builds(
        say,
        st.sampled_from(["system", "user", "assistant", "assistant", "tool", "tool"]),
        TEXTS,
        st.none() | st.lists(PARTS, max_size=4),
    ),
    max_size=10,
)


@pytest.mark.parametrize("shape", SHAPES)
@given(messages=MESSAGES)
@example([say("assistant", "", [call("a", arguments="{}")]), say("assistant", "yes")])
@example([say("assistant", "", [call("a")]), say("tool", "", [PNG])])
def test_every_api_accepts_every_conversation(shape: str, messages: list[Message]) -> None:
    """Whatever is missing, doubled or empty; and it is plain JSON."""
    made = to_shape(messages, shape)

    CHECKS[shape](made)
    assert json.loads(json.dumps(made, allow_nan=False)) == made


LISTS = {"openai-responses": "input", "gemini": "contents"}


@pytest.mark.parametrize("shape", SHAPES)
@given(messages=MESSAGES)
@example([say("assistant", "yes", seq=1), say("assistant", "no", seq=2)])
def test_what_a_provider_was_given_can_be_read_and_given_again(
    shape: str, messages: list[Message]
) -> None:
    """Equal to the same provider; as it takes it and with every word to each other one."""
    sent = to_shape(messages, shape)[LISTS.get(shape, "messages")]
    read = read_messages(sent) if sent else []
    back = [say(one.role, one.text or "", one.parts, seq=i) for i, one in enumerate(read, 1)]

    assert all(message.text.strip() for message in back)
    for other in SHAPES:
        made = to_shape(back, other)
        CHECKS[other](made)
        assert json.dumps(made).count("yes") >= json.dumps(sent).count("yes")
    assert to_shape(back, shape)[LISTS.get(shape, "messages")] == sent


def test_calls_of_gemini_need_no_ids() -> None:
    """One function called twice, a dot in its name: each message goes back as it came."""
    again: list[dict[str, Any]] = [
        {
            "role": "model",
            "parts": [{"function_call": {"name": "g.h", "args": {}}}, {"text": "I look."}],
        },
        {
            "role": "user",
            "parts": [{"function_response": {"name": "g.h", "response": {"output": 1}}}],
        },
    ]
    sent = [{"role": "user", "parts": [{"text": "Go."}]}, *again, *again]

    back = [say(one.role, one.text or "", one.parts) for one in read_messages(sent)]

    assert to_shape(back, "gemini")["contents"] == sent


@pytest.mark.parametrize("shape", SHAPES)
@given(messages=MESSAGES)
def test_no_text_is_lost(shape: str, messages: list[Message]) -> None:
    """What was said without parts is in the shape, a space at the very end apart."""
    said = [one.text.rstrip() for one in messages if not one.parts and one.text.strip()]

    made = json.dumps(to_shape(messages, shape))

    assert sum(made.count(one) for one in ("yes", "no")) >= len(said)


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ("openai", {"messages": [{"role": "user", "content": " "}]}),
        ("openai", {"messages": [{"role": "tool", "tool_call_id": "a", "content": "x"}]}),
        ("anthropic", {"messages": [{"role": "assistant", "content": [text("x")]}]}),
        ("anthropic", {"messages": [{"role": "user", "content": [text("")]}]}),
        ("anthropic", {"messages": [{"role": "user", "content": []}]}),
        ("gemini", {"contents": [{"role": "model", "parts": [{"text": "x"}]}]}),
    ],
    ids=str,
)
def test_the_checks_refuse_what_the_apis_refuse(shape: str, made: dict[str, Any]) -> None:
    """Otherwise they would prove nothing."""
    with pytest.raises(AssertionError):
        CHECKS[shape](made)


def test_a_part_of_a_conversation_has_no_reasoning_for_responses() -> None:
    """The API refuses an item whose reasoning is missing."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    done = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    items = [
        say("assistant", "x", [{"type": "original", "provider": "openai-responses", "whole": one}])
        for one in (thought, done)
    ]
    later = [one.replace(seq=one.seq + 7) for one in items]

    assert to_shape(items, "openai-responses") == {"input": [thought, done]}
    assert to_shape(later, "openai-responses") == {"input": []}


def test_reasoning_is_left_out_where_its_answer_is_torn(db: MemDB) -> None:
    """Behind a message of the user everything goes back to the Responses API as it came."""

    def answer(number: int) -> list[dict[str, Any]]:
        said = {"type": "output_text", "text": f"No. {number}", "annotations": []}
        return [
            {"type": "reasoning", "id": f"rs_{number}", "summary": []},
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [said]},
        ]

    chat = db.scope("ann").session("s")
    asked = {"role": "user", "content": "And then?"}
    chat.extend([asked, *answer(1), asked, *answer(2)])
    made = Host(chat).window(last=4).to("openai-responses")["input"]

    assert made == [{"role": "assistant", "content": "No. 1"}, asked, *answer(2)]


@given(text=st.text(), role=st.sampled_from(["user", "assistant", "system"]))
def test_a_text_alone_is_the_item_of_its_only_part(text: str, role: str) -> None:
    """What takes the short way gives what the long way gives."""
    alone = memdb.NewMessage(role, text)
    part = alone.replace(parts=[{"type": "text", "text": text}])

    assert items_of(alone) == items_of(part)


SEARCHED = {"type": "search", "query": "fjords", "sources": []}
SHELL = {"type": "exec", "command": ["ls"], "env": {}}
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": SEARCHED},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["fjords"]},
    {"type": "mcp_call", "id": "mcp_1", "name": "tide", "arguments": "{}", "server_label": "sea"},
    {"type": "local_shell_call", "id": "sh_1", "call_id": "s1", "status": "completed",
     "action": SHELL},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "tide", "arguments": "{}"},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "run", "input": "x"},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Low at four.", "annotations": []}]},
]  # fmt: skip
OUTPUTS = [
    {"type": "local_shell_call_output", "id": "s1", "call_id": "s1", "output": "a.txt"},
    {"type": "function_call_output", "call_id": "c1", "output": "low"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
]


@pytest.mark.parametrize("way", ["asked for", "torn"])
@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["type"])
def test_responses_gets_no_ids_that_it_may_not_know(
    db: MemDB, item: dict[str, Any], way: str
) -> None:
    """Each kind of item, if the host asks for it and behind what is left out."""
    pytest.importorskip("openai")
    output = [one for one in OUTPUTS if one.get("call_id") == item.get("call_id", "-")]
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "content": "Go"}, ITEMS[-1], item, *output])
    last = {"last": 1 + len(output)} if way == "torn" else {}
    made = Host(chat).window(**last).to("openai-responses", provider_ids=way == "torn")

    validators()["openai-responses"](made)
    CHECKS["openai-responses"](made)
    assert not any({"id", "encrypted_content"} & {*one} for one in made["input"])
    told = json.dumps(made)
    assert all(f'"{word}"' in told for word in [one["output"] for one in output])
    assert "rs_1" not in told
