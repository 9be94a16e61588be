//! Input of every shape, good and bad.

use super::*;

fn items(input: &[u8], shape: &Shape) -> Vec<(u64, Item)> {
    let (sender, mut receiver) = mpsc::channel(1000);
    let mut outlet = Outlet::new(sender);
    stream(BufReader::with_capacity(7, input), shape, &mut outlet).unwrap();
    outlet.flush();
    drop(outlet);
    let mut items = Vec::new();
    while let Some(handover) = receiver.blocking_recv() {
        items.extend(handover.items);
    }
    items
}

fn record(key: Option<&[u8]>, value: &[u8]) -> Item {
    Item::Record(Box::new(Draft {
        key: key.map(|key| Some(key.to_vec())),
        value: Some(value.to_vec()),
        ..Draft::default()
    }))
}

#[test]
fn each_line_is_a_record_byte_for_byte() {
    let items = items(b"one\n\ntw\xff o\r\nlast", &Shape::Lines);
    let expected = [&b"one"[..], b"", b"tw\xff o\r", b"last"].map(|value| record(None, value));
    assert_eq!(items, (1..).zip(expected).collect::<Vec<_>>());
}

#[test]
fn last_line_may_end_with_a_newline_and_nothing_is_no_record() {
    assert_eq!(items(b"one\n", &Shape::Lines), [(1, record(None, b"one"))]);
    assert_eq!(items(b"", &Shape::Lines), []);
}

#[test]
fn key_ends_at_the_first_separator_and_a_line_without_one_is_bad() {
    let shape = Shape::KeyedLines(b"::".to_vec());
    assert_eq!(
        items(b"k::v::w\n::v\nk::\nnone\n", &shape),
        [
            (1, record(Some(b"k"), b"v::w")),
            (2, record(Some(b""), b"v")),
            (3, record(Some(b"k"), b"")),
            (4, Item::Bad("has no key separator".to_owned())),
        ]
    );
}

#[test]
fn objects_keep_their_line_numbers_over_empty_lines_and_bad_ones() {
    let input = b"{\"value\":\"a\"}\n\n  \r\n{\"value\":\n{\"key\":\"k\",\"value\":\"b\"}";
    let found = items(input, &Shape::Objects);
    assert_eq!(found[0], (1, record(None, b"a")));
    assert!(matches!(&found[1], (4, Item::Bad(why)) if why.contains("EOF")));
    assert_eq!(found[2..], [(5, record(Some(b"k"), b"b"))]);
}

#[test]
fn whole_input_is_one_record_even_when_empty() {
    assert_eq!(
        items(b"a\nb\n", &Shape::Whole),
        [(1, record(None, b"a\nb\n"))]
    );
    assert_eq!(items(b"", &Shape::Whole), [(1, record(None, b""))]);
}

#[test]
fn line_that_is_too_long_is_bad_and_the_next_is_read() {
    let mut input = vec![b'x'; MAX_RECORD + 1];
    input.extend_from_slice(b"xx\nnext\n");
    let found = items(&input, &Shape::Lines);
    assert!(
        matches!(&found[0], (1, Item::Bad(why)) if why.contains("longer")),
        "not refused"
    );
    assert_eq!(found[1..], [(2, record(None, b"next"))]);
    let mut fits = vec![b'x'; MAX_RECORD];
    fits.push(b'\n');
    assert_eq!(items(&fits, &Shape::Lines).len(), 1);
}

#[test]
fn reading_ends_when_nobody_takes_any_more() {
    let (sender, receiver) = mpsc::channel(1);
    let mut outlet = Outlet::new(sender);
    drop(receiver);
    let endless = BufReader::new(io::repeat(b'\n'));
    stream(endless, &Shape::Lines, &mut outlet).unwrap();
    assert!(!outlet.open);
}

#[test]
fn reading_waits_for_those_who_take() {
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    let thread = thread::spawn(move || {
        let mut outlet = Outlet::new(sender);
        let endless = BufReader::new(io::repeat(b'\n'));
        stream(endless, &Shape::Lines, &mut outlet).unwrap();
        outlet.number
    });
    let taken = receiver.blocking_recv().unwrap().items.len();
    drop(receiver);
    let read = usize::try_from(thread.join().unwrap()).unwrap();
    // What was taken, what waited, and what was in its hand.
    assert_eq!(taken, BATCH_RECORDS);
    assert!(read <= (AHEAD + 2) * BATCH_RECORDS, "{read}");
}

#[test]
fn file_that_is_missing_or_a_directory_is_refused_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = Source::all(&[missing]).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(Source::all(&[folder.path().to_owned()]).is_err());
    assert!(Source::all(&["-".into(), "-".into()]).is_err());
    assert_eq!(Source::all(&[]).unwrap(), [Source::Stdin]);
}

#[test]
fn items_say_which_source_they_are_from() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    for path in &paths {
        std::fs::write(path, "1\n2\n").unwrap();
    }
    let mut read = read(Source::all(&paths).unwrap(), Shape::Lines).unwrap();
    let mut seen = Vec::new();
    while let Some(Handover { source, items }) = read.blocking_recv() {
        seen.extend(items.into_iter().map(|(number, _)| (source, number)));
    }
    assert_eq!(seen, [(0, 1), (0, 2), (1, 1), (1, 2)]);
}
