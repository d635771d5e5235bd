"""`python -m keyhole`: the command, where its folder is not on the path."""

from keyhole.cli import main

if __name__ == "__main__":
    main()
