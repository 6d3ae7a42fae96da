//! Which changes of watched files a boot makes itself: an application that writes one whenever it boots would boot for ever.
//!
//! While an application boots, a file that says what it said before has not changed. One that changes in many boots in a row is
//! under suspicion: the next boot is not cut short for it. If it changes in that, too, it is the boot's own, and no change. So many
//! that nobody who saves quickly is taken for a boot: old code would be served. All this holds for changes during boots only:
//! whatever is saved at another time is read. Called by `watch`. Runs in: server; also on the thread of `notify`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::rights::Rights;

/// A file that changes in so many boots in a row is written by them.
const OWN: u32 = 10;
/// What a boot has written may be told of a moment later.
const LATE: Duration = Duration::from_millis(50);
/// How far the moments at which boots write a file are from each other, beside a tenth of the time since they began.
const NEAR: Duration = Duration::from_millis(200);
/// A boot that is under suspicion has so much time to write other files.
const SUSPICION: Duration = Duration::from_secs(2);
/// Boots in a row that are cut short; the next one is not, whoever has changed what.
const CUTS: u32 = 20;
/// Bytes of a file that are compared.
const COMPARED: u64 = 1024 * 1024;

/// What a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Gone,
    Folder,
    /// Perhaps since it is just being written.
    Empty,
    Of(u64),
}

/// What follows from a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    /// There is nothing new.
    Nothing,
    /// The boot under way may be its author: another one is to follow.
    Suspect,
    /// What boots or serves is out of date.
    News,
}

/// The boots so far.
#[derive(Debug, Default)]
pub(super) struct Boots {
    phase: Phase,
    /// When the last one began.
    begun: Option<Instant>,
    /// How many in a row were cut short.
    cuts: u32,
    /// What changed files say.
    known: BTreeMap<PathBuf, Content>,
    rows: BTreeMap<PathBuf, Row>,
    /// Own files that are to be told of, and those that were.
    found: Vec<PathBuf>,
    told: BTreeSet<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Boot,
    Ended(Instant),
}

/// How often a file has changed.
#[derive(Debug)]
struct Row {
    /// Boots in a row.
    boots: u32,
    /// The last one is the last of all.
    is_latest: bool,
    /// How long after its begin.
    after: Duration,
}

impl Content {
    pub(super) fn read(path: &Path) -> Self {
        if path.is_dir() {
            return Self::Folder;
        }
        // A pipe or a device says nothing, and is not waited for.
        let file = Rights::Server.open(path).ok();
        let Some(file) = file.filter(|file| file.metadata().is_ok_and(|about| about.is_file())) else {
            return Self::Gone;
        };
        let mut bytes = Vec::new();
        if file.take(COMPARED).read_to_end(&mut bytes).is_ok() && bytes.is_empty() {
            return Self::Empty;
        }
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        // What is behind the bytes that are compared shows in the length, most of the time.
        path.metadata().map_or(0, |file| file.len()).hash(&mut hasher);
        Self::Of(hasher.finish())
    }
}

impl Boots {
    /// A boot begins, perhaps in the place of one that was cut short.
    pub(super) fn begin(&mut self, now: Instant) {
        let was_cut = matches!(self.phase, Phase::Boot);
        self.cuts = if was_cut { self.cuts + 1 } else { 0 };
        self.begun = Some(now);
        // One that was cut short may not have come to its own files.
        self.rows
            .retain(|_, row| row.is_latest || was_cut && row.boots >= OWN);
        for row in self.rows.values_mut() {
            row.is_latest = false;
        }
        self.phase = Phase::Boot;
    }

    /// It has booted, or failed.
    pub(super) fn end(&mut self, now: Instant) {
        self.phase = Phase::Ended(now);
    }

    /// `path` has changed, and says `content` now.
    pub(super) fn judge(&mut self, path: &Path, content: Content, now: Instant) -> Meaning {
        let is_boot = match self.phase {
            Phase::Idle => false,
            Phase::Boot => true,
            Phase::Ended(at) => now < at + LATE,
        };
        if is_boot && content == Content::Empty {
            // More follows, or it is no code.
            return Meaning::Nothing;
        }
        let before = self.known.insert(path.to_owned(), content);
        if !is_boot {
            return Meaning::News;
        }
        if before == Some(content) {
            return Meaning::Nothing;
        }
        let after = self
            .begun
            .map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        let mut boots = self.count(path, after);
        let mut owner = path;
        // It may have another name each time.
        if let Some(folder) = path.parent().filter(|_| before.is_none()) {
            let of_folder = self.count(folder, after);
            if of_folder > boots {
                (boots, owner) = (of_folder, folder);
                if let Some(row) = self.rows.get_mut(path) {
                    row.boots = boots;
                }
            }
        }
        if boots >= OWN {
            if self.told.insert(owner.to_owned()) {
                self.found.push(path.to_owned());
            }
            Meaning::Nothing
        } else if self.is_learning(after) || self.cuts >= CUTS {
            Meaning::Suspect
        } else {
            Meaning::News
        }
    }

