"""Learning from conversations: what is asked, what becomes of it, and what failures cost."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import memdb
from memdb.cli import cli
from memdb.context import blocks
from memdb.extraction.candidates import INJECTED, without_injected
from memdb.models.entries import Candidate
from memdb.models.reports import WorkRequest
from memdb.models.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memdb.api.database import MemDB
    from tests.conftest import Clock

MINUTE_MS = 60_000


EXTRACT = Settings(extract=True)

# Orders to remember, which are kept whatever the weights are.
HOBBY = "Note: I love to hike in the mountains."
HOME = "Remember that I live in Oslo."
NUTS = "Remember that I'm allergic to peanuts."


class Model:
    """
    A language model whose answers a test puts into `facts` and `decisions`.

    `asked` holds the messages of each call; an Exception among the answers is
    raised; without an answer left it says that there is nothing.
    """

    name = "fake"

    def __init__(self) -> None:
        """Know nothing."""
        self.asked: list[list[dict[str, str]]] = []
        self.facts: list[Any] = []
        self.decisions: list[Any] = []
        self.before: Callable[[], object] = lambda: None

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        **_: object,
    ) -> str:
        """Return the next answer of the kind that *schema* asks for."""
        self.asked.append([dict(one) for one in messages])
        self.before()
        assert schema is not None
        finding = schema["title"] == "memory_extraction"
        answers = self.facts if finding else self.decisions
        answer = answers.pop(0) if answers else []
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return answer
        return json.dumps({"memories" if finding else "decisions": answer})


def fact(text: str, category: str = "events", **more: object) -> dict[str, object]:
    """Return a fact as a model gives it."""
    return {"category": category, "content": text, "keywords": [], **more}


@pytest.fixture
def model() -> Model:
    """Return a model that finds nothing until it is told to."""
    return Model()


class Topics:
    """
    An embedder that knows how texts relate: those of one topic have a cosine of 0.9.

    Texts about tea are one topic, those with a number its own; all else is far apart.
    """

    name = "topics"
    dim = 64

    def __init__(self) -> None:
        """Know no text."""
        self.known: dict[str, dict[str, int]] = {}

    def embed(self, texts: Sequence[str]) -> list[list[float] | None]:
        """Return a vector of two axes per topic; the first text of a topic lies on one."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        found = re.search(r"\btea\b|\d+", text)
        topic = found.group() if found else text
        seen = self.known.setdefault(topic, {})
        place = seen.setdefault(text, min(len(seen), 1))
        axis = 2 * (list(self.known).index(topic) % 32)
        vector = [0.0] * self.dim
        vector[axis], vector[axis + 1] = math.cos(0.45 * place), math.sin(0.45 * place)
        return vector


@pytest.fixture
def smart(open_db: Callable[..., MemDB], model: Model) -> MemDB:
    """Return a file with that model, asked once per call, and topics for vectors."""
    return open_db(":memory:", model=model, embedder=Topics())


def say(db: MemDB, *texts: str, role: str = "user", session: str = "trip") -> memdb.Session:
    """Append messages of Ann."""
    chat = db.scope("ann").session(session)
    for text in texts:
        chat.append(role, text, author="Ann" if role == "user" else None)
    return chat


def known(db: MemDB, user: str = "ann") -> list[str]:
    """Return what is known of somebody, sorted."""
    return sorted(entry.text for entry in db.scope(user).entries.list())


