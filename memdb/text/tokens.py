"""
Token counters: exact ones for OpenAI's encodings, an estimate, and a checked port.

The module owns the packed vocabularies in `data/` (made by `bench/pack_vocabularies.py`). tiktoken
downloads its vocabularies at first use; here they are in the package, so counting works offline and
uses no cache folder. Importing this module loads neither tiktoken nor a vocabulary; the first count
does, once per process and encoding. All counters may be shared between threads.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import accumulate, pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput, PortError
from memdb.models.ids import MAX_INT
from memdb.text.parts import extra_tokens
from memdb.text.resources import compiled, read_bytes
from memdb.text.vocabulary import PieceCounter, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import tiktoken

    from memdb.models.protocols import TokenCounter
    from memdb.models.settings import Settings

# Patterns and special tokens are part of the encodings' definition
# (Source: https://github.com/openai/tiktoken 0.14, tiktoken_ext/openai_public.py).
_CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_O200K_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEFINITIONS: dict[str, tuple[str, dict[str, int]]] = {
    "cl100k_base": (
        _CL100K_PATTERN,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": (_O200K_PATTERN, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
}

# Longest text handed to tiktoken in one go, in characters. Its regex engine
# panics on a run of some hundred thousand spaces, and one unbroken word of
# 10 MB takes it 7 s and more (tiktoken 0.14).
_CHUNK_CHARS = 32_768
_WINDOW_CHARS = 1_024
_DROPPED_TOKENS = 32
_UTF8_MASK = 0xC0
_UTF8_CONTINUATION = 0x80

# Where both patterns always start a new piece, and nothing to the left looks
# across: so counts of the two sides add up exactly. Python's \s is a superset
# of the regex crate's, which errs on the safe side in each of these.
_SAFE_CUT = (
    r"(?<=\S)(?=[ \t])"
    r"|(?<=[A-Za-z0-9])(?=[\r\n])"
    r"|(?<=\n)(?=[^\s/])"
    r"|(?<=[A-Za-z])(?=[0-9])"
    r"|(?<=[0-9])(?=[A-Za-z])"
)

# Replaced before decoding, whose own error handling takes 1 us for each of them.
_LONE_SURROGATE = "[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]"

# Letters of a syllable or a word each: Han, kana, hangul, bopomofo.
_CJK = "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
_EMOJI = "[\u2600-\u27bf\U0001f000-\U0001faff]"
_NOT_ASCII = r"[^\x00-\x7f]"
_QUARTERS_CJK = 4
_QUARTERS_EMOJI = 8
_QUARTERS_OTHER = 2

# Single tokens can be found in this encoding; the other one is not the default.
INDEXED_ENCODING = "cl100k_base"

_encodings: dict[str, tiktoken.Encoding] = {}
_loading = Lock()


class TiktokenCounter:
    """
    Counts tokens as OpenAI's models do, without a network.

    The first count costs 2 ms (cl100k_base) or 0.3 s (o200k_base). With cl100k_base, the first text
    in a script that is not European loads tiktoken in 0.1 s. After that a count costs 8 to 15 us
    per chat message and 0.1 s per megabyte of prose.

    Exact for every text of up to 32,768 characters. A longer text needs a space, a line break after
    a letter, or a change between ASCII letters and digits about every 1,000 characters. A longer
    unbroken stretch (one word, one row of symbols, Chinese without line breaks) is cut between two
    tokens. The count was exact in all tested cases but one (digits of another script, 300,000
    without a break, o200k_base: 0.02 % off); this is tested, not proven. Any 10 million characters
    take 1 to 6 s.

    Lone surrogates count as U+FFFD; special tokens count as ordinary text.

    Attributes:
        name: The encoding.

    >>> TiktokenCounter("o200k_base").count("I drink green tea.")
    5
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        """
        Count with the encoding *name*, "cl100k_base" or "o200k_base".

        Raises:
            InvalidInput: *name* is not one of the two.
        """
        if name not in _DEFINITIONS:
            raise InvalidInput(f"there is no encoding {name!r}: use {' or '.join(_DEFINITIONS)}")
        self.name = name

    def count(self, text: str) -> int:
        """Return the number of tokens in *text*, 0 for the empty text."""
        count = _counter_of[self.name]
        return count(text) if len(text) <= _CHUNK_CHARS else _count_long(self.name, text)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text, in order; 8 to 15 us per chat message."""
        count = _counter_of[self.name]
        return [
            count(text) if len(text) <= _CHUNK_CHARS else _count_long(self.name, text)
            for text in texts
        ]


class EstimateCounter:
    """
    Estimates the number of tokens from the kinds of characters; loads nothing.

    A quarter token per ASCII character, a half per other letter, 1 per CJK
    character, 2 per emoji, rounded up. Over English chat the sum is 11 % (cl100k_base) or 16 %
    (o200k_base) too high. For a single text of code, digits or another script it can be half or one
    and a half times the right number. So a budget kept by this estimate needs a reserve.

    >>> EstimateCounter().count("I drink green tea.")
    5
    """

    __slots__ = ()

    name = "estimate"  # so that no stored count passes for an exact one

    def count(self, text: str) -> int:
        """Return the estimated number of tokens in *text*, 0 for the empty text."""
        quarters = len(text)
        if not text.isascii():
            special = "".join(compiled(_NOT_ASCII).findall(text))
            cjk = len(compiled(_CJK).findall(special))
            emoji = len(compiled(_EMOJI).findall(special))
            quarters += (_QUARTERS_CJK - 1) * cjk + (_QUARTERS_EMOJI - 1) * emoji
            quarters += (_QUARTERS_OTHER - 1) * (len(special) - cjk - emoji)
        return -(-quarters // 4)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the estimate for each text, in order."""
        return [self.count(text) for text in texts]


