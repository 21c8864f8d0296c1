"""`python -m prereg`: the command line, where its script is not on the path."""

from prereg.cli import main

if __name__ == "__main__":
    main()
