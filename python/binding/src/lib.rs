//! The Python module `corten._C`.
