"""Published peers and the two reference points of every comparison: the untouched input and the dark channel."""
