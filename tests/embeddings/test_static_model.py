"""The static embedder: determinism, length, other scripts, nearness, lazy loading."""

import hashlib
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import isclose

import pytest

from memdb.embeddings import static_model
from memdb.embeddings.static_model import StaticEmbedder

LOADS_NOTHING = """
import sys
import memdb.embeddings.static_model as module
embedder = module.StaticEmbedder()
print(embedder.name, embedder.dim, sorted({"numpy", "lzma"} & set(sys.modules)), module._loaded)
"""


@pytest.fixture
def embedder() -> StaticEmbedder:
    """A fresh embedder, so that no word is known yet."""
    return StaticEmbedder()


def nearness(embedder: StaticEmbedder, one: str, other: str) -> float:
    """Return the cosine of two texts."""
    first, second = embedder.embed([one, other])
    assert first is not None
    assert second is not None
    one_numbers: tuple[float, ...] = struct.unpack("<128f", first)
    other_numbers: tuple[float, ...] = struct.unpack("<128f", second)
    return sum(x * y for x, y in zip(one_numbers, other_numbers, strict=True))


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        pytest.param("I drink green tea.", "da6cba08f337b9fd", id="english"),
        pytest.param("我们明天去公园看花", "c81b197ae8354871", id="chinese"),
        pytest.param("Я люблю чай", "5067af03efb3dac4", id="russian"),
    ],
)
def test_the_same_text_gives_the_same_bytes_everywhere(
    embedder: StaticEmbedder, text: str, digest: str
) -> None:
    """A vector's bytes are fixed, on every machine and with a cold or warm cache."""
    cold, warm = embedder.embed([text, text])

    assert cold == warm
    assert cold is not None
    assert hashlib.sha256(cold).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("I drink green tea.", id="english"),
        pytest.param("the", id="one stop word"),
        pytest.param("x", id="one letter"),
        pytest.param("7", id="one digit"),
        pytest.param("qzxvkj" * 20, id="no word"),
        pytest.param("茶", id="one ideograph"),
        pytest.param("أحب الشاي الأخضر", id="arabic"),
        pytest.param("मुझे हरी चाय पसंद है", id="hindi"),
        pytest.param("ฉันชอบชาเขียว", id="thai"),
        pytest.param("오늘 산책했어요", id="korean"),
    ],
)
def test_vectors_have_length_one(embedder: StaticEmbedder, text: str) -> None:
    """Each vector is 128 little-endian float32 numbers of length 1."""
    (vector,) = embedder.embed([text])

    assert vector is not None
    assert len(vector) == 512
    assert isclose(sum(x * x for x in struct.unpack("<128f", vector)), 1, abs_tol=1e-6)


@pytest.mark.parametrize("text", ["", " \n\t", "?! ...", "___", "\U0001f600", "\ud800", "\u0301"])
def test_texts_without_words_have_no_vector(embedder: StaticEmbedder, text: str) -> None:
    """Where there is no letter and no digit, there is nothing to embed."""
    vectors = embedder.embed([text, "tea"])

    assert vectors[0] is None
    assert vectors[1] is not None


def test_no_texts_give_no_vectors(embedder: StaticEmbedder) -> None:
    """An empty batch has an empty answer."""
    assert embedder.embed([]) == []


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        pytest.param("I love my dog", "My puppy is so cute", "The stock market fell", id="dog"),
        pytest.param("What does Ann drink?", "I have green tea", "We drove to Oslo", id="drink"),
        pytest.param("I am a doctor", "a nurse at the hospital", "pizza with cheese", id="work"),
        pytest.param("Я люблю зелёный чай", "зелёного чая купить", "собака бежит", id="russian"),
        pytest.param("我今天去公园看花", "明天我们在公园散步", "数据库的性能", id="chinese"),
    ],
)
def test_similar_texts_are_nearer_than_unrelated_ones(
    embedder: StaticEmbedder, text: str, near: str, far: str
) -> None:
    """A text on the same matter is nearer, clearly, than one on another."""
    assert nearness(embedder, text, near) > nearness(embedder, text, far) + 0.15


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Green TEA", "green tea", id="case"),
        pytest.param("green tea", "tea, green!", id="order and punctuation"),
        pytest.param("cafe\u0301", "cafe", id="accent"),
        pytest.param("stra\u00dfe", "strasse", id="sharp s"),
        pytest.param("\uff54\uff45\uff41", "tea", id="wide letters"),
        pytest.param("a\ud800b", "a b", id="lone surrogate"),
    ],
)
def test_what_does_not_matter(embedder: StaticEmbedder, one: str, other: str) -> None:
    """Case, accents, order and punctuation leave the vector as it is."""
    first, second = embedder.embed([one, other])

    assert first == second


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        pytest.param("I drink green tea every morning", True, id="english"),
        pytest.param("tea \u8336", True, id="half"),
        pytest.param("tea \u8336 \u82b1", False, id="less than half"),
        pytest.param("Я люблю зелёный чай", False, id="russian"),
        pytest.param("qzxvkj wqzzt", False, id="no words"),
        pytest.param("", False, id="empty"),
    ],
)
def test_covers(embedder: StaticEmbedder, text: str, covered: bool) -> None:
    """A text is covered when at least half of its words are in the table."""
    assert embedder.covers(text) is covered


