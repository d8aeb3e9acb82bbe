"""A host name may lead only to public addresses and to networks that the operator allows."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastmcp.exceptions import ToolError
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.downstream import Downstream, Unreachable
from anyreplica.features.downstream.hosts import Hosts
from anyreplica.features.downstream.settings import DownstreamSettings
from examples.gateway.addresses import is_public, may_lead_to
from examples.gateway.transport import CheckedTransport
from tests.examples.upstream import Upstream

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)

NOT_PUBLIC = ["127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.0.1"]
NOT_PUBLIC += ["169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "224.0.0.1", "255.255.255.255"]
NOT_PUBLIC += ["240.0.0.1", "198.18.0.1", "192.0.2.1", "192.88.99.1", "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1"]
NOT_PUBLIC += ["fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::7f00:1"]
NOT_PUBLIC += ["64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::"]


PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1"]


@pytest.mark.parametrize("address", [*PUBLIC, *NOT_PUBLIC])
def test_only_public_addresses_are_allowed(address: str) -> None:
    """Public addresses are allowed; those of this machine, private networks and cloud metadata are not."""
    assert may_lead_to(ipaddress.ip_address(address), ()) is (address in PUBLIC)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_within_ipv6_is_checked(address: ipaddress.IPv4Address) -> None:
    """An IPv4-mapped address is allowed if its IPv4 address is public; NAT64, 6to4 and compatible ones never are."""
    assert may_lead_to(ipaddress.ip_address(f"::ffff:{address}"), ()) is is_public(address)
    for wrapped in (0x64FF9B << 96 | int(address), 0x2002 << 112 | int(address) << 80, int(address)):
        assert not may_lead_to(ipaddress.IPv6Address(wrapped), ())


def test_networks_that_an_operator_allows() -> None:
    """Addresses in the operator's networks are allowed. Other addresses that are not public stay forbidden."""
    networks = (ipaddress.ip_network("10.1.0.0/16"),)
    assert may_lead_to(ipaddress.ip_address("10.1.2.3"), networks)
    assert may_lead_to(ipaddress.ip_address("::ffff:10.1.2.3"), networks)
    assert not may_lead_to(ipaddress.ip_address("10.2.2.3"), networks)


Names = Callable[..., None]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Return a function that sets the answers of the DNS for a name.

    Each lookup uses the next answer, and the last answer stays. A name that was not set does not exist.
    """
    known: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: Any, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".test"):
            if host not in known:
                raise socket.gaierror(socket.EAI_NONAME, "no such name")
            answers = known[host]
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in found]
        return real(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("NO_PROXY", "*")

    def lead(name: str, *answers: list[str]) -> None:
        known[name] = list(answers)

    return lead


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A server on a free port. All its connections are closed in the end."""
    upstream = Upstream()
    server = await upstream.start()
    yield upstream
    server.close()
    await asyncio.wait_for(server.wait_closed(), 5)


async def _asking(transport: Callable[[], CheckedTransport], *urls: str) -> list[Any]:
    downstream = Downstream(Hosts(DownstreamSettings.model_validate({"downstream_retries": 0})), transport)
    found: list[Any] = []
    for url in urls:
        try:
            found.append((await downstream.get(url)).json())
        except ToolError as error:
            found.append(error)
    await downstream.close()
    return found


@pytest.mark.anyio
async def test_a_name_that_changes_its_address_after_the_check(upstream: Upstream, names: Names) -> None:
    """The address that was checked is used, and an answer with any forbidden address is refused."""
    names("api.test", ["127.0.0.1"], ["127.0.0.2", "127.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "10.0.0.1"])
    url = f"http://api.test:{upstream.port}/"
    first, second, *others = await _asking(lambda: CheckedTransport(LOOPBACK), *[url] * 4)
    assert (first, second) == (1, 2)
    for error in others:
        assert str(error) == "api.test resolves to an address that is not public (GATEWAY_PRIVATE_NETWORKS)."
    assert len(upstream.asked) == 2
    assert all(f"\r\nHost: api.test:{upstream.port}\r\n" in head for head in upstream.asked)


@pytest.mark.anyio
async def test_names_lead_nowhere_private_unless_allowed(upstream: Upstream, names: Names) -> None:
    """A name with a private address is refused without a connection; an unknown name has its own error."""
    names("api.test", ["127.0.0.1"])
    urls = (f"http://{name}:{upstream.port}/" for name in ("api.test", "nobody.test", "localhost"))
    private, nobody, local = await _asking(lambda: CheckedTransport(()), *urls)
    assert "is not public" in str(private)
    assert isinstance(nobody, Unreachable)
    assert "is not public" in str(local)
    assert upstream.asked == []


def _certificate(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a TLS context for a server of this name, and one for clients that trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "pem").write_bytes(pem + private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "pem")
    return server, ssl.create_default_context(cadata=pem.decode())


@pytest.mark.anyio
async def test_the_certificate_must_match_the_name(names: Names, tmp_path: Path) -> None:
    """The certificate must be valid for the name, and names with the same address share no connection."""
    trusted, verify = _certificate("api.test", tmp_path)
    upstream = Upstream()
    server = await upstream.start(trusted)
    names("api.test", ["127.0.0.1"])
    names("other.test", ["127.0.0.1"])
    urls = (f"https://{name}:{upstream.port}/" for name in ("api.test", "other.test", "api.test"))
    first, other, second = await _asking(lambda: CheckedTransport(LOOPBACK, verify), *urls)
    assert (first, second) == (1, 2)
    assert isinstance(other, Unreachable)
    server.close()


@pytest.mark.anyio
async def test_connections_are_kept(upstream: Upstream, names: Names) -> None:
    """A connection is used again for the same name, and closed at the end."""
    names("api.test", ["127.0.0.1"])
    ports = set()
    async with httpx2.AsyncClient(transport=CheckedTransport(LOOPBACK)) as client:
        for _ in range(3):
            async with client.stream("GET", f"http://api.test:{upstream.port}/") as response:
                ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
                await response.aread()
    assert len(ports) == 1
