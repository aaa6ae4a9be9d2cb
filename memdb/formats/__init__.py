"""Formats of others: messages of providers, transcripts of coding agents, imports and writers."""
