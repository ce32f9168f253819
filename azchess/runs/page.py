"""The report of a run as one HTML page that needs nothing but itself."""

import html
import re

from azchess.runs.tables import RunData, Table, commands, flatten, not_evaluated

INK = "#24292f"
"""Colour of text and axes; on the page it becomes the text colour of the reader's theme."""

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin: 2.2rem 0 .6rem; font-size: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem 1.2rem .25rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; white-space: pre-wrap; }
tbody th:not([colspan]) { font-weight: 400; }
tr + tr > * { border-top: 1px solid rgb(128 128 128 / .25); }
thead th { border-bottom: 2px solid rgb(128 128 128 / .5); }
.scroll, figure { overflow-x: auto; margin: 0; }
figure svg { width: 100%; min-width: 44rem; height: auto; }
figcaption, .note { opacity: .75; font-size: .9rem; }
code { background: rgb(128 128 128 / .15); padding: .1rem .35rem; border-radius: .2rem; }
"""


def page(run: RunData, tables: list[Table], figures: list[tuple[str, str, str]]) -> str:
    """The page: it needs nothing but itself, and follows the reader's light or dark theme.

    `figures` are a title, an SVG drawn in the colour INK, and a caption each.
    """
    name = html.escape(run.path.resolve().name)
    parts = [f"<h1>{name}</h1>", html_table(tables[0]._replace(title="Summary"))]
    parts += [html_table(table) for table in tables[1:]]
    if run.evaluation is None:
        parts.append(f'<p class="note">{html.escape(not_evaluated(run))}</p>')
    else:
        text = f"After training means after iteration {run.evaluation['iteration']}. "
        text += (
            "In brackets: the 95 % interval of a share of games. Changes of shares are in points."
        )
        parts.append(f'<p class="note">{html.escape(text)}</p>')
    parts += [html_figure(*figure) for figure in figures]
    settings = html_table(Table("", ("setting", "value"), flatten(run.config)))
    parts.append(f"<h2>Settings</h2><details><summary>config.json</summary>{settings}</details>")
    tries = "".join(
        f"<li><code>{html.escape(command)}</code> {html.escape(purpose)}</li>"
        for command, purpose in commands(run)
    )
    parts.append(f"<h2>Try next</h2><ul>{tries}</ul>")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} – azchess</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{chr(10).join(parts)}
</main>
</body>
</html>
"""


def html_table(table: Table) -> str:
    """A table for the page; the first cell of a row names it."""
    title = f"<h2>{html.escape(table.title)}</h2>" if table.title else ""
    columns = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.head)
    top = f"<thead><tr>{columns}</tr></thead>" if any(table.head) else ""
    wide = f' colspan="{len(table.head)}"'
    body = "".join(
        f'<tr><th scope="row"{"" if cells else wide}>{html.escape(name)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in table.rows
    )
    return f'{title}<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def html_figure(title: str, svg: str, caption: str) -> str:
    """A figure as SVG inside the page, its ink in the page's own text colour."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    # Each figure counts its parts from 1: their names must differ on one page.
    prefix = title.lower().replace(" ", "-")
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg).replace(INK, "currentColor")
    label = html.escape(f"{title}. {caption}")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    caption = html.escape(caption)
    return f"<h2>{title}</h2><figure>{svg}<figcaption>{caption}</figcaption></figure>"
