"""What a policy does with a find, and which policies there are."""

import pytest

from memdb import InvalidInput, SecretFound, SecretPolicy
from memdb.text.secret_policy import policy_of, screened, screened_value
from memdb.text.secrets import Secret

KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
POLICY = SecretPolicy()


def test_the_default_refuses_what_is_learned_and_keeps_what_is_said() -> None:
    """A fact with a secret is refused, a model sees it redacted, a message stays as it was."""
    assert policy_of(None) == SecretPolicy("refuse", "redact", "allow", entropy=False)


@pytest.mark.parametrize("action", ["refuse", "redact", "allow"])
def test_a_word_is_about_what_is_learned(action: str) -> None:
    """Messages are never changed by it."""
    assert policy_of(action) == SecretPolicy(action, action, "allow")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("forbid", "secrets is 'forbid': use one of refuse, redact, allow"),
        (7, "secrets is int: give a SecretPolicy or one"),
        (SecretPolicy(entries="no"), "secrets.entries is 'no'"),
        (SecretPolicy(messages=None), "secrets.messages is None"),  # type: ignore[arg-type]
        (SecretPolicy(detector="x"), "secrets.detector cannot be called"),  # type: ignore[arg-type]
    ],
    ids=["word", "type", "entries", "messages", "detector"],
)
def test_a_policy_that_is_none_is_refused(value: object, problem: str) -> None:
    """The field is named, and what it may be."""
    with pytest.raises(InvalidInput, match=problem):
        policy_of(value)  # type: ignore[arg-type]


def test_each_action_does_what_it_says() -> None:
    """Refusing names the kind and the field, never the secret."""
    text = f"use {KEY}"

    assert screened(text, "allow", "text", POLICY) == text
    assert screened(text, "redact", "text", POLICY) == "use [REDACTED github_token]"
    with pytest.raises(SecretFound) as caught:
        screened(text, "refuse", "text", POLICY)
    assert (caught.value.field, caught.value.kinds) == ("text", ["github_token"])
    assert KEY not in str(caught.value)


def test_values_are_screened_with_their_names() -> None:
    """A password in a JSON object is one because of its key."""
    value = {"password": "hunter2", "n": [1, None, {"note": f"x {KEY}"}], "name": "Ann"}

    assert screened_value(value, "redact", "metadata", POLICY) == {
        "password": "[REDACTED password]",
        "n": [1, None, {"note": "x [REDACTED github_token]"}],
        "name": "Ann",
    }
    assert screened_value(value, "allow", "metadata", POLICY) is value
    assert screened_value(None, "redact", "metadata", POLICY) is None
    with pytest.raises(SecretFound):
        screened_value(value, "refuse", "metadata", POLICY)


def test_the_policy_brings_its_own_finds() -> None:
    """A detector of the host's, and drawn characters."""
    own = SecretPolicy(detector=lambda text: [Secret("badge", 0, 2)] if text[:1] == "#" else [])
    drawn = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF"

    assert screened("#1 badge", "redact", "text", own) == "[REDACTED badge] badge"
    assert screened(drawn, "redact", "text", POLICY) == drawn
    assert "high_entropy" in screened(drawn, "redact", "text", SecretPolicy(entropy=True))
