//! Which names of clusters mean the same cluster: those that have a broker in common.

use std::collections::HashMap;

use crate::config::Cluster;

/// A cluster as Kafka's groups see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place(usize);

/// The places of all names.
#[derive(Debug)]
pub(super) struct Places(HashMap<String, Place>);

impl Places {
    pub(super) fn of(clusters: &[Cluster]) -> Self {
        let mut places: Vec<usize> = (0..clusters.len()).collect();
        for (at, cluster) in clusters.iter().enumerate() {
            for (before, other) in clusters.iter().enumerate().take(at) {
                let shared = |broker| other.bootstrap.contains(broker);
                let (Some(&mine), Some(&theirs)) = (places.get(at), places.get(before)) else {
                    continue;
                };
                if cluster.bootstrap.iter().any(shared) {
                    for place in &mut places {
                        if *place == mine {
                            *place = theirs;
                        }
                    }
                }
            }
        }
        let names = clusters.iter().map(|cluster| cluster.name.clone());
        Self(names.zip(places.into_iter().map(Place)).collect())
    }

    /// Where the cluster of this name is; `None` if there is none.
    pub(super) fn find(&self, name: &str) -> Option<Place> {
        self.0.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_broker_in_common_are_one_place() {
        let cluster = |name: &str, brokers: &[&str]| Cluster {
            name: name.to_owned(),
            bootstrap: brokers.iter().map(|&broker| broker.to_owned()).collect(),
            properties: Vec::new(),
        };
        let places = Places::of(&[
            cluster("a", &["x:1", "y:1"]),
            cluster("b", &["z:1"]),
            cluster("c", &["z:1", "y:1"]),
            cluster("d", &["x:2"]),
        ]);
        let of = |name| places.find(name);
        assert_eq!((of("a"), of("b")), (of("c"), of("c")));
        assert_ne!(of("a"), of("d"));
        assert_eq!(of("e"), None);
    }
}
