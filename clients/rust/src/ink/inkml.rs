//! Strokes in InkML, the W3C's Ink Markup Language.
//!
//! Source: *Ink Markup Language (InkML)*, W3C Recommendation, 20 September 2011, <https://www.w3.org/TR/InkML/>.
//! Read are traces with their formats, contexts and brushes, in any namespace prefix: the channels X, Y, F
//! (pressure), T (time), OTx and OTy (tilt), their units and resolutions, and values written as differences or
//! second differences. Not read are traces of a lifted pen, canvas transforms and the channels of other pens.

use std::collections::HashMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::{Fault, InkPoint, InkStroke, InkStyle, coordinate, time};

mod trace;

/// Nodes of one file at most.
const NODES_MAX: u32 = 4_000_000;
/// How many contexts may refer to each other in a row.
const CONTEXTS_DEEP: usize = 8;

/// CSS pixels in one unit of length; `None` for what is no length known here.
fn pixels_per(unit: &str) -> Option<f64> {
    const INCH: f64 = 96.0;
    Some(match unit {
        "m" => INCH / 0.0254,
        "cm" => INCH / 2.54,
        "mm" => INCH / 25.4,
        "himetric" => INCH / 2540.0,
        "in" => INCH,
        "pt" => INCH / 72.0,
        "pc" => INCH / 6.0,
        // The device's own units say nothing of lengths, so one is a pixel.
        "px" | "dev" | "" => 1.0,
        _ => return None,
    })
}

/// What a channel's values mean.
#[derive(Clone, Debug)]
struct Channel {
    name: String,
    unit: String,
    /// Values in one `unit`.
    resolution: f64,
    min: f64,
    max: Option<f64>,
    /// Whether a point may end before it.
    intermittent: bool,
}

impl Channel {
    fn new(name: &str) -> Self {
        let unit = String::new();
        Self { name: name.to_owned(), unit, resolution: 1.0, min: 0.0, max: None, intermittent: false }
    }
}

/// The document's parts that others refer to.
struct Parts<'a, 'input> {
    by_id: HashMap<&'a str, Node<'a, 'input>>,
}

/// Reads the strokes of an InkML text.
///
/// # Errors
/// When the text is no XML or no InkML, with the place.
pub fn parse(text: &str) -> Result<Vec<InkStroke>, Fault> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        Fault::new(format_args!("line {}, column {}", at.row, at.col), error)
    })?;
    if document.root_element().tag_name().name() != "ink" {
        return Err(Fault::new("the beginning", "the outermost element of InkML is <ink>"));
    }
    let mut by_id = HashMap::new();
    for node in document.root_element().descendants().filter(Node::is_element) {
        if let Some(id) = node.attributes().find(|attribute| attribute.name() == "id") {
            by_id.insert(id.value(), node);
        }
    }
    let parts = Parts { by_id };
    let mut strokes = Vec::new();
    let mut current = Current::default();
    for child in document.root_element().children().filter(Node::is_element) {
        parts.collect(child, &mut current, &mut strokes)?;
    }
    Ok(strokes)
}

/// What holds for traces that do not say otherwise.
#[derive(Clone, Default)]
struct Current<'a, 'input> {
    context: Option<Node<'a, 'input>>,
    brush: Option<Node<'a, 'input>>,
}

impl<'a, 'input> Parts<'a, 'input> {
    fn collect(
        &self,
        node: Node<'a, 'input>,
        current: &mut Current<'a, 'input>,
        strokes: &mut Vec<InkStroke>,
    ) -> Result<(), Fault> {
        match node.tag_name().name() {
            // Outside of definitions, a context or brush holds for what follows.
            "context" => current.context = Some(node),
            "brush" => current.brush = Some(node),
            "traceGroup" => {
                let mut inside = self.refine(node, current)?;
                for child in node.children().filter(Node::is_element) {
                    self.collect(child, &mut inside, strokes)?;
                }
            }
            "trace" if node.attribute("type") != Some("penUp") => {
                let used = self.refine(node, current)?;
                let stroke = self.stroke(node, &used).map_err(|why| Fault::new(place(node), why))?;
                strokes.extend(stroke);
            }
            _ => {}
        }
        Ok(())
    }

    fn refine(
        &self,
        node: Node<'a, 'input>,
        current: &Current<'a, 'input>,
    ) -> Result<Current<'a, 'input>, Fault> {
        let named = |attribute| self.refer(node, attribute).map_err(|why| Fault::new(place(node), why));
        Ok(Current {
            context: named("contextRef")?.or(current.context),
            brush: named("brushRef")?.or(current.brush),
        })
    }

