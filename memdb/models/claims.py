"""What an arbiter is asked and what it answers."""

from __future__ import annotations

from memdb.models.record import Record

ADD, UPDATE, DELETE, NOOP = "add", "update", "delete", "noop"
ACTIONS = (ADD, UPDATE, DELETE, NOOP)


class Claim(Record):
    """
    A statement, new or stored, as an arbiter sees it: no ids, nothing of others.

    Attributes:
        said_ms: When it was said.
        similarity: Of a stored one: its cosine with the new one; None where
            there are no vectors.
        before: What was said of a stored one's fact before it took that one's place.
        near: Whether that is so high in its space that only a contradiction
            tells the two apart.
    """

    text: str
    category: str
    key: str | None
    said_ms: int
    similarity: float | None = None
    near: bool = False
    before: tuple[str, ...] = ()


class Verdict(Record):
    """
    What a statement does to the claims that it was compared with.

    Attributes:
        action: "add": it stands beside them. "update": it says the same as the
            first of *targets*, which becomes *text* (None: the statement). "delete":
            it takes the place of the *targets*, which are no longer true.
            "noop": the first of *targets* says it already.
        targets: Places in the list that was given, from 0.
        reason: One line, for people.
        ends: Further places whose claims the statement says to be over.
    """

    action: str
    targets: tuple[int, ...] = ()
    text: str | None = None
    reason: str = ""
    ends: tuple[int, ...] = ()
