//! The text of a trace: points between commas, and how their values are written.
//!
//! A value stands for itself after `!`, for the difference from the one before after `'`, and for the
//! difference between differences after `"`; each holds for its channel until another comes. `*` repeats what
//! was written last, and `?` is a value that is not known. (InkML, section 3.2.1.)

use std::iter::Peekable;
use std::str::Chars;

#[derive(Clone, Copy, Debug, Default)]
enum Mode {
    #[default]
    Explicit,
    Difference,
    SecondDifference,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    mode: Mode,
    written: f64,
    speed: f64,
    value: f64,
}

impl Channel {
    fn take(&mut self, written: f64) {
        self.written = written;
        let before = self.value;
        self.value = match self.mode {
            Mode::Explicit => written,
            Mode::Difference => before + written,
            Mode::SecondDifference => before + self.speed + written,
        };
        self.speed = self.value - before;
    }
}

/// Reads a trace's points, each with `required` to `most` values.
///
/// # Errors
/// What is wrong, with the point counted from 1.
pub(super) fn parse(text: &str, required: usize, most: usize) -> Result<Vec<Vec<f64>>, String> {
    let mut channels = vec![Channel::default(); most];
    let mut rows = Vec::new();
    for (index, point) in text.split(',').enumerate() {
        let mut chars = point.chars().peekable();
        let mut row = Vec::with_capacity(most);
        let wrong = |why: String| format!("point {}: {why}", index + 1);
        while skip_spaces(&mut chars) {
            let place = row.len();
            let channel = channels
                .get_mut(place)
                .ok_or_else(|| wrong(format!("it has more than the {most} values of its format")))?;
            read_value(&mut chars, channel).map_err(wrong)?;
            if !channel.value.is_finite() {
                return Err(wrong("a value is too large".to_owned()));
            }
            row.push(channel.value);
        }
        if row.len() >= required {
            rows.push(row);
        } else if !row.is_empty() || !text.trim().is_empty() {
            return Err(wrong(format!("it has {} of {required} values", row.len())));
        }
    }
    Ok(rows)
}

/// Whether something is left.
fn skip_spaces(chars: &mut Peekable<Chars<'_>>) -> bool {
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
    chars.peek().is_some()
}

fn read_value(chars: &mut Peekable<Chars<'_>>, channel: &mut Channel) -> Result<(), String> {
    while let Some(prefix) = chars.next_if(|c| matches!(c, '!' | '\'' | '"')) {
        channel.mode = match prefix {
            '\'' => Mode::Difference,
            '"' => Mode::SecondDifference,
            _ => Mode::Explicit,
        };
        skip_spaces(chars);
    }
    let mut written = match chars.peek() {
        Some('*') => {
            chars.next();
            channel.take(channel.written);
            return Ok(());
        }
        Some('?') => {
            // Nothing is known, so it stays where it was.
            chars.next();
            return Ok(());
        }
        Some('T' | 'F') => {
            let is_true = chars.next() == Some('T');
            channel.take(f64::from(u8::from(is_true)));
            return Ok(());
        }
        _ => String::new(),
    };
    let negative = chars.next_if_eq(&'-').is_some();
    skip_spaces(chars);
    let is_hex = chars.next_if_eq(&'#').is_some();
    let digit = |c: &char| if is_hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() || *c == '.' };
    while let Some(digit) = chars.next_if(digit) {
        written.push(digit);
    }
    let value = if is_hex {
        u32::from_str_radix(&written, 16).ok().map(f64::from)
    } else {
        written.parse::<f64>().ok()
    };
    let value = value.ok_or_else(|| match chars.peek() {
        Some(other) if written.is_empty() => format!("{other:?} is no part of a value"),
        _ => format!("{written:?} is no number"),
    })?;
    channel.take(if negative { -value } else { value });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_add_up() {
        let rows = parse("1125 18432,'23'43,\"7\"-8,3-5,7 -3,6 2,6 8,3 6 T,2 4 *,3 6,3-6 F", 2, 3).unwrap();
        let expected = [
            [1125.0, 18432.0],
            [1148.0, 18475.0],
            [1178.0, 18510.0],
            [1211.0, 18540.0],
            [1251.0, 18567.0],
            [1297.0, 18596.0],
            [1349.0, 18633.0],
        ];
        for (row, expected) in rows.iter().zip(expected) {
            assert_eq!(row[..2], expected);
        }
        assert_eq!(rows[7][2], 1.0);
        assert_eq!(rows[10][2], 0.0);
    }

    #[test]
    fn prefixes_hold_for_their_channel_until_another_comes() {
        assert_eq!(
            parse("5 5,'1 6,1 7,!9 8", 2, 2).unwrap(),
            [[5.0, 5.0], [6.0, 6.0], [7.0, 7.0], [9.0, 8.0]]
        );
        assert_eq!(
            parse("1 2, * ?, ' 2 ' - 1, * *", 2, 2).unwrap(),
            [[1.0, 2.0], [1.0, 2.0], [3.0, 1.0], [5.0, 0.0]]
        );
        assert_eq!(parse("#ff -.5", 2, 2).unwrap(), [[255.0, -0.5]]);
        assert!(parse("  ", 2, 2).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_point() {
        for (text, why) in [
            ("1 2,3", "point 2: it has 1 of 2 values"),
            ("1 2,3 4 5", "point 2: it has more than"),
            ("1 2,", "point 2: it has 0 of 2 values"),
            ("1 x", "point 1: 'x' is no part"),
            ("1 1.2.3", "point 1: \"1.2.3\" is no number"),
            ("1 NaN", "point 1"),
        ] {
            let error = parse(text, 2, 2).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
