//! A board as a picture: SVG, the same bytes for the same board.
//!
//! A stroke of one width is a path with round ends. Where pressure shapes it, it is filled instead: for each
//! piece of the line, the outline around the circles at its two ends. All pieces are one path and turn the same
//! way, so however often they overlap, the pen's colour is laid on once.

use std::fmt::Write as _;

use inkrelay_protocol::Board;
use inkrelay_protocol::board::Stroke;

/// The tool that draws translucently.
const HIGHLIGHTER: u64 = 1;
/// How much of a highlighter's colour covers.
const HIGHLIGHTER_OPACITY: f64 = 0.4;
/// Free space around the drawing, in pixels.
const MARGIN: f64 = 16.0;
/// The longer side of the picture at most, in pixels; a larger board is scaled down.
const SIDE_MAX: f64 = 4096.0;
/// What an empty board measures, in pixels.
const EMPTY: (f64, f64) = (640.0, 480.0);
/// Pixels between the circles along a curve.
const SAMPLE: f64 = 1.5;
/// Circles along one curve at most.
const SAMPLES_MAX: f64 = 8.0;

/// A circle of the pen along a stroke, in pixels.
#[derive(Clone, Copy, Debug)]
struct Dab {
    x: f64,
    y: f64,
    radius: f64,
}

impl Dab {
    fn between(self, other: Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Self { x: mix(self.x, other.x), y: mix(self.y, other.y), radius: mix(self.radius, other.radius) }
    }

    fn distance(self, other: Self) -> f64 {
        let (dx, dy) = (other.x - self.x, other.y - self.y);
        (dx * dx + dy * dy).sqrt()
    }
}

/// Draws what a board shows.
pub fn render(board: &Board) -> String {
    let mut body = String::new();
    let mut bounds: Option<(f64, f64, f64, f64)> = None;
    for stroke in board.strokes() {
        let dabs = dabs(stroke);
        for dab in &dabs {
            let (left, top) = (dab.x - dab.radius, dab.y - dab.radius);
            let (right, bottom) = (dab.x + dab.radius, dab.y + dab.radius);
            let (l, t, r, b) = bounds.unwrap_or((left, top, right, bottom));
            bounds = Some((l.min(left), t.min(top), r.max(right), b.max(bottom)));
        }
        draw(&mut body, stroke, &dabs);
    }
    let (left, top, right, bottom) = bounds.unwrap_or((MARGIN, MARGIN, EMPTY.0 - MARGIN, EMPTY.1 - MARGIN));
    let (x, y) = ((left - MARGIN).floor(), (top - MARGIN).floor());
    let (width, height) = ((right + MARGIN).ceil() - x, (bottom + MARGIN).ceil() - y);
    let scale = (SIDE_MAX / width.max(height)).min(1.0);
    let (shown_width, shown_height) = ((width * scale).ceil().max(1.0), (height * scale).ceil().max(1.0));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{shown_width}\" height=\"{shown_height}\" \
         viewBox=\"{x} {y} {width} {height}\">\n\
         <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// The pen's circles at the recorded points.
fn dabs(stroke: &Stroke) -> Vec<Dab> {
    let radius = f64::from(stroke.style.width.max(1)) / 32.0;
    let dab = |point: inkrelay_protocol::board::Point| Dab {
        x: f64::from(point.x) / 16.0,
        y: f64::from(point.y) / 16.0,
        // Half the pressure is the pen's own width.
        radius: radius * point.pressure.map_or(1.0, |pressure| 0.4 + 1.2 * f64::from(pressure) / 255.0),
    };
    stroke.points().map(dab).collect()
}

fn draw(out: &mut String, stroke: &Stroke, dabs: &[Dab]) {
    let [first, rest @ ..] = dabs else { return };
    let [red, green, blue, alpha] = stroke.style.rgba.to_be_bytes();
    let colour = format!("#{red:02x}{green:02x}{blue:02x}");
    let mut looks = String::new();
    let mut opacity = f64::from(alpha) / 255.0;
    if stroke.style.tool == HIGHLIGHTER {
        opacity *= HIGHLIGHTER_OPACITY;
        looks.push_str(" style=\"mix-blend-mode:multiply\"");
    }
    if opacity < 1.0 {
        // The numbers are finite, and writing to a String does not fail.
        let _ = write!(looks, " opacity=\"{}\"", number(opacity));
    }
    let is_dot = rest.iter().all(|dab| dab.distance(*first) == 0.0);
    let one_width = rest.iter().all(|dab| dab.radius == first.radius);
    let _ = if is_dot {
        let radius = dabs.iter().fold(0.0, |widest: f64, dab| widest.max(dab.radius));
        let (x, y, r) = (number(first.x), number(first.y), number(radius));
        writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{colour}\"{looks}/>")
    } else if one_width {
        writeln!(
            out,
            "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{}\" stroke-linecap=\"round\" \
             stroke-linejoin=\"round\"{looks}/>",
            line(dabs),
            number(first.radius * 2.0)
        )
    } else {
        writeln!(out, "<path d=\"{}\" fill=\"{colour}\"{looks}/>", outline(&smooth(dabs)))
    };
}

