"""Facts without a model: dates, sentences, rules, statements, and extracts of texts."""
