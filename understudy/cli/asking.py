"""`understudy ask`: a question about a published release, answered with intervals."""

from __future__ import annotations

import json

import click

from understudy.pipelines.inference.answers import Answers
from understudy.pipelines.inference.features import parse_regression
from understudy.pipelines.inference.question import parse_question
from understudy.pipelines.releasing.asking import PublishedRelease, ask_over_time


def run_ask(release: str, question: str, level: float, as_json: bool) -> None:
    regression = parse_regression(question)
    if regression is not None:
        opened = PublishedRelease(release)
        kind, formula = regression
        fitted = opened.ols(formula, level) if kind == "ols" else opened.logit(formula, level)
        click.echo(json.dumps(fitted.to_json(), indent=2, ensure_ascii=False) if as_json else str(fitted))
        return
    asked = parse_question(question)
    if asked.over_time:
        trend = ask_over_time(release, asked, level)
        told = json.dumps(trend.to_json(), indent=2, ensure_ascii=False, default=str)
        click.echo(told if as_json else "\n".join(trend.lines()))
        return
    answers = PublishedRelease(release).answer(asked, level)
    if as_json:
        click.echo(json.dumps(answers.to_json(), indent=2, ensure_ascii=False, default=str))
        return
    _print(answers)


def _print(answers: Answers) -> None:
    for answer in answers:
        click.echo(answers.sentence(answer))
    for note in answers.notes:
        click.echo(f"   ! {note}")
