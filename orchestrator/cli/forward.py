"""forward: a port inside a run's target, on this machine.

Each connection has a channel of its own into the target, past its network: a container need not
have one. Listens on loopback only.
"""

import argparse
import asyncio
import contextlib
import errno
import os

from orchestrator.api.client import quoted
from orchestrator.cli import output
from orchestrator.cli.direct import way_to
from orchestrator.cli.reach import connect
from orchestrator.cli.targets import inventory_of, target_of, where
from orchestrator.core.command import Command
from orchestrator.core.errors import ApiError, NoSuchRun, OrchError, UsageError
from orchestrator.core.model import Target
from orchestrator.transport.base import Channel, Transport

PIECE_BYTES = 65536

_PUMP = """
import fcntl, os, socket, struct, sys, threading
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
    # SIOCGIFFLAGS; bit 0 is IFF_UP. A connection over one that is down waits for nothing.
    flags, = struct.unpack_from("H", fcntl.ioctl(asked, 0x8913, struct.pack("256s", b"lo")), 16)
if not flags & 1:
    sys.exit("its loopback interface is down, so that no port in there can be reached. "
             "Bring it up there: ip link set lo up")
why = []
for place in ("127.0.0.1", "::1"):
    try: link = socket.create_connection((place, int(sys.argv[1])), 10); break
    except OSError as error: why.append(error)
else:
    if any(isinstance(error, ConnectionRefusedError) for error in why):
        sys.exit(f"nothing listens on port {sys.argv[1]} there.")
    sys.exit(f"no connection to port {sys.argv[1]} there: {why[0].strerror or why[0]}.")
link.settimeout(None)
def inward():
    while piece := os.read(0, 65536): link.sendall(piece)
    link.shutdown(socket.SHUT_WR)
threading.Thread(target=inward, daemon=True).start()
while piece := link.recv(65536):
    while piece: piece = piece[os.write(1, piece):]
"""


def forward(options: argparse.Namespace) -> int:
    """Listen here until Ctrl-C, and pass each connection on to the port inside the target."""
    target = _target(options)
    local = options.port if options.local is None else options.local
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_forward(target, options.port, local))
    return 0


def _target(options: argparse.Namespace) -> Target:
    """The target of a run, or the target itself."""
    if inventory_of(options) is None:
        return target_of(options, options.run)
    try:
        run = connect(options).get(f"/v1/runs/{quoted(options.run)}")
    except ApiError as error:
        if error.exit_code != NoSuchRun.exit_code:
            raise
        try:
            return target_of(options, options.run)
        except UsageError:
            raise error from None
    return where(options, run)


async def _forward(target: Target, port: int, local: int) -> None:
    async with way_to(target) as transport:
        # A target that cannot be reached is said now, not at the first connection.
        await transport.run(Command(argv=("true",)))

        async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await _connection(transport, target, port, reader, writer)
            except OrchError as error:
                output.note(str(error))
            finally:
                writer.close()

        try:
            server = await asyncio.start_server(taken, "127.0.0.1", local)
        except OSError as error:
            raise _refused(local, error.errno) from error
        bound = server.sockets[0].getsockname()[1]
        output.say(f"localhost:{bound} is port {port} on {target.name}; Ctrl-C ends it")
        async with server:
            await server.serve_forever()


def _refused(port: int, number: int | None) -> UsageError:
    """Why nothing can listen on a port of this machine; the event loop's words repeat the call."""
    remedy = "Choose another one: --local PORT"
    if number == errno.EADDRINUSE:
        remedy += f", or end what holds it: `ss -ltnp 'sport = :{port}'` names it"
        return UsageError(f"port {port} of this machine is in use already.", remedy=f"{remedy}.")
    if number == errno.EACCES:
        said = f"port {port} of this machine is root's alone."
        return UsageError(said, remedy=f"{remedy}, 1024 or above.")
    why = os.strerror(number) if number else "unknown"
    return UsageError(f"port {port} of this machine cannot be used: {why}.", remedy=f"{remedy}.")


async def _connection(
    transport: Transport,
    target: Target,
    port: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    argv = (target.python or "python3", "-I", "-S", "-c", _PUMP, str(port))
    channel = await transport.open(Command(argv=argv))
    sending = asyncio.create_task(_send(reader, channel))
    try:
        while piece := await channel.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if await channel.wait():
            output.note(f"{target.name}: {channel.stderr_tail().strip()}")
    except ConnectionError:
        pass  # whoever called has hung up
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await channel.close()


async def _send(reader: asyncio.StreamReader, channel: Channel) -> None:
    with contextlib.suppress(ConnectionError):  # one that is reset is at its end as well
        while piece := await reader.read(PIECE_BYTES):
            await channel.write(piece)
    await channel.close_stdin()
