"""A BERT so small that a test builds it on the fly: random weights, 8 words, 12 dimensions."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import onnx

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "green", "tea", "black", "coffee", "supper", "goose")
DIM, HEADS, LAYERS, INNER, PLACES = 12, 2, 2, 24, 16

BENCH = Path(__file__).parents[2] / "bench" / "bert_onnx.py"


def weights() -> dict[str, np.ndarray]:
    """Return the weights by the names of transformers; the same at each call."""
    random = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), DIM),
        "embeddings.position_embeddings.weight": (PLACES, DIM),
        "embeddings.token_type_embeddings.weight": (2, DIM),
        "embeddings.LayerNorm.weight": (DIM,),
        "embeddings.LayerNorm.bias": (DIM,),
    }
    for layer in range(LAYERS):
        base = f"encoder.layer.{layer}"
        dense = {
            f"{base}.attention.self.{part}": (DIM, DIM) for part in ("query", "key", "value")
        } | {
            f"{base}.attention.output.dense": (DIM, DIM),
            f"{base}.intermediate.dense": (INNER, DIM),
            f"{base}.output.dense": (DIM, INNER),
        }
        for name, (rows, columns) in dense.items():
            shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
        for name in (f"{base}.attention.output.LayerNorm", f"{base}.output.LayerNorm"):
            shapes |= {f"{name}.weight": (DIM,), f"{name}.bias": (DIM,)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder: Path) -> Path:
    """Write graph, tokenizer and configuration into *folder*, as an exporter does."""
    folder.mkdir(parents=True, exist_ok=True)
    bert = runpy.run_path(str(BENCH))["bert"]
    onnx.save_model(bert(weights(), heads=HEADS), folder / "model.onnx")
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    marks = [
        {
            "id": place,
            "content": word,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for place, word in enumerate(WORDS[:4])
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": marks,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", 3],
            "cls": ["[CLS]", 2],
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    said = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"model_max_length": PLACES, "pad_token": "[PAD]"},
        "config.json": {"hidden_size": DIM, "pad_token_id": 0},
    }
    for name, content in said.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def by_hand(tokens: list[str]) -> np.ndarray:
    """Return the vector of *tokens* as the formulas of BERT give it, mean-pooled, of length 1."""
    pooled = tokens_by_hand(tokens).mean(0)
    return pooled / np.linalg.norm(pooled)


def tokens_by_hand(tokens: list[str]) -> np.ndarray:
    """Return the vectors of [CLS], *tokens* and [SEP] as the formulas of BERT give them."""
    table = weights()

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return x @ table[f"{name}.weight"].T + table[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        middle = x - x.mean(-1, keepdims=True)
        scaled = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * table[f"{name}.weight"] + table[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        from math import erf, sqrt

        return x * 0.5 * (1 + np.vectorize(erf)(x / sqrt(2)))

    ids = [WORDS.index(token) for token in ["[CLS]", *tokens, "[SEP]"]]
    x = table["embeddings.word_embeddings.weight"][ids].astype(np.float64)
    x = x + table["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm("embeddings.LayerNorm", x + table["embeddings.token_type_embeddings.weight"][0])
    for layer in range(LAYERS):
        base, size = f"encoder.layer.{layer}", DIM // HEADS
        seen = []
        query, key, value = (
            dense(f"{base}.attention.self.{part}", x) for part in ("query", "key", "value")
        )
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            fit = np.exp(query[:, part] @ key[:, part].T / np.sqrt(size))
            seen.append(fit / fit.sum(-1, keepdims=True) @ value[:, part])
        x = x + dense(f"{base}.attention.output.dense", np.concatenate(seen, -1))
        x = norm(f"{base}.attention.output.LayerNorm", x)
        inner = gelu(dense(f"{base}.intermediate.dense", x))
        x = norm(f"{base}.output.LayerNorm", x + dense(f"{base}.output.dense", inner))
    return x
