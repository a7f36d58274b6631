#include "style.hpp"

namespace flotilla::page {

// Without "<" and "&": the file is well-formed XML as it is.
const std::string_view style = R"css(
:root { color-scheme: light dark;
  --ink: #1b2330; --soft: #5a6675; --paper: #ffffff; --panel: #f6f7f9; --line: #d9dee5; --grid: #e7eaef; --alarm: #b3261e;
  --blue: #0072b2; --orange: #e69f00; --green: #009e73; --purple: #c06d9b; --sky: #56b4e9; --vermillion: #d55e00; --yellow: #e3cf1f; --grey: #a4adb8; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6eaf0; --soft: #9ba7b5; --paper: #12161c; --panel: #1a2028; --line: #333d49; --grid: #262e38; --alarm: #ff8a80;
  --blue: #3d97d8; --orange: #e8a820; --green: #19b68a; --purple: #d98bb7; --sky: #7cc7f2; --vermillion: #ec7424; --yellow: #ecdc4b; --grey: #66717e; } }
@media print { :root { color-scheme: light;
  --ink: #000; --soft: #444; --paper: #fff; --panel: #fff; --line: #bbb; --grid: #ddd; --alarm: #900;
  --blue: #0072b2; --orange: #e69f00; --green: #009e73; --purple: #c06d9b; --sky: #56b4e9; --vermillion: #d55e00; --yellow: #e3cf1f; --grey: #a4adb8; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem;
  overflow-wrap: anywhere; -webkit-text-size-adjust: 100%; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .4rem 0 .2rem; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; } .lead { color: var(--soft); margin-top: 0; }
.notice { border-left: 4px solid var(--alarm); background: var(--panel); padding: .6rem .9rem; border-radius: 0 6px 6px 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .8rem; }
.tile div { color: var(--soft); font-size: .82rem; line-height: 1.35; } .tile strong { display: block; font-size: 1.3rem; line-height: 1.4; font-weight: 600; }
.wide { overflow-x: auto; margin: .6rem 0; } table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); max-width: 34rem; }
th { color: var(--soft); font-weight: 500; vertical-align: bottom; } .number { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .6rem 0; font-size: .94rem; } dt { color: var(--soft); } dd { margin: 0; }
figure { margin: 1.4rem 0 1.8rem; } figcaption { font-weight: 600; font-size: .98rem; margin-bottom: .1rem; }
.about { color: var(--soft); font-size: .88rem; margin: 0 0 .5rem; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .85rem; color: var(--soft); margin: 0 0 .4rem; } .legend svg { display: inline-block; width: .75em; height: .75em; margin-right: .4em; }
details { margin: .3rem 0; font-size: .88rem; } summary { color: var(--soft); cursor: pointer; width: max-content; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; } .narrow { display: none; }
text { fill: var(--ink); } .soft { fill: var(--soft); } .on { fill: #10151c; } .on-dark, .on-blue { fill: #fff; } .name { font-weight: 600; }
.grid { stroke: var(--grid); } .axis { stroke: var(--line); } .event { stroke-dasharray: 2 3; } .diagonal { stroke: var(--soft); stroke-dasharray: 5 4; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; } .faint { stroke-width: 1; opacity: .45; } .broken { stroke-dasharray: 5 4; }
.dot { stroke: var(--paper); stroke-width: 1; } .bar { stroke: var(--paper); stroke-width: .6; } .limit { stroke: var(--ink); stroke-width: 2; }
.box { stroke: var(--paper); stroke-width: 1.5; } .none { fill: var(--panel); stroke: var(--grid); } .arrow { stroke: var(--soft); fill: none; }
.f0 { fill: var(--blue); } .f1 { fill: var(--orange); } .f2 { fill: var(--green); } .f3 { fill: var(--purple); } .f4 { fill: var(--sky); }
.f5 { fill: var(--vermillion); } .f6 { fill: var(--yellow); } .f7 { fill: var(--grey); }
.s0 { stroke: var(--blue); } .s1 { stroke: var(--orange); } .s2 { stroke: var(--green); } .s3 { stroke: var(--purple); } .s4 { stroke: var(--sky); }
.s5 { stroke: var(--vermillion); } .s6 { stroke: var(--yellow); } .s7 { stroke: var(--grey); }
.small { grid-template-columns: repeat(auto-fill, minmax(6rem, 1fr)); gap: .4rem; } .small .tile { padding: .3rem .5rem; } .small strong { font-size: 1rem; }
.e0 { border-left: 5px solid var(--blue); } .e1 { border-left: 5px solid var(--orange); } .e2 { border-left: 5px solid var(--green); } .e3 { border-left: 5px solid var(--purple); }
.e4 { border-left: 5px solid var(--sky); } .e5 { border-left: 5px solid var(--vermillion); } .e6 { border-left: 5px solid var(--yellow); } .e7 { border-left: 5px solid var(--grey); }
.h0 { fill: #00224e; } .h1 { fill: #1c3d6e; } .h2 { fill: #44516b; } .h3 { fill: #666970; } .h4 { fill: #878479; } .h5 { fill: #a99e73; } .h6 { fill: #d0bf62; } .h7 { fill: #fee838; } .hit { fill: transparent; }
@media (prefers-color-scheme: dark) { .on-blue { fill: #10151c; } }
@media print { .on-blue { fill: #fff; } }
@media (max-width: 640px) { body { padding: .8rem .8rem 3rem; } .wide-only { display: none; } .narrow { display: block; } h1 { font-size: 1.35rem; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } figure, .tile, tr { break-inside: avoid; } h2 { break-after: avoid; }
  .wide-only { display: block; } .narrow { display: none; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)css";

}  // namespace flotilla::page
