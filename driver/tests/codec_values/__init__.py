"""Tests of the values of all types, against the server and beside asyncpg."""
