"""
Datasette: search a memdb file from its pages (extra `datasette`).

Datasette loads `memdb.integrations.datasette.plugin` by its entry point. `docs/datasette.md` has
the views that it shows.
"""
