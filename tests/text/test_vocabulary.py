"""Counting by single tokens of the file: the counts are those of tiktoken for every text."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import memdb
from memdb.text import tokens, vocabulary
from memdb.text.resources import compiled
from memdb.text.vocabulary import PieceCounter, Vocabulary

ROOT = Path(memdb.__file__).parents[1]

LOADED = """
import sys
from memdb.text.tokens import TiktokenCounter
count = TiktokenCounter("cl100k_base").count(sys.argv[1])
print(count, *sorted({"tiktoken", "numpy", "lzma", "re", "regex", "typing"} & {*sys.modules}))
"""


@pytest.fixture(scope="module")
def content() -> bytes:
    """Return the packed file."""
    return tokens._read("cl100k_base.tokens")


@pytest.fixture
def pieces(content: bytes) -> PieceCounter:
    """Return a counter that has met nothing yet."""
    return PieceCounter(Vocabulary(content), by_tiktoken)


def by_tiktoken(text: str) -> int:
    """Return the count of tiktoken's own encoder."""
    return len(tokens._encoding("cl100k_base").encode_ordinary(text))


def differences(pieces: PieceCounter, texts: list[str]) -> list[str]:
    """Return the texts that are counted otherwise than by tiktoken."""
    return [text for text in texts if pieces.count(text) != by_tiktoken(text)]


@pytest.mark.slow
def test_real_texts_have_the_counts_of_tiktoken(pieces: PieceCounter) -> None:
    """Every paragraph of memdb's documents and sources, which have many scripts."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "memdb").rglob("*.py")]
    texts = [text for path in paths for text in path.read_text("utf-8").split("\n\n")]

    assert len(texts) > 5_000
    assert differences(pieces, texts) == []


@pytest.mark.slow
def test_every_character_has_the_count_of_tiktoken_wherever_it_stands(
    pieces: PieceCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All characters that are counted here: as letter, digit, space or sign, as tiktoken does."""
    monkeypatch.setattr(vocabulary, "MAX_MERGED", 1 << 30)
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    is_unknown = compiled(vocabulary._UNKNOWN).search
    counted_here = [one for one in every if one.isascii() or not is_unknown(one)]
    texts = [f"a{one}b 1{one}2 {one} {one}{one}\n  {one}s '{one}\n" for one in counted_here]

    assert 3_000 < len(counted_here) < 10_000
    assert differences(pieces, texts) == []


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_have_the_counts_of_tiktoken(pieces: PieceCounter, seed: int) -> None:
    """White space of all kinds, apostrophes, marks, scripts and pictures side by side."""
    dice = random.Random(seed)
    signs = [
        *map(chr, range(128)),
        *"'sS'tT'veVE'llLL  \n\n\r\t\x1c\x1f\x0b\x0c\x85\xa0\u2028\u3000",
    ]
    signs += [
        *"éßſİıǅ\u0301\u200d\ufe0f’“—…€½²١२中文かな한\ud800\udc00\U0001f600\U0001f3fd\U000e0041"
    ]
    texts = ["".join(dice.choices(signs, k=dice.randrange(60))) for _ in range(2_000)]

    assert differences(pieces, texts) == []


@pytest.mark.parametrize("merged", [0, 3])
def test_tiktoken_takes_over_when_many_pieces_were_merged(
    content: bytes, merged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on it counts each new piece, once."""
    asked: list[str] = []
    monkeypatch.setattr(vocabulary, "MAX_MERGED", merged)
    words = [f"{first}qx{last}zk" for first in "abcd" for last in "xyzw"]
    pieces = PieceCounter(Vocabulary(content), lambda text: asked.append(text) or by_tiktoken(text))

    counts = [[pieces.count(word) for word in words] for _ in range(2)]

    assert counts == [[by_tiktoken(word) for word in words]] * 2
    assert asked == words[merged:]


def test_what_is_kept_is_bounded(pieces: PieceCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a million words needs no more memory than one with thirty thousand."""
    monkeypatch.setattr(vocabulary, "MAX_KEPT", 100)
    text = " ".join(f"{number:03}" for number in range(1000))

    assert pieces.count(text) == by_tiktoken(text)
    assert len(pieces) <= 100


def test_a_long_piece_is_not_kept(pieces: PieceCounter) -> None:
    """What is longer than any word is hardly met twice."""
    text = "x" * 5_000

    assert pieces.count(text) == by_tiktoken(text)
    assert len(pieces) == 0


@pytest.mark.parametrize("size", [0, 3, 16, 100_000, 700_000, -1])
def test_a_file_that_was_cut_is_refused(content: bytes, size: int) -> None:
    """A count from half a vocabulary would be wrong."""
    with pytest.raises(ValueError, match="vocabulary"):
        Vocabulary(content[:size])


def test_numbers_of_the_other_byte_order_are_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the same for every machine."""
    little = vocabulary._words(b"\1\0\0\0\0\0\0\2", 0, 2)[:]
    monkeypatch.setattr(vocabulary.sys, "byteorder", "big")

    assert [*vocabulary._words(b"\0\0\0\1\2\0\0\0", 0, 2)] == [*little]


@pytest.mark.parametrize(
    ("text", "needs_encoder"),
    [
        ("Dear diary, we've had 2 cups of tea at Hótel – 3,50 €! \U0001f600", False),
        ("我们明天去公园", True),
    ],
)
def test_what_a_first_count_loads(text: str, needs_encoder: bool) -> None:
    """A message in a European script needs no encoder; others load it."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, text], capture_output=True, text=True, check=True
    )
    first, *modules = done.stdout.split()

    assert int(first) == by_tiktoken(text)
    assert ("tiktoken" in modules) is needs_encoder
