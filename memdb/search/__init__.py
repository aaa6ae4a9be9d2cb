"""Recall: candidates of every index, ranked by one explainable function."""
