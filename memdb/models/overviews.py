"""
Overviews: what a memory holds by day and category, and what two versions differ in.

Few programs load them: pages and commands that show a memory. Times are UTC milliseconds.
"""

from __future__ import annotations

from memdb.models.record import Record


class DayCount(Record):
    """
    What came into a scope within one bucket of days.

    Attributes:
        start_ms: When the bucket begins: midnight by the offset that was asked for.
        messages: Said then; each branch counts its own.
        sessions: Begun then.
        entries: Told then, those that hold no more among them.
    """

    start_ms: int
    messages: int
    sessions: int
    entries: int


class CategoryCount(Record):
    """Entries of a category by their state, as `Entry.status` says it, now."""

    category: str
    active: int
    superseded: int
    expired: int
    inactive: int
    future: int


class ScopeCounts(Record):
    """
    What a scope holds, by day and by category.

    Attributes:
        days: The buckets that hold something, oldest first; 600 at most.
        bucket_days: How many days a bucket has: 1, or more where 600 days are too few.
        categories: By name.
        is_complete: False if only the newest million of the messages were counted.
    """

    days: tuple[DayCount, ...]
    bucket_days: int
    categories: tuple[CategoryCount, ...]
    is_complete: bool


class SessionPlace(Record):
    """
    Where a session is.

    Attributes:
        branch: The branch of it; None means the session itself.
    """

    app: str
    user: str
    session: str
    branch: str | None


class Changes(Record):
    """
    What changed in a file since a mark, by any process.

    Attributes:
        mark: Give it as `since` for what changes from here on.
        sessions: Those that got messages, or are new.
        kinds: What else changed: "message" (edited, archived or removed), "session" (renamed
            or removed), "entry", "summary", "artifact", "item", "state", "settings",
            "scope" (copied from another database), or "other" for what holds no words, such as
            jobs and vectors.
        is_complete: False if more changed than is named here, or the mark is not known: read
            again whatever is kept.
    """

    mark: str
    sessions: tuple[SessionPlace, ...] = ()
    kinds: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return self.is_complete and not self.sessions and not self.kinds


class Hunk(Record):
    """
    Lines that differ, with some equal ones around them, as in `diff -u`.

    Attributes:
        old_start: Number of the first old line, from 1; with *old_count* 0, of the line before.
        new_start: Of the first new line, alike.
        lines: Each begins with " " (equal), "-" (old) or "+" (new).
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]


class TextDiff(Record):
    """
    What two versions of a text differ in.

    Attributes:
        old: The number of the older one, or of what was compared against.
        new: Of the other.
        hunks: () if they are equal.
        added: How many lines are only in the new one.
        removed: How many lines are only in the old one.
        is_exact: False if the texts repeat so much that a part was not compared: all its
            lines are given as removed and added.
    """

    old: int
    new: int
    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    is_exact: bool

    def lines(self) -> list[str]:
        """Return the lines that `diff -u` prints, without line ends; [] if they are equal."""
        if not self.hunks:
            return []
        found = [f"--- {self.old}", f"+++ {self.new}"]
        for hunk in self.hunks:
            old = _span(hunk.old_start, hunk.old_count)
            found.append(f"@@ -{old} +{_span(hunk.new_start, hunk.new_count)} @@")
            found += hunk.lines
        return found


def _span(start: int, count: int) -> str:
    """Return the lines of a hunk as its head names them."""
    return str(start) if count == 1 else f"{start},{count}"
