"""What campaigns judge: each domain draws cases, judges them, and proposes smaller ones."""
