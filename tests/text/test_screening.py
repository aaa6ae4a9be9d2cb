"""What screening does with a secret that it finds."""

from collections.abc import Callable
from typing import Any

import pytest

from memdb import InvalidInput, MemDB, SecretFound, Settings
from memdb.models.fields import MAX_FACT_CHARS, MAX_NAME_CHARS
from memdb.text.screening import SecretScreen, screened, screened_value
from memdb.text.secrets import Secret

KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SCREEN = SecretScreen()


def test_an_action_of_a_call_is_about_entries() -> None:
    """None leaves the screen as it is; a word that is no action is refused."""
    assert SCREEN.with_action(None) is SCREEN
    assert SCREEN.with_action("allow").settings == Settings(secrets_in_entries="allow")
    with pytest.raises(InvalidInput, match="secrets is 'burn': use one of refuse"):
        SCREEN.with_action("burn")


def test_a_long_text_of_a_row_is_searched_once() -> None:
    """A part that says the same as the text, and the key of a long text, cost nothing more."""
    text, searched = "so it goes " * 1_000, []

    def detect(text: str) -> list[Secret]:
        searched.append(len(text))
        return []

    screen = SecretScreen(Settings(secrets_in_messages="redact"), detect)
    parts = [{"type": "tool_result", "content": text, "id": "c1"}]
    fields = {"text": text, "parts": parts}

    assert screen.pass_fields("message", fields) == fields
    assert searched.count(len(text)) == 1
    assert sum(searched) < len(text) + 3_000
    named = {"password": f"hunter2{'x' * 90} {text}", "token": "aB3dE6gH9jK2" * 300}
    passed = screened_value(named, "redact", "metadata", screen)
    assert passed["token"] == "[REDACTED named_secret]"


def test_each_action_does_what_it_says() -> None:
    """Refusing names the kind and the field, never the secret."""
    text = f"use {KEY}"

    assert screened(text, "allow", "text", SCREEN) == text
    assert screened(text, "redact", "text", SCREEN) == "use [REDACTED github_token]"
    with pytest.raises(SecretFound) as caught:
        screened(text, "refuse", "text", SCREEN)
    assert (caught.value.field, caught.value.kinds) == ("text", ["github_token"])
    assert KEY not in str(caught.value)


def test_values_are_screened_with_their_names() -> None:
    """A password in a JSON object is one because of its key."""
    value = {"password": "hunter2", "n": [1, None, {"note": f"x {KEY}"}], "name": "Ann"}

    assert screened_value(value, "redact", "metadata", SCREEN) == {
        "password": "[REDACTED password]",
        "n": [1, None, {"note": "x [REDACTED github_token]"}],
        "name": "Ann",
    }
    assert screened_value(value, "allow", "metadata", SCREEN) is value
    assert screened_value(None, "redact", "metadata", SCREEN) is None
    with pytest.raises(SecretFound):
        screened_value(value, "refuse", "metadata", SCREEN)


def test_a_detector_and_entropy_find_more() -> None:
    """A detector of the host's, and drawn characters."""
    own = SecretScreen(detector=lambda text: [Secret("badge", 0, 2)] if text[:1] == "#" else [])
    by_entropy = SecretScreen(Settings(secrets_by_entropy=True))
    drawn = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF"

    assert screened("#1 badge", "redact", "text", own) == "[REDACTED badge] badge"
    assert screened(drawn, "redact", "text", SCREEN) == drawn
    assert "high_entropy" in screened(drawn, "redact", "text", by_entropy)


