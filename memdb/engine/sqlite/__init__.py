"""The file: connection policy, transactions, schema, check and backup."""
