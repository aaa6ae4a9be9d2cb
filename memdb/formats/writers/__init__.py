"""Writers of exports for people, a module per format."""
