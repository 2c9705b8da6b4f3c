"""The one kind of error that a user is shown."""


class Problem(Exception):
    """Something the caller can put right; its text says in a sentence what it is, and how."""
