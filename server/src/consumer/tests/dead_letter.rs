//! Dead letters from the lane to the topic: which partition, and in which form.

use std::time::Duration;

use ackgate_lane::Verdict;

use super::{Memory, Order, Peer, configured, eventually, start, start_with};
use crate::{broker::Outgoing, config::LetterPartition};

fn header(letter: &Outgoing, name: &str) -> Option<String> {
    let name = format!("{}{name}", crate::headers::DEAD_LETTER);
    let (_, value) = letter.headers.iter().find(|(key, _)| *key == name)?;
    Some(String::from_utf8_lossy(value.as_deref()?).into_owned())
}

async fn rejected(broker: &Memory) -> Vec<Outgoing> {
    let handle = start(broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    eventually(broker, "the end", |state| {
        state.committed.get(&0) == Some(&1)
    })
    .await;
    broker.with(|state| state.letters.clone())
}

// FC-49.
#[tokio::test(start_paused = true)]
async fn dead_letter_that_is_too_large_loses_the_gateways_headers_first() {
    for (limit, attempts, code, value) in [
        (10_000, true, true, true),
        (1400, true, false, true),
        (1100, false, false, true),
        (900, true, true, false),
    ] {
        let broker = Memory::default();
        broker.append_sized(0, [0], 1000);
        broker.with(|state| state.letters_limit = Some(limit));
        let letters = rejected(&broker).await;
        assert_eq!(letters.len(), 1, "{limit}");
        assert_eq!(
            header(&letters[0], "attempts").is_some(),
            attempts,
            "{limit}"
        );
        assert_eq!(header(&letters[0], "code").is_some(), code, "{limit}");
        assert_eq!(letters[0].value.is_some(), value, "{limit}");
        let omitted = header(&letters[0], "value-omitted");
        assert_eq!(omitted.is_some(), !value, "{limit}");
        assert!(
            omitted.is_none_or(|text| text.contains("1006 bytes")),
            "{limit}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letter_goes_to_its_records_partition_or_wraps_around() {
    for (partitions, partition, expected) in [
        (Some(4), LetterPartition::Same, Some(3)),
        (Some(2), LetterPartition::Same, Some(1)),
        (None, LetterPartition::Same, None),
        (Some(4), LetterPartition::Key, None),
    ] {
        let broker = Memory::default();
        broker.append(3, [0]);
        broker.with(|state| state.letters_partitions = partitions);
        let mut subscription = configured(Order::None);
        if let Some(dead_letter) = &mut subscription.dead_letter {
            dead_letter.copying.partition = partition;
        }
        let handle = start_with(&broker, subscription);
        let mut peer = Peer::attach(&handle, 1, 100).await;
        let lane = peer.records(1).await[0].lane;
        peer.settle(lane, 0, 0, Verdict::Rejected).await;
        eventually(&broker, "a letter", |state| !state.letters.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let letters = broker.with(|state| state.letters.clone());
        assert_eq!(letters.len(), 1);
        assert_eq!(
            letters[0].partition, expected,
            "{partition:?} of {partitions:?}"
        );
    }
}