@pytest.mark.parametrize(
    "letters",
    ["a" * 3_000_000, "\u4e2d" * 3_000_000, "tea 9 " * 500_000, "\ufdfa" * 3_000_000],
    ids=["one word", "one ideograph", "words", "ligature that grows"],
)
def test_only_the_beginning_of_a_huge_text_counts(embedder: StaticEmbedder, letters: str) -> None:
    """The work is bounded: what follows the first 65,536 characters changes nothing."""
    huge, beginning = embedder.embed([letters, letters[:65_536]])

    assert huge is not None
    assert huge == beginning


def test_the_heaviest_text_does_not_overflow(embedder: StaticEmbedder) -> None:
    """A word repeated as often as fits points where the word alone points."""
    cosine = nearness(embedder, "zoo " * 16_384, "zoo")

    assert isclose(cosine, 1, abs_tol=1e-6)


def test_the_word_cache_is_bounded(embedder: StaticEmbedder) -> None:
    """Many distinct words neither pile up nor change later answers."""
    before = embedder.embed(["green tea"])
    embedder.embed([f"{number}" for number in range(10_000, 20_000)])

    assert len(embedder._known) <= 4_096
    assert embedder.embed(["green tea"]) == before


def test_an_embedder_may_be_shared_by_threads(embedder: StaticEmbedder) -> None:
    """Eight threads embedding at once get the bytes that one gets."""
    texts = [f"tea number {number}" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: embedder.embed([text])[0], texts))

    assert together == StaticEmbedder().embed(texts)


def test_nothing_is_loaded_before_the_first_text() -> None:
    """Importing the module and making an embedder reads no table and no numpy."""
    child = subprocess.run(
        [sys.executable, "-c", LOADS_NOTHING], capture_output=True, text=True, check=True
    )

    assert child.stdout == "static-en-1 128 [] []\n"


def test_each_row_is_found_by_its_piece() -> None:
    """The file of pieces has as many as there are rows, each with a row of its own."""
    table = static_model.table()
    names = static_model.Rows(table.row_of._pieces)._pieces.ranks()

    assert len(names) == table.count == len(table.weights) == len(table.rows) // 64
    assert [table.row_of[name.decode()] for name in names] == [*range(table.count)]


@pytest.mark.parametrize("word", ["", "zzxqq", "\ud800", "中", "Tea", "a" * 100])
def test_a_word_that_is_no_piece_has_no_row(word: str) -> None:
    """Not found, whatever it is made of."""
    assert static_model.table().row_of[word] == static_model.NO_ROW


def test_what_is_kept_of_the_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million words need no more memory than some thousands."""
    monkeypatch.setattr(static_model, "_KEPT_PIECES", 50)
    rows = static_model.Rows(static_model.table().row_of._pieces)

    found = [rows[f"tea{number}"] for number in range(500)] + [rows["tea"]]

    assert len(rows) <= 50
    assert found[-1] == static_model.table().row_of["tea"] != static_model.NO_ROW


def test_a_word_has_the_same_pieces_however_many_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the lengths of pieces by their beginnings known, as without: the longest first."""
    drawn = [hashlib.sha256(b"%d" % number).hexdigest()[: number % 32 + 1] for number in range(300)]
    words = [*drawn, *"tea teapots unhappily 1930s 20th a z 9 zzxqq".split(), "a" * 32]
    new = {}
    for many in (1, 1 << 30):
        monkeypatch.setattr(static_model, "_MANY_ASKED", many)
        rows = static_model.Rows(static_model.table().row_of._pieces)
        table = static_model.table().replace(row_of=rows)
        new[many] = [static_model._sum_of_pieces(word, table) for word in words]
        assert bool(rows._longest) is (many == 1)

    assert new[1] == new[1 << 30]
