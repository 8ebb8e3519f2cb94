//! Strokes in JSON: arrays of points, as freehand drawing libraries record them.
//!
//! A file holds one stroke, an array of strokes, or an object of named strokes. A point is `[x, y]`,
//! `[x, y, pressure]`, `[x, y, pressure, ms]` or `{x, y, pressure?}`: CSS pixels, 0 to 1, and milliseconds since
//! the stroke began.

use serde_json::Value;

use super::{Fault, InkPoint, InkStroke, coordinate, time};

/// Reads the strokes of a JSON text. Strokes without points are left out.
///
/// # Errors
/// When the text is no JSON or no ink, with the place.
pub fn parse(text: &str) -> Result<Vec<InkStroke>, Fault> {
    let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        Fault::new(format_args!("line {}, column {}", error.line(), error.column()), "it is no JSON")
    })?;
    let mut strokes = Vec::new();
    match &value {
        Value::Object(named) => {
            for (name, points) in named {
                let points = stroke(points, &format!("stroke {name:?}"))?;
                strokes.push(InkStroke { name: Some(name.clone()), points, ..InkStroke::default() });
            }
        }
        Value::Array(elements) if elements.first().is_some_and(is_point) => {
            strokes.push(InkStroke { points: stroke(&value, "the stroke")?, ..InkStroke::default() });
        }
        Value::Array(elements) => {
            for (index, points) in elements.iter().enumerate() {
                let points = stroke(points, &format!("stroke {}", index + 1))?;
                strokes.push(InkStroke { points, ..InkStroke::default() });
            }
        }
        _ => return Err(Fault::new("the beginning", "an array of points, or of strokes, was expected")),
    }
    strokes.retain(|stroke| !stroke.points.is_empty());
    Ok(strokes)
}

fn is_point(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(values) => values.first().is_some_and(|first| !first.is_array() && !first.is_object()),
        _ => false,
    }
}

fn stroke(value: &Value, name: &str) -> Result<Vec<InkPoint>, Fault> {
    let points = value.as_array().ok_or_else(|| Fault::new(name, "an array of points was expected"))?;
    let mut latest_ms = 0;
    let one = |(index, value): (usize, &Value)| {
        let mut point =
            point(value).map_err(|why| Fault::new(format_args!("{name}, point {}", index + 1), why))?;
        // Clocks of recordings step back now and then; a pen does not.
        if let Some(ms) = &mut point.time_ms {
            latest_ms = latest_ms.max(*ms);
            *ms = latest_ms;
        }
        Ok(point)
    };
    points.iter().enumerate().map(one).collect()
}

fn point(value: &Value) -> Result<InkPoint, String> {
    let (x, y, pressure, ms) = match value {
        Value::Array(values) if (2..=4).contains(&values.len()) => {
            (&values[0], &values[1], values.get(2), values.get(3))
        }
        Value::Object(fields) => {
            let field = |name: &str| fields.get(name).ok_or_else(|| format!("it has no {name}"));
            (field("x")?, field("y")?, fields.get("pressure"), None)
        }
        _ => return Err("[x, y], [x, y, pressure], [x, y, pressure, ms] or {x, y} was expected".to_owned()),
    };
    let number = |name: &str, value: &Value| value.as_f64().ok_or_else(|| format!("{name} is no number"));
    let pressure = match pressure.map(|value| number("pressure", value)).transpose()? {
        Some(pressure) if !(0.0..=1.0).contains(&pressure) => {
            return Err("pressure is not within 0 and 1".to_owned());
        }
        pressure => pressure.map(|pressure| (pressure * 255.0).round() as u8),
    };
    Ok(InkPoint {
        x: coordinate(number("x", x)?)?,
        y: coordinate(number("y", y)?)?,
        pressure,
        time_ms: ms.map(|ms| time(number("the time", ms)?).map_err(str::to_owned)).transpose()?,
        tilt: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shapes_are_read() {
        let one = parse("[[1, 2.5, 0.5, 0], [2, 3, 1, 16]]").unwrap();
        let expected = [
            InkPoint { x: 16, y: 40, pressure: Some(128), time_ms: Some(0), tilt: None },
            InkPoint { x: 32, y: 48, pressure: Some(255), time_ms: Some(16), tilt: None },
        ];
        assert_eq!(one[0].points, expected);
        assert_eq!(
            parse(r#"[{"x": 1, "y": 2}, {"x": 3, "y": 4, "pressure": 0}]"#).unwrap()[0].points.len(),
            2
        );
        assert_eq!(parse("[[[1, 2], [3, 4]], [], [[5, 6]]]").unwrap().len(), 2);
        let named = parse(r#"{"b": [[1, 2]], "a": [{"x": 1, "y": 2}]}"#).unwrap();
        let names: Vec<_> = named.iter().filter_map(|stroke| stroke.name.as_deref()).collect();
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, place, why) in [
            ("[[1, 2], [1, null]]", "the stroke, point 2", "y is no number"),
            ("[[1, 2], [1]]", "the stroke, point 2", "was expected"),
            ("[[1, 2, 1.5]]", "the stroke, point 1", "pressure"),
            ("[[1, 2, 0.5, -1]]", "the stroke, point 1", "time"),
            ("[[67108865, 0]]", "the stroke, point 1", "67,108,864"),
            ("[[1e300, 0]]", "the stroke, point 1", "67,108,864"),
            (r#"{"a": 1}"#, r#"stroke "a""#, "an array"),
            (r#"{"a": [{"x": 1}]}"#, r#"stroke "a", point 1"#, "no y"),
            ("[[1, NaN]]", "line 1, column 6", "no JSON"),
            ("[[1, 1e999]]", "line 1", "no JSON"),
            ("7", "the beginning", "an array"),
        ] {
            let fault = parse(text).unwrap_err();
            assert!(fault.place.contains(place) && fault.why.contains(why), "{text}: {fault:?}");
        }
    }
}
