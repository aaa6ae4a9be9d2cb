"""Text as bytes, words and tokens: validation, query words, counters."""
