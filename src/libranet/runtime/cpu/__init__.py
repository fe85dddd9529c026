"""The network by our own CPU kernels."""
