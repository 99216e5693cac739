"""`understudy ask`: a question about a published release, answered with intervals."""

from __future__ import annotations

import json

import click

from understudy.pipelines.inference.answers import Answers
from understudy.pipelines.releasing.asking import PublishedRelease


def run_ask(release: str, question: str, level: float, as_json: bool) -> None:
    answers = PublishedRelease(release).estimate(question, level)
    if as_json:
        click.echo(json.dumps(answers.to_json(), indent=2, ensure_ascii=False, default=str))
        return
    _print(answers)


def _print(answers: Answers) -> None:
    for answer in answers:
        click.echo(answers.sentence(answer))
    for note in answers.notes:
        click.echo(f"   ! {note}")
