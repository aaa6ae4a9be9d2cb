"""
simonw/llm: a memdb file as tools and fragments (extra `llm`).

llm loads `memdb.integrations.llm.plugin` by its entry point; `docs/llm.md` says how it is used.
"""
