"""
Telling everything before the fresh tail within a budget, each seq once.

The frontier of the summary DAG covers it. A node that reaches into the tail is
replaced by its sources; messages that have no leaf yet are condensed on the
spot. What does not fit is told in fewer words, the oldest first, and at last
only named as left out: there is never a hole that is not spoken of.
"""

from __future__ import annotations

from memdb.record import Record
from memdb.shortterm.blocks import BARE, OMITTED, SUMMARIES, Line, frame_tokens, quoted, with_costs
from memdb.shortterm.planning import covered_seq
from memdb.shortterm.summarizing import items_of_messages
from memdb.shortterm.units import units
from memdb.stores import messages, nodes
from memdb.summary_models import Piece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.db.transaction import Tx
    from memdb.models import Message
    from memdb.shortterm.dag import Summaries
    from memdb.summary_models import Node
    from memdb.text.counting import Counting

# Of the summaries' budget, for nodes of depth 2 and more; the rest is for what
# was said more lately. Source: flowcraft's shares 0.3 (mid) and 0.1 (far).
FAR_PER_MILLE = 250
FAR_DEPTH = 2

# Most parts that are looked at; a line costs more than 20 tokens as a rule.
MOST_PARTS = 200

# Messages without a leaf that are condensed on the spot; older ones are left out.
MOST_LOOSE = 200

# Characters of a part that is told in few words.
SHORT_CHARS = 90


class Part(Record):
    """A span and the text that stands for it; *node_id* is None if it was made on the spot."""

    first_seq: int
    last_seq: int
    depth: int
    text: str
    node_id: str | None


class Cover(Record):
    """The lines that tell a span, and what they cost in their frame."""

    lines: tuple[Line, ...]
    frame: tuple[str, str]
    tokens: int


