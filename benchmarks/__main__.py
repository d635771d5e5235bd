"""`python -m benchmarks`: what ./scripts/bench calls."""

from benchmarks.engine import main

main()
