//! The gradient engine. Knows no device.
