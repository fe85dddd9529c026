"""What a server does not do: other sites, no token, bad files, too much, too slowly."""

import asyncio
import fcntl
import socket
import struct
import time
import zlib

import httpx
import pytest

from clips import Clip, write_clip
from libranet.errors import InputError
from libranet.serve.guard import MOST_OF_ONE_ADDRESS, Guard
from libranet.serve.jobs import clean_name
from libranet.serve.run import run_server
from libranet.serve.settings import Limits, ServeSettings


async def hello(scope, receive, send):
    """An application that answers every request."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def ask(tmp_path, path="/api/jobs", *, token=None, host="127.0.0.1:8000", method="GET", headers=None, cookies=None):
    settings = ServeSettings(folder=tmp_path, token=token, host="127.0.0.1" if token is None else "0.0.0.0")

    async def once():
        transport = httpx.ASGITransport(app=Guard(hello, settings))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}", cookies=cookies) as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(once())


def test_without_a_token_only_this_machine_is_served(tmp_path):
    for host in ("0.0.0.0", "192.168.1.4", "example.org"):
        with pytest.raises(InputError, match="set token"):
            ServeSettings(folder=tmp_path, host=host)
    for host in ("127.0.0.1", "localhost", "::1"):
        ServeSettings(folder=tmp_path, host=host)
    with pytest.raises(InputError, match="at least 8"):
        ServeSettings(folder=tmp_path, token="short")


def test_a_taken_port_or_folder_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="choose another port"):
        run_server(ServeSettings(folder=tmp_path, port=taken.getsockname()[1]))
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another server uses"):
            run_server(ServeSettings(folder=tmp_path, port=0))


def test_names_that_lead_here_from_elsewhere_are_refused(tmp_path):
    """A site whose name is made to point to this machine must not get answers."""
    assert ask(tmp_path).status_code == 200
    assert ask(tmp_path, host="localhost:8000").status_code == 200
    assert ask(tmp_path, host="[::1]:8000").status_code == 200
    assert ask(tmp_path, host="evil.example:8000").status_code == 403


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}]
)
def test_other_sites_are_refused(tmp_path, headers):
    assert ask(tmp_path, method="POST", headers=headers).status_code == 403
    assert ask(tmp_path, headers=headers).status_code == 403
    assert (
        ask(tmp_path, headers={"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}).status_code == 200
    )


def test_a_token_opens_the_door(tmp_path):
    token = "correct horse"
    closed = ask(tmp_path, token=token)
    assert (closed.status_code, "token" in closed.json()["error"]) == (401, True)
    assert ask(tmp_path, "/", token=token).status_code == 401
    assert ask(tmp_path, "/page.css", token=token).status_code == 200
    assert ask(tmp_path, token=token, headers={"authorization": "Bearer wrong horse"}).status_code == 401
    assert ask(tmp_path, token=token, headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert ask(tmp_path, "/?token=wrong", token=token).status_code == 401
    entered = ask(tmp_path, "/?token=correct+horse", token=token)
    assert (entered.status_code, entered.headers["location"]) == (303, "./")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    value = cookie.partition("=")[2].partition(";")[0]
    assert ask(tmp_path, token=token, headers={"cookie": f"libranet={value}"}).status_code == 200
    assert ask(tmp_path, token=token, headers={"cookie": "libranet=wrong"}).status_code == 401


def test_every_answer_has_the_headers(server):
    for path in ("/", "/page.js", "/api/jobs", "/nothing", "/api/docs"):
        headers = server.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path", ["/..%2f..%2fetc%2fpasswd", "/__init__.py", "/NOTICE.md", "/api/jobs/..%2f..%2fjobs.sqlite", "/%00"]
)
def test_paths_lead_nowhere(server, path):
    answer = server.client.get(path)
    assert answer.status_code in (404, 422)
    assert set(answer.json()) == {"error"}


def test_names_are_for_display():
    assert clean_name("../../etc/passwd") == "passwd"
    assert clean_name("C:\\temp\\a<b>.mp4\x00\n") == "ab.mp4"
    assert clean_name("...") == "unnamed"
    assert len(clean_name("x" * 5000)) == 120


def png(width, height):
    """The header of a large image, and nothing behind it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    packed = zlib.compress(b"\0" * 1000)
    data = b"IDAT" + packed
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (chunk, data, b"IEND")
    )


