//! The ack map as the text that Kafka keeps beside a committed position.
//!
//! **Invariant**: whatever text is found there is a map or a doubt, never a failure:
//! metadata of other programs does not break an assignment.

use std::sync::Arc;

use ackgate_lane::{AckMap, Doubt, MAX_MAP_BYTES, MapStart};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

/// The longest text of a map.
const LONGEST: usize = MAX_MAP_BYTES.div_ceil(3) * 4;

/// A map as text.
pub(super) fn write(map: &[u8]) -> Arc<str> {
    STANDARD_NO_PAD.encode(map).into()
}

/// A map from text.
fn read(text: &str) -> Result<AckMap, Doubt> {
    if text.len() > LONGEST {
        return Err(Doubt::TooLong);
    }
    let bytes = STANDARD_NO_PAD
        .decode(text)
        .map_err(|_not_our_text| Doubt::Magic)?;
    AckMap::decode(&bytes)
}

/// What a lane begins with, of what was committed before.
pub(super) fn restore(metadata: Option<&str>, most_bytes: usize) -> MapStart {
    let (restored, doubt) = match metadata.map(read) {
        None => (None, None),
        Some(Ok(map)) => (Some(map), None),
        Some(Err(doubt)) => (None, Some(doubt)),
    };
    MapStart {
        most_bytes,
        // Kafka's client library does not tell it.
        topic: 0,
        restored,
        doubt,
    }
}

#[cfg(test)]
mod tests {
    use ackgate_lane::{Epoch, Offset, OffsetRange, Position};
    use proptest::prelude::*;

    use super::*;

    fn map() -> AckMap {
        AckMap {
            settled: vec![OffsetRange::one(Offset::new(9))],
            ..AckMap::empty(Position::new(7), Epoch(2), 0)
        }
    }

    fn text() -> Arc<str> {
        write(&map().encode(MAX_MAP_BYTES).expect("room").bytes)
    }

    #[test]
    fn text_comes_back_and_the_largest_map_is_as_long_as_brokers_accept() {
        assert_eq!(read(&text()), Ok(map()));
        assert_eq!(write(&[0; MAX_MAP_BYTES]).len(), LONGEST);
        assert_eq!(LONGEST, 4096);
    }

    #[test]
    fn strange_text_is_a_doubt() {
        let doubt = |text: &str| restore(Some(text), 0).doubt;
        assert_eq!(restore(None, 0).doubt, None);
        assert_eq!(doubt("\u{fffd}"), Some(Doubt::Magic));
        assert_eq!(doubt("{\"connector\":\"sink\"}"), Some(Doubt::Magic));
        assert_eq!(
            doubt("AgAAAA"),
            Some(Doubt::Magic),
            "Kafka Streams writes base64 too"
        );
        assert_eq!(doubt(&"A".repeat(LONGEST + 1)), Some(Doubt::TooLong));
        let cut = text();
        assert!(doubt(&cut[..cut.len() - 2]).is_some());
        let newer = write(b"ag\x09 whatever a newer one says");
        assert_eq!(doubt(&newer), Some(Doubt::Version { found: 9 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_a_map_or_a_doubt(text in any::<String>()) {
            let start = restore(Some(&text), 0);
            prop_assert_eq!(start.restored.is_none(), start.doubt.is_some());
        }
    }
}