class Coverage:
    """Finds and words what stands before a tail, in one transaction."""

    def __init__(
        self, tx: Tx, summaries: Summaries, counting: Counting, place: tuple[int, str]
    ) -> None:
        """Cover the session *place* (id and name)."""
        self._tx = tx
        self._summaries = summaries
        self._counting = counting
        self._session, self._name = place
        self.covered_seq = covered_seq(tx, *place)

    def before(self, first_seq: int, end_seq: int, limit: int) -> Cover | None:
        """
        Return what tells *first_seq* to *end_seq* within *limit* tokens.

        None where there is nothing to tell. It keeps to *limit* unless not even
        the sentence that names the span does.
        """
        if end_seq < first_seq:
            return None
        parts = self._parts(first_seq, end_seq)
        frame = frame_tokens(SUMMARIES, self._counting)
        (rest_cost,) = self._counting.count_many([OMITTED.format(first=first_seq, last=end_seq)])
        lines = self._fill(parts, limit - frame - rest_cost - 1) if parts else []
        oldest = lines[-1].piece.first_seq if lines else end_seq + 1
        assert oldest is not None
        if oldest > first_seq:
            lines.append(_omitted(first_seq, oldest - 1))
        lines = with_costs(lines[::-1], self._counting)
        told = sum(line.piece.tokens for line in lines)
        if len(lines) == 1 and lines[0].piece.kind == "omitted":
            return Cover(tuple(lines), BARE, told + 4)
        return Cover(tuple(lines), SUMMARIES, told + frame)

    def _parts(self, first_seq: int, end_seq: int) -> list[Part]:
        """Return what stands for the span, newest first; it may not reach back to its start."""
        found = self._loose(max(self.covered_seq + 1, first_seq), end_seq)
        if found and self.covered_seq >= first_seq and found[-1].first_seq > self.covered_seq + 1:
            return found  # too many messages without a leaf: what is older is left out too
        if self.covered_seq < first_seq:
            return found
        for node in nodes.frontier(self._tx, self._session, end_seq, MOST_PARTS - len(found)):
            found += [_part(one) for one in self._opened(node, end_seq)]
        return found

    def _opened(self, node: Node, end_seq: int) -> list[Node]:
        """Return *node*, or those below it that end by *end_seq*, newest first."""
        if node.last_seq <= end_seq:
            return [self._summaries.with_text(self._tx, node)]
        below = nodes.sources(self._tx, node)
        found: list[Node] = []
        for one in reversed(below):
            if one.first_seq <= end_seq:
                found += self._opened(one, end_seq)
        return found

    def _loose(self, first_seq: int, end_seq: int) -> list[Part]:
        """Return messages that no leaf stands for, condensed ten by ten, newest first."""
        if end_seq < first_seq:
            return []
        run = messages.last(self._tx, self._session, self._name, MOST_LOOSE, end_seq + 1)
        run = [one for one in run if one.seq >= first_seq]
        chunks: list[list[Message]] = [[]]
        for unit in units(run):
            if len(chunks[-1]) >= self._summaries.policy.chunk:
                chunks.append([])
            chunks[-1] += unit
        found = []
        start = first_seq if len(run) < MOST_LOOSE or not run else run[0].seq
        for chunk in chunks:
            if chunk:
                made, _ = self._summaries.maker.make(items_of_messages(chunk), 0, local=True)
                found.append(Part(start, chunk[-1].seq, 0, made.text, None))
                start = chunk[-1].seq + 1
        if found:
            found[-1] = found[-1].replace(last_seq=end_seq)
        return found[::-1]

    def _fill(self, parts: list[Part], limit: int) -> list[Line]:
        """
        Return a line for each part, newest first, as long as they fit.

        Each of two zones has its own limit, and leaves to the other what it
        does not need.
        """
        whole = with_costs([_whole(part) for part in parts], self._counting)
        far = sum(
            line.piece.tokens
            for line, part in zip(whole, parts, strict=True)
            if part.depth >= FAR_DEPTH
        )
        left = {"far": min(far, limit * FAR_PER_MILLE // 1000)}
        left["mid"] = limit - left["far"]
        lines: list[Line] = []
        for line, part in zip(whole, parts, strict=True):
            zone = "far" if part.depth >= FAR_DEPTH else "mid"
            if zone == "far" and left["mid"] > 0:
                left["far"] += left["mid"]
                left["mid"] = 0
            chosen: Line | None = line
            if line.piece.tokens > left[zone]:
                (chosen,) = with_costs([_short(part)], self._counting)
                if chosen.piece.tokens > left[zone]:
                    chosen = self._borrowed(chosen, left, zone)
            if chosen is None:
                break
            left[zone] -= chosen.piece.tokens
            lines.append(chosen)
        return lines

    @staticmethod
    def _borrowed(line: Line, left: dict[str, int], zone: str) -> Line | None:
        """Return *line* if the other zone has room for it, rather than leaving a span out."""
        other = "far" if zone == "mid" else "mid"
        if line.piece.tokens > left[zone] + left[other]:
            return None
        left[zone] += left[other]
        left[other] = 0
        return line


def _part(node: Node) -> Part:
    return Part(node.first_seq, node.last_seq, node.depth, node.text, node.id)


def _piece(part: Part, reason: str) -> Piece:
    kind = "digest" if part.node_id is None else "summary"
    return Piece(kind, part.first_seq, part.last_seq, 0, reason, part.node_id)


def _whole(part: Part) -> Line:
    reason = "stands for what is older than the fresh tail"
    if part.node_id is None:
        reason = "made on the spot: no summary of these messages is stored yet"
    text = f"[{part.first_seq}-{part.last_seq}] {quoted(part.text)}"
    return Line(text, _piece(part, reason))


def _short(part: Part) -> Line:
    text = " ".join(part.text.split())
    if len(text) > SHORT_CHARS:
        text = f"{text[:SHORT_CHARS].rsplit(' ', 1)[0]} …"
    reason = "in few words: the whole summary is over the budget of its zone"
    return Line(f"[{part.first_seq}-{part.last_seq}] {quoted(text)}", _piece(part, reason))


def _omitted(first_seq: int, last_seq: int) -> Line:
    text = OMITTED.format(first=first_seq, last=last_seq)
    piece = Piece("omitted", first_seq, last_seq, 0, "nothing shorter fits the budget")
    return Line(text, piece)
