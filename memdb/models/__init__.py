"""
Values that callers get: messages, entries, summaries, hits, receipts and policies.

And the ports.
"""
