//! What dead letters carry, where they go, and whether their topic is made.

use super::{load_with, messages, with};
use crate::config::{Alias, Copying, Creation, LetterPartition};

const TOPIC: &str = "dead_letter.topic = \"orders.dead\"\n";

fn copying(lines: &str) -> Copying {
    let config = load_with(&with(TOPIC, &format!("{TOPIC}{lines}")), &[]).expect("it is valid");
    let dead_letter = config.subscriptions[0].dead_letter.as_ref();
    dead_letter.expect("it has one").copying.clone()
}

fn complaint(lines: &str) -> Vec<String> {
    messages(&with(TOPIC, &format!("{TOPIC}{lines}")), &[])
}

#[test]
fn copies_are_plain_unless_told_otherwise() {
    let plain = Copying {
        aliases: Vec::new(),
        partition: LetterPartition::Same,
        create: None,
    };
    assert_eq!(copying(""), plain);
    let all = "dead_letter.aliases = [\"share\", \"connect\", \"share\", \"spring\", \"streams\"]\n\
               dead_letter.partition = \"key\"\ndead_letter.create = true\n\
               dead_letter.partitions = 3\ndead_letter.replication = 2\n";
    let told = Copying {
        aliases: vec![Alias::Connect, Alias::Streams, Alias::Spring, Alias::Share],
        partition: LetterPartition::Key,
        create: Some(Creation {
            partitions: Some(3),
            replication: Some(2),
        }),
    };
    assert_eq!(copying(all), told);
}

#[test]
fn unknown_alias_names_those_there_are() {
    let wrong = complaint("dead_letter.aliases = [\"connect\", \"camel\"]\n");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(
        wrong[0].contains("must be a list of \"connect\", \"streams\", \"spring\" or \"share\""),
        "{wrong:?}"
    );
}

#[test]
fn shape_of_a_topic_that_is_not_made_is_a_mistake() {
    let wrong = complaint("dead_letter.partitions = 3\ndead_letter.replication = 2\n");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    for (line, key) in wrong.iter().zip(["partitions", "replication"]) {
        assert!(line.contains(&format!("dead_letter.{key}")), "{line}");
        assert!(
            line.contains("dead_letter.create = true only: no topic is made"),
            "{line}"
        );
    }
    let none = complaint("dead_letter.create = true\ndead_letter.partitions = 0\n");
    assert_eq!(none.len(), 1, "{none:?}");
}
