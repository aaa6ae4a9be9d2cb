"""Token counters: literal counts, huge and broken texts, estimates, lazy loading."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import each

from memdb.errors import InvalidInput
from memdb.text import tokens
from memdb.text.tokens import EstimateCounter, TiktokenCounter, counter_by_name

LOADS_NOTHING = """
import sys
import memdb.text.tokens as tokens
counter = tokens.TiktokenCounter("o200k_base")
print(sorted({"tiktoken", "numpy", "regex"} & set(sys.modules)), tokens._encodings)
"""


@pytest.fixture(scope="module")
def cl100k() -> TiktokenCounter:
    """One counter for GPT-4's encoding."""
    return TiktokenCounter("cl100k_base")


@pytest.fixture(scope="module")
def o200k() -> TiktokenCounter:
    """One counter for GPT-4o's encoding."""
    return TiktokenCounter("o200k_base")


@each(
    "text, cl100k_tokens, o200k_tokens",
    [
        pytest.param("", 0, 0, id="empty"),
        pytest.param("I drink green tea.", 5, 5, id="short"),
        pytest.param("I'm allergic to peanuts. We fly to Oslo on 3 May.", 15, 14, id="english"),
        pytest.param("Ich trinke gern gr\u00fcnen Tee.", 10, 8, id="german"),
        pytest.param("Я люблю чай", 6, 3, id="russian"),
        pytest.param("我们明天去公园看花好吗？", 14, 10, id="chinese"),
        pytest.param("\U0001f600\U0001f389", 5, 3, id="emoji"),
        pytest.param("def f(x):\n    return x\n", 8, 8, id="code"),
        pytest.param("12345678", 3, 3, id="digits"),
        pytest.param("<|endoftext|>", 7, 7, id="special token as ordinary text"),
        pytest.param("a\ud800b", 3, 3, id="lone surrogate"),
        pytest.param("a\ufffdb", 3, 3, id="replacement character"),
    ],
)
def test_counts_are_tiktokens(
    cl100k: TiktokenCounter,
    o200k: TiktokenCounter,
    text: str,
    cl100k_tokens: int,
    o200k_tokens: int,
) -> None:
    """Both encodings give the counts that tiktoken gives with its own files."""
    counts = (cl100k.count(text), o200k.count(text))

    assert counts == (cl100k_tokens, o200k_tokens)


