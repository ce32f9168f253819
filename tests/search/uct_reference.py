"""UCT, UCB1-Tuned, RAVE and MCTS-Solver in plain Python and float64.

The positions of a finished search are evaluated once more, all at once; the plain search then makes
its own way through them, as long as it takes the lines that the other one took.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.game import Game
from azchess.networks.rollouts import rollout_evaluator
from azchess.search.knobs import SearchKnobs
from azchess.search.node import evaluate_node
from search.reference import hashed_evaluator, mix


def hashed_rollouts(game: Game) -> Any:
    """A random game of some plies per position, always the same one for the same position."""
    playing = rollout_evaluator(game, max_plies=12)

    def evaluate(params, keys, positions, moves):
        del keys
        code = jnp.uint32(0)
        for leaf in jax.tree.leaves(positions):
            words = leaf.reshape(leaf.shape[0], -1).astype(jnp.uint32)
            salt = jnp.arange(1, 1 + words.shape[1], dtype=jnp.uint32) * jnp.uint32(2654435761)
            code = mix(code + mix((words + 1) * salt).sum(axis=1))
        return playing(params, jax.vmap(jax.random.key)(code), positions, moves)

    return evaluate


def hashed_with_moves(game: Game) -> Any:
    """Values that are never the same, and the moves of a random game beside them."""
    valuing, playing = hashed_evaluator(game), hashed_rollouts(game)

    def evaluate(params, keys, positions, moves):
        played = playing(params, keys, positions, moves).played
        return dataclasses.replace(valuing(params, keys, positions, moves), played=played)

    return evaluate


EVALUATORS = {
    "hashed": hashed_evaluator,
    "rollouts": hashed_rollouts,
    "hashed with moves": hashed_with_moves,
}


@functools.cache
def think(game: Game, search: Any, evaluator: str) -> Any:
    """`(keys, positions, knobs) -> (Decision, Tree)`, compiled once per test run."""
    evaluate = EVALUATORS[evaluator](game)
    return jax.jit(
        lambda keys, positions, knobs: search.think(game, evaluate, 1.0, keys, positions, knobs)
    )


@functools.cache
def look(game: Game, evaluator: str) -> Any:
    """`(positions [N], discount) -> Node [N]` for evaluators that make no use of keys."""
    evaluate = EVALUATORS[evaluator](game)

    def run(positions, discount):
        count = jax.tree.leaves(positions)[0].shape[0]
        keys = jax.random.split(jax.random.key(0), count)
        discounts = jnp.full((count,), discount)
        return evaluate_node(
            game, evaluate, 1.0, keys, positions, discount=discounts, chance="exact"
        )

    return jax.jit(run)


@dataclasses.dataclass
class Node:
    """A node with its edges as lists, one entry per legal move."""

    labels: list[int]
    prior: list[float]
    value: float
    mover: int
    moves_left: float
    depth: int
    finished: bool
    chance: bool
    played: set[tuple[int, int]]
    lower: int
    upper: int
    visits: list[int]
    total: list[float]
    squares: list[float]
    amaf_visits: list[int]
    amaf_total: list[float]
    children: dict[int, int] = dataclasses.field(default_factory=dict)


Score = Callable[[Node, int, SearchKnobs], float]


def uct(node: Node, slot: int, knobs: SearchKnobs) -> float:
    """Kocsis & Szepesvari 2006, with the progressive bias of Chaslot et al. 2008."""
    n, total = node.visits[slot], sum(node.visits)
    if n == 0:
        return math.inf
    bias = float(knobs.c_prior) * node.prior[slot] / (n + 1)
    return node.total[slot] / n + float(knobs.c_uct) * math.sqrt(math.log(total) / n) + bias


def uct_deep(node: Node, slot: int, knobs: SearchKnobs) -> float:
    """The bias term of the experiments of Kocsis & Szepesvari 2006."""
    n, total = node.visits[slot], sum(node.visits)
    if n == 0:
        return math.inf
    left, depth = max(node.moves_left, 1.0), node.depth
    width = (math.log(total) / n) ** ((left + depth) / (2 * left + depth))
    bias = float(knobs.c_prior) * node.prior[slot] / (n + 1)
    return node.total[slot] / n + float(knobs.c_uct) * width + bias


def ucb1_tuned(node: Node, slot: int, knobs: SearchKnobs) -> float:
    """Auer et al. 2002, with rewards in [0, 1] as there, and its bonus times the knob."""
    n, total = node.visits[slot], sum(node.visits)
    if n == 0:
        return math.inf
    mean, square = node.total[slot] / n, node.squares[slot] / n
    reward, reward_square = (mean + 1) / 2, (square + 2 * mean + 1) / 4
    v = reward_square - reward**2 + math.sqrt(2 * math.log(total) / n)
    bonus = math.sqrt(math.log(total) / n * min(0.25, v))
    bias = float(knobs.c_prior) * node.prior[slot] / (n + 1)
    return 2 * (reward + float(knobs.c_uct) * bonus) - 1 + bias


def _mc_rave(node: Node, slot: int, beta: float) -> float:
    n, m = node.visits[slot], node.amaf_visits[slot]
    if m == 0:
        return math.inf
    amaf = node.amaf_total[slot] / m
    mean = node.total[slot] / n if n else amaf
    return mean + beta * (amaf - mean)  # (1 - beta) mean + beta amaf, without rounding ties away


def rave_hand(node: Node, slot: int, knobs: SearchKnobs) -> float:
    """Gelly & Silver 2011, the hand-selected schedule."""
    k = float(knobs.rave_visits)
    return _mc_rave(node, slot, math.sqrt(k / (3 * sum(node.visits) + k)))


def rave_mse(node: Node, slot: int, knobs: SearchKnobs) -> float:
    """Gelly & Silver 2011, the schedule of least squared error, for rewards in [0, 1]."""
    n, m = node.visits[slot], node.amaf_visits[slot]
    bias = float(knobs.rave_bias) / 2
    return _mc_rave(node, slot, m / (n + m + 4 * n * m * bias**2) if m else 0.0)


def uct_rave(node: Node, slot: int, knobs: SearchKnobs) -> float:
    """UCT-RAVE: the exploration of UCT is added."""
    n, total = node.visits[slot], sum(node.visits)
    if n == 0:
        return math.inf
    return rave_hand(node, slot, knobs) + float(knobs.c_uct) * math.sqrt(math.log(total) / n)


class PlainSearch:
    """One tree, grown next to row `row` of a finished search; `run` says how far they agree.

    With `solver`, what is proven is carried up, and the totals of all edges of a line are summed up
    anew from what is below them, a proven node counting as its proven value at every visit.
    """

    def __init__(
        self,
        game: Game,
        evaluator: str,
        tree: Any,
        row: int,
        score: Score,
        knobs: SearchKnobs,
        solver: bool = False,
    ) -> None:
        positions = jax.tree.map(lambda leaf: leaf[row], tree.positions)
        self.facts = jax.device_get(look(game, evaluator)(positions, float(knobs.discount)))
        self.parent, self.slot = tree.parent[row], tree.slot[row]
        self.score, self.knobs, self.ranks, self.solver = score, knobs, game.ranks, solver
        self.nodes = {0: self.node(0, 0)}

    def node(self, index: int, depth: int) -> Node:
        facts = self.facts
        count = int((facts.moves.labels[index] >= 0).sum())
        solved, value = bool(facts.solved[index]), float(facts.value[index])
        played = np.argwhere(facts.played[index]).tolist() if facts.played is not None else []
        return Node(
            labels=facts.moves.labels[index][:count].tolist(),
            prior=facts.prior[index][:count].astype(np.float64).tolist(),
            value=value,
            mover=int(facts.mover[index]),
            moves_left=float(facts.moves_left[index]),
            depth=depth,
            finished=bool(facts.finished[index]),
            chance=facts.chance is not None and bool(facts.chance[index]),
            played={(seat, label) for seat, label in played},
            lower=round(value) if solved else -1,
            upper=round(value) if solved else 1,
            visits=[0] * count,
            total=[0.0] * count,
            squares=[0.0] * count,
            amaf_visits=[0] * count,
            amaf_total=[0.0] * count,
        )

    def run(self, simulations: int) -> float | None:
        """The margin at which the lines parted, or None where they never did."""
        for new in range(1, simulations + 1):
            path, margin = self.descend(new)
            if path[-1] != (self.parent[new], self.slot[new]):
                return margin
            self.back_up(path)
        return None

    def descend(self, new: int) -> tuple[list[tuple[int, int]], float]:
        path, index, margin = [], 0, math.inf
        while True:
            slot, gap = self.choose(self.nodes[index])
            margin = min(margin, gap)
            path.append((index, slot))
            child = self.nodes[index].children.get(slot)
            if child is None:
                self.nodes[index].children[slot] = new
                self.nodes[new] = self.node(new, len(path))
                return path, margin
            if self.nodes[child].finished:
                return path, margin
            index = child

    def choose(self, node: Node) -> tuple[int, float]:
        slots = range(len(node.labels))
        if node.chance:
            keys = [(0, node.prior[slot] / (1 + node.visits[slot])) for slot in slots]
        else:
            keys = [(0, self.score(node, slot, self.knobs)) for slot in slots]
            if self.solver:
                keys = self.prefer(node, keys)
        order = sorted(
            slots,
            key=lambda s: (-keys[s][0], -keys[s][1], -node.prior[s], self.ranks[node.labels[s]]),
        )
        if len(order) == 1 or keys[order[0]][0] != keys[order[1]][0]:
            return order[0], math.inf
        first, second = keys[order[0]][1], keys[order[1]][1]
        if first == math.inf == second:  # as close as the priors are
            return order[0], node.prior[order[0]] - node.prior[order[1]] or math.inf
        return order[0], first - second

    def prefer(self, node: Node, keys: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Proven wins first, the quickest of them; what cannot matter last."""
        bounds = [self.edge_bounds(node, slot) for slot in range(len(keys))]
        sure = max(lower for lower, _ in bounds)
        if sure == 1:
            return [
                (1, self.q(node, slot)) if lower == 1 else (-1, 0.0)
                for slot, (lower, _) in enumerate(bounds)
            ]
        if all(upper == -1 for _, upper in bounds):
            return keys
        idle = [upper == -1 or (upper <= sure and lower < sure) for lower, upper in bounds]
        return [(-1, 0.0) if out else key for out, key in zip(idle, keys, strict=True)]

    def q(self, node: Node, slot: int) -> float:
        return node.total[slot] / max(node.visits[slot], 1)

    def edge_bounds(self, node: Node, slot: int) -> tuple[int, int]:
        if slot not in node.children:
            return -1, 1
        child = self.nodes[node.children[slot]]
        same = child.mover == node.mover
        return (child.lower, child.upper) if same else (-child.upper, -child.lower)

    def seen(self, node: Node, child: Node, value: float) -> float:
        value = value if node.mover == child.mover else -value
        return value if node.chance else value * float(self.knobs.discount)

    def back_up(self, path: list[tuple[int, int]]) -> None:
        end = self.nodes[path[-1][0]].children[path[-1][1]]
        fresh = sum(self.nodes[path[-1][0]].visits[path[-1][1] : path[-1][1] + 1]) == 0
        later = set(self.nodes[end].played) if fresh else set()
        value, child = self.nodes[end].value, self.nodes[end]
        for index, slot in reversed(path):
            node = self.nodes[index]
            node.visits[slot] += 1
            value = self.seen(node, child, value)
            if self.solver:
                self.sum_up(node, slot)
                self.prove(node, index)
            else:
                node.total[slot] += value
                node.squares[slot] += value**2
            if not node.chance:
                later.add((node.mover, node.labels[slot]))
                for other, label in enumerate(node.labels):
                    if (node.mover, label) in later:
                        node.amaf_visits[other] += 1
                        node.amaf_total[other] += value
            child = node

    def sum_up(self, node: Node, slot: int) -> None:
        child = self.nodes[node.children[slot]]
        factor = self.seen(node, child, 1.0)
        if child.finished:
            node.total[slot] = node.visits[slot] * factor * child.value
            node.squares[slot] = node.visits[slot] * (factor * child.value) ** 2
        else:
            node.total[slot] = factor * (child.value + sum(child.total))
            node.squares[slot] = factor**2 * (child.value**2 + sum(child.squares))

    def prove(self, node: Node, index: int) -> None:
        before = node.lower, node.upper
        bounds = [
            self.edge_bounds(node, slot)
            for slot in range(len(node.labels))
            if not node.chance or node.prior[slot] > 0
        ]
        node.lower = (min if node.chance else max)(lower for lower, _ in bounds)
        node.upper = max(upper for _, upper in bounds)
        if index == 0 or node.lower != node.upper or before == (node.lower, node.upper):
            return
        worths = {
            slot: self.seen(node, self.nodes[child], self.nodes[child].value)
            for slot, child in node.children.items()
            if self.edge_bounds(node, slot) == (node.lower, node.upper)
        }
        node.value = max(worths.values())
        if node.chance:
            node.value = sum(node.prior[slot] * worth for slot, worth in worths.items())
        node.finished = True