    /// The part that an attribute like `brushRef="#br0"` names.
    fn refer(&self, node: Node<'a, 'input>, attribute: &str) -> Result<Option<Node<'a, 'input>>, String> {
        let Some(reference) = node.attribute(attribute) else { return Ok(None) };
        let id = reference.strip_prefix('#').unwrap_or(reference);
        match self.by_id.get(id) {
            Some(part) => Ok(Some(*part)),
            None if id == "DefaultContext" || id == "DefaultBrush" => Ok(None),
            None => Err(format!("{attribute} names {reference:?}, which is not in the file")),
        }
    }

    /// A part of a context: its own, or that of the context it refers to.
    fn part(&self, context: Node<'a, 'input>, name: &str) -> Result<Option<Node<'a, 'input>>, String> {
        let mut context = Some(context);
        for _ in 0..CONTEXTS_DEEP {
            let Some(here) = context else { return Ok(None) };
            if let Some(child) = child(here, name) {
                return Ok(Some(child));
            }
            if let Some(named) = self.refer(here, &format!("{name}Ref"))? {
                return Ok(Some(named));
            }
            context = self.refer(here, "contextRef")?;
        }
        Err("its contexts refer to each other without end".to_owned())
    }

    fn channels(&self, context: Option<Node<'a, 'input>>) -> Result<Vec<Channel>, String> {
        let plain = || vec![Channel::new("X"), Channel::new("Y")];
        let Some(context) = context else { return Ok(plain()) };
        let source = self.part(context, "inkSource")?;
        let format = match (self.part(context, "traceFormat")?, source) {
            (None, Some(source)) => child(source, "traceFormat").or(self.refer(source, "traceFormatRef")?),
            (format, _) => format,
        };
        let Some(format) = format else { return Ok(plain()) };
        let mut channels = Vec::new();
        for node in format.descendants().filter(|node| node.tag_name().name() == "channel") {
            let mut channel = Channel::new(node.attribute("name").unwrap_or_default());
            channel.unit = node.attribute("units").unwrap_or_default().to_owned();
            channel.min = number(node, "min")?.unwrap_or(0.0);
            channel.max = number(node, "max")?;
            channel.intermittent =
                node.parent().is_some_and(|parent| parent.tag_name().name() == "intermittentChannels");
            channels.push(channel);
        }
        let properties = source.into_iter().flat_map(|source| source.descendants());
        for property in properties.filter(|node| node.tag_name().name() == "channelProperty") {
            if property.attribute("name") != Some("resolution") {
                continue;
            }
            let of = property.attribute("channel").unwrap_or_default();
            let value = number(property, "value")?.filter(|value| *value > 0.0);
            let value = value.ok_or_else(|| format!("the resolution of channel {of} is not above 0"))?;
            for channel in channels.iter_mut().filter(|channel| channel.name == of) {
                channel.resolution = value;
                if let Some(unit) = property.attribute("units").and_then(|units| units.strip_prefix("1/")) {
                    channel.unit = unit.trim().to_owned();
                }
            }
        }
        Ok(channels)
    }

    fn stroke(
        &self,
        node: Node<'a, 'input>,
        used: &Current<'a, 'input>,
    ) -> Result<Option<InkStroke>, String> {
        let channels = self.channels(used.context)?;
        let brush = match (used.brush, used.context) {
            (None, Some(context)) => self.part(context, "brush")?,
            (brush, _) => brush,
        };
        let (style, ignores_pressure) = brush.map_or(Ok((InkStyle::default(), false)), style)?;
        let text: String = node.children().filter(Node::is_text).filter_map(|child| child.text()).collect();
        let required = channels.iter().filter(|channel| !channel.intermittent).count();
        let rows = trace::parse(&text, required, channels.len())?;
        let mut reader = PointReader::new(&channels, ignores_pressure)?;
        let one = |(index, row): (usize, &Vec<f64>)| {
            reader.point(row).map_err(|why| format!("point {}: {why}", index + 1))
        };
        let points: Vec<InkPoint> = rows.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        let start_ms = number(node, "timeOffset")?.map(time).transpose()?.map(u64::from);
        Ok((!points.is_empty()).then_some(InkStroke { name: None, style, start_ms, points }))
    }
}

/// Turns the values of a point into lengths, pressure, time and tilt.
struct PointReader<'a> {
    channels: &'a [Channel],
    x: (usize, f64),
    y: (usize, f64),
    pressure: Option<usize>,
    time: Option<(usize, f64)>,
    tilt: Option<(usize, usize)>,
    first_ms: Option<f64>,
    latest_ms: u32,
}

