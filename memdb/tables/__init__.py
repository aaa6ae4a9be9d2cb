"""
One module per table: the SQL that both engines run; each engine has its own besides.

A module has functions that take the transaction they run in, so a write can only happen inside
`with db.write() as tx` (ADR-0006). They return models, and no module imports another.
"""
