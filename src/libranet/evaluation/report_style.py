"""The look of the HTML report."""

STYLE = """
:root { --ink: #1c2128; --soft: #626b77; --line: #e2e5ea; --wash: #f6f7f9; --best: #e5f4ec; --accent: #1f7a5c; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 28px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 40px 0 10px; padding-top: 10px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 26px 0 8px; }
p { margin: 6px 0; max-width: 88ch; }
.soft, figcaption, .tick { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 11px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; background: var(--wash); }
th:first-child, td:first-child { text-align: left; }
td.text { text-align: left; }
tr.measured td { font-weight: 600; }
tr.reported td { color: var(--soft); }
td.best { background: var(--best); font-weight: 600; }
td small { display: block; color: var(--soft); font-weight: 400; font-size: 12px; line-height: 1.2; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-right: 7px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 18px 26px; }
.charts h3 { margin: 0 0 2px; }
.chart { width: 100%; max-width: 560px; height: auto; display: block; }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.chart .name, .chart .value { font-size: 12px; fill: var(--ink); }
.panel { margin: 0 0 26px; }
.strip { display: grid; gap: 6px; margin-bottom: 6px; }
.strip figure { margin: 0; }
.strip img { width: 100%; height: auto; display: block; border-radius: 3px; background: var(--wash); }
figcaption { font-size: 12.5px; padding: 2px 1px; }
.missing { background: #fdf6e7; border-left: 3px solid #d9a441; padding: 8px 14px; margin: 14px 0; }
.missing ul { margin: 4px 0; padding-left: 18px; }
.scale { display: inline-block; width: 160px; height: 9px; vertical-align: middle; border-radius: 2px; margin: 0 6px;
  background: linear-gradient(90deg, #000004, #3b0f70, #8c2981, #de4968, #fe9f6d, #fcfdbf); }
details summary { cursor: pointer; color: var(--accent); margin: 8px 0; }
.legend span { margin-right: 16px; }
@media print { details { display: block; } main { max-width: none; } }
"""
