"""Versioned artifacts and their streams."""
