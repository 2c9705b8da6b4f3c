"""The pages, a file for each part of the console."""
