"""Background work: what is due, the scheduler and the worker."""
