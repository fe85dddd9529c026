"""A Ray cluster to work on: joined, or started on this machine."""

import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from libranet.errors import LibraNetError, MissingDependencyError, install_command

logger = logging.getLogger(__name__)

LOCAL = "local"
"""The address of a cluster on this machine alone."""
MOST_LOCAL_STARTS = 3
"""How often a local cluster is started. Ray waits 30 s for its own processes, which a busy machine may not manage."""
REACH_SECONDS = 10.0
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


class ClusterError(LibraNetError):
    """The cluster cannot be reached, or has no place for a worker."""


def connect(address: str, *, cores: int | None = None, dashboard: bool = False) -> str:
    """Join a Ray cluster, or start one on this machine.

    Args:
        address: `local`, `auto` for the cluster that this machine belongs to, `host:port`, or `ray://host:port`.
        cores: Of a local cluster; None for all.
        dashboard: Start Ray's dashboard with a local cluster.

    Returns:
        Where the dashboard is; nothing where there is none.
    """
    try:
        import ray
    except ImportError:
        raise MissingDependencyError(f"--cluster needs Ray: {install_command('cluster')}") from None
    if ray.is_initialized():
        return ""
    if address == LOCAL:
        context = _start_local(ray, cores, dashboard=dashboard)
    else:
        _check_reachable(address)
        try:
            context = ray.init(address=address, **QUIET)
        except Exception as error:  # Ray raises all kinds
            reason = str(error).split("\n")[0]
            raise ClusterError(f"no Ray cluster at {address} ({reason}): check the address, or use --cluster") from None
    url = context.dashboard_url
    return f"http://{url}" if url else ""


@contextmanager
def session(address: str, *, dashboard: bool = False) -> Iterator[str]:
    """Join a cluster as `connect` does. Stdout is for reports: what Ray prints there of dead nodes goes to stderr.

    Ray is left when the process ends, after the report: without its raylet `ray.shutdown` ends the process.
    """
    with redirect_stdout(sys.stderr):
        yield connect(address, dashboard=dashboard)


def _check_reachable(address: str) -> None:
    """Raise an error where nobody answers at `host:port`: Ray would try for ten minutes, with a warning every 5 s."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return  # auto, or an address of another kind, such as one of Ray's own plug-ins
    try:
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ClusterError(f"no Ray cluster at {address} ({reason}): check the address, or use --cluster") from None


def _start_local(ray: Any, cores: int | None, *, dashboard: bool) -> Any:
    """Start Ray on this machine, and once more where the machine was too busy for it."""
    shown = None if dashboard else False  # None: a dashboard that does not start is no failure
    settings = {"worker_niceness": 0}  # Ray's own default starves workers wherever anything else runs on the machine
    for attempt in range(1, MOST_LOCAL_STARTS + 1):
        try:
            return ray.init(LOCAL, num_cpus=cores, include_dashboard=shown, _system_config=settings, **QUIET)
        except Exception as error:  # Ray raises all kinds
            reason = str(error).split("\n")[0]
            logger.info("Ray did not start (%s), attempt %d", reason, attempt)
    raise ClusterError(f"Ray did not start on this machine ({reason}): is it too busy? Try again")


def pick_cluster_device(device: str) -> str:
    """Return where the workers of the connected cluster compute: `cuda` or `cpu`; `auto` takes GPUs where there are."""
    import ray

    if device not in ("auto", "cpu", "cuda"):
        raise ClusterError(f"expected --device auto, cpu or cuda with --cluster, got {device}: Ray hands out the GPUs")
    gpus = any(node["Alive"] and node["Resources"].get("GPU") for node in ray.nodes())
    if device == "cuda" and not gpus:
        raise ClusterError("no node of the cluster has a GPU: use --device cpu")
    return "cuda" if gpus and device != "cpu" else "cpu"
