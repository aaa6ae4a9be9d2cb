"""
Memory on its way between files: the JSON-lines export, and imports of it and of other formats.

`export.py` writes; `detect.py` finds out what a file is, a reader per format
turns it into `Item`s, and `sink.py` stores those in chunks. Importing again
adds nothing, so an import that was stopped is simply run again.
"""