/// A line that bends at the recorded points and passes between them.
fn line(dabs: &[Dab]) -> String {
    let mut path = String::new();
    let place = |dab: &Dab| format!("{} {}", number(dab.x), number(dab.y));
    if let [first, second, ..] = dabs {
        path = format!("M{}L{}", place(first), place(&first.between(*second, 0.5)));
    }
    for pair in dabs.windows(2).skip(1) {
        let _ = write!(path, "Q{} {}", place(&pair[0]), place(&pair[0].between(pair[1], 0.5)));
    }
    if let Some(last) = dabs.last() {
        let _ = write!(path, "L{}", place(last));
    }
    path
}

/// The same line as circles that stand close.
fn smooth(dabs: &[Dab]) -> Vec<Dab> {
    let mut out: Vec<Dab> = dabs.first().copied().into_iter().collect();
    let middles: Vec<Dab> = dabs.windows(2).map(|pair| pair[0].between(pair[1], 0.5)).collect();
    out.extend(middles.first());
    for (ends, bend) in middles.windows(2).zip(dabs.iter().skip(1)) {
        let length = ends[0].distance(*bend) + bend.distance(ends[1]);
        let steps = (length / SAMPLE).ceil().clamp(1.0, SAMPLES_MAX);
        for step in 1..=steps as u32 {
            let share = f64::from(step) / steps;
            out.push(ends[0].between(*bend, share).between(bend.between(ends[1], share), share));
        }
    }
    out.extend(dabs.last());
    out
}

fn outline(dabs: &[Dab]) -> String {
    let mut path = String::new();
    for pair in dabs.windows(2) {
        piece(&mut path, pair[0], pair[1]);
    }
    path
}

/// The outline around two circles.
fn piece(out: &mut String, a: Dab, b: Dab) {
    let distance = a.distance(b);
    if distance <= (a.radius - b.radius).abs() {
        // One lies within the other.
        let Dab { x, y, radius } = if a.radius > b.radius { a } else { b };
        let (left, right, y, r) = (number(x - radius), number(x + radius), number(y), number(radius));
        let _ = write!(out, "M{right} {y}A{r} {r} 0 1 0 {left} {y}A{r} {r} 0 1 0 {right} {y}Z");
        return;
    }
    let (ux, uy) = ((b.x - a.x) / distance, (b.y - a.y) / distance);
    // Where the common tangents touch: the direction across the line, leaning towards the narrower end.
    let lean = (a.radius - b.radius) / distance;
    let across = (1.0 - lean * lean).sqrt();
    let touch = |dab: Dab, side: f64| {
        let x = dab.x + dab.radius * (ux * lean - uy * across * side);
        let y = dab.y + dab.radius * (uy * lean + ux * across * side);
        format!("{} {}", number(x), number(y))
    };
    let arc = |radius: f64, large: bool| format!("{r} {r} 0 {} 0 ", u8::from(large), r = number(radius));
    let _ = write!(
        out,
        "M{}L{}A{}{}L{}A{}{}Z",
        touch(a, 1.0),
        touch(b, 1.0),
        arc(b.radius, lean < 0.0),
        touch(b, -1.0),
        touch(a, -1.0),
        arc(a.radius, lean > 0.0),
        touch(a, 1.0),
    );
}

