"""Programs as folders that run where Didyma is not installed: built, checked and loaded."""
