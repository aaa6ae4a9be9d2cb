"""
A file read byte by byte: recover a damaged one, restore a backup, prove that a text is gone.

Stands around the core, which imports it in one place (`memdb.api._container`) or not at all.
"""
