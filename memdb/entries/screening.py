"""
What a statement passes before it becomes an entry: secrets out, orders marked.

The policy of the file says whether a secret is refused or redacted. What reads
like an order to a model is kept as it was said, and not trusted.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.text.secret_policy import ALLOW, screened, screened_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.text.secret_policy import SecretPolicy

FLAGGED = "flagged"

# The fields of an entry that say something, besides its text.
FIELDS = ("keywords", "metadata")


class Screen:
    """Lets statements pass by a policy."""

    def __init__(self, policy: SecretPolicy) -> None:
        """Go by *policy*."""
        self._policy = policy

    def told(self, text: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """
        Return what `remember` is told as it may be stored, flagged where it orders a model.

        A host that gives *trust* itself has looked.

        Raises:
            SecretFound: a field holds a secret, and the policy refuses it.
        """
        said = self.changed({"text": text, **given})
        if said.get("trust") is None and is_order(said):
            said["trust"] = FLAGGED
        return said.pop("text"), said

    def changed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """
        Return the fields of an entry as they may be stored.

        Raises:
            SecretFound: one holds a secret, and the policy refuses it.
        """
        action = self._policy.entries
        if action == ALLOW:
            return dict(fields)
        done = dict(fields)
        if isinstance(done.get("text"), str):
            done["text"] = screened(done["text"], action, "text", self._policy)
        for field in FIELDS:
            value = done.get(field)
            if value:
                done[field] = screened_value(value, action, field, self._policy)
        if isinstance(done.get("key"), str):  # a key names a fact: it cannot be half of one
            screened(done["key"], "refuse", "key", self._policy)
        return done

    def merged(self, text: str | None) -> str | None:
        """Return what an arbiter wrote, None where it holds a secret: what was said is taken."""
        try:
            return None if text is None else screened(text, "refuse", "text", self._policy)
        except InvalidInput:
            return None


def is_order(fields: dict[str, Any]) -> bool:
    """Say whether text or keywords of an entry read like an order to a model."""
    from memdb.text.injection import injection_marks  # compiles patterns, which reading never needs

    keywords = fields.get("keywords")
    said = [fields.get("text"), *(keywords if isinstance(keywords, (list, tuple)) else ())]
    return any(injection_marks(one) for one in said if isinstance(one, str))
