"""The other end of `child.py`: how our processes read requests and write answers, and load a network for them."""

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any, TextIO

from libranet.device import ran_out_of_memory
from libranet.engine import load_network
from libranet.errors import InputError, LibraNetError
from libranet.network import Network
from libranet.serve.confine import limit_address_space
from libranet.serve.media import without_paths

Message = dict[str, Any]
Send = Callable[[Message], None]
Answer = Callable[[Message], Message]
Networks = dict[str, Network]
"""By what visitors call them: `best`, and `fast` where there is one."""


def chosen_network(networks: Networks, settings: Message) -> Network:
    """Return the network that a visitor's `RunSettings` name."""
    name = settings.get("model", "best")
    if name not in networks:
        raise InputError(f"this server has no {name} network: choose {' or '.join(networks)}")
    return networks[name]


class Channel:
    """Lines of JSON on standard input and output. Whatever else prints goes to standard error."""

    def __init__(self) -> None:
        """Take over the standard streams. The process ends when its input ends."""
        self._out: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._queue: Queue[Message] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: Message) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def requests(self) -> Iterator[Message]:
        while True:
            yield self._queue.get()

    def _read(self) -> None:
        for line in sys.stdin:
            self._queue.put(json.loads(line))
        os._exit(0)  # the server has gone; unfinished runs are safe on disk at any moment


def answer_with_network(begin: Callable[[Networks, Send], Answer]) -> None:
    """Be a process that has networks: `python -m MODULE DEVICE BEST FAST MEMORY` answers requests until its input ends.

    Args:
        begin: Returns what answers one request. It may send `{"progress": ...}` before that.
    """
    device, best, fast, memory = sys.argv[1:]
    logging.basicConfig(format="worker: %(message)s", level=logging.WARNING)
    channel = Channel()
    network = load_network(best or None, device=device)
    networks = {"best": network} | ({"fast": load_network(fast, device=device)} if fast else {})
    if network.device.type == "cpu":  # drivers of GPUs reserve more addresses than they use
        limit_address_space(int(memory))
    answer = begin(networks, channel.send)
    channel.send({"device": str(network.device), **network.weights.as_json()})
    for request in channel.requests():
        try:
            channel.send(answer(request))
        except Exception as error:
            path, name = request.get("source", ""), request.get("name", "the frame")
            channel.send({"error": sentence_for_visitors(error, path, name)})


def sentence_for_visitors(error: Exception, path: str, name: str) -> str:
    """Say what went wrong without saying where the server keeps its files. The log gets what nobody expected."""
    if isinstance(error, LibraNetError):
        return without_paths(str(error), Path(path).parent, name) if path else str(error)
    traceback.print_exception(error, file=sys.stderr)
    if ran_out_of_memory(error):
        return f"{name} takes more memory than the server gives to one file"
    return f"{name} could not be processed: the server's log says more"
