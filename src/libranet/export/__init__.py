"""The network as a file for other runtimes."""
