//! The representation: dtypes, storage, geometry, dispatch keys, generators. Knows no operator.
