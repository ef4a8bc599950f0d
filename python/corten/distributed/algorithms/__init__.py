"""What is done with modules and optimizers over several processes."""
