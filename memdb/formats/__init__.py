"""The package memdb.formats."""
