//! Tables that read well in a terminal and are Markdown.

use crate::report::summary::{median, number};

/// Rows of cells, the first row being the head. The first column is left-aligned, the others right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, width) in widths.iter().enumerate() {
            let cell = row.get(column).map_or("", String::as_str);
            match column {
                0 => text.push_str(&format!("| {cell:width$} |")),
                _ => text.push_str(&format!(" {cell:>width$} |")),
            }
        }
        text.push('\n');
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                match column {
                    0 => text.push_str(&format!("|:{}-|", "-".repeat(*width))),
                    _ => text.push_str(&format!("-{}:|", "-".repeat(*width))),
                }
            }
            text.push('\n');
        }
    }
    text
}

/// Median of some runs, and the range of all where it is wider than the number tells.
pub fn cell(values: &[f64]) -> String {
    let Some(middle) = median(values) else { return "no result".to_owned() };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // All three with as many digits.
    let digits = match middle.abs() {
        _ if values.iter().all(|value| *value == value.round()) => 0,
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let show = |value: f64| {
        if value.abs() >= 999.5 { number(value.round()) } else { format!("{value:.digits$}") }
    };
    let (low, middle, high) = (show(low), show(middle), show(high));
    if low == high { middle } else { format!("{middle} ({low}–{high})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_median_and_the_range() {
        assert_eq!(cell(&[2.0, 1.0, 3.0]), "2 (1–3)");
        assert_eq!(cell(&[2.0, 2.0]), "2");
        assert_eq!(cell(&[55.0, 55.04, 55.0]), "55.0");
        assert_eq!(cell(&[60.0, 55.0, 71.26]), "60.0 (55.0–71.3)");
        assert_eq!(cell(&[1234.4, 999.6, 12_345.0]), "1,234 (1,000–12,345)");
        assert_eq!(cell(&[]), "no result");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [vec!["way".to_owned(), "s".to_owned()], vec!["atomic".to_owned(), "12.50".to_owned()]];
        assert_eq!(table(&rows), "| way    |     s |\n|:-------|------:|\n| atomic | 12.50 |\n");
    }
}
