"""Starting a local cluster on a machine that is too busy at first."""

import socket
from types import SimpleNamespace

import pytest

from libranet.cluster.joining import LOCAL, MOST_LOCAL_STARTS, ClusterError, connect, session


@pytest.fixture
def starts(monkeypatch) -> list[int]:
    """Counts the starts; those before the number in it fail as Ray's do."""
    ray = pytest.importorskip("ray", reason="pip install 'libranet[cluster]'")
    state = [0, 0]

    def init(*_: object, **options: object) -> SimpleNamespace:
        state[0] += 1
        if state[0] < state[1]:
            raise Exception("The current node timed out during startup.\nLong story")
        return SimpleNamespace(dashboard_url="")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    return state


def test_a_local_cluster_is_started_once_more(starts):
    starts[1] = MOST_LOCAL_STARTS
    assert connect(LOCAL) == ""
    assert starts[0] == MOST_LOCAL_STARTS


def test_what_ray_prints_of_a_dead_node_stays_out_of_reports(starts, capsys):
    with session(LOCAL):
        print("(raylet) The node has been marked dead")  # as Ray's listener does, from a thread
    print("{}")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("{}\n", "(raylet) The node has been marked dead\n")


def test_after_some_starts_the_reason_is_one_line(starts):
    starts[1] = 100
    with pytest.raises(
        ClusterError, match=r"did not start on this machine \(The current node timed out.*startup\.\): is"
    ):
        connect(LOCAL)
    assert starts[0] == MOST_LOCAL_STARTS


def test_another_address_is_tried_once(starts):
    starts[1] = 100
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"ray://127.0.0.1:{head.getsockname()[1]}"
        with pytest.raises(ClusterError, match=rf"no Ray cluster at {address} \(The current node timed out"):
            connect(address)
    assert starts[0] == 1


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_answers_is_said_at_once(starts, scheme):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(ClusterError, match=rf"no Ray cluster at {address} \(Connection refused\): check the address"):
        connect(address)
    assert starts[0] == 0
