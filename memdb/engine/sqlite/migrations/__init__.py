"""
The steps from one file format to the next: `NNNN_what_it_does.sql`, named by the format they make.

Each step is plain SQL without a transaction of its own and ends in
`PRAGMA user_version = NNNN`. The same change adds the new form to schema.sql,
so that a file that was brought up equals a new one, and freezes the format
with `python tests/fixtures/freeze.py`. There is no step yet: format 1 is the
first, and until its release schema.sql just changes.
"""
