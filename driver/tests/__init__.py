"""Tests of the Python driver."""
