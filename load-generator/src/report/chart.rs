//! Charts as SVG: lines or stacked areas over an axis, with colours from the page's style sheet, so that one picture
//! serves light and dark.

use std::fmt::Write as _;

use crate::report::summary::{number, time};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 262.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 52.0;
/// Points of a line at most; beyond it neighbours share one, the highest of them.
const POINTS_MAX: usize = 640;
/// Ticks of an axis, about.
const TICKS: f64 = 5.0;

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Stands in the legend.
    pub name: String,
    /// In the order of x. Where y is no number there is a gap.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A named line.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds, on a logarithmic scale.
    Time,
    /// A number.
    Plain,
    /// Hundredths.
    Percent,
}

/// What x is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Seconds.
    Seconds,
    /// Quantiles, spread by the number of nines.
    Nines,
    /// Steps of a load, of what that says.
    Load(&'static str),
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// What y is, in words.
    pub what: &'static str,
    /// How it is written.
    pub unit: Unit,
    /// What x is.
    pub along: Along,
    /// Whether the series stand on each other.
    pub is_stacked: bool,
    /// Moments at which something happened to all.
    pub marks: Vec<f64>,
    /// The lines.
    pub series: Vec<Series>,
}

/// How values become places.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_log: bool,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.is_log { value.max(self.low).log10() } else { value };
        let share = (place(value) - place(self.low)) / (place(self.high) - place(self.low));
        self.from + (self.to - self.from) * share
    }
}

/// The round number above, of 1, 2 and 5 times a power of ten.
fn round_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.max(1e-9).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= raw * 0.999);
    step.unwrap_or(10.0) * power
}

/// What has a meaning in HTML, as text.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// At most that many points, each the highest of those it stands for.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    let highest = |points: &[(f64, f64)]| {
        points.iter().copied().max_by(|a, b| height(a).total_cmp(&height(b))).unwrap_or_default()
    };
    // A gap is lower than any point.
    fn height(point: &(f64, f64)) -> f64 {
        if point.1.is_nan() { -1.0 } else { point.1 }
    }
    points.chunks(each).map(highest).collect()
}

impl Chart {
    /// A figure with its legend, or nothing if there is nothing to draw.
    pub fn figure(&self) -> String {
        let mut series: Vec<Series> = self
            .series
            .iter()
            .filter(|series| series.points.iter().filter(|point| !point.1.is_nan()).count() > 1)
            .map(|series| Series::new(series.name.clone(), thin(&series.points)))
            .collect();
        if series.is_empty() {
            return String::new();
        }
        if self.is_stacked {
            for upper in 1..series.len() {
                let (below, above) = series.split_at_mut(upper);
                for (point, under) in above[0].points.iter_mut().zip(&below[upper - 1].points) {
                    point.1 += under.1;
                }
            }
        }
        let (x, x_ticks) = self.x_axis(&series);
        let (y, y_ticks) = self.y_axis(&series);
        let mut out = String::new();
        let title = escape(&self.title);
        let mut put = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("a String takes everything");
        };
        put(format_args!("<figure><figcaption>{title} <span>{}</span></figcaption>\n", self.what));
        put(format_args!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n"));
        for (value, label) in y_ticks {
            let at = y.at(value);
            put(format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
                WIDTH - RIGHT,
                LEFT - 7.0,
                at + 4.0,
            ));
        }
        for (value, label) in x_ticks {
            put(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n",
                x.at(value),
                HEIGHT - BOTTOM + 25.0
            ));
        }
        let x_name = match self.along {
            Along::Seconds => "seconds",
            Along::Nines => "of all, as fast or faster",
            Along::Load(what) => what,
        };
        put(format_args!(
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{x_name}</text>\n",
            WIDTH - RIGHT,
            HEIGHT - 5.0
        ));
        for at in &self.marks {
            let at = x.at(*at);
            put(format_args!(
                "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\n",
                HEIGHT - BOTTOM
            ));
        }
        // The uppermost of a stack first, so that those below it cover it; the same does for lines.
        for index in (0..series.len()).rev() {
            let mut path = String::new();
            let mut begins = true;
            for point in &series[index].points {
                if point.1.is_nan() {
                    begins = true;
                    continue;
                }
                let at = format!("{:.1} {:.1}", x.at(point.0), y.at(point.1));
                if std::mem::take(&mut begins) {
                    write!(path, "M{at}").expect("a String takes everything");
                }
                // Also of the first: a point between two gaps is a dot.
                write!(path, "L{at}").expect("a String takes everything");
            }
            if self.is_stacked {
                let (first, last) =
                    (series[index].points[0], series[index].points[series[index].points.len() - 1]);
                write!(path, "L{:.1} {:.1}L{:.1} {:.1}Z", x.at(last.0), y.from, x.at(first.0), y.from)
                    .expect("a String takes everything");
            }
            let class = if self.is_stacked { "area" } else { "line" };
            put(format_args!("<path class=\"{class} s{}\" d=\"{path}\"/>\n", index % 6));
        }
        put(format_args!("</svg>\n<p class=\"legend\">"));
        for (index, series) in series.iter().enumerate() {
            put(format_args!("<span><i class=\"s{}\"></i>{}</span>", index % 6, escape(&series.name)));
        }
        put(format_args!("</p></figure>\n"));
        out
    }

    fn x_axis(&self, series: &[Series]) -> (Scale, Vec<(f64, String)>) {
        let xs = || series.iter().flat_map(|series| &series.points).map(|point| point.0);
        let high = xs().fold(0.0, f64::max).max(1e-3);
        let low = xs().fold(high, f64::min).min(0.0);
        let ticks = match self.along {
            Along::Seconds | Along::Load(_) => {
                let step = round_step((high - low) / TICKS);
                // There is no half of what is counted.
                let step = if self.along == Along::Seconds { step } else { step.max(1.0) };
                let count = ((high - low) / step).floor() as u32;
                (0..=count)
                    .map(|tick| f64::from(tick) * step)
                    .map(|value| (value, number_short(value)))
                    .collect()
            }
            Along::Nines => {
                let name = |nines: u32| match nines {
                    0 => "0 %".to_owned(),
                    1 => "90 %".to_owned(),
                    2 => "99 %".to_owned(),
                    _ => format!("99.{} %", "9".repeat(nines as usize - 2)),
                };
                (0..=high.floor() as u32).map(|nines| (f64::from(nines), name(nines))).collect()
            }
        };
        (Scale { low, high, from: LEFT, to: WIDTH - RIGHT - 12.0, is_log: false }, ticks)
    }

    fn y_axis(&self, series: &[Series]) -> (Scale, Vec<(f64, String)>) {
        let ys = || series.iter().flat_map(|series| &series.points).map(|point| point.1);
        let most = ys().fold(0.0, f64::max);
        let (from, to) = (HEIGHT - BOTTOM, TOP);
        if self.unit == Unit::Time {
            let least = ys().filter(|value| *value > 0.0).fold(most.max(1.0), f64::min);
            let low = 10f64.powf(least.max(1.0).log10().floor());
            let high = 10f64.powf(most.max(low * 1.01).log10().ceil());
            let decades = (high / low).log10().round() as i32;
            let ticks = (0..=decades)
                .map(|decade| low * 10f64.powi(decade))
                .map(|value| (value, time_short(value as u64)))
                .collect();
            return (Scale { low, high, from, to, is_log: true }, ticks);
        }
        let most = if self.unit == Unit::Percent { most.max(5.0) } else { most.max(1e-3) };
        let step = round_step(most / TICKS);
        let count = (most / step - 1e-6).ceil().max(1.0);
        let ticks = (0..=count as u32)
            .map(|tick| f64::from(tick) * step)
            .map(|value| {
                (
                    value,
                    if self.unit == Unit::Percent { format!("{value:.0} %") } else { number_short(value) },
                )
            })
            .collect();
        (Scale { low: 0.0, high: count * step, from, to, is_log: false }, ticks)
    }
}

