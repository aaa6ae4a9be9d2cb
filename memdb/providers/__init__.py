"""
Clients of language models and embedding models: OpenAI-compatible, llm, fastembed, multilingual.

Each module implements protocols of `memdb.models.protocols` and needs an extra
of its own. A client library is imported when it is used, never before.
"""
