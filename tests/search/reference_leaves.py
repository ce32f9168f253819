"""A search of several leaves per step in plain Python and float64."""

import math
from typing import Any

from azchess.games.game import Game
from azchess.search.knobs import SearchKnobs
from search.reference import Node, compiled_node, new_node


def puct_leaves(
    game: Game,
    params: float,
    position: Any,
    knobs: SearchKnobs,
    simulations: int,
    leaves: int,
    virtual_loss: bool = False,
) -> tuple[Node, int, float]:
    """The root after a search by steps of up to `leaves` lines; the steps, and the least margin."""
    look, step = compiled_node(game)
    root = new_node(position, look(position, params, 1.0))
    nodes = [root]
    made = steps = 0
    margin = math.inf
    while made < simulations:
        flying: dict[tuple[int, int], int] = {}
        ended: list[tuple[list[tuple[int, int]], int]] = []
        pending = set()
        for _ in range(leaves):
            if made + len(ended) == simulations:
                break
            path, index = [], 0
            while True:
                slot, gap = _choose(nodes[index], index, flying, knobs, game, virtual_loss)
                margin = min(margin, gap)
                path.append((index, slot))
                child = nodes[index].children.get(slot)
                if child is None or nodes[child].finished:
                    break
                index = child
            for edge in path:
                flying[edge] = flying.get(edge, 0) + 1
            if path[-1] in pending:
                continue
            if child is None:
                pending.add(path[-1])
            ended.append((path, -1 if child is None else child))
        for path, child in ended:
            index, slot = path[-1]
            if child < 0:
                above = nodes[index]
                child = len(nodes)
                nodes.append(new_node(*step(above.position, above.labels[slot], params, 1.0)))
                above.children[slot] = child
            value, mover = nodes[child].value, nodes[child].mover
            for index, slot in path:
                node = nodes[index]
                node.visits[slot] += 1
                node.total[slot] += value if node.mover == mover else -value
        made += len(ended)
        steps += 1
    return root, steps, margin


def _choose(
    node: Node,
    index: int,
    flying: dict[tuple[int, int], int],
    knobs: SearchKnobs,
    game: Game,
    virtual_loss: bool,
) -> tuple[int, float]:
    away = [flying.get((index, slot), 0) for slot in range(len(node.labels))]
    visits, total = node.visits, node.total
    if virtual_loss:
        visits = [n + m for n, m in zip(visits, away, strict=True)]
        total = [w - m for w, m in zip(total, away, strict=True)]
        away = [0] * len(away)
    count = sum(visits)
    c = float(knobs.c_init) + math.log((1 + count + float(knobs.c_base)) / float(knobs.c_base))

    def score(slot: int) -> float:
        q = total[slot] / visits[slot] if visits[slot] else float(knobs.fpu)
        return q + c * node.prior[slot] * math.sqrt(count) / (1 + visits[slot] + away[slot])

    scores = [score(slot) for slot in range(len(node.labels))]
    order = sorted(
        range(len(scores)), key=lambda s: (-scores[s], -node.prior[s], game.ranks[node.labels[s]])
    )
    gap = math.inf
    if len(order) > 1:
        gap = scores[order[0]] - scores[order[1]] or node.prior[order[0]] - node.prior[order[1]]
    return order[0], gap
