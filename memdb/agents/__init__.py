"""Coding agents: their settings, hooks and transcripts. Uses the public API."""
