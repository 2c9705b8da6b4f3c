"""The tests that need a live server."""
