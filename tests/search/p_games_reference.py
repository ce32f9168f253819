"""UCT on P-games in plain Python, with trees of its own and nothing of the package.

Kocsis & Szepesvari 2006, section 3.1: MAX moves first and scores 0 to 127 with each move, MIN as
much for the other side, and the sign of the sum after the last move is the result.
"""

import math
import random


def p_game(breadth: int, plies: int, chance: random.Random) -> tuple[list[int], list[int]]:
    """The results of all lines, and what each root move is worth by minimax."""
    sums = [0]
    for ply in range(plies):
        sign = 1 if ply % 2 == 0 else -1
        sums = [total + sign * chance.randrange(128) for total in sums for _ in range(breadth)]
    results = [(total > 0) - (total < 0) for total in sums]
    worth = results
    for ply in range(plies - 1, 0, -1):
        best = max if ply % 2 == 0 else min
        groups = range(0, len(worth), breadth)
        worth = [best(worth[start : start + breadth]) for start in groups]
    return results, worth


def uct(
    results: list[int], breadth: int, plies: int, simulations: int, c: float, chance: random.Random
) -> int:
    """The root move of best mean after so many random games, ties and first visits at random."""
    visits: dict[tuple[int, int], int] = {}
    total: dict[tuple[int, int], float] = {}
    for _ in range(simulations):
        index, path = 0, []
        for depth in range(plies):
            moves = [(depth + 1, index * breadth + move) for move in range(breadth)]
            new = [move for move in moves if move not in visits]
            if new:
                move = chance.choice(new)
                path.append(move)
                index = move[1]
                for _ in range(depth + 1, plies):
                    index = index * breadth + chance.randrange(breadth)
                break
            left, log = plies - depth, math.log(sum(visits[move] for move in moves))
            power = (left + depth) / (2 * left + depth)
            sign = 1 if depth % 2 == 0 else -1

            def score(move: tuple[int, int], sign=sign, log=log, power=power) -> float:
                n = visits[move]
                return sign * total[move] / n + c * (log / n) ** power

            move = max(moves, key=lambda move: (score(move), chance.random()))
            path.append(move)
            index = move[1]
        for move in path:
            visits[move] = visits.get(move, 0) + 1
            total[move] = total.get(move, 0.0) + results[index]
    means = {move: total[1, move] / visits[1, move] for move in range(breadth)}
    return max(means, key=lambda move: (means[move], chance.random()))


def failures(breadth: int, plies: int, simulations: int, c: float, trees: int) -> list[bool]:
    """Whether UCT failed, on so many trees where a wrong root move exists."""
    chance, failed = random.Random(7), []
    while len(failed) < trees:
        results, worth = p_game(breadth, plies, chance)
        if min(worth) < max(worth):
            move = uct(results, breadth, plies, simulations, c, chance)
            failed.append(worth[move] < max(worth))
    return failed
