//! Pictures of a comparison: a bar for each server, and a mark for each of its runs.

use std::fmt::Write as _;

use crate::report::chart::escape;
use crate::report::summary::{median, number};

const WIDTH: f64 = 790.0;
/// Where bars begin: names stand before it.
const LEFT: f64 = 315.0;
/// Where the longest bar ends: its number stands behind it.
const RIGHT: f64 = 700.0;
const TOP: f64 = 48.0;
const ROW: f64 = 30.0;
const BAR: f64 = 16.0;

/// One bar.
pub(super) struct Bar {
    pub(super) name: String,
    /// Of each run, in any order.
    pub(super) values: Vec<f64>,
}

/// A picture as an SVG file of its own.
pub(super) struct Picture {
    pub(super) title: &'static str,
    pub(super) is_logarithmic: bool,
    pub(super) bars: Vec<Bar>,
}

impl Picture {
    /// Powers of ten, where they part the bars; bars from zero need no more than their numbers.
    fn ticks(&self, low: f64, high: f64) -> Vec<f64> {
        let powers = if self.is_logarithmic { -9..10 } else { 0..0 };
        powers.map(|power| 10f64.powi(power)).filter(|value| (low..=high).contains(value)).collect()
    }

    pub(super) fn svg(&self) -> String {
        let all = || self.bars.iter().flat_map(|bar| &bar.values).copied().filter(|value| *value > 0.0);
        let high = all().fold(f64::MIN_POSITIVE, f64::max);
        // A bar of the least value is still to be seen.
        let low = all().fold(high, f64::min) / 2.0;
        let at = |value: f64| {
            let share = if self.is_logarithmic {
                (value.max(low) / low).ln() / (high / low).ln().max(1e-9)
            } else {
                value / high
            };
            LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
        };
        let bottom = TOP + ROW * self.bars.len() as f64;
        let height = bottom + 30.0;
        let scale = if self.is_logarithmic { ", on a logarithmic scale" } else { "" };
        let title = escape(&format!("{}{scale}", self.title));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" \
             aria-label=\"{title}\">\n<style>text{{font:14px system-ui,sans-serif;fill:#1f2328}}.title{{font-weight:600}}\
             .back{{fill:#fff}}.bar{{fill:#8aa4c8}}.own{{fill:#1f4e79}}.run{{stroke:#d1570b;stroke-width:2}}\
             .grid{{stroke:#d0d7de}}.small{{font-size:12px}}\
             @media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.back{{fill:#0d1117}}.bar{{fill:#4d648a}}\
             .own{{fill:#79a8dd}}.grid{{stroke:#30363d}}}}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
             <text class=\"title\" x=\"12\" y=\"26\">{title}</text>\n"
        );
        let foot = height - 10.0;
        let _ = writeln!(
            svg,
            "<line class=\"run\" x1=\"16\" x2=\"16\" y1=\"{}\" y2=\"{}\"/><text class=\"small\" x=\"24\" y=\"{foot}\">\
             one run; bars are medians</text>",
            foot - 12.0,
            foot + 2.0
        );
        for value in self.ticks(low, high) {
            let (x, label) = (at(value), if value < 1.0 { value.to_string() } else { number(value) });
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
                 <text class=\"small\" x=\"{x:.1}\" y=\"{foot}\" text-anchor=\"middle\">{label}</text>",
                TOP - 6.0
            );
        }
        for (index, bar) in self.bars.iter().enumerate() {
            let y = TOP + ROW * index as f64;
            let (base, name) = (y + BAR - 3.0, escape(&bar.name));
            let _ =
                writeln!(svg, "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>", LEFT - 10.0);
            let Some(middle) = median(&bar.values) else {
                let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{base}\">no result</text>");
                continue;
            };
            let is_own = bar.name.starts_with("inkrelay") || bar.name.starts_with("Rust");
            let class = if is_own { "own" } else { "bar" };
            let length = at(middle) - LEFT;
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\"/>"
            );
            for value in &bar.values {
                let x = at(*value);
                let (from, to) = (y - 2.0, y + BAR + 2.0);
                let _ = writeln!(
                    svg,
                    "<line class=\"run\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from}\" y2=\"{to}\"/>"
                );
            }
            let label = if middle < 1.0 { format!("{middle:.3}") } else { number(middle) };
            let end = bar.values.iter().map(|value| at(*value)).fold(at(middle), f64::max) + 8.0;
            let _ = writeln!(svg, "<text x=\"{end:.1}\" y=\"{base}\">{label}</text>");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_ends_at_the_right() {
        let bar = |name: &str, values: &[f64]| Bar { name: name.to_owned(), values: values.to_vec() };
        for is_logarithmic in [false, true] {
            let bars = vec![bar("inkrelay & co", &[100.0, 100.0, 100.0]), bar("other", &[1.0, 3.0, 2.0])];
            let svg = Picture { title: "draws a second", is_logarithmic, bars }.svg();
            assert!(svg.contains(&format!("width=\"{:.1}\" height=\"{BAR}\"", RIGHT - LEFT)), "{svg}");
            assert!(svg.contains("inkrelay &amp; co") && svg.contains(">2</text>"), "{svg}");
        }
        let bars = vec![bar("one", &[20.0]), bar("two", &[3000.0])];
        let svg = Picture { title: "log", is_logarithmic: true, bars }.svg();
        assert!(
            [">10</text>", ">100</text>", ">1,000</text>"].iter().all(|tick| svg.contains(tick)),
            "{svg}"
        );
        let svg = Picture { title: "nothing", is_logarithmic: true, bars: vec![bar("none", &[])] }.svg();
        assert!(svg.contains("no result"));
    }
}