/// Two digits after the point, and none that are not needed.
fn number(value: f64) -> String {
    let mut text = format!("{:.2}", value);
    while text.ends_with('0') || text.ends_with('.') {
        let was_point = text.ends_with('.');
        text.pop();
        if was_point {
            break;
        }
    }
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use inkrelay_protocol::{Channels, ClientId, Draw, Identity, Record, Style};

    use super::*;

    fn board(draws: &[Draw]) -> Board {
        let mut board = Board::new();
        for (n, draw) in (1..).zip(draws) {
            let identity = Identity { author: ClientId::new(1).unwrap(), n, at: 0 };
            board.apply(&Record { identity, draw: &draw.to_bytes() });
        }
        board
    }

    fn stroke(stroke: u64, style: Style, channels: Channels, points: &[i32]) -> Draw {
        Draw::Begin { stroke, style, channels, points: points.to_vec(), end: true }
    }

    const PEN: Style = Style { tool: 0, rgba: 0x1020_30ff, width: 64 };

    #[test]
    fn an_empty_board_is_an_empty_picture() {
        let svg = render(&Board::new());
        let picture = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(picture.root_element().attribute("viewBox"), Some("0 0 640 480"));
        assert_eq!(picture.root_element().children().filter(|node| node.is_element()).count(), 1);
    }

    #[test]
    fn strokes_fit_the_picture_and_are_drawn_by_their_kind() {
        let highlighter = Style { tool: 1, rgba: 0xffff_00ff, width: 320 };
        let svg = render(&board(&[
            stroke(0, PEN, Channels::NONE, &[160, 320, 160, 0, 0, 160]),
            stroke(1, PEN, Channels::NONE, &[1600, 1600]),
            stroke(2, PEN, Channels::PRESSURE, &[0, 0, 10, 160, 0, 255, 0, 1, 0]),
            stroke(3, highlighter, Channels::NONE, &[0, 160, 3200, 0]),
        ]));
        let picture = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(picture.root_element().attribute("viewBox"), Some("-26 -20 252 138"));
        let kinds: Vec<_> = picture.root_element().children().filter(|node| node.is_element()).collect();
        assert_eq!(kinds[1].attribute("d"), Some("M10 20L15 20Q20 20 20 25L20 30"));
        assert_eq!(kinds[2].attribute("r"), Some("2"));
        assert_eq!(kinds[3].attribute("fill"), Some("#102030"));
        assert_eq!(kinds[4].attribute("opacity"), Some("0.4"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(
            svg,
            render(&board(&[
                stroke(0, PEN, Channels::NONE, &[160, 320, 160, 0, 0, 160]),
                stroke(1, PEN, Channels::NONE, &[1600, 1600]),
                stroke(2, PEN, Channels::PRESSURE, &[0, 0, 10, 160, 0, 255, 0, 1, 0]),
                stroke(3, highlighter, Channels::NONE, &[0, 160, 3200, 0]),
            ]))
        );
    }

    #[test]
    fn a_board_of_any_size_is_a_picture() {
        let far = 1 << 30;
        let svg = render(&board(&[
            stroke(0, PEN, Channels::PRESSURE, &[far, far, 0, 0, 0, 255]),
            stroke(1, Style { width: 0, ..PEN }, Channels::NONE, &[-far, -far, 1, 1]),
        ]));
        let picture = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(picture.root_element().attribute("width"), Some("4096"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(1.0, "1"), (-0.001, "0"), (10.0, "10"), (0.5, "0.5"), (-1.256, "-1.26"), (100.1, "100.1")]
        {
            assert_eq!(number(value), text);
        }
    }
}
