"""One module per format of another program."""
