"""The public kit of adapters: a file that a host keeps, its batches, and forms of JSON."""
