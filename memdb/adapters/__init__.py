"""
The public kit for adapters: a file that a framework uses, batches of items, and forms of JSON.
"""
