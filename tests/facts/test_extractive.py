"""The extractive summariser: limits, what is kept, order, fairness, bounds."""

import subprocess
import sys
from pathlib import Path

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.facts.extractive import ExtractiveSummarizer
from memdb.models.protocols import Summarizer
from memdb.models.summaries import SourceItem, SummaryText
from memdb.text.tokens import counter_by_name


def strange(texts):
    """Count oddly: longer may be cheaper, and never less than 1."""
    return [1 + (len(text) * 7919 + sum(map(ord, text[:3]))) % 97 for text in texts]


def by_bytes(texts):
    """Count UTF-8 bytes, squared: far more than the sum of the parts."""
    return [len(text.encode("utf-8", "surrogatepass")) ** 2 for text in texts]


COUNTERS = {
    "cl100k_base": counter_by_name("cl100k_base").count_many,
    "estimate": counter_by_name("estimate").count_many,
    "strange": strange,
    "bytes squared": by_bytes,
    "nothing": lambda texts: [0 for _ in texts],
}
count = COUNTERS["cl100k_base"]


def said(*lines: tuple[str, str] | tuple[str, str, str]) -> list[SourceItem]:
    """Return messages from (who, text) or (who, text, role)."""
    return [
        SourceItem(seq, seq, line[0], line[2] if len(line) == 3 else "user", line[1])
        for seq, line in enumerate(lines, start=1)
    ]


def summaries(*texts: str) -> list[SourceItem]:
    """Return summaries one level down."""
    return [SourceItem(seq, seq, "summary", None, text) for seq, text in enumerate(texts, start=1)]


def summary(source: list[SourceItem], limit: int = 60, depth: int = 0) -> SummaryText:
    """Summarise by the default counter."""
    return ExtractiveSummarizer(count).summarize(source, depth=depth, limit_tokens=limit)


CHAT = said(
    ("Ann", "Hello! How are you? Nice weather, isn't it?"),
    ("Bob", "Fine, thanks! Lol. So good to hear from you."),
    ("Ann", "We decided to move the launch to 12 March 2025. It is what it is."),
    ("Bob", "Ok great! The budget is $4,500, and Dr. Okafor must sign it."),
    ("Ann", "Cool cool. See docs/launch_plan.md and https://example.org/x?id=7 for more."),
    ("Bob", "I prefer the train to Ljubljana, by the way."),
    ("Ann", "Haha, sure. Talk to you later!"),
)

PIECES = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            "We decided 12 May 2024 Kyoto app/main.py? 我们去北京。 Привет мир! "
            "🎉 error: \n - item ``` def f(): } supercalifragilistic \0 . ...".split(" ")
        ),
        max_size=60,
    ).map(" ".join),
)
SOURCES = st.lists(
    st.tuples(
        st.sampled_from(["Ann", "Bob Lee", "tool", "名前", ""]),
        PIECES,
        st.sampled_from(["user", "assistant", "tool", "system", None]),
    ),
    min_size=1,
    max_size=8,
)


def test_it_is_a_summarizer() -> None:
    """It has the port's name and quality."""
    summarizer = ExtractiveSummarizer(count)

    assert isinstance(summarizer, Summarizer)
    assert (summarizer.name, summarizer.quality) == ("extractive-2", "extractive")


@pytest.mark.parametrize("counter", COUNTERS)
@given(lines=SOURCES, limit=st.integers(1, 500), depth=st.integers(0, 2))
def test_the_limit_is_never_exceeded(counter, lines, limit, depth) -> None:
    """Whatever the text, the limit and the counter; and no NUL comes out."""
    count_many = COUNTERS[counter]
    made = ExtractiveSummarizer(count_many).summarize(said(*lines), depth=depth, limit_tokens=limit)

    assert made.text == "" or count_many([made.text])[0] <= limit
    assert "\0" not in made.text + (made.hint or "")
    assert made.hint is None or made.hint.strip()
    assert len((made.hint or "").split(", ")) <= 8