def test_names_of_scopes_and_settings_are_screened(open_db: Callable[..., MemDB]) -> None:
    """A new scope or a setting with a key is refused; an old one is read, scanned and forgotten."""
    db = open_db(":memory:")
    doors: dict[str, Callable[[], object]] = {
        "summary_prompt": lambda: db.settings.update(summary_prompt=f"Log in by {KEY}."),
        "categories": lambda: db.settings.update(
            categories=[{"name": "notes", "description": f"as {KEY}"}]
        ),
        "user": lambda: db.scope(KEY).session("s").append("user", "hi"),
        "app": lambda: db.scope("ann", app=KEY).remember("Ann likes tea."),
        "shared": lambda: db.shared(app=KEY).remember("All like tea."),
        "state of an app": lambda: db.shared(app=KEY).state.update(a=1),
        "state of a user": lambda: db.scope("ann", app=KEY).state.update(a=1),
        "state of a session": lambda: db.scope("ann").session(KEY).state.update(a=1),
    }
    with pytest.raises(SecretFound, match="user"):  # by default
        db.scope(KEY).session("s").append("user", "hi")
    db.settings.update(secrets_in_entries="allow")
    stored = db.scope(KEY)
    stored.session("s").append("user", "hi")
    places = [one.where for one in stored.find_secrets()]
    db.settings.update(secrets_in_messages="refuse", secrets_in_entries="refuse")

    passed = []
    for name, door in doors.items():
        if name == "user":
            continue
        try:
            door()
            passed.append(name)
        except SecretFound as error:
            passed += [name] if KEY in str(error) else []
    doors["user"]()  # it is there

    assert passed == []
    assert places == ["scope user"]
    assert [scope.user for scope in db.scopes()] == [KEY]


LONG = "x" * (MAX_FACT_CHARS + 1)
NAME = "n" * (MAX_NAME_CHARS + 1)


def test_a_text_that_is_too_long_is_not_searched(
    open_db: Callable[..., MemDB], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every door that screens looks at the length first."""
    policy = {"secrets_in_messages": "refuse"}
    db = open_db(":memory:", settings=policy, embedder=None)
    ann = db.scope("ann")
    chat = ann.session("s")
    chat.append("user", "hi")
    fact = ann.remember("Ann likes tea.").entry
    monkeypatch.setattr("memdb.text.validate.MAX_TEXT_BYTES", MAX_FACT_CHARS)
    monkeypatch.setattr("memdb.text.screening.MAX_TEXT_BYTES", MAX_FACT_CHARS)
    searched: list[int] = []
    find = SecretScreen.find

    def counted(screen: SecretScreen, text: str, **options: Any) -> list[Secret]:
        searched.append(len(text))
        return find(screen, text, **options)

    monkeypatch.setattr(SecretScreen, "find", counted)
    doors: list[Callable[[], object]] = [
        lambda: ann.remember(LONG),
        lambda: ann.remember("A fact.", key=NAME),
        lambda: ann.remember("A fact.", writer=NAME),
        lambda: ann.remember("A fact.", keywords=[LONG]),
        lambda: ann.remember("A fact.", metadata={"a": LONG}),
        lambda: ann.entries.update(fact.id, text=LONG),
        lambda: ann.entries.update(fact.id, metadata={"a": LONG}),
        lambda: chat.append("user", LONG),
        lambda: chat.append("user", "x", author=NAME),
        lambda: chat.append("user", "x", external_id=NAME),
        lambda: chat.append("user", "x", metadata={"a": LONG}),
        lambda: chat.append("user", parts=[{"type": "text", "text": LONG}]),
        lambda: chat.extend([{"role": "user", "text": LONG}]),
        lambda: chat.create(title=LONG),
        lambda: chat.update(title=LONG),
        lambda: chat.update(metadata={"a": LONG}),
        lambda: chat.fork(NAME),
        lambda: chat.branch(NAME),
        lambda: ann.session(NAME).append("user", "x"),
        lambda: db.scope(NAME),
        lambda: chat.state.update(a=LONG),
        lambda: chat.state.update({LONG: 1}),
        lambda: ann.items.put(("n",), NAME, "x"),
        lambda: ann.items.put((NAME,), "k", "x"),
        lambda: ann.items.put(("n",), "k", LONG),
        lambda: ann.items.put(("n",), "k", 1, metadata={"a": LONG}),
        lambda: chat.artifacts.save(NAME, "x"),
        lambda: chat.artifacts.save("a", LONG),
        lambda: chat.artifacts.save("a", "x", mime=NAME),
        lambda: chat.artifacts.save("a", "x", metadata={"a": LONG}),
        lambda: db.settings.update(summary_prompt=LONG),
    ]
    wrong = []
    for number, door in enumerate(doors):
        try:
            door()
            wrong.append(f"{number} is stored")
        except InvalidInput:
            wrong += [f"{number} searched {size}" for size in searched if size > MAX_NAME_CHARS]
        searched.clear()

    assert wrong == []