/// A power of ten of microseconds.
fn time_short(us: u64) -> String {
    match us {
        1_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000.. => format!("{} s", us / 1_000_000),
        _ => time(us),
    }
}

fn number_short(value: f64) -> String {
    if value == value.round() && value < 1000.0 { format!("{value:.0}") } else { number(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(unit: Unit, is_stacked: bool, series: Vec<Series>) -> Chart {
        Chart {
            title: "a < b".into(),
            what: "ms",
            unit,
            along: Along::Seconds,
            is_stacked,
            marks: Vec::new(),
            series,
        }
    }

    #[test]
    fn steps_are_round() {
        let close = |a: f64, b: f64| (a - b).abs() < b * 1e-9;
        assert!(close(round_step(0.7), 1.0) && close(round_step(1.3), 2.0));
        assert!(close(round_step(34.0), 50.0) && close(round_step(0.003), 0.005));
    }

    #[test]
    fn every_point_is_within_the_picture() {
        let points: Vec<(f64, f64)> = (0..5000).map(|x| (f64::from(x), f64::from(x % 97) * 37.0)).collect();
        for unit in [Unit::Time, Unit::Plain, Unit::Percent] {
            for is_stacked in [false, true] {
                let lines = vec![Series::new("x", points.clone()), Series::new("y", points.clone())];
                let svg = chart(unit, is_stacked, lines).figure();
                assert!(!svg.contains("NaN") && !svg.contains("inf"));
                let path = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
                for place in path.split(['M', 'L', 'Z']).filter(|place| !place.is_empty()) {
                    let (x, y) = place.split_once(' ').unwrap();
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    assert!((0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{x} {y}");
                }
            }
        }
    }

    #[test]
    fn seconds_without_data_are_a_gap() {
        let ys = [1.0, 2.0, f64::NAN, f64::NAN, 5.0, f64::NAN];
        let points = (0..6).map(f64::from).zip(ys).collect();
        let svg = chart(Unit::Time, false, vec![Series::new("x", points)]).figure();
        let path = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 3));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn names_are_text_and_nothing_is_no_picture() {
        let line = Series::new("<script>", vec![(0.0, 0.0), (1.0, 0.0)]);
        let figure = chart(Unit::Time, false, vec![line]).figure();
        assert!(figure.contains("&lt;script&gt;") && figure.contains("a &lt; b"));
        assert_eq!(chart(Unit::Plain, false, vec![Series::new("x", vec![(0.0, 1.0)])]).figure(), "");
    }
}
