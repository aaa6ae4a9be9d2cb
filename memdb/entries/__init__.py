"""Long-term memory: entries and artifacts."""
