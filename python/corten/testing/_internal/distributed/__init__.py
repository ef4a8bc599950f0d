"""What tests of processes that compute together use."""
