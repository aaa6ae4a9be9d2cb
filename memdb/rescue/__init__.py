"""
A file read byte by byte: recover a damaged one, restore a backup, prove that a text is gone.

It is outside the core, which imports it in one place (`memdb.api._container`) or not at all.
"""
