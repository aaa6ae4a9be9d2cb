"""What both drivers of mem0 share: an embedder that gives the vector of the row at hand."""


class Embedder:
    """Gives the vector of the row that is being stored."""

    vector: list[float]

    def embed(self, *_: object, **__: object) -> list[float]:
        return self.vector

    def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
        return [self.vector for _ in texts]
