"""
No text makes a pure function of memdb.text, memdb.facts or memdb.formats take quadratic time.

Regular expressions do not count their steps, so a timeout is the guard: with
20,000 characters a quadratic pattern needs minutes, a linear one milliseconds.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pytest
from cases import each

import memdb.facts
import memdb.formats
import memdb.text
from memdb.adapters import json_forms
from memdb.errors import Corrupt, InvalidInput, TooLarge
from memdb.extraction.candidates import is_echo, without_injected
from memdb.facts import keeping, markers, pairs, wording
from memdb.facts.dates import asked_days, days_about, find_times
from memdb.facts.extractive import ExtractiveSummarizer
from memdb.facts.sentences import head_and_tail, tidy, weighted_terms, without_series
from memdb.formats import (
    claude_code,
    documents,
    originals,
    provider_messages,
    provider_parts,
    source,
    transcripts,
)
from memdb.formats import shapes as formats
from memdb.models.messages import Message, NewMessage
from memdb.models.settings import DEFAULTS
from memdb.models.summaries import SourceItem
from memdb.search import parse
from memdb.text import (
    differences,
    parts,
    redaction,
    sanitize,
    secrets,
    terms,
    trust,
    validate,
    values,
)
from memdb.text.derived import content_hash, date_spans
from memdb.text.resources import compiled
from memdb.text.times import iso_ms, when_ms
from memdb.text.tokens import EstimateCounter, counter_by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# (What opens something, what is repeated behind it.)
USUAL = [
    *(
        ("", part)
        for part in (
            "x",
            "1",
            " ",
            "(",
            "_",
            "!?&",
            "a. ",
            "a_",
            "\\",
            "京",
            "가",
            "e\u0301",
            "\u0301",
        )
    ),
    *(("", part) for part in ("I ", "is ", "it's ", "may 1 ", "<recalled>")),
    *(("?", "sig"), ("", "<user_query>")),
]
RARE = [
    *(("", part) for part in ("X1", "\n", "[", "{", "<", '"', "'", "-", ".", "\u3002", "\u200b")),
    *(
        ("", part)
        for part in ("a.b ", "a@", "a:", "a/b ", "1:", "1,", "A, B ", "x y: ", "# ", "> ")
    ),
    *(
        ("", part)
        for part in (
            "가.",
            "what ",
            "ก",
            "\u05b0",
            "приветworld",
            "لا",
            "👍",
            "\U0001f3fd",
            "\ud800",
        )
    ),
    *(("", part) for part in ("I'm ", "my dog ", "would ", "not it's ", "no longer ", "and I ")),
    *(("", part) for part in ("in 2021 ", "two weeks ago ", "the day before ", "used to be now ")),
    ("", "<user_query></user_query>"),
    *(("", part) for part in ("https://a:b@", "password=", "-----BEGIN ", "eyJ.", "sk-", "```\n")),
    *(
        (start, part)
        for start in ("https://", "eyJ", "I love ", "my ")
        for part in ("x", "a.", "and ")
    ),
]


def message(text: str) -> Message:
    """Return a message as the store gives it."""
    return Message(1, "user", "Ann", text, None, 0, "estimate", None, 0, None, "s", 1, "")


def lines(text: str) -> list[dict[str, Any]]:
    """Return lines of transcripts that say *text*, of each format that is read."""
    said = {"role": "user", "content": text}
    call = {"id": text, "name": text, "args": {text: text}, "result": text}
    return [
        {"type": "user", "uuid": "u", "sessionId": "s", "message": said, "timestamp": text},
        {"type": "system", "content": text, "cwd": text},
        {"type": "response_item", "payload": {"type": "message", **said}},
        {"type": "compacted", "payload": {"message": text}},
        {"type": text, text: text},
        {"role": "user", "message": said},
        {"id": text, "type": "gemini", "content": text, "toolCalls": [call],
         "thoughts": [{"subject": text, "description": text}]},
    ]  # fmt: skip


def opened(text: str) -> source.Source:
    """Return a file that says *text*."""
    return source.Source(contextlib.ExitStack(), io.BytesIO(text.encode()), "a.json")


ANN = frozenset({"ann"})
SUMMARIZER = ExtractiveSummarizer(EstimateCounter().count_many)
# How those are called that take more than a text, or something else.
CALLS: dict[str, Callable[[str], object]] = {
    "values.text_in": lambda text: values.text_in(text.encode()),
    "transcripts.parse_object": lambda text: transcripts.parse_object(text.encode()),
    "transcripts.document_lines": lambda text: transcripts.document_lines(
        json.dumps({"messages": [text]}).encode()
    ),
    "transcripts.read_head": lambda text: transcripts.read_head(
        [json.dumps({"sessionId": text, "type": text}).encode()], PurePath("a/b.jsonl")
    ),
    "transcripts.with_ids": lambda text: transcripts.with_ids(
        [NewMessage("user", text)], 0, text.encode()
    ),
    "shapes.to_shape": lambda text: [
        formats.to_shape([message(text)], shape)
        for shape in ("openai", "openai-responses", "anthropic", "gemini", "langchain")
    ],
    "provider_messages.read_messages": lambda text: provider_messages.read_messages(
        [
            {"role": "user", "content": text},
            {"role": "user", "content": [{"type": "text", "text": text}]},
            {"role": "user", "content": [{"type": text[:50], text[:50]: text}]},
        ]
    ),
    "provider_messages.keep_whole": lambda text: provider_messages.keep_whole(
        NewMessage("user", text), "other", text
    ),
    "provider_messages.read_bedrock": lambda text: provider_messages.read_bedrock(
        {"role": "user", "content": [{"text": text}]}
    ),
    "provider_messages.plain_value": lambda text: provider_messages.plain_value(
        {text: [text], "parts": [{"text": text}]}, "message"
    ),
    "documents.one_line": documents.one_line,
    "documents.plain": documents.plain,
    "source.parse_line": lambda text: source.parse_line(1, text.encode()),
    "source.first_value": lambda text: source.first_value(opened(text)),
    "source.read_object": lambda text: source.read_object(opened(text)),
    "elements of a source": lambda text: list(opened(f"[{text}").elements()),
    "shapes.langchain_of": lambda text: formats.langchain_of(message(text)),
    "claude_code.read_entry": lambda text: [
        claude_code.read_entry(line, whole=whole) for line in lines(text) for whole in (True, False)
    ],
    "claude_code.is_echo": lambda text: claude_code.is_echo({"operation": text, "reason": text}),
    "claude_code.program_role": lambda text: [
        claude_code.program_role(text),
        claude_code.program_role(f"<{text}"),
        claude_code.program_role(f"x:{text}\n<a-message>"),
    ],
    "claude_code.title_of": lambda text: claude_code.title_of(
        [{"type": "summary", "summary": text}, {"customTitle": text}]
    ),
    "claude_code.entries_of": lambda text: claude_code.entries_of([message(text)] * 2, "s"),
    "transcripts.read_codex": lambda text: [transcripts.read_codex(line) for line in lines(text)],
    "transcripts.read_cursor": lambda text: [transcripts.read_cursor(line) for line in lines(text)],
    "transcripts.read_gemini_cli": lambda text: [
        transcripts.read_gemini_cli(line) for line in lines(text)
    ],
    "transcripts.format_of": lambda text: [transcripts.format_of(line) for line in lines(text)],
    "transcripts.spoken": lambda text: transcripts.spoken(
        [transcripts.read_cursor({"role": "user", "content": text})] * 2
    ),
    "transcripts.repeats": lambda text: transcripts.repeats(
        transcripts.Line("", [NewMessage("user", text)], is_echo=True), text * 2
    ),
    "transcripts.session_of": lambda text: transcripts.session_of(
        transcripts.Head("", "s", "a", "i"), transcripts.Line("", [], session=text)
    ),
    "transcripts.read_claude_code": lambda text: [
        transcripts.read_claude_code(line) for line in lines(text)
    ],
    "times.iso_ms": iso_ms,
    "differences.compare_lines": lambda text: differences.compare_lines(
        [f"{one}\n" for one in text], [f"{one}\n" for one in f"x{text[1:]}y"], (1, 2)
    ),
    "originals.parts_with_text": lambda text: originals.parts_with_text(
        [{"type": "thinking", "text": text}], text
    ),
    "validate.content_value": lambda text: validate.content_value(f"{text}\0", "text"),
    "validate.fit_value": lambda text: validate.fit_value([f"{text}\0"]),
    "parts.extra_tokens": lambda text: parts.extra_tokens(
        [{"type": "other", "data": text}], DEFAULTS
    ),
    "parts.without_media": lambda text: parts.without_media([{"type": "image", "name": text}]),
    "provider_parts.measured": lambda text: provider_parts.measured(
        {"type": "file", "base64": text, "media_type": "application/pdf"}
    ),
    "parts.content_text": lambda text: parts.content_text([{"type": "text", "text": text}]),
    "json_forms.json_of": lambda text: json_forms.json_of({"a": text}, "a"),
    "json_forms.pack_value": lambda text: json_forms.pack_value({"a": text}, "a"),
    "json_forms.unpack_value": lambda text: json_forms.unpack_value({"$json": text}),
    "parts.json_text": lambda text: parts.json_text({"a": text}),
    "parts.text_of": lambda text: parts.text_of([{"type": "text", "text": text}]),
    "parts.words_in": lambda text: parts.words_in({"a": text}),
    "sanitize.clipped": lambda text: sanitize.clipped(text, 1_000),
    "values.parse_path": lambda text: values.parse_path(text, "index"),
    "wording.recognise": wording.recognise,
    "secrets.find": lambda text: secrets.find_secrets(text, entropy=True),
    "redaction.redact": lambda text: redaction.redact(text, ["a secret", text[:20]]),
    "secrets.shown": lambda text: [
        secrets.shown(text, one) for one in secrets.find_secrets(text)[:9]
    ],
    "derived.date_spans": lambda text: date_spans(text, 0),
    "derived.content_hash": lambda text: content_hash({"text": text}, ["text"]),
    "terms.content_words": lambda text: terms.content_words([text]),
    "terms.phrase_terms": lambda text: terms.phrase_terms([(text, text)]),
    "terms.word_terms": lambda text: terms.word_terms([text]),
    "terms.begun_terms": lambda text: terms.begun_terms(terms.word_terms([text]), text),
    "trust.trust_of_message": lambda text: trust.trust_of_message("user", text),
    "times.when_ms": lambda text: when_ms(text, "since", 0),
    "tokens.counter_by_name": lambda text: counter_by_name("cl100k_base").count(text),
    "validate.check_path": lambda text: validate.check_path(text, "path", is_database=True),
    "validate.choice_value": lambda text: validate.choice_value(text, "field", ("a",)),
    "validate.is_deep": lambda text: validate.is_deep([text], text),
    "validate.json_value": lambda text: validate.json_value({"a": text}, "field"),
    "validate.name_value": lambda text: validate.name_value(text, "field"),
    "validate.said_value": lambda text: validate.said_value(text, None),
    "validate.text_value": lambda text: validate.text_value(text, "field"),
    "keeping.without_blocks": lambda text: keeping.without_blocks(
        text, r"<(\w+)>", lambda one: f"</{one[1]}>"
    ),
    "keeping.learn": lambda text: keeping.learn(text, role="user"),
    "keeping.features": lambda text: list(keeping.features(text, "user")),
    "keeping.head_shares": lambda text: keeping.head_shares("says", text, "user"),
    "keeping.stated": lambda text: keeping.stated(text, "user"),
    "keeping.without_opening": lambda text: keeping.without_opening(text, "user"),
    "pairs.relate": lambda text: pairs.relate(
        pairs.Statement(text, 0), pairs.Statement(f"{text} x", 0), cosine=None, rarity=len
    ),
    "pairs.same_stem": lambda text: pairs.same_stem(text, f"{text}x"),
    "markers.says_the_same": lambda text: markers.says_the_same(text, text),
    "pairs.features": lambda text: pairs.features(
        pairs.Statement(text, 0), pairs.Statement(f"{text} x", 0), cosine=None, rarity=len
    ),
    "pairs.is_retraction": pairs.is_retraction,
    "pairs.grams_of": lambda text: pairs.grams_of(text, text[1:]),
    "dates.days_about": lambda text: days_about(text, 0),
    "dates.find_times": lambda text: find_times(text, 0),
    "dates.asked_days": lambda text: asked_days(text, 1_000),
    "sentences.head_and_tail": lambda text: head_and_tail(text, 1_000),
    "sentences.tidy": lambda text: tidy(text, ANN),
    "sentences.weighted_terms": lambda text: weighted_terms(text, ANN),
    "sentences.without_series": lambda text: without_series(text.splitlines()),
    # What stands upon these functions.
    "a long line of Cursor": lambda text: transcripts.read_cursor(
        {"role": "user", "content": text * 20}
    ),
    "EstimateCounter": EstimateCounter().count,
    "ExtractiveSummarizer": lambda text: SUMMARIZER.summarize(
        [SourceItem(1, 1, "Ann", "user", text)], depth=0, limit_tokens=100
    ),
    "parse_query": lambda text: parse.parse_query(text, ["ann", "annie"], 1_000).vector_text(["a"]),
    "joined words of a query": compiled(parse._JOINED).findall,
    "without_injected": without_injected,
    "is_echo": lambda text: is_echo(text, [text]),
}
# Those that take numbers, parts or names of tables, or look at a few characters.
WITHOUT_TEXT = {
    "documents.write_document",  # a file
    "projects.app_of",  # a path of the system
    *(
        "keeping.softmax",
        "keeping.worth",
        "pairs.decided",
        "pairs.log_odds",
        "pairs.rarity_of",
    ),  # numbers
    *("secret_rules.is_drawn_word", "trust.least_trust", "trust.trust_of_merged"),
    "trust.is_less_trusted",
    *("trust.trust_of_text", "trust.trust_of_summary"),  # by `injection_marks`
    *(
        "values.parse_fields",
        "values.texts_of",
        "values.values_at",
        "values.words_of",
        *("validate.check_query_values", "validate.expected_value"),
        *("validate.page_of", "validate.row_after", "validate.span_value"),
    ),
    *("calendar.span_of", "calendar.month_of", "calendar.period_of", "calendar.season_of"),
    *("calendar.holiday_of", "calendar.write_spans", "calendar.days_of", "calendar.nearest"),
    # Called by `shapes.to_shape` and `provider_messages.read_messages`.
    *("shapes.without_links", "shapes.items_of", "shapes.gemini_parts_of"),
    *("turns.turns_of", "turns.steps_of", "turns.turn_of", "turns.own_form", "turns.results_of"),
    *("turns.joined", "turns.answered_calls", "turns.one_call_turn", "turns.turn_alone"),
    *("turns.call_of", "provider_messages.read_parts"),
    *("provider_messages.provider_of", "provider_messages.read_item"),
    *("provider_messages.gemini_parts", "provider_parts.read_part", "provider_parts.other"),
    *(
        "provider_parts.is_providers",
        "provider_parts.media",
        "parts.payload_of",
        "parts.whole_text",
        "parts.media_of",
        "parts.bytes_of",
        "parts.media_tokens",
        "parts.kind_of",
    ),
    *("parts.part_text", "parts.warnings_of", "parts.text_value", "parts.without_original"),
    *("originals.original_part", "originals.original_of", "validate.flag_value"),
    *("validate.iso_day", "validate.iso_time", "validate.list_value"),
    *("validate.int_value", "validate.json_list", "validate.json_object", "validate.moment_ms"),
    *("validate.optional_name", "validate.refuse_special", "validate.share_value"),
    "provider_parts.is_bedrocks",
    # By `documents.plain`, `documents.quoted` and `documents.guarded`.
    *("documents.write_csv", "documents.write_html", "documents.write_markdown"),
    *("documents.time_of", "documents.title_of", "documents.parts_of", "documents.label_of"),
    "documents.words_of",
    # By `secrets.find_secrets`, or of bytes and names of actions.
    *("screening.screened", "screening.screened_value", "values.is_binary"),
    # An error, or `source.parse_line` with another answer.
    *("source.too_long", "source.json_problem", "source.value_or_error"),
    # Files of the package, and JSON and tokens of memdb's own.
    *("resources.read_bytes", "resources.read_text", "resources.read_json"),
    *("validate.time_value", "validate.between", "validate.one_of"),
    *("validate.content_value", "validate.fit_value"),
    "validate.path_value",
    "validate.find_side_file_owner",
    "validate.refuse_output",
}


# Modules whose functions take files, trees of files or a database.
OF_FILES = {"detect", "importing", "sqlite_files"}


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public functions of the packages that take no file, by module and name."""
    for package in (memdb.text, memdb.facts, memdb.formats):
        for found in pkgutil.iter_modules(package.__path__):
            if found.name in OF_FILES:
                continue
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for name, value in vars(module).items():
                is_own = inspect.isfunction(value) and value.__module__ == module.__name__
                if is_own and not name.startswith("_"):
                    yield f"{found.name}.{name}", value


