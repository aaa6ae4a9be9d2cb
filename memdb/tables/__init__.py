"""
One module per table, with the SQL that both engines run; each engine has additional SQL.

The functions take a transaction as argument, so a write can only happen inside `with db.write() as
tx` (ADR-0006). The functions return models, and no module imports another.
"""
