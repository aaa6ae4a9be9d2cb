"""`python -m memdb` is the command line."""

from __future__ import annotations

from memdb.cli import main

if __name__ == "__main__":
    main()
