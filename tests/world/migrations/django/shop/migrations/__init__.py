"""How it became what it is."""
