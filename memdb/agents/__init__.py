"""Coding agents: their settings, their hooks, their transcripts. Uses the public API."""
