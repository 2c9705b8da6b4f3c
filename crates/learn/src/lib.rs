//! Training engines over plain matrices.