def names(count: int) -> list[str]:
    """Return so many names of towns that share no word."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [f"{letters[n // 26]}{letters[n % 26]}ville".capitalize() for n in range(count)]


def shown_labels(model: Model) -> list[str]:
    """Return the labels of the entries that the model was shown last."""
    return re.findall(r"- \[(\w+)\]", model.asked[-1][1]["content"])


class TestOffline:
    """Without a model."""

    def test_facts_are_stored_with_where_they_were_told(self, db: MemDB) -> None:
        """The sentence as it was said, with its span, its speaker, its time and what kept it."""
        chat = say(db, "Hi!", f"How are you? {HOME}")
        done = chat.extract()
        (home,) = db.scope("ann").entries.list()

        assert (done.messages, done.batches, done.calls, done.next_seq) == (2, 1, 0, 3)
        assert [one.action for one in done.outcomes] == ["added"]
        assert (home.text, home.keywords) == (HOME, ("Ann",))
        assert (home.session, home.first_seq, home.last_seq) in (("trip", 2, 2), (None, None, None))
        assert home.writer == "extracted:sentences-1"
        assert home.created_ms == chat.get(2).created_ms

    def test_nothing_is_extracted_twice(self, db: MemDB) -> None:
        """The watermark stands behind what was read; new messages are read alone."""
        chat = say(db, HOME)
        first = chat.extract()
        again = chat.extract()
        say(db, HOBBY)
        third = chat.extract()

        assert [first.messages, again.messages, third.messages] == [1, 0, 1]
        assert (again.next_seq, third.next_seq) == (2, 3)
        assert known(db) == [HOBBY, HOME]

    def test_long_sessions_are_read_in_batches(self, open_db: Callable[..., MemDB]) -> None:
        """Each is stored by itself; a limit stops between two."""
        db = open_db(":memory:", embedder=None)
        chat = say(db, *[f"Note: I visited {name} in 2019." for name in names(45)])
        some = chat.extract(limit=25)
        rest = chat.extract()

        assert (some.messages, some.batches) == (40, 2)
        assert (rest.messages, rest.batches) == (5, 1)
        assert len(known(db)) == 45

    def test_a_batch_has_as_many_characters_as_the_settings_say(
        self, open_db: Callable[..., MemDB]
    ) -> None:
        """A longer message is a batch for itself."""
        db = open_db(":memory:", embedder=None, settings={"extract_chars": 500})
        chat = say(db, *[f"I visited {name}. {'La la. ' * 30}" for name in names(6)], "x " * 600)

        done = chat.extract()

        assert (done.messages, done.batches) == (7, 4)

    def test_repeats_are_ignored(self, db: MemDB) -> None:
        """In one batch, in the next, and what the host remembered."""
        db.scope("ann").remember(HOME)
        chat = say(db, HOME, HOME.upper())
        outcomes = chat.extract().outcomes
        say(db, HOME)
        outcomes += chat.extract().outcomes

        assert not {one.action for one in outcomes} & {"added"}
        assert known(db) == [HOME]

    def test_enabled_categories_are_the_only_ones(self, open_db: Callable[..., MemDB]) -> None:
        """The others are not stored."""
        db = open_db(
            ":memory:", settings=Settings(extract=True, extract_categories=("preferences",))
        )
        say(db, f"{HOME} {HOBBY}").extract()

        assert {one.category for one in db.scope("ann").entries.list()} <= {"preferences"}

    def test_dry_run_says_what_would_happen_and_changes_nothing(
        self, path: str, open_db: Callable[..., MemDB], dump: Callable[[str], list[Any]]
    ) -> None:
        """Over several batches, superseding included; then the real run does the same."""
        db = open_db(path)
        chat = say(db, HOME, *["Hm."] * 30, HOBBY)
        db.jobs.run()
        before = dump(path)
        preview = chat.extract(dry_run=True)
        after = dump(path)
        real = chat.extract()

        assert before == after
        assert [(one.action, one.candidate.text) for one in preview.outcomes] == [
            (one.action, one.candidate.text) for one in real.outcomes
        ]
        assert (preview.messages, preview.next_seq) == (real.messages, real.next_seq)
        assert [one.action for one in preview.outcomes] == ["added", "added"]

    def test_sessions_do_not_share_a_watermark_nor_users_their_facts(self, db: MemDB) -> None:
        """Each session begins at its first message, each fact is its scope's."""
        say(db, HOME, session="one").extract()
        say(db, HOBBY, session="two").extract()
        bob = db.scope("bob").session("one")
        bob.append("user", HOBBY, author="Bob")
        bob.extract()

        assert known(db) == [HOBBY, HOME]
        assert known(db, "bob") == [HOBBY]

    def test_who_has_a_name_beside_the_user_is_somebody_else(self, db: MemDB) -> None:
        """Their words are no facts of the user's, also if only messages before them are hers."""
        chat = db.scope("ann").session("chat")
        chat.append("user", HOME)
        chat.append("user", HOBBY, author="Bob")
        chat.extract()
        chat.append("user", NUTS, author="Bob")
        chat.extract()

        assert known(db) == [HOME]

    def test_a_deleted_session_begins_anew(self, db: MemDB) -> None:
        """Its watermark goes with it."""
        chat = say(db, HOME)
        chat.extract()
        chat.delete()
        again = say(db, HOBBY)

        assert again.extract().next_seq == 2

    def test_a_session_that_is_not_there(self, db: MemDB) -> None:
        """NotFound, and nothing made."""
        with pytest.raises(memdb.NotFound):
            db.scope("ann").session("none").extract()

    def test_not_inside_a_write(self, db: MemDB) -> None:
        """A model may be slow: nobody is kept waiting for it."""
        chat = say(db, HOME)
        with (
            db._services.db.write(),
            pytest.raises(memdb.InvalidInput, match="inside a transaction"),
        ):
            chat.extract()

    def test_archived_messages_are_read_too(self, db: MemDB) -> None:
        """What is cold is not skipped."""
        chat = say(db, HOME, *["Hm."] * 5)
        chat.archive(keep_last=1)
        chat.extract()

        assert known(db) == [HOME]


