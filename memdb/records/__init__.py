"""Things with all that hangs on them: the one way in and the one way out."""