BAD = {
    "text": (b"just some text, nothing else\n" * 20, "neither an image nor a video"),
    "playlist": (b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", "neither an image nor a video"),
    "concat": (b"ffconcat version 1.0\nfile /etc/passwd\n", "neither an image nor a video"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>', "neither"),
    "bomb": (png(50000, 50000), "50000x50000"),
    "small": (png(4, 4), "4x4"),
    "cut": (b"\xff\xd8\xff\xe0" + b"\0" * 100, "the file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_and_deleted(clean, tmp_path, name):
    content, reason = BAD[name]
    (tmp_path / "x.mp4").write_bytes(content)
    job = clean.upload(tmp_path / "x.mp4")
    assert job["state"] == "failed"
    assert reason in job["error"] or name == "cut"
    assert str(clean.settings.folder) not in job["error"]
    assert [path for path in clean.files() if "/" in path] == []
    assert clean.client.post(f"/api/jobs/{job['id']}/start", json={}).status_code == 409
    assert clean.client.get(f"/api/jobs/{job['id']}/preview").status_code == 409


def test_long_videos_are_refused(clean, tmp_path):
    path = write_clip(tmp_path / "long.mkv", Clip(frames=70, rate=1, still=True))
    job = clean.upload(path)
    assert (job["state"], "70 s long" in job["error"]) == ("failed", True)


def test_sizes_are_limited(clean):
    create = clean.client.post
    assert create("/api/jobs", json={"name": "x", "size": 21 << 20}).status_code == 413
    assert create("/api/jobs", json={"name": "x", "size": 0}).status_code == 422
    job = create("/api/jobs", json={"name": "x", "size": 1000}).json()
    place = f"/api/jobs/{job['id']}/content?offset=0"
    assert clean.client.patch(place, content=b"0" * 1001).status_code == 413
    assert clean.client.patch(place, content=b"0" * ((1 << 20) + 1)).status_code == 413
    pieces = (b"0" * (1 << 16) for _ in range(17))
    assert clean.client.patch(place, content=pieces).status_code == 413
    assert create("/api/jobs", content=b'{"name": "' + b"x" * 70000).status_code == 413


def test_slow_uploads_end_and_keep_what_has_come(clean):
    job = clean.client.post("/api/jobs", json={"name": "x", "size": 1000}).json()
    host, port = clean.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"PATCH /api/jobs/{job['id']}/content?offset=0 HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n"
        connection.sendall(head.encode() + b"0" * 400)
        begin = time.monotonic()
        assert b" 408 " in connection.recv(4096).split(b"\r\n")[0]
        assert time.monotonic() - begin < 10
    assert clean.client.get(f"/api/jobs/{job['id']}").json()["received"] == 400


def test_one_address_has_a_limited_number_of_requests_under_way(tmp_path):
    """A limit for each address: another one is served meanwhile."""
    release, statuses = asyncio.Event(), []

    async def wait(scope, receive, send):
        await release.wait()
        await hello(scope, receive, send)

    async def visit(guard, address):
        transport = httpx.ASGITransport(app=guard, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            statuses.append((address, (await client.get("/api/jobs")).status_code))

    async def everyone():
        guard = Guard(wait, ServeSettings(folder=tmp_path))
        first = [asyncio.create_task(visit(guard, "1.1.1.1")) for _ in range(MOST_OF_ONE_ADDRESS)]
        await asyncio.sleep(0.1)
        await visit(guard, "1.1.1.1")
        other = asyncio.create_task(visit(guard, "2.2.2.2"))
        await asyncio.sleep(0.1)
        release.set()
        await asyncio.gather(other, *first)
        await visit(guard, "1.1.1.1")  # and the count goes down again

    asyncio.run(everyone())
    assert statuses[0] == ("1.1.1.1", 429)
    assert [status for _, status in statuses[1:]] == [200] * (MOST_OF_ONE_ADDRESS + 2)


def test_quota_and_number_of_jobs():
    with pytest.raises(InputError, match="above 0"):
        Limits(jobs=0)
