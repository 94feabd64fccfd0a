"""Mutation operators: what can be changed in a text of Python, and in one of C."""
