"""Values that users hold: messages, entries, summaries, hits, receipts and policies; the ports."""
