"""Gumbel AlphaZero in plain Python and float64: in the paper's phases, or as mctx reads it."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from azchess.games.game import Game
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from search.reference import Node, compiled_node, new_node

TINY = float(np.finfo(np.float32).tiny)


@dataclasses.dataclass
class Line:
    """One simulation: the node it made, if any, and its closest call.

    The margin is by how much Q would have had to differ for another choice, on the way down or in
    the halving that brought its first move here.
    """

    node: int | None
    margin: float


@dataclasses.dataclass
class Search:
    """One search under way: a game tree, the root's noise and the numbers of the formulas."""

    game: Game
    params: float
    noise: list[float]
    search: Gumbel
    knobs: SearchKnobs
    nodes: dict[int, Node]
    lines: list[Line]
    margin: float = math.inf
    halving: float = math.inf

    def sigma(self, node: Node) -> tuple[list[float], float]:
        """sigma(completed Q) of each move, and what a Q is multiplied by in it."""
        moves = range(len(node.labels))
        visited = [slot for slot in moves if node.visits[slot]]
        count = sum(node.visits)
        value = node.value
        if visited and self.search.mixed_value:
            weight = {slot: max(node.prior[slot], TINY) for slot in visited}
            mean = sum(w * node.total[slot] / node.visits[slot] for slot, w in weight.items())
            value = (value + count * mean / sum(weight.values())) / (1 + count)
        q = [node.total[s] / node.visits[s] if node.visits[s] else value for s in moves]
        low, high = (min(q), max(q)) if self.search.rescale_values else (-1.0, 1.0)
        scale = (float(self.knobs.c_visit) + max(node.visits)) * float(self.knobs.c_scale)
        scale /= max(high - low, 1e-8)
        return [scale * (x - low) for x in q], scale

    def order(self, node: Node, scores: dict[int, float], scale: float, cut: int) -> list[int]:
        """The moves, best first; notes how close it is whether a move is among the first `cut`."""
        ranks = self.game.ranks
        order = sorted(scores, key=lambda s: (-scores[s], -node.prior[s], ranks[node.labels[s]]))
        if cut < len(order):
            gap = scores[order[cut - 1]] - scores[order[cut]]
            self.margin = min(self.margin, gap / max(scale, 1.0))
        return order

    def root_scores(self, slots: list[int]) -> tuple[dict[int, float], float]:
        """g + logits + sigma(Q) of the root's moves."""
        root = self.nodes[0]
        scaled, scale = self.sigma(root)
        noise = float(self.knobs.gumbel_scale)
        scores = {
            slot: noise * self.noise[slot] + math.log(max(root.prior[slot], TINY)) + scaled[slot]
            for slot in slots
        }
        return scores, scale

    def improved(self, node: Node) -> tuple[list[float], float]:
        """softmax(logits + sigma(completed Q))."""
        scaled, scale = self.sigma(node)
        logits = [math.log(max(p, TINY)) + x for p, x in zip(node.prior, scaled, strict=True)]
        power = [math.exp(x - max(logits)) for x in logits]
        return [x / sum(power) for x in power], scale

    def below(self, node: Node) -> int:
        """The move that falls most short of the improved policy."""
        policy, scale = self.improved(node)
        count = 1 + sum(node.visits)
        scores = {s: p - node.visits[s] / count for s, p in enumerate(policy)}
        return self.order(node, scores, scale, 1)[0]

    def simulate(self, slot: int) -> None:
        """One line that begins with a move of the root."""
        path, index, made = [(0, slot)], 0, None
        _, step = compiled_node(self.game)
        discount = float(self.knobs.discount)
        while True:
            index, slot = path[-1]
            child = self.nodes[index].children.get(slot)
            if child is None:
                node = self.nodes[index]
                facts = step(node.position, node.labels[slot], self.params, discount)
                made = child = len(self.nodes)
                self.nodes[child] = new_node(*facts)
                node.children[slot] = child
                break
            if self.nodes[child].finished or len(path) == self.search.max_depth:
                break
            path.append((child, self.below(self.nodes[child])))
        value, mover = self.nodes[child].value, self.nodes[child].mover
        for index, slot in reversed(path):
            node = self.nodes[index]
            value = discount * (value if node.mover == mover else -value)
            mover = node.mover
            node.visits[slot] += 1
            node.total[slot] += value
        self.lines.append(Line(node=made, margin=min(self.margin, self.halving)))
        self.margin = math.inf

    def phases(self, moves: int, budget: int) -> Iterator[tuple[int, int]]:
        """Of each phase, how many moves it has and how often it visits each."""
        rounds = max(1, math.ceil(math.log2(moves)))
        while True:
            yield moves, max(1, int(budget / (rounds * moves)))
            moves = max(min(moves, 2), moves // 2)

    def run_phases(self, moves: int, budget: int) -> None:
        """As the paper has it: scores are read as a phase ends."""
        stay = list(range(len(self.nodes[0].labels)))
        for left, visits in self.phases(moves, budget):
            scores, scale = self.root_scores(stay)
            stay = self.order(self.nodes[0], scores, scale, left)[:left]
            self.halving, self.margin = self.margin, math.inf
            for _ in range(visits):
                rest = budget - len(self.lines)
                if rest < left:
                    kept = {slot: scores[slot] for slot in stay}
                    self.order(self.nodes[0], kept, scale, max(rest, 1))
                    self.halving, self.margin = min(self.halving, self.margin), math.inf
                for slot in stay[:rest]:
                    self.simulate(slot)
            if len(self.lines) == budget:
                return

    def run_visits(self, moves: int, budget: int) -> None:
        """As mctx has it: the best of the moves with a number of visits, score by score."""
        wanted, done = [], 0
        for left, visits in self.phases(moves, budget):
            wanted += [done + turn for turn in range(visits) for _ in range(left)]
            done += visits
            if len(wanted) >= budget:
                break
        for want in wanted[:budget]:
            slots = [s for s, n in enumerate(self.nodes[0].visits) if n == want]
            scores, scale = self.root_scores(slots)
            self.simulate(self.order(self.nodes[0], scores, scale, 1)[0])


def gumbel(
    game: Game,
    params: float,
    position: Any,
    noise: list[float],
    search: Gumbel,
    knobs: SearchKnobs,
    *,
    phases: bool,
) -> Search:
    """A whole search of a position, with the noise of the root's moves."""
    look, _ = compiled_node(game)
    root = new_node(position, look(position, params, float(knobs.discount)))
    run = Search(game, params, noise, search, knobs, {0: root}, [])
    budget = search.simulations if knobs.budget is None else int(knobs.budget)
    moves = min(search.considered, len(root.labels))
    (run.run_phases if phases else run.run_visits)(moves, budget)
    return run
