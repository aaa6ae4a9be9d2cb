"""
One module per table: all portable SQL is here, the rest in `memdb.engine.sqlite`.

A room is a module of functions that take the transaction they run in, so a
write can only happen inside `with db.write() as tx` (ADR-0006). Services return
models and do not know each other.
"""
