"""Records: each thing is written and removed here, with all rows that depend on it."""
