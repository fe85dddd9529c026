"""Tell Ray that this machine is about to go, and wait until its workers have given their jobs away.

`python -m libranet.cluster.drain 25`, as a pod's preStop hook or on a cloud's notice of a spot machine's end: workers
stop after the next frame, their finished segments go to the store, and other machines go on with them.
"""

import argparse
import logging
import time
from typing import Any

_REASON = "this machine is about to be taken away"  # for Ray's log


def drain(node: str | None, seconds: float) -> bool:
    """Drain a node of the connected cluster; return whether nobody works there any more.

    Args:
        node: Its id, or None for this machine.
        seconds: How long it will be there.
    """
    import ray
    from ray._private.state import available_resources_per_node
    from ray.core.generated import autoscaler_pb2

    context = ray.get_runtime_context()
    node = node or context.get_node_id()
    begin = time.time()
    # The same as the command `ray drain-node`, which Ray's autoscaler calls for machines that are idle or preempted.
    store: Any = ray._raylet.GcsClient(address=context.gcs_address)  # type: ignore[attr-defined]
    code = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")  # type: ignore[attr-defined]
    accepted, why = store.drain_node(node, code, _REASON, int((begin + seconds) * 1000))
    if not accepted:
        raise SystemExit(f"Ray does not drain {node} ({why})")
    while time.time() - begin < seconds:
        cores = {one["NodeID"]: one["Resources"].get("CPU", 0) for one in ray.nodes() if one["Alive"]}
        if available_resources_per_node().get(node, {}).get("CPU", 0) >= cores.get(node, 0):
            return True
        time.sleep(0.5)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=25.0, help="how long this machine will be there")
    parser.add_argument("--address", default="auto", help="of the cluster")
    parser.add_argument("--node", help="another node than this machine's")
    given = parser.parse_args()
    import ray

    ray.init(address=given.address, log_to_driver=False, logging_level=logging.ERROR)
    print("nobody works here any more" if drain(given.node, given.seconds) else "time is up, somebody still works here")


if __name__ == "__main__":
    main()
