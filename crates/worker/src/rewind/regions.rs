//! Which memory belongs to the image: every private writable mapping of the process, except for what the host keeps.
//!
//! Runs in: zygote.

use std::io;
use std::ops::Range;

use super::clib::Loaded;
use super::kernel::Pagemap;
use super::sanitized;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

type Addresses = Range<usize>;

/// A mapping of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Where it is; whole pages.
    pub(crate) addresses: Range<usize>,
    /// Number of its first page, counted over all regions.
    pub(crate) first_page: usize,
    /// What it holds.
    pub(crate) kind: Kind,
    /// Code may be run there (PCRE's JIT).
    pub(crate) executable: bool,
    /// A forked process finds zeros there (`MADV_WIPEONFORK`): generators of random numbers notice a fork by it.
    pub(crate) is_wiped: bool,
    /// It has huge pages (hugetlb), of which no part can be mapped.
    pub(crate) is_huge: bool,
    /// As in `/proc/self/maps`, for messages.
    pub(crate) name: String,
}

/// What a region holds, as far as it makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data of a library, or another mapped file; untouched pages have the file's content.
    File,
    /// The C library's heap, which grows with `brk`.
    Heap,
    /// Anonymous memory: the allocator's chunks, stacks, what libraries map.
    Anonymous,
}

impl Region {
    /// How many pages it has.
    pub(crate) fn pages(&self) -> usize {
        self.addresses.len() / PAGE
    }

    /// What to call it in a message.
    pub(crate) fn title(&self) -> &str {
        if self.name.is_empty() {
            "anonymous memory"
        } else {
            &self.name
        }
    }
}

/// One line of `/proc/self/maps`.
#[derive(Debug)]
pub(crate) struct Mapping<'a> {
    /// Where it is.
    pub(crate) addresses: Range<usize>,
    /// `rwxp`.
    pub(crate) rights: &'a str,
    /// A path, `[heap]`, or nothing.
    pub(crate) name: &'a str,
}

/// Reads the lines of `/proc/self/maps`, and skips those that `/proc/self/smaps` has besides.
pub(crate) fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
    text.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let addresses = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
        let rights = rest.get(..4)?;
        let name = rest.splitn(5, ' ').nth(4).unwrap_or("").trim_start();
        Some(Mapping {
            addresses,
            rights,
            name,
        })
    })
}

/// The regions of this process, in the order of their addresses.
pub(super) fn find(pagemap: &Pagemap) -> io::Result<Vec<Region>> {
    let loaded = Loaded::find();
    // It has the lines of `maps`, and others between them.
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    // Memory that the kernel may drop at any time (`MAP_DROPPABLE`): newer C libraries keep the state of `getrandom()` there, which
    // must not be put back.
    let mut kept = flagged(&text, "dp");
    let (wiped, huge) = (flagged(&text, "wf"), flagged(&text, "ht"));
    let lies_in =
        |addresses: &Addresses, all: &[Addresses]| all.iter().any(|one| one.contains(&addresses.start));
    kept.push(loaded.executable.clone());
    let mut regions = Vec::new();
    let mut first_page = 0;
    for mapping in mappings(&text) {
        if !mapping.rights.contains('w') || !mapping.rights.ends_with('p') || is_kernels(mapping.name) {
            continue;
        }
        let pieces = if sanitized::is_shadow(&mapping.addresses) {
            sanitized::present(pagemap, &mapping.addresses)?
        } else {
            cut(mapping.addresses.clone(), &kept)
        };
        for piece in pieces {
            for (addresses, is_library) in divide(piece, &loaded.libraries) {
                let kind = match mapping.name {
                    _ if is_library || mapping.name.starts_with('/') => Kind::File,
                    "[heap]" => Kind::Heap,
                    _ => Kind::Anonymous,
                };
                let region = Region {
                    is_wiped: lies_in(&addresses, &wiped),
                    is_huge: lies_in(&addresses, &huge),
                    addresses,
                    first_page,
                    kind,
                    executable: mapping.rights.contains('x'),
                    name: mapping.name.to_owned(),
                };
                first_page += region.pages();
                regions.push(region);
            }
        }
    }
    Ok(regions)
}

/// Mappings that have a flag (`proc_pid_smaps(5)`, `VmFlags`).
fn flagged(smaps: &str, wanted: &str) -> Vec<Addresses> {
    let mut current = None;
    let mut found = Vec::new();
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.extend(
                current
                    .take()
                    .filter(|_| flags.split(' ').any(|flag| flag == wanted)),
            );
        } else if let Some(mapping) = mappings(line).next() {
            current = Some(mapping.addresses);
        }
    }
    found
}

