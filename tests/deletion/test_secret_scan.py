"""The scan looks at everything that is screened when it is written, and at nothing in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB, Scope

KEY = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7"
PASSWORD = {"password": ["hunter2Secret99"]}


def summary(scope: Scope) -> None:
    """Let a summary hold the key, as an import may bring it."""
    chat = scope.session("s")
    chat.extend([{"role": "user", "text": f"Day {n}."} for n in range(10)])
    chat.summaries.compact()
    tree = chat.summaries.tree().summaries
    chat.summaries.rewrite(tree[0].id, f"The key is {KEY}.")


# Where it is written, and what the scan calls the place.
PLACES: dict[str, tuple[Callable[[Scope], Any], str]] = {
    "session name": (lambda a: a.session(KEY).append("user", "x"), "name"),
    "title": (lambda a: a.session("s").create(title=KEY), "session s title"),
    "session metadata": (
        lambda a: a.session("s").create(metadata={"a": [KEY]}),
        "session s metadata",
    ),
    "metadata key": (
        lambda a: a.session("s").create(metadata={KEY: 1}),
        "session s metadata",
    ),
    "text": (lambda a: a.session("s").append("user", KEY), "message s#1"),
    "author": (lambda a: a.session("s").append("user", "x", author=KEY), "message s#1 author"),
    "external id": (
        lambda a: a.session("s").append("user", "x", external_id=KEY),
        "message s#1 external_id",
    ),
    "parts": (
        lambda a: a.session("s").append("user", parts=[{"type": "zork", KEY: 1}]),
        "message s#1",
    ),
    "message metadata": (
        lambda a: a.session("s").append("user", "x", metadata=PASSWORD),
        "message s#1 metadata",
    ),
    "summary": (summary, "summary s#1-10"),
    "state": (lambda a: a.state.update(token=KEY), "state token"),
    "state key": (lambda a: a.state.update({KEY: 1}), "state"),
    "state of a session": (lambda a: a.session("s").state.update(k={"a": KEY}), "state of session"),
    "entry": (lambda a: a.remember(f"The key is {KEY}"), "entry "),
    "key": (lambda a: a.remember("x y", key=KEY), "key"),
    "keywords": (lambda a: a.remember("x y", keywords=[KEY]), "keywords"),
    "writer": (lambda a: a.remember("x y", writer=KEY), "writer"),
    "entry metadata": (lambda a: a.remember("x y", metadata={"k": KEY}), "metadata"),
    "version": (
        lambda a: a.entries.update(a.remember(f"The key is {KEY}").entry.id, text="It is gone."),
        "version 1",
    ),
    "artifact": (lambda a: a.artifacts.save("a.md", KEY), "artifact user:a.md@1"),
    "artifact name": (lambda a: a.artifacts.save(f"{KEY}.md", "x"), "name"),
    "mime": (lambda a: a.artifacts.save("a.md", "x", mime=f"text/{KEY}"), "mime"),
    "artifact metadata": (
        lambda a: a.artifacts.save("a.md", "x", metadata={"k": KEY}),
        "artifact user:a.md@1 metadata",
    ),
    "latin-1": (
        lambda a: a.artifacts.save("a.txt", f"é {KEY}".encode("latin-1")),
        "artifact user:a.txt@1",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_each_place_is_found(db: MemDB, name: str) -> None:
    """By the place's name, once or more, and never in full."""
    write, where = PLACES[name]
    db.settings.update(keep=False, secrets_in_entries="allow", secrets_in_messages="allow")
    write(db.scope("ann"))
    db.scope("bob").session("s").append("user", KEY.replace("aB3", "bob"))
    found = list(db.scope("ann").find_secrets())

    assert any(where in one.where for one in found), found
    assert not any(KEY[8:] in json.dumps(one.to_dict()) for one in found if KEY not in one.where)


@pytest.mark.parametrize("name", [name for name in PLACES if name not in {"version", "summary"}])
def test_each_place_is_screened(
    open_db: Callable[..., MemDB],
    tmp_path: Path,
    name: str,
    stored_bytes: Callable[[str], bytes],
) -> None:
    """Refused or redacted when written: no byte that is stored ever holds it."""
    write, _ = PLACES[name]
    for action in ("refuse", "redact"):
        path = tmp_path / f"{action}.db"
        db = open_db(
            str(path), settings={"secrets_in_entries": action, "secrets_in_messages": action}
        )
        try:
            write(db.scope("ann"))
        except memdb.SecretFound:
            pass
        else:
            assert action == "redact"
        db.close()
        data = stored_bytes(str(path))
        assert KEY.encode() not in data
        assert b"hunter2Secret99" not in data


def test_other_bytes_come_back_as_they_were(open_db: Callable[..., MemDB]) -> None:
    """Redacting takes the key away and nothing else; binary data is not looked at."""
    db = open_db(":memory:", settings={"secrets_in_messages": "redact"})
    saved = db.scope("ann").artifacts
    samples = {
        "latin.txt": f"é {KEY} ü".encode("latin-1"),
        "wide.txt": f"é {KEY} ü".encode("utf-16"),
        "cut.txt": f"{KEY} ".encode() + b"\xff\xfe\xc3",
        "none.txt": bytes(range(1, 256)),
        "none.bin": b"\0" + KEY.encode(),
    }
    for name, data in samples.items():
        saved.save(name, data)
    loaded = {name: saved.load(name).data for name in samples}

    assert loaded["latin.txt"] == "é [REDACTED openai_key] ü".encode("latin-1")
    assert loaded["wide.txt"].decode("utf-16") == "é [REDACTED openai_key] ü"
    assert loaded["cut.txt"] == b"[REDACTED openai_key] \xff\xfe\xc3"
    assert (loaded["none.txt"], loaded["none.bin"]) == (samples["none.txt"], samples["none.bin"])


def test_keys_that_become_equal_stay_apart(open_db: Callable[..., MemDB]) -> None:
    """Two redacted keys of a dict keep their values."""
    db = open_db(":memory:", settings={"secrets_in_messages": "redact"})
    other = KEY.replace("aB3", "cD4")
    message = db.scope("ann").session("s").append("user", "x", metadata={KEY: 1, other: 2})

    assert message.metadata == {"[REDACTED openai_key]": 1, "[REDACTED openai_key]'": 2}
