"""The summary DAG: planning, building and reading it."""
