"""
Two devices, one memory: segments in a folder that any program carries.

It needs the rows and the lines of an export, and no service of the API.
"""
