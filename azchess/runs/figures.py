"""Pictures of a search: its tree, and in chess the moves it looks at as arrows on the board."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from azchess.games.chess import label_to_move, to_fen
from azchess.games.game import Position
from azchess.runs.page import INK
from azchess.search.result import SearchResult
from azchess.search.tree import ROOT, UNVISITED, Tree

COLOURS = "RdBu"
"""Colours of Q: red for a loss, white for a draw, blue for a win."""
WIDEST = 9.0
"""Width of the edge or arrow of all visits, in points."""
FIGURES = dict(zip("KQRBNPkqrbnp", "♔♕♖♗♘♙♚♛♜♝♞♟", strict=True))


@dataclasses.dataclass
class Branch:
    """A node of a picture: the move that led there, its visits, and Q for the root's mover."""

    name: str
    visits: int
    q: float
    depth: int
    across: float = 0.0
    children: list["Branch"] = dataclasses.field(default_factory=list)


def tree_figure(
    tree: Tree,
    name: Callable[[Position, int], str],
    *,
    game: int = 0,
    most: int = 3,
    depth: int = 3,
) -> Figure:
    """The most visited moves of one of the trees: `most` at each node, to a depth.

    Edges are as wide as their share of the root's visits (by its square root) and coloured by Q as
    the root's mover sees it. `name` writes a legal move of a position, as `Notation.name` does.
    """
    one = jax.device_get(jax.tree.map(lambda leaf: leaf[game] if leaf.ndim else leaf, tree))
    root = branch(one, name, most, depth)
    leaves, rows = place(root, 0.0), height(root)
    figure = Figure(figsize=(max(4.0, 1.1 * leaves), 1.3 * rows + 1.0), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(-0.6, leaves - 0.4), ylim=(-rows - 0.4, 0.4))
    draw_branch(axes, root, max(root.visits, 1))
    colour_bar(figure, axes)
    return figure


def branch(tree: Tree, name: Callable[[Position, int], str], most: int, depth: int) -> Branch:
    """What is drawn of a tree, which is without a batch axis and on the host."""

    def below(node: int, found: Branch) -> Branch:
        visits = tree.visits[node]
        if found.depth == depth or tree.finished[node]:
            return found
        sign = 1.0 if tree.mover[node] == tree.mover[ROOT] else -1.0
        position = jax.tree.map(lambda leaf: leaf[node], tree.positions)
        order = np.lexsort((-tree.prior[node], -visits))
        for slot in [int(slot) for slot in order[:most] if visits[slot]]:
            move = Branch(
                name=name(position, int(tree.labels[node, slot])),
                visits=int(visits[slot]),
                q=sign * float(tree.total[node, slot]) / int(visits[slot]),
                depth=found.depth + 1,
            )
            child = int(tree.child[node, slot])
            found.children.append(below(child, move) if child != UNVISITED else move)
        return found

    visits = int(tree.visits[ROOT].sum())
    value = float(tree.value[ROOT] + tree.total[ROOT].sum()) / (1 + visits)
    return below(ROOT, Branch(name="", visits=visits, q=value, depth=0))


def place(branch: Branch, left: float) -> float:
    """Puts a branch above the middle of its children, from `left` on; the place used up."""
    if not branch.children:
        branch.across = left
        return 1.0
    width = 0.0
    for child in branch.children:
        width += place(child, left + width)
    branch.across = (branch.children[0].across + branch.children[-1].across) / 2
    return width


def height(branch: Branch) -> int:
    """The depth of the lowest node below a branch."""
    return max([branch.depth, *(height(child) for child in branch.children)])


def draw_branch(axes: Axes, branch: Branch, visits: int) -> None:
    """Draws the edges below a branch, the names of the moves, their visits and Q."""
    for child in branch.children:
        width = WIDEST * np.sqrt(child.visits / visits)
        line = [branch.across, child.across], [-branch.depth, -child.depth]
        # A dark rim, so that a drawn move's white can be seen.
        axes.plot(*line, color=INK, linewidth=width + 1.2, solid_capstyle="round", zorder=1)
        axes.plot(*line, color=colour(child.q), linewidth=width, solid_capstyle="round", zorder=2)
        draw_branch(axes, child, visits)
    words = f"{branch.name}\n{branch.visits}  {branch.q:+.2f}".strip()
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": INK, "linewidth": 0.6}
    style = {"fontsize": 8, "color": INK, "zorder": 3, "bbox": box}
    axes.text(branch.across, -branch.depth, words, ha="center", va="center", **style)


def board_figure(
    position: Position, result: SearchResult, *, most: int = 5, white_below: bool = True
) -> Figure:
    """A chess board with the `most` visited moves of a search as arrows.

    Arrows are as wide as the square root of their share of the visits and coloured by Q, as the
    player to move sees it. `result` is without a batch axis.
    """
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    axes = figure.subplots()
    draw_board(axes, to_fen(position).split()[0])
    decision = jax.device_get(result.decision)
    total = max(int(decision.visits.sum()), 1)
    order = np.lexsort((-decision.prior, -decision.visits))[:most]
    for slot in [int(slot) for slot in order[::-1] if decision.visits[slot]]:
        move = label_to_move(position, int(decision.labels[slot]))
        ends = [(square % 8, square // 8) for square in (move.from_square, move.to_square)]
        width = WIDEST * np.sqrt(decision.visits[slot] / total)
        style = {"arrowstyle": "-|>", "mutation_scale": 8 + 1.5 * width, "shrinkA": 0, "shrinkB": 4}
        rim = {"linewidth": width + 1.2, "color": INK, "alpha": 0.9}
        fill = {"linewidth": width, "color": colour(float(decision.q[slot])), "alpha": 0.9}
        for look in (rim, fill):
            axes.add_patch(FancyArrowPatch(*ends, **style, **look, zorder=3))
    if not white_below:
        axes.invert_xaxis()
        axes.invert_yaxis()
    colour_bar(figure, axes)
    return figure


def draw_board(axes: Axes, placement: str) -> None:
    """An empty board with the men of a FEN's first field, white below."""
    axes.set(xlim=(-0.5, 7.5), ylim=(-0.5, 7.5), aspect="equal")
    axes.set_xticks(range(8), list("abcdefgh"), color=INK)
    axes.set_yticks(range(8), [str(rank) for rank in range(1, 9)], color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for square in range(64):
        file, rank = square % 8, square // 8
        shade = "#d9d9d9" if (file + rank) % 2 else "#a8a8a8"
        axes.add_patch(Rectangle((file - 0.5, rank - 0.5), 1, 1, facecolor=shade, zorder=0))
    for row, men in enumerate(placement.split("/")):
        file = 0
        for man in men:
            if man.isdigit():
                file += int(man)
                continue
            style = {"ha": "center", "va": "center_baseline", "fontsize": 22, "zorder": 2}
            axes.text(file, 7 - row, FIGURES[man], color="black", **style)
            file += 1


def colour(q: float) -> Any:
    """The colour of a value in [-1, 1]."""
    return colormaps[COLOURS]((q + 1.0) / 2.0)


def colour_bar(figure: Figure, axes: Axes) -> None:
    """Says what the colours mean."""
    scale = ScalarMappable(norm=Normalize(-1.0, 1.0), cmap=COLOURS)
    figure.colorbar(scale, ax=axes, shrink=0.6, label="Q")
