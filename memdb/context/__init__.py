"""What a model is handed within a token budget."""
