"""A folder of files: a memdb file for each user, opened when it is asked for."""