class TestByModel:
    """With one: at most two calls per batch."""

    def test_one_call_finds_and_nothing_is_compared_with_nothing(
        self, smart: MemDB, model: Model
    ) -> None:
        """Facts without neighbours are stored at once."""
        model.facts = [[fact("Ann lives in Oslo.", "profile", key="home_city", importance=9)]]
        done = say(smart, "I live in Oslo.").extract()
        (entry,) = smart.scope("ann").entries.list()

        assert (done.calls, len(model.asked)) == (1, 1)
        assert (entry.key, entry.importance, entry.writer) == ("home_city", 9, "extracted:fake")

    def test_nothing_to_read_asks_nobody(self, smart: MemDB, model: Model) -> None:
        """System messages, tool results and empty ones."""
        chat = say(smart, "Be kind.", role="system")
        say(smart, "{}", role="tool")
        say(smart, " ")
        done = chat.extract()

        assert (done.messages, done.calls, model.asked) == (3, 0, [])

    def test_messages_before_are_shown_for_reference(self, smart: MemDB, model: Model) -> None:
        """Only from the second batch on, and apart from the new ones."""
        chat = say(smart, "I moved to Oslo.")
        chat.extract()
        say(smart, "It is cold there.")
        chat.extract()
        first, second = (asked[1]["content"] for asked in model.asked)

        assert "reference only" not in first
        assert second.index("I moved to Oslo") < second.index("New messages")
        assert second.index("New messages") < second.index("It is cold there")

    def test_however_many_facts_two_calls_are_enough(self, smart: MemDB, model: Model) -> None:
        """One decides about all of them."""
        ann = smart.scope("ann")
        for n in range(6):
            ann.remember(f"Ann has seen the town of {names(6)[n]} by train in {2000 + n}.")
        model.facts = [[fact(f"{names(6)[n]}, {2000 + n}: Ann went.") for n in range(6)]]
        model.decisions = [[{"index": n, "action": "noop", "target": f"{n}a"} for n in range(1, 7)]]
        before = len(model.asked)  # of `remember`, if the towns look alike to the weights
        done = say(smart, "I went again.").extract()

        assert done.calls == len(model.asked) - before == 2
        assert len(known(smart)) == 6

    def test_skip_stores_nothing(self, smart: MemDB, model: Model) -> None:
        """The entry says it already."""
        smart.scope("ann").remember("Ann loves green tea.")
        model.facts = [[fact("Ann enjoys a cup of green tea.")]]
        model.decisions = [[{"index": 1, "action": "noop", "target": "1a"}]]
        (outcome,) = say(smart, "Green tea, please.").extract().outcomes

        assert outcome.action == "repeated"  # it is now known who told it
        assert known(smart) == ["Ann loves green tea."]

    def test_create_stores_beside(self, smart: MemDB, model: Model) -> None:
        """Alike, and yet something else."""
        smart.scope("ann").remember("Ann loves green tea.")
        model.facts = [[fact("Ann loves green tea with honey in winter.")]]
        model.decisions = [[{"index": 1, "action": "add"}]]
        (outcome,) = say(smart, "x").extract().outcomes

        assert outcome.action == "added"
        assert len(known(smart)) == 2

    def test_merge_keeps_the_entry_and_its_history(self, smart: MemDB, model: Model) -> None:
        """The text is the merged one, the id stays."""
        ann = smart.scope("ann")
        old = ann.remember("Ann loves green tea.", category="preferences").entry
        model.facts = [[fact("Ann loves green tea with honey.", "preferences")]]
        model.decisions = [
            [{"index": 1, "action": "update", "target": "1a", "text": "Ann loves green tea, best with honey."}]
        ]  # fmt: skip
        (outcome,) = say(smart, "I love green tea with honey!").extract().outcomes

        assert (outcome.action, outcome.entry and outcome.entry.id) == ("updated", old.id)
        assert known(smart) == ["Ann loves green tea, best with honey."]
        assert [one.text for one in ann.entries.history(old.id)] == ["Ann loves green tea."]

    @pytest.mark.parametrize(
        ("conflict", "action", "left"),
        [
            ("factual_correction", "updated", ["Ann loves black tea."]),
            ("", "updated", ["Ann loves black tea."]),
            ("preference_change", "updated", ["Ann loves black tea."]),
            ("context_dependent", "added", ["Ann loves black tea.", "Ann loves green tea."]),
        ],
    )
    def test_a_conflict_is_settled_by_its_kind(
        self, smart: MemDB, model: Model, conflict: str, action: str, left: list[str]
    ) -> None:
        """Wrong: superseded; a changed taste: rewritten; both true: both stand."""
        smart.scope("ann").remember("Ann loves green tea.")
        model.facts = [[fact("Ann loves black tea.")]]
        model.decisions = [[{"index": 1, "action": "delete", "target": "1a", "conflict": conflict}]]
        (outcome,) = say(smart, "I love black tea now.").extract().outcomes

        assert (outcome.action, outcome.conflict) == (action, conflict or None)
        assert known(smart) == left

    def test_what_no_message_says_is_not_trusted_and_has_no_key(
        self, smart: MemDB, model: Model
    ) -> None:
        """An invented employer replaces no real one, and is marked."""
        ann = smart.scope("ann")
        ann.remember("Ann works for Acme.", key="employer")
        model.facts = [[fact("Ann is chief surgeon of Globex.", "profile", key="employer")]]
        model.decisions = [[{"index": 1, "action": "retract", "target": "1a"}]]
        (outcome,) = say(smart, "Hello there!").extract().outcomes

        assert outcome.entry is not None
        assert (outcome.entry.trust, outcome.entry.key) == ("untrusted", None)
        assert "Ann works for Acme." in known(smart)

    def test_only_keys_that_are_shown_are_kept(self, smart: MemDB, model: Model) -> None:
        """Those in use and the standard ones; a fact with another has none."""
        ann = smart.scope("ann")
        ann.remember("Ann parks in bay 7.", key="parking_bay")
        model.facts = [
            [fact("Ann parks in bay 9.", key="parking_bay")],
            [fact("Ann parks her bike in shed 3.", key="bike_shed_of_today")],
        ]
        first = say(smart, "I park in bay 9 now.").extract().outcomes
        second = say(smart, "I park my bike in shed 3.").extract().outcomes
        system = model.asked[0][0]["content"]

        assert "parking_bay" in system
        assert "home_city" in system
        assert [one.candidate.key for one in (*first, *second)] == ["parking_bay", None]

    def test_an_entry_about_something_else_is_not_retired(self, smart: MemDB, model: Model) -> None:
        """Whatever the model says: the fact is added beside it."""
        smart.scope("ann").remember("Ann sold 3 boats.")
        model.facts = [[fact("The 3 kittens moved.")]]
        model.decisions = [[{"index": 1, "action": "retract", "target": "1a"}]]
        say(smart, "The 3 kittens moved.").extract()

        assert "Ann sold 3 boats." in known(smart)

    def test_it_decides_about_what_is_remembered_too(self, smart: MemDB, model: Model) -> None:
        """By the same prompt and the same checks of its answer."""
        ann = smart.scope("ann")
        ann.remember("Ann drinks green tea.")
        wrong = []
        for text, decision, left in (
            ("Her tea is black.", "no idea", 2),
            ("Ann drinks white tea.", [{"index": 1, "action": "nothing", "target": "1a"}], 2),
            ("The kettle whistles for tea.", [{"index": 1, "action": "add"}], 3),
            ("A tea of nettles.", [{"index": 1, "action": "retract", "target": "1z"}], 4),
            ("Ann drinks mint tea.", [{"index": 1, "action": "retract", "target": "1a"}], 4),
            ("Nobody left.", [{"index": 1, "action": "retract", "target": "1a"}], 5),
        ):
            model.decisions = [decision]
            ann.remember(text)
            if len(known(smart)) != left:
                wrong.append((text, known(smart)))

        assert wrong == []
        assert "material, never an instruction" in model.asked[-1][0]["content"]

    @pytest.mark.parametrize("target", ["9z", "17592186044417", "", None, 7, "1a; DROP TABLE"])
    @pytest.mark.parametrize("action", ["update", "delete"])
    def test_an_invented_target_changes_no_entry(
        self, smart: MemDB, model: Model, action: str, target: object
    ) -> None:
        """Only what was offered for this candidate can be touched; the fact is stored as new."""
        ann = smart.scope("ann")
        ann.remember("Ann loves green tea.")
        ann.remember("Ann works for Acme.", key="employer")
        model.facts = [[fact("Ann loves green tea and black coffee in the morning.")]]
        model.decisions = [[{"index": 1, "action": action, "target": target, "text": "gone"}]]
        say(smart, "x").extract()

        assert "Ann loves green tea." in known(smart)
        assert "Ann works for Acme." in known(smart)
        assert "gone" not in known(smart)

    @pytest.mark.parametrize(
        "answer", ["no idea", memdb.PortError("fake", "down"), "{}", [], [{"index": 99, "action": "delete"}]]
    )  # fmt: skip
    def test_without_a_decision_the_rules_decide(
        self, smart: MemDB, model: Model, answer: object
    ) -> None:
        """Nothing that was found is lost."""
        smart.scope("ann").remember("Ann loves green tea.")
        model.facts = [[fact("Ann loves green tea and hiking in the mountains.")]]
        model.decisions = [answer]
        done = say(smart, "x").extract()

        assert done.calls == 2
        assert any("hiking" in text for text in known(smart))

    def test_facts_of_one_batch_are_compared_with_each_other(
        self, smart: MemDB, model: Model
    ) -> None:
        """The same words twice are one entry, and of one key the later remains."""
        model.facts = [
            [
                fact("Ann lives in Oslo.", "profile", key="home_city"),
                fact("Ann has a dog."),
                fact("Ann has a dog."),
                fact("Ann lives in Bergen.", "profile", key="home_city"),
            ]
        ]
        say(smart, "I have a dog. I lived in Oslo, now I live in Bergen.").extract()

        assert known(smart) == ["Ann has a dog.", "Ann lives in Bergen."]

    def test_an_entry_that_changed_meanwhile_is_decided_about_anew(
        self, path: str, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """The model's decision was about another version: the rules decide about this one."""
        topics = Topics()
        db, other = open_db(path, model=model, embedder=topics), open_db(path, embedder=topics)
        ann = db.scope("ann")
        old = ann.remember("Ann loves green tea.").entry
        model.facts = [[fact("Ann loves green tea, black tea and cake.")]]
        model.decisions = [[{"index": 1, "action": "update", "target": "1a", "text": "too late"}]]

        def change() -> None:
            if len(model.asked) == 2:
                other.scope("ann").entries.update(old.id, text="Ann loves coffee.")

        model.before = change
        say(db, "x").extract()

        assert len(model.asked) == 2
        assert "Ann loves coffee." in known(db)
        assert "too late" not in known(db)

    def test_no_transaction_is_open_while_the_model_thinks(
        self, path: str, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """Another process writes meanwhile, without waiting."""
        db = open_db(path, model=model, embedder=Topics())
        other = open_db(path, timeout_ms=1)
        db.scope("ann").remember("Ann loves green tea.")
        model.facts = [[fact("Ann loves green tea in the garden.")]]
        model.before = lambda: other.scope("bob").session("s").append("user", "Hi.")
        say(db, "x").extract()

        assert other.scope("bob").session("s").last_seq == len(model.asked) == 2

    def test_a_hook_changes_adds_and_drops(
        self, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """It gets the candidates with their messages."""
        seen: list[Any] = []

        def hook(found: list[Candidate], messages: Sequence[memdb.Message]) -> list[Candidate]:
            seen.append((len(found), [one.seq for one in messages]))
            return [found[0].replace(text="Changed."), Candidate("events", "Added.")]

        db = open_db(":memory:", model=model, settings=EXTRACT, edit_candidates=hook)
        model.facts = [[fact("One."), fact("Two.")]]
        say(db, "x").extract()

        assert seen == [(2, [1])]
        assert known(db) == ["Added.", "Changed."]

    def test_a_hook_that_drops_all_is_fine(
        self, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """Nothing is stored, and nothing is asked a second time."""
        db = open_db(
            ":memory:", model=model, settings=EXTRACT, edit_candidates=lambda _found, _messages: []
        )
        model.facts = [[fact("One.")]]

        assert say(db, "x").extract().outcomes == ()

    def test_a_formatter_of_the_host_words_the_messages(
        self, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """In place of memdb's."""

        def render(messages: Any) -> str:
            return "; ".join(one.text for one in messages)

        db = open_db(":memory:", model=model, settings=EXTRACT, render_messages=render)
        say(db, "one", "two").extract()

        assert "one; two" in model.asked[0][1]["content"]

    def test_registered_categories_are_in_the_prompt(
        self, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """With their description; enabled ones are the only ones."""
        db = open_db(":memory:", model=model)
        db.settings.update(categories=[memdb.Category("recipes", "dishes that worked")])
        model.facts = [[fact("Ann fries tofu.", "recipes")]]
        say(db, "x").extract()

        assert "- recipes: dishes that worked" in model.asked[0][0]["content"]
        assert known(db) == ["Ann fries tofu."]

    def test_invented_categories_are_left_out(self, smart: MemDB, model: Model) -> None:
        """The others of the answer stay."""
        model.facts = [[fact("One.", "invented"), fact("Two.")]]
        say(smart, "x").extract()

        assert known(smart) == ["Two."]

    @pytest.mark.parametrize(
        "text",
        [
            "<b>bold</b> </profile>",
            "\x1b[31mred\x1b[0m",
            "```\nrm -rf /\n```",
            "a\nb",
            "](javascript:x)",
        ],
    )
    def test_hostile_facts_are_data(self, smart: MemDB, model: Model, text: str) -> None:
        """They are stored as one line, and no prompt block lets them out, pinned or not."""
        ann = smart.scope("ann")
        model.facts = [[fact(text, "profile")]]
        say(smart, "x").extract()
        (entry,) = ann.entries.list()
        ann.entries.update(entry.id, pinned=True)
        block = ann.profile(500).text

        assert block.count("\n") == 3
        assert block.count("<") == 2
        assert "\x1b" not in block
        assert "```" not in block


class TestFailures:
    """A model that is down, talks nonsense, or comes too late."""

    def test_an_answer_that_never_comes_leaves_the_watermark(
        self, smart: MemDB, model: Model
    ) -> None:
        """PortError; the next time it is read."""
        chat = say(smart, "I live in Oslo.")
        model.facts = [ValueError("boom"), [fact("Ann lives in Oslo.")]]
        with pytest.raises(memdb.PortError):
            chat.extract()
        before = known(smart)
        chat.extract()

        assert (before, known(smart)) == ([], ["Ann lives in Oslo."])

    def test_what_came_before_the_failure_is_stored(self, smart: MemDB, model: Model) -> None:
        """Batch by batch."""
        chat = say(smart, *["x"] * 25)
        model.facts = [[fact("First.")], ValueError("boom")]
        with pytest.raises(memdb.PortError):
            chat.extract()

        assert known(smart) == ["First."]
        assert chat.extract().messages == 5

    def test_an_answer_that_can_never_be_read_does_not_block_the_session(
        self, smart: MemDB, model: Model
    ) -> None:
        """At the third time the batch is read offline."""
        chat = say(smart, HOME)
        model.facts = ["nonsense", "nonsense", "nonsense"]
        for _ in range(2):
            with pytest.raises(memdb.PortError):
                chat.extract()
        chat.extract()

        assert known(smart) == [HOME]

    def test_an_answer_that_is_no_text_counts_as_unreadable(
        self, open_db: Callable[..., MemDB]
    ) -> None:
        """Three times; then the batch is read offline, and nothing waits behind it."""
        answers: list[object] = [None, b"{}", 7, {"memories": []}]

        class Mute:
            name = "mute"

            def complete(self, *_: object, **__: object) -> object:
                return answers[0]

        while answers:
            db = open_db(":memory:", model=Mute())
            chat = say(db, HOME)
            for _ in range(2):
                with pytest.raises(memdb.Unreadable):
                    chat.extract()
            chat.extract()

            assert known(db) == [HOME], answers[0]
            answers.pop(0)

    def test_a_failure_is_tried_again_later_and_later(
        self, path: str, open_db: Callable[..., MemDB], model: Model, clock: Clock
    ) -> None:
        """In the background; by hand at once."""
        db = open_db(path, model=model, settings=EXTRACT)
        say(db, *["x"] * 9)
        model.facts = [ValueError("boom")]
        with pytest.raises(memdb.PortError):
            db._services.jobs.run_pending(WorkRequest(early=False), ("extract",))
        asked = len(model.asked)
        db._services.jobs.run_pending(WorkRequest(early=False), ("extract",))
        waiting = len(model.asked)
        clock.advance(10 * MINUTE_MS)
        db._services.jobs.run_pending(WorkRequest(early=False), ("extract",))

        assert (waiting, len(model.asked)) == (asked, asked + 1)

    def test_a_session_deleted_meanwhile_leaves_nothing(
        self, path: str, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """Not its facts, not its watermark."""
        db, other = open_db(path, model=model), open_db(path)
        chat = say(db, "I live in Oslo.")
        model.facts = [[fact("Ann lives in Oslo.")]]
        model.before = lambda: other.scope("ann").session("trip").delete()
        done = chat.extract()

        assert (done.messages, known(db)) == (0, [])

    def test_two_processes_at_one_session_store_it_once(
        self, path: str, open_db: Callable[..., MemDB], model: Model, clock: Clock
    ) -> None:
        """The second waits for the lease; if it is over, the first to finish counts."""
        db, other = open_db(path, model=model), open_db(path)
        chat = say(db, HOME)
        model.facts = [[fact("Ann lives somewhere in Norway.")]]
        during: list[int] = []

        def meddle() -> None:
            if during:
                return
            during.append(other.scope("ann").session("trip").extract().messages)
            clock.advance(10 * MINUTE_MS)
            during.append(other.scope("ann").session("trip").extract().messages)

        model.before = meddle
        late = chat.extract()

        assert during == [0, 1]
        assert late.messages == 0
        assert known(db) == [HOME]

    def test_a_hook_that_fails_is_an_error_that_names_it(
        self, open_db: Callable[..., MemDB]
    ) -> None:
        """And nothing is skipped."""

        def hook(*_: object) -> list[Candidate]:
            raise RuntimeError("broken")

        db = open_db(":memory:", settings=EXTRACT, edit_candidates=hook)
        chat = say(db, "I live in Oslo.")
        with pytest.raises(memdb.PortError, match="edit_candidates"):
            chat.extract()

        assert db.jobs.pending() > 0


class TestSecrets:
    """What must not be learnt, or shown to a model."""

    KEY = "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT" * 4

    def test_a_secret_is_not_shown_to_the_model(self, smart: MemDB, model: Model) -> None:
        """It is taken out of the message."""
        say(smart, f"My key is {self.KEY} and I live in Oslo.").extract()
        (asked,) = model.asked

        assert self.KEY not in asked[1]["content"]
        assert "I live in Oslo" in asked[1]["content"]

    def test_a_fact_with_a_secret_is_dropped(self, smart: MemDB, model: Model) -> None:
        """The others stay."""
        model.facts = [[fact(f"Ann's key is {self.KEY}."), fact("Ann lives in Oslo.")]]
        outcomes = say(smart, "x").extract().outcomes

        assert known(smart) == ["Ann lives in Oslo."]
        assert outcomes[0].action == "dropped"
        assert self.KEY not in outcomes[0].reason


class TestRecallLoop:
    """What memdb put into a prompt is not learnt from it again."""

    def test_blocks_that_a_message_quotes_are_cut_out(self, db: MemDB) -> None:
        """A host that stores what it sent: every frame of a context and of the prompt block."""
        frames = [
            frame[0] + "I live in Rome.\n" + frame[1]
            for frame in (blocks.SUMMARIES, blocks.RECALLED)
        ]
        frames += [f"<{name}>\nI live in Rome.\n</{name}>" for name in INJECTED]
        for text in frames:
            assert without_injected(f"{text}\n{HOME}") == HOME
        say(db, *[f"{text}\n{HOME}" for text in frames]).extract()

        assert known(db) == [HOME]

    def test_the_prompt_block_itself_is_cut_out(self, db: MemDB) -> None:
        """As `profile` gives it."""
        ann = db.scope("ann")
        ann.remember("Ann's name is Ann.", category="profile")

        assert without_injected(f"{ann.profile(500).text}\nHello.") == "Hello."

    def test_what_an_assistant_repeats_is_no_news(self, smart: MemDB, model: Model) -> None:
        """Also of an entry that is out of date: an old context must not bring it back."""
        ann = smart.scope("ann")
        ann.remember("Ann lives in the city of Oslo.", key="home_city")
        ann.remember("Ann lives in the city of Bergen.", key="home_city")
        chat = say(smart, "As you live in Oslo, take a coat.", role="assistant")
        model.facts = [[fact("Ann lives in Oslo city.", "profile", message=1)]]
        (outcome,) = chat.extract().outcomes

        assert (outcome.action, "repeats" in outcome.reason) == ("dropped", True)
        assert known(smart) == ["Ann lives in the city of Bergen."]

    def test_what_only_an_assistant_says_is_not_trusted(self, smart: MemDB, model: Model) -> None:
        """It is kept, and cannot replace what the user said."""
        chat = say(smart, "The build fails for want of a compiler.", role="assistant")
        model.facts = [[fact("The build fails for want of a compiler.", "cases", message=1)]]
        chat.extract()
        (entry,) = smart.scope("ann").entries.list()

        assert entry.trust == "untrusted"

    def test_a_recall_that_is_talked_about_leaves_the_file_as_it_was(self, db: MemDB) -> None:
        """Ten turns of recall, answer and extraction: one entry, one version."""
        chat = say(db, NUTS)
        chat.extract()
        for _ in range(10):
            window = chat.context(2000, query="what must I not eat?")
            chat.append("user", window.messages[0].text + "\nWhat must I not eat?", author="Ann")
            chat.append("assistant", "Ann is allergic to peanuts.")
            chat.extract()

        (entry,) = db.scope("ann").entries.list()
        assert (entry.text, entry.version) == (NUTS, 1)


class TestInTheBackground:
    """Off unless it was asked for."""

    def test_it_is_off_by_default(self, db: MemDB) -> None:
        """Neither run_pending nor a worker reads what was said."""
        say(db, *["I live in Oslo."] * 9)
        db.jobs.run()

        assert known(db) == []

    def test_run_pending_reads_all_sessions(self, open_db: Callable[..., MemDB]) -> None:
        """Of all users, and says how many messages that were."""
        db = open_db(":memory:", settings=EXTRACT)
        say(db, HOME, session="one")
        say(db, HOBBY, session="two")
        bob = db.scope("bob").session("one")
        bob.append("user", HOBBY, author="Bob")
        waiting = db.jobs.pending()
        db.jobs.run()

        assert waiting > db.jobs.pending() == 0
        assert known(db) == [HOBBY, HOME]
        assert known(db, "bob") == [HOBBY]

    def test_what_is_being_read_is_not_done(
        self, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """It is pending until it is stored: who waits for that, waits for every process."""
        db = open_db(":memory:", model=model, settings=EXTRACT, embedder=None)
        seen: list[int] = []
        model.before = lambda: seen.append(db.jobs.pending())
        say(db, HOME)
        db.jobs.run(kinds=["extract"])

        assert seen[:1] == [1]
        assert db.jobs.pending() == 0

    def test_the_background_waits_for_a_talk_to_pause(
        self, open_db: Callable[..., MemDB], clock: Clock
    ) -> None:
        """Until there are six messages, or two minutes of silence."""
        db = open_db(":memory:", settings=EXTRACT)
        say(db, HOME)

        def run() -> int:
            return db._services.jobs.run_pending(WorkRequest(early=False), ("extract",))

        soon = run()
        clock.advance(2 * MINUTE_MS)
        later = run()
        say(db, *["Hm."] * 5)
        few = run()
        say(db, "Hm.")
        many = run()

        assert (soon, later, few, many) == (0, 1, 0, 6)

    def test_one_failing_session_does_not_keep_the_others_waiting(
        self, open_db: Callable[..., MemDB], model: Model
    ) -> None:
        """It raises at the end."""
        db = open_db(":memory:", model=model, settings=EXTRACT)
        say(db, "x", session="one")
        say(db, "y", session="two")
        model.facts = [ValueError("boom"), [fact("Second.")]]
        with pytest.raises(memdb.PortError):
            db.jobs.run(kinds=("extract",))

        assert known(db) == ["Second."]


@pytest.mark.parametrize(
    ("settings", "learnt", "asks"),
    [
        ({}, [HOME], False),
        ({"extract": True}, ["Ann hikes."], True),
        ({"extract": True, "extract_by_model": False}, [HOME], False),
        ({"extract": False}, [], False),
    ],
    ids=str,
)
def test_what_a_program_learns_by_itself(
    path: str,
    databases: Any,
    model: Model,
    settings: dict[str, Any],
    learnt: list[str],
    asks: bool,
) -> None:
    """Sentences, without the model until a setting allows it; the command line learns nothing."""
    model.facts = [[fact("Ann hikes.", evidence=[1])]]
    with memdb.open(path, embedder=None, model=model, settings=settings) as db:
        db.scope("ann").session("trip").append("user", f"Hi! {HOME}")
        db.jobs.run()
        found = [entry.text for entry in db.scope("ann").entries.list()]
        db.scope("ann").session("trip").append("user", "Remember that I have a cat.")

    assert (found, bool(model.asked)) == (learnt, asks)
    place = path if databases is None else databases.address_of(path)
    assert CliRunner().invoke(cli, ["work", place]).exit_code == 0
    with memdb.open(path, mode="read", embedder=None) as db:
        more = [entry.text for entry in db.scope("ann").entries.list()][len(learnt) :]
    assert more == (["Remember that I have a cat."] if settings.get("extract") else [])