@given(lines=SOURCES, limit=st.integers(1, 60))
def test_a_text_is_never_summarised_by_nothing(lines, limit) -> None:
    """There is a text as soon as there is more than white space and a token for it."""
    source = said(*lines)
    made = summary(source, limit)

    assert bool(made.text.strip()) == any(item.text.replace("\0", " ").strip() for item in source)


@each("limit", range(1, 40))
def test_small_limits_are_kept_exactly(limit: int) -> None:
    """Even one token says something."""
    made = summary(CHAT, limit)

    assert made.text
    assert count([made.text])[0] <= limit


MIXED = [
    *CHAT,
    *said(
        ("名前", "我们决定五月三日去北京,预算是 4,500 元。谢谢!"),
        (
            "Bob",
            "```python\ndef main(path):\n    return open(path).read()\n```\nsee memdb/api/tools.py",
        ),
        ("read", "Traceback (most recent call last):\nValueError: port 8080 is in use", "tool"),
        ("Ann", ""),
    ),
]


@pytest.mark.parametrize("counter", ["cl100k_base", "estimate", "strange"])
def test_each_limit_is_kept_and_gives_the_same_again(counter: str) -> None:
    """From one token to 300, for talk, Chinese, code and what tools gave."""
    count_many = COUNTERS[counter]
    for limit in range(1, 301):
        first, second = (
            ExtractiveSummarizer(count_many).summarize(MIXED, depth=0, limit_tokens=limit)
            for _ in range(2)
        )
        assert first == second
        assert first.text == "" or count_many([first.text])[0] <= limit


def test_what_matters_comes_first_and_stays() -> None:
    """Names, numbers, dates, files and outcomes are there long before all of the talk is."""
    made = summary(MIXED, 150)

    for fact in ("12 March 2025", "$4,500", "launch_plan.md", "北京", "ValueError"):
        assert fact in made.text
    for filler in ("Nice weather", "Haha", "Lol", "谢谢"):
        assert filler not in made.text


PROGRAM = """
from memdb.facts.extractive import ExtractiveSummarizer
from memdb.models.summaries import SourceItem
from memdb.text.tokens import counter_by_name
words = "Oslo Rome tea 2024 app.py moved bought train ship house garden Kyoto".split()
source = [
    SourceItem(i, i, f"P{i % 3}", "user", ". ".join(
        " ".join(words[(i * j * k) % 12] for k in range(1, 7)) for j in range(1, 5)))
    for i in range(1, 20)
]
print(ExtractiveSummarizer(counter_by_name("estimate").count_many)
      .summarize(source, depth=0, limit_tokens=80))
"""


def test_the_same_source_gives_the_same_summary_in_every_process() -> None:
    """The seed of Python's hashes does not matter."""
    root = str(Path(memdb.__file__).parent.parent)
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONPATH": root, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "42")
    }

    assert len(found) == 1
    assert "Summary" in found.pop()


@pytest.mark.parametrize(
    "fact",
    [
        "decided",
        "12 March 2025",
        "$4,500",
        "Okafor",
        "docs/launch_plan.md",
        "https://example.org/x?id=7",
        "prefer the train to Ljubljana",
    ],
)
def test_facts_are_kept(fact: str) -> None:
    """Decisions, dates, sums, names, files, links and preferences survive."""
    assert fact in summary(CHAT, 85).text


@pytest.mark.parametrize("filler", ["Hello", "weather", "Lol", "Haha", "later", "Fine"])
def test_fillers_are_dropped(filler: str) -> None:
    """Greetings go even where there is room for them."""
    assert filler not in summary(CHAT, 400).text


def test_sentences_say_who_said_them_in_order() -> None:
    """A line per turn, those of one speaker in a row merged."""
    source = said(
        ("Ann", "The server is in Oslo. It has 64 GB of memory."),
        ("Ann", "Backups run at 02:30."),
        ("Bob", "Restore took 17 minutes in April."),
    )

    assert summary(source, 100).text == (
        "Ann: The server is in Oslo. It has 64 GB of memory. Backups run at 02:30.\n"
        "Bob: Restore took 17 minutes in April."
    )


