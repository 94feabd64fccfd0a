"""Random schedules of random functions, judged against the functions without them."""