/// The host's stack, and what the kernel maps for itself.
fn is_kernels(name: &str) -> bool {
    matches!(name, "[stack]" | "[vdso]" | "[vsyscall]") || name.starts_with("[vvar")
}

/// What is left of `whole` without the `holes`.
pub(super) fn cut(whole: Addresses, holes: &[Addresses]) -> Vec<Addresses> {
    let mut pieces = vec![whole];
    for hole in holes {
        pieces = pieces
            .into_iter()
            .flat_map(|piece| {
                let before = piece.start..piece.end.min(hole.start);
                let after = piece.start.max(hole.end)..piece.end;
                if hole.start >= piece.end || hole.end <= piece.start {
                    vec![piece]
                } else {
                    vec![before, after]
                }
            })
            .filter(|piece| piece.start < piece.end)
            .collect();
    }
    pieces
}

/// Cuts `whole` where libraries begin and end; the kernel may show a library's zeroed data and what follows it as one.
fn divide(whole: Addresses, libraries: &[Addresses]) -> Vec<(Addresses, bool)> {
    let mut borders: Vec<usize> = libraries
        .iter()
        .flat_map(|library| [library.start, library.end])
        .filter(|border| whole.contains(border))
        .chain([whole.start, whole.end])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    borders
        .windows(2)
        .filter_map(|pair| {
            let &[start, end] = pair else { return None };
            let is_library = libraries
                .iter()
                .any(|library| library.start <= start && end <= library.end);
            Some((start..end, is_library))
        })
        .collect()
}

/// The region that `address` is in.
pub(crate) fn at(regions: &[Region], address: usize) -> Option<&Region> {
    let index = regions.partition_point(|region| region.addresses.end <= address);
    regions
        .get(index)
        .filter(|region| region.addresses.contains(&address))
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, some of which are short"
)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_understood_with_and_without_a_name() {
        let text = "55d0-55e0 rw-p 00001000 fe:00 123 /usr/lib/a b.so\n7f00-7f10 rw-p 00000000 00:00 0 \n";
        let found: Vec<_> = mappings(text).map(|m| (m.addresses, m.name.to_owned())).collect();
        assert_eq!(
            found,
            [
                (0x55d0..0x55e0, "/usr/lib/a b.so".to_owned()),
                (0x7f00..0x7f10, String::new())
            ]
        );
    }

    #[test]
    fn what_the_host_keeps_is_cut_out_of_a_mapping() {
        assert_eq!(cut(10..50, &[20..30]), [10..20, 30..50]);
        assert_eq!(cut(10..50, &[0..20, 45..60]), [20..45]);
        assert_eq!(cut(10..50, &[0..60]), Vec::<Addresses>::new());
        assert_eq!(cut(10..50, &[60..70]), [10..50]);
    }

    #[test]
    fn a_mapping_is_divided_where_a_library_ends() {
        assert_eq!(divide(10..50, &[0..20]), [(10..20, true), (20..50, false)]);
        assert_eq!(divide(10..50, &[10..50]), [(10..50, true)]);
        assert_eq!(divide(10..50, &[]), [(10..50, false)]);
    }

    #[test]
    fn memory_is_told_by_its_flags() {
        let smaps = "10-20 rw-p 0 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr dp \n20-30 rw-p 0 00:00 0 \nVmFlags: rd wr \n";
        assert_eq!(flagged(smaps, "dp"), [0x10..0x20]);
        assert_eq!(flagged(smaps, "rd"), [0x10..0x20, 0x20..0x30]);
        assert_eq!(flagged(smaps, "wf"), []);
    }

    #[test]
    fn an_address_is_found_in_its_region() {
        let region = |addresses: Range<usize>| Region {
            addresses,
            first_page: 0,
            kind: Kind::Heap,
            executable: false,
            is_wiped: false,
            is_huge: false,
            name: String::new(),
        };
        let regions = [region(10..20), region(30..40)];
        assert_eq!(at(&regions, 19).map(|r| r.addresses.start), Some(10));
        assert_eq!(at(&regions, 30).map(|r| r.addresses.start), Some(30));
        assert_eq!(at(&regions, 20), None);
        assert_eq!(at(&regions, 40), None);
    }
}