FUNCTIONS = dict(public_functions())
TAKES_TEXT = {**{n: f for n, f in FUNCTIONS.items() if n not in WITHOUT_TEXT}, **CALLS}


def test_each_public_function_is_called_with_texts() -> None:
    """A new one is called as it is, or CALLS or WITHOUT_TEXT must name it."""
    plain = [name for name in FUNCTIONS if name not in {*CALLS, *WITHOUT_TEXT}]

    for name in plain:
        first, *rest = inspect.signature(FUNCTIONS[name]).parameters.values()
        assert first.annotation in {"str", "str | None"}, name
        assert all(one.default is not one.empty for one in rest), name
    assert set(FUNCTIONS) >= WITHOUT_TEXT


def run(call: Callable[[str], object], pieces: list[tuple[str, str]], size: int) -> None:
    """Call it with each piece repeated up to *size* characters; it may refuse them."""
    for opening, part in pieces:
        with contextlib.suppress(InvalidInput, TooLarge, Corrupt, UnicodeEncodeError):
            call(opening + part * (size // len(part)))


@each("name", TAKES_TEXT)
def test_no_text_takes_quadratic_time(name: str) -> None:
    """Long words, spaces, brackets, stops, digits, other scripts, and openings never closed."""
    run(TAKES_TEXT[name], USUAL, 10_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TAKES_TEXT)
def test_no_long_text_takes_quadratic_time(name: str) -> None:
    """More of them, with 200,000 characters: a small quadratic part shows too."""
    run(TAKES_TEXT[name], USUAL + RARE, 200_000)
