"""
Change single summaries for a host: other words for a wrong one, or none.

A summary one level up may quote it. So that is rewritten in the same
transaction, without a model; if there is one, it improves it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import Busy, InvalidInput, NotFound
from memdb.models.ids import number_of
from memdb.records import summaries as summary_records
from memdb.records.scopes import find_session
from memdb.summaries.summarizer import Made
from memdb.summaries.tree import find_summary
from memdb.tables import summaries
from memdb.text.trust import trust_of_summary
from memdb.text.validate import content_value

if TYPE_CHECKING:
    from memdb.engine.base import Engine, Tx
    from memdb.models.summaries import Summary, SummaryText
    from memdb.records.scopes import ScopeRef
    from memdb.summaries.builder import Summaries
    from memdb.text.screening import SecretScreen

# The summarizer of what a host wrote; its quality is that of a model, so none replaces it.
HOST = "host"

# How often a summary is made again because its sources changed meanwhile.
MAX_TRIES = 3

# Characters of a summary: more is no summary.
MAX_CHARS = 50_000


class SummaryEditor:
    """Changes the summaries of a file one by one."""

    def __init__(self, db: Engine, made: Summaries, screen: SecretScreen) -> None:
        """Change what *made* made in *db*; *screen* refuses or redacts secrets."""
        self._db = db
        self._summaries = made
        self._screen = screen

    def rewrite(
        self, owner: ScopeRef, session: str, ref: int | str, given: SummaryText | None
    ) -> Summary:
        """
        Replace the words of a summary; see `session.summaries.rewrite`.

        Raises:
            NotFound: the session has no such summary.
            InvalidInput: the text is blank or too long.
            PortError: the model failed.
            Busy: its messages kept changing while it was made.
        """
        self._db.refuse_read_only()
        made = None if given is None else self._checked(given)
        for _ in range(MAX_TRIES):
            with self._db.read() as tx:
                summary = self._find(tx, owner, session, ref)
                step = None if given else self._summaries.step_of(tx, summary)
            if step is not None:
                made, failure = self._summaries.maker.make(step.source, step.depth)
                if failure is not None:
                    raise failure
            with self._db.write() as tx:
                summary = self._find(tx, owner, session, number_of(summary.id))
                if step is not None and not self._summaries.is_current(tx, summary, step):
                    continue
                if made is not None:
                    self._replace(tx, summary, made)
                    summary = self._find(tx, owner, session, number_of(summary.id))
                return summary
        raise Busy("the messages of the summary kept changing: try again")

    def delete(self, owner: ScopeRef, session: str, ref: int | str) -> int:
        """Remove a summary with those after and above it; see `session.summaries.delete`."""
        with self._db.write() as tx:
            target = find_session(tx, owner, session)
            summary = None if target is None else find_summary(tx, target, ref)
            if target is None or summary is None:
                return 0
            target = summaries.session_of(tx, summary.id)
            gone = sum(
                one.last_seq >= summary.first_seq
                for depth in range(summaries.MAX_DEPTH + 1)
                for one in summaries.list_depth(tx, target, depth)
            )
            summary_records.remove(tx, {target: summary.first_seq})
        return gone

    def _find(self, tx: Tx, owner: ScopeRef, session: str, ref: int | str) -> Summary:
        target = find_session(tx, owner, session)
        found = None if target is None else find_summary(tx, target, ref)
        if found is None:
            raise NotFound("summary", ref, f"session {session!r}")
        return found

    def _checked(self, given: SummaryText) -> Made:
        """Return a host's text as a summary."""
        text = content_value(given.text, "text")
        hint = None if given.hint is None else content_value(given.hint, "hint")
        for field, value in (("text", text), ("hint", "x" if hint is None else hint)):
            if not value.strip() or len(value) > MAX_CHARS:
                raise InvalidInput(
                    f"{field} has {len(value):,} characters: give 1 to {MAX_CHARS:,}, not all blank"
                )
        fields = self._screen.pass_fields("summary", {"text": text, "hint": hint})
        tokens = self._summaries.count(fields["text"])
        trust = trust_of_summary(fields["text"])
        return Made(fields["text"], fields["hint"], "model", HOST, tokens, trust)

    def _replace(self, tx: Tx, summary: Summary, made: Made) -> None:
        """Write new words, and rewrite the summaries that quote the old ones."""
        maker = self._summaries
        summary_records.rewrite(tx, (summary, maker.columns(made), maker.may_improve(made)))
        above = summaries.above(tx, summary.id)
        while above is not None:
            parent = summaries.find_by_id(tx, above)
            step = None if parent is None else maker.step_of(tx, parent)
            if parent is None or step is None:
                return
            rewritten, _ = maker.maker.make(step.source, step.depth, local=True)
            columns = None if parent.text is None else maker.columns(rewritten)
            summary_records.rewrite(tx, (parent, columns, maker.may_improve(rewritten)))
            above = summaries.above(tx, above)
