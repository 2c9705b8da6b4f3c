"""`make demo`, on the flights of devkit."""
