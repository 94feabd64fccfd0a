"""Sessions: tests types lint fuzz bench mutants gpu docs build."""
