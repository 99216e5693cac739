"""The long runs, and their figures: `python -m tests.faults.soak [--database sqlite|postgresql|both] [...]`.

Kills at every fault point, random episodes, and the race, on each database. Prints one line of JSON a part; any
violation of an invariant is printed and ends the run with exit code 1. `make soak` runs it; docs/reliability.md
keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.harness import World, Zygote, unexpected
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.fault_points import FAULT_POINTS
from understudy.pipelines.privacy.ledger.ledger import State

EPISODES_A_WORLD = 25


def race(world: World, processes: int, spends: int) -> dict[str, Any]:
    """All processes spend at once on one account. Half of each one's spends are its own, half are contested by all.

    `fit` is what the cap allows, so exactly that many charges must be made, however the processes interleave.
    """
    own = spends // 2
    jobs = []
    for index in range(processes):
        mine = [f"p{index}-{turn}" for turn in range(own)] + [f"all-{turn}" for turn in range(spends - own)]
        random.Random(index).shuffle(mine)
        jobs.append(world.job(spends=mine))
    fit = world.ledger.balance("clinic").remaining(Gaussian(world.sigma))
    started = time.perf_counter()
    answers = world.zygote.run(*jobs)
    seconds = time.perf_counter() - started
    problems = unexpected(answers)
    if problems:
        raise AssertionError(f"a spend failed: {problems[0]}")
    each = sorted(one for answer in answers for one in answer["each"])
    balance = world.ledger.balance("clinic")
    draws = Counter(entry["mid"] for entry in world.journal("draw"))
    wanted = processes * own + (spends - own)
    return {
        "processes": processes,
        "spends": len(each),
        "charges": balance.charges,
        "fit": min(fit, wanted),
        "refused": sum(answer["refused"] for answer in answers),
        "duplicates": sum(count - 1 for count in draws.values()),
        "spent": balance.spent.epsilon,
        "cap": float(balance.account.cap.epsilon),
        "seconds": round(seconds, 1),
        "p50_ms": round(1000 * each[len(each) // 2], 1),
        "p99_ms": round(1000 * each[int(len(each) * 0.99)], 1),
    }


def kill_everywhere(worlds: Worlds, rounds: int) -> dict[str, Any]:
    """Every fault point `rounds` times:

    kill there, check, retry, check that no more was lost than had to be.
    """
    violations: list[str] = []
    burnt = 0
    for turn in range(rounds):
        world = worlds.new(cap="500")
        for fault in FAULT_POINTS:
            answer = world.release(fault, fault=fault)
            violations += [] if answer == {"killed": True} else [f"{fault} was not reached: {answer}"]
            violations += world.outcome_problems(fault, fault)
        violations += world.violations()
        burnt += world.states().count(State.BURNT)
        _progress("kills", turn + 1, rounds, violations)
    return {
        "points": len(FAULT_POINTS),
        "episodes": rounds * len(FAULT_POINTS),
        "burnt": burnt,
        "violations": violations,
    }


def random_episodes(worlds: Worlds, count: int, seed: int) -> dict[str, Any]:
    """Random releases, killed at random points or times, in random company, on accounts that run out at random."""
    rng = random.Random(seed)
    violations: list[str] = []
    outcomes: Counter[str] = Counter()
    for start in range(0, count, EPISODES_A_WORLD):
        world = worlds.new(cap=rng.choice(["1", "2", "50"]))
        for index in range(min(EPISODES_A_WORLD, count - start)):
            violations += random_episode(world, f"s{index}", rng, outcomes)
        violations += world.violations()
        _progress("random", start + EPISODES_A_WORLD, count, violations)
    return {"episodes": count, "seed": seed, "outcomes": dict(outcomes), "violations": violations}


def random_episode(world: World, snapshot: str, rng: random.Random, outcomes: Counter[str]) -> list[str]:
    """A few runs of one release, one after the other or together, then a clean one."""
    found: list[str] = []
    for _ in range(rng.randint(1, 3)):
        jobs = [world.job(snapshot, **random_options(rng)) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        answers = world.zygote.run(*jobs)
        found += unexpected(answers)
        outcomes.update(_named(answer) for answer in answers)
    last = world.release(snapshot)
    outcomes[f"finally {_named(last)}"] += 1
    charges = [charge for charge in world.ledger.charges("clinic") if charge.snapshot == snapshot]
    if any(charge.state is State.CHARGED for charge in charges):
        found.append(f"{snapshot} was left CHARGED after a clean run: {last}")
    if len(charges) > 1 and charges[0].state is not State.BURNT:
        found.append(f"{snapshot} was charged again without being burnt")
    return [f"{snapshot}: {problem}" for problem in found]


def random_options(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(["kill", "kill", "kill", "time", "time", "clean", "fail", "clock", "again"])
    options: dict[str, dict[str, Any]] = {
        "kill": {"fault": rng.choice(FAULT_POINTS)},
        "time": {"kill_after": rng.random() * 0.25},
        "clean": {},
        "fail": {"draw_fails": True},
        "clock": {"clock": rng.choice([-1e6, 1e6]), "fault": rng.choice(FAULT_POINTS)},
        "again": {"pay_again": True},
    }
    return {"draw_seconds": rng.choice([0, 0, 0.02]), **options[kind]}


def _named(answer: dict[str, Any]) -> str:
    if answer.get("killed"):
        return "killed"
    return "published" if answer.get("published") else str(answer.get("error"))


class Worlds:
    """Fresh worlds on one kind of database."""

    def __init__(self, database: str, zygote: Zygote, directory: Path) -> None:
        self._database, self._zygote, self._directory, self._made = database, zygote, directory, 0

    def new(self, cap: str, sigma: float = 10.0) -> World:
        self._made += 1
        place = self._directory / f"{self._database}-{self._made}"
        if self._database == "postgresql":
            from tests.postgres import new_database

            return World(self._zygote, place, new_database(), cap, sigma)
        return World(self._zygote, place, f"sqlite:///{place}.db", cap, sigma)


def _progress(what: str, done: int, of: int, violations: list[str]) -> None:
    last = f" ({violations[-1]})" if violations else ""
    print(f"\r{what}: {done}/{of}, {len(violations)} violations{last}", end="", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--parts", default="kills,random,race")
    parser.add_argument("--rounds", type=int, default=50, help="kills at each fault point")
    parser.add_argument("--episodes", type=int, default=2000, help="random episodes")
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--spends", type=int, default=100, help="spends of each racing process")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the PostgreSQL it started is stopped as well
    databases = ["sqlite", "postgresql"] if arguments.database == "both" else [arguments.database]
    zygote, failed = Zygote(), False
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as directory:
        for database in databases:
            worlds = Worlds(database, zygote, Path(directory))
            for name in arguments.parts.split(","):
                started = time.perf_counter()
                figures = PARTS[name](worlds, arguments)
                failed |= bool(figures["violations"])
                took = round(time.perf_counter() - started)
                print(json.dumps({"part": name, "database": database, **figures, "took_s": took}), flush=True)
    zygote.close()
    return 1 if failed else 0


def _full_race(worlds: Worlds, processes: int, spends: int) -> dict[str, Any]:
    world = worlds.new(cap="3", sigma=40.0)
    figures = race(world, processes, spends)
    wrong = [] if figures["charges"] == figures["fit"] else [f"{figures['charges']} charges, {figures['fit']} fit"]
    return {**figures, "violations": world.violations() + wrong}


PARTS: dict[str, Callable[[Worlds, argparse.Namespace], dict[str, Any]]] = {
    "kills": lambda worlds, arguments: kill_everywhere(worlds, arguments.rounds),
    "random": lambda worlds, arguments: random_episodes(worlds, arguments.episodes, arguments.seed),
    "race": lambda worlds, arguments: _full_race(worlds, arguments.processes, arguments.spends),
}

if __name__ == "__main__":
    sys.exit(main())
