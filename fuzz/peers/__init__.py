"""Other implementations, judged by the same bars.  Each is optional."""
