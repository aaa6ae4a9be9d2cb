"""Short-term memory: conversations and the windows cut from them."""
