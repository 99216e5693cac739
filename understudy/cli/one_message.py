"""Every failure of a command is one message and an exit code."""

from __future__ import annotations

import os
import traceback
from typing import Any

import click

from understudy.cli.stopping import stoppable
from understudy.cli.unexpected import DEBUG, unexpected
from understudy.pipelines.errors import UnderstudyError


class OneMessageGroup(click.Group):
    """Turns every failure into one message and its exit code, without a traceback, and ends when it is told to."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return stoppable(lambda: super(OneMessageGroup, self).invoke(context))
        except UnderstudyError as error:
            problem = error
            # What the frames still hold, such as a database connection, ends here and not with the interpreter.
            traceback.clear_frames(error.__traceback__)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click has its own words for these
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            problem = unexpected(error)
            traceback.clear_frames(error.__traceback__)
        # Outside the handler: the error's text may quote private values, so nothing of it travels on.
        click.echo(f"understudy: {problem}", err=True)
        return context.exit(problem.exit_code)
