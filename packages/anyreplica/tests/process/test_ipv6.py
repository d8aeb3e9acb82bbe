"""Tests of IPv6: MCP_HOST=:: serves both versions of IP, and a replica needs no IPv4."""

import socket
from pathlib import Path

import pytest

from anyreplica import Settings
from anyreplica.process import listening
from conftest import SOURCE, Server, StartServer, run, until
from tests.calls import call, get, text
from tests.deploy.network import only_root
from tests.starts import start

PROBE = ("python3", "-I", "-S", str(SOURCE / "process" / "probe.py"))
SEVERAL = ("--replicas", "2", "--no-redis")
ONLY_IPV6, NO_IPV6 = "ip addr del 127.0.0.1/8 dev lo", "sysctl -qw net.ipv6.conf.all.disable_ipv6=1"


@pytest.mark.parametrize("arguments", [(), SEVERAL])
def test_one_server_serves_both_versions(start_server: StartServer, arguments: tuple[str, ...]) -> None:
    """With MCP_HOST=::, clients reach a replica over IPv4 and over IPv6. The check of Host knows both loopbacks."""
    server = start_server(*arguments, MCP_HOST="::")
    six = f"http://[::1]:{server.port}"
    for url in (server.url, six):
        assert text(call(url, "echo", {"message": url})) == url
        assert get(f"{url}/mcp", headers={"Host": "evil.example.com"}).status_code == 421
    for host in ("::", "::1", "127.0.0.1"):
        assert run(*PROBE, MCP_HOST=host, MCP_PORT=str(server.port)).returncode == 0
    if arguments:
        until(lambda: f"2 replicas on http://localhost:{server.port}/mcp" in server.output, "it prints its address")


def test_one_address_of_ipv6(start_server: StartServer) -> None:
    """With MCP_HOST=::1, a replica serves this address only, and the printed URL and the errors have brackets."""
    server = start_server(*SEVERAL, ready=False, MCP_HOST="::1")
    six = f"http://[::1]:{server.port}"
    until(lambda: f"2 replicas on {six}/mcp" in server.output, "it prints its address")
    assert text(call(six, "echo", {"message": "hi"})) == "hi"
    environment = {"MCP_PORT": str(server.port)}
    assert run(*PROBE, MCP_HOST="::1", **environment).returncode == 0
    assert run(*PROBE, MCP_HOST="127.0.0.1", **environment).returncode == 1
    for host in ("::", "::1"):
        done = start(MCP_HOST=host, **environment)
        assert done.stderr.startswith(f"Cannot listen on [{host}]:{server.port}: Address already in use; ")


@only_root
@pytest.mark.servers
@pytest.mark.parametrize("arguments", [(), SEVERAL])
@pytest.mark.parametrize(("command", "inside"), [(ONLY_IPV6, "::1"), (NO_IPV6, "127.0.0.1")])
def test_one_version_is_enough(tmp_path: Path, command: str, inside: str, arguments: tuple[str, ...]) -> None:
    """With MCP_HOST=::, as in the image, a replica serves in a network with only one version of IP."""
    within = ["unshare", "--net", "sh", "-c", f'ip link set lo up; {command}; exec "$@"', "sh"]
    server = Server(tmp_path / "log", *arguments, within=within, MCP_HOST="::")
    enter = ("nsenter", "--net", "--target", str(server.process.pid))
    try:
        until(lambda: run(*enter, *PROBE, MCP_PORT=str(server.port)).returncode == 0, "the health check succeeds")
        assert run(*enter, *PROBE, MCP_PORT=str(server.port), MCP_HOST=inside).returncode == 0
    finally:
        assert server.stop() == 0


def test_a_kernel_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without IPv6, a replica with MCP_HOST=:: listens on all IPv4 addresses."""
    assert listening.hosts(Settings(mcp_host="::")) == ["0.0.0.0", "::"]
    real = socket.socket

    def only_ipv4(family: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError("Address family not supported by protocol")
        return real(family)

    monkeypatch.setattr(socket, "socket", only_ipv4)
    assert listening.hosts(Settings(mcp_host="::")) == ["0.0.0.0"]
    assert listening.hosts(Settings(mcp_host="::1")) == ["::1"]