class FactorCounter:
    """
    Estimates the tokens of a family of models whose tokenizer is not public.

    The count is that of cl100k_base times a factor, rounded up. The factors are
    estimates from published comparisons of English text and code.

    Attributes:
        name: The family.

    >>> FactorCounter("claude").count("I drink green tea.")
    7
    """

    __slots__ = ("_exact", "name")

    def __init__(self, family: str) -> None:
        """Count for the *family* of models, a key of `FACTORS`."""
        self.name = family
        self._exact = TiktokenCounter(DEFAULT_COUNTER)

    def count(self, text: str) -> int:
        """Return the estimated number of tokens in *text*."""
        return self.count_many([text])[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the estimate for each text, in order."""
        percent = FACTORS[self.name]
        return [-(-count * percent // 100) for count in self._exact.count_many(texts)]


# Percent of the tokens that cl100k_base counts.
FACTORS = {"claude": 130, "gemini": 110}

Counter = TiktokenCounter | EstimateCounter | FactorCounter


def counter_by_name(name: str) -> Counter:
    """
    Return the counter called *name*; nothing is loaded before its first count.

    Args:
        name: "cl100k_base", "o200k_base", "o200k_harmony", "estimate", or the name of a model, also
            after that of its provider ("openai/gpt-5"). Counts for Claude and Gemini are estimates.

    Raises:
        InvalidInput: there is no counter of that name.

    >>> counter_by_name("estimate").name, counter_by_name("claude-sonnet-4-5").name
    ('estimate', 'claude')
    """
    if name == "estimate":
        return EstimateCounter()
    model = name.rpartition("/")[2].lower()
    family = next((one for one in FACTORS if one in model), None)
    if family is not None:
        return FactorCounter(family)
    encoding = name if name in _DEFINITIONS else _encoding_of_model(model)
    if encoding in _DEFINITIONS:
        return TiktokenCounter(encoding)
    valid = ", ".join([*_DEFINITIONS, "estimate"])
    raise InvalidInput(
        f"there is no token counter {name!r}: use one of {valid}, or a model of OpenAI, Claude or "
        "Gemini"
    )


_OPENAI_MODEL = r"(gpt|chatgpt|codex|ft:gpt|o\d)(-|$)|o200k_harmony$"


def _encoding_of_model(model: str) -> str | None:
    """
    Return the encoding of a model by tiktoken's table.

    For an unknown newer model it is the newest one; None for a name that is no model of OpenAI.
    """
    try:
        from tiktoken.model import encoding_name_for_model  # noqa: PLC0415 (of the extra tiktoken)

        known: str | None = encoding_name_for_model(model)
    except (ImportError, KeyError):
        known = "o200k_base" if compiled(_OPENAI_MODEL).match(model) else None
    # The two differ in the special tokens alone, which count as ordinary text.
    return "o200k_base" if known == "o200k_harmony" else known


class _Counters(dict[str, "Callable[[str], int]"]):
    """By encoding, the counter for texts of up to `_CHUNK_CHARS` characters."""

    def __missing__(self, name: str) -> Callable[[str], int]:
        def count_by_encoder(text: str) -> int:
            # Not encode_ordinary_batch: its threads make short texts 3 times slower.
            return len(_encoding(name).encode_ordinary(text))

        if name != INDEXED_ENCODING:
            return self.setdefault(name, count_by_encoder)
        return self.setdefault(name, PieceCounter(_vocabulary(), count_by_encoder).count)


_counter_of = _Counters()


def _encoding(name: str) -> tiktoken.Encoding:
    """Return the encoding *name*, loaded at most once per process."""
    found = _encodings.get(name)
    if found is None:
        with _loading:
            found = _encodings.get(name)
            if found is None:
                found = _encodings[name] = _load(name)
    return found


def _load(name: str) -> tiktoken.Encoding:
    """Build the encoding *name* from its packed vocabulary."""
    try:
        import tiktoken  # noqa: PLC0415 (0.02 s that only a count should pay)
    except ImportError as error:
        raise PortError(
            f"counter {name!r}", "tiktoken is not installed: install it, or use 'estimate'"
        ) from error

    pattern, special = _DEFINITIONS[name]
    return tiktoken.Encoding(
        name, pat_str=pattern, mergeable_ranks=_ranks(name), special_tokens=special
    )


def _ranks(name: str) -> dict[bytes, int]:
    """Return rank by token; the packed formats are described in `bench/pack_vocabularies.py`."""
    if name == INDEXED_ENCODING:
        return _vocabulary().ranks()
    import lzma  # noqa: PLC0415 (of one encoding, which tiktoken counts by)

    plain = lzma.decompress(_read(f"{name}.xz"))
    count = plain.index(0)
    ends = list(accumulate(plain[:count], initial=count + 1))
    return {plain[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))}


def _vocabulary() -> Vocabulary:
    return Vocabulary(_read(f"{INDEXED_ENCODING}.tokens"))


def _read(name: str) -> bytes:
    return read_bytes(__file__, f"data/{name}")


def _count_long(name: str, text: str) -> int:
    """Return the number of tokens in a *text* of any length, counted in limited pieces."""
    count = _counter_of[name]
    if not text.isascii():
        text = compiled(_LONE_SURROGATE).sub("\ufffd", text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    total = 0
    start = 0
    while len(text) - start > _CHUNK_CHARS + _WINDOW_CHARS:
        end = start + _CHUNK_CHARS
        cut = compiled(_SAFE_CUT).search(text, end, end + _WINDOW_CHARS)
        if cut is not None:
            end = cut.start()
            total += count(text[start:end])
        else:
            encoding = _encoding(name)
            tokens = encoding.encode_ordinary(text[start:end])
            dropped, tail_chars = _uncertain_tail(encoding, tokens)
            total += len(tokens) - dropped
            end -= tail_chars
        start = end
    return total + count(text[start:])


def _uncertain_tail(encoding: tiktoken.Encoding, tokens: list[int]) -> tuple[int, int]:
    """
    Return how many of the last *tokens* to read again, and their characters.

    The last tokens before an arbitrary cut may change when more text follows; earlier
    tokens normally do not. The tail starts where a token
    and a character start together.
    """
    dropped = _DROPPED_TOKENS
    tail = b"".join(encoding.decode_tokens_bytes(tokens[-dropped:]))
    while tail[0] & _UTF8_MASK == _UTF8_CONTINUATION:
        dropped += 1
        tail = encoding.decode_single_token_bytes(tokens[-dropped]) + tail
    return dropped, len(tail.decode())


# Loads twice as fast as o200k_base, and rarely counts less than it does, so a
# budget kept with it holds for the newer models too.
DEFAULT_COUNTER = "cl100k_base"


@lru_cache(maxsize=1)
def _is_installed(name: str, _places: tuple[object, ...]) -> bool:
    """Return whether a module is in places where Python looks; the search takes 0.2 ms."""
    # Not importlib.util.find_spec: that is a module more to load.
    return any(one.find_spec(name, None) for one in sys.meta_path)


class Counting:
    """The token counter of an open file."""

    def __init__(self, counter: TokenCounter | str | None, settings: Settings) -> None:
        """
        Count by *counter*: a port, a built-in name, or None for the default.

        *settings* say what images, pages and sound cost.

        The default is "cl100k_base" where tiktoken is installed, else "estimate". If tiktoken is
        installed but cannot be loaded, it is "estimate" from the first text that needs tiktoken.

        Raises:
            InvalidInput: there is no built-in counter of that name.
        """
        self._is_default = counter is None
        if counter is None:
            # tiktoken has no wheels for some machines: what was estimated is counted
            # again where it is installed, because its name stands beside each count.
            has_tiktoken = _is_installed("tiktoken", (*sys.meta_path, *sys.path))
            counter = DEFAULT_COUNTER if has_tiktoken else "estimate"
        self._counter = counter_by_name(counter) if isinstance(counter, str) else counter
        self.settings = settings

    @property
    def name(self) -> str:
        """The counter's name, stored beside each count."""
        return self._counter.name

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """
        Return the tokens of each text.

        Raises:
            PortError: the counter failed, or did not return one number
                from 0 per text.
        """
        try:
            counts = list(self._counter.count_many(texts))
        except PortError:
            if not self._is_default:
                raise
            # For good, so that `name` is true of every count that follows.
            self._counter = EstimateCounter()
            return self._counter.count_many(texts)
        except Exception as error:
            raise PortError(f"counter {self.name!r}", str(error)) from error
        are_numbers = {*map(type, counts)} <= {int} and min(counts, default=0) >= 0
        if len(counts) != len(texts) or not are_numbers or max(counts, default=0) > MAX_INT:
            raise PortError(f"counter {self.name!r}", "it must give one int from 0 per text")
        return counts

    def extra_tokens(self, parts: Sequence[Any] | None) -> int:
        """Return the tokens of the parts of a message without text; 0 if there are none."""
        return extra_tokens(parts, self.settings, self.name) if parts else 0

    def count_or_estimate(self, texts: Sequence[str]) -> tuple[list[int], str]:
        """
        Return the tokens of each text and the name of the counter.

        If a host's counter fails they are estimated. A caller that needs exact counts
        counts again, because each count has the name of its counter.

        Raises:
            PortError: the library of a named counter of memdb's own is not installed.
        """
        try:
            return self.count_many(texts), self._counter.name
        except PortError:
            if isinstance(self._counter, Counter):
                raise
            estimate = EstimateCounter()
            return list(estimate.count_many(texts)), estimate.name
