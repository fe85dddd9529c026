"""The command line: one short file per command, each a plain function that `main.py` lists."""