def test_the_telling_lines_of_tool_output_are_kept() -> None:
    """Of two hundred lines those that say what went wrong."""
    output = "\n".join(
        [
            *(f"collecting module number {number}" for number in range(200)),
            "E   ValueError: bad token at 17",
            "FAILED tests/test_parser.py::test_nested",
            "1 failed, 41 passed in 2.31s",
        ]
    )
    made = summary(said(("Ann", "Run the tests."), ("pytest", output, "tool")), 60)

    assert "pytest: " in made.text
    assert "ValueError: bad token at 17" in made.text
    assert "tests/test_parser.py::test_nested" in made.text
    assert "1 failed, 41 passed" in made.text
    assert "number 100" not in made.text


def test_bodies_of_code_are_dropped() -> None:
    """What the code defines is enough."""
    body = "\n".join(f"    value_{number} = compute({number});" for number in range(40))
    source = said(("bot", f"I rewrote the loader:\n```python\ndef load_all():\n{body}\n```\nDone."))
    made = summary(source, 80)

    assert "[python code, 41 lines: def load_all]" in made.text
    assert "value_3" not in made.text


def test_an_answer_keeps_its_question() -> None:
    """Yes alone would say nothing."""
    source = said(
        ("Bob", "Should we bump the version to 2.4.1 for Friday?"),
        ("Ann", "Yes."),
        ("Bob", "Nice, see you around then, it was fun today!"),
    )

    assert summary(source, 30).text == (
        "Bob: Should we bump the version to 2.4.1 for Friday?\nAnn: Yes."
    )


def test_repetition_is_told_once() -> None:
    """What adds nothing is not taken, though there is room."""
    source = said(*[("Ann", "The deadline for the Mercury report is 3 May.")] * 6)

    assert summary(source, 200).text.count("Mercury") == 1


LONG = "The Kyoto office reported " + ", ".join(f"item{n} broken" for n in range(12)) + "."


def test_a_sentence_is_whole_or_left_out() -> None:
    """At every limit; cut, with a mark, only if no sentence fits."""
    source = said(("Ann", LONG), ("Bob", "We agreed to call Miyu at 14:30."))

    assert summary(source, 50).text == "Bob: We agreed to call Miyu at 14:30."
    assert summary(source, 200).text == f"Ann: {LONG}\n{summary(source, 50).text}"
    assert summary(said(("Ann", LONG)), 30).text.endswith("broken,\u2026")


@each("limit", range(1, 30))
def test_a_cut_is_marked(limit: int) -> None:
    """Where a token is left for the mark."""
    made = summary(said(("Ann", LONG)), limit)

    assert made.text.endswith("\u2026") or count([made.text])[0] >= limit - 1


def test_a_fact_of_known_words_is_kept() -> None:
    """Each word stands elsewhere in the text, and the sentence says something new."""
    facts = ["Ben prefers Kyoto.", "Priya prefers Oslo.", "Ben prefers Oslo."]
    source = summaries(*(f"Ann: {fact}" for fact in facts))

    assert summary(source, 200, depth=1).text == f"Ann: {' '.join(facts)}"


def test_what_summaries_say_again_and_again_weighs_less() -> None:
    """A fact said once comes first, whichever child says it."""
    talk = "Bob: The coffee machine makes a strange noise again"
    facts = ["We booked the hotel Miramar.", "The lease ends on 3 May.", "Miyu pays 400 euros."]
    source = summaries(*(f"{talk}{'.!'[n % 2]}\nAnn: {fact}" for n, fact in enumerate(facts)))

    assert summary(source, 26, depth=1).text == f"Ann: {' '.join(facts)}"
    assert summary(source, 200, depth=1).text.count("coffee") == 1


def test_each_child_is_told() -> None:
    """A long child does not push out a short one."""
    source = summaries(
        "\n".join(
            f"Ann: We decided on Project{n} with {n}00 units in City{n}." for n in range(1, 12)
        ),
        "Bob: The server in Oslo crashed at 14:05.",
        "Ann: Booked hotel Miramar in Lisbon for 4 nights.",
    )
    made = summary(source, 75, depth=1)

    assert "Project" in made.text
    assert "Bob: The server in Oslo crashed at 14:05." in made.text
    assert "Ann: Booked hotel Miramar in Lisbon for 4 nights." in made.text
    assert made.text.index("Project") < made.text.index("Oslo") < made.text.index("Miramar")


