"""
The part of `memdb.Session` that learns from what was said, and tells what is known. Delegates.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.api._container import Rooms
    from memdb.models.extraction import Extracted
    from memdb.models.messages import ProfileBlock
    from memdb.records.scopes import Owner


class Learning:
    """What a conversation has to do with long-term memory."""

    name: str
    _rooms: Rooms
    _owner: Owner

    def extract(
        self,
        *,
        dry_run: bool = False,
        limit: int | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> Extracted:
        """
        Learn entries from what was said here and not yet looked at; say what became of them.

        By the file's model, with two calls at most per twenty messages, or by
        rules of English. What is known already is merged, what is out of date
        superseded; nothing is extracted twice, and nothing skipped.

        Args:
            dry_run: Say what would be done, and store nothing; a model is asked.
            limit: Stop after about so many messages.
            progress: Called with status and message before a model is asked.

        Raises:
            NotFound: there is no such session.
            PortError: the model gave no answer that can be read. What came
                before is stored, the rest is read the next time.
        """
        return self._rooms.extractions.extract(
            self._owner, self.name, dry_run=dry_run, limit=limit, status=progress
        )

    def profile(self, budget_tokens: int, *, ids: bool = False) -> ProfileBlock:
        """Return `Scope.profile` for the last three messages of the user in this session."""
        said = self._rooms.conversations.last_said(self._owner, self.name)
        return self._rooms.profiles.block(
            self._owner, budget_tokens, said, session=self.name, ids=ids
        )
