"""
The objects that a user of the library works with. They delegate to services, and contain no rules.
"""
