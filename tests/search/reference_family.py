"""The searches of the PUCT family in plain Python and float64, written from what their authors say.

They are fed with the evaluations of the positions that a compiled search met, in the order in which
it met them, and say for how long they would have gone the same ways.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.search.node import evaluate_node
from search.reference import hashed_evaluator


@functools.cache
def searched(search: Any, game: Any) -> Any:
    """`(params, keys, positions, knobs) -> (Decision, Tree)`, compiled once per test run."""
    evaluate = hashed_evaluator(game)

    def run(params, keys, positions, knobs):
        return search.think(game, evaluate, params, keys, positions, knobs)

    return jax.jit(run)


@functools.cache
def _looker(game: Any) -> Any:
    evaluate = hashed_evaluator(game)

    def look(params, positions, discount, temperature):
        batch, nodes = jax.tree.leaves(positions)[0].shape[:2]
        flat = jax.tree.map(lambda leaf: leaf.reshape(batch * nodes, *leaf.shape[2:]), positions)
        keys = jax.random.split(jax.random.key(0), batch * nodes)
        node = evaluate_node(
            game,
            evaluate,
            params,
            keys,
            flat,
            discount=jnp.repeat(discount, nodes),
            policy_temperature=jnp.repeat(temperature, nodes),
        )
        facts = {
            "labels": node.moves.labels,
            "prior": node.prior,
            "value": node.value,
            "draw": node.wdl[:, 1],
            "moves_left": node.moves_left,
            "finished": node.finished,
            "solved": node.solved,
            "mover": node.mover,
        }
        return jax.tree.map(lambda leaf: leaf.reshape(batch, nodes, *leaf.shape[1:]), facts)

    return jax.jit(look)


def evaluations(game: Any, params: float, tree: Any, knobs: Any) -> Any:
    """What the evaluator and the rules say of all positions of trees `[B, N]`, unsearched."""
    facts = _looker(game)(params, tree.positions, knobs.discount, knobs.policy_temperature)
    return jax.device_get(facts)


@dataclasses.dataclass
class Node:
    """A node with its edges as lists, one entry per legal move."""

    labels: list[int]
    prior: list[float]
    value: float
    draw: float
    moves_left: float
    finished: bool
    solved: bool
    mover: int
    side: int = 1
    lower: int = -1
    upper: int = 1
    visits: list[int] = dataclasses.field(default_factory=list)
    total: list[float] = dataclasses.field(default_factory=list)
    draws: list[float] = dataclasses.field(default_factory=list)
    plies: list[float] = dataclasses.field(default_factory=list)
    children: dict[int, int] = dataclasses.field(default_factory=dict)

    @property
    def q(self) -> list[float | None]:
        pairs = zip(self.total, self.visits, strict=True)
        return [total / visits if visits else None for total, visits in pairs]


def _node(facts: Any, index: int, prior: Any = None) -> Node:
    labels = facts["labels"][index]
    count = int((labels >= 0).sum())
    node = Node(
        labels=labels[:count].tolist(),
        prior=(facts["prior"][index] if prior is None else prior)[:count].astype(float).tolist(),
        value=float(facts["value"][index]),
        draw=float(facts["draw"][index]),
        moves_left=float(facts["moves_left"][index]),
        finished=bool(facts["finished"][index]),
        solved=bool(facts["solved"][index]),
        mover=int(facts["mover"][index]),
        visits=[0] * count,
        total=[0.0] * count,
        draws=[0.0] * count,
        plies=[0.0] * count,
    )
    if node.solved:
        node.lower = node.upper = round(node.value)
    return node


Rule = Callable[[Node, SimpleNamespace, bool], tuple[list[float], float]]
"""`(node, knobs, at the root) -> (scores, how close it was to another formula)`."""


@dataclasses.dataclass
class Grown:
    """Where a plain search and a compiled one have gone together."""

    nodes: dict[int, Node]
    margin: float | None = None
    """How close the choice was at which they parted; None where they never did."""
    two_folds: int = 0
    proofs: int = 0


def knobs_of(knobs: Any, row: int, root: bool) -> SimpleNamespace:
    """The numbers of one game, at the root those that are set for it."""
    numbers = {}
    for field in dataclasses.fields(knobs):
        value = getattr(knobs, field.name)
        if value is not None:
            numbers[field.name] = float(value[row]) if np.ndim(value) else float(value)
    if root:
        own = {name[5:]: numbers[name] for name in numbers if name[:7] in ("root_c_", "root_fp")}
        numbers |= own
    return SimpleNamespace(**numbers)


def grow(
    facts: Any,
    tree: Any,
    row: int,
    knobs: Any,
    rule: Rule,
    ranks: np.ndarray,
    *,
    bounds: bool = False,
    names: list[bytes] | None = None,
) -> Grown:
    """Grows the tree of one game beside the compiled one, until they part.

    `ranks` is one table of labels per seat; with `bounds` ends are proven upwards; `names` are
    those of the positions of the tree, equal where the position is the same, for two-fold draws.
    """
    facts = {name: fact[row] for name, fact in facts.items()}
    below, at_root = knobs_of(knobs, row, False), knobs_of(knobs, row, True)
    nodes = {0: _node(facts, 0, tree.prior[row, 0])}
    grown = Grown(nodes)
    for new in range(1, tree.parent.shape[1]):
        path, index, margin = [], 0, math.inf
        while True:
            node = nodes[index]
            scores, risk = rule(node, below if index else at_root, index == 0)
            slot, gap = _best(node, scores, ranks[node.mover])
            margin = min(margin, gap, risk)
            path.append((index, slot))
            child = node.children.get(slot)
            if child is None or nodes[child].finished:
                break
            index = child
        if (tree.parent[row, new], tree.slot[row, new]) != path[-1]:
            grown.margin = margin
            return grown
        if child is None:
            child = node.children[slot] = new
            nodes[new] = leaf = _node(facts, new)
            leaf.side = 1 if leaf.mover == nodes[0].mover else -1
            if names is not None and not leaf.finished:
                line = [names[place] for place, _ in path]
                if names[new] in line:
                    plies = len(line) - max(i for i, name in enumerate(line) if name == names[new])
                    if len(line) >= 4:
                        leaf.finished = leaf.solved = True
                        leaf.value, leaf.draw, leaf.moves_left = 0.0, 1.0, float(plies)
                        leaf.lower = leaf.upper = 0
                        grown.two_folds += 1
        for place, slot in path:
            nodes[place].visits[slot] += 1
        if bounds and nodes[child].solved:
            above = [place for place, _ in reversed(path)]
            grown.proofs += sum(_prove(nodes, place, below.discount) for place in above)
        for place, slot in reversed(path):
            _sum_up(nodes, place, slot, below.discount)
    return grown


def _best(node: Node, scores: list[float], ranks: np.ndarray) -> tuple[int, float]:
    """The slot of the highest score, then prior, then of the lowest rank; and by how much."""
    order = sorted(
        range(len(scores)), key=lambda s: (-scores[s], -node.prior[s], ranks[node.labels[s]])
    )
    if len(order) == 1:
        return order[0], math.inf
    first, second = order[:2]
    if scores[first] == scores[second]:
        return first, node.prior[first] - node.prior[second]
    return first, scores[first] - scores[second]


def _seen(node: Node, child: Node, value: float) -> float:
    return value if node.mover == child.mover else -value


def _prove(nodes: dict[int, Node], index: int, discount: float) -> bool:
    """Minimax over what is known of a node's moves; whether that settles the node."""
    node = nodes[index]
    known = {}
    for slot, number in node.children.items():
        child = nodes[number]
        same = node.mover == child.mover
        known[slot] = (child.lower, child.upper) if same else (-child.upper, -child.lower)
    bounds = [known.get(slot, (-1, 1)) for slot in range(len(node.labels))]
    node.lower, node.upper = (max(side) for side in zip(*bounds, strict=True))
    if node.lower < node.upper or node.solved or index == 0:
        return False
    ways = [
        nodes[number]
        for slot, number in node.children.items()
        if known[slot] == (node.lower, node.lower)
    ]
    lengths = [way.moves_left for way in ways]
    node.finished = node.solved = True
    node.value = discount * max(_seen(node, way, way.value) for way in ways)
    node.draw = float(node.lower == 0)
    node.moves_left = 1 + (max(lengths) if node.lower < 0 else min(lengths))
    return True


