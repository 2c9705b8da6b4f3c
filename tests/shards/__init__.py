"""Tests of the extension howdah_shards: a hub and its shards."""
