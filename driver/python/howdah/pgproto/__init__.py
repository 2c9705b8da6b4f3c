"""Values that PostgreSQL has and Python has not, where libraries look for them."""
