"""How many random games UCT needs on P-games: python experiments/p_games.py COMMIT [TREES GAMES].

Writes experiments/results/p_games: config.json, rows.jsonl (one row per setting and number of
simulations) and report.md. Kocsis & Szepesvari 2006, section 3.1, figures 2 and 3: the error of UCT
falls to 0, and the simulations that it needs grow as the root of the number of lines, B^(D/2).
"""

import datetime
import json
import os
import pathlib
import platform
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.pgames import PGame, p_game
from azchess.games.solve import solve
from azchess.networks.rollouts import rollout_evaluator
from azchess.search.knobs import SearchKnobs
from azchess.search.uct import Uct

RESULT = pathlib.Path(__file__).parent / "results" / "p_games"
SIZES = ((2, 8), (2, 12), (2, 16))
SIMULATIONS = (10, 32, 100, 316, 1000, 3162)
SEARCHES = {
    "UCT, depth-scaled bias": Uct(SIMULATIONS[-1], bias="depth", choose="value", ties="random"),
    "UCT": Uct(SIMULATIONS[-1], choose="value", ties="random"),
    "UCB1-Tuned": Uct(SIMULATIONS[-1], tuned=True, choose="value", ties="random"),
}
C_UCT = {"UCT, depth-scaled bias": 2.0, "UCT": 2.0, "UCB1-Tuned": 1.0}
HEAD = ("rule", "B", "D", *(str(number) for number in SIMULATIONS))


def undecided(game: PGame, trees: int) -> tuple[Any, np.ndarray, float]:
    """Starts of games where a wrong root move exists, their right moves, and the share of them."""
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 3 * trees))
    best = solve(game, positions, most=2**27).best
    kept = np.flatnonzero(~best.all(axis=1))
    share = len(kept) / len(best)
    kept = kept[:trees]
    return jax.tree.map(lambda leaf: leaf[kept], positions), best[kept], share


def failures(
    game: PGame, name: str, positions: Any, best: np.ndarray, games: int
) -> list[tuple[int, float, float]]:
    """`(simulations, failure rate, standard error)`, trees being the independent units."""
    search, evaluate = SEARCHES[name], rollout_evaluator(game)
    starts = jax.tree.map(lambda leaf: jnp.repeat(leaf, games, axis=0), positions)
    keys = jax.random.split(jax.random.key(1), len(best) * games)

    @jax.jit
    def decide(budget: jax.Array) -> jax.Array:
        knobs = SearchKnobs(c_uct=C_UCT[name], budget=budget)
        return search(game, evaluate, None, keys, starts, knobs).label

    found = []
    for simulations in SIMULATIONS:
        label = np.asarray(decide(jnp.float32(simulations))).reshape(len(best), games)
        failed = 1.0 - np.take_along_axis(best, label, axis=1).mean(axis=1)
        found.append((simulations, failed.mean(), failed.std(ddof=1) / len(best) ** 0.5))
    return found


def main(commit: str, trees: int = 150, games: int = 3) -> None:
    """Runs all settings and writes the result."""
    start, rows, lines = time.time(), [], []
    for breadth, plies in SIZES:
        game = p_game(breadth, plies)
        positions, best, share = undecided(game, trees)
        for name in SEARCHES:
            found = failures(game, name, positions, best, games)
            setting = {"rule": name, "breadth": breadth, "plies": plies, "trees": len(best)}
            for simulations, rate, error in found:
                row = {"simulations": simulations, "failures": float(rate), "error": float(error)}
                rows.append(setting | {"games": games, "share": share} | row)
            cells = [f"{rate:.3f} ± {error:.3f}" for _, rate, error in found]
            lines.append((name, str(breadth), str(plies), *cells))
            print(*lines[-1], sep=" | ", flush=True)
    RESULT.mkdir(parents=True, exist_ok=True)
    config = {"trees": trees, "games": games, "c_uct": C_UCT, "commit": commit}
    (RESULT / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (RESULT / "rows.jsonl").write_text(text, encoding="utf-8")
    (RESULT / "report.md").write_text(report(commit, lines, time.time() - start), encoding="utf-8")


def report(commit: str, lines: list[tuple[str, ...]], seconds: float) -> str:
    """The table in Markdown, with what is needed to make it again."""
    facts = [
        "Command: `python experiments/p_games.py`",
        f"Code: commit {commit}; seeds: in the script",
        f"Machine: {jax.devices()[0].device_kind}, {os.cpu_count()} cores, {platform.machine()}; "
        f"jax {jax.__version__}; {datetime.date.today()}; {seconds:.0f} s",
    ]
    table = [HEAD, ("---",) * len(HEAD), *lines]
    return "\n".join(
        [
            "# How many random games does UCT need on P-games?",
            "",
            "  \n".join(facts),
            "",
            "Share of wrong root moves after so many simulations, on trees where there is one:",
            "",
            *(f"| {' | '.join(line)} |" for line in table),
            "",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:]))
