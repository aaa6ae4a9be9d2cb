"""The offline defaults: models that come with memdb and need no network."""
