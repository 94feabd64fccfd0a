"""What each command does; every function returns its exit code."""
