"""What graphs of programs can be compiled with."""
