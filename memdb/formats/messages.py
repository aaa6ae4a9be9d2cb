"""
Messages of providers, as the core calls for them: see `memdb.models.messages.MessageFormats`.

The package `memdb` registers this module; a message in a provider's form loads it.
"""

from memdb.formats.provider_messages import read_messages, read_parts
from memdb.formats.shapes import to_shape

__all__ = ["read_messages", "read_parts", "to_shape"]
