"""
Migration steps as data, and what no step may do: lose rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memdb.engine.base import Tx


class StepFailed(Exception):
    """A migration would change something that it must not change; the text names it."""


class Step(Record):
    """
    One step from a format to the next.

    Attributes:
        before: SQL for the tables of the old format, such as renaming a column.
        after: Changes rows of the new tables, such as computing a field again.
        drops: Tables, views, indexes and columns ("messages.author") that are dropped on purpose.
        counts: Tables whose number of rows changes on purpose.
    """

    before: str = ""
    after: Callable[[Tx], object] | None = None
    drops: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()

    def refuse_other_counts(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """
        Compare the number of rows of each table before and after the step.

        Raises:
            StepFailed: a table has another number of rows than before, and the step does not
                declare that.
        """
        for table in sorted(before.keys() | after.keys()):
            was, is_now = before.get(table, 0), after.get(table, 0)
            if was != is_now and table not in (*self.counts, *self.drops):
                raise StepFailed(f"{table} has {is_now} rows instead of {was}")
