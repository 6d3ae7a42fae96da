//! Text for people: tables, times and sizes. Called by the commands that ask a running server. Runs in: the command.

use std::fmt::Write as _;
use std::time::Duration;

/// Which side of its column a cell stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Rows of cells below a heading.
#[derive(Debug)]
pub(super) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[(&str, Side)]) -> Self {
        Self {
            sides: columns.iter().map(|(_, side)| *side).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Lines that begin with `indent`. What comes from requests and applications cannot move the cursor.
    pub(super) fn render(&self, indent: &str) -> String {
        let width = |column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = indent.to_owned();
            for ((cell, side), width) in row.iter().zip(&self.sides).zip(&widths) {
                let cell = plain(cell);
                // Writing to a String cannot fail.
                let _ = match side {
                    Side::Left => write!(line, "{cell:<width$}  "),
                    Side::Right => write!(line, "{cell:>width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Without control characters.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// A duration in its largest unit: `12 s`, `3 min`, `5 h`, `2 d`.
pub(super) fn rough(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min", whole / 60),
        3600..86_400 => format!("{} h", whole / 3600),
        _ => format!("{} d", whole / 86_400),
    }
}

/// A size in MiB with one decimal, as processes have them.
pub(super) fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// `1 worker`, `2 workers`.
pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("pid", Side::Right), ("state", Side::Left), ("", Side::Left)]);
        table.row(vec!["7".into(), "running".into(), "GET /\u{1b}[2J".into()]);
        table.row(vec!["12345".into(), "idle".into(), String::new()]);
        assert_eq!(
            table.render("  "),
            "    pid  state\n      7  running  GET /?[2J\n  12345  idle\n"
        );
    }

    #[test]
    fn times_and_sizes_are_rough() {
        for (seconds, text) in [
            (0.4, "0 s"),
            (59.9, "59 s"),
            (61.0, "1 min"),
            (7200.0, "2 h"),
            (2e5, "2 d"),
            (-1.0, "0 s"),
        ] {
            assert_eq!(rough(seconds), text);
        }
        assert_eq!(mebibytes(1_600_000), "1.5 MiB");
        assert_eq!(
            (count(1, "worker"), count(0, "worker")),
            ("1 worker".into(), "0 workers".into())
        );
    }
}