@pytest.mark.parametrize(
    ("text", "cl100k_tokens", "o200k_tokens"),
    [
        pytest.param("a" * 1_000_000, 125_000, 125_000, id="one letter"),
        pytest.param(
            "\u4e2d" * 300_000, 300_000, 300_000, id="one ideograph", marks=pytest.mark.slow
        ),
        pytest.param(" " * 1_000_000, 7_813, 7_813, id="spaces", marks=pytest.mark.slow),
        pytest.param(" " * 1_000_000 + "x", 7_814, 7_814, id="spaces before a word"),
        pytest.param(
            " \t" * 500_000, 499_999, 499_999, id="spaces and tabs", marks=pytest.mark.slow
        ),
        pytest.param("1" * 300_000, 100_000, 100_000, id="one digit", marks=pytest.mark.slow),
        pytest.param("." * 300_000, 4_688, 4_688, id="one sign", marks=pytest.mark.slow),
        pytest.param("\U0001f600" * 100_000, 200_000, 100_000, id="one emoji"),
        pytest.param("the quick brown fox, jumps! " * 10_000, 70_001, 70_001, id="prose"),
    ],
)
def test_huge_texts_are_counted_exactly(
    cl100k: TiktokenCounter,
    o200k: TiktokenCounter,
    text: str,
    cl100k_tokens: int,
    o200k_tokens: int,
) -> None:
    """Texts that make tiktoken slow or make it panic still get the right count."""
    counts = (cl100k.count(text), o200k.count(text))

    assert counts == (cl100k_tokens, o200k_tokens)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@pytest.mark.parametrize(
    "part",
    [
        pytest.param("We fly to Oslo, don't we?\n\n  - on 3 May 2024...\r\n", id="lines"),
        pytest.param("aGVsbG8gd29ybGQ5Zm9vYmFyMTIzNA7x/+", id="base64"),
        pytest.param("https://example.org/a/b?c=1&d=2/\n/\t x", id="addresses"),
        pytest.param("我们明天去公园看花好吗？好的！", id="chinese without breaks"),
        pytest.param("gr\u00fcnenTEEtrinken'sLLONG", id="mixed case without breaks"),
    ],
)
def test_chunked_count_is_the_whole_count(name: str, part: str) -> None:
    """Cutting a long text into chunks changes nothing about its count."""
    counter = TiktokenCounter(name)
    text = part * (100_000 // len(part))
    whole = len(tokens._encoding(name).encode_ordinary(text))

    assert counter.count(text) == whole


def test_many_surrogates_count_as_replacement_characters(cl100k: TiktokenCounter) -> None:
    """A long text of lone surrogates counts like as many U+FFFD."""
    broken, mended = cl100k.count_many(["\udc00" * 100_000, "\ufffd" * 100_000])

    assert broken == mended == 25_000


def test_surrogate_pairs_count_as_the_character_they_stand_for(o200k: TiktokenCounter) -> None:
    """A long text with characters in two halves counts like the text with them whole."""
    halves, whole = o200k.count_many(
        ["\ud83d\ude00b\udc00 " * 20_000, "\U0001f600b\ufffd " * 20_000]
    )

    assert halves == whole


def test_count_many_keeps_order_and_agrees_with_count(o200k: TiktokenCounter) -> None:
    """A bulk count is the single counts, in order, also for long and empty texts."""
    counts = o200k.count_many(["I drink green tea.", "", "1" * 300_000, "Я люблю чай"])

    assert counts == [5, 0, 100_000, 3]


def test_a_counter_may_be_shared_by_threads(cl100k: TiktokenCounter) -> None:
    """Eight threads counting at once get the counts that one gets."""
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(cl100k.count, ["I drink green tea."] * 200))

    assert counts == [5] * 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("a", 1, id="rounded up"),
        pytest.param("I drink green tea.", 5, id="english"),
        pytest.param("我们明天去公园看花好吗", 11, id="chinese"),
        pytest.param("Я люблю чай", 5, id="russian"),
        pytest.param("\U0001f600\U0001f389", 4, id="emoji"),
        pytest.param("\ud800", 1, id="lone surrogate"),
        pytest.param("a" * 4_000_000, 1_000_000, id="huge"),
    ],
)
def test_estimate(text: str, expected: int) -> None:
    """The estimate is a quarter per ASCII character, 1 per ideograph, 2 per emoji."""
    counter = EstimateCounter()

    assert (counter.count(text), counter.count_many([text])) == (expected, [expected])


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base", "estimate"])
def test_counter_by_name(name: str) -> None:
    """Each counter is found under the name it stores beside its counts."""
    counter = counter_by_name(name)

    assert counter.name == name


@pytest.mark.parametrize(
    ("model", "encoding"), [("gpt-4", "cl100k_base"), ("gpt-4o-2024-08-06", "o200k_base")]
)
def test_a_model_means_its_encoding(model: str, encoding: str) -> None:
    """The name that is stored is that of the encoding."""
    assert counter_by_name(model).name == encoding


@pytest.mark.parametrize("name", ["", "llama-4", "text-davinci-003", "Estimate", "p50k_base"])
def test_unknown_names_are_refused_and_the_valid_ones_named(name: str) -> None:
    """An unknown name is the caller's mistake, and the message says what is valid."""
    with pytest.raises(InvalidInput, match="cl100k_base, o200k_base, estimate"):
        counter_by_name(name)


def test_the_estimate_cannot_pass_for_an_encoding() -> None:
    """The exact counter refuses any name but those of its two encodings."""
    with pytest.raises(InvalidInput, match="cl100k_base or o200k_base"):
        TiktokenCounter("estimate")


def test_nothing_is_loaded_before_the_first_count() -> None:
    """Importing the module and making a counter loads no tiktoken and no table."""
    child = subprocess.run(
        [sys.executable, "-c", LOADS_NOTHING], capture_output=True, text=True, check=True
    )

    assert child.stdout == "[] {}\n"
