"""Random index arithmetic, which judges its simplification and the schedules that rely on it."""
