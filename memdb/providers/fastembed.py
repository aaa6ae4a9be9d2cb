"""
ONNX models on this machine (extra `fastembed`) for the port `Embedder`.

A folder with a model is used offline as it is; a name from fastembed's own list
is downloaded by fastembed at its first use.
"""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdb.errors import FileError, InvalidInput
from memdb.models.model_client import port_error
from memdb.providers.shared import Client, embed_prefixed, missing_extra, prefixes_of
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Sequence

# Where exporters put the graph, best first.
MODEL_FILES = (
    "model.onnx",
    "onnx/model.onnx",
    "model_optimized.onnx",
    "model_quantized.onnx",
    "onnx/model_quantized.onnx",
)
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")

# Texts of one run of the model; more only take more memory.
BATCH = 32

# So much of a model file, in as many pieces, tells it from others.
PIECE_BYTES = 1 << 16
PIECES = 16


class FastEmbedEmbedder(Client):
    """
    A model of fastembed as a `memdb.models.protocols.Embedder`.

    The model is loaded at its first text: 0.3 s for all-MiniLM-L6-v2, then 5 ms
    for a chat message on one core. Of a text the first 8,000 characters count,
    or fewer if the model takes less. May be shared between threads.
    """

    __slots__ = ("_batch", "_folder", "_lock", "_model", "_source", "_threads", "dim", "name")

    def __init__(self, source: str, *, threads: int | None = None, batch: int = BATCH) -> None:
        """
        Find the model.

        Args:
            source: A name of fastembed's list, or a folder as
                sentence-transformers exports it. The folder has an ONNX graph
                (model.onnx, onnx/model.onnx) with one vector per token,
                tokenizer.json, tokenizer_config.json and config.json.
            threads: Threads of the runtime; None means as many as there are cores.
            batch: Texts of one run.

        Raises:
            InvalidInput: fastembed is not installed, the folder lacks
                something, or there is no such name.
            FileError: a file in the folder cannot be read.
        """
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise missing_extra("fastembed", error) from error
        self._source = source
        self._threads = None if threads is None else int_value(threads, "threads", 1, 1024)
        self._batch = int_value(batch, "batch", 1, 4096)
        self._lock = threading.Lock()
        self._model: Any = None
        self._folder = _Folder(Path(source)) if Path(source).is_dir() else None
        if self._folder is not None:
            self.dim: int = self._folder.dim
            self.name: str = f"fastembed:{self._folder.name}"
            return
        known = {one["model"].lower(): one for one in TextEmbedding.list_supported_models()}
        found = known.get(source.lower())
        if found is None:
            raise InvalidInput(
                f"{source!r} is neither a folder nor a model of fastembed: give a folder with "
                "model.onnx and tokenizer.json, or a name that "
                "TextEmbedding.list_supported_models() has"
            )
        self.dim, self.name = int(found["dim"]), f"fastembed:{found['model']}"

    def __repr__(self) -> str:
        """Return the model."""
        return f"FastEmbedEmbedder({self._source!r})"

    def embed(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
        """
        Return one vector per text; see `memdb.models.protocols.Embedder`.

        None for a text without anything but spaces.

        Raises:
            PortError: the model cannot be loaded, or fails.
        """
        return embed_prefixed(prefixes_of(self._source)[1], texts, self._run)

    def embed_query(self, text: str) -> Sequence[float] | None:
        """
        Return the vector of a question, with the prefix that the model wants.

        Raises:
            PortError: the model cannot be loaded, or fails.
        """
        return embed_prefixed(prefixes_of(self._source)[0], [text], self._run)[0]

    def _run(self, said: list[str]) -> list[Sequence[float]]:
        try:
            # Texts of a length together: a batch is padded to its longest.
            order = sorted(range(len(said)), key=lambda place: len(said[place]))
            vectors = self._loaded().embed([said[place] for place in order], self._batch)
            found = dict(zip(order, (vector.tolist() for vector in vectors), strict=True))
        except Exception as error:  # a runtime in C++ may raise anything
            raise port_error(self.name, error) from error
        return [found[place] for place in range(len(said))]

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> Any:
        from fastembed import TextEmbedding

        if self._folder is None:
            return TextEmbedding(self._source, threads=self._threads)
        name = self._folder.register()
        path = str(self._folder.path)
        return TextEmbedding(name, threads=self._threads, specific_model_path=path)


class _Folder:
    """A model in a folder: its files and its pooling."""

    def __init__(self, path: Path) -> None:
        """Read the small files in *path*."""
        self.path = path.resolve()
        found = [name for name in MODEL_FILES if (path / name).is_file()]
        lacking = [name for name in TOKENIZER_FILES if not (path / name).is_file()]
        if not found or lacking:
            lacks = ", ".join(lacking if found else [" or ".join(MODEL_FILES[:2]), *lacking])
            raise InvalidInput(
                f"the folder {str(path)!r} has no {lacks}: give a folder with a model"
            )
        self.file = found[0]
        pooling = self._json("1_Pooling/config.json")
        dim = pooling.get("word_embedding_dimension") or self._json("config.json").get(
            "hidden_size"
        )
        if not isinstance(dim, int):
            raise InvalidInput(
                f"config.json in {str(path)!r} has no hidden_size, so the dimension is unknown"
            )
        self.dim = dim
        self.pooling = "CLS" if pooling.get("pooling_mode_cls_token") else "MEAN"
        if pooling.get("pooling_mode_lasttoken"):
            self.pooling = "LAST_TOKEN"
        self.name = f"{self.path.name}-{self._digest()}"

    def register(self) -> str:
        """Register the model with fastembed, whose list is one per process; return its name."""
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        where = hashlib.sha256(f"{self.path}\n{self.name}".encode()).hexdigest()[:16]
        name = f"memdb-{where}"
        with _registering:
            known = {one["model"] for one in TextEmbedding.list_supported_models()}
            if name not in known:
                TextEmbedding.add_custom_model(
                    model=name,
                    pooling=PoolingType[self.pooling],
                    normalization=True,
                    # Never asked: the folder is given whenever the model is made.
                    sources=ModelSource(hf=name),
                    dim=self.dim,
                    model_file=self.file,
                )
        return name

    def _json(self, name: str) -> dict[str, Any]:
        """Return what the JSON file *name* says, {} where it is absent."""
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{name} in {str(self.path)!r} cannot be read: {error}") from error
        return found if isinstance(found, dict) else {}

    def _digest(self) -> str:
        """
        Return what tells the model from others in a folder of that name.

        Of a graph of 90 MB only pieces are read, or opening a file would take
        as long as reading all of it.
        """
        digest = hashlib.sha256(self.pooling.encode())
        try:
            digest.update((self.path / "tokenizer.json").read_bytes())
            with (self.path / self.file).open("rb") as graph:
                size = graph.seek(0, 2)
                digest.update(str(size).encode())
                for piece in range(PIECES):
                    graph.seek(max(size - PIECE_BYTES, 0) * piece // (PIECES - 1))
                    digest.update(graph.read(PIECE_BYTES))
        except OSError as error:
            raise FileError(f"{self.file} cannot be read: {error}", str(self.path)) from error
        return digest.hexdigest()[:8]


_registering = threading.Lock()
