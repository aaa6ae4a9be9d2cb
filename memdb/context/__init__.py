"""Contexts: the messages for a model within a token budget."""
