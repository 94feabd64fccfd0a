"""Faults to plant: a campaign that cannot find one of them is not testing."""
