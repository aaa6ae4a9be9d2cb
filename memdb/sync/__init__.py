"""
Two devices with one memory: segments in a folder that any program may transport.

The package uses the rows and the lines of an export, but no service of the API.
"""
