"""
Receipts: what forgetting, importing and the search for secrets report.
"""

from __future__ import annotations

from memdb.models.record import Record


class Proof(Record):
    """
    What a search of the bytes of a file found of what was forgotten.

    Attributes:
        pieces: Byte strings of the forgotten texts that were searched for: up
            to 16 of 32 bytes per text, evenly spread, and its longest words as
            the indexes hold them.
        short: Texts under 8 bytes, too short to tell from others.
        searched: What was searched: names of files, "archive" and "artifacts"
            (those unpacked).
        searched_bytes: How much that was, unpacked.
        found_bytes: Bytes of those pieces that are still there; 0 is the proof.
        found_in: Where they are.
        said_elsewhere: Pieces that other messages, entries or artifacts say too.
        said_in: Some places of them, in the scope that was asked.
        free_pages: Pages of the file that nothing uses; they were searched too.
        notices: What stands in the way of the proof, and what it does not cover.
    """

    pieces: int
    short: int
    searched: tuple[str, ...]
    searched_bytes: int
    found_bytes: int
    found_in: tuple[str, ...]
    said_elsewhere: int
    said_in: tuple[str, ...]
    free_pages: int
    notices: tuple[str, ...]


class Receipt(Record):
    """
    What was forgotten, when, and whether its bytes are gone; never what it said.

    Attributes:
        what: "entry", "messages", "session", "query" or "everything".
        subject_sha256: Hash of what was named, in hexadecimal: who knows the
            name can check that this is its receipt.
        removed: How many of each: messages, sessions, entries, versions (of
            entries that stay), summaries, artifacts, state.
        rewritten: How many of each stayed, without what was forgotten:
            summaries, segments (of archived messages).
        forgotten_ms: When.
        dry_run: Nothing was removed: it says what would be.
        proof: None where none was asked for.
    """

    what: str
    subject_sha256: str
    removed: dict[str, int]
    rewritten: dict[str, int]
    forgotten_ms: int
    dry_run: bool = False
    proof: Proof | None = None

    @property
    def proven(self) -> bool:
        """Whether a proof was asked for, and nothing was found."""
        return self.proof is not None and self.proof.found_bytes == 0


class Secret(Record):
    """
    A secret in a text, without the secret.

    Attributes:
        kind: One of `KINDS`, or what a detector of your own calls it.
        start: Its first character.
        end: The one behind its last.
    """

    kind: str
    start: int
    end: int


class SecretPlace(Record):
    """
    Where a secret stands.

    Attributes:
        kind: What it is; see `memdb.text.secrets`.
        where: "message trip#3", "entry 12", "artifact menu.md@2", with what part
            of it where that is not its text.
        start: Its first character there; of an artifact its first byte, about.
        shown: How it begins and how long it is.
    """

    kind: str
    where: str
    start: int
    shown: str


class ImportReport(Record):
    """
    What an import did.

    Attributes:
        format: The format it was read as.
        sessions: How many sessions were made.
        messages_known: Messages that were here already and stayed as they are;
            so the other fields called `_known`.
    """

    format: str
    sessions: int = 0
    messages_added: int = 0
    messages_known: int = 0
    entries_added: int = 0
    entries_known: int = 0
    artifacts_added: int = 0
    artifacts_known: int = 0
    embeddings_added: int = 0
    state_added: int = 0

    def __str__(self) -> str:
        """Say it in one line, as the command line prints it."""
        parts = [f"{self.messages_added:,} messages in {self.sessions:,} new sessions"]
        parts += [f"{self.entries_added:,} entries"] if self.entries_added else []
        parts += [f"{self.artifacts_added:,} artifact versions"] if self.artifacts_added else []
        known = self.messages_known + self.entries_known + self.artifacts_known
        added = f"Imported {', '.join(parts)} ({self.format})"
        return f"{added}; {known:,} were here already." if known else f"{added}."