def _sum_up(nodes: dict[int, Node], index: int, slot: int, discount: float) -> None:
    """The sums of an edge, from what lies below it: its definition, not an update."""
    node, child = nodes[index], nodes[nodes[index].children[slot]]
    visits = node.visits[slot]
    if child.finished:
        total, draws, plies = (visits * x for x in (child.value, child.draw, child.moves_left))
    else:
        total = child.value + sum(child.total)
        draws = child.draw + sum(child.draws)
        plies = child.moves_left + sum(child.plies)
    node.total[slot] = discount * _seen(node, child, total)
    node.draws[slot] = draws
    node.plies[slot] = plies + visits


def _unvisited(node: Node, knobs: SimpleNamespace, parent: float) -> float:
    mass = sum(p for p, n in zip(node.prior, node.visits, strict=True) if n)
    return knobs.fpu + knobs.fpu_parent * parent - knobs.fpu_reduction * math.sqrt(mass)


def puct(node: Node, knobs: SimpleNamespace, root: bool) -> tuple[list[float], float]:
    """AlphaZero's formula; at the root with KataGo's forced playouts."""
    count = sum(node.visits)
    c = knobs.c_init + knobs.c_factor * math.log((1 + count + knobs.c_base) / knobs.c_base)
    first = _unvisited(node, knobs, (node.value + sum(node.total)) / (1 + count))
    scores, risk = [], math.inf
    for p, n, q in zip(node.prior, node.visits, node.q, strict=True):
        score = (first if q is None else q) + c * p * math.sqrt(count) / (1 + n)
        if root and n and knobs.forced_visits:
            forced = math.sqrt(knobs.forced_visits * p * count)
            risk = min(risk, abs(n - forced) / 10)
            if n < forced:
                score = math.inf
        scores.append(score)
    return scores, risk


