//! Modules, initialisation, optimizers.
