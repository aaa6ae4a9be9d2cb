"""
Transfer: export as JSON lines, and import of these and of other formats.

`export` writes. `formats/` detects the format of a file and turns it into `Item`s.
`importer` stores those in chunks through `records/`.
`messages`, `entries`, `artifacts` and `others` contain the codec of each kind of
line, for both directions. Importing a file again adds nothing. `copy` copies a whole database.
"""