impl<'a> PointReader<'a> {
    fn new(channels: &'a [Channel], ignores_pressure: bool) -> Result<Self, String> {
        let find = |name: &str| channels.iter().position(|channel| channel.name == name);
        let length = |name: &str| {
            let index = find(name).ok_or_else(|| format!("its format has no channel {name}"))?;
            let Channel { unit, resolution, .. } = &channels[index];
            let pixels = pixels_per(unit)
                .ok_or_else(|| format!("channel {name} is in {unit:?}, which is no known length"))?;
            Ok::<_, String>((index, pixels / resolution))
        };
        let time = find("T").map(|index| {
            let ms = if channels[index].unit == "s" { 1000.0 } else { 1.0 };
            (index, ms / channels[index].resolution)
        });
        Ok(Self {
            channels,
            x: length("X")?,
            y: length("Y")?,
            // Without a largest value nobody can tell what is much.
            pressure: find("F").filter(|index| !ignores_pressure && channels[*index].max.is_some()),
            time,
            tilt: find("OTx").zip(find("OTy")),
            first_ms: None,
            latest_ms: 0,
        })
    }

    fn point(&mut self, row: &[f64]) -> Result<InkPoint, &'static str> {
        // Intermittent channels may be missing at the end.
        let value = |index: usize| row.get(index).copied();
        let length = |(index, pixels): (usize, f64)| coordinate(value(index).unwrap_or(f64::NAN) * pixels);
        let pressure = self.pressure.and_then(|index| {
            let Channel { min, max, .. } = &self.channels[index];
            // Sensors overshoot what they announce.
            let share = (value(index)? - min) / ((*max)? - min);
            Some((share.clamp(0.0, 1.0) * 255.0).round() as u8)
        });
        let tilt =
            self.tilt.and_then(|(x, y)| Some((self.degrees(x, value(x)?), self.degrees(y, value(y)?))));
        let mut time_ms = None;
        if let Some(ms) = self.time.and_then(|(index, scale)| Some(value(index)? * scale)) {
            let since = ms - *self.first_ms.get_or_insert(ms);
            // Clocks of recordings step back now and then; a pen does not.
            self.latest_ms = self.latest_ms.max(time(since.max(0.0))?);
            time_ms = Some(self.latest_ms);
        }
        Ok(InkPoint { x: length(self.x)?, y: length(self.y)?, pressure, time_ms, tilt })
    }

    fn degrees(&self, index: usize, value: f64) -> i16 {
        let Channel { unit, resolution, .. } = &self.channels[index];
        let angle = value / resolution;
        let degrees = if unit == "rad" { angle.to_degrees() } else { angle };
        degrees.round().clamp(-90.0, 90.0) as i16
    }
}

/// A brush's looks, and whether pressure is to be ignored.
fn style(brush: Node<'_, '_>) -> Result<(InkStyle, bool), String> {
    let mut style = InkStyle::default();
    let mut ignores_pressure = false;
    let mut transparency = 0;
    for node in brush.children().filter(|node| node.tag_name().name() == "brushProperty") {
        let value = node.attribute("value").unwrap_or_default();
        match node.attribute("name").unwrap_or_default() {
            "width" => {
                let unit = node.attribute("units").unwrap_or_default();
                let pixels = pixels_per(unit).ok_or_else(|| format!("its brush's width is in {unit:?}"))?;
                let width = number(node, "value")?.unwrap_or(0.0) * pixels * 16.0;
                style.width = Some(width.round().clamp(1.0, f64::from(u16::MAX)) as u16);
            }
            "color" => {
                let digits = value.strip_prefix('#').filter(|digits| digits.len() == 6);
                let rgb = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let rgb = rgb.ok_or_else(|| format!("its brush's colour is {value:?}, not #rrggbb"))?;
                style.rgba = Some(rgb << 8);
            }
            "transparency" => transparency = number(node, "value")?.unwrap_or(0.0).clamp(0.0, 255.0) as u32,
            // What darkens instead of covering is a highlighter.
            "rasterOp" if value == "maskPen" => style.tool = Some(1),
            "ignorePressure" => ignores_pressure = matches!(value, "1" | "true"),
            _ => {}
        }
    }
    style.rgba = style.rgba.map(|rgb| rgb | (255 - transparency));
    Ok((style, ignores_pressure))
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.tag_name().name() == name)
}

fn number(node: Node<'_, '_>, attribute: &str) -> Result<Option<f64>, String> {
    let Some(text) = node.attribute(attribute) else { return Ok(None) };
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    value
        .map(Some)
        .ok_or_else(|| format!("{attribute} of <{}> is {text:?}, no number", node.tag_name().name()))
}

fn place(node: Node<'_, '_>) -> String {
    let at = node.document().text_pos_at(node.range().start);
    format!("the <{}> in line {}", node.tag_name().name(), at.row)
}

#[cfg(test)]
#[path = "inkml_tests.rs"]
mod tests;
