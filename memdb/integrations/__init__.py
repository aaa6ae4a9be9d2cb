"""Clients that use memdb: one package for each framework, on the public API."""
