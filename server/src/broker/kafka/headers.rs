//! Headers as the client library takes them.

use rdkafka::message::{Header, OwnedHeaders};

/// In order, repeats kept, null apart from empty; `None` if there are none.
pub(super) fn owned<V: AsRef<[u8]>>(headers: &[(String, Option<V>)]) -> Option<OwnedHeaders> {
    if headers.is_empty() {
        return None;
    }
    let owned = OwnedHeaders::new_with_capacity(headers.len());
    Some(headers.iter().fold(owned, |owned, (key, value)| {
        let value = value.as_ref().map(AsRef::as_ref);
        owned.insert(Header { key, value })
    }))
}