def test_speakers_of_children_are_merged() -> None:
    """Lines of one speaker become one, also across children; prose has no speaker."""
    source = summaries("Ann: Moved to Oslo.", "Ann: Bought a Volvo.\nProse about Kyoto temples.")

    assert summary(source, 100, depth=1).text == (
        "Ann: Moved to Oslo. Bought a Volvo.\nProse about Kyoto temples."
    )


def test_the_hint_names_what_is_left_out() -> None:
    """Topics of the source that are not in the text, comma separated."""
    made = summary(CHAT, 24)
    topics = (made.hint or "").split(", ")

    assert made.hint is not None
    assert all(topic not in made.text for topic in topics)
    assert all(any(topic in item.text for item in CHAT) for topic in topics)
    assert {"Ljubljana", "docs/launch_plan.md", "Okafor", "$4,500"} & set(topics)
    assert count([made.hint])[0] <= 26


def test_there_is_no_hint_where_nothing_is_left_out() -> None:
    """All was told."""
    assert summary(said(("Ann", "We meet in Oslo.")), 100).hint is None


@pytest.mark.parametrize("text", ["", " \n\t ", "\0", " \0 \n"], ids=repr)
def test_nothing_gives_nothing(text: str) -> None:
    """White space is no text."""
    assert summary(said(("Ann", text), ("Bob", ""))) == SummaryText("")


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param("🎉🎉🎉", 20, "Ann: 🎉🎉🎉", id="emoji"),
        pytest.param("🎉🎉🎉", 1, "\u2026", id="emoji that does not fit"),
        pytest.param("hi", 20, "Ann: hi", id="greeting only"),
        pytest.param("Hello there", 1, "Hello", id="one token"),
        pytest.param("```\n```", 20, "Ann: ``` ```", id="empty code"),
    ],
)
def test_little_is_better_than_nothing(text: str, limit: int, expected: str) -> None:
    """Where there is only little to say, it is said."""
    assert summary(said(("Ann", text)), limit).text == expected


def test_chinese_is_cut_and_kept() -> None:
    """The sentence that decides survives, the laughter does not."""
    source = said(
        ("安", "你好！我们决定五月三日去北京，住在王府井酒店。"),
        ("波", "好的。我会订火车票，预算是3000元。"),
        ("安", "哈哈！"),
    )
    made = summary(source, 60)

    assert "安: 我们决定五月三日去北京，住在王府井酒店。" in made.text
    assert "3000元" in made.text
    assert "哈哈" not in made.text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 5_000_000, id="one word"),
        pytest.param("word " * 1_000_000, id="one line"),
        pytest.param("! a" * 1_600_000, id="stops"),
        pytest.param("好" * 5_000_000, id="chinese"),
        pytest.param("\n".join(f"ERROR {n} failed id={n}" for n in range(200_000)), id="log"),
        pytest.param(" " * 5_000_000 + "tea", id="white space"),
    ],
)
def test_a_huge_source_is_read_at_its_ends_only(text: str) -> None:
    """The work is bounded: few calls of the counter, few characters."""
    counted: list[int] = []

    def spy(texts):
        counted.append(sum(map(len, texts)))
        return count(texts)

    source = said(("Ann", text), ("Bob", "We meet in Oslo."))
    made = ExtractiveSummarizer(spy).summarize(source, depth=0, limit_tokens=100)

    assert "Oslo" in made.text
    assert sum(counted) <= 40_000
    assert len(counted) <= 24


def test_a_chat_is_counted_in_a_few_calls() -> None:
    """Candidates at once, then the result, then the hint."""
    calls: list[int] = []

    def spy(texts):
        calls.append(len(texts))
        return count(texts)

    ExtractiveSummarizer(spy).summarize(CHAT, depth=0, limit_tokens=60)

    assert len(calls) <= 6
