"""Tests of the pooler on real servers."""
