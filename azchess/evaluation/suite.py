"""The ending suite: what a network knows of a three-man ending, in a table of percentages."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from azchess.evaluation.endings import EndingPlay, ending_records, judge, play_out
from azchess.evaluation.oracles import DRAWN, Tablebase, dtm_table, tablebase
from azchess.games.game import Game, Record
from azchess.search.knobs import SearchKnobs
from azchess.search.no_search import NoSearch
from azchess.search.policy import TreeSearch
from azchess.search.puct import Puct


@dataclasses.dataclass(frozen=True)
class EndingSuite:
    """A fixed, seeded measure of an ending of king and piece against king.

    Won positions are played out against a perfect defender that breaks ties uniformly, by the
    search and by the network alone; further positions are judged without search.
    """

    material: str = "KQvK"
    """The ending played and judged: KQvK or KRvK."""
    distances: tuple[int, ...] | None = None
    """Plies to mate of the starts, an equal share each; None draws from all won positions."""
    positions: int = 1000
    """Won positions to play out."""
    max_plies: int = 100
    """Plies within which mate must come."""
    judged: int = 2000
    """Positions to judge of each class: strong side to move, bare king lost, bare king drawn."""
    search: TreeSearch = Puct(simulations=32)
    """The search of the strong side, without noise."""
    batch: int = 250
    """Positions at a time."""
    seed: int = 2026
    """Draws the positions, always the same."""

    def __post_init__(self) -> None:
        tablebase(self.material)
        for name in ("positions", "max_plies", "judged", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"evaluation.{name} = {getattr(self, name)}: must be at least 1")
        self._check_starts()

    def _check_starts(self) -> None:
        known = tablebase(self.material).positions(True)[1]
        if not len(known):
            raise ValueError(f"evaluation.material = {self.material}: nobody wins it")
        if self.distances is None:
            sizes = [len(known)]
        else:
            sizes = [int((known == distance).sum()) for distance in self.distances]
        if not sizes or not all(sizes):
            raise ValueError(
                f"evaluation.distances = {self.distances}: must be odd numbers from 1 to "
                f"{known.max()} for {self.material}, or None"
            )
        least, most = len(sizes), min(sizes) * len(sizes)
        if not least <= self.positions <= most:
            raise ValueError(
                f"evaluation.positions = {self.positions}: must be between {least} and {most}"
            )


def won_starts(suite: EndingSuite) -> tuple[Int[np.ndarray, "M 3"], Int[np.ndarray, "M"]]:
    """Squares and plies to mate of the positions to play out, the nearest mates first."""
    table = tablebase(suite.material)
    random = np.random.default_rng(suite.seed)
    squares, dtm = table.positions(True)
    if suite.distances is None:
        chosen = random.choice(len(squares), suite.positions, replace=False)
    else:
        sizes = np.full(len(suite.distances), suite.positions // len(suite.distances))
        sizes[: suite.positions % len(suite.distances)] += 1
        parts = [
            random.choice(np.flatnonzero(dtm == distance), size, replace=False)
            for distance, size in zip(suite.distances, sizes, strict=True)
        ]
        chosen = np.concatenate(parts)
    chosen = np.sort(chosen)
    return squares[chosen], dtm[chosen].astype(np.int32)


def measure(suite: EndingSuite, game: Game, network: Any, knobs: SearchKnobs) -> dict[str, float]:
    """Plays and judges the suite with a network.

    Returns, each as a share of 1: `search/mated` and `policy/mated` (with and without search),
    `search/excess_plies` and `policy/excess_plies` (plies beyond the shortest mate, where mated),
    `value/...` and `policy/...` of the judgement; see `judgement`.
    """
    knobs = knobs.greedy()
    # First, because it finds a game with too few slots.
    judged = judgement(suite, game, network)
    result = {}
    for name, search in (("search", suite.search), ("policy", NoSearch())):
        mated, plies, dtm = played(suite, game, network, search, knobs)
        result[f"{name}/mated"] = float(mated.mean())
        result[f"{name}/mean_plies"] = float(plies[mated].mean()) if mated.any() else float("nan")
        excess = (plies - dtm)[mated]
        result[f"{name}/excess_plies"] = float(excess.mean()) if mated.any() else float("nan")
        for distance in suite.distances or ():
            result[f"{name}/mated_in_{distance}"] = float(mated[dtm == distance].mean())
    return result | judged


def played(
    suite: EndingSuite, game: Game, network: Any, search: Any, knobs: SearchKnobs
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each won start: mated or not, plies that took, and plies the shortest mate takes."""
    squares, dtm = won_starts(suite)
    records = ending_records(tablebase(suite.material), squares, np.ones(len(dtm), bool))
    setup = EndingPlay(game=game, search=search, max_plies=suite.max_plies)
    table = dtm_table(suite.material)
    mated, plies = [], []
    for part in range(0, len(dtm), suite.batch):
        key = jax.random.fold_in(jax.random.key(suite.seed), part)
        rows, size = padded(records, part, suite.batch)
        games = play_out(setup, network, table, rows, key, knobs)
        mated.append(np.asarray(games.mated)[:size])
        plies.append(np.asarray(games.plies)[:size])
    return np.concatenate(mated), np.concatenate(plies), dtm


