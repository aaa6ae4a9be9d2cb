"""What a line of a coding agent's transcript says; the modules of the formats give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.models.messages import NewMessage


class Line(Record):
    """
    What a line of a transcript says.

    Attributes:
        kind: What the program calls the line, to count what is left out.
        messages: What was said, in the roles of those who said it; [] for a line without.
        session: The id of the session, where the line tells it.
        parent: The id of the session whose agent started this one.
        folder: The working directory.
        title: The rank and text of a title, a higher rank being stronger; (-1, "") for none.
    """

    kind: str
    messages: list[NewMessage]
    session: str | None = None
    parent: str | None = None
    folder: str | None = None
    title: tuple[int, str] = (-1, "")
