"""Delete, forget, proof and retention."""
