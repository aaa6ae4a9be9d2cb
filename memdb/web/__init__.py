"""The page and the JSON API of a file, on loopback: `memdb web FILE` (extra `web`)."""
