"""
The summaries of a session, as `session.summaries` gives them. Delegates; no rules here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api._container import Services
    from memdb.models.summaries import Compacted, Expansion, SummaryTree
    from memdb.records.scopes import Owner


class Summaries:
    """The tree of summaries that condenses a session; nothing that was said is lost by it."""

    def __init__(self, services: Services, owner: Owner, session: str) -> None:
        """Use `session.summaries` instead."""
        self._services = services
        self._owner = owner
        self._session = session

    def tree(self) -> SummaryTree:
        """Return the summaries of this session, and what has none yet."""
        return self._services.trees.tree(self._owner, self._session)

    def expand(self, summary_id: str, *, after_seq: int = 0, limit: int = 50) -> Expansion:
        """
        Return a page of what a summary stands for: summaries one level down, or messages.

        Args:
            summary_id: A summary's `id`; or a span as "first-last", as contexts name
                it: the summary of that span, else its messages.
            after_seq: `next_seq` of the page before; 0: the first.
            limit: Most summaries or messages on a page, 1 to 1,000.

        Raises:
            NotFound: the session has no such summary, or no message in the span.
        """
        return self._services.trees.expand(self._owner, self._session, summary_id, after_seq, limit)

    def index(self, budget_tokens: int = 400) -> str:
        """
        Return a list of the summaries that cover this session, for a system prompt.

        One line for each that no other stands for, oldest first, with the id
        that `memory_expand` takes. Where not all fit, the newest are listed and
        the rest is named. "" without summaries, or if not even one line fits.
        """
        return self._services.trees.index(self._owner, self._session, budget_tokens)

    def compact(
        self,
        *,
        keep_last: int | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> Compacted:
        """
        Finish the summaries, drop what can be made again, and archive what is cold.

        Nothing that was said is lost, and no summary by a model is dropped.
        Summaries that another process is making now are left to it.

        Args:
            keep_last: Archive all but so many of the newest messages; None:
                archive nothing.
            progress: Called with status ("active", "done" or "error") and what
                is being done, also before each call of a model.

        Raises:
            PortError: the model failed on a summary: an extract takes its
                place, and it is tried again later. All else was done.
        """
        from memdb.summaries.builder import compact

        services = self._services
        return compact(
            services.db,
            services.summaries,
            lambda: services.archivist,
            self._owner,
            self._session,
            keep_last=keep_last,
            progress=progress,
        )

    def upgrade(self) -> int:
        """
        Make every summary that no model wrote due to be written by the model; how many.

        `db.jobs.run()` or a worker then does it, sources first.

        Raises:
            InvalidInput: the file was opened without a model.
        """
        return self._services.trees.upgrade(self._owner, self._session)
