"""Running a server until Ctrl-C."""

import gc
import logging
import socket
import sys
import webbrowser
from pathlib import Path
from typing import IO
from urllib.parse import quote

import uvicorn

from libranet.atomic import locked_file
from libranet.device import pick_device
from libranet.engine import load_network
from libranet.errors import InputError
from libranet.serve.app import make_app
from libranet.serve.connections import MOST_CONNECTIONS, PromptProtocol, is_no_cancellation
from libranet.serve.settings import ServeSettings


def run_server(settings: ServeSettings, *, open_browser: bool = False, show_token: bool = False) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        show_token: Print the address with its token. Logs keep what is printed.
    """
    for device in settings.devices:  # whatever can be refused is refused before the first visitor
        pick_device(device)
    load_network(settings.model, device="cpu")
    app = make_app(settings)
    with _lock(settings.folder), _listen(settings.host, settings.port) as listener:
        port = listener.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{port}{settings.sub_path}/"
        signed_in = address if settings.token is None else f"{address}?token={quote(settings.token)}"
        config = uvicorn.Config(
            app,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=2,
            limit_concurrency=2 * MOST_CONNECTIONS,
            http=PromptProtocol,
            forwarded_allow_ips=list(settings.trusted_proxies),
        )
        logging.getLogger("uvicorn.error").addFilter(is_no_cancellation)
        gc.collect()
        gc.freeze()  # what PyTorch has brought stays; looking through it again would delay answers
        shown = signed_in if show_token else address
        print(f"LiBrA-Net at {shown} (Ctrl-C ends it)", file=sys.stderr, flush=True)
        if open_browser:
            webbrowser.open(signed_in)
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot listen at {host}:{port} ({error.strerror}): choose another --port") from None


def _lock(folder: Path) -> IO[str]:
    """Keep two servers out of one folder."""
    if (lock := locked_file(folder / "lock")) is None:
        raise InputError(f"another server uses {folder}: end it, or choose another folder with --data")
    return lock
