"""The command line: one short file per command, each a plain function that `main.py` lists."""

EXIT_BUG = 1
EXIT_USER_ERROR = 2
EXIT_PARTIAL = 3
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
