"""Where programs that take parts of ``vmap`` over find them."""
