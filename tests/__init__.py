"""Tests of the whole: a package, since others of this name lie in packages that tests install."""
