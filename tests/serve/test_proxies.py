"""Servers behind others: sub-paths, HTTPS, HEAD, health checks, tokens from files."""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner

from libranet.cli.main import build_app
from libranet.errors import InputError
from libranet.serve import run
from libranet.serve.app import make_app
from libranet.serve.guard import Guard
from libranet.serve.settings import ServeSettings

TOKEN = "correct-horse"
ROOT = Path(__file__).parents[2]


async def echo(scope, receive, send):
    """An application that says which path and method it saw."""
    text = f"{scope['method']} {scope['path']}".encode()
    length = (b"content-length", str(len(text)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": text})


def ask(tmp_path, address, *, method="GET", headers=None, app=echo, **settings):
    made = ServeSettings(folder=tmp_path, token=TOKEN, host="0.0.0.0", **settings)

    async def once():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=Guard(app, made))) as client:
            return await client.request(method, address, headers=headers)

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("public", "asked", "sub_path"),
    [
        ("https://host/haze/", "http://host/", ""),  # the proxy leaves the sub-path out
        ("https://host/haze/", "http://host/haze/", "/haze"),  # it passes it on
        ("https://host/a/b/", "http://host/a/b/", "/a/b"),
        ("https://host/", "http://host/", ""),
    ],
)
def test_whoever_signs_in_comes_back_to_the_sub_path(tmp_path, public, asked, sub_path):
    answer = ask(tmp_path, f"{asked}?token={TOKEN}", sub_path=sub_path)
    assert answer.status_code == 303
    assert urljoin(public, answer.headers["location"]) == public
    cookie = SimpleCookie(answer.headers["set-cookie"])["libranet"]
    assert cookie["path"] == ""  # a browser takes the folder of the address that it knows: the sub-path
    headers = {"cookie": f"libranet={cookie.value}"}
    assert ask(tmp_path, asked, sub_path=sub_path, headers=headers).text == "GET /"
    assert ask(tmp_path, f"{asked}api/jobs", sub_path=sub_path, headers=headers).text == "GET /api/jobs"


@pytest.mark.parametrize("path", ["/", "/page.js", "/some/where/deep"])
def test_the_form_of_the_token_leads_to_the_page(tmp_path, path):
    login = ask(tmp_path, f"http://host{path}")
    assert login.status_code == 401
    action = login.text.partition('action="')[2].partition('"')[0]
    assert urljoin(f"https://host/haze{path}", action) == "https://host/haze/"


def test_a_sub_path_without_its_slash_gets_it(tmp_path):
    answer = ask(tmp_path, "http://host/a/haze", sub_path="/a/haze")
    assert (answer.status_code, urljoin("http://host/a/haze", answer.headers["location"])) == (
        308,
        "http://host/a/haze/",
    )


@pytest.mark.parametrize("sub_path", ["haze", "/haze/", "/", "/a b", "/../x?"])
def test_other_sub_paths_are_refused(tmp_path, sub_path):
    with pytest.raises(InputError, match="sub-path such as /haze"):
        ServeSettings(folder=tmp_path, sub_path=sub_path)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cookies_are_secure_where_the_page_came_by_https(tmp_path, scheme):
    cookie = ask(tmp_path, f"{scheme}://host/?token={TOKEN}").headers["set-cookie"]
    assert ("; Secure" in cookie) == (scheme == "https")


@pytest.mark.parametrize(("proxy", "secure"), [("127.0.0.1", True), ("10.1.0.0/16", False)])
def test_only_a_trusted_proxy_says_that_the_page_came_by_https(tmp_path, proxy, secure, monkeypatch):
    settings = ServeSettings(folder=tmp_path, token=TOKEN, port=0, trusted_proxies=(proxy,))
    made = {}
    monkeypatch.setattr(run, "load_network", lambda *_, **__: None)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: made.update(config=self.config))
    run.run_server(settings)
    config = made["config"]
    config.load()

    async def once():
        transport = httpx.ASGITransport(app=config.loaded_app, client=("127.0.0.1", 5))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.get(f"http://host/?token={TOKEN}", headers={"x-forwarded-proto": "https"})

    assert ("; Secure" in asyncio.run(once()).headers["set-cookie"]) == secure
    with pytest.raises(InputError, match="proxy's address or network"):
        ServeSettings(folder=tmp_path, trusted_proxies=("nginx",))


