"""The exceptions that a user's mistake raises. The command line prints them as one sentence, without a traceback."""


class LibraNetError(Exception):
    """Something the user can put right. The message states the rule, the value found, and what to do."""


class InputError(LibraNetError, ValueError):
    """A frame, clip, option or file that cannot be used as it is."""


class CheckpointError(LibraNetError):
    """A weights file that is missing, damaged, of another kind, or does not fit the network."""


class MissingDependencyError(LibraNetError):
    """An optional package or model that the requested feature needs and that is not installed."""
