"""Other implementations of tensor programs, judged by the same bars; each is optional."""
