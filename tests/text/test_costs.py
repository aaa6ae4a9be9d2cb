"""What has no text costs what a provider takes for it, and a budget keeps to that."""

import json
from base64 import b64encode
from typing import Any

import pytest
from cases import each

import memdb
from memdb import Session
from memdb.adapters.host import Host
from memdb.formats.provider_messages import read_messages
from memdb.formats.provider_parts import measured
from memdb.models.settings import DEFAULTS
from memdb.text.parts import extra_tokens, media_of
from memdb.text.tokens import counter_by_name

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def png(width: int, height: int, size: int = 64) -> str:
    """Return the beginning of a PNG file, and zeros up to *size* bytes, as base64."""
    head = PNG + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b64encode(head.ljust(size, b"\0")).decode()


def jpeg(width: int, height: int) -> str:
    """Return a JPEG file of two segments, the second with its size."""
    comment = b"\xff\xfe\x00\x06abcd"
    frame = b"\xff\xc0\x00\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return b64encode(b"\xff\xd8" + comment + frame + b"\0" * 20).decode()


GIF = b64encode(b"GIF89a" + (640).to_bytes(2, "little") + (480).to_bytes(2, "little")).decode()
WEBP = b64encode(
    b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
).decode()
WAVE = b64encode(b"RIFF\0\0\0\0WAVEfmt " + b"\0" * 12 + (8_000).to_bytes(4, "little")).decode()
PDF = b64encode(b"%PDF /Type /Pages /Type /Page /Type/Page\n").decode()


@each(
    "part,counter,tokens",
    [
        # 1,280 x 800: 1,365 by Anthropic, 1,105 by OpenAI, 1,548 by Gemini.
        ({"type": "image", "base64": png(1280, 800)}, "cl100k_base", 1_548),
        ({"type": "image", "base64": png(1280, 800)}, "claude", 1_366),
        ({"type": "image", "base64": png(1024, 1024)}, "o200k_base", 765),
        ({"type": "image", "base64": png(1280, 800)}, "gemini", 1_548),
        ({"type": "image", "base64": jpeg(1280, 800)}, "claude", 1_366),
        ({"type": "image", "base64": GIF}, "claude", 410),
        ({"type": "image", "base64": WEBP}, "claude", 410),
        ({"type": "image", "base64": png(9000, 9000)}, "claude", 1_600),
        ({"type": "image", "base64": "no image"}, "cl100k_base", 1_600),
        ({"type": "image", "url": "https://example.org/a.png"}, "cl100k_base", 1_600),
        ({"type": "image", "url": f"data:image/png;base64,{png(32, 32)}"}, "gemini", 258),
        ({"type": "image", "name": "label alone"}, "cl100k_base", 0),
        ({"type": "audio", "base64": WAVE + "A" * 80_000}, "cl100k_base", 8 * 32),
        ({"type": "audio", "base64": "A" * 32_000}, "cl100k_base", 6 * 32),
        ({"type": "file", "base64": PDF, "media_type": "application/pdf"}, "cl100k_base", 4_000),
        ({"type": "file", "base64": "A" * 400_000, "media_type": "application/pdf"}, "", 12_000),
        ({"type": "file", "base64": "A" * 4_000, "media_type": "text/plain"}, "", 750),
        ({"type": "other", "kind": "redacted_thinking", "data": {"data": "A" * 4_000}}, "", 1_000),
        ({"type": "other", "kind": "note", "data": {"text": "some words " * 40}}, "", 0),
        ({"type": "other", "kind": "note", "data": {"text": "漢字" * 200}}, "", 0),
        (
            {"type": "tool_result", "content": [{"type": "image", "base64": png(1280, 800)}]},
            "claude",
            1_366,
        ),
        ({"type": "text", "text": "A" * 4_000}, "", 0),
    ],
)
def test_a_part_costs_by_its_kind(part: dict[str, Any], counter: str, tokens: int) -> None:
    """By the size of an image, the pages of a document, seconds of sound, else by bytes."""
    assert extra_tokens([measured(part)], DEFAULTS, counter) == tokens


def test_the_numbers_can_be_set() -> None:
    """An image, a page and a second of sound cost what the settings say."""
    settings = DEFAULTS.replace(image_tokens=85, page_tokens=258, sound_tokens=10)
    parts = [
        {"type": "image", "base64": png(1280, 800)},
        {"type": "file", "base64": PDF, "media_type": "application/pdf"},
        {"type": "audio", "base64": WAVE + "A" * 80_000},
    ]

    assert extra_tokens([*map(measured, parts)], settings) == 85 + 2 * 258 + 8 * 10


def test_what_an_original_holds_besides_is_counted_once() -> None:
    """The signature of a thought is sent and counts; its image stands in a part."""
    said = read_messages(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c" * 4_000},
                {"type": "redacted_thinking", "data": "d" * 2_000},
                {"type": "image", "source": {"type": "base64", "data": png(300, 300, 9_000)}},
            ],
        }
    )[0]

    image = 258
    assert (
        extra_tokens([*map(measured, said.parts or ())], DEFAULTS, "gemini")
        == image + (4_000 + 2_000) // 4
    )


IMAGE = png(1280, 800, 300_000)
LINK = f"data:image/png;base64,{IMAGE}"
NATIVE = {"type": "image", "base64": IMAGE, "media_type": "image/png"}


