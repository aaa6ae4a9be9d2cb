"""
Secret policy: refuse, redact or allow a secret before it is stored or sent to a model.

The policy of the open file has an action per place: entries, extraction,
messages. Nothing here stores or repeats a secret.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, SecretFound
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from memdb.text.secrets import Detector, Secret

REFUSE, REDACT, ALLOW = ACTIONS = ("refuse", "redact", "allow")


class SecretPolicy(Record):
    """
    What to do with keys, tokens and passwords, by where they would go.

    Each is "refuse" (a `SecretFound` error, nothing is written), "redact"
    (`[REDACTED kind]` takes their place) or "allow".

    Attributes:
        entries: For `remember` and updates of entries.
        extraction: For messages sent to a model for extraction; "refuse" leaves
            out those that hold a secret.
        messages: For messages; a call of append can name its own action.
        entropy: Whether random-looking runs of characters count; see `secrets.find`.
        detector: Your own detector: returns a `Secret` for each span of a text.
    """

    entries: str = REFUSE
    extraction: str = REDACT
    messages: str = ALLOW
    entropy: bool = False
    detector: Callable[[str], Any] | None = None

    def find(self, text: str) -> list[Secret]:
        """Return the secrets in *text*, by the rules and by what the policy adds."""
        from memdb.text.secrets import find  # compiles patterns, which reading never needs

        detector: Detector | None = self.detector
        return find(text, entropy=self.entropy, detector=detector)


def policy_of(value: SecretPolicy | str | None) -> SecretPolicy:
    """
    Return the policy that *value* stands for, checked.

    Args:
        value: A policy; or an action for entries and extraction, while messages
            are allowed; None means the default policy.

    Raises:
        InvalidInput: it is none of them.
    """
    if value is None:
        return SecretPolicy()
    if isinstance(value, str):
        action = action_value(value, "secrets")
        return SecretPolicy(entries=action, extraction=action)
    if not isinstance(value, SecretPolicy):
        raise InvalidInput(
            f"secrets is {type(value).__name__}: give a SecretPolicy or one of {', '.join(ACTIONS)}"
        )
    for field in ("entries", "extraction", "messages"):
        action_value(getattr(value, field), f"secrets.{field}")
    if value.detector is not None and not callable(value.detector):
        raise InvalidInput("secrets.detector cannot be called: give a function of a text")
    return value


def action_value(value: object, field: str) -> str:
    """Return *value* if it is an action."""
    if not isinstance(value, str) or value not in ACTIONS:
        raise InvalidInput(f"{field} is {value!r}: use one of {', '.join(ACTIONS)}")
    return value


def screened(text: str, action: str, field: str, policy: SecretPolicy) -> str:
    """
    Return *text* unchanged or redacted, by *action*.

    Raises:
        SecretFound: *action* is "refuse", and *field* holds a secret.
    """
    if action == ALLOW or not text:
        return text
    found = policy.find(text)
    if not found:
        return text
    if action == REFUSE:
        raise SecretFound(field, [one.kind for one in found])
    from memdb.text.secrets import redacted

    return redacted(text, found)


def screened_value(value: Any, action: str, field: str, policy: SecretPolicy) -> Any:
    """
    Return a JSON value with each text in it screened; see `screened`.

    A text under a key (`{"password": "..."}`) is screened together with it.
    """
    if action == ALLOW or value is None:
        return value
    if isinstance(value, str):
        return screened(value, action, field, policy)
    if isinstance(value, dict):
        return {key: _named(key, item, action, field, policy) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [screened_value(item, action, field, policy) for item in value]
    return value


def _named(key: Any, item: Any, action: str, field: str, policy: SecretPolicy) -> Any:
    if not isinstance(item, str) or not isinstance(key, str):
        return screened_value(item, action, field, policy)
    before = f'{key}: "'
    whole = screened(f'{before}{item}"', action, field, policy)
    return (
        screened(item, action, field, policy)
        if whole[:-1] == before + item
        else whole[len(before) : -1]
    )
