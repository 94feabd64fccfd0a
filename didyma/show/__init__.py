"""What the commands print for people: a module for each kind of result."""
