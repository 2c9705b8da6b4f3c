"""Tests of the whole: of the extension, and in folders of the pooler and of what people run."""
