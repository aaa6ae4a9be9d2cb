"""The objects a user holds. They delegate; no rules here."""
