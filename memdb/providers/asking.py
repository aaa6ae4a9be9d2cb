"""What the adapters of language models share: checked messages, schemas as text, extras."""

from __future__ import annotations

import json
from contextlib import suppress

from memdb.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

ROLES = ("system", "user", "assistant")


def checked(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """
    Return *messages* with role and content only.

    Raises:
        InvalidInput: there are none, or one has another role or no text.
    """
    if not messages:
        raise InvalidInput("there are no messages: give at least one")
    found = []
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise InvalidInput(
                f"role of message {number} is {role!r}: use one of {', '.join(ROLES)}"
            )
        if not isinstance(content, str):
            raise InvalidInput(f"content of message {number} is no str: give a text")
        found.append({"role": role, "content": content})
    return found


def asking_for(schema: Mapping[str, Any]) -> str:
    """Return the instruction that takes the place of a schema where none can be given."""
    return (
        "Answer with JSON only, no prose and no code fence. It must keep to this JSON schema: "
        f"{json.dumps(schema, ensure_ascii=False)}"
    )


def without_schema(
    messages: list[dict[str, str]], schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return *messages* with *schema* as an instruction at the end of the system prompt."""
    asked = asking_for(schema)
    if messages[0]["role"] != "system":
        return [{"role": "system", "content": asked}, *messages]
    first = {"role": "system", "content": f"{messages[0]['content']}\n\n{asked}"}
    return [first, *messages[1:]]


def llm_secrets(model: Any, key: str | None) -> list[str | None]:
    """Return the keys that an error of a model of llm could repeat: *key* and llm's own."""
    secrets = [key]
    with suppress(Exception):  # there is none, which is no fault here
        secrets.append(model.get_key(key))
    return secrets


def missing(extra: str, error: ImportError) -> InvalidInput:
    """Return the error for an *extra* whose package cannot be imported."""
    return InvalidInput(
        f"the package {extra} cannot be imported ({error}): "
        f"run `pip install 'memdb-sqlite[{extra}]'`"
    )
