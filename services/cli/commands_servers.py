"""`nats config` and `provision`: NATS servers that are run elsewhere."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from contracts.errors import Invalid
from infra.configuration import load
from infra.nats import addresses
from infra.nats.directory import certify, own_certificates, write_all
from infra.nats.server_conf import Layout, TlsFiles
from infra.realms import served_realms
from services.cli.words import say

nats = typer.Typer(
    help="NATS servers that are run elsewhere: one, or a cluster of three or five.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    nats.callback()(lambda: None)
    nats.command("config")(config)
    app.add_typer(nats, name="nats")
    app.command("provision")(provision)


def config(
    out: Annotated[Path, typer.Option(help="The directory to write. Passwords in it are kept.")],
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="NAME=HOST[:PORT[:ROUTE_PORT]]", help="Give it three times for a cluster."),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", help="A node that is to work there. Absent = those of the settings.")
    ] = None,
    make_certificates: Annotated[
        bool, typer.Option("--make-certificates", help="A private CA, and certificates for servers and clients.")
    ] = False,
    ca: Annotated[str | None, typer.Option(help="Your own CA, as the servers find it.")] = None,
    cert: Annotated[str | None, typer.Option(help="A server's certificate; {server} stands for its name.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key; {server} stands for its name.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No TLS: for loopback and networks of your own.")] = False,
    verify_clients: Annotated[
        bool, typer.Option("--verify-clients", help="Clients need a certificate, beside their password.")
    ] = False,
    place: Annotated[
        Path | None, typer.Option(help="Where the servers find this directory. Absent = where it is written.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="Where a server keeps its streams; {server} stands for its name.")
    ] = None,
    zone: Annotated[
        list[str] | None, typer.Option("--zone", metavar="NAME=ZONE", help="Where a server stands.")
    ] = None,
    monitor: Annotated[int, typer.Option(help="A port on loopback for health checks. 0 = none.")] = 0,
) -> None:
    """Write configuration, accounts and credentials for servers, and print what their clients need to know.

    Run it again after a change (a node more, a password removed, a certificate about to end), then have each server
    read it anew: `nats-server --signal reload`. What is there and still right is kept.
    """
    settings = load(os.environ)
    servers = addresses.parse_all(server or ["n1=127.0.0.1"], _zones(zone or []))
    found_at = place or out.absolute()
    made = own_certificates(found_at) if make_certificates else None
    layout = Layout(
        store=Path(store) if store else found_at / "store" / "{server}",
        durability=settings.durability,
        tls=_certificates(made, ca, cert, key, plain=plain),
        verify_clients=verify_clients,
        monitor_port=monitor,
    )
    for name in certify(out, servers) if made else []:
        say(f"made a certificate for {name}")
    nodes = tuple(dict.fromkeys([*settings.nodes, *(node or [])])) or settings.all_nodes
    write_all(out, servers, layout, nodes, served_realms(settings))
    say(f"wrote {', '.join(f'{each.name}.conf' for each in servers)} into {out}, for nodes {', '.join(nodes)}")
    for line in _for_clients(out.absolute(), servers, layout, private=made is not None):
        print(line)
    print(f"CLOCHE_NODES={','.join(nodes)}")


def _zones(said: list[str]) -> dict[str, str]:
    zones = dict(each.partition("=")[::2] for each in said)
    if not all(zones.values()):
        raise Invalid("a zone is said as NAME=ZONE")
    return zones


def _certificates(
    made: TlsFiles | None, ca: str | None, cert: str | None, key: str | None, *, plain: bool
) -> TlsFiles | None:
    own = TlsFiles(ca=ca, cert=cert, key=key) if ca and cert and key else None
    if (made is not None) + any((ca, cert, key)) + plain != 1 or (own is None and any((ca, cert, key))):
        raise Invalid("say one of --make-certificates, --ca with --cert and --key, or --plain")
    return made or own


def _for_clients(
    out: Path, servers: tuple[addresses.ServerAddress, ...], layout: Layout, *, private: bool
) -> list[str]:
    """As lines of an environment file."""
    lines = [f"CLOCHE_URL={addresses.url(servers, tls=layout.tls is not None)}", f"CLOCHE_CREDS={out / 'secrets'}"]
    if private:
        lines.append(f"CLOCHE_CA={out / 'tls' / 'ca.pem'}")
    if private and layout.verify_clients:
        lines += [f"CLOCHE_CERT={out / 'tls' / 'client.pem'}", f"CLOCHE_KEY={out / 'tls' / 'client-key.pem'}"]
    return [*lines, f"CLOCHE_REPLICAS={3 if len(servers) > 1 else 1}"]


def provision(
    plan: Annotated[bool, typer.Option("--plan", "--dry-run", help="Only say what would change.")] = False,
    fewer_replicas: Annotated[
        bool, typer.Option("--fewer-replicas", help="Let streams have fewer copies than they have.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for servers, and for new copies to be whole.")] = 120.0,
    realm: Annotated[str | None, typer.Option(metavar="NAME", help="Of one tenant; all unless given.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Make the streams and consumers of a running NATS agree with this version and the settings, once.

    Waits for the servers, says each change, and comes back when every copy is whole. `up` does it by itself.
    """
    from services.cli.provisioning import Words, provision_all

    told, settings = Words(json=json), load(os.environ)
    asyncio.run(provision_all(settings, told, only=realm, only_plan=plan, fewer_replicas=fewer_replicas, wait_s=wait))
