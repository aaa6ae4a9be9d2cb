"""Clients that use memdb: one package each, on the public API."""