def test_health_needs_no_token_and_tells_nothing_else(tmp_path):
    answer = ask(tmp_path, "http://host/health", app=make_app(ServeSettings(folder=tmp_path, token=TOKEN)))
    assert (answer.status_code, set(answer.json())) == (200, {"status", "version"})


def test_head_is_get_without_its_body(clean):
    get = clean.client.get
    job = clean.client.post("/api/jobs/example").json()
    clean.wait(job["id"])
    for path in ("/", "/page.js", "/health", "/api/jobs", f"/api/jobs/{job['id']}/source", "/nothing"):
        head, whole = clean.client.head(path), get(path)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert head.headers["content-length"] == str(len(whole.content))
    begin = time.monotonic()
    assert clean.client.head(f"/api/jobs/{job['id']}/events").status_code == 200  # whose body never ends
    assert time.monotonic() - begin < 5


@pytest.fixture
def started(monkeypatch):
    """What `libranet serve` would run."""
    made = {}
    monkeypatch.setattr(run, "run_server", lambda settings, **choices: made.update(settings=settings, **choices))

    def start(*words: str, env: dict[str, str] | None = None):
        done = CliRunner().invoke(build_app(), ["serve", *words], env=env or {}, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return made["settings"], made

    return start


def test_a_token_comes_from_the_environment_or_a_file_and_is_not_printed(started, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    for words, env in ((["--token-file", str(tmp_path / "token")], {}), ([], {"LIBRANET_TOKEN": TOKEN})):
        settings, choices = started("--host", "0.0.0.0", *words, env=env)
        assert (settings.token, choices["show_token"]) == (TOKEN, False)
    settings, choices = started("--token", "new")
    assert (len(settings.token) >= 16, choices["show_token"]) == (True, True)
    with pytest.raises(InputError, match="cannot read the token"):
        started("--token-file", str(tmp_path / "missing"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx here: apt-get install nginx")
def test_the_configuration_for_nginx_works(server, tmp_path):
    """The one in packaging/, with other ports and without certificates."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = (ROOT / "packaging" / "nginx.conf").read_text()
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    text = "\n".join(line for line in text.splitlines() if not line.strip().startswith("ssl_certificate"))
    text = text.replace("http://127.0.0.1:8000", server.address)
    temporary = ("proxy", "fastcgi", "uwsgi", "scgi", "client_body")
    paths = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in temporary)
    user = "user root; " if os.geteuid() == 0 else ""
    top = f"{user}daemon off; pid {tmp_path}/pid; error_log stderr; events {{}}"
    whole = f"{top} http {{ access_log off; {paths}\n{text}\n}}"
    (tmp_path / "nginx.conf").write_text(whole)
    nginx = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf")])
    try:
        with httpx.Client(base_url=f"http://localhost:{port}/haze/", timeout=30) as client:
            for _ in range(100):
                try:
                    assert client.get("health").json()["status"] == "ok"
                    break
                except httpx.ConnectError:
                    time.sleep(0.05)
            assert client.get("page.js").status_code == 200
            job = client.post("api/jobs", json={"name": "x", "size": 3 << 20}).json()
            piece = client.patch(f"api/jobs/{job['id']}/content?offset=0", content=bytes(1 << 20))
            assert piece.json()["received"] == 1 << 20
            with client.stream("GET", f"api/jobs/{job['id']}/events") as events:  # at once, not in a buffer
                assert next(events.iter_lines()) == "event: status"
            assert client.delete(f"api/jobs/{job['id']}").status_code == 204
    finally:
        nginx.terminate()
        nginx.wait(10)
