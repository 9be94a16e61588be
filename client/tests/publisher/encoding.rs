//! Values made from what the program has.

use std::time::{Duration, UNIX_EPOCH};

use ackgate_client::Outgoing;
use serde::Serialize;

#[derive(Serialize)]
struct Order<'a> {
    id: u32,
    item: Option<&'a str>,
}

#[test]
fn json_is_compact_and_none_is_no_tombstone() {
    let order = Order {
        id: 7,
        item: Some("né"),
    };
    let record = Outgoing::json("orders", &order).unwrap();
    assert_eq!(
        record,
        Outgoing::new("orders", "{\"id\":7,\"item\":\"né\"}")
    );
    let none = Outgoing::json("orders", &None::<u8>).unwrap();
    assert_eq!(none, Outgoing::new("orders", "null"));
    assert_ne!(none, Outgoing::tombstone("orders"));
}

#[test]
fn message_pack_names_its_fields() {
    let order = Order { id: 7, item: None };
    let record = Outgoing::msgpack("orders", &order).unwrap();
    // A map of two: "id" 7, "item" nil.
    let bytes = b"\x82\xa2id\x07\xa4item\xc0";
    assert_eq!(record, Outgoing::new("orders", &bytes[..]));
}

#[test]
fn what_cannot_be_encoded_is_an_error_that_names_the_topic() {
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = Outgoing::json("orders", &map).unwrap_err();
    assert_eq!((error.topic.as_str(), error.format), ("orders", "JSON"));
    assert!(
        error.to_string().contains("key must be a string"),
        "{error}"
    );
}

#[test]
fn missing_idempotency_key_is_null_and_never_a_text() {
    let with = |key: Option<&str>| Outgoing::new("orders", "v").idempotency_key(key);
    assert_eq!(with(None), Outgoing::new("orders", "v"));
    assert_eq!(with(Some("")), Outgoing::new("orders", "v").key(""));
    assert_eq!(with(Some("None")), Outgoing::new("orders", "v").key("None"));
    // The last word counts.
    assert_eq!(with(Some("a")).idempotency_key(None), with(None));
}

#[test]
fn time_is_in_milliseconds_and_after_1970_began() {
    let at = |time| Outgoing::new("orders", "v").timestamp(time);
    let time = UNIX_EPOCH + Duration::from_micros(1_234_567);
    assert_eq!(at(time), Outgoing::new("orders", "v").timestamp_ms(1_234));
    let before = UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(at(before), Outgoing::new("orders", "v").timestamp_ms(1));
}
