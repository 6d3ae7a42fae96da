use proptest::prelude::*;

use super::*;

fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap();
    let mut bytes = vec![1, kind];
    bytes.extend(id.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes.extend([padding, 0]);
    bytes.extend(content);
    bytes.extend(std::iter::repeat_n(7, usize::from(padding)));
    bytes
}

fn taken(bytes: &[u8]) -> Result<Option<Record>, Malformed> {
    take(&mut BytesMut::from(bytes))
}

#[test]
fn a_record_is_taken_without_its_padding() {
    let mut buffer = BytesMut::from(&record(4, 513, b"abc", 5)[..]);
    buffer.extend_from_slice(&record(5, 1, b"", 0));
    let first = take(&mut buffer).unwrap().unwrap();
    assert_eq!(
        (first.kind, first.id, &first.content[..]),
        (Kind::Params, 513, &b"abc"[..])
    );
    let second = take(&mut buffer).unwrap().unwrap();
    assert_eq!((second.kind, second.content.len()), (Kind::Stdin, 0));
    assert_eq!(take(&mut buffer), Ok(None));
}

#[test]
fn what_is_no_record_is_told_by_its_first_byte() {
    for first in [0, 2, b'G', 0x16] {
        assert_eq!(taken(&[first]), Err(Malformed::Version(first)));
    }
    assert_eq!(taken(&[]), Ok(None));
    assert_eq!(taken(&[1, 1, 0]), Ok(None));
}

#[test]
fn a_request_begins_with_eight_bytes() {
    let table = [
        (&[0, 1, 0, 0, 0, 0, 0, 0][..], Ok((1, false))),
        (&[0, 1, 1, 0, 0, 0, 0, 0], Ok((1, true))),
        (&[1, 2, 0xfe, 9, 9, 9, 9, 9], Ok((258, false))),
        (&[0, 1, 0], Err(Malformed::Begin(3))),
        (&[0; 9], Err(Malformed::Begin(9))),
    ];
    for (content, expected) in table {
        let begin = Begin::read(content).map(|begin| (begin.role, begin.keep));
        assert_eq!(begin, expected, "{content:?}");
    }
}

#[test]
fn pairs_whose_lengths_lead_outside_are_refused() {
    let table: [&[u8]; 6] = [
        &[1],
        &[1, 1, b'a'],
        &[0x80, 0, 0],
        &[1, 0x80, 0, 0, 5, b'a', b'b'],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0, 0, 1, 1, b'a'],
    ];
    for bytes in table {
        let last = pairs(bytes).last();
        assert_eq!(last, Some(Err(Malformed::Pair)), "{bytes:?}");
    }
}

#[test]
fn a_length_may_be_written_in_four_bytes_without_need() {
    let bytes = [0x80, 0, 0, 1, 1, b'a', b'b'];
    let all: Vec<_> = pairs(&bytes).collect();
    assert_eq!(all, [Ok((&b"a"[..], &b"b"[..]))]);
}

#[test]
fn long_content_takes_several_records_and_empty_content_none() {
    let content = vec![9; 3 * CONTENT_MAX + 1];
    let mut out = BytesMut::new();
    put_stream(&mut out, Kind::Stdout, 3, &content);
    let mut back = Vec::new();
    let mut records = 0;
    while let Some(record) = take(&mut out).unwrap() {
        assert_eq!((record.kind, record.id), (Kind::Stdout, 3));
        back.extend_from_slice(&record.content);
        records += 1;
    }
    assert_eq!((records, back), (4, content));
    put_stream(&mut out, Kind::Stdout, 3, b"");
    assert!(out.is_empty());
}

#[test]
fn only_known_values_are_told() {
    let known = [
        ("FCGI_MAX_REQS", "7".to_owned()),
        ("FCGI_MPXS_CONNS", "0".to_owned()),
    ];
    let mut asked = BytesMut::new();
    for name in ["FCGI_MPXS_CONNS", "FCGI_MAX_CONNS"] {
        put_pair(&mut asked, name.as_bytes(), b"");
    }
    let mut out = BytesMut::new();
    put_values(&mut out, &asked, &known).unwrap();
    let answer = take(&mut out).unwrap().unwrap();
    assert_eq!((answer.kind, answer.id), (Kind::GetValuesResult, 0));
    let told: Vec<_> = pairs(&answer.content).map(Result::unwrap).collect();
    assert_eq!(told, [(&b"FCGI_MPXS_CONNS"[..], &b"0"[..])]);
    assert_eq!(put_values(&mut out, &[3, 0], &known), Err(Malformed::Pair));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_record_is_read_back(kind: u8, id: u16, padding: u8, content in prop::collection::vec(any::<u8>(), 0..70_000)) {
        let content = content.get(..content.len().min(65_535)).unwrap();
        let bytes = record(kind, id, content, padding);
        let read = taken(&bytes).unwrap().unwrap();
        prop_assert_eq!((read.kind.number(), read.id, &read.content[..]), (kind, id, content));
        for cut in [1, HEADER, bytes.len() - 1] {
            if cut < bytes.len() {
                prop_assert_eq!(taken(&bytes[..cut]), Ok(None));
            }
        }
    }

    #[test]
    fn any_pairs_are_read_back(all in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(any::<u8>(), 0..300)), 0..20)) {
        let mut bytes = BytesMut::new();
        for (name, value) in &all {
            put_pair(&mut bytes, name, value);
        }
        let read: Vec<_> = pairs(&bytes).map(|pair| pair.map(|(n, v)| (n.to_vec(), v.to_vec())).unwrap()).collect();
        prop_assert_eq!(read, all);
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_grow(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut buffer = BytesMut::from(&bytes[..]);
        let mut content = 0;
        while let Ok(Some(record)) = take(&mut buffer) {
            content += HEADER + record.content.len();
        }
        prop_assert!(content <= bytes.len());
        let read: usize = pairs(&bytes).flatten().map(|(name, value)| 2 + name.len() + value.len()).sum();
        prop_assert!(read <= bytes.len());
        let _ = put_values(&mut buffer, &bytes, &[]);
    }
}
