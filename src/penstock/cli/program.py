"""`penstock`: the root of the command tree, and the one place where errors end."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from types import FrameType
from typing import NoReturn

import click

from penstock.cli import errors
from penstock.cli.batch import batch
from penstock.cli.bench import bench
from penstock.cli.command_classes import Verbs
from penstock.cli.completion import completion
from penstock.cli.demo import demo
from penstock.cli.doctor import doctor
from penstock.cli.enqueue import enqueue
from penstock.cli.import_ import import_
from penstock.cli.key import key
from penstock.cli.lake import lake
from penstock.cli.lease import ack, claim, extend, nack, reject, snooze
from penstock.cli.message import message
from penstock.cli.migrate import migrate
from penstock.cli.monitor import activity, top
from penstock.cli.push import push
from penstock.cli.queue import queue
from penstock.cli.schedule import schedule
from penstock.cli.service import service
from penstock.cli.session import Session
from penstock.cli.up import up
from penstock.cli.worker import worker
from penstock.cli.workers import workers


@click.group("penstock", cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(metadata.version("penstock"), message="%(prog)s %(version)s")
def penstock() -> None:
    """A durable message queue inside your own PostgreSQL."""


IN_ORDER_OF_USE: tuple[click.Command, ...] = (
    *(up, demo, migrate, enqueue, claim, ack, nack, extend, snooze, reject),
    *(worker, queue, message, schedule, batch, top, workers, activity),
    *(lake, key, service, push, import_, doctor, bench, completion),
)
for verb in IN_ORDER_OF_USE:
    penstock.add_command(verb)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the script: runs the command and ends the process."""
    # An exception, not an immediate end, so that an embedded server stops cleanly.
    signal.signal(signal.SIGTERM, _terminate)
    # Warnings of the pool about interrupted connections appear only if logging is configured.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
    code = run(sys.argv[1:] if argv is None else list(argv))
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Run one command line. Every failure becomes one line and an exit code."""
    session = Session()
    try:
        result = penstock.main(list(argv), prog_name="penstock", standalone_mode=False, obj=session)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return errors.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return errors.USAGE
    except BrokenPipeError:
        return _stdout_is_gone()
    except Exception as error:
        as_document = session.json or _asked_for_json(error, argv)
        return errors.report(error, as_document=as_document, debug=session.debug)
    return result if isinstance(result, int) else 0


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _asked_for_json(error: Exception, argv: Sequence[str]) -> bool:
    """Whether --json was given, in a command line that could not be parsed."""
    if not isinstance(error, click.UsageError) or "--json" not in argv:
        return False
    options = error.ctx.command.params if error.ctx else []
    # The --json of a benchmark names a file, so it does not count.
    return all(getattr(option, "is_flag", True) for option in options if "--json" in option.opts)


def _stdout_is_gone() -> int:
    """The reader of a pipe, such as `head`, has ended. Discard the rest of the output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return errors.UNEXPECTED
