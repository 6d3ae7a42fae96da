//! Text forms of durations and sizes: `"30 s"`, `"64 KiB"`. The space may be left out.
//!
//! Reads and writes single values; knows no keys and no ranges. Called by `reader` and for messages.
//! Runs in: server.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::limits::ByteSize;

/// Milliseconds of each unit of a duration, longest first.
const DURATIONS: [(&str, u64); 4] = [("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];

/// Bytes of each unit of a size, largest first.
const SIZES: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// The text is not of the form that was expected; the message shows the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct BadForm(&'static str);

/// Reads `"500 ms"`, `"30 s"`, `"2 min"` or `"1 h"`: a whole number and a unit. A number without a unit is refused,
/// since seconds and milliseconds are too easily taken for each other.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, BadForm> {
    let bad = BadForm("a duration such as \"500 ms\", \"30 s\", \"2 min\" or \"1 h\"");
    split(text)
        .and_then(|(count, unit)| scale(count, unit, &DURATIONS))
        .map(Duration::from_millis)
        .ok_or(bad)
}

/// The shortest text that `parse_duration` reads as this duration, to the millisecond.
pub(crate) fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0 s".to_owned();
    }
    format(millis, &DURATIONS)
}

impl FromStr for ByteSize {
    type Err = BadForm;

    fn from_str(text: &str) -> Result<Self, BadForm> {
        let bad = BadForm("a size such as \"64 KiB\", \"1 MiB\", \"2 GiB\" or a number of bytes");
        let bytes = split(text).and_then(|(count, unit)| match unit {
            "" => Some(count),
            unit => scale(count, unit, &SIZES),
        });
        bytes.map(Self).ok_or(bad)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            bytes => f.write_str(&format(bytes, &SIZES)),
        }
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at_checked(digits)?;
    Some((count.parse().ok()?, unit.trim_start()))
}

fn scale(count: u64, unit: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    count.checked_mul(*factor)
}

fn format(amount: u64, units: &[(&str, u64)]) -> String {
    match units.iter().find(|(_, factor)| amount.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{} {unit}", amount / factor),
        None => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_a_space() {
        for (text, millis) in [
            ("500 ms", 500),
            ("30s", 30_000),
            (" 2 min ", 120_000),
            ("1 h", 3_600_000),
            ("0 s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_or_with_a_foreign_one_is_refused() {
        for text in [
            "30",
            "",
            "s",
            "-1 s",
            "1.5 s",
            "10 parsecs",
            "30 S",
            "99999999999999999999 s",
            "9999999999999999999 h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_in_binary_units_only() {
        for (text, bytes) in [
            ("64 KiB", 65_536),
            ("1MiB", 1 << 20),
            ("2 GiB", 2 << 30),
            ("12", 12),
            ("12 B", 12),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["64 KB", "64k", "-1", "1.5 MiB", "MiB", "99999999 TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_value() {
        for millis in [0, 1, 999, 1000, 1500, 60_000, 90_000, 3_600_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        for bytes in [0, 1, 1023, 1024, 65_536, 1 << 20, (1 << 30) + 1, 1 << 40] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
