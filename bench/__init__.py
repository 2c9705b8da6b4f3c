"""The benches behind the project's claims of speed: each measures both sides of a ratio in one run."""