def nn_chess(node: Node, knobs: SimpleNamespace, root: bool) -> tuple[list[float], float]:
    """Q + c P sqrt(N(s)) / (1 + N(s, a)), Q = 0 where unvisited."""
    del root
    width = math.sqrt(sum(node.visits))
    edges = zip(node.prior, node.visits, node.q, strict=True)
    return [(q or 0.0) + knobs.c_init * p * width / (1 + n) for p, n, q in edges], math.inf


def lc0_q(node: Node, knobs: SimpleNamespace) -> tuple[list[float | None], float, float]:
    """W - L + draw score x D of the moves and of the node, and W - L of the node."""
    visits = 1 + sum(node.visits)
    drawn = node.side * knobs.draw_score
    moves = [
        None if q is None else q + drawn * d / n
        for q, d, n in zip(node.q, node.draws, node.visits, strict=True)
    ]
    wl, d = (node.value + sum(node.total)) / visits, (node.draw + sum(node.draws)) / visits
    return moves, wl + drawn * d, wl


def lc0(node: Node, knobs: SimpleNamespace, root: bool) -> tuple[list[float], float]:
    """Lc0's formula, with its N: the visits of the node, its own evaluation among them."""
    del root
    visits = 1 + sum(node.visits)
    cpuct = knobs.c_init + knobs.c_factor * math.log((visits + knobs.c_base) / knobs.c_base)
    width = cpuct * math.sqrt(max(visits - 1, 1))
    moves, parent_q, parent_wl = lc0_q(node, knobs)
    parent_m = (node.moves_left + sum(node.plies)) / visits
    first = _unvisited(node, knobs, parent_q)
    scores, risk = [], abs(abs(parent_wl) - knobs.moves_left_threshold)
    for p, n, q, plies in zip(node.prior, node.visits, moves, node.plies, strict=True):
        utility = 0.0
        if q is not None and abs(parent_wl) > knobs.moves_left_threshold:
            longer = plies / n - 1 - parent_m
            cap = knobs.moves_left_most
            utility = min(max(knobs.moves_left_slope * longer, -cap), cap)
            utility *= (q < 0) - (q > 0)
            risk = min(risk, abs(q) or math.inf)
            size = abs(q)
            if 0 < knobs.moves_left_threshold < 1:
                size = max(0.0, size - knobs.moves_left_threshold)
                size /= 1 - knobs.moves_left_threshold
            utility *= (
                knobs.moves_left_constant
                + knobs.moves_left_scaled * size
                + knobs.moves_left_quadratic * size**2
            )
        scores.append((first if q is None else q + utility) + width * p / (1 + n))
    return scores, risk


def lc0_best(nodes: dict[int, Node], knobs: SimpleNamespace, ranks: np.ndarray) -> int:
    """The move that Lc0 plays: shortest proven win, ..., longest proven loss; N, Q, P."""
    root = nodes[0]
    moves, _, _ = lc0_q(root, knobs)

    def key(slot: int) -> tuple:
        proven, length = 0, 0.0
        child = nodes.get(root.children.get(slot, -1))
        if child is not None and child.lower == child.upper:
            proven = int(_seen(root, child, child.lower))
            length = -proven * child.moves_left
        q = moves[slot] or 0.0
        n, p = root.visits[slot], root.prior[slot]
        return proven, length, n, q, p, -ranks[root.labels[slot]]

    return max(range(len(root.labels)), key=key)


def pruned(node: Node, knobs: SimpleNamespace) -> tuple[list[int], float]:
    """KataGo's pruned visits, one visit taken off at a time; and how close a decision was."""
    count = sum(node.visits)
    c = knobs.c_init + knobs.c_factor * math.log((1 + count + knobs.c_base) / knobs.c_base)

    def score(slot: int, visits: int) -> float:
        return node.q[slot] + c * node.prior[slot] * math.sqrt(count) / (1 + visits)

    slots = [slot for slot, visits in enumerate(node.visits) if visits]
    best = max(slots, key=lambda slot: (node.visits[slot], node.prior[slot], node.q[slot]))
    most = score(best, node.visits[best])
    left, risk = list(node.visits), math.inf
    for slot in slots:
        if slot == best:
            continue
        forced = math.sqrt(knobs.forced_visits * node.prior[slot] * count)
        while left[slot] and node.visits[slot] - left[slot] + 1 <= forced:
            risk = min(risk, abs(score(slot, left[slot] - 1) - most))
            if score(slot, left[slot] - 1) >= most:
                break
            left[slot] -= 1
        risk = min(risk, abs(forced - round(forced)) if knobs.forced_visits else math.inf)
        if left[slot] == 1 < node.visits[slot]:
            left[slot] = 0
    return left, risk
