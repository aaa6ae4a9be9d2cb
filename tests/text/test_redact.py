"""Redaction: nothing that may be a secret, and as much of the rest as possible."""

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from memdb.providers.openai import redact_url
from memdb.text.redaction import redact, url_secrets


@each(
    "text, expected",
    [
        ("key sk-abc123 is bad", "key *** is bad"),
        ("Incorrect: sk-proj-a_b-C9.", "Incorrect: ***"),
        ("masked sk-ab***yz here", "masked *** here"),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer ***"),
        ("'authorization': 'bearer xyz'", "'authorization': 'bearer ***'"),
        ("b'Bearer abc\\n'", "b'Bearer ***'"),
        ("Basic YW5uOnB3", "Basic ***"),
        ("GET http://h/v1?api_key=1&model=m", "GET http://h/v1?api_key=***&model=m"),
        ("at https://ann:p@ss@h:1/v1", "at https://***@h:1/v1"),
        ('{"api_key": "abc", "model": "m"}', '{"api_key": "***", "model": "m"}'),
        ("password=hunter2; retry", "password=***; retry"),
        ("hf_abcdefgh12 ghp_abcdefgh12 gsk_abcdefgh12", "*** *** ***"),
        ("AIzaSyA1234567890abcdefg", "***"),
        ("eyJhbGciOiJIUzI1.eyJzdWIi.abc", "***"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, expected: str) -> None:
    """The words around it stay."""
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no answer within 30 s",
        "max_tokens: 5, token count 7",
        "a basic misunderstanding",
        "task-force and risk-taking",
        "the key is missing",
        "http://localhost:11434/v1/models",
        "mail ann@example.org",
        "the context has 8192 tokens, you asked for 9000",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    """An error without secrets says what it said."""
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "secret", "expected"),
    [
        ("x plainwordsecret y", "plainwordsecret", "x *** y"),
        ("?q=a%2Fb%20c-secret", "a/b c-secret", "?q=***"),
        ("password a is no good at all", "a", "password *** is no good at all"),
        ("nothing", "", "nothing"),
        ("nothing", None, "nothing"),
        ("*** stays", "***", "*** stays"),
    ],
    ids=["plain", "quoted", "short", "empty", "none", "hidden already"],
)
def test_known_secrets_are_hidden(text: str, secret: str | None, expected: str) -> None:
    """Whatever they look like; a short one only where it stands alone."""
    assert redact(text, [secret]) == expected


def test_the_longest_secret_goes_first() -> None:
    """No rest of a secret stays because another is its beginning."""
    assert redact("secret-one-two", ["secret-one", "secret-one-two"]) == "***"


@given(st.text(), st.text("abc-/%_ ", min_size=8).filter(str.strip))
def test_redacting_twice_is_redacting_once(text: str, secret: str) -> None:
    """And no long secret is ever left."""
    once = redact(f"{text} {secret} {text}", [secret])

    assert redact(once, [secret]) == once
    assert secret not in once


@pytest.mark.parametrize(
    ("url", "shown", "secrets"),
    [
        ("http://h:1/v1", "http://h:1/v1", []),
        ("http://key@h/v1", "http://***@h/v1", ["key", "key"]),
        ("http://u:p@h/v1", "http://***@h/v1", ["u:p", "u", "p"]),
        ("http://h/v1?code=x&y", "http://h/v1?code=***&***", ["x", "y"]),
        ("http://h/v1?code=", "http://h/v1?code=***", ["code="]),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str, secrets: list[str]) -> None:
    """Host, path and the names of the query stay."""
    assert redact_url(url) == shown
    assert url_secrets(url) == secrets
