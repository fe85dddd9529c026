"""Published peers to compare with: a hazy frame in, a clear frame out."""
