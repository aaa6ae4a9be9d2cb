"""Whatever is sent, the answer is one of the API: never a 500, never a hang."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cases import each
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_verbs import changes_of, name_of
from web_site import TOKEN

from memdb.api.verbs import VERBS, Verb
from memdb.web.parameters import Parameter, parameters_of

if TYPE_CHECKING:
    from web_site import Site

HOSTILE = [
    *("", " ", "\x00", "\n", "..", "../..", "a/b", "%00", "'", '"', "\\", "\ud800", "\U0010ffff"),
    *("<script>", "-1", "0", "1", "2", "500", "501", "1e400", "nan", "true", "null", "[]", "{}"),
    *("9007199254740991", "-9007199254740991", "99999999999999999999", "1.5", "a" * 2000),
    *("trip", "ann", "plan.md", "key", "1-2", "user:x", "\u202e", "2026-05-01", "30d", "never"),
    '{"a": {"$gt": 1}}',
    '{"$gt": []}',
    "=1+1",
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
# What takes longer than a few milliseconds has a test of its own.
SLOW = {
    "GET check",
    "POST rebuild",
    "POST vacuum",
    "POST jobs",
    "POST forget",
    "POST extract",
    "POST session/forget",
}
FUZZED = [verb for verb in VERBS if name_of(verb) not in SLOW]


def written(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@st.composite
def requests(draw: st.DrawFn, verb: Verb, known: dict[str, Any]) -> tuple[str, bytes | None]:
    """Return query and body: the example of the row, in part replaced."""
    example = {**verb.example, **known}
    query: list[str] = []
    fields: dict[str, Any] = {}
    for one in parameters_of(verb):
        if draw(st.integers(0, 3)) or one.name not in example:
            if draw(st.booleans()) and one.name in example:
                continue
            if not draw(st.booleans()) and one.name not in example:
                continue
            if one.place == "query":
                query += [
                    f"{one.name}={written(draw(texts))}" for _ in range(draw(st.integers(0, 2)))
                ]
            else:
                fields[one.name] = draw(likely(one) | values)
        elif one.place == "query":
            given_ = example[one.name]
            listed = given_ if isinstance(given_, list) else [given_]
            query += [f"{one.name}={written(str(each))}" for each in listed]
        else:
            fields[one.name] = example[one.name]
    if not any(one.place == "body" for one in parameters_of(verb)) and draw(st.integers(0, 9)):
        return "&".join(query), None
    body = json.dumps(fields).encode("utf-8")
    return "&".join(query), draw(st.sampled_from([body, body, body, body[:-1], b"[]", b"\xff"]))


def likely(parameter: Parameter) -> st.SearchStrategy[Any]:
    """Return values of the type of a parameter."""
    kinds = {
        "integer": st.integers(-3, 600) | st.integers(),
        "number": st.floats(),
        "boolean": st.booleans(),
        "string": st.sampled_from(parameter.schema.get("enum", ["x"])) | texts,
        "array": st.lists(values, max_size=3),
        "object": st.dictionaries(texts, values, max_size=3),
    }
    schemas = parameter.schema.get("anyOf", [parameter.schema])
    return st.one_of([kinds.get(one.get("type", ""), values) for one in schemas])


@each("verb", FUZZED)
def test_no_request_is_a_bug_of_the_server(reading_site: Site, verb: Verb) -> None:
    """Refused with 4xx, or done; a 5xx would be a bug."""
    known: dict[str, Any] = {}
    with suppress(IndexError, ValueError):  # deleted by another of these tests
        known = changes_of(verb, reading_site.app.db)

    @settings(suppress_health_check=list(HealthCheck), deadline=None)
    @given(requests(verb, known))
    def send(request: tuple[str, bytes | None]) -> None:
        query, body = request
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        if verb.swaps:
            headers["If-Match"] = "*"
        path = f"/api/v1/{verb.noun}?{query}" if query else f"/api/v1/{verb.noun}"
        answer = reading_site.send(verb.method, path, body, headers)
        assert answer.status < 500, (answer, query, body)
        if answer.status >= 400:
            assert {"status", "code", "detail", "todo"} <= answer.json.keys()

    send()
