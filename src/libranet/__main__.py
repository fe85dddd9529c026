"""`python -m libranet` is the `libranet` command."""

from libranet.cli.main import main

if __name__ == "__main__":
    main()
