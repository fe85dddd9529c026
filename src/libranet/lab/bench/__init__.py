"""The cost and speed of networks at given frame sizes, ours and the peers'."""
