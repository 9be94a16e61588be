//! What can be asked of a mock cluster: it describes topics, not their settings.

use std::time::Duration;

use super::support::{cluster, mock};
use crate::broker::kafka::{PartitionFacts, Probe};

#[test]
fn topics_are_described() {
    let mock = mock("orders", 2);
    // Settings are asked for in vain.
    let timeout = Duration::from_secs(2);
    let probe = Probe::new(&cluster(&mock.bootstrap_servers()), timeout).unwrap();
    assert_eq!(probe.brokers().unwrap(), 1);
    let topic = probe.topic("orders").unwrap().unwrap();
    let partition = |id| PartitionFacts {
        id,
        has_leader: true,
        replicas: 1,
        in_sync_replicas: 1,
    };
    assert_eq!(topic.partitions, [partition(0), partition(1)]);
    assert!(topic.unwritable().is_empty());
}

#[test]
fn silent_cluster_is_an_error_that_says_where() {
    let probe = Probe::new(&cluster("127.0.0.1:9"), Duration::from_secs(1)).unwrap();
    let error = probe.brokers().unwrap_err();
    assert!(error.detail.contains("127.0.0.1:9"), "{error}");
    assert!(probe.topic("a\0b").is_err());
}
