"""`make demo` and the flights that it, `make up` and the benches use."""