def padded(records: Record, first: int, batch: int) -> tuple[Record, int]:
    """A full batch of records from `first`, the last ones repeated, and how many are real."""
    total = jax.tree.leaves(records)[0].shape[0]
    rows = np.minimum(np.arange(first, first + batch), total - 1)
    return jax.tree.map(lambda x: x[rows], records), min(batch, total - first)


def judgement(suite: EndingSuite, game: Game, network: Any) -> dict[str, float]:
    """How well a network judges positions of the ending without search.

    Three classes of equal size: `strong` side to move (always won), bare king to move and `lost`,
    bare king to move and `drawn`. `value/balanced_accuracy` is the mean over the classes of the
    share that the likeliest of win, draw and loss gets right (`value/recall_...` each), and
    `value/sign_accuracy` the share of won and lost positions whose expected result has the right
    sign. `value/calibration_error`: mean gap between the expected result and the true one over ten
    bins of equal width. `policy/optimal`: share of won positions whose likeliest move is a
    shortest way to mate; `policy/optimal_share`: prior on all such moves.
    `value/plain_accuracy` weighs the classes as all legal positions do, and
    `value/plain_accuracy_constant` is what "the side with the piece wins" scores there.
    """
    table = tablebase(suite.material)
    squares, dtm, strong, sizes = judged_positions(suite, table)
    records = ending_records(table, squares, strong)
    parts = []
    device_table = dtm_table(suite.material)
    plies = jnp.asarray(dtm)
    for part in range(0, len(dtm), suite.batch):
        rows, size = padded(records, part, suite.batch)
        index = np.minimum(np.arange(part, part + suite.batch), len(dtm) - 1)
        seen = judge(game, network, device_table, rows, plies[index])
        parts.append(jax.tree.map(lambda x, size=size: np.asarray(x)[:size], seen))
    seen = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    if seen.moves.max() > game.num_slots:
        raise ValueError(
            f"game.num_slots = {game.num_slots}: {suite.material} has positions of "
            f"{seen.moves.max()} moves"
        )
    truth = np.where(dtm == DRAWN, 1, np.where(strong, 0, 2))
    right = seen.wdl.argmax(axis=1) == truth
    classes = {"strong": strong, "lost": ~strong & (dtm != DRAWN), "drawn": dtm == DRAWN}
    recall = {name: float(right[mask].mean()) for name, mask in classes.items()}
    expected = seen.wdl[:, 0] - seen.wdl[:, 2]
    decided = truth != 1
    weight = np.array([sizes[name] for name in classes], float)
    return {
        "value/balanced_accuracy": float(np.mean(list(recall.values()))),
        **{f"value/recall_{name}": value for name, value in recall.items()},
        "value/sign_accuracy": float((np.sign(expected) == 1 - truth)[decided].mean()),
        "value/calibration_error": calibration_error(expected, 1.0 - truth),
        "value/plain_accuracy": float(np.average(list(recall.values()), weights=weight)),
        "value/plain_accuracy_constant": float(1.0 - weight[2] / weight.sum()),
        "policy/optimal": float(seen.optimal[strong].mean()),
        "policy/optimal_share": float(seen.optimal_share[strong].mean()),
    }


def judged_positions(
    suite: EndingSuite, table: Tablebase
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, int]]:
    """Squares, plies to mate and side to move of the positions to judge, and each class's size."""
    random = np.random.default_rng(suite.seed + 1)
    longest = max(suite.distances) if suite.distances else 127
    pools = {
        "strong": (*table.positions(True, 1, longest), True),
        "lost": (*table.positions(False, 0, longest - 1), False),
        "drawn": (*table.positions(False, DRAWN, DRAWN), False),
    }
    squares, dtm, strong = [], [], []
    for place, plies, side in pools.values():
        chosen = random.choice(len(plies), min(suite.judged, len(plies)), replace=False)
        squares.append(place[chosen])
        dtm.append(plies[chosen])
        strong.append(np.full(len(chosen), side))
    sizes = {name: len(pool[1]) for name, pool in pools.items()}
    return np.concatenate(squares), np.concatenate(dtm), np.concatenate(strong), sizes


def calibration_error(
    expected: Float[np.ndarray, "M"], truth: Float[np.ndarray, "M"], bins: int = 10
) -> float:
    """Mean distance between expected and true result over bins of the expectation in [-1, 1]."""
    place = np.clip(((expected + 1.0) / 2.0 * bins).astype(int), 0, bins - 1)
    error = 0.0
    for bin in np.unique(place):
        here = place == bin
        error += here.mean() * abs(expected[here].mean() - truth[here].mean())
    return float(error)
