"""
Transfer: the JSON-lines export, and imports of it and of other formats.

`export` writes. `files` detects the format of a file, a module of `formats/`
turns it into `Item`s, and `batch` stores those in chunks by way of `records/`.
Importing again adds nothing, so a stopped import is simply run again.
"""
