"""What `assay serve` takes and does.  The URL is the only line on standard output."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path

LOOPBACK = "127.0.0.1"
EMBEDDED = ("stories",)
Write = Callable[[str], object]


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the server may be told."""
    parser.add_argument("benchmark", choices=EMBEDDED, help="the embedded model to serve")
    parser.add_argument(
        "--host",
        default=LOOPBACK,
        metavar="H",
        help="address to listen on (default: 127.0.0.1, this machine only; the server asks for no "
        "key, so anyone who reaches another address may use it)",
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N", help="default: 8000; 0: a free one"
    )
    parser.add_argument("--model", type=Path, metavar="FILE", help="default: the embedded model")
    parser.add_argument(
        "--slots",
        type=int,
        default=32,
        metavar="N",
        help="answers generated at once; more requests wait (default: 32)",
    )


def run(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Serve until interrupted: 0; 2 if that cannot be done."""
    try:
        from runner.serve.server import serve
    except ImportError as error:
        say(f'assay serve needs aiohttp ({error}): pip install "assay[openai]"')
        return 2
    from runner.benchmarks.stories import MODEL
    from runner.errors import RunnerError

    try:
        asyncio.run(
            serve(
                options.model or MODEL,
                options.host,
                options.port,
                max(1, options.slots),
                lambda url: write(f"{url}\n"),
            )
        )
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError, RunnerError) as error:
        say(f"assay serve: {error}")
        return 2
    return 0