@each(
    "message",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": LINK}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": LINK}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": LINK}]},
        {"role": "user", "content": "see", "images": [IMAGE]},
        {"role": "user", "content": [{"type": "image", "image": IMAGE, "mediaType": "image/png"}]},
        {"role": "user", "content": [{"type": "image", "data": IMAGE, "mimeType": "image/png"}]},
        {"role": "user", "content": [{"type": "image", "base64": IMAGE, "mime_type": "image/png"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": IMAGE},
                }
            ],
        },
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": IMAGE}}]},
        {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": IMAGE}}]},
        {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": IMAGE}}}]},
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "user-prompt",
                    "content": [{"kind": "binary", "data": IMAGE, "media_type": "image/png"}],
                }
            ],
        },
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": LINK},
        },
        {"type": "function_call_output", "call_id": "c", "output": LINK},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_image", "image_url": LINK}],
        },
        {"type": "image_generation_call", "id": "i", "result": IMAGE},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
                {"type": "image", "data": IMAGE, "mimeType": "image/png"}]}],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "f",
                        "response": {},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": IMAGE}}],
                    }
                }
            ],
        },
        {"type": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": LINK}]},
    ],
)  # fmt: skip
def test_an_image_is_one_in_every_spelling(message: dict[str, Any]) -> None:
    """Its bytes and media type are in a part of their own, and no text holds them."""
    said = read_messages(message)[0]
    chat = memdb.open(":memory:", embedder=None).scope("u").session("x")
    stored = chat.append(message)

    (part,) = media_of(said.parts)
    assert (part["type"], part.get("media_type", part.get("mime_type"))) == ("image", "image/png")
    assert (part["base64"] == IMAGE, len(stored.text) < 100) == (True, True)
    assert chat.context(4_000).tokens >= 1_548


def images_in(request: Any) -> int:
    """Return how many images a request holds, whatever its form."""
    if isinstance(request, dict):
        return sum(map(images_in, request.values()))
    if isinstance(request, list):
        return sum(map(images_in, request))
    return isinstance(request, str) and request.endswith(IMAGE)


SHAPES = ("openai", "openai-responses", "anthropic", "gemini", "langchain")


@pytest.fixture(scope="module")
def screenshots() -> Session:
    """Return a conversation of an agent that looks at 40 screens."""
    db = memdb.open(":memory:", embedder=None, settings={"summary_max_depth": 0})
    chat = db.scope("u").session("x")
    chat.append("user", "Book the hotel in the browser.")
    for number in range(40):
        call = {"type": "tool_use", "id": f"t{number}", "name": "screen", "input": {}}
        shown = {"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": IMAGE}}  # fmt: skip
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": [shown]}
        chat.append([{"role": "assistant", "content": [call]},
                          {"role": "user", "content": [result]}])  # fmt: skip
    return chat


@each("budget,most", [(100, 0), (1_800, 1), (8_000, 2), (100_000, 10)])
def test_a_budget_holds_for_images(screenshots: Session, budget: int, most: int) -> None:
    """The newest images are kept, as many as half of the budget takes; the others are labels."""
    windows = [
        screenshots.context(budget),
        Host(screenshots).window(budget_tokens=budget),
    ]
    for window in windows[: 2 if budget >= 1_800 else 1]:
        kept = {shape: images_in(window.to(shape)) for shape in SHAPES}
        words = len(json.dumps(window.to("openai"))) - most * len(LINK)

        assert window.tokens <= budget
        assert kept == dict.fromkeys(SHAPES, most)
        assert most * 1_548 <= window.tokens
        assert words < 60_000


def test_a_limit_of_images_and_one_of_bytes(screenshots: Session) -> None:
    """Either may be met first; the newest message keeps what it shows whatever its bytes."""
    found = []
    for limits in ({"context_images": 3}, {"context_images": 0}, {"context_media_bytes": 900_000},
                   {"context_media_bytes": 0}):  # fmt: skip
        settings = {"summary_max_depth": 0, **limits}
        chat = memdb.open(":memory:", embedder=None, settings=settings).scope("u").session("x")
        chat.extend([{"role": "user", "parts": [NATIVE]} for _ in range(8)])
        found.append(images_in(chat.context(100_000).to("openai")))

    assert found == [3, 0, 2, 1]


def test_a_window_by_number_is_as_it_was_stored(screenshots: Session) -> None:
    """Without a budget nothing is left out."""
    window = Host(screenshots).window(last=6)

    assert images_in(window.to("anthropic")) == 3


def test_a_message_is_counted_with_what_it_shows(screenshots: Session) -> None:
    """`count_tokens` counts a message as a context does."""
    db = memdb.open(":memory:", embedder=None)
    words, shown = db.file.count_tokens(
        [{"role": "user", "text": "[image]"}, {"role": "user", "parts": [NATIVE]}]
    )

    assert shown == words + 1_548


@each(
    "model,name",
    [
        ("o200k_harmony", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("gpt-6", "o200k_base"),
        ("gpt-5.2-codex", "o200k_base"),
        ("o5-mini", "o200k_base"),
        ("openai/gpt-4", "cl100k_base"),
        ("claude-opus-4-7", "claude"),
        ("us.anthropic.claude-sonnet-4-5-v1:0", "claude"),
        ("models/gemini-3-pro", "gemini"),
    ],
)
def test_a_model_has_a_counter_by_its_name(model: str, name: str) -> None:
    """Claude's and Gemini's are estimates under names of their own."""
    counter = counter_by_name(model)
    (exact,) = counter_by_name("cl100k_base").count_many(["Plain words, and 1,234 numbers."])

    assert counter.name == name
    assert counter.count("Plain words, and 1,234 numbers.") >= exact - 1
