//! Text forms of durations and sizes: `"30 s"`, `"64 KiB"`, and the short ones of other servers, `"1h"`, `"64M"`. The space may be left out.
//!
//! Reads and writes single values; knows no keys and no ranges. Called by `reader` and for messages.
//! Runs in: server.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::limits::ByteSize;

/// Milliseconds of each unit of a duration, longest first. What is written has the first name of a unit.
const DURATIONS: [Unit; 5] = [
    Unit(&["d"], 86_400_000),
    Unit(&["h"], 3_600_000),
    Unit(&["min", "m"], 60_000),
    Unit(&["s"], 1000),
    Unit(&["ms"], 1),
];

/// Bytes of each unit of a size, largest first; likewise. The short names mean what they mean in php.ini and to nginx.
const SIZES: [Unit; 5] = [
    Unit(&["TiB", "T", "t"], 1 << 40),
    Unit(&["GiB", "G", "g"], 1 << 30),
    Unit(&["MiB", "M", "m"], 1 << 20),
    Unit(&["KiB", "K", "k"], 1 << 10),
    Unit(&["B"], 1),
];

const DURATION: &str = "a duration such as \"500 ms\", \"30 s\", \"2 min\", \"1 h\" or \"1 d\"";
const SIZE: &str = "a size such as \"64 KiB\", \"64M\", \"2 GiB\" or a number of bytes";

/// A unit: its names, and how much it is.
struct Unit(&'static [&'static str], u64);

/// The text is not of the form that was expected; the message shows the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}expected {form}")]
pub struct BadForm {
    why: &'static str,
    form: &'static str,
}

/// Reads `"500 ms"`, `"30 s"`, `"2 min"` or `"2m"`, `"1 h"`, `"1 d"`: a whole number and a unit. A number without a unit is
/// refused, since seconds and milliseconds are too easily taken for each other.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, BadForm> {
    let parsed = split(text).and_then(|(count, unit)| scale(count, unit, &DURATIONS));
    parsed.map(Duration::from_millis).ok_or_else(|| BadForm {
        why: match split(text) {
            Some((_, "")) => "it has no unit; ",
            Some((_, "M")) => "M is no unit of a duration, write m for minutes; ",
            _ => "",
        },
        form: DURATION,
    })
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
        let bytes = split(text).and_then(|(count, unit)| match unit {
            "" => Some(count),
            unit => scale(count, unit, &SIZES),
        });
        bytes.map(Self).ok_or_else(|| BadForm {
            why: match split(text) {
                Some((_, unit)) if is_decimal(unit) => {
                    "kB, MB, GB and TB are thousands to some and 1024s to others: write K, M, G or T for 1024s; "
                }
                _ => "",
            },
            form: SIZE,
        })
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

fn is_decimal(unit: &str) -> bool {
    ["kb", "mb", "gb", "tb"].contains(&unit.to_ascii_lowercase().as_str())
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at_checked(digits)?;
    Some((count.parse().ok()?, unit.trim_start()))
}

fn scale(count: u64, unit: &str, units: &[Unit]) -> Option<u64> {
    let Unit(_, factor) = units.iter().find(|Unit(names, _)| names.contains(&unit))?;
    count.checked_mul(*factor)
}

fn format(amount: u64, units: &[Unit]) -> String {
    let whole = units
        .iter()
        .find(|Unit(_, factor)| amount.is_multiple_of(*factor));
    match whole {
        Some(Unit([name, ..], factor)) => format!("{} {name}", amount / factor),
        _ => amount.to_string(),
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
            ("2m", 120_000),
            ("1 h", 3_600_000),
            ("7d", 7 * 86_400_000),
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
            "30 M",
            "1 y",
            "1h30m",
            "99999999999999999999 s",
            "9999999999999999999 h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_may_have_been_meant_is_told() {
        let error = |text: &str| text.parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(
            error("64 MB"),
            "kB, MB, GB and TB are thousands to some and 1024s to others: write K, M, G or T for 1024s; expected a size such as \
             \"64 KiB\", \"64M\", \"2 GiB\" or a number of bytes"
        );
        assert!(error("64 pages").starts_with("expected a size"));
        let error = |text: &str| parse_duration(text).unwrap_err().to_string();
        assert_eq!(
            error("30"),
            "it has no unit; expected a duration such as \"500 ms\", \"30 s\", \"2 min\", \"1 h\" or \"1 d\""
        );
        assert!(error("1M").starts_with("M is no unit of a duration, write m for minutes; expected"));
    }

    #[test]
    fn sizes_are_read_in_binary_units_only() {
        for (text, bytes) in [
            ("64 KiB", 65_536),
            ("1MiB", 1 << 20),
            ("2 GiB", 2 << 30),
            ("512K", 512 << 10),
            ("64M", 64 << 20),
            ("64 m", 64 << 20),
            ("1G", 1 << 30),
            ("2t", 2 << 40),
            ("12", 12),
            ("12 B", 12),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["64 KB", "64 kib", "64P", "-1", "1.5 MiB", "MiB", "99999999 TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_value() {
        for millis in [
            0,
            1,
            999,
            1000,
            1500,
            60_000,
            90_000,
            3_600_000,
            86_400_000,
            30 * 86_400_000,
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        for bytes in [0, 1, 1023, 1024, 65_536, 1 << 20, (1 << 30) + 1, 1 << 40] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
