"""
What memdb can be plugged into, and what can be plugged into memdb.

One file per client, each an extra of its own; a client is imported when it is
used, never before.
"""

from __future__ import annotations

from memdb.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.models.protocols import Embedder, Model

FORMS = "llm:NAME, openai:NAME or openai:NAME@http://HOST:PORT/v1"
EMBEDDER_FORMS = f"static, fastembed:DIR, {FORMS}"


def model_by_name(spec: str) -> Model:
    """
    Return the language model that *spec* names.

    Args:
        spec: `llm:NAME` for a model or alias of the llm package and its
            plugins; `openai:NAME` for OpenAI, with the key in OPENAI_API_KEY;
            `openai:NAME@URL` for another server of the same protocol (Ollama,
            LM Studio, llama.cpp).

    Raises:
        InvalidInput: no such form, the extra is not installed (the error says
            how to), or there is no such model.

    >>> model_by_name("gpt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    memdb.errors.InvalidInput: the model 'gpt' has no valid form: use llm:NAME, openai:NAME ...
    """
    kind, _, rest = spec.partition(":")
    name, url = _name_and_url(rest)
    if kind == "llm" and rest.strip():
        from memdb.providers.llm_models import LLMModel

        return LLMModel(rest)
    if kind == "openai" and name.strip():
        from memdb.providers.openai_models import OpenAIModel

        return OpenAIModel(name, base_url=url)
    from memdb.text.redact import redact

    raise InvalidInput(f"the model {redact(spec)!r} has no valid form: use {FORMS}")


def embedder_by_name(spec: str) -> Embedder:
    """
    Return the embedder that *spec* names.

    Args:
        spec: `static` for the table that comes with memdb; `fastembed:DIR` for
            an ONNX model in a folder, or `fastembed:NAME` for one of
            fastembed's list; `openai:NAME` for OpenAI, with the key in
            OPENAI_API_KEY; `openai:NAME@URL` for another server of the same
            protocol; `llm:NAME` for a model of the llm package and its plugins.

    Raises:
        InvalidInput: no such form, the extra is not installed (the error says
            how to), or there is no such model.

    >>> embedder_by_name("static").dim
    128
    >>> embedder_by_name("minilm")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    memdb.errors.InvalidInput: the embedder 'minilm' has no valid form: use static, ...
    """
    if spec == "static":
        from memdb.embeddings.static_model import StaticEmbedder

        return StaticEmbedder()
    kind, _, rest = spec.partition(":")
    name, url = _name_and_url(rest)
    if kind == "fastembed" and rest.strip():
        from memdb.providers.fastembed import FastEmbedEmbedder

        return FastEmbedEmbedder(rest)
    if kind == "llm" and rest.strip():
        from memdb.providers.llm_embedder import LLMEmbedder

        return LLMEmbedder(rest)
    if kind == "openai" and name.strip():
        from memdb.providers.openai_embedder import OpenAIEmbedder

        return OpenAIEmbedder(name, base_url=url)
    from memdb.text.redact import redact

    raise InvalidInput(f"the embedder {redact(spec)!r} has no valid form: use {EMBEDDER_FORMS}")


def _name_and_url(text: str) -> tuple[str, str | None]:
    """Cut NAME@URL; a name may hold `:` and `@` itself, a URL may hold `@`."""
    starts = [at for at in (text.find("@http://"), text.find("@https://")) if at >= 0]
    if not starts:
        return text, None
    return text[: min(starts)], text[min(starts) + 1 :]