    /// The files that have turned out to be the boot's own since this was asked last.
    pub(super) fn found(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.found)
    }

    /// This boot may be writing files of its own: it must come to its end, or the next one is no wiser.
    fn is_learning(&self, after: Duration) -> bool {
        self.rows
            .values()
            .any(|row| row.is_latest && row.boots == OWN - 1 && after < row.after + SUSPICION)
    }

    /// In how many boots up to this one it has changed, this time so long `after` its begin.
    fn count(&mut self, path: &Path, after: Duration) -> u32 {
        let was_cut = self.cuts > 0;
        let row = self.rows.entry(path.to_owned()).or_insert(Row {
            boots: 0,
            is_latest: false,
            after,
        });
        if !row.is_latest {
            let is_near = after.abs_diff(row.after) <= NEAR + after.max(row.after) / 10;
            // A boot that came to its end, or another one at this point: else it was somebody else.
            let goes_on = !was_cut || is_near || row.boots >= OWN;
            row.boots = if goes_on { row.boots + 1 } else { 1 };
            row.after = after;
        }
        row.is_latest = true;
        row.boots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(boots: &mut Boots, path: &str, content: u64) -> Meaning {
        boots.judge(Path::new(path), Content::Of(content), Instant::now())
    }

    /// Of a change in boot `number`, where there was one in each before.
    fn meaning(number: u32) -> Meaning {
        match number {
            OWN.. => Meaning::Nothing,
            n if n == OWN - 1 => Meaning::Suspect,
            _ => Meaning::News,
        }
    }

    #[test]
    fn a_pipe_with_the_name_of_code_is_not_waited_for() {
        let pipe = std::env::temp_dir().join(format!("hearth-boots-{}.php", std::process::id()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let content = Content::read(&pipe);
        std::fs::remove_file(&pipe).unwrap();
        assert_eq!(content, Content::Gone);
    }

    #[test]
    fn what_changes_in_many_boots_in_a_row_is_the_boots_own() {
        let mut boots = Boots::default();
        for number in 1..OWN + 2 {
            boots.begin(Instant::now());
            let found = judge(&mut boots, "/src/a.php", number.into());
            assert_eq!(found, meaning(number), "boot {number}");
            boots.end(Instant::now());
        }
        assert_eq!(boots.found(), [Path::new("/src/a.php")]);
        assert_eq!(boots.found(), [] as [&Path; 0]);
        // Somebody saves it.
        boots.phase = Phase::Idle;
        assert_eq!(judge(&mut boots, "/src/a.php", 9), Meaning::News);
        // A boot without it.
        boots.begin(Instant::now());
        boots.end(Instant::now());
        boots.begin(Instant::now());
        assert_eq!(judge(&mut boots, "/src/a.php", 10), Meaning::News);
    }

    #[test]
    fn what_a_boot_writes_again_as_it_was_is_no_change() {
        let mut boots = Boots::default();
        boots.begin(Instant::now());
        assert_eq!(judge(&mut boots, "/src/a.php", 1), Meaning::News);
        boots.begin(Instant::now());
        let half = boots.judge(Path::new("/src/a.php"), Content::Empty, Instant::now());
        assert_eq!(half, Meaning::Nothing);
        assert_eq!(judge(&mut boots, "/src/a.php", 1), Meaning::Nothing);
        boots.end(Instant::now().checked_sub(LATE).unwrap());
        assert_eq!(judge(&mut boots, "/src/a.php", 1), Meaning::News);
    }

    #[test]
    fn files_with_another_name_in_each_boot_are_found_by_their_folder() {
        let mut boots = Boots::default();
        for number in 1..OWN + 2 {
            boots.begin(Instant::now());
            let found = judge(&mut boots, &format!("/src/gen-{number}.php"), number.into());
            assert_eq!(found, meaning(number), "boot {number}");
            boots.end(Instant::now());
        }
        assert_eq!(boots.found().len(), 1);
    }

    #[test]
    fn whoever_saves_a_file_during_each_boot_cuts_each_short() {
        let mut boots = Boots::default();
        let start = Instant::now();
        let path = Path::new("/src/a.php");
        for (number, seconds) in (0_u64..).zip([5, 2, 9, 3, 5]) {
            let begun = start + Duration::from_secs(100 * number);
            boots.begin(begun);
            let saved = begun + Duration::from_secs(seconds);
            assert_eq!(boots.judge(path, Content::Of(number), saved), Meaning::News);
        }
        // Boots that write it themselves do so after five seconds.
        for number in 2..OWN + 2 {
            let begun = start + Duration::from_secs(100 * u64::from(number + 10));
            boots.begin(begun);
            let written = begun + Duration::from_millis(5000 + 10 * u64::from(number));
            let found = boots.judge(path, Content::Of(u64::from(number) + 10), written);
            assert_eq!(found, meaning(number), "boot {number}");
        }
    }

    #[test]
    fn not_every_boot_is_cut_short() {
        let mut boots = Boots::default();
        for number in 0..=u64::from(CUTS) {
            boots.begin(Instant::now());
            let expected = if number < u64::from(CUTS) {
                Meaning::News
            } else {
                Meaning::Suspect
            };
            let name = format!("/folder-{number}/a.php");
            assert_eq!(judge(&mut boots, &name, number), expected, "{name}");
        }
    }

    #[test]
    fn a_boot_that_is_under_suspicion_is_not_cut_and_one_whose_own_files_are_known_is() {
        let mut boots = Boots::default();
        for number in 1..OWN {
            boots.begin(Instant::now());
            judge(&mut boots, "/src/a.php", number.into());
            boots.end(Instant::now());
        }
        assert_eq!(judge(&mut boots, "/src/b.php", 1), Meaning::Suspect);
        for number in OWN..OWN + 2 {
            boots.begin(Instant::now());
            assert_eq!(judge(&mut boots, "/src/a.php", number.into()), Meaning::Nothing);
        }
        assert_eq!(judge(&mut boots, "/src/c.php", 1), Meaning::News);
        // It was cut before it wrote its own: still known.
        boots.begin(Instant::now());
        boots.begin(Instant::now());
        assert_eq!(judge(&mut boots, "/src/a.php", 99), Meaning::Nothing);
    }
}
