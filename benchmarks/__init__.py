"""How fast keyhole is: measured apart from the tests, on the same path that a user runs."""
