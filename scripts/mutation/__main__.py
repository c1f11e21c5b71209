"""`scripts/mutate`: which small changes of the code do its tests not notice?"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trial
from mutants import Mutant, find

TOO_FEW = 10
NOTICED = ("killed", "timed out")
EQUIVALENT = Path("tests/mutants.toml")


def main() -> int:
    options = _options()
    sources, mutants = _mutants(options.paths)
    known = _equivalent(options.equivalent)
    apart = [mutant for mutant in mutants if _key(mutant, sources) in known]
    mutants = [mutant for mutant in mutants if _key(mutant, sources) not in known]
    whole = len(mutants)
    if options.sample and options.sample < whole:
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    tests = options.tests or sorted({str(_tests_of(path)) for path in sources})
    baseline = trial.record(tests, map(str, sources), [])
    if not baseline.passed:
        print("The tests do not pass as they are; run them first.", file=sys.stderr)
        return 1
    outcomes: dict[Mutant, str] = {}

    def told(mutant: Mutant, outcome: str) -> None:
        outcomes[mutant] = outcome
        if outcome not in (*NOTICED, trial.ELSEWHERE) or options.list:
            print(f"{os.path.relpath(mutant.path)}:{mutant.line}: {outcome}: {mutant.what}")
            print(mutant.diff(sources[mutant.path]), flush=True)

    _try(mutants, sources, baseline, options.jobs, tests, told)
    if lost := [mutant for mutant in mutants if outcomes.get(mutant, trial.ELSEWHERE) == trial.ELSEWHERE]:
        raise RuntimeError(f"{len(lost)} mutants were not tried, the first at {lost[0].path}:{lost[0].line}")
    return _report(outcomes, sources, apart, whole, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or FILE:LINE or FILE:FIRST-LAST")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="default: src/rackless/X… is tested by tests/X")
    parser.add_argument("--sample", type=int, metavar="N", help="try N of them, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--at-least", type=float, metavar="PERCENT", help=f"exit with {TOO_FEW} when fewer are noticed")
    parser.add_argument("--equivalent", type=Path, default=EQUIVALENT, help=f"default: {EQUIVALENT}")
    parser.add_argument("--list", action="store_true", help="tell every mutant as it ends")
    return parser.parse_args()


def _mutants(paths: list[str]) -> tuple[dict[Path, bytes], list[Mutant]]:
    sources: dict[Path, bytes] = {}
    mutants: list[Mutant] = []
    for argument in paths:
        name, _, lines = argument.partition(":")
        first, _, last = lines.partition("-")
        path = Path(name).resolve()
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            sources[file] = file.read_bytes()
            for mutant in find(file, sources[file]):
                if not lines or int(first) <= mutant.line <= int(last or first):
                    mutants.append(mutant)
    return sources, mutants


def _tests_of(path: Path) -> Path:
    """The nearest folder of tests/ for a module of src/PACKAGE/…; all of them when there is none."""
    parts = path.relative_to(Path("src").resolve()).parts[1:-1]
    for depth in range(len(parts), 0, -1):
        if (folder := Path("tests", *parts[:depth])).is_dir():
            return folder
    return Path("tests")


def _key(mutant: Mutant, sources: dict[Path, bytes]) -> tuple[str, str, str]:
    line = sources[mutant.path].decode().splitlines()[mutant.line - 1].strip()
    return os.path.relpath(mutant.path), line, mutant.what


def _equivalent(file: Path) -> dict[tuple[str, str, str], str]:
    """Mutants that no test could notice, each with the reason why."""
    entries = tomllib.loads(file.read_text())["equivalent"] if file.exists() else []
    return {(entry["file"], entry["line"], entry["mutant"]): entry["reason"] for entry in entries}


def _try(
    mutants: list[Mutant],
    sources: dict[Path, bytes],
    baseline: trial.Baseline,
    jobs: int,
    tests: list[str],
    told: Callable[[Mutant, str], None],
) -> None:
    for name in baseline.modules:  # once here rather than in every process
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                importlib.import_module(name)
            except Exception:  # its user knows what it needs first
                continue
    inside, others = [], []
    for mutant in mutants:
        where = (str(mutant.path), mutant.function)
        if mutant.function is None or where in baseline.at_import:
            others.append(mutant)
        elif where in baseline.callers:
            inside.append(mutant)
        else:
            told(mutant, "not run by any test")

    def tried(mutant: Mutant, outcome: str) -> None:
        if outcome == trial.ELSEWHERE:
            others.append(mutant)
        told(mutant, outcome)

    if inside:
        trial.in_place(inside, sources, baseline, jobs, tests, tried)
    if others:
        trial.imported(others, sources, baseline, jobs, tests, told)


def _report(
    outcomes: dict[Mutant, str],
    sources: dict[Path, bytes],
    apart: list[Mutant],
    whole: int,
    options: argparse.Namespace,
) -> int:
    for path in sources:
        here = Counter(outcome for mutant, outcome in outcomes.items() if mutant.path == path)
        if total := here.total():
            share = 100 * sum(here[name] for name in NOTICED) / total
            print(f"{share:5.1f} %  {os.path.relpath(path)}: {_counted(here)}")
    counts = Counter(outcomes.values())
    total = counts.total()
    share = 100 * sum(counts[name] for name in NOTICED) / total if total else 100.0
    drawn = f"; {total} of {whole}, drawn by seed {options.seed}" if total < whole else ""
    print(f"{share:5.1f} %  noticed: {_counted(counts)}, {len(apart)} equivalent{drawn}")
    if options.at_least is not None and share < options.at_least:
        print(f"Asked for at least {options.at_least:g} %.", file=sys.stderr)
        return TOO_FEW
    return 0


def _counted(counts: Counter[str]) -> str:
    names = ("killed", "timed out", "survived", "not run by any test")
    return ", ".join(f"{counts[name]} {name}" for name in names if counts[name] or name in ("killed", "survived"))


if __name__ == "__main__":
    sys.exit(main())
