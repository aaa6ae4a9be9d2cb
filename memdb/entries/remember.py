"""
Remember service: store a fact beside the known facts of its scope.

    validate       memdb.entries.validation    check and screen the fields    no transaction
    find similar   memdb.entries.similarity    same key, same words, neighbors
    apply          memdb.entries.apply         write entries, history, vector, links

The last two run in one write transaction. An arbiter, which may be slow, is called between two
transactions, and again if an entry that it saw has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.entries.apply import EntryWriter, locate
from memdb.entries.arbitration import ask_arbiter
from memdb.entries.similarity import embed_statement, find_similar
from memdb.entries.validation import screen_entry, validate
from memdb.errors import InvalidInput
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.embeddings.indexer import Indexer
    from memdb.engine.base import Engine, Tx
    from memdb.entries.arbitration import Resolution
    from memdb.entries.categories import Categories
    from memdb.entries.similarity import SimilarEntries, StatementVector
    from memdb.entries.validation import Statement
    from memdb.models.entries import NewEntry, Remembered
    from memdb.models.protocols import Arbiter
    from memdb.records.scopes import ScopeRef
    from memdb.text.screening import SecretScreen

# Times that the arbiter is asked about one fact because an entry changed
# meanwhile; after them the fact is added and linked.
MAX_ROUNDS = 3

# Entries that a slow arbiter is shown: a prompt of a page.
MAX_SHOWN = 5


class PreparedStatement(Record):
    """
    A checked and embedded statement, which only has to be stored.

    Attributes:
        owner: The scope that gets it.
        vector: Vector of its text; None means that it is embedded later.
    """

    owner: ScopeRef
    statement: Statement
    vector: StatementVector | None


class RememberService:
    """Remembers facts in the scopes of a file."""

    def __init__(
        self,
        db: Engine,
        indexer: Indexer,
        categories: Categories,
        screen: SecretScreen,
        writer: EntryWriter,
        arbiter: Arbiter | None = None,
    ) -> None:
        """
        Remember in *db*.

        Args:
            arbiter: Decides about entries that a statement resembles. Never called inside
                a transaction. Without one, or if it fails, the statement is added and linked.
        """
        self._db = db
        self._indexer = indexer
        self._categories = categories
        self._screen = screen
        self._writer = writer
        self._arbiter = arbiter

    @property
    def has_arbiter(self) -> bool:
        """Whether an arbiter is called, for which no transaction may wait."""
        return self._arbiter is not None

    def remember(self, owner: ScopeRef, new: NewEntry, secrets: str | None = None) -> Remembered:
        """Remember a fact as `Scope.remember` describes it."""
        return self.store(self.prepare(owner, new, secrets))

    def prepare(
        self, owner: ScopeRef, new: NewEntry, secrets: str | None = None
    ) -> PreparedStatement:
        """
        Return a fact checked and screened, with its vector unless a write is in progress.

        Args:
            secrets: "refuse", "redact" or "allow"; None means as the settings say.

        Raises:
            InvalidInput: a field cannot be stored.
            SecretFound: the text contains a secret, and the file's settings refuse it.
        """
        new = screen_entry(new, self._screen.with_action(secrets))
        statement = validate(new, self._db.clock())
        statement = statement.replace(writer=statement.writer or self._db.written_by)
        owner = self._choose_scope(owner, statement, shared=new.shared)
        owner.admit()
        embedded = None if self._db.writing else embed_statement(statement.text, self._indexer)
        return PreparedStatement(owner, statement, embedded)

    def store(self, prepared: PreparedStatement) -> Remembered:
        """Store a prepared fact; in a caller's transaction no arbiter is called."""
        arbiter = None if self._db.writing else self._arbiter
        answers: dict[tuple[tuple[int, int], ...], Resolution | None] = {}
        while True:
            with self._db.write() as tx:
                similar = self.find_similar(tx, prepared)
                if arbiter is None:
                    return self.settle(tx, similar)
                shown = tuple(one for one in similar.nearby if one.related)[:MAX_SHOWN]
                versions = tuple((one.entry.id, one.entry.version) for one in shown)
                if not shown or versions in answers or len(answers) == MAX_ROUNDS:
                    return self.settle(tx, similar, answers.get(versions))
            now_ms = self._db.clock()
            answers[versions] = ask_arbiter(arbiter, prepared.statement, shown, now_ms)

    def find_similar(self, tx: Tx, prepared: PreparedStatement) -> SimilarEntries:
        """
        Return the entries that a prepared fact is compared with; make a new scope if needed.

        Raises:
            NotFound: its session, or a message of it, does not exist.
        """
        own_space = self._indexer.ensure_space(tx)
        scope_no, statement = locate(tx, prepared.owner, prepared.statement)
        return find_similar(tx, scope_no, statement, prepared.vector, own_space, self._categories)

    def settle(
        self, tx: Tx, similar: SimilarEntries, answer: Resolution | None = None
    ) -> Remembered:
        """Store a fact beside similar entries, or apply *answer* to them."""
        return self._writer.apply(tx, similar, answer)

    def add_past(self, tx: Tx, similar: SimilarEntries) -> Remembered:
        """
        Store a statement that is older than the entry with its key, as a past fact.

        The call is for facts that reach the file in another order than they were stated.
        """
        same = similar.same
        assert same is not None
        until_ms = same.created_ms if same.valid_from_ms is None else same.valid_from_ms
        reason = "said before what is known"
        return self._writer.insert_past(
            tx, similar.scope_no, similar.statement, same, until_ms, reason
        )

    def _choose_scope(
        self, owner: ScopeRef, statement: Statement, *, shared: bool | None
    ) -> ScopeRef:
        """Return the scope or its shared one; InvalidInput for an unknown category."""
        name = statement.category
        category = self._categories.find(name)
        if category is None:
            with self._db.read() as tx:
                self._writer.check_category(tx, owner.find(tx), name)
        if shared is None:
            shared = category is not None and category.shared
        elif not isinstance(shared, bool):
            raise InvalidInput(f"shared is {shared!r}: give True or False")
        if shared and statement.session is not None:
            raise InvalidInput(
                "session is given for a shared entry, but a session belongs to one user: leave it "
                "out"
            )
        return owner.shared() if shared else owner
