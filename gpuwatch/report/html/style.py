"""How a report looks: on a screen of any width, and on A4 or Letter paper."""

from __future__ import annotations

from gpuwatch.report.html.chart import dark_rules

_SCREEN = """
:root{--ink:#1C2326;--soft:#566067;--line:#D9DEE1;--ground:#FFFFFF;--panel:#F5F7F8;--size:#8FA3AD;--whole:#566067;
--critical:#9B1C31;--high:#C0392B;--medium:#A35E12;--low:#7A6A17;--info:#4F6374;color-scheme:light dark}
*{box-sizing:border-box}
body{margin:0 auto;max-width:960px;padding:32px 24px 64px;background:var(--ground);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
h1{font-size:24px;line-height:1.2;margin:0 0 4px}
h2{font-size:18px;line-height:1.3;margin:40px 0 4px}
h3{font-size:15px;margin:20px 0 4px}
p{margin:4px 0 12px}
.soft,small{color:var(--soft)}
.lead{font-size:17px;margin:16px 0}
.numbers{display:grid;grid-template-columns:repeat(5,1fr);gap:12px;margin:16px 0;padding:0;list-style:none}
.numbers li{background:var(--panel);border-top:3px solid var(--whole);padding:10px 12px}
.numbers b{display:block;font-size:21px;line-height:1.3;font-variant-numeric:tabular-nums;white-space:nowrap}
.numbers span{display:block;font-size:13px;color:var(--soft)}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:5px 8px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-size:13px;font-weight:600;color:var(--soft);vertical-align:bottom}
th.n,td.n{text-align:right;white-space:nowrap}
tfoot td,tr.sum td{font-weight:600;border-top:2px solid var(--whole);border-bottom:none}
tr.other td{color:var(--soft)}
.fall td{vertical-align:middle;padding:3px 8px}
.fall{table-layout:fixed}
.fall .label{width:28%;overflow-wrap:normal}
.fall .chart{width:28%}
.fall .n{width:11%}
th{overflow-wrap:normal}
.plain .label{overflow-wrap:normal;padding-right:12px}
td.who{min-width:8em}
td.user{min-width:5.5em}
.pay td.chart{width:20%;vertical-align:middle}
.swatch{vertical-align:-1px;margin-right:8px}
svg.bar{display:block;overflow:visible}
svg.sized{display:block}
svg.defs{position:absolute}
.pillars{display:grid;grid-auto-flow:column;grid-auto-columns:minmax(0,1fr);gap:2px;max-width:100%;margin:12px 0 4px;padding:0;
list-style:none;text-align:center;font-variant-numeric:tabular-nums}
.pillars span,.pillars small{display:block;font-size:11px;color:var(--soft);white-space:nowrap}
.pillars svg{display:block;border-bottom:1px solid var(--whole)}
.pale{fill:var(--line)}
.axis{stroke:var(--line)}
.whole{fill:var(--whole)}
.size{fill:var(--size)}
.find{border:1px solid var(--line);border-left:5px solid var(--info);padding:8px 12px;margin:10px 0}
.find p{margin:2px 0}
.find .top{display:flex;justify-content:space-between;gap:16px}
.find .top b:last-child{white-space:nowrap}
.find.critical{border-left-color:var(--critical)}.find.high{border-left-color:var(--high)}
.find.medium{border-left-color:var(--medium)}.find.low{border-left-color:var(--low)}
.word{font-size:12px;font-weight:700;text-transform:uppercase;letter-spacing:.04em;color:var(--info)}
.critical .word{color:var(--critical)}.high .word{color:var(--high)}
.medium .word{color:var(--medium)}.low .word{color:var(--low)}
.notice{border:1px solid var(--medium);border-left-width:5px;padding:8px 12px;margin:12px 0}
.notice p,.notice ul{margin:2px 0}
code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
dt{font-weight:600;margin-top:8px}
dd{margin:0}
"""

_NARROW = """
@media screen and (max-width:700px){
body{padding:20px 16px 48px}
.numbers{grid-template-columns:repeat(2,1fr)}
.wide{display:none}
th,td{padding:5px 4px}
.pillars li:nth-last-child(n+3) span{visibility:hidden}
.pillars span,.pillars small{font-size:9px}
.fall td,.fall th{padding:3px 4px}
.fall{table-layout:auto}
.fall .label{width:38%}
.fall .chart{width:20%}
.fall .n{width:auto}
.swatch{margin-right:4px}
.pay td.chart{width:16%}
.find .top{display:block}
.find .top b{display:block}
}
"""

_DARK = """
@media screen and (prefers-color-scheme:dark){
:root{--ink:#E7EBED;--soft:#A3AEB4;--line:#394247;--ground:#14181B;--panel:#1B2024;--size:#5C6E78;--whole:#8C99A1;
--critical:#F0798C;--high:#E6655A;--medium:#E8A552;--low:#D0BC55;--info:#A3B7C7}
%s
}
"""

_PAPER = """
@page{margin:16mm 14mm 18mm;
@bottom-left{content:"gpuwatch";font:8pt sans-serif;color:#566067}
@bottom-right{content:"Page " counter(page) " of " counter(pages);font:8pt sans-serif;color:#566067}}
@media print{
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
body{max-width:none;padding:0;font-size:10pt}
h1{font-size:17pt}h2{font-size:13pt;margin-top:22px}.lead{font-size:11.5pt}
.numbers b{font-size:13pt}.numbers span{font-size:8.5pt}
h2,h3,thead{break-after:avoid}
h2+p{break-after:avoid}
thead{display:table-header-group}
tfoot{display:table-row-group}
tr,.find,.numbers li,.notice,dt{break-inside:avoid}
.fall,.short,.quality{break-inside:avoid}
.quality{break-before:page}
.how{font-size:8.5pt;line-height:1.35}
.how h2{margin-top:0}
.how dl{columns:2;column-gap:8mm;margin:4px 0}
.how dt{margin-top:5px;break-after:avoid}
.how td{padding:2px 6px}
.pay tr:nth-last-child(-n+2){break-after:avoid}
.pay th,.pay td,.mig th,.mig td{padding:3px 6px}
.find{padding:5px 10px;margin:6px 0;font-size:9pt;line-height:1.35}
.find p{margin:1px 0}
p{break-inside:avoid}
}
"""

CSS = _SCREEN + _NARROW + _DARK % dark_rules() + _PAPER
"""The style sheet of a report, embedded in the page."""
