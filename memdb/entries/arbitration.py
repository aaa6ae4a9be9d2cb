"""
Ask an arbiter for the relation of a statement to the entries that it resembles.

A host's arbiter or a model may retire an entry; memdb itself only adds links. The arbiter is
called outside a transaction, and its answer counts only if the entries that it saw did not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.entries.validation import fact_value
from memdb.errors import InvalidInput, PortError
from memdb.models.protocols import ACTIONS, ADD, NOOP, UPDATE, Claim, Verdict
from memdb.models.record import Record
from memdb.text.trust import is_less_trusted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.entries.validation import Statement
    from memdb.models.entries import Entry
    from memdb.models.protocols import Arbiter
    from memdb.records.link_maker import Near


class Resolution(Record):
    """A verdict with the entries that its places refer to."""

    verdict: Verdict
    neighbors: tuple[Near, ...]

    @property
    def targets(self) -> list[Entry]:
        """The entries that the verdict is about."""
        return [self.neighbors[place].entry for place in self.verdict.targets]

    def limited(self, statement: Statement) -> Resolution:
        """Return the verdict without what a statement may not do to entries of more trust."""
        verdict, trust = self.verdict, statement.trust
        allowed = tuple(
            place
            for place in verdict.targets
            if not is_less_trusted(trust, self.neighbors[place].entry.trust)
        )
        if verdict.action == NOOP or allowed == verdict.targets:
            return self
        if verdict.action == UPDATE and allowed[:1] != verdict.targets[:1]:
            return self.replace(verdict=verdict.replace(action=NOOP, text=None))
        if not allowed:
            reason = f"less trusted, so it stands beside: {verdict.reason}"
            return self.replace(verdict=Verdict(ADD, reason=reason))
        return self.replace(verdict=verdict.replace(targets=allowed))


def ask_arbiter(
    arbiter: Arbiter, statement: Statement, neighbors: Sequence[Near], now_ms: int
) -> Resolution | None:
    """Return the decision of *arbiter*; None if it failed or its answer is invalid."""
    claims = [claim_of(one.entry, one.cosine) for one in neighbors]
    said_ms = now_ms if statement.created_ms is None else statement.created_ms
    new = Claim(statement.text, statement.category, statement.key, said_ms)
    try:
        verdict = arbiter.decide(new, claims)
        verdict = checked_verdict(verdict, len(claims), arbiter.name)
    except PortError:
        return None
    return Resolution(verdict, tuple(neighbors))


def checked_verdict(verdict: object, count: int, name: str) -> Verdict:
    """
    Return a verdict that can be applied.

    Args:
        count: Number of claims shown to the arbiter *name*.

    Raises:
        PortError: *verdict* is not a `Verdict`, its action is unknown, or a field has another
            type. Also if its text cannot be stored, a place was not shown, or an action other than
            "add" has no place.
    """
    if not isinstance(verdict, Verdict) or verdict.action not in ACTIONS:
        raise PortError(name, "its answer is not a decision")
    if not isinstance(verdict.text, (str, type(None))) or not isinstance(verdict.reason, str):
        raise PortError(name, "its answer is not a decision: text or reason is not a str")
    if verdict.text is not None:
        try:
            verdict = verdict.replace(text=fact_value(verdict.text))
        except InvalidInput as error:
            raise PortError(name, str(error)) from error
    if not all(type(place) is int and 0 <= place < count for place in verdict.targets):
        raise PortError(name, "it names a statement that it was not shown")
    if verdict.action != ADD and not verdict.targets:
        raise PortError(name, f"it says {verdict.action!r} of no statement")
    return verdict


def claim_of(entry: Entry, cosine: float | None = None) -> Claim:
    """Return an entry as an arbiter sees it."""
    return Claim(entry.text, entry.category, entry.key, entry.updated_ms, cosine)
