"""
A file read byte by byte: recover a damaged one, restore a backup, prove that a text is gone.

The core imports it only in `memdb.api._container`, when a proof is needed. `memdb.postgres` uses
its searches.
"""
