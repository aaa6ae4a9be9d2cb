"""The page and the JSON API of a file, on 127.0.0.1: `memdb web FILE` (extra `web`)."""
